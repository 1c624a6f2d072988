//! The conversation that is disturbed, and its bytes.

use crate::wires::{Said, Wire};
use serde_json::json;

/// What the user asks for.
pub const PROMPT: &str = "Write the note.";
/// The file that the call writes.
pub const FILE: &str = "note.txt";
/// Long enough that half of it is no small difference, with letters that JSON escapes.
pub const CONTENT: &str =
    "1 alpha beta gamma\n2 \"delta\" epsilon\tzeta\n3 \\eta thêta iota\n4 kappa lambda mu\n5 the end\n";
/// The pieces of the text of each reply.
pub const TEXTS: [&[&str]; 2] = [&["I am going ", "to write ", "the note."], &["Every word ", "is written."]];

/// How the end of a body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// One chunk for each event, as servers do.
    Chunked,
    Length,
    /// The end of the connection is the end of the body.
    UntilClose,
}

impl Framing {
    pub const ALL: [Self; 3] = [Self::Chunked, Self::Length, Self::UntilClose];
}

/// The events of a reply. Each attempt has ids of its own.
pub(super) fn events(wire: Wire, reply: usize, attempt: usize) -> Vec<Vec<u8>> {
    let text = TEXTS[reply].iter().map(|piece| (*piece).to_owned()).collect();
    let calls = match reply {
        0 => vec![("write_file".to_owned(), json!({"file_path": FILE, "content": CONTENT}))],
        _ => Vec::new(),
    };
    let said = Said { text, calls, ..Said::text("") }.in_pieces(4);
    let stream = wire.stream(&said, 1 + reply + 2 * attempt.min(3));
    let text = String::from_utf8(stream).unwrap();
    text.split_inclusive("\n\n").map(|event| event.as_bytes().to_vec()).collect()
}

/// A whole answer in a framing.
pub(super) fn framed(framing: Framing, events: &[Vec<u8>]) -> Vec<u8> {
    let body = events.concat();
    let mut head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n".to_owned();
    match framing {
        Framing::Chunked => head.push_str("Transfer-Encoding: chunked\r\n\r\n"),
        Framing::Length => head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len())),
        Framing::UntilClose => head.push_str("Connection: close\r\n\r\n"),
    }
    let mut bytes = head.into_bytes();
    if framing != Framing::Chunked {
        bytes.extend(body);
        return bytes;
    }
    for event in events {
        bytes.extend(format!("{:x}\r\n", event.len()).bytes());
        bytes.extend(event);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n\r\n");
    bytes
}

/// An answer that nothing disturbs.
pub(super) fn clean(wire: Wire, framing: Framing, reply: usize, attempt: usize) -> Vec<u8> {
    framed(framing, &events(wire, reply, attempt))
}
