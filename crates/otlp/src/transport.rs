//! One request to the collector: protobuf over HTTP, or a unary gRPC call.

use std::time::Duration;

use http_body_util::BodyExt;
use pollux_domain::terminal_text::one_line;
use pollux_domain::time::{Clock, SystemClock};
use pollux_net::backoff::retry_after;
use pollux_net::client::{self, ClientError, HttpClient, HttpResponse};
use pollux_net::transport::describe;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, TE};
use reqwest::{Body, StatusCode, Url};

use crate::options::{Options, Protocol};

/// Bytes of an answer that are read; a collector has nothing to say that is longer.
const MAX_ANSWER: usize = 64 * 1024;
/// Characters of a collector's message that are shown.
const MAX_MESSAGE: usize = 200;

const GRPC_STATUS: &str = "grpc-status";
const GRPC_MESSAGE: &str = "grpc-message";

/// A kind of record; each has its own address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Logs,
    Spans,
    Metrics,
}

impl Signal {
    fn target(self, options: &Options) -> Url {
        let (of_http, of_grpc) = match self {
            Self::Logs => ("v1/logs", "/opentelemetry.proto.collector.logs.v1.LogsService/Export"),
            Self::Spans => ("v1/traces", "/opentelemetry.proto.collector.trace.v1.TraceService/Export"),
            Self::Metrics => {
                ("v1/metrics", "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export")
            }
        };
        options.target(of_http, of_grpc)
    }
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Delivered,
    /// Another attempt would end the same.
    Refused(String),
    /// Another attempt may succeed.
    Later {
        reason: String,
        /// How long the collector asks to wait.
        after: Option<Duration>,
        /// Nothing listens there.
        absent: bool,
    },
}

impl Outcome {
    fn later(reason: String, after: Option<Duration>) -> Self {
        Self::Later { reason, after, absent: false }
    }
}

pub(crate) struct Transport {
    client: HttpClient,
    options: Options,
}

impl Transport {
    pub(crate) fn new(options: Options) -> Result<Self, ClientError> {
        let client = match options.protocol {
            Protocol::Http => client::client(&options.client)?,
            Protocol::Grpc => client::http2_client(&options.client)?,
        };
        Ok(Self { client, options })
    }

    pub(crate) async fn send(&self, signal: Signal, message: &[u8]) -> Outcome {
        let mut headers = self.options.headers.clone();
        let body = match self.options.protocol {
            Protocol::Http => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
                message.to_vec()
            }
            Protocol::Grpc => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
                headers.insert(TE, HeaderValue::from_static("trailers"));
                headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
                framed(message)
            }
        };
        let target = signal.target(&self.options);
        let request = self.client.post(target).headers(headers).timeout(self.options.timeout).body(body);
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) => {
                let failure = describe(&error);
                return match failure.may_pass {
                    true => Outcome::Later { reason: failure.message, after: None, absent: failure.refused },
                    false => Outcome::Refused(failure.message),
                };
            }
        };
        let status = answer.status();
        match self.options.protocol {
            _ if !status.is_success() => refused(status, answer.headers()),
            // What it says about single records changes nothing: they are not sent again.
            Protocol::Http => read(answer).await.map_or_else(|later| later, |_| Outcome::Delivered),
            Protocol::Grpc => grpc_outcome(answer).await,
        }
    }
}

/// A message with the length that gRPC puts before it; not compressed.
fn framed(message: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(message.len() + 5);
    frame.push(0);
    frame.extend(u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    frame.extend(message);
    frame
}

fn refused(status: StatusCode, headers: &HeaderMap) -> Outcome {
    let reason = format!("HTTP status {}", status.as_u16());
    match status.as_u16() {
        429 | 502 | 503 | 504 => Outcome::later(reason, wait(headers)),
        _ => Outcome::Refused(reason),
    }
}

fn wait(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?;
    retry_after(value, SystemClock.now().millis())
}

/// Reads an answer so that its connection can be used again, and returns what follows the body.
async fn read(answer: HttpResponse) -> Result<Option<HeaderMap>, Outcome> {
    let mut body = Body::from(answer);
    let mut read = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Outcome::later(describe(&error).message, None))?;
        match frame.into_data() {
            Ok(data) => read += data.len(),
            Err(frame) => return Ok(frame.into_trailers().ok()),
        }
        if read > MAX_ANSWER {
            return Ok(None);
        }
    }
    Ok(None)
}

async fn grpc_outcome(answer: HttpResponse) -> Outcome {
    // An answer without a body has its status among the headers.
    let headers = answer.headers().clone();
    if headers.contains_key(GRPC_STATUS) {
        return grpc_status(&headers);
    }
    match read(answer).await {
        Ok(trailers) => grpc_status(&trailers.unwrap_or_default()),
        Err(later) => later,
    }
}

fn grpc_status(headers: &HeaderMap) -> Outcome {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(code) = text(GRPC_STATUS).and_then(|code| code.parse::<u32>().ok()) else {
        return Outcome::Refused("not a gRPC server".to_owned());
    };
    let message: String =
        one_line(text(GRPC_MESSAGE).unwrap_or_default()).chars().take(MAX_MESSAGE).collect();
    let reason = format!("gRPC status {code} {message}").trim_end().to_owned();
    match code {
        0 => Outcome::Delivered,
        // Cancelled, deadline exceeded, aborted, out of range, unavailable, data loss.
        1 | 4 | 10 | 11 | 14 | 15 => Outcome::later(reason, None),
        _ => Outcome::Refused(reason),
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderName;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn a_call_is_framed_with_its_length() {
        assert_eq!(framed(b"abc"), [0, 0, 0, 0, 3, b'a', b'b', b'c']);
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        assert_eq!(grpc_status(&headers(&[("grpc-status", "0")])), Outcome::Delivered);
        let busy = grpc_status(&headers(&[("grpc-status", "14"), ("grpc-message", "later\u{9}please")]));
        assert!(matches!(busy, Outcome::Later { absent: false, .. }), "{busy:?}");
        let denied = grpc_status(&headers(&[("grpc-status", "16"), ("grpc-message", &"x".repeat(999))]));
        assert!(matches!(&denied, Outcome::Refused(reason) if reason.len() < 250), "{denied:?}");
        assert!(matches!(grpc_status(&headers(&[])), Outcome::Refused(_)));
        let wait = refused(StatusCode::SERVICE_UNAVAILABLE, &headers(&[("retry-after", "3")]));
        let expected = Outcome::later("HTTP status 503".to_owned(), Some(Duration::from_secs(3)));
        assert_eq!(wait, expected);
        assert_eq!(
            refused(StatusCode::BAD_REQUEST, &HeaderMap::new()),
            Outcome::Refused("HTTP status 400".to_owned())
        );
    }
}
