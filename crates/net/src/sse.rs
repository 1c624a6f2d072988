//! Server-sent events, as bytes arrive.

use std::collections::VecDeque;

/// One event may not be longer than this.
const MAX_EVENT_BYTES: usize = 64 * 1024 * 1024;
const BOM: &[u8] = b"\xef\xbb\xbf";

/// What a stream holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// One event: its name if it has one, and its data, the lines joined.
    Event { name: Option<String>, data: Vec<u8> },
    /// Lines that are no event stream at all, such as a bare JSON error or a web page.
    Stray(Vec<u8>),
}

/// Why a stream cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    #[error("incomplete JSON segment at the end of the stream")]
    Incomplete,
    #[error("an event of the stream is longer than {} MB", MAX_EVENT_BYTES / 1024 / 1024)]
    TooLong,
}

/// Takes bytes in any split and gives whole events.
#[derive(Debug)]
pub struct Parser {
    /// The line under way.
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// The name of the event under way.
    name: Option<String>,
    stray: Vec<u8>,
    /// The last byte was a carriage return; a line feed now belongs to it.
    after_return: bool,
    at_start: bool,
    limit: usize,
}

impl Default for Parser {
    fn default() -> Self {
        Self::with_limit(MAX_EVENT_BYTES)
    }
}

impl Parser {
    /// For events of at most so many bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            name: None,
            stray: Vec::new(),
            after_return: false,
            at_start: true,
            limit,
        }
    }

    /// Takes the next bytes and appends what they complete to `items`.
    pub fn feed(&mut self, bytes: &[u8], items: &mut VecDeque<Item>) -> Result<(), SseError> {
        let mut rest = bytes;
        while let Some((&first, tail)) = rest.split_first() {
            if std::mem::take(&mut self.after_return) && first == b'\n' {
                rest = tail;
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (piece, after) = rest.split_at(end.unwrap_or(rest.len()));
            if self.line.len() + piece.len() + self.data.len() + self.stray.len() > self.limit {
                return Err(SseError::TooLong);
            }
            self.line.extend_from_slice(piece);
            rest = after;
            if let Some((&terminator, after)) = after.split_first() {
                self.after_return = terminator == b'\r';
                rest = after;
                self.end_line(items);
            }
        }
        Ok(())
    }

    /// The stream has ended: gives what is left, unless an event was under way.
    pub fn finish(&mut self) -> Result<Option<Item>, SseError> {
        let mut items = VecDeque::new();
        if !self.line.is_empty() {
            self.end_line(&mut items);
        }
        if self.has_data {
            return Err(SseError::Incomplete);
        }
        self.dispatch(&mut items);
        Ok(items.pop_front())
    }

    fn end_line(&mut self, items: &mut VecDeque<Item>) {
        let mut line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.at_start) && line.starts_with(BOM) {
            line.drain(..BOM.len());
        }
        if line.is_empty() {
            self.dispatch(items);
        } else {
            self.field(&line);
        }
        // The buffer is used again, so that a long stream does not allocate for each line.
        line.clear();
        self.line = line;
    }

    fn field(&mut self, line: &[u8]) {
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        match name {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
            }
            b"event" => {
                let name = value.strip_prefix(b" ").unwrap_or(value);
                self.name = (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned());
            }
            b"" | b"id" | b"retry" => {}
            _ => {
                if !self.stray.is_empty() {
                    self.stray.push(b'\n');
                }
                self.stray.extend_from_slice(line);
            }
        }
    }

    /// A blank line, or the end, completes an event.
    fn dispatch(&mut self, items: &mut VecDeque<Item>) {
        let name = self.name.take();
        if std::mem::take(&mut self.has_data) {
            items.push_back(Item::Event { name, data: std::mem::take(&mut self.data) });
        }
        let stray = std::mem::take(&mut self.stray);
        if !stray.trim_ascii().is_empty() {
            items.push_back(Item::Stray(stray));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Everything a stream gives when it arrives in these pieces.
    fn parse<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Item>, Option<SseError>) {
        let mut parser = Parser::default();
        let mut items = VecDeque::new();
        let mut failed = None;
        for piece in pieces {
            failed = failed.or(parser.feed(piece, &mut items).err());
        }
        match parser.finish() {
            Ok(last) => items.extend(last),
            Err(error) => failed = failed.or(Some(error)),
        }
        (items.into(), failed)
    }

    fn data(text: &str) -> Item {
        Item::Event { name: None, data: text.as_bytes().to_vec() }
    }

    fn named(name: &str, text: &str) -> Item {
        Item::Event { name: Some(name.to_owned()), data: text.as_bytes().to_vec() }
    }

    #[test]
    fn events_are_read_with_every_line_ending_and_without_what_is_no_data() {
        let cases: &[(&str, Vec<Item>)] = &[
            ("data: {\"a\":1}\n\n", vec![data("{\"a\":1}")]),
            ("data: 1\r\n\r\ndata: 2\r\n\r\n", vec![data("1"), data("2")]),
            ("data: 1\r\rdata:2\r\r", vec![data("1"), data("2")]),
            ("\u{feff}data: 1\n\n", vec![data("1")]),
            ("data: a\ndata: b\n\n", vec![data("a\nb")]),
            (": hello\nid: 7\nretry: 5\ndata: 1\n\n\n\n", vec![data("1")]),
            ("event: x\ndata: 1\n\ndata: 2\n\n", vec![named("x", "1"), data("2")]),
            ("data: 1\nevent:y\n\nevent: z\n\ndata: 2\n\n", vec![named("y", "1"), data("2")]),
            ("event: x\nevent:\ndata: 1\n\n", vec![data("1")]),
            ("data\n\n", vec![data("")]),
            ("data:  two\n\n", vec![data(" two")]),
            ("", vec![]),
            ("\r\n\r\n", vec![]),
            ("{\"error\":\n  {\"code\":4}}", vec![Item::Stray(b"{\"error\":\n  {\"code\":4}}".to_vec())]),
            ("<html>\n\n</html>", vec![Item::Stray(b"<html>".to_vec()), Item::Stray(b"</html>".to_vec())]),
        ];
        for (text, expected) in cases {
            assert_eq!(parse([text.as_bytes()]), (expected.clone(), None), "{text:?}");
        }
    }

    #[test]
    fn an_event_that_was_not_ended_is_an_error_after_the_whole_ones() {
        for text in ["data: 1\n\ndata: {\"a\"", "data: 1\n\ndata: 2\n", "data: 1\n\ndata: 2"] {
            assert_eq!(parse([text.as_bytes()]), (vec![data("1")], Some(SseError::Incomplete)), "{text:?}");
        }
        assert_eq!(parse([b"data: 1\n\n: bye".as_slice()]), (vec![data("1")], None));
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut parser = Parser::with_limit(100);
        let mut items = VecDeque::new();
        assert_eq!(parser.feed(&[b'x'; 60], &mut items), Ok(()));
        assert_eq!(parser.feed(&[b'x'; 60], &mut items), Err(SseError::TooLong));
        let mut parser = Parser::with_limit(100);
        let lines = "data: 0123456789\n".repeat(20);
        assert_eq!(parser.feed(lines.as_bytes(), &mut items), Err(SseError::TooLong));
    }

    proptest! {
        #[test]
        fn the_same_events_come_out_of_every_chunking(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    "data: ", "data:", "event: e", "{\"a\":1}", "\n", "\r", "\r\n", "\n\n", "\r\n\r\n", ": c", "id: 1",
                    "é", "\u{feff}", "{", "<html>", " ", "x",
                ]),
                0..40,
            ),
            cuts in prop::collection::vec(1usize..7, 1..20),
        ) {
            let whole = pieces.concat().into_bytes();
            let mut rest = whole.as_slice();
            let mut split = Vec::new();
            for size in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (head, tail) = rest.split_at((*size).min(rest.len()));
                split.push(head);
                rest = tail;
            }
            prop_assert_eq!(parse(split), parse([whole.as_slice()]));
        }
    }
}
