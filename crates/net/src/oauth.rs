//! OAuth 2.1 sign-in to servers: obtains, stores and refreshes tokens.
//!
//! No user interaction happens here: [`OAuth::begin_login`] returns a URL, the caller
//! opens it, and the response comes back over loopback or is pasted by the user ([`login::Login`]). For unattended
//! grant types ([`GrantType`]), [`OAuth::valid_token`] gets the first token automatically.

mod callback;
mod discovery;
mod endpoint;
mod login;
mod registration;
mod scopes;
mod token;
mod unattended;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use pollux_config::files::FileLock;
use pollux_config::groups::Secret;
use pollux_domain::BoxFuture;
use pollux_domain::sync::Locked as _;
use pollux_domain::time::Clock;
use reqwest::Url;

use crate::client::ClientOptions;
use crate::credentials::{CredentialError, CredentialStore, MCP_SERVICE, OAuthCredentials, Removal};
use endpoint::Endpoints;
use registration::ClientIdentity;
use token::{Fresh, Grant};

pub(crate) use endpoint::{form, is_loopback, origin};

pub use callback::Granted;
pub use discovery::DiscoveryError;
pub use endpoint::EndpointError;
pub use login::{Login, LoginError};
pub use registration::RegistrationError;
pub use scopes::WiderScopes;
pub use token::TokenEndpointError;
pub use unattended::{IdentityProvider, UnattendedError};

/// How the first token is obtained.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum GrantType {
    /// The user signs in.
    #[default]
    AuthorizationCode,
    /// The program authenticates itself with a secret or a key.
    ClientCredentials,
    /// The user's organisation vouches for them (enterprise-managed authorization).
    CrossApp,
}

impl GrantType {
    /// Whether the grant works without the user.
    pub fn is_unattended(self) -> bool {
        self != Self::AuthorizationCode
    }
}

/// The `oauth` block of a server's settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OAuthConfig {
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    pub authorization_url: Option<String>,
    pub token_url: Option<String>,
    pub issuer: Option<String>,
    pub registration_url: Option<String>,
    pub redirect_uri: Option<String>,
    pub scopes: Vec<String>,
    pub audiences: Vec<String>,
    pub grant: GrantType,
    /// The client's private key in PEM, for sign-ins without user interaction.
    pub private_key: Option<Secret>,
    /// The same, in a file.
    pub private_key_file: Option<PathBuf>,
    pub key_id: Option<String>,
    pub identity_provider: Option<IdentityProvider>,
}

/// A server with sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuthServer {
    pub name: String,
    pub url: Url,
    pub config: OAuthConfig,
}

/// Options of sign-in.
pub struct OAuthOptions {
    pub client: ClientOptions,
    pub store: Arc<CredentialStore>,
    pub clock: Arc<dyn Clock>,
    /// `OAUTH_CALLBACK_PORT`; a free one if none is named.
    pub callback_port: Option<u16>,
    /// An address that describes this client, for servers that read such descriptions.
    pub client_metadata_url: Option<String>,
}

/// The sign-ins of one program; cheap to clone.
#[derive(Clone)]
pub struct OAuth {
    options: Arc<OAuthOptions>,
    /// Tokens already read or refreshed, because the store is slow.
    known: Arc<Mutex<HashMap<String, OAuthCredentials>>>,
    /// Scope requests that were already handled.
    widened: Arc<Mutex<HashSet<String>>>,
}

/// Why no token is available now. Nothing stored was lost.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("could not use the stored sign-in for `{server}`")]
    Store { server: String, source: CredentialError },
    #[error("could not refresh the sign-in for `{server}`")]
    Renewal { server: String, source: TokenEndpointError },
    #[error("invalid token URL for `{server}`")]
    Endpoint { server: String, source: EndpointError },
    #[error("could not get a token for `{server}`")]
    Unattended { server: String, source: UnattendedError },
    #[error("the sign-in for `{server}` was interrupted")]
    Interrupted { server: String },
}

impl OAuth {
    /// Touches nothing.
    pub fn new(options: OAuthOptions) -> Self {
        Self { options: Arc::new(options), known: Arc::default(), widened: Arc::default() }
    }

    /// The stored token if valid, otherwise a refreshed one. `None` if sign-in is required.
    pub fn valid_token<'a>(
        &'a self,
        server: &'a OAuthServer,
    ) -> BoxFuture<'a, Result<Option<Secret>, TokenError>> {
        Box::pin(async move {
            let now = self.now();
            if let Some(known) = self.known(server)
                && !known.token.is_expired(now)
            {
                return Ok(Some(known.token.access_token));
            }
            if server.config.grant.is_unattended() {
                return self.acquire(server, None).await.map(Some);
            }
            match self.stored(server).await? {
                None => Ok(None),
                Some(found) if !found.token.is_expired(now) => {
                    self.remember(server, Some(found.clone()));
                    Ok(Some(found.token.access_token))
                }
                Some(found) => self.renew(server, &found.token.access_token).await,
            }
        })
    }

    /// A new token after the server refused one. `None` if sign-in is required.
    pub async fn replace_refused(
        &self,
        server: &OAuthServer,
        refused: &Secret,
    ) -> Result<Option<Secret>, TokenError> {
        if server.config.grant.is_unattended() {
            // Another request may have got a new one already.
            let other = self.known(server).filter(|known| known.token.access_token != *refused);
            return match other {
                Some(known) => Ok(Some(known.token.access_token)),
                None => self.acquire(server, None).await.map(Some),
            };
        }
        self.remember(server, None);
        self.renew(server, refused).await
    }

    /// Whether anything is stored for the server.
    pub async fn has_token(&self, server: &OAuthServer) -> bool {
        self.known(server).is_some() || matches!(self.stored(server).await, Ok(Some(_)))
    }

    /// Removes the sign-in from every place that can be reached.
    pub async fn forget(&self, server: &OAuthServer) -> Result<Removal, TokenError> {
        self.remember(server, None);
        let name = server.name.clone();
        self.with_store(server, move |store| Ok(store.delete_credentials(MCP_SERVICE, &name))).await
    }

    /// One renewal at a time over all processes, because a server may take each renewal token only once.
    async fn renew(&self, server: &OAuthServer, refused: &Secret) -> Result<Option<Secret>, TokenError> {
        let target = self.options.store.renewal_lock(&server.name);
        // Without a lock (read-only home, a holder that hangs) the renewal is still worth a try.
        let lock = tokio::task::spawn_blocking(move || FileLock::acquire(&target).ok()).await.ok();
        let renewed = self.renew_locked(server, refused).await;
        drop(lock);
        renewed
    }

    async fn renew_locked(
        &self,
        server: &OAuthServer,
        refused: &Secret,
    ) -> Result<Option<Secret>, TokenError> {
        let Some(found) = self.stored(server).await? else { return Ok(None) };
        if found.token.access_token != *refused && !found.token.is_expired(self.now()) {
            // Another process has already refreshed it.
            self.remember(server, Some(found.clone()));
            return Ok(Some(found.token.access_token));
        }
        let Some(fresh) = self.ask_for_renewal(server, &found).await? else { return Ok(None) };
        let renewed = fresh.merged_into(found, self.now());
        let access_token = renewed.token.access_token.clone();
        self.remember(server, Some(renewed.clone()));
        self.with_store(server, move |store| store.set_credentials(MCP_SERVICE, &renewed).map(drop)).await?;
        Ok(Some(access_token))
    }

    async fn ask_for_renewal(
        &self,
        server: &OAuthServer,
        found: &OAuthCredentials,
    ) -> Result<Option<Fresh>, TokenError> {
        let client = ClientIdentity::stored(&server.config, found);
        let token_url = server.config.token_url.as_ref().or(found.token_url.as_ref());
        let (Some(refresh_token), Some(client), Some(token_url)) =
            (&found.token.refresh_token, client, token_url)
        else {
            return Ok(None);
        };
        let endpoint_error = |source| TokenError::Endpoint { server: server.name.clone(), source };
        let endpoints = Endpoints::new(&self.options.client, server).map_err(endpoint_error)?;
        let token_url = endpoints.check(token_url).map_err(endpoint_error)?;
        let grant = Grant::Renewal { refresh_token };
        let resource = discovery::resource_of(found, server);
        let audience = server.config.audiences.join(" ");
        match token::ask(&endpoints, &token_url, &grant, &client, &audience, &resource).await {
            Ok(fresh) => Ok(Some(fresh)),
            // The server rejected this sign-in; the entry stays until a new one replaces it.
            Err(error) if error.is_final() => Ok(None),
            Err(source) => Err(TokenError::Renewal { server: server.name.clone(), source }),
        }
    }

    /// The stored sign-in, if it was made for this very address.
    async fn stored(&self, server: &OAuthServer) -> Result<Option<OAuthCredentials>, TokenError> {
        let name = server.name.clone();
        let found = self.with_store(server, move |store| store.credentials(MCP_SERVICE, &name)).await?;
        let same_place = |found: &OAuthCredentials| {
            let made_for = found.mcp_server_url.as_deref().map(Url::parse);
            made_for.is_none_or(|made_for| made_for.is_ok_and(|made_for| made_for == server.url))
        };
        Ok(found.filter(same_place).filter(|found| !found.is_spent(self.now())))
    }

    async fn with_store<T: Send + 'static>(
        &self,
        server: &OAuthServer,
        work: impl FnOnce(&CredentialStore) -> Result<T, CredentialError> + Send + 'static,
    ) -> Result<T, TokenError> {
        let store = Arc::clone(&self.options.store);
        match tokio::task::spawn_blocking(move || work(&store)).await {
            Ok(result) => result.map_err(|source| TokenError::Store { server: server.name.clone(), source }),
            Err(_) => Err(TokenError::Interrupted { server: server.name.clone() }),
        }
    }

    fn known(&self, server: &OAuthServer) -> Option<OAuthCredentials> {
        let known = self.known.locked();
        known.get(&key(server)).cloned()
    }

    fn remember(&self, server: &OAuthServer, credentials: Option<OAuthCredentials>) {
        let mut known = self.known.locked();
        match credentials {
            Some(credentials) => known.insert(key(server), credentials),
            None => known.remove(&key(server)),
        };
    }

    fn now(&self) -> i64 {
        self.options.clock.now().millis()
    }
}

/// A sign-in belongs to a name at an address.
fn key(server: &OAuthServer) -> String {
    format!("{}\n{}", server.name, server.url)
}

#[cfg(test)]
mod tests;
