//! The Chat Completions client over loopback HTTP.

use std::sync::Arc;

use pollux_domain::BoxFuture;
use pollux_test_support::chat::{ChatReply, Close, FakeChat};

use super::super::chat::fixture::client;
use super::{Answer, Peer, Running};

pub(crate) struct Chat;

impl Peer for Chat {
    fn has_server(&self) -> bool {
        true
    }

    fn start(&self, answers: Vec<Answer>) -> BoxFuture<'_, Running> {
        Box::pin(async {
            let server = FakeChat::start(answers.into_iter().map(said));
            let client = Arc::new(client(&server));
            Running { client, requests: Box::new(move || server.requests().len()) }
        })
    }
}

fn said(answer: Answer) -> ChatReply {
    let stream = || ChatReply::stream().role();
    match answer {
        Answer::Text(pieces) => {
            pieces.iter().fold(stream(), |reply, piece| reply.text(piece)).finish("stop").usage(1, 1).done()
        }
        Answer::Whole(text) => ChatReply::said(text),
        Answer::Counted { text, input, output } => {
            stream().text(text).finish("stop").usage(input, output).done()
        }
        Answer::Call { id, name, args } => {
            stream().call(0, id, name, &args.to_string()).finish("tool_calls").usage(1, 1).done()
        }
        Answer::BadCall { name, raw } => {
            stream().call(0, "call_1", name, raw).finish("tool_calls").usage(1, 1).done()
        }
        Answer::CutAfter(piece) => stream().text(piece).close(Close::Drop),
        Answer::SilentAfter(piece) => stream().text(piece).close(Close::Hold),
        Answer::RateLimited { seconds } => {
            ChatReply::error(429, "slow down").header("Retry-After", &seconds.to_string())
        }
        Answer::ServerError => ChatReply::error(500, "oops"),
        Answer::Overflow { asked, limit } => ChatReply::error(
            400,
            &format!(
                "This model's maximum context length is {limit} tokens. However, your messages resulted in {asked} tokens."
            ),
        ),
    }
}
