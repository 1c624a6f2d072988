//! The Gemini client over loopback HTTP.

use std::sync::Arc;

use pollux_domain::BoxFuture;
use pollux_test_support::{FakeGemini, Reply, reply};
use serde_json::json;

use super::super::fixture::gemini;
use super::{Peer, PeerAnswer, Running};

pub(crate) struct Gemini;

impl Peer for Gemini {
    fn has_server(&self) -> bool {
        true
    }

    fn start(&self, answers: Vec<PeerAnswer>) -> BoxFuture<'_, Running> {
        Box::pin(async {
            let server = FakeGemini::start(answers.into_iter().map(said)).await;
            let client = Arc::new(gemini(&server));
            Running { client, requests: Box::new(move || server.requests().len()) }
        })
    }
}

fn said(answer: PeerAnswer) -> Reply {
    match answer {
        PeerAnswer::Text(pieces) => pieces.iter().fold(reply(), |reply, piece| reply.text(piece)),
        PeerAnswer::Whole(text) => reply().text(text),
        PeerAnswer::Counted { text, input, output } => reply().text(text).usage(input, output),
        PeerAnswer::Call { id, name, args } => reply().call_with_id(id, name, args),
        PeerAnswer::BadCall { name, raw } => {
            reply().part(json!({"functionCall": {"name": name, "args": raw}}))
        }
        PeerAnswer::CutAfter(piece) => reply().text(piece).text("lost").cut_after(1),
        PeerAnswer::SilentAfter(piece) => reply().text(piece).text("late").stall_after(1),
        PeerAnswer::RateLimited { seconds } => {
            Reply::error(429, "RESOURCE_EXHAUSTED", "slow down").header("Retry-After", &seconds.to_string())
        }
        PeerAnswer::ServerError => Reply::error(500, "INTERNAL", "oops"),
        PeerAnswer::Overflow { asked, limit } => {
            let message = format!(
                "The input token count ({asked}) exceeds the maximum number of tokens allowed ({limit})."
            );
            Reply::error(400, "INVALID_ARGUMENT", &message)
        }
    }
}
