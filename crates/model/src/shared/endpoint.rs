//! Where a provider's server is and how it is asked. Nothing here reads settings or the environment.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pollux_config::groups::Secret;
use pollux_domain::model::{ModelInfo, ProviderId};
use pollux_domain::time::{Clock, SystemClock};
use pollux_domain::{BoxFuture, JsonObject};
use pollux_net::backoff::Backoff;

use super::random::random_unit;

/// A server that speaks one of the wires, and what is known of it.
#[derive(Clone)]
pub struct Endpoint {
    pub provider: ProviderId,
    /// Without the path of a request, such as `https://api.openai.com/v1`.
    pub base_url: String,
    pub credential: Option<Credential>,
    /// Sent with every request. They cannot replace the credential's header, `Host` or `Content-Length`.
    pub headers: Vec<(String, Secret)>,
    /// Added to the address of every request.
    pub query: Vec<(String, String)>,
    /// Added to the body of every request; wins over what the client would send.
    pub extra_body: JsonObject,
    pub traits: EndpointTraits,
    pub timing: Timing,
    pub http: reqwest::Client,
    /// What is known of a model.
    pub facts: ModelFacts,
}

/// What is known of a model, by its name.
pub type ModelFacts = Arc<dyn Fn(&str) -> ModelInfo + Send + Sync>;

/// What proves to the server who asks.
#[derive(Clone)]
pub struct Credential {
    /// Such as `Authorization`.
    pub header: String,
    /// Stands before the key, such as `Bearer `.
    pub prefix: String,
    pub key: Key,
}

/// A key, or where to get it.
#[derive(Clone)]
pub enum Key {
    Fixed(Secret),
    Source(Arc<dyn KeySource>),
}

/// Gives keys that expire.
pub trait KeySource: Send + Sync {
    /// The key to use now; why there is none, for people.
    fn key(&self) -> BoxFuture<'_, Result<Secret, String>>;

    /// The server refused this one; the next one must be another.
    fn refused<'a>(&'a self, key: &'a Secret) -> BoxFuture<'a, ()>;
}

/// What a server is like.
#[derive(Debug, Clone, Default)]
pub struct EndpointTraits {
    /// It runs on this machine or next to it: a refused connection is not waited out.
    pub local: bool,
    /// How people start it, if it is local.
    pub start_command: Option<String>,
    /// It is the server of those who made the wire, not one that speaks it, too.
    pub first_party: bool,
    /// Tools are declared so that the server holds the model to their schemas.
    pub strict_tools: bool,
    /// What the user can do when the server refuses the key.
    pub key_advice: Option<String>,
}

/// Patience.
#[derive(Clone)]
pub struct Timing {
    /// Attempts of one request in all, the first included.
    pub max_attempts: u32,
    /// Whether a stream that breaks before its first chunk is tried again, too.
    pub retry_broken_streams: bool,
    pub backoff: Backoff,
    /// How long the first byte of an answer may take.
    pub first_byte: Duration,
    /// How long a stream may then be silent.
    pub stall: Duration,
    pub clock: Arc<dyn Clock>,
    /// Gives numbers in 0..1 for the jitter of delays.
    pub random: fn() -> f64,
}

/// Why no client could be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EndpointError {
    #[error("invalid base URL for provider `{provider}`: {url}")]
    BaseUrl { provider: String, url: String },
    #[error("invalid header `{name}` for provider `{provider}`")]
    Header { provider: String, name: String },
    #[error("the API key of provider `{provider}` contains invalid characters")]
    Key { provider: String },
}

impl Endpoint {
    /// A server with the usual patience and without a key.
    pub fn new(
        provider: ProviderId,
        base_url: impl Into<String>,
        http: reqwest::Client,
        facts: ModelFacts,
    ) -> Self {
        Self {
            provider,
            base_url: base_url.into(),
            credential: None,
            headers: Vec::new(),
            query: Vec::new(),
            extra_body: JsonObject::new(),
            traits: EndpointTraits::default(),
            timing: Timing::default(),
            http,
            facts,
        }
    }

    /// The same with a key in `Authorization`.
    #[must_use]
    pub fn bearer(mut self, key: Secret) -> Self {
        self.credential = Some(Credential {
            header: "Authorization".to_owned(),
            prefix: "Bearer ".to_owned(),
            key: Key::Fixed(key),
        });
        self
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            max_attempts: 10,
            retry_broken_streams: true,
            backoff: Backoff::default(),
            first_byte: Duration::from_secs(300),
            stall: Duration::from_secs(60),
            clock: Arc::new(SystemClock),
            random: random_unit,
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Endpoint")
            .field("provider", &self.provider)
            .field("base_url", &self.base_url)
            .field("headers", &headers)
            .field("traits", &self.traits)
            .finish_non_exhaustive()
    }
}
