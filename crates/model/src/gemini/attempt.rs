//! One request over the network, and again if that helps.

use std::time::Duration;

use pollux_config::groups::Secret;
use pollux_domain::model::{ModelError, ModelErrorKind};
use pollux_net::backoff::{Cause, Schedule, retry_after};
use pollux_net::google::{GoogleError, GoogleTokens};
use pollux_net::server_access::bearer;
use pollux_net::transport;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Request, Response, Url};
use serde_json::Value;

use super::error::{ApiError, Retry};
use super::{GeminiOptions, reply};

/// Of an error's body no more is read.
const MAX_ERROR_BYTES: usize = 256 * 1024;
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
/// A shorter text is no key worth hiding and would riddle messages with stars.
const MIN_SECRET_LEN: usize = 6;

const USER_PROJECT: HeaderName = HeaderName::from_static("x-goog-user-project");

/// The way to one server.
pub(super) struct Connection {
    options: GeminiOptions,
    /// The server's name for messages, without anything secret.
    host: String,
}

impl Connection {
    pub(super) fn new(options: GeminiOptions, address: &Url) -> Self {
        let port = address.port().map(|port| format!(":{port}")).unwrap_or_default();
        let host = format!("{}://{}{port}", address.scheme(), address.host_str().unwrap_or_default());
        Self { options, host }
    }

    pub(super) fn schedule(&self) -> Schedule {
        Schedule::new(self.options.backoff)
    }

    pub(super) fn stall(&self) -> Duration {
        self.options.stall
    }

    pub(super) fn first_byte(&self) -> Duration {
        self.options.first_byte
    }

    /// Sends once; anything but success is an error. A token that the server has revoked meanwhile is replaced
    /// and the request sent again.
    pub(super) async fn send(&self, mut request: Request) -> Result<Response, ApiError> {
        let Some(tokens) = &self.options.tokens else { return self.send_as_it_is(request).await };
        let again = copy(&request)?;
        let token = authorize(&mut request, tokens).await?;
        match self.send_as_it_is(request).await {
            Err(refused) if refused.error.status == Some(401) => {
                tokens.discard(&token).await;
                let mut request = again;
                let fresh = authorize(&mut request, tokens).await?;
                if fresh == token {
                    return Err(hidden(refused, &token));
                }
                self.send_as_it_is(request).await.map_err(|error| hidden(error, &fresh))
            }
            other => other.map_err(|error| hidden(error, &token)),
        }
    }

    async fn send_as_it_is(&self, request: Request) -> Result<Response, ApiError> {
        let sent = tokio::time::timeout(self.options.first_byte, self.options.http.execute(request)).await;
        let response = match sent {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.unreachable(&error)),
            Err(_) => {
                let waited = self.options.first_byte.as_secs_f32();
                return Err(self.network(format!("{} gave no answer for {waited} s", self.host), true));
            }
        };
        if response.status().is_success() { Ok(response) } else { Err(self.refused(response).await) }
    }

    /// Asks for a whole answer, as often as it takes.
    pub(super) async fn ask<T>(
        &self,
        request: &Request,
        max_attempts: u32,
        read: impl Fn(Value) -> Result<T, ApiError>,
    ) -> Result<T, ModelError> {
        let mut schedule = self.schedule();
        let mut attempt = 1;
        loop {
            let result = match self.answer(request).await {
                Ok(value) => read(value),
                Err(error) => Err(error),
            };
            let failure = match result {
                Ok(value) => return Ok(value),
                Err(failure) => failure,
            };
            match self.pause(&failure, attempt, max_attempts, &mut schedule) {
                Some(delay) => tokio::time::sleep(delay).await,
                None => return Err(self.safe(failure.error)),
            }
            attempt += 1;
        }
    }

    /// How long to wait before another attempt, if one is due.
    pub(super) fn pause(
        &self,
        failure: &ApiError,
        attempt: u32,
        max_attempts: u32,
        schedule: &mut Schedule,
    ) -> Option<Duration> {
        match failure.retry {
            Retry::After { cause, hint } if attempt < max_attempts => {
                schedule.next(cause, hint, (self.options.random)()).ok()
            }
            Retry::After { .. } | Retry::Never => None,
        }
    }

    async fn answer(&self, request: &Request) -> Result<Value, ApiError> {
        let request = copy(request)?;
        let mut response = self.send(request).await?;
        let (body, complete) = self.body(&mut response, MAX_BODY_BYTES).await;
        complete?;
        serde_json::from_slice(&body).map_err(|_| not_the_api(&String::from_utf8_lossy(&body)))
    }

    /// Reads a body up to a limit; what arrived before a failure is kept.
    pub(super) async fn body(
        &self,
        response: &mut Response,
        limit: usize,
    ) -> (Vec<u8>, Result<(), ApiError>) {
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
    ) -> Result<Option<impl std::ops::Deref<Target = [u8]> + use<>>, ApiError> {
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
    pub(super) fn cut(&self, message: String) -> ApiError {
        let retry = if self.options.retry_broken_streams {
            Retry::After { cause: Cause::Transient, hint: None }
        } else {
            Retry::Never
        };
        ApiError { error: ModelError::new(ModelErrorKind::Cut, None, message), retry }
    }

    fn unreachable(&self, error: &reqwest::Error) -> ApiError {
        let failure = transport::describe(error);
        self.network(format!("could not reach {}: {}", self.host, failure.message), failure.may_pass)
    }

    fn network(&self, message: String, may_pass: bool) -> ApiError {
        let retry =
            if may_pass { Retry::After { cause: Cause::Transient, hint: None } } else { Retry::Never };
        ApiError { error: ModelError::new(ModelErrorKind::Network, None, message), retry }
    }

    async fn refused(&self, mut response: Response) -> ApiError {
        let status = response.status();
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        if status.is_redirection() {
            let target = header(LOCATION).unwrap_or("another address");
            let target = target.split('?').next().unwrap_or(target);
            let message = format!(
                "{} answered with a redirect to {target}, which is not followed because the key would go along",
                self.host
            );
            let error = ModelError::new(ModelErrorKind::BadRequest, Some(status.as_u16()), message);
            return ApiError { error, retry: Retry::Never };
        }
        let now = self.options.clock.now().millis();
        let wish = header(RETRY_AFTER).and_then(|value| retry_after(value, now));
        let (body, _) = self.body(&mut response, MAX_ERROR_BYTES).await;
        ApiError::from_response(status.as_u16(), status.canonical_reason().unwrap_or_default(), &body, wish)
    }

    /// The error without the key, which a server may have quoted.
    pub(super) fn safe(&self, mut error: ModelError) -> ModelError {
        let key = self.options.auth.key.reveal();
        if key.len() >= MIN_SECRET_LEN {
            error.message = error.message.replace(key, "***");
        }
        error
    }
}

/// The error without a token that the server quoted.
fn hidden(mut error: ApiError, token: &Secret) -> ApiError {
    error.error.message = error.error.message.replace(token.reveal(), "***");
    error
}

/// Puts the token of the hour on a request; a header that the user set stays.
async fn authorize(request: &mut Request, tokens: &GoogleTokens) -> Result<Secret, ApiError> {
    let token = tokens.token().await.map_err(|error| no_token(&error))?;
    let value = bearer(&token).ok_or_else(|| ApiError {
        error: ModelError::new(ModelErrorKind::Auth, None, "Google's token cannot be sent"),
        retry: Retry::Never,
    })?;
    let headers = request.headers_mut();
    headers.entry(AUTHORIZATION).or_insert(value);
    if let Some(payer) = tokens.quota_project().and_then(|payer| HeaderValue::from_str(payer).ok()) {
        headers.entry(USER_PROJECT).or_insert(payer);
    }
    Ok(token)
}

fn no_token(error: &GoogleError) -> ApiError {
    let mut message = error.to_string();
    if let Some(hint) = error.hint() {
        message.push_str(&format!("; {hint}"));
    }
    if error.may_pass() {
        let retry = Retry::After { cause: Cause::Transient, hint: None };
        return ApiError { error: ModelError::new(ModelErrorKind::Network, None, message), retry };
    }
    ApiError { error: ModelError::new(ModelErrorKind::Auth, None, message), retry: Retry::Never }
}

/// A request to send again; bodies of ours are in memory, so this always works.
pub(super) fn copy(request: &Request) -> Result<Request, ApiError> {
    request.try_clone().ok_or_else(|| ApiError {
        error: ModelError::new(ModelErrorKind::BadRequest, None, "the request cannot be sent twice"),
        retry: Retry::Never,
    })
}

/// An answer that is not from the API at all.
pub(super) fn not_the_api(text: &str) -> ApiError {
    let seen: String = match super::error::web_page(text) {
        Some(title) if title.is_empty() => "a web page".to_owned(),
        Some(title) => format!("a web page with the title \"{title}\""),
        None => format!("\"{}\"", text.trim().chars().take(120).collect::<String>()),
    };
    let message = format!(
        "the server answered 200 with {seen} where a reply of the Gemini API was due; \
         is a proxy or a login page in between? Check GOOGLE_GEMINI_BASE_URL and the proxy settings"
    );
    ApiError { error: ModelError::new(ModelErrorKind::Malformed, Some(200), message), retry: Retry::Never }
}

/// Reads the answer to `countTokens`.
pub(super) fn read_count(value: Value) -> Result<u64, ApiError> {
    if let Some(error) = ApiError::in_body(&value) {
        return Err(error);
    }
    reply::total_tokens(&value).ok_or_else(|| ApiError {
        error: ModelError::new(
            ModelErrorKind::Malformed,
            Some(200),
            "the token count is missing in the answer",
        ),
        retry: Retry::Never,
    })
}
