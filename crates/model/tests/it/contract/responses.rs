//! The client of the Responses API over loopback HTTP.

use std::sync::Arc;

use pollux_domain::BoxFuture;
use pollux_test_support::{FakeResponses, ResponsesReply, responses_reply};

use super::super::responses::client;
use super::{Peer, PeerAnswer, Running};

pub(crate) struct Responses;

impl Peer for Responses {
    fn has_server(&self) -> bool {
        true
    }

    fn start(&self, answers: Vec<PeerAnswer>) -> BoxFuture<'_, Running> {
        Box::pin(async {
            let server = FakeResponses::start(answers.into_iter().map(said));
            let client = Arc::new(client(&server));
            Running { client, requests: Box::new(move || server.requests().len()) }
        })
    }
}

fn said(answer: PeerAnswer) -> ResponsesReply {
    match answer {
        PeerAnswer::Text(pieces) => responses_reply().text(pieces),
        PeerAnswer::Whole(text) => responses_reply().text(&[text]),
        PeerAnswer::Counted { text, input, output } => responses_reply().text(&[text]).usage(input, output),
        PeerAnswer::Call { id, name, args } => responses_reply().call(id, name, &args.to_string()),
        PeerAnswer::BadCall { name, raw } => responses_reply().call("call_1", name, raw),
        PeerAnswer::CutAfter(piece) => responses_reply().text(&[piece]).breaks(),
        PeerAnswer::SilentAfter(piece) => responses_reply().text(&[piece]).falls_silent(),
        PeerAnswer::RateLimited { seconds } => {
            ResponsesReply::error(429, "requests", "rate_limit_exceeded", "slow down")
                .header("Retry-After", &seconds.to_string())
        }
        PeerAnswer::ServerError => ResponsesReply::error(500, "server_error", "server_error", "oops"),
        PeerAnswer::Overflow { asked, limit } => {
            let message = format!(
                "This model's maximum context length is {limit} tokens, however you requested {asked} tokens."
            );
            ResponsesReply::error(400, "invalid_request_error", "context_length_exceeded", &message)
        }
    }
}
