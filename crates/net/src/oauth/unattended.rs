//! Tokens without user interaction: client credentials, and cross-app access through an identity provider.

use std::path::{Path, PathBuf};

use pollux_config::files::{self, FileError};
use pollux_config::groups::Secret;
use pollux_domain::JsonObject;
use serde_json::json;

use super::discovery::{self, AuthServer, DiscoveryError};
use super::endpoint::{EndpointError, Endpoints};
use super::registration::{ClientIdentity, Method};
use super::token::{self, Grant, TokenEndpointError};
use super::{GrantType, OAuth, OAuthServer, TokenError, scopes};
use crate::credentials::OAuthCredentials;
use crate::jwt::{self, KeyError};
use crate::random::{self, RandomnessError};

/// How long a signed assertion is good for, in seconds.
const ASSERTION_LIFE: i64 = 300;

/// Who an organisation's users sign in to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdentityProvider {
    pub issuer: Option<String>,
    pub token_url: Option<String>,
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    /// The ID token of the user.
    pub id_token: Option<Secret>,
    /// The same, read again each time.
    pub id_token_file: Option<PathBuf>,
}

/// Why no token was issued. No variant contains a secret.
#[derive(Debug, thiserror::Error)]
pub enum UnattendedError {
    #[error("`oauth.clientId` is missing")]
    NoClient,
    #[error("`oauth.clientSecret`, `oauth.privateKey` or `oauth.privateKeyFile` is missing")]
    NoProof,
    #[error(
        "`oauth.identityProvider` needs `clientId`, `issuer` or `tokenUrl`, and `idToken` or `idTokenFile`"
    )]
    NoIdentity,
    #[error(transparent)]
    File(#[from] FileError),
    #[error("`{}` is empty", path.display())]
    EmptyFile { path: PathBuf },
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("could not discover the token URL")]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error("the identity provider refused the token exchange")]
    Exchange(#[source] TokenEndpointError),
    #[error("the identity provider returned a token of an unexpected type")]
    OtherToken,
    #[error("the server refused to issue a token to this client")]
    Refused(#[source] TokenEndpointError),
    #[error(transparent)]
    Randomness(#[from] RandomnessError),
}

impl OAuth {
    /// Requests a token and keeps it in memory only: another process can request its own.
    pub(super) async fn acquire(
        &self,
        server: &OAuthServer,
        challenge: Option<&str>,
    ) -> Result<Secret, TokenError> {
        let credentials = self
            .token_for_program(server, challenge)
            .await
            .map_err(|source| TokenError::Unattended { server: server.name.clone(), source })?;
        let token = credentials.token.access_token.clone();
        self.remember(server, Some(credentials));
        Ok(token)
    }

    async fn token_for_program(
        &self,
        server: &OAuthServer,
        challenge: Option<&str>,
    ) -> Result<OAuthCredentials, UnattendedError> {
        let config = &server.config;
        let id = config.client_id.as_deref().ok_or(UnattendedError::NoClient)?;
        let endpoints = Endpoints::new(&self.options.client, server)?;
        let found = discovery::discover(&endpoints, server, challenge).await?;
        let scope = scopes::joined(&found.scopes).unwrap_or_default();
        let mut client = ClientIdentity::known(id, config.client_secret.as_ref(), &found.auth_methods);
        if let Some(key) = private_key(server)? {
            client.method = Method::Key;
            client.secret = None;
            client.assertion = Some(self.assertion(server, id, &found, &key)?);
        }
        let vouched;
        let grant = match config.grant {
            GrantType::CrossApp => {
                vouched = self.vouched(&endpoints, server, &found, &scope).await?;
                Grant::Assertion { assertion: &vouched, scope: &scope }
            }
            GrantType::AuthorizationCode | GrantType::ClientCredentials => {
                if client.method == Method::None {
                    return Err(UnattendedError::NoProof);
                }
                Grant::Client { scope: &scope }
            }
        };
        let audience = config.audiences.join(" ");
        let fresh = token::ask(&endpoints, &found.token_url, &grant, &client, &audience, &found.resource)
            .await
            .map_err(UnattendedError::Refused)?;
        let now = self.now();
        let mut token = fresh.into_token(now);
        token.scope = token.scope.or(Some(scope).filter(|scope| !scope.is_empty()));
        Ok(OAuthCredentials {
            server_name: server.name.clone(),
            token,
            client_id: Some(id.to_owned()),
            client_secret: None,
            token_url: Some(found.token_url.to_string()),
            mcp_server_url: Some(server.url.to_string()),
            updated_at: now,
            other: JsonObject::new(),
        })
    }

    /// The client assertion, signed with its private key (RFC 7523, section 2.2).
    fn assertion(
        &self,
        server: &OAuthServer,
        id: &str,
        found: &AuthServer,
        key: &Secret,
    ) -> Result<Secret, UnattendedError> {
        let now = self.now() / 1000;
        let audience = found.issuer.clone().unwrap_or_else(|| found.token_url.to_string());
        let claims = json!({
            "iss": id, "sub": id, "aud": audience, "iat": now, "exp": now + ASSERTION_LIFE,
            "jti": random::text::<16>()?,
        });
        Ok(jwt::sign(&claims, key, server.config.key_id.as_deref())?)
    }

    /// What the user's identity provider says to the server's (RFC 8693, with the grant that servers of other
    /// organisations take).
    async fn vouched(
        &self,
        endpoints: &Endpoints,
        server: &OAuthServer,
        found: &AuthServer,
        scope: &str,
    ) -> Result<Secret, UnattendedError> {
        let provider = server.config.identity_provider.as_ref().ok_or(UnattendedError::NoIdentity)?;
        let id = provider.client_id.as_deref().ok_or(UnattendedError::NoIdentity)?;
        let id_token = match (&provider.id_token, &provider.id_token_file) {
            (Some(token), _) => token.clone(),
            (None, Some(path)) => secret_in(path)?,
            (None, None) => return Err(UnattendedError::NoIdentity),
        };
        let (token_url, methods) = match (&provider.token_url, &provider.issuer) {
            (Some(url), _) => (endpoints.check(url)?, Vec::new()),
            (None, Some(issuer)) => {
                let issuer = endpoints.check(issuer)?;
                let document = discovery::metadata(endpoints, &issuer).await?;
                let document = document.ok_or_else(|| DiscoveryError::NoMetadata(issuer.to_string()))?;
                let described = discovery::read(endpoints, &document, &issuer)?;
                (described.token_url, described.auth_methods)
            }
            (None, None) => return Err(UnattendedError::NoIdentity),
        };
        let client = ClientIdentity::known(id, provider.client_secret.as_ref(), &methods);
        // The audience is the server's authorization server, so no other server can use the assertion.
        let audience = found.issuer.clone().unwrap_or_else(|| found.token_url.to_string());
        let grant = Grant::Exchange { id_token: &id_token, scope };
        let fresh = token::ask(endpoints, &token_url, &grant, &client, &audience, &found.resource)
            .await
            .map_err(UnattendedError::Exchange)?;
        fresh.into_grant().ok_or(UnattendedError::OtherToken)
    }
}

fn secret_in(path: &Path) -> Result<Secret, UnattendedError> {
    match files::read_text(path)?.as_deref().map(str::trim) {
        Some(text) if !text.is_empty() => Ok(Secret::new(text)),
        Some(_) | None => Err(UnattendedError::EmptyFile { path: path.to_owned() }),
    }
}

fn private_key(server: &OAuthServer) -> Result<Option<Secret>, UnattendedError> {
    match (&server.config.private_key, &server.config.private_key_file) {
        (Some(key), _) => Ok(Some(key.clone())),
        (None, Some(path)) => secret_in(path).map(Some),
        (None, None) => Ok(None),
    }
}
