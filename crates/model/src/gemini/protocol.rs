//! What the Gemini API expects of a connection, and how it says that something went wrong.

use std::collections::VecDeque;

use pollux_config::groups::Secret;
use pollux_domain::BoxFuture;
use pollux_domain::json::parse_wire;
use pollux_domain::model::{ModelErrorKind, ProviderId, ReplyEvent};
use pollux_net::google::{GoogleError, GoogleTokens};
use pollux_net::server_access::bearer;
use reqwest::Request;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde_json::Value;

use super::{error, reply};
use crate::http::{Decoder, Failure, Protocol, Refusal, name_of_answer};

const USER_PROJECT: HeaderName = HeaderName::from_static("x-goog-user-project");

/// The API with the credentials of one client.
pub(super) struct GeminiProtocol {
    pub(super) key: Secret,
    /// For messages, without anything secret.
    pub(super) address: String,
    /// What Vertex AI is asked with when it is not a key.
    pub(super) tokens: Option<GoogleTokens>,
}

impl Protocol for GeminiProtocol {
    fn provider(&self) -> ProviderId {
        ProviderId::GEMINI
    }

    fn key(&self) -> Option<&Secret> {
        Some(&self.key)
    }

    fn authorize<'a>(&'a self, request: &'a mut Request) -> BoxFuture<'a, Result<Option<Secret>, Failure>> {
        Box::pin(async move {
            match &self.tokens {
                Some(tokens) => authorize(request, tokens).await.map(Some),
                None => Ok(None),
            }
        })
    }

    fn discard<'a>(&'a self, token: &'a Secret) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Some(tokens) = &self.tokens {
                tokens.discard(token).await;
            }
        })
    }

    fn refused(&self, refusal: &Refusal<'_>) -> Failure {
        error::from_response(refusal.status, refusal.reason, refusal.body, refusal.retry_after)
    }

    fn not_the_api(&self, status: u16, text: &str) -> Failure {
        let seen = name_of_answer(text);
        let message = match status {
            200 => format!(
                "expected a Gemini API response but got {seen} (HTTP 200), possibly a login page or a proxy's error page; \
                 check GOOGLE_GEMINI_BASE_URL and your proxy settings"
            ),
            status => format!(
                "{} answered {status} with {seen} instead of an API reply; check GOOGLE_GEMINI_BASE_URL and the proxy",
                self.address
            ),
        };
        // Another attempt would read the same page.
        Failure::for_good(ModelErrorKind::BadRequest, Some(status), message)
    }
}

/// Every event is a whole object of the API's.
pub(crate) struct GeminiDecoder;

impl Decoder for GeminiDecoder {
    fn event(
        &mut self,
        _name: Option<&str>,
        data: &[u8],
        events: &mut VecDeque<ReplyEvent>,
    ) -> Result<(), Failure> {
        let value = parse_wire(data).map_err(|error| {
            Failure::malformed(format!("an event of the reply is not valid JSON: {error}"))
        })?;
        self.object(value, events)
    }

    fn object(&mut self, value: Value, events: &mut VecDeque<ReplyEvent>) -> Result<(), Failure> {
        events.push_back(ReplyEvent::Chunk(reply::read(value)?));
        Ok(())
    }

    fn stray(&self, text: &[u8]) -> Option<Failure> {
        serde_json::from_slice(text).ok().as_ref().and_then(error::in_body)
    }
}

/// Puts the token of the hour on a request; a header that the user set stays.
async fn authorize(request: &mut Request, tokens: &GoogleTokens) -> Result<Secret, Failure> {
    let token = tokens.token().await.map_err(|error| no_token(&error))?;
    let value = bearer(&token).ok_or_else(|| {
        Failure::for_good(ModelErrorKind::Auth, None, "Google's token contains invalid characters")
    })?;
    let headers = request.headers_mut();
    headers.entry(AUTHORIZATION).or_insert(value);
    if let Some(payer) = tokens.quota_project().and_then(|payer| HeaderValue::from_str(payer).ok()) {
        headers.entry(USER_PROJECT).or_insert(payer);
    }
    Ok(token)
}

fn no_token(error: &GoogleError) -> Failure {
    let mut message = error.to_string();
    if let Some(hint) = error.hint() {
        message.push_str(&format!("; {hint}"));
    }
    if error.may_pass() {
        return Failure::passing(ModelErrorKind::Network, message);
    }
    let mut failure = Failure::for_good(ModelErrorKind::Auth, None, message);
    let advice = "check the file that `GOOGLE_APPLICATION_CREDENTIALS` names, or run \
                  `gcloud auth application-default login`";
    failure.error.details.advice = Some(advice.to_owned());
    failure
}

/// Reads the answer to `countTokens`.
pub(super) fn read_count(value: Value) -> Result<u64, Failure> {
    if let Some(error) = error::in_body(&value) {
        return Err(error);
    }
    reply::total_tokens(&value).ok_or_else(|| Failure::malformed("the response has no token count"))
}
