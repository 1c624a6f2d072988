//! Reads the lines of a file that may be huge, truncated or not text.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use pollux_domain::json::replace_unpaired;

/// Longer lines are skipped: they contain pictures or are not session records.
const MAX_LINE: usize = 64 * 1024 * 1024;
/// A larger buffer is released after the line that needed it.
const KEPT_CAPACITY: usize = 4 * 1024 * 1024;

/// Calls `visit` with each line; what no text in Rust can hold is replaced, a torn last line is a line like any other.
pub(crate) fn each(path: &Path, visit: &mut dyn FnMut(&str)) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(128 * 1024, File::open(path)?);
    let mut line = Vec::new();
    let mut is_first = true;
    while read_line(&mut reader, &mut line, MAX_LINE)? {
        let bytes = if is_first { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line) } else { &line };
        is_first = false;
        let text = readable(bytes.trim_ascii());
        if !text.is_empty() {
            visit(&text);
        }
        if line.capacity() > KEPT_CAPACITY {
            line = Vec::new();
        }
    }
    Ok(())
}

/// JSON that can be parsed as text: invalid UTF-8 and halves of surrogate pairs, which Node writes, are replaced.
pub(crate) fn readable(bytes: &[u8]) -> Cow<'_, str> {
    match String::from_utf8_lossy(bytes) {
        Cow::Borrowed(text) => replace_unpaired(text),
        Cow::Owned(text) => Cow::Owned(replace_unpaired(&text).into_owned()),
    }
}

/// Reads up to the next newline; a line above `max` is discarded. `false` at the end of the file.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>, max: usize) -> io::Result<bool> {
    line.clear();
    let read = reader.by_ref().take(max as u64 + 1).read_until(b'\n', line)?;
    if read > max && line.last() != Some(&b'\n') {
        line.clear();
        reader.skip_until(b'\n')?;
    }
    Ok(read > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_left_out_and_the_rest_is_read() {
        let mut reader = BufReader::with_capacity(4, &b"short\nfar too long a line\n\nend"[..]);
        let mut line = Vec::new();
        let mut lines = Vec::new();
        while read_line(&mut reader, &mut line, 8).unwrap() {
            lines.push(String::from_utf8_lossy(&line).trim_end().to_owned());
        }
        assert_eq!(lines, ["short", "", "", "end"]);
    }
}
