//! A recorded stream gives the same reply in whatever pieces it arrives.

use pollux_domain::content::{Body, Part};
use pollux_domain::model::{ModelClient, ReplyChunk};
use pollux_test_support::{FakeResponses, responses_reply};
use proptest::prelude::*;

use super::{Told, client, prompt};
use crate::it::fixture::drain;

fn recorded() -> pollux_test_support::ResponsesReply {
    responses_reply()
        .reasoning("**Grüße** 世界", Some("c2VhbA=="))
        .message(&["Hel", "lo, ", "世界"], Some("commentary"))
        .call("call_1", "read_file", "{\"path\":\"ä\\n\"}")
        .bytes(": comment\r\n\r\n")
        .message(&["done"], Some("final_answer"))
        .usage(5, 6)
}

/// The reply without the borders of its chunks, which follow those of the network.
fn joined(told: Told) -> ReplyChunk {
    assert_eq!(told.error, None);
    let mut whole = ReplyChunk::default();
    for chunk in told.chunks {
        for part in chunk.parts {
            match (whole.parts.last_mut(), part) {
                (Some(Part { body: Body::Text(text), .. }), Part { body: Body::Text(more), .. }) => {
                    text.push_str(&more);
                }
                (_, part) => whole.parts.push(part),
            }
        }
        whole = ReplyChunk { parts: whole.parts, ..chunk };
    }
    whole
}

/// The reply in one piece for each event, and in these.
fn replies(pieces: &[usize]) -> (ReplyChunk, ReplyChunk) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = FakeResponses::start([recorded(), recorded().split(pieces.iter().copied())]);
        let client = client(&server);
        let whole = joined(drain(client.stream(prompt("hi"))).await);
        (whole, joined(drain(client.stream(prompt("hi"))).await))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_reply_is_the_same_in_whatever_pieces_it_arrives(
        pieces in prop::collection::vec(prop_oneof![1usize..8, 20usize..400], 1..12),
    ) {
        let (whole, split) = replies(&pieces);
        prop_assert_eq!(whole.parts.len(), 5);
        prop_assert_eq!(split, whole);
    }
}
