//! The Gemini client over loopback HTTP.

use std::sync::Arc;

use pollux_domain::BoxFuture;
use pollux_test_support::{FakeGemini, Reply, reply};
use serde_json::json;

use super::super::fixture::gemini;
use super::{Answer, Peer, Running};

pub(crate) struct Gemini;

impl Peer for Gemini {
    fn has_server(&self) -> bool {
        true
    }

    fn start(&self, answers: Vec<Answer>) -> BoxFuture<'_, Running> {
        Box::pin(async {
            let server = FakeGemini::start(answers.into_iter().map(said)).await;
            let client = Arc::new(gemini(&server));
            Running { client, requests: Box::new(move || server.requests().len()) }
        })
    }
}

fn said(answer: Answer) -> Reply {
    match answer {
        Answer::Text(pieces) => pieces.iter().fold(reply(), |reply, piece| reply.text(piece)),
        Answer::Whole(text) => reply().text(text),
        Answer::Counted { text, input, output } => reply().text(text).usage(input, output),
        Answer::Call { id, name, args } => reply().call_with_id(id, name, args),
        Answer::BadCall { name, raw } => reply().part(json!({"functionCall": {"name": name, "args": raw}})),
        Answer::CutAfter(piece) => reply().text(piece).text("lost").cut_after(1),
        Answer::SilentAfter(piece) => reply().text(piece).text("late").stall_after(1),
        Answer::RateLimited { seconds } => {
            Reply::error(429, "RESOURCE_EXHAUSTED", "slow down").header("Retry-After", &seconds.to_string())
        }
        Answer::ServerError => Reply::error(500, "INTERNAL", "oops"),
        Answer::Overflow { asked, limit } => {
            let message = format!(
                "The input token count ({asked}) exceeds the maximum number of tokens allowed ({limit})."
            );
            Reply::error(400, "INVALID_ARGUMENT", &message)
        }
    }
}
