//! The port to remote agents, and their definitions.

use std::fmt;

use tokio_util::sync::CancellationToken;

use crate::BoxFuture;

/// A remote agent. A value lives as long as its session and holds the state of the conversation with it.
pub trait RemoteAgent: Send + Sync {
    /// The agent's own description and skills, as text. May fetch the card.
    fn about(&self) -> BoxFuture<'_, Result<String, RemoteError>>;

    /// Sends a message and waits for the answer; `live` receives partial output.
    fn call<'a>(
        &'a self,
        message: &'a str,
        live: &'a (dyn Fn(&str) + Send + Sync),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, RemoteError>>;
}

/// Why a remote agent gave no answer, for users and models.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    #[error("the call was cancelled")]
    Cancelled,
    /// Its card is not available or not readable.
    #[error("{0}")]
    Card(String),
    /// Credentials are missing, or were refused.
    #[error("{0}")]
    SignIn(String),
    /// It could not be reached, broke the protocol, took too long, or said that it failed.
    #[error("{0}")]
    Failed(String),
}

/// The location and authentication of a remote agent, from its definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteTarget {
    pub name: String,
    pub card: CardSource,
    pub auth: Option<RemoteAuth>,
}

/// Where an agent's card is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CardSource {
    Url(String),
    /// The card itself, as JSON.
    Json(String),
}

/// How to sign in. A value may be `$VARIABLE` or `!command`; `$$` and `!!` stand for themselves.
#[derive(Clone, PartialEq, Eq)]
pub enum RemoteAuth {
    /// A key in a header.
    ApiKey {
        key: String,
        header: Option<String>,
    },
    Bearer {
        token: String,
    },
    Basic {
        username: String,
        password: String,
    },
    /// `Authorization: <scheme> <value>`.
    Scheme {
        scheme: String,
        value: String,
    },
    GoogleCredentials {
        scopes: Vec<String>,
    },
    OAuth(Box<RemoteOAuth>),
}

/// A sign-in in a browser.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RemoteOAuth {
    pub client_id: Option<String>,
    pub client_secret: Option<String>,
    pub scopes: Vec<String>,
    pub authorization_url: Option<String>,
    pub token_url: Option<String>,
    pub issuer: Option<String>,
    pub audiences: Vec<String>,
    pub redirect_uri: Option<String>,
    pub token_param_name: Option<String>,
    pub registration_url: Option<String>,
}

impl RemoteAuth {
    /// The word for people.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::ApiKey { .. } => "apiKey",
            Self::Bearer { .. } => "http (Bearer)",
            Self::Basic { .. } => "http (Basic)",
            Self::Scheme { .. } => "http",
            Self::GoogleCredentials { .. } => "google-credentials",
            Self::OAuth(_) => "oauth",
        }
    }
}

/// Secrets stay out of logs.
impl fmt::Debug for RemoteAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteAuth({})", self.kind())
    }
}
