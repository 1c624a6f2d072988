//! The Chat Completions client over loopback HTTP.

use std::sync::Arc;

use pollux_domain::BoxFuture;
use pollux_test_support::chat::{ChatReply, Close, FakeChat};

use super::super::chat::fixture::client;
use super::{Peer, PeerAnswer, Running};

pub(crate) struct Chat;

impl Peer for Chat {
    fn has_server(&self) -> bool {
        true
    }

    fn start(&self, answers: Vec<PeerAnswer>) -> BoxFuture<'_, Running> {
        Box::pin(async {
            let server = FakeChat::start(answers.into_iter().map(said));
            let client = Arc::new(client(&server));
            Running { client, requests: Box::new(move || server.requests().len()) }
        })
    }
}

fn said(answer: PeerAnswer) -> ChatReply {
    let stream = || ChatReply::stream().role();
    match answer {
        PeerAnswer::Text(pieces) => {
            pieces.iter().fold(stream(), |reply, piece| reply.text(piece)).finish("stop").usage(1, 1).done()
        }
        PeerAnswer::Whole(text) => ChatReply::said(text),
        PeerAnswer::Counted { text, input, output } => {
            stream().text(text).finish("stop").usage(input, output).done()
        }
        PeerAnswer::Call { id, name, args } => {
            stream().call(0, id, name, &args.to_string()).finish("tool_calls").usage(1, 1).done()
        }
        PeerAnswer::BadCall { name, raw } => {
            stream().call(0, "call_1", name, raw).finish("tool_calls").usage(1, 1).done()
        }
        PeerAnswer::CutAfter(piece) => stream().text(piece).close(Close::Drop),
        PeerAnswer::SilentAfter(piece) => stream().text(piece).close(Close::Hold),
        PeerAnswer::RateLimited { seconds } => {
            ChatReply::error(429, "slow down").header("Retry-After", &seconds.to_string())
        }
        PeerAnswer::ServerError => ChatReply::error(500, "oops"),
        PeerAnswer::Overflow { asked, limit } => ChatReply::error(
            400,
            &format!(
                "This model's maximum context length is {limit} tokens. However, your messages resulted in {asked} tokens."
            ),
        ),
    }
}
