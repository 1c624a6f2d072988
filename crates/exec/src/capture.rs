//! Output of any length in bounded memory: its beginning, its end, and its size.

use std::collections::VecDeque;

use pollux_domain::terminal_text::Stripper;

use crate::live::incomplete_suffix;

/// Beginning of the output that is kept.
const HEAD_BYTES: usize = 4 << 20;
/// End of the output that is kept. Head and tail together are upstream's limit of 16 MB.
const TAIL_BYTES: usize = 12 << 20;
/// So much of the beginning tells whether output is text.
const BINARY_SAMPLE: usize = 4096;
/// Upstream's words, which scripts look for.
const WARNING: &str = "\n[GEMINI_CLI_WARNING: Output truncated. The buffer is limited to 16MB.]";

/// Output is kept in pieces of this size, so that it never has to be moved as a whole.
const PIECE_BYTES: usize = 256 << 10;

/// What a process printed.
#[derive(Debug)]
pub struct Captured {
    head: VecDeque<Vec<u8>>,
    head_bytes: usize,
    /// May begin with bytes that are over the limit: whole pieces are dropped.
    tail: VecDeque<Vec<u8>>,
    tail_bytes: usize,
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
        Self {
            head: VecDeque::new(),
            head_bytes: 0,
            tail: VecDeque::new(),
            tail_bytes: 0,
            total: 0,
            head_limit,
            tail_limit,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.head_limit - self.head_bytes;
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        append(&mut self.head, first);
        self.head_bytes += first.len();
        append(&mut self.tail, rest);
        self.tail_bytes += rest.len();
        while let Some(oldest) = self.tail.front()
            && self.tail_bytes - oldest.len() >= self.tail_limit
        {
            self.tail_bytes -= oldest.len();
            self.tail.pop_front();
        }
    }

    /// How many bytes were printed in all.
    pub fn total_bytes(&self) -> u64 {
        self.total
    }

    /// How many bytes of it can be shown.
    pub fn kept_bytes(&self) -> usize {
        self.head_bytes + self.tail_bytes.min(self.tail_limit)
    }

    /// Whether the middle of the output is gone.
    pub fn is_truncated(&self) -> bool {
        self.total > self.kept_bytes() as u64
    }

    /// The text without terminal control sequences, trimmed; says so if something is missing. Output that
    /// is no text is only described.
    pub fn text(&self) -> String {
        let (head, tail) = (self.head.iter().map(Vec::as_slice), self.tail.iter().map(Vec::as_slice));
        self.summary().text(head, tail)
    }

    /// The same; what was kept is given back piece by piece, so that it is hardly ever there twice.
    pub fn into_text(self) -> String {
        let summary = self.summary();
        summary.text(self.head.into_iter(), self.tail.into_iter())
    }

    fn summary(&self) -> Summary {
        Summary {
            total: self.total,
            kept: self.kept_bytes(),
            is_truncated: self.is_truncated(),
            is_binary: self.is_binary(),
            skipped: self.tail_bytes.saturating_sub(self.tail_limit),
        }
    }

    /// NUL where text should be, in bytes that are not UTF-8 either.
    fn is_binary(&self) -> bool {
        let first = self.head.front().map(Vec::as_slice).unwrap_or_default();
        let first = first.get(..BINARY_SAMPLE).unwrap_or(first);
        // An error at the very end may be a character that was cut.
        let is_text = match std::str::from_utf8(first) {
            Ok(_) => true,
            Err(error) => error.error_len().is_none(),
        };
        !is_text && first.contains(&0)
    }
}

fn append(pieces: &mut VecDeque<Vec<u8>>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let room = pieces.back().map_or(0, |piece| PIECE_BYTES.saturating_sub(piece.len()));
        let (now, later) = bytes.split_at(room.min(bytes.len()));
        match pieces.back_mut() {
            Some(piece) if room > 0 => piece.extend_from_slice(now),
            _ => pieces.push_back(Vec::new()),
        }
        bytes = later;
    }
}

/// What is known of output besides its bytes.
struct Summary {
    total: u64,
    kept: usize,
    is_truncated: bool,
    is_binary: bool,
    /// How many bytes at the beginning of the tail are over the limit.
    skipped: usize,
}

impl Summary {
    fn text<B: AsRef<[u8]>>(&self, head: impl Iterator<Item = B>, tail: impl Iterator<Item = B>) -> String {
        if self.is_binary {
            return format!("(binary output, {} bytes, not shown)", self.total);
        }
        // Room for what a caller may put around it, so that it need not be moved for that.
        let mut text = String::with_capacity(self.kept + 4096);
        let mut decoder = Decoder::default();
        head.for_each(|piece| decoder.push(piece.as_ref(), &mut text));
        if self.is_truncated {
            decoder.finish(&mut text);
            let omitted = self.total - self.kept as u64;
            text.push_str(&format!("\n... [{omitted} bytes omitted] ...\n"));
            decoder = Decoder { is_begun: true, ..Decoder::default() };
        }
        let mut skipped = self.skipped;
        for piece in tail {
            let piece = piece.as_ref();
            decoder.push(piece.get(skipped..).unwrap_or_default(), &mut text);
            skipped = skipped.saturating_sub(piece.len());
        }
        decoder.finish(&mut text);
        text.truncate(text.trim_end().len());
        if self.is_truncated {
            text.push_str(WARNING);
        }
        text
    }
}

/// Bytes that arrive in pieces to text: without sequences and leading white space.
struct Decoder {
    stripper: Stripper,
    /// The first bytes of a character whose rest has not come yet.
    cut: Vec<u8>,
    is_begun: bool,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { stripper: Stripper::of_sequences(), cut: Vec::new(), is_begun: false }
    }
}

impl Decoder {
    fn push(&mut self, piece: &[u8], text: &mut String) {
        let joined;
        let bytes = if self.cut.is_empty() {
            piece
        } else {
            joined = [self.cut.as_slice(), piece].concat();
            &joined
        };
        let (whole, cut) = bytes.split_at(bytes.len() - incomplete_suffix(bytes));
        let cut = cut.to_vec();
        self.decode(whole, text);
        self.cut = cut;
    }

    fn finish(&mut self, text: &mut String) {
        let cut = std::mem::take(&mut self.cut);
        self.decode(&cut, text);
    }

    fn decode(&mut self, bytes: &[u8], text: &mut String) {
        let mut shown = self.stripper.push(&String::from_utf8_lossy(bytes));
        // NUL separates the items of lists such as `find -print0`; nobody can read it.
        if shown.contains('\0') {
            shown = shown.replace('\0', "\n");
        }
        let shown = if self.is_begun { shown.as_str() } else { shown.trim_start() };
        self.is_begun |= !shown.is_empty();
        text.push_str(shown);
    }
}

/// The text without escape sequences; bytes that are not UTF-8 become replacement characters. The model
/// reads single control characters, such as the returns of a progress bar, as they came.
pub(crate) fn without_sequences(bytes: &[u8]) -> String {
    Stripper::of_sequences().push(&String::from_utf8_lossy(bytes))
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
    fn pieces_are_joined_without_a_trace() {
        let text = "  grün € \u{1b}[31mrot\u{1b}[0m\n".repeat(40_000);
        let mut captured = Captured::default();
        for chunk in text.as_bytes().chunks(1001) {
            captured.push(chunk);
        }
        let expected = "  grün € rot\n".repeat(40_000);
        assert_eq!(captured.text(), expected.trim());
        assert_eq!(captured.into_text(), expected.trim());
    }

    #[test]
    fn the_end_that_is_kept_is_exact_whatever_the_pieces() {
        let bytes: Vec<u8> = (0..3_000_000u32).map(|n| b'a' + u8::try_from(n % 23).unwrap()).collect();
        let mut captured = Captured::with_limits(1000, 700_001);
        for chunk in bytes.chunks(77_777) {
            captured.push(chunk);
        }
        assert_eq!(captured.kept_bytes(), 701_001);
        let text = captured.into_text();
        let end = std::str::from_utf8(&bytes[bytes.len() - 700_001..]).unwrap();
        let middle = format!("\n... [{} bytes omitted] ...\n", 3_000_000 - 701_001);
        let head = std::str::from_utf8(&bytes[..1000]).unwrap();
        assert_eq!(text, format!("{head}{middle}{end}{WARNING}"));
    }

    #[test]
    fn output_that_just_fits_is_not_called_truncated() {
        let mut captured = Captured::with_limits(4, 4);
        captured.push(b"abcdefgh");
        assert_eq!(captured.text(), "abcdefgh");
    }
}
