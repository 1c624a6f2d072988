//! The Messages client over loopback HTTP.

use std::sync::Arc;

use pollux_domain::BoxFuture;
use pollux_test_support::{FakeMessages, MessagesReply};
use serde_json::json;

use super::super::messages::client;
use super::{Peer, PeerAnswer, Running};

pub(crate) struct Messages;

impl Peer for Messages {
    fn has_server(&self) -> bool {
        true
    }

    fn start(&self, answers: Vec<PeerAnswer>) -> BoxFuture<'_, Running> {
        Box::pin(async {
            let server = FakeMessages::start(answers.into_iter().map(said));
            let client = Arc::new(client(&server));
            Running { client, requests: Box::new(move || server.requests().len()) }
        })
    }
}

fn said(answer: PeerAnswer) -> MessagesReply {
    let reply = MessagesReply::new();
    match answer {
        PeerAnswer::Text(pieces) => reply.text(pieces),
        PeerAnswer::Whole(text) => reply.text(&[text]),
        PeerAnswer::Counted { text, input, output } => {
            let start = json!({"input_tokens": input, "output_tokens": 1});
            reply.text(&[text]).usage(start, json!({"output_tokens": output}))
        }
        PeerAnswer::Call { id, name, args } => reply.call(id, name, &args),
        PeerAnswer::BadCall { name, raw } => reply.call_in_pieces("call-1", name, &[raw]),
        PeerAnswer::CutAfter(piece) => reply.text(&[piece]).cut(),
        PeerAnswer::SilentAfter(piece) => reply.text(&[piece]).silent(),
        PeerAnswer::RateLimited { seconds } => MessagesReply::error(429, "rate_limit_error", "slow down")
            .header("Retry-After", &seconds.to_string()),
        PeerAnswer::ServerError => MessagesReply::error(500, "api_error", "oops"),
        PeerAnswer::Overflow { asked, limit } => {
            let message = format!("prompt is too long: {asked} tokens > {limit} maximum");
            MessagesReply::error(400, "invalid_request_error", &message)
        }
    }
}
