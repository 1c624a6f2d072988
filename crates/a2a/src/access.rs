//! The credentials that a call to a remote agent carries.
//!
//! Sends them only to the origin they belong to; does not run interactive sign-ins.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pollux_config::groups::Secret;
use pollux_domain::BoxFuture;
use pollux_domain::remote_agent::{RemoteAuth, RemoteOAuth};
use pollux_domain::sync::Locked as _;
use pollux_net::client::client;
use pollux_net::google::{CLOUD_PLATFORM, GoogleTokens, find_credentials};
use pollux_net::oauth::{OAuthConfig, OAuthServer};
use pollux_net::server_access::{ServerAccess, token_of};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use tokio::time::timeout;

use crate::agent::Setup;

/// Runs a command of a definition (`!command`) and returns its output.
pub type RunCommand = Arc<dyn Fn(String) -> BoxFuture<'static, Result<String, String>> + Send + Sync>;

/// Time limit of a credential command; upstream's value.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
const API_KEY: &str = "X-API-Key";

/// Why credentials are not available. No message contains a secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AccessError {
    #[error("Environment variable '{0}' is not set or is empty. Please set it before using this agent.")]
    NoVariable(String),
    #[error("Empty command in auth value. Expected format: !command")]
    NoCommand,
    #[error("the credential command printed nothing")]
    Silent,
    #[error("the credential command took longer than {} seconds", COMMAND_LIMIT.as_secs())]
    TooSlow,
    #[error("the credential command failed: {0}")]
    Command(String),
    #[error("the credential contains characters not allowed in the header `{0}`")]
    Unsendable(String),
    #[error(
        "the agent card points to {called}, but the credentials are only for {own}; if this is intended, put the \
         card into the agent's definition (`agent_card_json`)"
    )]
    Elsewhere { own: String, called: String },
    #[error("Google credentials are only sent to https://*.googleapis.com, but this agent is at {0}")]
    NotGoogle(String),
    #[error("not signed in to {0} (oauth), and signing in for agents is not supported")]
    NoSignIn(String),
    #[error("{0}")]
    Source(String),
}

/// The credentials of one agent.
pub(crate) struct Access {
    name: String,
    auth: Option<RemoteAuth>,
    /// The only origin that may receive them; `None` where the definition itself names the URL.
    own: Option<Url>,
    setup: Arc<Setup>,
    way: Mutex<Option<CredentialSource>>,
}

#[derive(Clone)]
enum CredentialSource {
    Fixed(HeaderMap),
    Google(GoogleTokens),
    OAuth(ServerAccess),
}

impl Access {
    pub(crate) fn new(name: &str, auth: Option<RemoteAuth>, own: Option<Url>, setup: Arc<Setup>) -> Self {
        Self { name: name.to_owned(), auth, own, setup, way: Mutex::new(None) }
    }

    /// Whether the definition names any.
    pub(crate) fn is_configured(&self) -> bool {
        self.auth.is_some()
    }

    /// The headers of a request to `url`.
    pub(crate) async fn headers(&self, url: &Url) -> Result<HeaderMap, AccessError> {
        let Some(auth) = &self.auth else { return Ok(HeaderMap::new()) };
        if let Some(own) = self.own.as_ref().filter(|own| own.origin() != url.origin()) {
            let text = |url: &Url| url.origin().ascii_serialization();
            return Err(AccessError::Elsewhere { own: text(own), called: text(url) });
        }
        let known = self.known();
        let way = match known {
            Some(way) => way,
            None => self.remember(self.make(auth, url).await?),
        };
        let access = match way {
            CredentialSource::Fixed(headers) => return Ok(headers),
            CredentialSource::OAuth(access) => access,
            CredentialSource::Google(tokens) => {
                let host = url.origin().ascii_serialization();
                ServerAccess::google(tokens, url, None).map_err(|_| AccessError::NotGoogle(host))?
            }
        };
        let headers = access.headers().await.map_err(|error| source(&error))?;
        if headers.contains_key(AUTHORIZATION) {
            Ok(headers)
        } else {
            Err(AccessError::NoSignIn(url.origin().ascii_serialization()))
        }
    }

    /// Called when the agent refused the credentials: whether [`Self::headers`] now returns different ones.
    pub(crate) async fn refused(&self, sent: &HeaderMap, url: &Url) -> Result<bool, AccessError> {
        let Some(auth) = &self.auth else { return Ok(false) };
        match self.known() {
            Some(CredentialSource::OAuth(access)) => {
                access.refused(sent).await.map_err(|error| source(&error))
            }
            Some(CredentialSource::Google(tokens)) => match sent.get(AUTHORIZATION).and_then(token_of) {
                Some(token) => {
                    tokens.discard(&token).await;
                    Ok(true)
                }
                None => Ok(false),
            },
            // Static credentials are not resent.
            Some(CredentialSource::Fixed(before)) => match self.remember(self.make(auth, url).await?) {
                CredentialSource::Fixed(now) => Ok(now != before),
                CredentialSource::Google(_) | CredentialSource::OAuth(_) => Ok(true),
            },
            None => Ok(false),
        }
    }

    fn known(&self) -> Option<CredentialSource> {
        self.way.locked().clone()
    }

    fn remember(&self, way: CredentialSource) -> CredentialSource {
        *self.way.locked() = Some(way.clone());
        way
    }

    async fn make(&self, auth: &RemoteAuth, url: &Url) -> Result<CredentialSource, AccessError> {
        Ok(CredentialSource::Fixed(match auth {
            RemoteAuth::ApiKey { key, header } => {
                let name = header.as_deref().filter(|name| !name.is_empty()).unwrap_or(API_KEY);
                one(name, &self.value(key).await?)?
            }
            RemoteAuth::Bearer { token } => authorization("Bearer", &self.value(token).await?)?,
            RemoteAuth::Basic { username, password } => {
                let pair = format!("{}:{}", self.value(username).await?, self.value(password).await?);
                authorization("Basic", &STANDARD.encode(pair))?
            }
            RemoteAuth::Scheme { scheme, value } => authorization(scheme, &self.value(value).await?)?,
            RemoteAuth::GoogleCredentials { scopes } => return self.google(scopes),
            RemoteAuth::OAuth(oauth) => return Ok(self.oauth(oauth, url)),
        }))
    }

    fn google(&self, scopes: &[String]) -> Result<CredentialSource, AccessError> {
        let found =
            find_credentials(&self.setup.env, &self.setup.user_home).map_err(|error| source(&error))?;
        let http = client(&self.setup.http).map_err(|error| source(&error))?;
        let scopes = if scopes.is_empty() { vec![CLOUD_PLATFORM.to_owned()] } else { scopes.to_vec() };
        Ok(CredentialSource::Google(GoogleTokens::new(found, scopes, http, Arc::clone(&self.setup.clock))))
    }

    fn oauth(&self, oauth: &RemoteOAuth, url: &Url) -> CredentialSource {
        let config = OAuthConfig {
            client_id: oauth.client_id.clone(),
            client_secret: oauth.client_secret.clone().map(Secret::new),
            authorization_url: oauth.authorization_url.clone(),
            token_url: oauth.token_url.clone(),
            issuer: oauth.issuer.clone(),
            registration_url: oauth.registration_url.clone(),
            redirect_uri: oauth.redirect_uri.clone(),
            scopes: oauth.scopes.clone(),
            audiences: oauth.audiences.clone(),
            ..OAuthConfig::default()
        };
        let url = self.own.clone().unwrap_or_else(|| url.clone());
        let server = OAuthServer { name: self.name.clone(), url, config };
        CredentialSource::OAuth(ServerAccess::oauth(self.setup.oauth.clone(), server))
    }

    /// Resolves a value of a definition.
    async fn value(&self, written: &str) -> Result<String, AccessError> {
        if written.starts_with("$$") || written.starts_with("!!") {
            return Ok(written.chars().skip(1).collect());
        }
        if let Some(name) = written.strip_prefix('$') {
            let found = self.setup.env.non_empty(name).map(str::to_owned);
            return found.ok_or_else(|| AccessError::NoVariable(name.to_owned()));
        }
        let Some(command) = written.strip_prefix('!') else { return Ok(written.to_owned()) };
        let command = command.trim();
        if command.is_empty() {
            return Err(AccessError::NoCommand);
        }
        let printed = timeout(COMMAND_LIMIT, (self.setup.run)(command.to_owned()))
            .await
            .map_err(|_| AccessError::TooSlow)?
            .map_err(AccessError::Command)?;
        let printed = printed.trim();
        if printed.is_empty() { Err(AccessError::Silent) } else { Ok(printed.to_owned()) }
    }
}

fn authorization(scheme: &str, value: &str) -> Result<HeaderMap, AccessError> {
    one(AUTHORIZATION.as_str(), &format!("{scheme} {value}"))
}

fn one(name: &str, value: &str) -> Result<HeaderMap, AccessError> {
    let unsendable = || AccessError::Unsendable(name.to_owned());
    let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unsendable())?;
    let mut value = HeaderValue::from_str(value).map_err(|_| unsendable())?;
    value.set_sensitive(true);
    Ok(HeaderMap::from_iter([(header, value)]))
}

/// An error with its causes, on one line.
fn source(error: &dyn std::error::Error) -> AccessError {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(&format!(": {cause}"));
        next = cause.source();
    }
    AccessError::Source(text)
}
