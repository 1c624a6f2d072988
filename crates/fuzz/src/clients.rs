//! Messages of clients that speak JSON-RPC over lines.

use pollux_front::rpc::{Incoming, message};
use pollux_front::stdio::PartialLine;
use serde_json::value::RawValue;

use crate::pieces::{pieces, steering};

/// The longest line of a client in this target.
const MAX_LINE: usize = 512;

/// A client's messages do not depend on how they arrive; each line gives at most one, and ids stay as written.
pub(crate) fn rpc(bytes: &[u8]) {
    let ([seed], input) = steering(bytes);
    let whole = incoming(&[input]);
    assert_eq!(describe(&whole), describe(&incoming(&pieces(input, seed))), "the same input in pieces");
    assert!(whole.len() <= 1 + input.iter().filter(|byte| **byte == b'\n').count());
    for message in &whole {
        let (Incoming::Request { id, .. } | Incoming::Bad { id, .. }) = message else { continue };
        // Not read as a value: half of a surrogate pair is JSON, but no text.
        let raw: &RawValue = serde_json::from_str(id).expect("an id is JSON");
        let is_simple =
            raw.get().starts_with(['"', '-']) || raw.get().starts_with(|c: char| c.is_ascii_digit());
        assert!(is_simple || id == "null", "{id}");
        assert!(
            id == "null" || String::from_utf8_lossy(input).contains(id.as_str()),
            "{id} as it was written"
        );
    }
}

fn incoming(pieces: &[&[u8]]) -> Vec<Incoming> {
    let mut partial = PartialLine::default();
    let mut found = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            let (used, line) = partial.take(rest, MAX_LINE);
            rest = rest.split_at(used).1;
            found.extend(line.and_then(|line| message(&line, MAX_LINE)));
        }
    }
    found.extend(partial.rest().and_then(|line| message(&line, MAX_LINE)));
    found
}

fn describe(messages: &[Incoming]) -> Vec<String> {
    messages.iter().map(|message| format!("{message:?}")).collect()
}
