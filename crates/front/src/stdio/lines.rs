//! Lines from a client, of limited length.

use std::io::{self, BufRead};

/// A line without its end.
pub enum InputLine {
    Whole(Vec<u8>),
    TooLong,
}

/// The beginning of a line, as far as it has arrived. What is too long is skipped without being kept.
#[derive(Default)]
pub struct PartialLine {
    bytes: Vec<u8>,
    too_long: bool,
}

impl PartialLine {
    /// Takes what has arrived up to the end of the line; returns how much that was, and the line if it is complete.
    pub fn take(&mut self, found: &[u8], longest: usize) -> (usize, Option<InputLine>) {
        let end = found.iter().position(|byte| *byte == b'\n');
        let piece = found.get(..end.unwrap_or(found.len())).unwrap_or_default();
        if !self.too_long && self.bytes.len() + piece.len() <= longest {
            self.bytes.extend_from_slice(piece);
        } else if !self.too_long {
            self.too_long = true;
            self.bytes = Vec::new();
        }
        let Some(end) = end else { return (found.len(), None) };
        (end + 1, Some(std::mem::take(self).into_line()))
    }

    /// What is left at the end of input.
    pub fn rest(self) -> Option<InputLine> {
        (self.too_long || !self.bytes.is_empty()).then(|| self.into_line())
    }

    fn into_line(self) -> InputLine {
        if self.too_long { InputLine::TooLong } else { InputLine::Whole(self.bytes) }
    }
}

/// The next line; `None` at the end of input.
pub fn read_line(input: &mut impl BufRead, longest: usize) -> io::Result<Option<InputLine>> {
    let mut partial = PartialLine::default();
    loop {
        let found = match input.fill_buf() {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if found.is_empty() {
            return Ok(partial.rest());
        }
        let (used, line) = partial.take(found, longest);
        input.consume(used);
        if line.is_some() {
            return Ok(line);
        }
    }
}
