//! Credentials for remote MCP servers: the interface between transports and sign-in.

use std::path::PathBuf;
use std::sync::Arc;

use pollux_config::env::Env;
use pollux_domain::BoxFuture;
use pollux_domain::approval::Person;
use pollux_domain::time::Clock;
use pollux_net::client::{ClientOptions, client};
use pollux_net::google::{GoogleTokens, find_credentials};
use pollux_net::oauth::{OAuth, OAuthServer};
use pollux_net::server_access::ServerAccess;
use reqwest::Url;
use reqwest::header::HeaderMap;
use tokio_util::sync::CancellationToken;

use crate::config::{Link, ServerConfig};
use crate::problem::describe;
use crate::rights::{self, Rights};

/// Provides credentials for requests to a server.
pub trait Access: Send + Sync {
    /// Headers for the next request; empty if not signed in.
    fn headers(&self) -> BoxFuture<'_, Result<HeaderMap, AccessError>>;

    /// The server refused the credentials (401); returns whether [`Self::headers`] now has better ones.
    fn refused<'a>(&'a self, sent: &'a HeaderMap) -> BoxFuture<'a, Result<bool, AccessError>>;

    /// The server requires more scopes (403, with this challenge); `person` may be asked to grant them.
    fn widen<'a>(
        &'a self,
        _challenge: &'a str,
        _person: Option<&'a dyn Person>,
        _cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Rights, AccessError>> {
        Box::pin(std::future::ready(Ok(Rights::Refused)))
    }
}

/// Why no credentials are available.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct AccessError(pub String);

/// The sign-in options.
pub struct SignIn {
    pub oauth: OAuth,
    pub env: Env,
    pub user_home: PathBuf,
    pub http: ClientOptions,
    pub clock: Arc<dyn Clock>,
}

impl SignIn {
    /// The sign-in method of a server; `None` for a local program.
    pub fn access(&self, config: &ServerConfig) -> Option<Arc<dyn Access>> {
        let server = oauth_server(config)?;
        let made = match config.auth.provider.as_deref() {
            None | Some("dynamic_discovery") => Ok(ServerAccess::oauth(self.oauth.clone(), server)),
            Some("google_credentials") => self.google(config).and_then(|tokens| {
                let project = header(config, "x-goog-user-project");
                ServerAccess::google(tokens, &server.url, project).map_err(|error| describe(&error))
            }),
            Some("service_account_impersonation") => self.google(config).and_then(|tokens| {
                let word = |text: &Option<String>| text.clone().unwrap_or_default();
                let (account, audience) =
                    (word(&config.auth.target_service_account), word(&config.auth.target_audience));
                ServerAccess::impersonation(tokens, &account, &audience).map_err(|error| describe(&error))
            }),
            Some(other) => Err(format!(
                "invalid `authProviderType` `{other}` (expected `dynamic_discovery`, `google_credentials` or `service_account_impersonation`)"
            )),
        };
        Some(match made {
            Ok(access) => Arc::new(access),
            Err(problem) => Arc::new(Unusable(AccessError(problem))),
        })
    }

    fn google(&self, config: &ServerConfig) -> Result<GoogleTokens, String> {
        let found = find_credentials(&self.env, &self.user_home).map_err(|error| describe(&error))?;
        let http = client(&self.http).map_err(|error| describe(&error))?;
        Ok(GoogleTokens::new(found, config.auth.oauth.scopes.clone(), http, Arc::clone(&self.clock)))
    }
}

/// The server as `net` knows it, for signing in.
pub fn oauth_server(config: &ServerConfig) -> Option<OAuthServer> {
    Some(OAuthServer {
        name: config.name.clone(),
        url: Url::parse(config.url()?).ok()?,
        config: config.auth.oauth.clone(),
    })
}

fn header(config: &ServerConfig, name: &str) -> Option<String> {
    let (Link::Http { headers, .. } | Link::Sse { headers, .. }) = &config.link else { return None };
    let found = headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some(found.1.reveal().to_owned())
}

impl Access for ServerAccess {
    fn headers(&self) -> BoxFuture<'_, Result<HeaderMap, AccessError>> {
        Box::pin(async { ServerAccess::headers(self).await.map_err(|error| AccessError(describe(&error))) })
    }

    fn refused<'a>(&'a self, sent: &'a HeaderMap) -> BoxFuture<'a, Result<bool, AccessError>> {
        Box::pin(async {
            ServerAccess::refused(self, sent).await.map_err(|error| AccessError(describe(&error)))
        })
    }

    fn widen<'a>(
        &'a self,
        challenge: &'a str,
        person: Option<&'a dyn Person>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Rights, AccessError>> {
        match self.sign_in() {
            Some((oauth, server)) => rights::widen(oauth, server, challenge, person, cancel),
            None => Box::pin(std::future::ready(Ok(Rights::Refused))),
        }
    }
}

/// Settings that cannot work; every request says why.
struct Unusable(AccessError);

impl Access for Unusable {
    fn headers(&self) -> BoxFuture<'_, Result<HeaderMap, AccessError>> {
        Box::pin(std::future::ready(Err(self.0.clone())))
    }

    fn refused<'a>(&'a self, _sent: &'a HeaderMap) -> BoxFuture<'a, Result<bool, AccessError>> {
        Box::pin(std::future::ready(Ok(false)))
    }
}
