//! A provider's server, ready to be asked: checked address, headers, credentials, and the meaning of its errors.

use std::sync::Arc;
use std::time::Duration;

use pollux_config::groups::Secret;
use pollux_domain::BoxFuture;
use pollux_domain::model::{
    Dialect, ModelError, ModelErrorKind, ModelInfo, Origin, ProviderId, ReplyChunk, ReplyStream, RequestRole,
};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Url};
use serde_json::Value;

use super::body::RequestBody;
use super::declarations::Declarations;
use super::endpoint::{Credential, Endpoint, EndpointError, EndpointTraits, Key, ModelFacts};
use super::fault;
use crate::budget::output_cap;
use crate::http::{
    Connection, Exchange, Failure, HttpOptions, HttpStream, Protocol, Refusal, Retry, SignedStream,
    name_of_answer,
};

/// Headers that settings cannot set.
const RESERVED: &[&str] =
    &["authorization", "host", "content-length", "x-api-key", "api-key", "x-goog-api-key"];
/// A header value shorter than this is not treated as a secret in messages.
const MIN_HEADER_SECRET: usize = 16;

/// Fields for the length of a reply.
const OUTPUT_LIMITS: &[&str] = &["max_tokens", "max_completion_tokens", "max_output_tokens"];
/// Fields for several replies to one request.
const SEVERAL_REPLIES: &[&str] = &["n", "best_of"];

/// How long a question about the server itself may take.
const ASK_ONCE: Duration = Duration::from_secs(5);

/// The server of one provider, for clients of any wire.
pub(crate) struct Server {
    provider: ProviderId,
    dialect: Dialect,
    base: Url,
    headers: HeaderMap,
    traits: EndpointTraits,
    extra_body: pollux_domain::JsonObject,
    max_attempts: u32,
    facts: ModelFacts,
    connection: Arc<Connection>,
    declarations: Declarations,
}

impl Server {
    /// Checks address and headers; nothing is sent. `own` are the headers of the wire, which the endpoint's replace.
    pub(crate) fn new(
        endpoint: Endpoint,
        dialect: Dialect,
        own: &[(&'static str, String)],
    ) -> Result<Self, EndpointError> {
        let base = base(&endpoint)?;
        let headers = headers(&endpoint, own)?;
        let Endpoint { provider, credential, traits, timing, http, facts, extra_body, .. } = endpoint;
        let long = |secret: &&Secret| secret.reveal().len() >= MIN_HEADER_SECRET;
        let protocol = ServerProtocol {
            provider: provider.clone(),
            address: shown(&base),
            credential,
            others: endpoint.headers.iter().map(|(_, value)| value).filter(long).cloned().collect(),
            traits: traits.clone(),
        };
        let options = HttpOptions {
            http,
            retry_broken_streams: timing.retry_broken_streams,
            backoff: timing.backoff,
            first_byte: timing.first_byte,
            stall: timing.stall,
            clock: timing.clock,
            random: timing.random,
        };
        let connection = Arc::new(Connection::new(options, protocol, &base));
        let max_attempts = timing.max_attempts.max(1);
        let declarations = Declarations::default();
        Ok(Self {
            provider,
            dialect,
            base,
            headers,
            traits,
            extra_body,
            max_attempts,
            facts,
            connection,
            declarations,
        })
    }

    pub(crate) fn provider(&self) -> &ProviderId {
        &self.provider
    }

    pub(crate) fn traits(&self) -> &EndpointTraits {
        &self.traits
    }

    /// What was declared to this server before.
    pub(crate) fn declarations(&self) -> &Declarations {
        &self.declarations
    }

    /// The name of the host, such as `api.openai.com`.
    pub(crate) fn host(&self) -> &str {
        self.base.host_str().unwrap_or_default()
    }

    /// The port, if the address names one.
    pub(crate) fn port(&self) -> Option<u16> {
        self.base.port()
    }

    /// The same with headers that it likes to see, unless the endpoint sets them.
    pub(crate) fn with_headers(mut self, headers: &[(&'static str, &'static str)]) -> Self {
        for (name, value) in headers {
            if let Ok(name) = HeaderName::try_from(*name) {
                self.headers.entry(name).or_insert(HeaderValue::from_static(value));
            }
        }
        self
    }

    /// What is known of a model.
    pub(crate) fn info(&self, name: &str) -> ModelInfo {
        (self.facts)(name)
    }

    /// Who answers for a model.
    pub(crate) fn origin(&self, model: &str) -> Origin {
        Origin {
            provider: self.provider.clone(),
            dialect: self.dialect.clone(),
            host: self.connection.host().to_owned(),
            model: model.to_owned(),
            response_id: None,
            phase: None,
        }
    }

    /// Whether reasoning of a turn may go back: it came from this very server, in this dialect.
    pub(crate) fn is_own(&self, origin: Option<&Arc<Origin>>) -> bool {
        origin.is_some_and(|origin| {
            origin.provider == self.provider
                && origin.dialect == self.dialect
                && origin.host == self.connection.host()
        })
    }

    /// A request with a JSON body, to which the endpoint's own fields are added. A field that is null there is left
    /// out. Under a budget they cannot make the reply dearer than what was reserved for it.
    pub(crate) fn post(&self, path: &str, body: &RequestBody) -> Result<Request, ModelError> {
        let cap = output_cap();
        let is_within = |value: &Value, cap: u64| value.as_f64().is_some_and(|limit| limit <= cap as f64);
        let is_allowed = |key: &str, value: &Value| match cap {
            Some(cap) if OUTPUT_LIMITS.contains(&key) => is_within(value, cap),
            Some(_) => !SEVERAL_REPLIES.contains(&key),
            None => true,
        };
        let extra = self.extra_body.iter().map(|(key, value)| (key.as_str(), value));
        let extra: Vec<(&str, &Value)> =
            extra.filter(|(key, value)| value.is_null() || is_allowed(key, value)).collect();
        let body = body.to_json(&extra)?;
        let mut request = self.request(Method::POST, path);
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        *request.body_mut() = Some(body.into());
        Ok(request)
    }

    /// A request without a body.
    pub(crate) fn get(&self, path: &str) -> Request {
        self.request(Method::GET, path)
    }

    fn request(&self, method: Method, path: &str) -> Request {
        let mut url = self.base.clone();
        url.set_path(&format!("{}/{}", url.path().trim_end_matches('/'), path.trim_start_matches('/')));
        let mut request = Request::new(method, url);
        *request.headers_mut() = self.headers.clone();
        request
    }

    /// The same request to a path of the server itself, outside of the dialect's base address.
    pub(crate) fn at_root(&self, mut request: Request, path: &str) -> Request {
        let base = self.base.path().trim_end_matches('/');
        let root = base.strip_suffix("/v1").unwrap_or(base);
        request.url_mut().set_path(&format!("{root}/{path}"));
        request
    }

    /// A reply as it arrives.
    pub(crate) fn stream(
        &self,
        exchange: impl Exchange + 'static,
        role: RequestRole,
        origin: Origin,
    ) -> Box<dyn ReplyStream> {
        let stream = HttpStream::new(Arc::clone(&self.connection), exchange, self.attempts(role));
        Box::new(SignedStream::new(stream, origin))
    }

    /// A reply as a whole; it is streamed all the same, so that its retries and its reading are the same.
    pub(crate) async fn collect(
        &self,
        exchange: impl Exchange + 'static,
        role: RequestRole,
        origin: Origin,
    ) -> Result<ReplyChunk, ModelError> {
        let stream = HttpStream::new(Arc::clone(&self.connection), exchange, self.attempts(role));
        let mut chunk = stream.collect().await?;
        chunk.origin.get_or_insert_with(|| Arc::new(origin));
        Ok(chunk)
    }

    /// Requests other than replies: lists of models, counts of tokens.
    pub(crate) async fn ask<T>(
        &self,
        request: &Request,
        role: RequestRole,
        read: impl Fn(Value) -> Result<T, Failure>,
    ) -> Result<T, ModelError> {
        self.connection.ask(request, self.attempts(role), read).await
    }

    /// A question about the server itself, asked once and with little patience: nobody waits for its answer.
    pub(crate) async fn ask_once(&self, request: &Request) -> Result<Value, ModelError> {
        let late = || ModelError::new(ModelErrorKind::Network, None, "the server did not respond in time");
        tokio::time::timeout(ASK_ONCE, self.connection.ask_once(request))
            .await
            .unwrap_or_else(|_| Err(late()))
    }

    /// Background requests get fewer attempts than the conversation.
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

fn base(endpoint: &Endpoint) -> Result<Url, EndpointError> {
    let address = endpoint.base_url.trim();
    let bad = || EndpointError::BaseUrl {
        provider: endpoint.provider.as_str().to_owned(),
        // Whatever stands before an `@` may be a password.
        url: address.rsplit('@').next().unwrap_or_default().to_owned(),
    };
    let mut url = Url::parse(address).map_err(|_| bad())?;
    let plain = url.username().is_empty() && url.password().is_none();
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() || !plain {
        return Err(bad());
    }
    if !endpoint.query.is_empty() {
        url.query_pairs_mut().extend_pairs(&endpoint.query);
    }
    Ok(url)
}

fn headers(endpoint: &Endpoint, own: &[(&'static str, String)]) -> Result<HeaderMap, EndpointError> {
    let provider = || endpoint.provider.as_str().to_owned();
    let mut headers = HeaderMap::new();
    let own = own.iter().map(|(name, value)| (*name, value.as_str()));
    let given = endpoint.headers.iter().map(|(name, value)| (name.as_str(), value.reveal()));
    let given = given.filter(|(name, _)| !RESERVED.contains(&name.to_ascii_lowercase().as_str()));
    for (name, value) in own.chain(given) {
        let bad = || EndpointError::Header { provider: provider(), name: name.to_owned() };
        let key = HeaderName::try_from(name).map_err(|_| bad())?;
        headers.insert(key, HeaderValue::from_str(value).map_err(|_| bad())?);
    }
    if let Some(Credential { header, prefix, key: Key::Fixed(key) }) = &endpoint.credential {
        let (name, value) = credential_header(header, prefix, key)
            .ok_or_else(|| EndpointError::Key { provider: provider() })?;
        headers.insert(name, value);
    }
    Ok(headers)
}

fn credential_header(header: &str, prefix: &str, key: &Secret) -> Option<(HeaderName, HeaderValue)> {
    let name = HeaderName::try_from(header).ok()?;
    let mut value = HeaderValue::from_str(&format!("{prefix}{}", key.reveal().trim())).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

/// An address without what may be secret.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.to_string().trim_end_matches('/').to_owned()
}

/// What the server expects of a connection.
struct ServerProtocol {
    provider: ProviderId,
    address: String,
    credential: Option<Credential>,
    /// Values of headers that may be secrets.
    others: Vec<Secret>,
    traits: EndpointTraits,
}

impl Protocol for ServerProtocol {
    fn provider(&self) -> ProviderId {
        self.provider.clone()
    }

    fn key(&self) -> Option<&Secret> {
        match &self.credential.as_ref()?.key {
            Key::Fixed(key) => Some(key),
            Key::Source(_) => None,
        }
    }

    fn secrets(&self) -> Vec<&Secret> {
        self.key().into_iter().chain(&self.others).collect()
    }

    fn authorize<'a>(&'a self, request: &'a mut Request) -> BoxFuture<'a, Result<Option<Secret>, Failure>> {
        Box::pin(async move {
            let Some(Credential { header, prefix, key: Key::Source(source) }) = &self.credential else {
                return Ok(None);
            };
            let no_key = |message: String| Failure::for_good(ModelErrorKind::Auth, None, message);
            let key = source.key().await.map_err(no_key)?;
            let (name, value) = credential_header(header, prefix, &key)
                .ok_or_else(|| no_key("the API key contains invalid characters".to_owned()))?;
            request.headers_mut().insert(name, value);
            Ok(Some(key))
        })
    }

    fn discard<'a>(&'a self, token: &'a Secret) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Some(Credential { key: Key::Source(source), .. }) = &self.credential {
                source.refused(token).await;
            }
        })
    }

    fn is_local(&self) -> bool {
        self.traits.local
    }

    fn refused(&self, refusal: &Refusal<'_>) -> Failure {
        let mut failure = fault::refused(refusal, self.traits.local);
        if failure.error.kind == ModelErrorKind::Auth {
            failure.error.details.advice.clone_from(&self.traits.key_advice);
        }
        if failure.error.kind == ModelErrorKind::Auth && self.credential.is_none() {
            failure
                .error
                .message
                .push_str(&format!(" (no API key is set for provider `{}`)", self.provider.as_str()));
        }
        failure
    }

    fn not_the_api(&self, status: u16, text: &str) -> Failure {
        let seen = name_of_answer(text);
        let message = format!(
            "{} answered {status} with {seen} instead of an API reply; check the base URL of provider `{}` and the proxy",
            self.address,
            self.provider.as_str()
        );
        // Not malformed: another attempt would read the same page.
        Failure::for_good(ModelErrorKind::BadRequest, Some(status), message)
    }

    fn connection_refused(&self, mut failure: Failure) -> Failure {
        if self.traits.local {
            failure.retry = Retry::Never;
            if let Some(command) = &self.traits.start_command {
                failure.error.details.advice = Some(format!("start the server with `{command}`"));
            }
        }
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_net::client::{ClientOptions, client};
    use serde_json::json;

    fn endpoint(base_url: &str) -> Endpoint {
        let http = client(&ClientOptions::new("test")).unwrap();
        let facts: ModelFacts =
            Arc::new(|name| ModelInfo::unknown(name, ProviderId::new("lab"), Dialect::CHAT));
        Endpoint::new(ProviderId::new("lab"), base_url, http, facts)
    }

    fn server(endpoint: Endpoint) -> Result<Server, EndpointError> {
        Server::new(endpoint, Dialect::CHAT, &[("x-own", "1".to_owned())])
    }

    #[test]
    fn addresses_keep_their_path_and_get_the_query() {
        let mut given = endpoint("https://llm.example/openai/v1/");
        given.query = vec![("api-version".into(), "1 2".into())];
        given.extra_body = json!({"top_k": 3, "store": null}).as_object().unwrap().clone();
        let server = server(given).unwrap();
        let request = server
            .post("chat/completions", &[("store", json!(false)), ("model", json!("m"))].into())
            .unwrap();
        assert_eq!(request.url().as_str(), "https://llm.example/openai/v1/chat/completions?api-version=1+2");
        let body: Value = serde_json::from_slice(request.body().unwrap().as_bytes().unwrap()).unwrap();
        assert_eq!(body, json!({"model": "m", "top_k": 3}));
        assert_eq!(server.host(), "llm.example");
    }

    #[test]
    fn bad_addresses_and_headers_are_refused_by_name() {
        for url in ["", "ftp://x", "http://", "https://user:secret@x/v1"] {
            let error = server(endpoint(url)).err().unwrap();
            assert!(matches!(error, EndpointError::BaseUrl { .. }), "{url}");
            assert!(!error.to_string().contains("secret"));
        }
        let mut bad = endpoint("http://x");
        bad.headers = vec![("X Team".into(), Secret::new("a"))];
        assert!(matches!(server(bad).err().unwrap(), EndpointError::Header { .. }));
        let broken = endpoint("http://x").bearer(Secret::new("a\nb"));
        assert!(matches!(server(broken).err().unwrap(), EndpointError::Key { .. }));
    }

    #[test]
    fn keys_are_sent_and_never_shown() {
        let mut given = endpoint("http://x").bearer(Secret::new("hunter2-hunter2"));
        given.headers = vec![
            ("X-Org".into(), Secret::new("org-0123456789abcdef")),
            ("authorization".into(), Secret::new("Bearer other")),
            ("X-Own".into(), Secret::new("2")),
        ];
        assert!(!format!("{given:?}").contains("hunter2") && !format!("{given:?}").contains("0123456789"));
        let server = server(given).unwrap();
        let request = server.get("models");
        let header = |name: &str| request.headers()[name].to_str().unwrap();
        assert_eq!((header("authorization"), header("x-own")), ("Bearer hunter2-hunter2", "2"));
        assert_eq!(header("x-org"), "org-0123456789abcdef");
        assert!(!format!("{request:?}").contains("hunter2"));
    }
}
