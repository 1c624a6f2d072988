//! A sign-in in progress: the URL for the browser, and the response from it.

use std::time::Duration;

use pollux_config::groups::Secret;
use pollux_domain::JsonObject;
use reqwest::Url;
use ring::digest::{SHA256, digest};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::callback::{self, Expected, Granted};
use super::discovery::{self, AuthServer, DiscoveryError, RESOURCE_FIELD};
use super::endpoint::{EndpointError, Endpoints, is_loopback};
use super::registration::{ClientIdentity, METHOD_FIELD, RegistrationError};
use super::token::{self, Grant, TokenEndpointError};
use super::{OAuth, OAuthServer, TokenError, scopes};
use crate::credentials::{MCP_SERVICE, OAuthCredentials};
use crate::random::{self, RandomnessError};

/// How long a sign-in may take in all; upstream's number.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);
const CALLBACK_PATH: &str = "/oauth/callback";

/// Why a sign-in failed. No variant contains a secret.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    #[error("could not discover the sign-in URL")]
    Discovery(#[from] DiscoveryError),
    #[error("could not register as a client")]
    Registration(#[from] RegistrationError),
    #[error("invalid sign-in URL")]
    Endpoint(#[from] EndpointError),
    #[error("could not listen on loopback port {port} for the browser's response")]
    Listen { port: u16, source: std::io::Error },
    #[error(transparent)]
    Randomness(#[from] RandomnessError),
    #[error("no response from the browser within {} minutes", TIMEOUT.as_secs() / 60)]
    TimedOut,
    #[error("the sign-in was refused with `{error}`{description}")]
    Denied { error: String, description: String },
    #[error("the response does not belong to the current sign-in")]
    NotTheAnswer,
    #[error("the response is from a different server than the one asked")]
    OtherIssuer,
    #[error("could not exchange the authorization code for a token")]
    Exchange(#[source] TokenEndpointError),
    #[error("could not store the sign-in")]
    Store(#[source] TokenError),
}

impl LoginError {
    /// A hint for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Registration(RegistrationError::Endpoint(_) | RegistrationError::BadDescription(_)) => None,
            Self::Registration(_) => {
                Some("ask the server's operator for a client id, and set it as `oauth.clientId`")
            }
            Self::Listen { .. } => Some("set OAUTH_CALLBACK_PORT to use another port"),
            Self::NotTheAnswer => Some("paste the complete URL that the browser shows after the sign-in"),
            Self::Discovery(DiscoveryError::NoMetadata(_)) => {
                Some("set `oauth.authorizationUrl` and `oauth.tokenUrl`")
            }
            Self::Discovery(_)
            | Self::Endpoint(_)
            | Self::Randomness(_)
            | Self::TimedOut
            | Self::Denied { .. }
            | Self::OtherIssuer
            | Self::Exchange(_)
            | Self::Store(_) => None,
        }
    }
}

/// A sign-in that waits for the user.
pub struct Login {
    oauth: OAuth,
    server: OAuthServer,
    endpoints: Endpoints,
    found: AuthServer,
    client: ClientIdentity,
    verifier: Secret,
    redirect_uri: String,
    url: String,
    expected: Expected,
    /// Empty when the answer can only be pasted.
    listeners: Vec<TcpListener>,
    until: Instant,
}

impl OAuth {
    /// Finds out where to sign in, registers if need be, and listens for the answer. Nothing is opened.
    ///
    /// `challenge` is the `WWW-Authenticate` header of a refusal, if there was one.
    pub async fn begin_login(
        &self,
        server: &OAuthServer,
        challenge: Option<&str>,
    ) -> Result<Login, LoginError> {
        let endpoints = Endpoints::new(&self.options.client, server)?;
        let mut found = discovery::discover(&endpoints, server, challenge).await?;
        let Some(place) = found.authorization_url.clone() else {
            let issuer = found.issuer.unwrap_or(found.resource);
            return Err(DiscoveryError::NoMetadata(issuer).into());
        };
        // A server that wanted wider rights once wants them still.
        let earlier = self.wanted_scopes(server).await;
        scopes::add(&mut found.scopes, earlier);
        let (listeners, redirect_uri) = self.way_back(server).await?;
        let described_at = self.options.client_metadata_url.as_deref();
        let client =
            ClientIdentity::obtain(&endpoints, &server.config, described_at, &found, &redirect_uri).await?;
        let verifier = Secret::new(random::text::<64>()?);
        let state = random::text::<16>()?;
        let url = authorization_url(place, &found, server, &client, &redirect_uri, &verifier, &state);
        let path = Url::parse(&redirect_uri).map(|url| url.path().to_owned());
        let expected = Expected {
            path: path.unwrap_or_else(|_| CALLBACK_PATH.to_owned()),
            state,
            issuer: found.issuer.clone(),
            names_issuer: found.names_issuer,
        };
        Ok(Login {
            oauth: self.clone(),
            server: server.clone(),
            endpoints,
            found,
            client,
            verifier,
            redirect_uri,
            url,
            expected,
            listeners,
            until: Instant::now() + TIMEOUT,
        })
    }

    /// The redirect URI. With a configured one on another host, the user has to paste the response.
    async fn way_back(&self, server: &OAuthServer) -> Result<(Vec<TcpListener>, String), LoginError> {
        let configured = server.config.redirect_uri.as_deref();
        let parsed = configured.and_then(|text| Url::parse(text).ok());
        if let (Some(text), Some(url)) = (configured, &parsed)
            && !is_loopback(url)
        {
            return Ok((Vec::new(), text.to_owned()));
        }
        let named = parsed.as_ref().and_then(Url::port);
        let port = self.options.callback_port.or(named).unwrap_or(0);
        let (listeners, port) =
            callback::listen(port).await.map_err(|source| LoginError::Listen { port, source })?;
        let usual = format!("http://localhost:{port}{CALLBACK_PATH}");
        Ok((listeners, configured.map_or(usual, str::to_owned)))
    }
}

impl Login {
    /// The address for the browser.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The rights that are asked for; the server's usual ones if empty.
    pub fn scopes(&self) -> &[String] {
        &self.found.scopes
    }

    /// Where the browser is sent afterwards.
    pub fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    /// Waits for the browser's response, five minutes from the beginning. May be dropped and asked again.
    pub async fn browser(&mut self) -> Result<Granted, LoginError> {
        tokio::time::timeout_at(self.until, callback::wait(&self.listeners, &self.expected))
            .await
            .unwrap_or(Err(LoginError::TimedOut))
    }

    /// Reads the pasted text: the final URL of the browser, its query, or the code alone.
    pub fn pasted(&self, text: &str) -> Result<Granted, LoginError> {
        self.expected.pasted(text)
    }

    /// Exchanges the grant for a token, stores it and reads it back.
    pub async fn finish(self, granted: Granted) -> Result<(), LoginError> {
        let grant =
            Grant::Code { code: &granted.code, verifier: &self.verifier, redirect_uri: &self.redirect_uri };
        let (config, resource) = (&self.server.config, &self.found.resource);
        let audience = config.audiences.join(" ");
        let fresh =
            token::ask(&self.endpoints, &self.found.token_url, &grant, &self.client, &audience, resource)
                .await
                .map_err(LoginError::Exchange)?;
        let now = self.oauth.now();
        let mut token = fresh.into_token(now);
        // A response without scopes grants the requested ones (RFC 6749, 5.1).
        token.scope = token.scope.or_else(|| scopes::joined(&self.found.scopes));
        let mut other = JsonObject::new();
        other.insert(RESOURCE_FIELD.to_owned(), resource.clone().into());
        other.insert(METHOD_FIELD.to_owned(), self.client.method.as_str().into());
        let credentials = OAuthCredentials {
            server_name: self.server.name.clone(),
            token,
            client_id: Some(self.client.id.clone()),
            client_secret: self.client.secret.clone().filter(|_| config.client_secret.is_none()),
            token_url: Some(self.found.token_url.to_string()),
            mcp_server_url: Some(self.server.url.to_string()),
            updated_at: now,
            other,
        };
        let stored = credentials.clone();
        let store = move |store: &crate::credentials::CredentialStore| {
            store.set_credentials(MCP_SERVICE, &stored).map(drop)
        };
        self.oauth.with_store(&self.server, store).await.map_err(LoginError::Store)?;
        self.oauth.remember(&self.server, Some(credentials));
        Ok(())
    }
}

fn authorization_url(
    mut url: Url,
    found: &AuthServer,
    server: &OAuthServer,
    client: &ClientIdentity,
    redirect_uri: &str,
    verifier: &Secret,
    state: &str,
) -> String {
    let challenge = random::url_safe(digest(&SHA256, verifier.reveal().as_bytes()).as_ref());
    {
        let mut query = url.query_pairs_mut();
        query
            .append_pair("client_id", &client.id)
            .append_pair("response_type", "code")
            .append_pair("redirect_uri", redirect_uri)
            .append_pair("state", state)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        if !found.scopes.is_empty() {
            query.append_pair("scope", &found.scopes.join(" "));
        }
        if !server.config.audiences.is_empty() {
            query.append_pair("audience", &server.config.audiences.join(" "));
        }
        query.append_pair("resource", &found.resource);
    }
    url.to_string()
}
