//! What every provider must do, whatever its wire looks like. A provider joins with a [`Peer`] in a file below and a
//! line at the end of this one.

mod chat;
mod gemini;
mod messages;
mod responses;
mod scripted;

use std::sync::Arc;
use std::time::Duration;

use pollux_domain::BoxFuture;
use pollux_domain::model::{FinishReason, ModelClient, ModelErrorKind, ReplyEvent, Usage};
use serde_json::{Value, json};

use super::fixture::{Told, drain, prompt};

/// A provider under test.
pub(crate) trait Peer {
    /// Whether requests go to a server, which can be busy and whose connections can break.
    fn has_server(&self) -> bool;

    /// A client that gets these answers, one for each attempt.
    fn start(&self, answers: Vec<PeerAnswer>) -> BoxFuture<'_, Running>;
}

/// A client and what it talks to.
pub(crate) struct Running {
    pub(crate) client: Arc<dyn ModelClient>,
    /// How many requests have arrived.
    pub(crate) requests: Box<dyn Fn() -> usize + Send + Sync>,
}

/// One answer, to be said in the provider's own way.
pub(crate) enum PeerAnswer {
    /// Text in these pieces, and the end.
    Text(&'static [&'static str]),
    /// The same for a request that does not stream.
    Whole(&'static str),
    /// A text of so many tokens for so many.
    Counted {
        text: &'static str,
        input: u64,
        output: u64,
    },
    Call {
        id: &'static str,
        name: &'static str,
        args: Value,
    },
    /// A call with this text for arguments.
    BadCall {
        name: &'static str,
        raw: &'static str,
    },
    /// One piece, then the connection breaks.
    CutAfter(&'static str),
    /// One piece, then nothing for a long time.
    SilentAfter(&'static str),
    /// Too many requests; come back in so many seconds.
    RateLimited {
        seconds: u64,
    },
    ServerError,
    /// The request is too large.
    Overflow {
        asked: u64,
        limit: u64,
    },
}

impl Running {
    async fn ask(&self) -> Told {
        drain(self.client.stream(prompt("hi"))).await
    }
}

async fn text_arrives_in_pieces_and_ends_once(peer: impl Peer) {
    let running = peer.start(vec![PeerAnswer::Text(&["one ", "two ", "three"])]).await;
    let told = running.ask().await;
    assert_eq!((told.text().as_str(), &told.error), ("one two three", &None));
    assert!(told.chunks.iter().filter(|chunk| !chunk.parts.is_empty()).count() >= 3, "it streams");
    let ends: Vec<_> = told.chunks.iter().filter_map(|chunk| chunk.finish.as_ref()).collect();
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0].reason, FinishReason::Stop);
    assert!(told.waits.is_empty());
}

async fn nothing_is_sent_before_the_stream_is_read(peer: impl Peer) {
    let running = peer.start(vec![PeerAnswer::Text(&["late"])]).await;
    let info = running.client.resolve("pro");
    assert!(info.context_window > 0 && !info.id.is_empty() && !info.provider.as_str().is_empty());
    assert_eq!(running.client.resolve("pro"), info, "the same name means the same model");
    let stream = running.client.stream(prompt("hi"));
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!((running.requests)(), 0);
    assert_eq!(drain(stream).await.text(), "late");
}

async fn a_whole_reply_can_be_asked_for(peer: impl Peer) {
    let running = peer.start(vec![PeerAnswer::Whole("all of it")]).await;
    let chunk = running.client.generate(prompt("hi")).await.unwrap();
    assert_eq!(chunk.parts.iter().filter_map(|part| part.spoken_text()).collect::<String>(), "all of it");
}

async fn a_call_is_told_once_and_whole(peer: impl Peer) {
    let args = json!({"path": "a b", "deep": {"z": [1, 2], "a": null}});
    let running =
        peer.start(vec![PeerAnswer::Call { id: "call-1", name: "read_file", args: args.clone() }]).await;
    let told = running.ask().await;
    let calls: Vec<_> =
        told.chunks.iter().flat_map(|chunk| &chunk.parts).filter_map(|part| part.as_call()).collect();
    let [call] = calls.as_slice() else { panic!("one call was due: {calls:?}") };
    assert_eq!((call.id.as_deref(), call.name.as_str()), (Some("call-1"), "read_file"));
    assert_eq!(Value::Object(call.args.clone()), args);
    assert_eq!(call.bad_args, None);
    let reason = told.chunks.iter().find_map(|chunk| chunk.finish.as_ref()).map(|finish| &finish.reason);
    assert!(matches!(reason, Some(FinishReason::Stop | FinishReason::ToolCalls)), "{reason:?}");
}

async fn arguments_that_are_no_json_are_kept_as_text(peer: impl Peer) {
    let running = peer.start(vec![PeerAnswer::BadCall { name: "read_file", raw: "{\"path\": \"a" }]).await;
    let told = running.ask().await;
    let parts: Vec<_> = told.chunks.iter().flat_map(|chunk| &chunk.parts).collect();
    let call = parts.iter().find_map(|part| part.as_call()).unwrap();
    assert!(call.args.is_empty());
    assert_eq!(call.bad_args.as_ref().unwrap().raw, "{\"path\": \"a");
    assert_eq!(told.error, None, "the model is told, the stream is fine");
}

async fn usage_is_that_of_the_whole_reply(peer: impl Peer) {
    let running = peer.start(vec![PeerAnswer::Counted { text: "x", input: 10, output: 5 }]).await;
    let told = running.ask().await;
    let last = told.chunks.iter().filter_map(|chunk| chunk.usage).next_back();
    assert_eq!(last, Some(Usage { input: 10, output: 5, total: 15, ..Usage::default() }));
}

async fn a_break_in_the_middle_is_an_error_that_may_be_tried_again(peer: impl Peer) {
    let running = peer.start(vec![PeerAnswer::CutAfter("one")]).await;
    let mut stream = running.client.stream(prompt("hi"));
    let mut text = String::new();
    let error = loop {
        match stream.next().await.expect("a break is no end") {
            Ok(ReplyEvent::Chunk(chunk)) => {
                text.extend(chunk.parts.iter().filter_map(|part| part.spoken_text()))
            }
            Ok(ReplyEvent::Alive) => {}
            Ok(other) => panic!("nothing else was due: {other:?}"),
            Err(error) => break error,
        }
    };
    assert_eq!(text, "one");
    assert!(error.stream_may_restart(), "{error:?}");
    assert_eq!(stream.next().await, None, "after an error the stream is over");
}

async fn a_server_that_asks_for_patience_gets_it(peer: impl Peer) {
    let running = peer.start(vec![PeerAnswer::RateLimited { seconds: 2 }, PeerAnswer::Text(&["good"])]).await;
    let told = running.ask().await;
    if !peer.has_server() {
        assert_eq!(told.error().kind, ModelErrorKind::RateLimited);
        return;
    }
    assert_eq!((told.text().as_str(), &told.error), ("good", &None));
    let [wait] = told.waits.as_slice() else { panic!("one wait was due: {:?}", told.waits) };
    assert_eq!((wait.attempt, wait.status), (1, Some(429)));
    // Delays are scaled down to a ten-thousandth.
    assert_eq!(wait.delay, Duration::from_micros(200), "the server's wish is kept");
    assert_eq!((running.requests)(), 2);
}

async fn a_server_that_fails_is_asked_again(peer: impl Peer) {
    let answers = vec![PeerAnswer::ServerError, PeerAnswer::ServerError, PeerAnswer::Text(&["good"])];
    let running = peer.start(answers).await;
    let told = running.ask().await;
    if !peer.has_server() {
        assert_eq!(told.error().kind, ModelErrorKind::Server);
        return;
    }
    assert_eq!((told.text().as_str(), told.waits.len()), ("good", 2));
    assert_eq!((running.requests)(), 3);
}

async fn a_request_that_is_too_large_says_by_how_much(peer: impl Peer) {
    let running = peer.start(vec![PeerAnswer::Overflow { asked: 1_200_000, limit: 1_048_576 }]).await;
    let told = running.ask().await;
    let kind = ModelErrorKind::ContextOverflow { asked: Some(1_200_000), limit: Some(1_048_576) };
    assert_eq!(told.error().kind, kind);
    assert!(!told.error().stream_may_restart() && told.waits.is_empty());
}

async fn a_dropped_stream_is_over_and_the_next_request_is_not_disturbed(peer: impl Peer) {
    let running = peer.start(vec![PeerAnswer::SilentAfter("one"), PeerAnswer::Text(&["two"])]).await;
    let mut stream = running.client.stream(prompt("hi"));
    let mut first = stream.next().await;
    while let Some(Ok(ReplyEvent::Alive)) = first {
        first = stream.next().await;
    }
    assert!(matches!(&first, Some(Ok(ReplyEvent::Chunk(_)))), "{first:?}");
    if peer.has_server() {
        let pending = tokio::time::timeout(Duration::from_millis(50), stream.next()).await;
        assert!(pending.is_err(), "the server is silent");
    }
    drop(stream);
    let told = running.ask().await;
    assert_eq!((told.text().as_str(), told.error), ("two", None));
}

/// All of it for one provider.
macro_rules! contract {
    ($provider:ident, $peer:expr; $($case:ident),* $(,)?) => {
        mod $provider {
            $(
                #[tokio::test]
                async fn $case() {
                    super::super::$case($peer).await;
                }
            )*
        }
    };
}

macro_rules! every_case {
    ($provider:ident, $peer:expr) => {
        contract!(
            $provider, $peer;
            text_arrives_in_pieces_and_ends_once,
            nothing_is_sent_before_the_stream_is_read,
            a_whole_reply_can_be_asked_for,
            a_call_is_told_once_and_whole,
            arguments_that_are_no_json_are_kept_as_text,
            usage_is_that_of_the_whole_reply,
            a_break_in_the_middle_is_an_error_that_may_be_tried_again,
            a_server_that_asks_for_patience_gets_it,
            a_server_that_fails_is_asked_again,
            a_request_that_is_too_large_says_by_how_much,
            a_dropped_stream_is_over_and_the_next_request_is_not_disturbed,
        );
    };
}

mod providers {
    every_case!(chat, super::super::chat::Chat);
    every_case!(gemini, super::super::gemini::Gemini);
    every_case!(messages, super::super::messages::Messages);
    every_case!(responses, super::super::responses::Responses);
    every_case!(scripted, super::super::scripted::Script);
}
