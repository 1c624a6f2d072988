//! The response of a server: vectors, or an error and whether to retry.

use std::time::Duration;

use pollux_domain::embedding::EmbedErrorKind;
use pollux_domain::terminal_text;
use pollux_net::backoff::{Cause, please_retry_in, retry_after, retry_delay};
use reqwest::header::RETRY_AFTER;
use reqwest::{Response, StatusCode};
use serde_json::Value;

use crate::local::to_unit;

/// Vectors of the largest batch take a few megabytes.
const MAX_BODY: usize = 64 << 20;
const MAX_ERROR: usize = 256 << 10;
const MAX_MESSAGE: usize = 400;
/// Longer than any model's.
const MAX_DIMENSIONS: usize = 1 << 16;
const THROTTLED: [&str; 4] = ["rate limit", "too many requests", "resource exhausted", "resource_exhausted"];

/// An attempt that gave no vectors.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) message: String,
    /// Why it may help to try again, if it may.
    pub(super) retry: Option<Cause>,
    /// How long the server asked to wait.
    pub(super) after: Option<Duration>,
    pub(super) status: Option<StatusCode>,
}

impl Failure {
    pub(super) fn network(message: String) -> Self {
        Self { message, retry: Some(Cause::Transient), after: None, status: None }
    }

    pub(super) fn final_one(message: String) -> Self {
        Self { message, retry: None, after: None, status: None }
    }

    pub(super) fn kind(&self) -> EmbedErrorKind {
        match self.status.map(|status| status.as_u16()) {
            _ if self.retry.is_some() => EmbedErrorKind::Later { after: self.after },
            Some(401 | 403 | 404) => EmbedErrorKind::Setup,
            Some(400) if self.message.to_ascii_lowercase().contains("api key") => EmbedErrorKind::Setup,
            Some(400 | 413 | 422) => EmbedErrorKind::Text,
            _ => EmbedErrorKind::Other,
        }
    }
}

/// The body of a success; anything else is a failure.
pub(super) async fn read(mut response: Response, now_millis: i64) -> Result<Vec<u8>, Failure> {
    let status = response.status();
    let header = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let asked = header.and_then(|value| retry_after(value, now_millis));
    let limit = if status.is_success() { MAX_BODY } else { MAX_ERROR };
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(bytes)) if body.len() + bytes.len() <= limit => body.extend_from_slice(&bytes),
            Ok(Some(_)) if status.is_success() => {
                let message = format!("the response exceeds {} MiB", MAX_BODY >> 20);
                return Err(Failure::final_one(message));
            }
            Ok(None | Some(_)) => break,
            Err(error) => {
                let cause = pollux_net::transport::describe(&error).message;
                return Err(Failure::network(format!("the connection was lost: {cause}")));
            }
        }
    }
    if status.is_success() { Ok(body) } else { Err(refused(status, &body, asked)) }
}

fn refused(status: StatusCode, body: &[u8], asked: Option<Duration>) -> Failure {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    // Some servers wrap the object into a list, some put the text right into `error`.
    let error = [&value["error"], &value[0]["error"], &value].into_iter().find(|error| !error.is_null());
    let text = error.and_then(|error| error["message"].as_str().or(error.as_str()));
    let delays = error.and_then(|error| error["details"].as_array()).into_iter().flatten();
    let delay = delays.filter_map(|detail| retry_delay(detail["retryDelay"].as_str()?)).max();
    let after = asked.or(delay).or_else(|| please_retry_in(text.unwrap_or_default()));
    let message =
        text.map(|text| terminal_text::one_line(&text.chars().take(MAX_MESSAGE).collect::<String>()));
    let message = message.filter(|text| !text.is_empty());
    let message = format!("{}: {}", status, message.unwrap_or_else(|| "no reason given".to_owned()));
    let lower = message.to_ascii_lowercase();
    let retry = match status.as_u16() {
        429 => Some(Cause::Throttled),
        _ if THROTTLED.iter().any(|words| lower.contains(words)) => Some(Cause::Throttled),
        408 | 500.. => Some(Cause::Transient),
        _ => None,
    };
    Failure { message, retry, after, status: Some(status) }
}

/// One usable vector of length 1 for each text, or a failure.
pub(super) fn checked(vectors: Option<Vec<Vec<f32>>>, texts: usize) -> Result<Vec<Vec<f32>>, Failure> {
    let bad = |message: &str| Err(Failure::final_one(message.to_owned()));
    let Some(mut vectors) = vectors else {
        return bad("the response is not from an embedding API; check `memory.remote.baseUrl`");
    };
    if vectors.len() != texts {
        return bad(&format!("it returned {} vectors for {texts} texts", vectors.len()));
    }
    let width = vectors.first().map_or(1, Vec::len);
    if width == 0 || width > MAX_DIMENSIONS || vectors.iter().any(|vector| vector.len() != width) {
        return bad("its vectors differ in length");
    }
    if vectors.iter().flatten().any(|value| !value.is_finite()) {
        return bad("its vectors contain values that are not numbers");
    }
    vectors.iter_mut().for_each(|vector| to_unit(vector));
    Ok(vectors)
}
