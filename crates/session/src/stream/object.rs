//! Finds the fields and messages of a JSON object without loading it into memory.
//!
//! Only brackets and quotes are followed; whether a value is valid JSON shows when it is decoded.

use std::io::{self, BufRead};

use pollux_domain::json::parse_lenient;

use super::MessagePlace;
use crate::raw;

/// Longer keys than this are no fields of a session.
const MAX_KEY: usize = 4096;

/// How the object ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// With its bracket, and nothing follows.
    Whole,
    /// With its bracket on the first line, and more lines follow.
    MoreLines,
    /// With the file.
    Torn,
    /// It is no JSON, or not an object, or something else follows.
    Damaged,
    /// There is nothing.
    Empty,
}

#[derive(Debug)]
pub(super) struct Scanned {
    pub(super) outcome: Outcome,
    /// The fields but for the list of messages, as they are in the file.
    pub(super) fields: Vec<(String, Vec<u8>)>,
    pub(super) spans: Vec<MessagePlace>,
    /// Whether there is a list of messages.
    pub(super) has_list: bool,
    /// Whether the object is on a single line.
    pub(super) is_line: bool,
    /// Where a message began that does not end.
    pub(super) unfinished: Option<u64>,
}

/// What the bytes at hand belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    /// In front of the object.
    Start,
    /// Between a bracket or comma and a key.
    BeforeKey,
    Key,
    BeforeColon,
    BeforeValue,
    /// A field that is kept.
    Value,
    /// The list of messages, between two of them.
    List,
    Message,
    AfterList,
    /// Behind the object.
    End,
}

struct Scanner {
    /// Whether control characters inside strings are passed over.
    is_tolerant: bool,
    within: Within,
    depth: u64,
    in_string: bool,
    escaped: bool,
    at: u64,
    key: Vec<u8>,
    value: Vec<u8>,
    message_at: u64,
    found: Scanned,
}

pub(super) fn scan(reader: &mut impl BufRead) -> io::Result<Scanned> {
    scan_with(Scanner::new(false), reader)
}

/// As [`scan`], passing over control characters inside strings.
pub(super) fn scan_damaged(reader: &mut impl BufRead) -> io::Result<Scanned> {
    scan_with(Scanner::new(true), reader)
}

fn scan_with(mut scanner: Scanner, reader: &mut impl BufRead) -> io::Result<Scanned> {
    loop {
        let chunk = reader.fill_buf()?;
        if chunk.is_empty() {
            break;
        }
        let length = chunk.len();
        if let Some(outcome) = scanner.take(chunk) {
            scanner.found.outcome = outcome;
            return Ok(scanner.found);
        }
        reader.consume(length);
    }
    scanner.found.outcome = match scanner.within {
        Within::Start => Outcome::Empty,
        Within::End => Outcome::Whole,
        Within::Message => {
            scanner.found.unfinished = Some(scanner.message_at);
            Outcome::Torn
        }
        _ => Outcome::Torn,
    };
    Ok(scanner.found)
}

impl Scanner {
    fn new(is_tolerant: bool) -> Self {
        let found = Scanned {
            outcome: Outcome::Empty,
            fields: Vec::new(),
            spans: Vec::new(),
            has_list: false,
            is_line: true,
            unfinished: None,
        };
        Self {
            is_tolerant,
            within: Within::Start,
            depth: 0,
            in_string: false,
            escaped: false,
            at: 0,
            key: Vec::new(),
            value: Vec::new(),
            message_at: 0,
            found,
        }
    }

    /// Follows a piece of the file; `Some` if what comes after need not be looked at.
    fn take(&mut self, chunk: &[u8]) -> Option<Outcome> {
        let mut rest = chunk;
        while let Some((byte, after)) = rest.split_first() {
            if self.in_string {
                let skipped = self.skip_string(rest);
                let Some(skipped) = skipped else { return Some(Outcome::Damaged) };
                self.at += skipped as u64;
                rest = rest.get(skipped..).unwrap_or_default();
                continue;
            }
            if let Some(outcome) = self.step(*byte) {
                return Some(outcome);
            }
            self.at += 1;
            rest = after;
        }
        None
    }

    /// Goes to the end of the string or of the bytes. `None` for a character no string may hold.
    fn skip_string(&mut self, bytes: &[u8]) -> Option<usize> {
        let length = match raw::string_end(bytes, self.escaped) {
            Ok(length) => {
                self.in_string = false;
                self.escaped = false;
                length
            }
            Err(escaped) => {
                self.escaped = escaped;
                bytes.len()
            }
        };
        let kept = bytes.get(..length).unwrap_or_default();
        // All of them, without a way out in between: that is faster.
        if !self.is_tolerant && kept.iter().fold(false, |found, byte| found | (*byte < 0x20)) {
            return None;
        }
        match self.within {
            Within::Value => self.value.extend_from_slice(kept),
            Within::Key => {
                self.key.extend_from_slice(kept);
                if self.key.len() > MAX_KEY {
                    return None;
                }
                if !self.in_string {
                    self.within = Within::BeforeColon;
                }
            }
            _ => {}
        }
        Some(length)
    }

    /// One byte outside of strings.
    fn step(&mut self, byte: u8) -> Option<Outcome> {
        if byte == b'\n' && self.within != Within::End && self.within != Within::Start {
            self.found.is_line = false;
        }
        let is_space = matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        match self.within {
            Within::Start => match byte {
                b'{' => {
                    self.within = Within::BeforeKey;
                    self.depth = 1;
                }
                // The three bytes of a byte order mark.
                0xef | 0xbb | 0xbf if self.at < 3 => {}
                _ if is_space => {}
                _ => return Some(Outcome::Damaged),
            },
            Within::BeforeKey => match byte {
                b'"' => {
                    self.key.clear();
                    self.key.push(b'"');
                    self.in_string = true;
                    self.within = Within::Key;
                }
                b'}' => self.within = Within::End,
                b',' => {}
                _ if is_space => {}
                _ => return Some(Outcome::Damaged),
            },
            Within::Key => return Some(Outcome::Damaged),
            Within::BeforeColon => match byte {
                b':' => self.within = Within::BeforeValue,
                _ if is_space => {}
                _ => return Some(Outcome::Damaged),
            },
            Within::BeforeValue if is_space => {}
            Within::BeforeValue => self.begin_value(byte),
            Within::Value => self.continue_value(byte),
            Within::List => match byte {
                b']' => self.within = Within::AfterList,
                b',' => {}
                _ if is_space => {}
                _ => {
                    self.message_at = self.at;
                    self.within = Within::Message;
                    self.nest(byte);
                }
            },
            Within::Message => self.continue_message(byte),
            Within::AfterList => match byte {
                b',' => self.within = Within::BeforeKey,
                b'}' => self.within = Within::End,
                _ if is_space => {}
                _ => return Some(Outcome::Damaged),
            },
            Within::End if is_space => {}
            Within::End => {
                return Some(if self.found.is_line { Outcome::MoreLines } else { Outcome::Damaged });
            }
        }
        None
    }

    fn nest(&mut self, byte: u8) {
        match byte {
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b'"' => self.in_string = true,
            _ => {}
        }
    }

    fn begin_value(&mut self, byte: u8) {
        if byte == b'[' && self.key == b"\"messages\"" {
            self.found.has_list = true;
            // Of two lists the later one counts, as in every reader.
            self.found.spans.clear();
            self.within = Within::List;
            return;
        }
        self.value.clear();
        self.value.push(byte);
        self.within = Within::Value;
        self.nest(byte);
    }

    fn continue_value(&mut self, byte: u8) {
        if self.depth == 1 && matches!(byte, b',' | b'}') {
            if let Ok(key) = parse_lenient(&self.key) {
                self.found.fields.push((key, std::mem::take(&mut self.value)));
            }
            self.within = if byte == b',' { Within::BeforeKey } else { Within::End };
            return;
        }
        self.value.push(byte);
        self.nest(byte);
    }

    fn continue_message(&mut self, byte: u8) {
        let is_over = self.depth == 1 && matches!(byte, b',' | b']');
        if is_over {
            self.end_message(self.at);
            self.within = if byte == b',' { Within::List } else { Within::AfterList };
            return;
        }
        self.nest(byte);
        if self.depth == 1 && matches!(byte, b'}' | b']') {
            self.end_message(self.at + 1);
            self.within = Within::List;
        }
    }

    fn end_message(&mut self, end: u64) {
        self.found.spans.push(MessagePlace::File { at: self.message_at, length: end - self.message_at });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(text: &str) -> Scanned {
        // A small buffer, so that every token is cut somewhere.
        scan(&mut io::BufReader::with_capacity(3, text.as_bytes())).unwrap()
    }

    fn messages<'a>(text: &'a str, scanned: &Scanned) -> Vec<&'a str> {
        let text_of = |place: &MessagePlace| match place {
            MessagePlace::File { at, length } => {
                let from = usize::try_from(*at).unwrap();
                text.get(from..from + usize::try_from(*length).unwrap()).unwrap().trim_end()
            }
            MessagePlace::Memory(_) => panic!("nothing is kept in memory"),
        };
        scanned.spans.iter().map(text_of).collect()
    }

    #[test]
    fn fields_and_messages_are_found_in_any_layout() {
        let text = "\u{feff} {\n \"a\" : {\"x\":[1,\"]}\\\"\"]},\n\"messages\": [ {\"id\":\"1\",\"c\":[[]]} ,null ,\n\n 7\n],\"b\":2 }\n";
        let found = scanned(text);
        assert_eq!(found.outcome, Outcome::Whole);
        assert_eq!(messages(text, &found), ["{\"id\":\"1\",\"c\":[[]]}", "null", "7"]);
        let fields: Vec<(&str, &[u8])> =
            found.fields.iter().map(|(key, value)| (key.as_str(), value.trim_ascii())).collect();
        assert_eq!(fields, [("a", &b"{\"x\":[1,\"]}\\\"\"]}"[..]), ("b", b"2")]);
    }

    #[test]
    fn inputs_other_than_one_object_are_distinguished() {
        let cases = [
            ("", Outcome::Empty),
            (" \n", Outcome::Empty),
            ("[1]", Outcome::Damaged),
            ("{\"a\":1}", Outcome::Whole),
            ("{\"a\":1}\n{\"b\":1}\n", Outcome::MoreLines),
            ("{\"a\":\n1}\n{\"b\":1}\n", Outcome::Damaged),
            ("{\"a\":\"x\ny\"}", Outcome::Damaged),
            ("{\"a\":1,\"messages\":[{\"id\"", Outcome::Torn),
            ("{\"a", Outcome::Torn),
        ];
        for (text, outcome) in cases {
            assert_eq!(scanned(text).outcome, outcome, "{text:?}");
        }
    }
}
