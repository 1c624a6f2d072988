//! Authentication headers for requests to servers.

use std::sync::Arc;

use pollux_config::groups::Secret;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use tokio::sync::Mutex;

pub use crate::bearer::{bearer, token_of};
use crate::google::{GoogleError, GoogleTokens};
use crate::oauth::{OAuth, OAuthServer, TokenError};

const USER_PROJECT: HeaderName = HeaderName::from_static("x-goog-user-project");
const IAM: &str = "https://iamcredentials.googleapis.com";
/// An identity token is renewed this long before its end.
const MARGIN_MS: i64 = 5 * 60 * 1000;

/// Why no headers are available now. No variant contains a secret.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error("Host \"{0}\" is not an allowed host for Google Credential provider.")]
    NotGoogle(String),
    #[error("Scopes must be provided in the oauth config for Google Credentials provider")]
    NoScopes,
    #[error("{0} must be provided for the Service Account Impersonation provider")]
    Incomplete(&'static str),
    #[error("the token contains invalid characters")]
    Unsendable,
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Google(#[from] GoogleError),
}

/// Access to one server; cheap to clone.
#[derive(Clone)]
pub struct ServerAccess {
    way: Way,
}

#[derive(Clone)]
enum Way {
    OAuth { oauth: OAuth, server: Arc<OAuthServer> },
    Google { tokens: GoogleTokens, user_project: Option<String> },
    Impersonation(Arc<Impersonation>),
}

struct Impersonation {
    tokens: GoogleTokens,
    iam: String,
    account: String,
    audience: String,
    current: Mutex<Option<(Secret, i64)>>,
}

impl ServerAccess {
    /// With a stored sign-in, if there is one.
    pub fn oauth(oauth: OAuth, server: OAuthServer) -> Self {
        Self { way: Way::OAuth { oauth, server: Arc::new(server) } }
    }

    /// With the user's Google credentials, which only Google's own hosts may see. `user_project` is what the
    /// server's settings name as `x-goog-user-project`.
    pub fn google(
        tokens: GoogleTokens,
        url: &Url,
        user_project: Option<String>,
    ) -> Result<Self, AccessError> {
        let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
        let below =
            |zone: &str| host.strip_suffix(zone).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'));
        if url.scheme() != "https" || !(below("googleapis.com") || below("luci.app") || host == "luci.app") {
            return Err(AccessError::NotGoogle(host));
        }
        if tokens.scopes().is_empty() {
            return Err(AccessError::NoScopes);
        }
        Ok(Self { way: Way::Google { tokens, user_project } })
    }

    /// As a service account, with a token for this audience alone.
    pub fn impersonation(tokens: GoogleTokens, account: &str, audience: &str) -> Result<Self, AccessError> {
        Self::impersonation_at(IAM, tokens, account, audience)
    }

    fn impersonation_at(
        iam: &str,
        tokens: GoogleTokens,
        account: &str,
        audience: &str,
    ) -> Result<Self, AccessError> {
        if audience.is_empty() {
            return Err(AccessError::Incomplete("targetAudience"));
        }
        if account.is_empty() {
            return Err(AccessError::Incomplete("targetServiceAccount"));
        }
        let way = Impersonation {
            tokens,
            iam: iam.to_owned(),
            account: account.to_owned(),
            audience: audience.to_owned(),
            current: Mutex::new(None),
        };
        Ok(Self { way: Way::Impersonation(Arc::new(way)) })
    }

    /// The OAuth sign-in, if the server uses one.
    pub fn sign_in(&self) -> Option<(&OAuth, &OAuthServer)> {
        match &self.way {
            Way::OAuth { oauth, server } => Some((oauth, server)),
            Way::Google { .. } | Way::Impersonation(_) => None,
        }
    }

    /// Headers for a request about to be sent; none when nobody has signed in.
    pub async fn headers(&self) -> Result<HeaderMap, AccessError> {
        let mut headers = HeaderMap::new();
        let token = match &self.way {
            Way::OAuth { oauth, server } => oauth.valid_token(server).await?,
            Way::Google { tokens, user_project } => {
                let payer = user_project.as_deref().or_else(|| tokens.quota_project());
                if let Some(payer) = payer.and_then(|payer| HeaderValue::from_str(payer).ok()) {
                    headers.insert(USER_PROJECT, payer);
                }
                Some(tokens.token().await?)
            }
            Way::Impersonation(way) => Some(way.token().await?),
        };
        if let Some(token) = token {
            headers.insert(AUTHORIZATION, bearer(&token).ok_or(AccessError::Unsendable)?);
        }
        Ok(headers)
    }

    /// The server answered 401 to these headers. True: ask for headers again and try once more.
    pub async fn refused(&self, sent: &HeaderMap) -> Result<bool, AccessError> {
        let Some(token) = sent.get(AUTHORIZATION).and_then(token_of) else { return Ok(false) };
        match &self.way {
            Way::OAuth { oauth, server } => Ok(oauth.replace_refused(server, &token).await?.is_some()),
            Way::Google { tokens, .. } => {
                tokens.discard(&token).await;
                Ok(true)
            }
            Way::Impersonation(way) => {
                *way.current.lock().await = None;
                Ok(true)
            }
        }
    }
}

impl Impersonation {
    async fn token(&self) -> Result<Secret, GoogleError> {
        let mut current = self.current.lock().await;
        let now = self.tokens.now_ms();
        if let Some((token, renew_at)) = current.as_ref()
            && now < *renew_at
        {
            return Ok(token.clone());
        }
        let fresh = self.tokens.identity_token(&self.iam, &self.account, &self.audience).await?;
        let life = i64::try_from(fresh.lifetime.as_millis()).unwrap_or(i64::MAX);
        *current = Some((fresh.secret.clone(), now.saturating_add(life).saturating_sub(MARGIN_MS)));
        Ok(fresh.secret)
    }
}

#[cfg(test)]
mod tests;
