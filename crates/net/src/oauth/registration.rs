//! The OAuth client: configured in settings, described by a URL, or registered dynamically (RFC 7591).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pollux_config::groups::Secret;
use reqwest::Url;
use reqwest::header::HeaderValue;
use serde_json::{Value, json};

use super::OAuthConfig;
use super::discovery::AuthServer;
use super::endpoint::{EndpointError, Endpoints, form, shown};
use crate::credentials::OAuthCredentials;

/// Servers have this name on their lists; it is upstream's.
const CLIENT_NAME: &str = "Gemini CLI MCP Client";
/// Kept with a sign-in, so that a renewal proves itself in the same way.
pub(super) const METHOD_FIELD: &str = "tokenEndpointAuthMethod";

/// Why a client could not register.
#[derive(Debug, thiserror::Error)]
pub enum RegistrationError {
    #[error("the server does not accept unregistered clients")]
    NotOffered,
    #[error("the registration was refused with status {status}: {text}")]
    Refused { status: u16, text: String },
    #[error("the registration response contains no client id")]
    NoClient,
    #[error("invalid `mcp.clientMetadataUrl` `{0}` (expected an https URL with a path)")]
    BadDescription(String),
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

/// A client with the credentials it uses at the token endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClientIdentity {
    pub(super) id: String,
    pub(super) secret: Option<Secret>,
    pub(super) method: Method,
    /// Signed for the next request, where the client has a key.
    pub(super) assertion: Option<Secret>,
}

/// How a client proves itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    None,
    Post,
    Basic,
    /// With a signed assertion.
    Key,
}

impl Method {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Post => "client_secret_post",
            Self::Basic => "client_secret_basic",
            Self::Key => "private_key_jwt",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::None, Self::Post, Self::Basic].into_iter().find(|method| method.as_str() == word)
    }

    /// The way for a client with or without a secret where the server offers these.
    pub(super) fn choose(offered: &[String], has_secret: bool) -> Self {
        let offers = |method: Self| offered.iter().any(|word| word == method.as_str());
        match has_secret {
            false => Self::None,
            true if offers(Self::Basic) => Self::Basic,
            true => Self::Post,
        }
    }
}

impl ClientIdentity {
    /// The configured client, else the one described by a metadata URL, else a newly registered one.
    pub(super) async fn obtain(
        endpoints: &Endpoints,
        config: &OAuthConfig,
        described_at: Option<&str>,
        server: &AuthServer,
        redirect_uri: &str,
    ) -> Result<Self, RegistrationError> {
        if let Some(id) = &config.client_id {
            return Ok(Self::known(id, config.client_secret.as_ref(), &server.auth_methods));
        }
        match (described_at.filter(|_| server.reads_descriptions), &server.registration_url) {
            (Some(address), _) => described(address),
            (None, Some(place)) => register(endpoints, place, server, redirect_uri).await,
            (None, None) => Err(RegistrationError::NotOffered),
        }
    }

    /// A pre-registered client, with its secret if it has one.
    pub(super) fn known(id: &str, secret: Option<&Secret>, offered: &[String]) -> Self {
        let method = Method::choose(offered, secret.is_some());
        Self { id: id.to_owned(), secret: secret.cloned(), method, assertion: None }
    }

    /// The client that a stored sign-in was made by.
    pub(super) fn stored(config: &OAuthConfig, found: &OAuthCredentials) -> Option<Self> {
        let id = config.client_id.clone().or_else(|| found.client_id.clone())?;
        let same = found.client_id.as_ref().is_none_or(|known| *known == id);
        let secret = config.client_secret.clone().or_else(|| found.client_secret.clone().filter(|_| same));
        let kept = found.other.get(METHOD_FIELD).and_then(Value::as_str).and_then(Method::parse);
        let method = kept.unwrap_or_else(|| Method::choose(&[], secret.is_some()));
        Some(Self { id, secret, method, assertion: None })
    }

    /// The `Authorization` header, if the client authenticates with one.
    pub(super) fn header(&self) -> Option<HeaderValue> {
        let secret = self.secret.as_ref().filter(|_| self.method == Method::Basic)?;
        // Each half is encoded as in a form first (RFC 6749, 2.3.1).
        let encoded = |text: &str| form(&[("", text)]).trim_start_matches('=').to_owned();
        let pair = format!("{}:{}", encoded(&self.id), encoded(secret.reveal()));
        HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair))).ok()
    }
}

/// A client whose id is the URL of its metadata document.
fn described(address: &str) -> Result<ClientIdentity, RegistrationError> {
    let right = Url::parse(address).is_ok_and(|url| {
        url.scheme() == "https" && url.path() != "/" && url.fragment().is_none() && url.username().is_empty()
    });
    if right {
        Ok(ClientIdentity::known(address, None, &[]))
    } else {
        Err(RegistrationError::BadDescription(shown(address)))
    }
}

async fn register(
    endpoints: &Endpoints,
    place: &Url,
    server: &AuthServer,
    redirect_uri: &str,
) -> Result<ClientIdentity, RegistrationError> {
    let offered = &server.auth_methods;
    let public = offered.is_empty() || offered.iter().any(|word| word == Method::None.as_str());
    let wanted = if public { Method::None } else { Method::choose(offered, true) };
    let mut body = json!({
        "client_name": CLIENT_NAME,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": wanted.as_str(),
    });
    if !server.scopes.is_empty()
        && let Some(fields) = body.as_object_mut()
    {
        fields.insert("scope".to_owned(), server.scopes.join(" ").into());
    }
    let answer = endpoints.post_json(place, &body).await?;
    if !answer.status.is_success() {
        let text = shown(&String::from_utf8_lossy(&answer.body));
        return Err(RegistrationError::Refused { status: answer.status.as_u16(), text });
    }
    let client: Value = serde_json::from_slice(&answer.body).map_err(|_| RegistrationError::NoClient)?;
    let field = |name: &str| client.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let id = field("client_id").ok_or(RegistrationError::NoClient)?.to_owned();
    let secret = field("client_secret").map(Secret::new);
    let said = field("token_endpoint_auth_method").and_then(Method::parse);
    let method = match said {
        Some(method) if secret.is_some() || method == Method::None => method,
        _ => Method::choose(offered, secret.is_some()),
    };
    Ok(ClientIdentity { id, secret, method, assertion: None })
}
