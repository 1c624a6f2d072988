//! Lines from a client, of limited length.

use std::io::{self, BufRead};

/// A line without its end.
pub enum Line {
    Whole(Vec<u8>),
    TooLong,
}

/// The next line; `None` at the end of input. What is too long is skipped without being kept.
pub fn read_line(input: &mut impl BufRead, longest: usize) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let mut too_long = false;
    loop {
        let found = match input.fill_buf() {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if found.is_empty() {
            return Ok(match (too_long, line.is_empty()) {
                (true, _) => Some(Line::TooLong),
                (false, false) => Some(Line::Whole(line)),
                (false, true) => None,
            });
        }
        let end = found.iter().position(|byte| *byte == b'\n');
        let piece = found.get(..end.unwrap_or(found.len())).unwrap_or_default();
        if !too_long && line.len() + piece.len() <= longest {
            line.extend_from_slice(piece);
        } else if !too_long {
            too_long = true;
            line = Vec::new();
        }
        let used = end.map_or(found.len(), |end| end + 1);
        input.consume(used);
        if end.is_some() {
            return Ok(Some(if too_long { Line::TooLong } else { Line::Whole(line) }));
        }
    }
}
