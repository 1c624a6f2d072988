//! What every provider over HTTP shares: sending with retries, what a status means, replies as event streams.
//!
//! A provider brings a [`Protocol`], which knows its server's credentials and errors, an [`Exchange`] for each reply,
//! which writes the request and may mend one that was refused, and a [`Decoder`], which turns the events of the reply
//! into the port's. Everything about time is here: delays between attempts, servers
//! that say nothing, streams that stall or break off. Dropping a stream ends its request.

mod attempts;
mod connection;
pub(crate) mod events;
mod exchange;
mod failure;
mod page;
mod rate_limit;
mod stream;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use pollux_config::groups::Secret;
use pollux_domain::BoxFuture;
use pollux_domain::model::{ProviderId, ReplyEvent};
use pollux_domain::time::Clock;
use pollux_net::backoff::Backoff;
use reqwest::Request;
use serde_json::Value;

pub(crate) use attempts::{LOADING_LIMIT, LOADING_PACE, loading_notice};
pub(crate) use connection::Connection;
pub(crate) use exchange::{Exchange, FixedRequest, Mend};
pub(crate) use failure::{Failure, Retry, Verdict};
pub(crate) use page::{name_of_answer, web_page};
pub(crate) use stream::{HttpStream, SignedStream};

/// How requests are sent, whatever they say.
pub(crate) struct HttpOptions {
    pub(crate) http: reqwest::Client,
    /// Whether a stream that breaks before its first chunk is tried again, too.
    pub(crate) retry_broken_streams: bool,
    pub(crate) backoff: Backoff,
    /// How long the first byte of an answer may take.
    pub(crate) first_byte: Duration,
    /// How long a stream may then be silent.
    pub(crate) stall: Duration,
    pub(crate) clock: Arc<dyn Clock>,
    /// Gives numbers in 0..1 for the jitter of delays.
    pub(crate) random: fn() -> f64,
}

/// What one provider's server expects and what its answers mean.
pub(crate) trait Protocol: Send + Sync {
    /// Named in errors.
    fn provider(&self) -> ProviderId;

    /// The key that a server may quote in its errors and that people must not see there.
    fn key(&self) -> Option<&Secret>;

    /// Everything that people must not see in errors.
    fn secrets(&self) -> Vec<&Secret> {
        self.key().into_iter().collect()
    }

    /// Puts the token of the hour on a request; `None` if the request has all it needs.
    fn authorize<'a>(&'a self, request: &'a mut Request) -> BoxFuture<'a, Result<Option<Secret>, Failure>> {
        let _ = request;
        Box::pin(async { Ok(None) })
    }

    /// The server refused a token; the next one must be another.
    fn discard<'a>(&'a self, token: &'a Secret) -> BoxFuture<'a, ()> {
        let _ = token;
        Box::pin(async {})
    }

    /// Whether the server runs on this machine or next to it, and may be a small one.
    fn is_local(&self) -> bool {
        false
    }

    /// What an answer with an error status means.
    fn refused(&self, refusal: &Refusal<'_>) -> Failure;

    /// An answer that is not from the API at all.
    fn not_the_api(&self, status: u16, text: &str) -> Failure;

    /// Refines the failure when nothing listens at the server's address.
    fn connection_refused(&self, failure: Failure) -> Failure {
        failure
    }
}

/// An answer with an error status.
pub(crate) struct Refusal<'a> {
    pub(crate) status: u16,
    /// The usual words for the status.
    pub(crate) reason: &'a str,
    pub(crate) body: &'a [u8],
    /// What `retry-after-ms` or `retry-after` ask for.
    pub(crate) retry_after: Option<Duration>,
    /// What `x-should-retry` says.
    pub(crate) should_retry: Option<bool>,
}

/// Reads one reply. Events are appended in order; a call is told once, when it is whole.
pub(crate) trait Decoder: Send {
    /// An event of the stream, with its name if it has one. The end mark `[DONE]` is not among them.
    fn event(
        &mut self,
        name: Option<&str>,
        data: &[u8],
        events: &mut VecDeque<ReplyEvent>,
    ) -> Result<(), Failure>;

    /// An object of a reply that came as a whole, because a gateway does not stream.
    fn object(&mut self, value: Value, events: &mut VecDeque<ReplyEvent>) -> Result<(), Failure>;

    /// Lines outside of events: an error of the API's, or someone else's words.
    fn stray(&self, text: &[u8]) -> Option<Failure>;

    /// The end mark `[DONE]` has come.
    fn done(&mut self) {}

    /// Whether nothing of worth can follow, so that the end of the connection need not be awaited.
    fn is_over(&self) -> bool {
        false
    }

    /// Nothing follows: tells what is left, or that the reply is not whole. An error of the kind `Cut` is for the
    /// caller to retry.
    fn end(&mut self, events: &mut VecDeque<ReplyEvent>) -> Result<(), Failure> {
        let _ = events;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Plain;

    impl Protocol for Plain {
        fn provider(&self) -> ProviderId {
            ProviderId::new("plain")
        }

        fn key(&self) -> Option<&Secret> {
            None
        }

        fn refused(&self, refusal: &Refusal<'_>) -> Failure {
            let message = String::from_utf8_lossy(refusal.body).into_owned();
            Verdict::of_status(refusal.status).into_failure(refusal.status, message, refusal.retry_after)
        }

        fn not_the_api(&self, _status: u16, text: &str) -> Failure {
            Failure::malformed(text)
        }
    }

    #[tokio::test]
    async fn a_protocol_without_tokens_sends_requests_as_they_are() {
        let mut request = Request::new(reqwest::Method::GET, "http://localhost/".parse().unwrap());
        assert!(matches!(Plain.authorize(&mut request).await, Ok(None)));
        Plain.discard(&Secret::new("x")).await;
        assert!(request.headers().is_empty());
        let retry_after = Some(Duration::from_secs(2));
        let refusal = Refusal { status: 429, reason: "", body: b"slow", retry_after, should_retry: None };
        let failure = Plain.refused(&refusal);
        assert_eq!(failure.error.details.retry_after, Some(Duration::from_secs(2)));
        assert!(matches!(failure.retry, Retry::After { hint: Some(_), .. }));
    }
}
