//! Captures output of any length in bounded memory: its start, its end and its size.

use pollux_domain::terminal_text::Stripper;

use crate::live::incomplete_suffix;

/// Beginning of the output that is kept.
const HEAD_BYTES: usize = 4 << 20;
/// End of the output that is kept. Head and tail together are upstream's limit of 16 MB.
const TAIL_BYTES: usize = 12 << 20;
/// Bytes at the start that decide whether output is text.
const BINARY_SAMPLE: usize = 4096;
/// Upstream's text, which scripts search for.
const WARNING: &str = "\n[GEMINI_CLI_WARNING: Output truncated. The buffer is limited to 16MB.]";

/// Space between the two for the line that says how much is missing.
const GAP_BYTES: usize = 64;
/// Larger output gets all its memory at once, so that it never has to be moved.
const SMALL_BYTES: usize = 1 << 20;
/// Space for text that a caller puts around the output.
const SPARE_BYTES: usize = 8 << 10;
/// The text is made in steps of this size.
const STEP_BYTES: usize = 64 << 10;

/// The output of a process in one buffer, which becomes the text.
#[derive(Debug, Clone)]
pub struct Captured {
    /// The head, the gap and the tail, which is a ring once it is full.
    bytes: Vec<u8>,
    /// Where the tail is written next: its oldest byte.
    oldest: usize,
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
        Self { bytes: Vec::new(), oldest: 0, total: 0, head_limit, tail_limit }
    }

    fn tail_at(&self) -> usize {
        self.head_limit + GAP_BYTES
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let full = self.tail_at() + self.tail_limit;
        if self.bytes.len() + bytes.len() > SMALL_BYTES {
            self.bytes.reserve_exact((full + SPARE_BYTES).saturating_sub(self.bytes.len()));
        }
        let mut rest = self.fill(bytes, self.head_limit);
        if rest.is_empty() {
            return;
        }
        if self.bytes.len() == self.head_limit {
            self.bytes.resize(self.tail_at(), 0);
        }
        rest = self.fill(rest, full);
        rest = rest.get(rest.len().saturating_sub(self.tail_limit)..).unwrap_or_default();
        let tail_at = self.tail_at();
        while !rest.is_empty() {
            let ring = self.bytes.get_mut(tail_at..).unwrap_or_default();
            let place = ring.get_mut(self.oldest..).unwrap_or_default();
            let (now, later) = rest.split_at(place.len().min(rest.len()));
            if let Some(place) = place.get_mut(..now.len()) {
                place.copy_from_slice(now);
            }
            self.oldest += now.len();
            if self.oldest >= self.tail_limit {
                self.oldest = 0;
            }
            rest = later;
        }
    }

    /// Takes what fits below `limit`, and returns the rest.
    fn fill<'a>(&mut self, bytes: &'a [u8], limit: usize) -> &'a [u8] {
        let room = limit.saturating_sub(self.bytes.len());
        let (now, later) = bytes.split_at(room.min(bytes.len()));
        self.bytes.extend_from_slice(now);
        later
    }

    /// How many bytes were printed in all.
    pub fn total_bytes(&self) -> u64 {
        self.total
    }

    /// How many bytes of it are kept.
    pub fn kept_bytes(&self) -> usize {
        let most = self.head_limit + self.tail_limit;
        usize::try_from(self.total).map_or(most, |total| total.min(most))
    }

    /// Whether the middle of the output is gone.
    pub fn is_truncated(&self) -> bool {
        self.total > self.kept_bytes() as u64
    }

    /// The text without terminal control sequences, trimmed, with a note if something is missing. Binary
    /// output is only described.
    pub fn text(&self) -> String {
        self.clone().into_text()
    }

    /// The same, converted in place.
    pub fn into_text(mut self) -> String {
        if self.is_binary() {
            return format!("(binary output, {} bytes, not shown)", self.total);
        }
        let (is_truncated, total, kept) = (self.is_truncated(), self.total, self.kept_bytes() as u64);
        let tail_at = self.tail_at();
        if let Some(ring) = self.bytes.get_mut(tail_at..) {
            ring.rotate_left(self.oldest);
        }
        let (head_end, end) = (self.head_limit.min(self.bytes.len()), self.bytes.len());
        let mut making = Making::new(self.bytes);
        making.decode(0, head_end);
        if is_truncated {
            making.end_character();
            making.write(&format!("\n... [{} bytes omitted] ...\n", total - kept), tail_at);
            making.stripper = Stripper::of_sequences();
        }
        making.decode(tail_at.min(end), end);
        making.end_character();
        let mut text = making.finish();
        text.truncate(text.trim_end().len());
        if is_truncated {
            text.push_str(WARNING);
        }
        text.shrink_to(text.len() + SPARE_BYTES);
        text
    }

    /// Output that is not text, of which only the start is kept.
    pub(crate) fn binary(start: &[u8], total: u64) -> Self {
        Self { bytes: start.to_vec(), total, ..Self::default() }
    }

    fn is_binary(&self) -> bool {
        is_binary(self.bytes.get(..self.head_limit.min(BINARY_SAMPLE)).unwrap_or(&self.bytes))
    }
}

/// NUL where text should be, in bytes that are not UTF-8 either.
pub(crate) fn is_binary(start: &[u8]) -> bool {
    // An error at the very end may be a character that was cut.
    let is_text = match std::str::from_utf8(start) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    !is_text && start.contains(&0)
}

/// Converts bytes to text in place: the space of bytes already read is reused.
struct Making {
    bytes: Vec<u8>,
    /// How much of it is text already.
    written: usize,
    /// The text, if it ever took more room than the bytes it was made of.
    apart: Option<String>,
    stripper: Stripper,
    /// The first bytes of a character whose rest has not come yet.
    cut: Vec<u8>,
    is_begun: bool,
}

impl Making {
    fn new(bytes: Vec<u8>) -> Self {
        let stripper = Stripper::of_sequences();
        Self { bytes, written: 0, apart: None, stripper, cut: Vec::new(), is_begun: false }
    }

    fn decode(&mut self, from: usize, to: usize) {
        let mut at = from;
        while at < to {
            let end = (at + STEP_BYTES).min(to);
            let mut step = std::mem::take(&mut self.cut);
            step.extend_from_slice(self.bytes.get(at..end).unwrap_or_default());
            self.cut = step.split_off(step.len() - incomplete_suffix(&step));
            self.strip(&step, end);
            at = end;
        }
    }

    /// The last character will not be completed.
    fn end_character(&mut self) {
        let cut = std::mem::take(&mut self.cut);
        self.strip(&cut, self.written + cut.len());
    }

    fn strip(&mut self, bytes: &[u8], free: usize) {
        let mut shown = self.stripper.push(&String::from_utf8_lossy(bytes));
        // NUL separates the items of lists such as `find -print0`; it is not readable.
        if shown.contains('\0') {
            shown = shown.replace('\0', "\n");
        }
        let shown = if self.is_begun { shown.as_str() } else { shown.trim_start() };
        self.write(shown, free);
    }

    /// Writes text; the bytes below `free` have been read.
    fn write(&mut self, text: &str, free: usize) {
        self.is_begun |= !text.is_empty();
        if let Some(apart) = &mut self.apart {
            apart.push_str(text);
            return;
        }
        let end = self.written + text.len();
        match self.bytes.get_mut(self.written..end).filter(|_| end <= free) {
            Some(place) => {
                place.copy_from_slice(text.as_bytes());
                self.written = end;
            }
            None => {
                let so_far = String::from_utf8_lossy(self.bytes.get(..self.written).unwrap_or_default());
                self.apart = Some(so_far.into_owned() + text);
            }
        }
    }

    fn finish(self) -> String {
        let Self { mut bytes, written, apart, .. } = self;
        if let Some(apart) = apart {
            return apart;
        }
        bytes.truncate(written);
        String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

/// The text without escape sequences; invalid UTF-8 becomes replacement characters. Single control characters,
/// such as the carriage returns of a progress bar, are passed on to the model.
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
    fn captured_text_contains_no_nul() {
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
    fn invalid_utf8_may_grow_when_decoded() {
        let mut captured = Captured::with_limits(40, 40);
        captured.push(b"ab\xff\xff\xff\xffcd");
        assert_eq!(captured.text(), "ab\u{fffd}\u{fffd}\u{fffd}\u{fffd}cd");
        captured.push(&[0xff; 200]);
        let text = captured.text();
        assert!(text.starts_with("ab\u{fffd}") && text.contains("[128 bytes omitted]"), "{text}");
        assert_eq!(text.matches('\u{fffd}').count(), 4 + 32 + 40, "{text}");
    }

    #[test]
    fn chunks_are_joined_seamlessly() {
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
    fn the_kept_tail_is_exact_for_any_chunking() {
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
