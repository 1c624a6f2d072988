//! Output of any length in bounded memory: its beginning, its end, and its size.

use std::collections::VecDeque;

use pollux_domain::terminal_text::Stripper;

/// Beginning of the output that is kept.
const HEAD_BYTES: usize = 4 << 20;
/// End of the output that is kept. Head and tail together are upstream's limit of 16 MB.
const TAIL_BYTES: usize = 12 << 20;
/// So much of the beginning tells whether output is text.
const BINARY_SAMPLE: usize = 4096;
/// Upstream's words, which scripts look for.
const WARNING: &str = "\n[GEMINI_CLI_WARNING: Output truncated. The buffer is limited to 16MB.]";

/// What a process printed.
#[derive(Debug)]
pub struct Captured {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
    head_limit: usize,
    tail_limit: usize,
}

impl Default for Captured {
    fn default() -> Self {
        Self::with_limits(HEAD_BYTES, TAIL_BYTES)
    }
}

impl Captured {
    fn with_limits(head_limit: usize, tail_limit: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), total: 0, head_limit, tail_limit }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.head_limit - self.head.len();
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(first);
        let rest = rest.get(rest.len().saturating_sub(self.tail_limit)..).unwrap_or_default();
        if rest.is_empty() {
            return;
        }
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// How many bytes were printed in all.
    pub fn total_bytes(&self) -> u64 {
        self.total
    }

    /// How many bytes are held in memory.
    pub fn kept_bytes(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Whether the middle of the output is gone.
    pub fn is_truncated(&self) -> bool {
        self.total > self.kept_bytes() as u64
    }

    /// The text without terminal control sequences, trimmed; says so if something is missing. Output that
    /// is no text is only described.
    pub fn text(&self) -> String {
        if self.is_binary() {
            return format!("(binary output, {} bytes, not shown)", self.total);
        }
        readable(&self.whole_text())
    }

    /// NUL where text should be, in bytes that are not UTF-8 either.
    fn is_binary(&self) -> bool {
        let first = self.head.get(..BINARY_SAMPLE).unwrap_or(&self.head);
        // An error at the very end may be a character that was cut.
        let is_text = match std::str::from_utf8(first) {
            Ok(_) => true,
            Err(error) => error.error_len().is_none(),
        };
        !is_text && first.contains(&0)
    }

    fn whole_text(&self) -> String {
        let (tail_start, tail_end) = self.tail.as_slices();
        if !self.is_truncated() {
            let mut bytes = Vec::with_capacity(self.kept_bytes());
            for part in [&self.head[..], tail_start, tail_end] {
                bytes.extend_from_slice(part);
            }
            return without_sequences(&bytes).trim().to_owned();
        }
        let mut tail = Vec::with_capacity(self.tail.len());
        tail.extend_from_slice(tail_start);
        tail.extend_from_slice(tail_end);
        let omitted = self.total - self.kept_bytes() as u64;
        let head = without_sequences(&self.head);
        let tail = without_sequences(&tail);
        format!("{}\n... [{omitted} bytes omitted] ...\n{}{WARNING}", head.trim_start(), tail.trim_end())
    }
}

/// The text without escape sequences; bytes that are not UTF-8 become replacement characters. The model
/// reads single control characters, such as the returns of a progress bar, as they came.
pub(crate) fn without_sequences(bytes: &[u8]) -> String {
    Stripper::of_sequences().push(&String::from_utf8_lossy(bytes))
}

/// NUL separates the items of lists such as `find -print0`; nobody can read it.
fn readable(text: &str) -> String {
    if text.contains('\0') { text.replace('\0', "\n").trim().to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_output_is_kept_whole_and_trimmed() {
        let mut captured = Captured::default();
        captured.push(b"\n one\n");
        captured.push(b"two \n");
        assert_eq!(captured.text(), "one\ntwo");
        assert!(!captured.is_truncated());
    }

    #[test]
    fn long_output_keeps_its_two_ends_and_counts_the_rest() {
        let mut captured = Captured::with_limits(4, 4);
        for chunk in ["abcdef", "ghijklmnop", "qr"] {
            captured.push(chunk.as_bytes());
        }
        assert_eq!(captured.total_bytes(), 18);
        assert_eq!(captured.kept_bytes(), 8);
        let text = captured.text();
        assert!(text.starts_with("abcd\n... [10 bytes omitted] ...\nopqr\n[GEMINI_CLI_WARNING"), "{text}");
    }

    #[test]
    fn nul_never_gets_into_the_text() {
        let text = |bytes: &[u8]| {
            let mut captured = Captured::default();
            captured.push(bytes);
            captured.text()
        };
        assert_eq!(text(b"./a\0./b\0"), "./a\n./b");
        assert_eq!(text(b"\x7fELF\0\0\xff\xfe"), "(binary output, 8 bytes, not shown)");
        assert_eq!(text(b"caf\xe9\n"), "caf\u{fffd}");
    }

    #[test]
    fn output_that_just_fits_is_not_called_truncated() {
        let mut captured = Captured::with_limits(4, 4);
        captured.push(b"abcdefgh");
        assert_eq!(captured.text(), "abcdefgh");
    }
}
