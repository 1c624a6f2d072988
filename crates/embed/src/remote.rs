//! Remote embedding models: the Gemini API, and servers with OpenAI's `/embeddings` protocol.

mod answer;
mod batch;
mod gemini;
mod openai;

use std::sync::Arc;
use std::time::Duration;

use pollux_config::paths::sha256_hex;
use pollux_domain::BoxFuture;
use pollux_domain::embedding::{EmbedError, Embedder, Origin, Purpose};
use pollux_domain::time::{Clock, SystemClock};
use pollux_net::backoff::{Backoff, Schedule, TooLong};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use answer::Failure;

/// After the first attempt.
const MAX_RETRIES: usize = 3;
/// Maximum number of concurrent requests.
const MAX_PARALLEL: usize = 4;
const QUERY_LIMIT: Duration = Duration::from_secs(60);
const DOCUMENT_LIMIT: Duration = Duration::from_secs(120);

/// The protocol of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Gemini,
    OpenAi,
}

/// How to reach a model.
#[derive(Clone)]
pub struct RemoteOptions {
    pub http: Client,
    /// Without it, the provider's own.
    pub base_url: Option<String>,
    /// Without it, the provider's usual one.
    pub model: Option<String>,
    /// A server of one's own may need none.
    pub key: Option<String>,
    /// Sent with every request; may replace any header of ours.
    pub headers: Vec<(String, String)>,
    /// How many numbers a vector shall have, where a model offers a choice.
    pub dimensions: Option<u32>,
    pub backoff: Backoff,
    pub clock: Arc<dyn Clock>,
}

/// Why a remote model cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    #[error("no API key for {provider} embeddings; set {variables} or `memory.remote.apiKey`")]
    NoKey { provider: &'static str, variables: &'static str },
    #[error("invalid `memory.remote.baseUrl` (expected a URL such as `https://host/path`)")]
    BaseUrl,
    #[error("invalid embedding model name `{name}`")]
    Model { name: String },
    #[error("invalid API key for {provider} embeddings: it contains invalid characters")]
    Key { provider: &'static str },
    #[error("invalid header `{name}` in `memory.remote.headers`")]
    Header { name: String },
}

impl Protocol {
    /// As in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gemini => "gemini",
            Self::OpenAi => "openai",
        }
    }

    fn default_model(self) -> &'static str {
        match self {
            Self::Gemini => "gemini-embedding-001",
            Self::OpenAi => "text-embedding-3-small",
        }
    }

    fn default_address(self) -> &'static str {
        match self {
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta",
            Self::OpenAi => "https://api.openai.com/v1",
        }
    }

    /// The name without prefixes of other programs.
    fn clean_name(self, name: &str) -> &str {
        let prefixes: &[&str] = match self {
            Self::Gemini => &["models/", "gemini/", "google/"],
            Self::OpenAi => &["openai/"],
        };
        prefixes.iter().fold(name.trim(), |name, prefix| name.strip_prefix(prefix).unwrap_or(name))
    }

    /// Gemini also has an endpoint for OpenAI's protocol, which users often paste.
    fn clean_address(self, address: &str) -> &str {
        let address = address.trim().trim_end_matches('/');
        match self {
            Self::Gemini => address.split("/openai").next().unwrap_or(address),
            Self::OpenAi => address,
        }
    }
}

impl RemoteOptions {
    /// Nothing but the client; all else as the provider has it.
    pub fn new(http: Client) -> Self {
        // Half a second, doubled up to eight.
        let half = Duration::from_millis(500);
        let backoff = Backoff {
            quick: half,
            start: half,
            cap: Duration::from_secs(8),
            shortest: half,
            longest: Duration::from_secs(60),
            scale: 1.0,
        };
        Self {
            http,
            base_url: None,
            model: None,
            key: None,
            headers: Vec::new(),
            dimensions: None,
            backoff,
            clock: Arc::new(SystemClock),
        }
    }
}

/// A remote model.
pub struct RemoteModel {
    protocol: Protocol,
    origin: Origin,
    http: Client,
    /// Without a slash at its end.
    base: String,
    /// The server's name for messages.
    host: String,
    headers: HeaderMap,
    /// Secrets to remove from messages.
    secrets: Vec<String>,
    dimensions: Option<u32>,
    backoff: Backoff,
    clock: Arc<dyn Clock>,
    parallel: Semaphore,
}

impl RemoteModel {
    /// Checks address, name and headers; nothing is sent.
    pub fn new(protocol: Protocol, options: RemoteOptions) -> Result<Self, RemoteError> {
        let address = options.base_url.as_deref().unwrap_or(protocol.default_address());
        let base = protocol.clean_address(address).to_owned();
        let url = Url::parse(&base).map_err(|_| RemoteError::BaseUrl)?;
        let host = url.host_str().filter(|_| matches!(url.scheme(), "http" | "https"));
        let host = host.ok_or(RemoteError::BaseUrl)?.to_owned();
        let model = options.model.as_deref().unwrap_or(protocol.default_model());
        let model = protocol.clean_name(model).to_owned();
        if !is_name(&model) {
            return Err(RemoteError::Model { name: model });
        }
        let headers = headers(protocol, options.key.as_deref(), &options.headers)?;
        let values = options.headers.iter().map(|(_, value)| value.clone());
        let password = url.password().map(str::to_owned);
        let secrets = options.key.iter().cloned().chain(values).chain(password);
        Ok(Self {
            protocol,
            origin: origin(protocol, &url, &model, &options),
            http: options.http,
            base,
            host,
            headers,
            secrets: secrets.filter(|secret| secret.len() >= 6).collect(),
            dimensions: options.dimensions,
            backoff: options.backoff,
            clock: options.clock,
            parallel: Semaphore::new(MAX_PARALLEL),
        })
    }

    async fn embed_all(&self, texts: &[String], purpose: Purpose) -> Result<Vec<Vec<f32>>, EmbedError> {
        use futures_util::stream::{StreamExt as _, TryStreamExt as _, iter};
        let limit = match self.protocol {
            Protocol::Gemini => batch::GEMINI_ITEMS,
            Protocol::OpenAi => batch::OPENAI_ITEMS,
        };
        let batches = batch::cut(texts, limit);
        let asked: Vec<_> = batches.into_iter().map(|batch| self.embed_batch(batch, purpose)).collect();
        let vectors: Vec<Vec<Vec<f32>>> = iter(asked).buffered(MAX_PARALLEL).try_collect().await?;
        Ok(vectors.into_iter().flatten().collect())
    }

    /// One request, and again if that helps.
    async fn embed_batch(&self, texts: &[String], purpose: Purpose) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut schedule = Schedule::new(self.backoff);
        for attempt in 0.. {
            let failure = match self.attempt(texts, purpose).await {
                Ok(vectors) => return Ok(vectors),
                Err(failure) => failure,
            };
            let Some(cause) = failure.retry.filter(|_| attempt < MAX_RETRIES) else {
                return Err(self.error(failure));
            };
            match schedule.next(cause, failure.after, random_unit()) {
                Ok(delay) => tokio::time::sleep(delay).await,
                Err(TooLong(asked)) => return Err(self.error(Failure { after: Some(asked), ..failure })),
            }
        }
        Ok(Vec::new())
    }

    async fn attempt(&self, texts: &[String], purpose: Purpose) -> Result<Vec<Vec<f32>>, Failure> {
        let (path, body) = match self.protocol {
            Protocol::Gemini => gemini::request(&self.origin.model, texts, purpose, self.dimensions),
            Protocol::OpenAi => openai::request(&self.origin.model, texts, self.dimensions),
        };
        let limit = if purpose == Purpose::Query { QUERY_LIMIT } else { DOCUMENT_LIMIT };
        let _permit = self.parallel.acquire().await;
        let sent = tokio::time::timeout(limit, self.post(&path, &body)).await;
        let bytes = sent.unwrap_or_else(|_| {
            Err(Failure::network(format!("{} did not respond within {} s", self.host, limit.as_secs())))
        })?;
        let vectors = match self.protocol {
            Protocol::Gemini => gemini::vectors(&bytes),
            Protocol::OpenAi => openai::vectors(&bytes),
        };
        answer::checked(vectors, texts.len())
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Vec<u8>, Failure> {
        let request = self.http.post(format!("{}{path}", self.base)).headers(self.headers.clone());
        // Not `json`: reqwest would need a feature for it.
        let response = request.body(body.to_string()).send().await.map_err(|error| {
            let failure = pollux_net::transport::describe(&error);
            let message = format!("could not reach {}: {}", self.host, failure.message);
            if failure.may_pass { Failure::network(message) } else { Failure::final_one(message) }
        })?;
        answer::read(response, self.clock.now().millis()).await
    }

    /// The message to display, without secrets.
    fn error(&self, failure: Failure) -> EmbedError {
        let (provider, model) = (self.protocol.name(), &self.origin.model);
        let mut message = format!("{provider} embeddings with `{model}` failed: {}", failure.message);
        for secret in &self.secrets {
            message = message.replace(secret.as_str(), pollux_domain::redact::MASK);
        }
        EmbedError { kind: failure.kind(), message: pollux_domain::redact::redacted(&message).into_owned() }
    }
}

impl Embedder for RemoteModel {
    fn origin(&self) -> &Origin {
        &self.origin
    }

    fn embed<'a>(
        &'a self,
        texts: &'a [String],
        purpose: Purpose,
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, EmbedError>> {
        Box::pin(self.embed_all(texts, purpose))
    }
}

/// Names become part of an address.
fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-:@/".contains(c);
    !name.is_empty() && name.len() <= 200 && name.chars().all(fits) && !name.contains("..")
}

fn headers(
    protocol: Protocol,
    key: Option<&str>,
    extra: &[(String, String)],
) -> Result<HeaderMap, RemoteError> {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    if let Some(key) = key {
        let (name, text) = match protocol {
            Protocol::Gemini => (HeaderName::from_static("x-goog-api-key"), key.to_owned()),
            Protocol::OpenAi => (AUTHORIZATION, format!("Bearer {key}")),
        };
        let mut value =
            HeaderValue::from_str(&text).map_err(|_| RemoteError::Key { provider: protocol.name() })?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    for (name, value) in extra {
        let bad = || RemoteError::Header { name: name.clone() };
        let header: HeaderName = name.parse().map_err(|_| bad())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}

/// The key names everything that could change vectors, but no value of a header and no password.
fn origin(protocol: Protocol, url: &Url, model: &str, options: &RemoteOptions) -> Origin {
    let mut names: Vec<String> = options.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    names.retain(|name| name != "authorization" && name != "x-goog-api-key");
    names.sort();
    let address = format!("{}{}", url.origin().ascii_serialization(), url.path());
    let facts = json!({
        "provider": protocol.name(), "baseUrl": address, "model": model, "headers": names,
        "dimensions": options.dimensions,
    });
    Origin {
        provider: protocol.name().to_owned(),
        model: model.to_owned(),
        key: sha256_hex(facts.to_string().as_bytes()),
    }
}

/// A number in 0..1. Delays need nothing better.
fn random_unit() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    let number = RandomState::new().hash_one(0) >> 32;
    number as f64 / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> RemoteOptions {
        let http = pollux_net::client::client(&pollux_net::client::ClientOptions::new("test")).unwrap();
        RemoteOptions::new(http)
    }

    #[test]
    fn names_and_addresses_lose_what_others_write_around_them() {
        let cases = [
            (Protocol::Gemini, "models/gemini-embedding-001", "gemini-embedding-001"),
            (Protocol::Gemini, " google/x ", "x"),
            (Protocol::OpenAi, "openai/text-embedding-3-small", "text-embedding-3-small"),
            (Protocol::OpenAi, "models/x", "models/x"),
        ];
        for (protocol, name, clean) in cases {
            assert_eq!(protocol.clean_name(name), clean);
        }
        let google = "https://generativelanguage.googleapis.com/v1beta";
        assert_eq!(Protocol::Gemini.clean_address(&format!("{google}/openai/")), google);
        assert_eq!(Protocol::OpenAi.clean_address("http://localhost:11434/v1/"), "http://localhost:11434/v1");
    }

    #[test]
    fn invalid_values_are_refused_without_showing_them() {
        let fails = |change: fn(&mut RemoteOptions)| {
            let mut options = options();
            change(&mut options);
            RemoteModel::new(Protocol::OpenAi, options).map(|_| ()).unwrap_err()
        };
        assert_eq!(fails(|o| o.base_url = Some("ftp://x".into())), RemoteError::BaseUrl);
        assert_eq!(fails(|o| o.base_url = Some("nothing".into())), RemoteError::BaseUrl);
        assert!(matches!(fails(|o| o.model = Some("a?b=c".into())), RemoteError::Model { .. }));
        assert!(matches!(fails(|o| o.model = Some("../../x".into())), RemoteError::Model { .. }));
        let error = fails(|o| o.key = Some("hunter2\nx".into())).to_string();
        assert!(!error.contains("hunter2"), "{error}");
        let error = fails(|o| o.headers = vec![("x-key".into(), "hunter2\n".into())]).to_string();
        assert!(error.contains("x-key") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn the_origin_changes_with_what_changes_vectors_and_with_no_secret() {
        let key = |change: fn(&mut RemoteOptions)| {
            let mut options = options();
            change(&mut options);
            RemoteModel::new(Protocol::OpenAi, options).unwrap().origin.key
        };
        let plain = key(|_| {});
        assert_eq!(plain, key(|o| o.key = Some("secret".into())));
        assert_eq!(plain, key(|o| o.headers = vec![("Authorization".into(), "x".into())]));
        let header = key(|o| o.headers = vec![("X-Team".into(), "a".into())]);
        assert_eq!(header, key(|o| o.headers = vec![("x-team".into(), "b".into())]));
        let others = [
            header,
            key(|o| o.dimensions = Some(256)),
            key(|o| o.model = Some("other".into())),
            key(|o| o.base_url = Some("http://localhost/v1".into())),
        ];
        assert!(!others.contains(&plain));
    }
}
