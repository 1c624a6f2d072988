//! An incremental parser for server-sent events.

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
    #[error("a stream event exceeds {} MB", MAX_EVENT_BYTES / 1024 / 1024)]
    TooLong,
}

/// One event with all its fields; empty where the stream said nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// What kind of event it is.
    pub event: Option<String>,
    pub id: Option<String>,
    /// Milliseconds to wait before connecting again.
    pub retry: Option<u64>,
    /// Its lines joined.
    pub data: Option<Vec<u8>>,
    /// Lines among the event's that are no fields.
    pub stray: Vec<u8>,
}

impl Record {
    /// Whether it says anything as an event.
    pub fn has_fields(&self) -> bool {
        self.event.is_some() || self.id.is_some() || self.retry.is_some() || self.data.is_some()
    }

    fn len(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        text(&self.event) + text(&self.id) + self.data.as_ref().map_or(0, Vec::len) + self.stray.len()
    }

    fn field(&mut self, line: &[u8]) {
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = || String::from_utf8_lossy(value).into_owned();
        match name {
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            },
            b"event" => self.event = Some(text()),
            b"id" if !value.contains(&0) => self.id = Some(text()),
            b"retry" => self.retry = text().parse().ok().or(self.retry),
            b"" if !hides_data(value) => {}
            b"id" if !value.contains(&b'{') => {}
            _ => {
                if !self.stray.is_empty() {
                    self.stray.push(b'\n');
                }
                self.stray.extend_from_slice(line);
            }
        }
    }
}

/// Whether a comment is a field whose name was damaged (`:ata: {`). Servers also send JSON in comments of their own.
fn hides_data(comment: &[u8]) -> bool {
    let Some(at) = comment.iter().position(|byte| *byte == b'{') else { return false };
    comment.get(..at).is_some_and(|before| before.trim_ascii_end().ends_with(b":"))
}

/// Takes bytes in any split and gives whole events with all their fields.
#[derive(Debug)]
pub struct Records {
    /// The line under way.
    line: Vec<u8>,
    record: Record,
    /// The last byte was a carriage return; a line feed now belongs to it.
    after_return: bool,
    at_start: bool,
    limit: usize,
    /// Lines that only keep the connection open.
    comments: usize,
}

impl Records {
    /// For events of at most so many bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            line: Vec::new(),
            record: Record::default(),
            after_return: false,
            at_start: true,
            limit,
            comments: 0,
        }
    }

    /// How many comments have come since the last time.
    pub fn take_comments(&mut self) -> usize {
        std::mem::take(&mut self.comments)
    }

    /// Takes the next bytes and appends what they complete to `records`.
    pub fn feed(&mut self, bytes: &[u8], records: &mut VecDeque<Record>) -> Result<(), SseError> {
        let mut rest = bytes;
        while let Some((&first, tail)) = rest.split_first() {
            if std::mem::take(&mut self.after_return) && first == b'\n' {
                rest = tail;
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (piece, after) = rest.split_at(end.unwrap_or(rest.len()));
            if self.line.len() + piece.len() + self.record.len() > self.limit {
                return Err(SseError::TooLong);
            }
            self.line.extend_from_slice(piece);
            rest = after;
            if let Some((&terminator, after)) = after.split_first() {
                self.after_return = terminator == b'\r';
                rest = after;
                records.extend(self.end_line());
            }
        }
        Ok(())
    }

    /// The stream has ended: gives what is left, unless an event was under way.
    pub fn finish(&mut self) -> Result<Option<Record>, SseError> {
        if begins_field(&self.line) {
            return Err(SseError::Incomplete);
        }
        let last = if self.line.is_empty() { None } else { self.end_line() };
        if self.record.data.is_some() {
            return Err(SseError::Incomplete);
        }
        Ok(last.or_else(|| self.whole()))
    }

    /// The event that a line completes, if it does.
    fn end_line(&mut self) -> Option<Record> {
        let mut line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.at_start) && line.starts_with(BOM) {
            line.drain(..BOM.len());
        }
        let whole = if line.is_empty() {
            self.whole()
        } else {
            self.comments += usize::from(line.starts_with(b":"));
            self.record.field(&line);
            None
        };
        // The buffer is used again, so that a long stream does not allocate for each line.
        line.clear();
        self.line = line;
        whole
    }

    /// A blank line, or the end, completes an event.
    fn whole(&mut self) -> Option<Record> {
        let record = std::mem::take(&mut self.record);
        (record.has_fields() || !record.stray.trim_ascii().is_empty()).then_some(record)
    }
}

/// Whether a line may be a field that was cut off in its name.
fn begins_field(line: &[u8]) -> bool {
    let line = line.strip_prefix(BOM).unwrap_or(line);
    !line.is_empty() && ["data", "event", "id", "retry"].iter().any(|name| name.as_bytes().starts_with(line))
}

/// As [`Records`], for streams of which only the data matters.
#[derive(Debug)]
pub struct Parser {
    records: Records,
    whole: VecDeque<Record>,
}

impl Default for Parser {
    fn default() -> Self {
        Self::with_limit(MAX_EVENT_BYTES)
    }
}

impl Parser {
    /// For events of at most so many bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self { records: Records::with_limit(limit), whole: VecDeque::new() }
    }

    /// How many comments have come since the last time. Servers send them to show that they still work.
    pub fn take_comments(&mut self) -> usize {
        self.records.take_comments()
    }

    /// Takes the next bytes and appends what they complete to `items`.
    pub fn feed(&mut self, bytes: &[u8], items: &mut VecDeque<Item>) -> Result<(), SseError> {
        let fed = self.records.feed(bytes, &mut self.whole);
        items.extend(self.whole.drain(..).flat_map(split));
        fed
    }

    /// The stream has ended: gives what is left, unless an event was under way.
    pub fn finish(&mut self) -> Result<Option<Item>, SseError> {
        Ok(self.records.finish()?.into_iter().flat_map(split).next())
    }
}

/// The data of an event, and what stood among its lines.
fn split(record: Record) -> impl Iterator<Item = Item> {
    let mut stray = record.stray;
    // The end of the line before the data was damaged.
    if let (None, Some(name)) = (&record.data, &record.event)
        && name.contains('{')
    {
        stray.extend_from_slice(name.as_bytes());
    }
    let stray = Some(stray).filter(|stray| !stray.trim_ascii().is_empty());
    let name = record.event.filter(|name| !name.is_empty());
    let event = record.data.map(|data| Item::Event { name, data });
    event.into_iter().chain(stray.map(Item::Stray))
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
    fn events_are_read_with_every_line_ending_and_without_comments() {
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
    fn data_behind_a_damaged_name_is_not_passed_over() {
        for line in ["dat: {1}", ":ata: {1}", "event: edata: {1}"] {
            let (items, _) = parse([format!("data: 0\n\n{line}\n\n").as_bytes()]);
            let [first, Item::Stray(stray)] = items.as_slice() else { panic!("{line}: {items:?}") };
            assert!(*first == data("0") && stray.ends_with(b"{1}"), "{line}: {items:?}");
        }
    }

    #[test]
    fn records_have_every_field_in_every_split() {
        let text = "\u{feff}: hello\nevent: endpoint\ndata: /m?é\n\nid: 7\r\nretry: 500\r\nretry: x\r\n\r\n\
                    id: a\0b\ndata: a\rdata: b\r\rnonsense\n\n";
        let expected = [
            Record { event: Some("endpoint".to_owned()), data: Some("/m?é".into()), ..Record::default() },
            Record { id: Some("7".to_owned()), retry: Some(500), ..Record::default() },
            Record { data: Some("a\nb".into()), ..Record::default() },
            Record { stray: "nonsense".into(), ..Record::default() },
        ];
        for size in [1, 2, 3, 7, 1000] {
            let (mut records, mut whole) = (Records::with_limit(1000), VecDeque::new());
            for piece in text.as_bytes().chunks(size) {
                records.feed(piece, &mut whole).unwrap();
            }
            assert_eq!(whole, expected, "{size}");
        }
    }

    #[test]
    fn an_event_that_was_not_ended_is_an_error_after_the_whole_ones() {
        let cut = ["data: {\"a\"", "data: 2\n", "data: 2", "d", "data", "eve", "event: x\nda"];
        for text in cut.map(|cut| format!("data: 1\n\n{cut}")) {
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
