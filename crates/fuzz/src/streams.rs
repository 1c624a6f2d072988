//! Event streams, and the replies of every model wire in them.

use std::collections::VecDeque;

use pollux_domain::content::{Body, FunctionCall, Part};
use pollux_domain::model::{Dialect, ReplyEvent};
use pollux_model::fuzzing::{Said, read_reply};
use pollux_net::sse::{Item, Parser, SseError};

use crate::pieces::{pieces, steering};

/// Events do not depend on how the bytes are cut, and are not longer than the stream.
pub(crate) fn sse(bytes: &[u8]) {
    let ([seed, limit], stream) = steering(bytes);
    for limit in [usize::MAX, usize::from(limit)] {
        let whole = parse(&[stream], limit);
        // Where a stream is too long depends on the events before, which were told.
        let cut = parse(&pieces(stream, seed), limit);
        assert_eq!(whole, cut, "the same stream in pieces");
        let told: usize = whole.0.iter().map(length).sum();
        assert!(told <= 3 * stream.len(), "{told} bytes of {}", stream.len());
        assert!(whole.0.iter().all(|item| length(item) <= limit.saturating_mul(3)));
    }
}

fn parse(pieces: &[&[u8]], limit: usize) -> (Vec<Item>, Option<SseError>) {
    let mut parser = Parser::with_limit(limit);
    let mut items = VecDeque::new();
    for piece in pieces {
        if let Err(error) = parser.feed(piece, &mut items) {
            return (items.into(), Some(error));
        }
    }
    let end = parser.finish().map(|last| items.extend(last));
    (items.into(), end.err())
}

/// A name that is not UTF-8 grows by its replacement characters.
fn length(item: &Item) -> usize {
    match item {
        Item::Event { name, data } => name.as_ref().map_or(0, String::len) + data.len(),
        Item::Stray(text) => text.len(),
    }
}

pub(crate) fn gemini(bytes: &[u8]) {
    reply(&Dialect::GEMINI, bytes);
}

pub(crate) fn messages(bytes: &[u8]) {
    reply(&Dialect::MESSAGES, bytes);
}

pub(crate) fn responses(bytes: &[u8]) {
    reply(&Dialect::RESPONSES, bytes);
}

pub(crate) fn chat(bytes: &[u8]) {
    reply(&Dialect::CHAT, bytes);
}

/// A reply does not depend on how its bytes are cut. One that breaks off is an error, or has no call that the whole
/// reply does not have. What is told is not much longer than what came.
fn reply(dialect: &Dialect, bytes: &[u8]) {
    let ([seed, place, finer], stream) = steering(bytes);
    let whole = read_reply(dialect, [stream]);
    assert_eq!(whole, read_reply(dialect, pieces(stream, seed)), "the same reply in pieces");
    let told: usize = parts(&whole).map(size).sum();
    assert!(told <= 64 * stream.len() + 4096, "{told} bytes of {}", stream.len());

    let at = stream.len() * (usize::from(place) * 256 + usize::from(finer)) / 65_536;
    let begin = read_reply(dialect, [stream.split_at(at).0]);
    if begin.error.is_none() {
        let runnable: Vec<&FunctionCall> = calls(&begin);
        let all = calls(&whole);
        assert!(
            whole.error.is_some() || runnable.iter().all(|call| all.contains(call)),
            "cut at {at}: {runnable:?} of {all:?}"
        );
    }
}

fn parts(said: &Said) -> impl Iterator<Item = &Part> {
    said.events.iter().flat_map(|event| match event {
        ReplyEvent::Chunk(chunk) => chunk.parts.as_slice(),
        _ => &[],
    })
}

/// The calls that would run.
fn calls(said: &Said) -> Vec<&FunctionCall> {
    let calls = parts(said).filter_map(|part| match &part.body {
        Body::Call(call) if call.bad_args.is_none() => Some(call),
        _ => None,
    });
    calls.collect()
}

fn size(part: &Part) -> usize {
    match &part.body {
        Body::Text(text) | Body::Reasoning { text, .. } => text.len(),
        Body::Call(call) => {
            call.name.len() + call.bad_args.as_ref().map_or(0, |bad| bad.raw.len() + bad.error.len())
        }
        _ => 0,
    }
}
