//! One request over the network, and again if that helps.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use pollux_config::groups::Secret;
use pollux_domain::content::Body;
use pollux_domain::json::parse_wire;
use pollux_domain::model::{ModelError, ModelErrorKind, ReplyChunk};
use pollux_domain::sync::Locked;
use pollux_net::backoff::{Cause, retry_after};
use pollux_net::transport;
use reqwest::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Request, Response, Url};
use serde_json::Value;
use tokio::time::Instant;

use super::attempts::{ABSENT_ATTEMPTS, Attempts};
use super::rate_limit;
use super::{Failure, HttpOptions, Protocol, Refusal, Retry, web_page};
use crate::budget::{attempt_refused, before_attempt};

/// Of an error's body no more is read.
const MAX_ERROR_BYTES: usize = 256 * 1024;
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
/// A shorter text is no key worth hiding and would riddle messages with stars.
const MIN_SECRET_LEN: usize = 6;

/// Where servers name the request, for their support.
const REQUEST_IDS: &[&str] = &["x-request-id", "request-id"];

const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// The way to one server.
pub(crate) struct Connection {
    options: HttpOptions,
    protocol: Box<dyn Protocol>,
    /// The server's name for messages, without anything secret.
    host: String,
    /// The server has no requests or tokens left for us before then.
    not_before: Mutex<Option<Instant>>,
    /// The token of the last request, if it is not the protocol's own key.
    token: Mutex<Option<Secret>>,
    reuse: Reuse,
}

/// Whether connections serve several requests. Small servers end a connection after each reply without saying so,
/// and the next request meets its end; that is found out once.
#[derive(Debug, Default)]
struct Reuse {
    answered: AtomicBool,
    refused: AtomicBool,
}

impl Connection {
    pub(crate) fn new(options: HttpOptions, protocol: impl Protocol + 'static, address: &Url) -> Self {
        let port = address.port().map(|port| format!(":{port}")).unwrap_or_default();
        let host = format!("{}://{}{port}", address.scheme(), address.host_str().unwrap_or_default());
        Self {
            options,
            protocol: Box::new(protocol),
            host,
            not_before: Mutex::default(),
            token: Mutex::default(),
            reuse: Reuse::default(),
        }
    }

    /// How long the server's rate limit delays the next request.
    pub(super) fn rate_limit_delay(&self) -> Option<Duration> {
        let until = self.not_before.locked().take()?;
        let delay = until.checked_duration_since(Instant::now())?;
        (!delay.is_zero()).then_some(delay)
    }

    /// Remembers when the server's rate limit allows the next request.
    fn note_rate_limit(&self, headers: &HeaderMap) {
        let now = self.options.clock.now().millis();
        if let Some(delay) = rate_limit::delay(headers, now) {
            let scale = self.options.backoff.scale.max(0.0);
            *self.not_before.locked() = Some(Instant::now() + delay.mul_f64(scale));
        }
    }

    /// The server, such as `https://host`.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// A successful answer that is not from the API at all.
    pub(super) fn not_the_api(&self, text: &str) -> Failure {
        self.protocol.not_the_api(200, text)
    }

    pub(super) fn attempts(&self, max: u32) -> Attempts {
        Attempts::new(self.options.backoff, self.options.random, max)
    }

    pub(super) fn stall(&self) -> Duration {
        self.options.stall
    }

    pub(super) fn first_byte(&self) -> Duration {
        self.options.first_byte
    }

    /// Sends once; anything but success is an error. A token that the server has revoked meanwhile is replaced
    /// and the request sent again.
    pub(super) async fn send(&self, mut request: Request) -> Result<Response, Failure> {
        let again = copy(&request)?;
        let Some(token) = self.protocol.authorize(&mut request).await? else {
            return self.send_as_it_is(request).await;
        };
        *self.token.locked() = Some(token.clone());
        match self.send_as_it_is(request).await {
            Err(refused) if refused.error.status == Some(401) => {
                self.protocol.discard(&token).await;
                let mut request = again;
                let fresh = self.protocol.authorize(&mut request).await?;
                match fresh {
                    Some(fresh) if fresh != token => {
                        *self.token.locked() = Some(fresh.clone());
                        self.send_as_it_is(request).await.map_err(|error| hidden(error, &fresh))
                    }
                    Some(_) | None => Err(hidden(refused, &token)),
                }
            }
            other => other.map_err(|error| hidden(error, &token)),
        }
    }

    async fn send_as_it_is(&self, mut request: Request) -> Result<Response, Failure> {
        before_attempt().map_err(|error| Failure::new(error, Retry::Never))?;
        let sent = if self.protocol.is_local() {
            if self.reuse.refused.load(Relaxed) {
                close_after(&mut request);
            }
            let mut again = copy(&request)?;
            match self.execute(request).await {
                Some(Err(error)) if transport::describe(&error).hung_up && self.stop_reuse() => {
                    close_after(&mut again);
                    self.execute(again).await
                }
                sent => sent,
            }
        } else {
            self.execute(request).await
        };
        let response = match sent {
            Some(Ok(response)) => response,
            Some(Err(error)) => {
                if error.is_connect() || error.is_builder() {
                    attempt_refused();
                }
                return Err(self.unreachable(&error));
            }
            None => {
                let waited = self.options.first_byte.as_secs_f32();
                return Err(self.network(format!("no response from {} for {waited} s", self.host), true));
            }
        };
        self.reuse.answered.store(true, Relaxed);
        self.note_rate_limit(response.headers());
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let failure = self.refused(response).await;
        // An error of the server or a timeout does not tell whether the model has run.
        if failure.error.kind == ModelErrorKind::Loading || (status < 500 && status != 408) {
            attempt_refused();
        }
        Err(failure)
    }

    /// The answer, unless there was none in time.
    async fn execute(&self, request: Request) -> Option<reqwest::Result<Response>> {
        tokio::time::timeout(self.options.first_byte, self.options.http.execute(request)).await.ok()
    }

    /// Whether connections were used again until now; from now on they are not.
    fn stop_reuse(&self) -> bool {
        self.reuse.answered.load(Relaxed) && !self.reuse.refused.swap(true, Relaxed)
    }

    /// Asks for a whole answer, as often as it takes.
    pub(crate) async fn ask<T>(
        &self,
        request: &Request,
        max_attempts: u32,
        read: impl Fn(Value) -> Result<T, Failure>,
    ) -> Result<T, ModelError> {
        let mut attempts = self.attempts(max_attempts);
        loop {
            let result = match self.answer(request).await {
                Ok(value) => read(value),
                Err(error) => Err(error),
            };
            let failure = match result {
                Ok(value) => return Ok(value),
                Err(failure) => failure,
            };
            match attempts.pause(&failure) {
                Some(delay) => tokio::time::sleep(delay).await,
                None => return Err(self.safe(failure.error)),
            }
        }
    }

    /// Asks for a whole answer once.
    pub(crate) async fn ask_once(&self, request: &Request) -> Result<Value, ModelError> {
        self.answer(request).await.map_err(|failure| self.safe(failure.error))
    }

    async fn answer(&self, request: &Request) -> Result<Value, Failure> {
        let request = copy(request)?;
        let mut response = self.send(request).await?;
        let (body, complete) = self.body(&mut response, MAX_BODY_BYTES).await;
        complete?;
        parse_wire(&body).map_err(|_| self.not_the_api(&String::from_utf8_lossy(&body)))
    }

    /// Reads a body up to a limit; what arrived before a failure is kept.
    pub(super) async fn body(&self, response: &mut Response, limit: usize) -> (Vec<u8>, Result<(), Failure>) {
        let mut body = Vec::new();
        loop {
            match self.chunk(response, self.options.stall).await {
                Ok(Some(bytes)) => body.extend(bytes.iter().take(limit.saturating_sub(body.len()))),
                Ok(None) => return (body, Ok(())),
                Err(error) => return (body, Err(error)),
            }
            if body.len() >= limit {
                return (body, Ok(()));
            }
        }
    }

    /// The next bytes of a body.
    pub(super) async fn chunk(
        &self,
        response: &mut Response,
        patience: Duration,
    ) -> Result<Option<impl std::ops::Deref<Target = [u8]> + use<>>, Failure> {
        match tokio::time::timeout(patience, response.chunk()).await {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(error)) => {
                let cause = transport::describe(&error).message;
                Err(self.cut(format!("the connection to {} broke: {cause}", self.host)))
            }
            Err(_) => {
                let waited = patience.as_secs_f32();
                Err(self.cut(format!("{} sent nothing for {waited} s", self.host)))
            }
        }
    }

    /// A stream that stopped too early.
    pub(super) fn cut(&self, message: String) -> Failure {
        let retry = if self.options.retry_broken_streams {
            Retry::After { cause: Cause::Transient, hint: None }
        } else {
            Retry::Never
        };
        Failure::new(ModelError::new(ModelErrorKind::Cut, None, message), retry)
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let cause = transport::describe(error);
        let mut failure =
            self.network(format!("could not reach {}: {}", self.host, cause.message), cause.may_pass);
        // A server that is not there is mostly not there a minute later, either.
        if cause.refused || cause.unresolved {
            failure.retry = Retry::AtMost { cause: Cause::Transient, attempts: ABSENT_ATTEMPTS };
        }
        if cause.refused { self.protocol.connection_refused(failure) } else { failure }
    }

    fn network(&self, message: String, may_pass: bool) -> Failure {
        let retry =
            if may_pass { Retry::After { cause: Cause::Transient, hint: None } } else { Retry::Never };
        Failure::new(ModelError::new(ModelErrorKind::Network, None, message), retry)
    }

    async fn refused(&self, mut response: Response) -> Failure {
        let status = response.status();
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        if status.is_redirection() {
            let target = header(LOCATION).unwrap_or("another address");
            let target = target.split('?').next().unwrap_or(target);
            let message = format!(
                "{} redirects to {target}; the redirect was not followed, because it would send the API key there",
                self.host
            );
            let error = ModelError::new(ModelErrorKind::BadRequest, Some(status.as_u16()), message);
            return Failure::new(error, Retry::Never);
        }
        let now = self.options.clock.now().millis();
        let exact = header(RETRY_AFTER_MS).and_then(|value| value.trim().parse::<u64>().ok());
        let wish = exact.map(Duration::from_millis);
        let wish = wish.or_else(|| header(RETRY_AFTER).and_then(|value| retry_after(value, now)));
        let should_retry = header(SHOULD_RETRY).and_then(|value| value.trim().parse().ok());
        let request_id = request_id(response.headers());
        let (body, _) = self.body(&mut response, MAX_ERROR_BYTES).await;
        let reason = status.canonical_reason().unwrap_or_default();
        let refusal =
            Refusal { status: status.as_u16(), reason, body: &body, retry_after: wish, should_retry };
        let text = String::from_utf8_lossy(&body);
        let mut failure = match status.as_u16() {
            // No API has such pages, but other servers and wrong paths of the right one do.
            status @ (404 | 405) if web_page(&text).is_some() => self.protocol.not_the_api(status, &text),
            _ => self.protocol.refused(&refusal),
        };
        // A body may name the request where the header does not.
        if request_id.is_some() {
            failure.error.details.request_id = request_id;
        }
        failure
    }

    /// Replaces the key in what the model said. Arguments of calls stay as they are: tools must write what was meant.
    pub(super) fn mask(&self, chunk: &mut ReplyChunk) {
        let token = self.token.locked().clone();
        for secret in self.protocol.secrets().into_iter().chain(&token) {
            for part in &mut chunk.parts {
                match &mut part.body {
                    Body::Text(text) | Body::Reasoning { text, .. } => hide(text, secret),
                    _ => {}
                }
            }
        }
    }

    /// The error with its provider and without the key, which a server may have quoted.
    pub(super) fn safe(&self, mut error: ModelError) -> ModelError {
        for secret in self.protocol.secrets() {
            hide(&mut error.message, secret);
        }
        error.details.provider = Some(self.protocol.provider());
        error
    }
}

/// The error without a token that the server quoted.
fn hidden(mut error: Failure, token: &Secret) -> Failure {
    hide(&mut error.error.message, token);
    error
}

fn hide(text: &mut String, secret: &Secret) {
    let secret = secret.reveal();
    if secret.len() >= MIN_SECRET_LEN && text.contains(secret) {
        *text = text.replace(secret, "***");
    }
}

fn close_after(request: &mut Request) {
    request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
}

/// A request to send again; bodies of ours are in memory, so this always works.
pub(super) fn copy(request: &Request) -> Result<Request, Failure> {
    request.try_clone().ok_or_else(|| {
        Failure::for_good(ModelErrorKind::BadRequest, None, "the request cannot be sent twice")
    })
}

fn request_id(headers: &HeaderMap) -> Option<String> {
    let id = REQUEST_IDS.iter().find_map(|name| headers.get(*name))?;
    id.to_str().ok().map(str::to_owned)
}
