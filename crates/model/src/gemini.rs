//! The Gemini API: <https://ai.google.dev/api>.

pub(crate) mod capabilities;
mod error;
mod finish;
mod grounding;
mod headers;
mod history;
mod models;
pub(crate) mod protocol;
pub(crate) mod reply;
mod vertex;
pub(crate) mod wire;
pub(crate) mod words;

use std::sync::Arc;
use std::time::Duration;

use pollux_config::env::Env;
use pollux_config::groups::General;
use pollux_domain::model::{
    Dialect, GenerationSettings, ModelClient, ModelError, ModelErrorKind, ModelInfo, ModelRequest, Origin,
    ProviderId, ReplyChunk, ReplyStream, RequestRole,
};
use pollux_domain::time::{Clock, SystemClock};
use pollux_domain::{BoxFuture, JsonObject};
use pollux_net::backoff::Backoff;
use pollux_net::google::GoogleTokens;
use reqwest::header::HeaderMap;
use reqwest::{Method, Request, Url};
use serde::Serialize;

use crate::auth::{Auth, VertexPlace};
use crate::catalogue::live::LiveModels;
use crate::catalogue::{Catalogue, Resolved};
use crate::http::{Connection, FixedRequest, HttpOptions, HttpStream, SignedStream};
use crate::providers::check_model_name;
use crate::shared::random::random_unit;
use crate::shared::server::shown;
use protocol::{GeminiDecoder, GeminiProtocol};
use wire::{CountBody, GenerateBody};

pub use headers::{HeaderError, custom_headers, user_agent};

/// Google's own server of the Gemini API.
pub const GOOGLE_ADDRESS: &str = "https://generativelanguage.googleapis.com";
const API_VERSION: &str = "v1beta";

/// What the client of a run is made from.
pub struct GeminiSetup<'a> {
    pub http: reqwest::Client,
    pub catalogue: Arc<Catalogue>,
    pub env: &'a Env,
    pub general: &'a General,
    /// The program's version.
    pub version: &'a str,
    /// The model that the program starts with.
    pub model: &'a str,
    /// The Google account or key of the run.
    pub auth: Auth,
    pub tokens: Option<GoogleTokens>,
}

/// A client for Google's API with a key, or for Vertex AI. Nothing is sent.
pub fn connect(setup: GeminiSetup<'_>) -> Result<GeminiClient, GeminiSetupError> {
    let options = GeminiOptions::new(setup.http, setup.auth, setup.catalogue);
    let mut options = options.configured(setup.env, setup.general, setup.version, setup.model);
    options.tokens = setup.tokens;
    GeminiClient::new(options)
}

/// Where requests with these credentials go, without the path.
pub fn address(auth: &Auth) -> String {
    let usual = || auth.vertex.as_ref().map_or_else(|| GOOGLE_ADDRESS.to_owned(), vertex::address);
    let address = auth.base_url.clone().unwrap_or_else(usual);
    address.trim().trim_end_matches('/').to_owned()
}

/// How to reach the API.
#[derive(Clone)]
pub struct GeminiOptions {
    pub http: reqwest::Client,
    pub auth: Auth,
    /// What Vertex AI is asked with when it is not a key.
    pub tokens: Option<GoogleTokens>,
    pub catalogue: Arc<Catalogue>,
    pub api_version: String,
    pub user_agent: String,
    /// Sent with every request; may replace any header of ours.
    pub custom_headers: Vec<(String, String)>,
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

impl GeminiOptions {
    /// Options with upstream's defaults.
    pub fn new(http: reqwest::Client, auth: Auth, catalogue: Arc<Catalogue>) -> Self {
        let api_version = if auth.vertex.is_some() { vertex::API_VERSION } else { API_VERSION };
        Self {
            http,
            auth,
            tokens: None,
            catalogue,
            api_version: api_version.to_owned(),
            user_agent: user_agent(env!("CARGO_PKG_VERSION"), "unknown", "terminal"),
            custom_headers: Vec::new(),
            max_attempts: 10,
            retry_broken_streams: true,
            backoff: Backoff::default(),
            first_byte: Duration::from_secs(300),
            stall: Duration::from_secs(60),
            clock: Arc::new(SystemClock),
            random: random_unit,
        }
    }

    /// Takes what the environment and the settings say; `model` is the name the program starts with.
    #[must_use]
    pub fn configured(mut self, env: &Env, general: &General, version: &str, model: &str) -> Self {
        if let Some(api_version) = env.non_empty("GOOGLE_GENAI_API_VERSION") {
            self.api_version = api_version.to_owned();
        }
        self.user_agent = user_agent(version, &self.catalogue.info(model).id, headers::surface(env));
        self.custom_headers = custom_headers(env.get("GEMINI_CLI_CUSTOM_HEADERS").unwrap_or_default());
        self.max_attempts = general.max_attempts.clamp(1, 10);
        self.retry_broken_streams = general.retry_fetch_errors;
        self
    }
}

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub enum GeminiSetupError {
    // Upstream's text.
    #[error("Invalid custom base URL: {0}")]
    BaseUrl(String),
    #[error(transparent)]
    Header(#[from] HeaderError),
}

/// A client of the Gemini API; cheap to clone.
#[derive(Clone)]
pub struct GeminiClient {
    connection: Arc<Connection>,
    catalogue: Arc<Catalogue>,
    /// `https://host/v1beta`
    base: String,
    vertex: Option<VertexPlace>,
    headers: HeaderMap,
    max_attempts: u32,
}

impl GeminiClient {
    /// Checks the address and the headers; nothing is sent.
    pub fn new(options: GeminiOptions) -> Result<Self, GeminiSetupError> {
        let address = address(&options.auth);
        let address = address.as_str();
        let bad_url = || GeminiSetupError::BaseUrl(address.to_owned());
        let parsed = Url::parse(address).map_err(|_| bad_url())?;
        if !matches!(parsed.scheme(), "http" | "https") || !parsed.has_host() {
            return Err(bad_url());
        }
        Ok(Self {
            base: format!("{address}/{}", options.api_version.trim_matches('/')),
            vertex: options.auth.vertex.clone(),
            headers: headers::build(&options)?,
            max_attempts: options.max_attempts.max(1),
            catalogue: Arc::clone(&options.catalogue),
            connection: Arc::new(connection(options, &parsed)),
        })
    }

    /// The model and the settings a request is sent with.
    fn plan(&self, request: &ModelRequest) -> (Resolved, bool) {
        let nested_media = self.catalogue.info(&request.model).caps.media_in_results;
        (words::plan(&self.catalogue, request), nested_media)
    }

    fn generate_request(&self, request: &ModelRequest, verb: &str) -> Result<Request, ModelError> {
        let (mut resolved, nested_media) = self.plan(request);
        let settings = std::mem::replace(&mut resolved.settings, JsonObject::new());
        self.post(&resolved.id, verb, &GenerateBody::new(request, settings, nested_media))
    }

    fn post(&self, model: &str, verb: &str, body: &impl Serialize) -> Result<Request, ModelError> {
        check_model_name(model)?;
        let unsendable = |message: String| ModelError::new(ModelErrorKind::BadRequest, None, message);
        let resource = match &self.vertex {
            Some(place) => vertex::resource(place, model),
            None => resource(model),
        };
        let url = Url::parse(&format!("{}/{resource}:{verb}", self.base))
            .map_err(|error| unsendable(format!("invalid URL for model `{model}`: {error}")))?;
        let body = serde_json::to_vec(body)
            .map_err(|error| unsendable(format!("the request cannot be written as JSON: {error}")))?;
        let mut request = Request::new(Method::POST, url);
        *request.headers_mut() = self.headers.clone();
        *request.body_mut() = Some(body.into());
        Ok(request)
    }

    /// What the server says of its models. Vertex AI has no such list.
    pub async fn live_models(&self) -> Result<LiveModels, ModelError> {
        let mut listed = LiveModels::new();
        if self.vertex.is_some() {
            return Ok(listed);
        }
        let mut token = None;
        // A server that never stops telling of more pages must not keep us here.
        for _ in 0..models::MAX_PAGES {
            let mut request = Request::new(Method::GET, models::address(&self.base, token.as_deref())?);
            *request.headers_mut() = self.headers.clone();
            let attempts = self.attempts(RequestRole::Tool);
            let page = self.connection.ask(&request, attempts, models::read_page).await?;
            listed.extend(page.models);
            token = page.next;
            if token.is_none() {
                break;
            }
        }
        Ok(listed)
    }

    /// Who answers for a name.
    fn origin(&self, name: &str) -> Origin {
        Origin {
            provider: ProviderId::GEMINI,
            dialect: Dialect::GEMINI,
            host: self.connection.host().to_owned(),
            model: self.catalogue.info(name).id,
            response_id: None,
            phase: None,
        }
    }

    /// Background work is given up sooner; the numbers are upstream's.
    fn attempts(&self, role: RequestRole) -> u32 {
        match role {
            RequestRole::Main | RequestRole::Subagent => self.max_attempts,
            RequestRole::LoopDetector => self.max_attempts.min(2),
            RequestRole::Compressor | RequestRole::Summarizer | RequestRole::Router | RequestRole::Tool => {
                self.max_attempts.min(5)
            }
        }
    }
}

impl ModelClient for GeminiClient {
    fn resolve(&self, name: &str) -> ModelInfo {
        self.catalogue.info(name)
    }

    fn settings(&self, request: &ModelRequest) -> GenerationSettings {
        words::settings(&self.catalogue, request)
    }

    fn stream(&self, request: ModelRequest) -> Box<dyn ReplyStream> {
        let sendable = self.generate_request(&request, "streamGenerateContent?alt=sse");
        let attempts = self.attempts(request.role);
        let exchange = FixedRequest::new(sendable, || Box::new(GeminiDecoder));
        let stream = HttpStream::new(Arc::clone(&self.connection), exchange, attempts);
        Box::new(SignedStream::new(stream, self.origin(&request.model)))
    }

    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ReplyChunk, ModelError>> {
        Box::pin(async move {
            let sendable = self.generate_request(&request, "generateContent")?;
            let attempts = self.attempts(request.role);
            let mut chunk = self.connection.ask(&sendable, attempts, reply::read).await?;
            chunk.origin = Some(Arc::new(self.origin(&request.model)));
            Ok(chunk)
        })
    }

    fn list_models(&self) -> BoxFuture<'_, Result<Vec<ModelInfo>, ModelError>> {
        let models = self.catalogue.choices().into_iter().map(|(name, _)| self.catalogue.info(&name));
        Box::pin(std::future::ready(Ok(models.collect())))
    }

    fn count_tokens(&self, request: ModelRequest) -> BoxFuture<'_, Result<u64, ModelError>> {
        Box::pin(async move {
            let info = self.catalogue.info(&request.model);
            let body = CountBody::new(&request, info.caps.media_in_results);
            let sendable = self.post(&info.id, "countTokens", &body)?;
            self.connection.ask(&sendable, self.attempts(request.role), protocol::read_count).await
        })
    }
}

fn connection(options: GeminiOptions, address: &Url) -> Connection {
    let protocol = GeminiProtocol { key: options.auth.key, address: shown(address), tokens: options.tokens };
    let http = HttpOptions {
        http: options.http,
        retry_broken_streams: options.retry_broken_streams,
        backoff: options.backoff,
        first_byte: options.first_byte,
        stall: options.stall,
        clock: options.clock,
        random: options.random,
    };
    Connection::new(http, protocol, address)
}

/// The path of a model, with whatever could change the path's meaning escaped.
fn resource(model: &str) -> String {
    let named = model.starts_with("models/") || model.starts_with("tunedModels/");
    format!("{}{}", if named { "" } else { "models/" }, escaped(model))
}

fn escaped(text: &str) -> String {
    let mut path = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b'@' | b':' => {
                path.push(char::from(byte));
            }
            other => path.push_str(&format!("%{other:02X}")),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_name_cannot_change_the_request() {
        assert_eq!(resource("gemini-2.5-pro"), "models/gemini-2.5-pro");
        assert_eq!(resource("models/x"), "models/x");
        assert_eq!(resource("a b?key=1#é"), "models/a%20b%3Fkey%3D1%23%C3%A9");
    }

    #[test]
    fn jitter_stays_in_its_range() {
        assert!((0..100).map(|_| random_unit()).all(|number| (0.0..=1.0).contains(&number)));
    }
}
