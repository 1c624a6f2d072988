//! Forwards output to the user interface while a command runs, batched so that a chatty command causes few
//! updates.

use std::time::Duration;

use tokio::time::Instant;

use pollux_domain::terminal_text::Stripper;

/// At most twenty updates in a second.
const INTERVAL: Duration = Duration::from_millis(50);
/// Limit of output shown per update: the latest part, and the number of bytes before it.
const UPDATE_BYTES: usize = 16 << 10;
/// A NUL among the first bytes marks binary output, which is not worth showing.
const SNIFF_BYTES: usize = 512;

/// Collects output and passes it on as text.
pub(crate) struct LiveFeed<'a> {
    watcher: &'a (dyn Fn(&str) + Send + Sync),
    stripper: Stripper,
    pending: Vec<u8>,
    /// How many bytes came before, as far as that matters.
    seen: usize,
    binary: bool,
    /// Bytes omitted since the last update.
    left_out: usize,
    next: Instant,
}

impl<'a> LiveFeed<'a> {
    pub(crate) fn new(watcher: &'a (dyn Fn(&str) + Send + Sync)) -> Self {
        Self {
            watcher,
            stripper: Stripper::of_sequences(),
            pending: Vec::new(),
            seen: 0,
            binary: false,
            left_out: 0,
            next: Instant::now(),
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.binary {
            return;
        }
        let first = bytes.get(..SNIFF_BYTES.saturating_sub(self.seen)).unwrap_or(bytes);
        if first.contains(&0) {
            self.binary = true;
            (self.watcher)("[Binary output: not shown]\n");
            return;
        }
        self.seen = self.seen.saturating_add(bytes.len());
        let latest = bytes.get(bytes.len().saturating_sub(UPDATE_BYTES)..).unwrap_or_default();
        self.pending.extend_from_slice(latest);
        let excess = self.pending.len().saturating_sub(UPDATE_BYTES);
        self.pending.drain(..excess);
        self.left_out = self.left_out.saturating_add(bytes.len() - latest.len() + excess);
        if Instant::now() >= self.next {
            self.flush();
        }
    }

    /// When gathered output should be flushed, if there is any.
    pub(crate) fn due(&self) -> Option<Instant> {
        (!self.pending.is_empty()).then_some(self.next)
    }

    /// Passes on the buffered bytes, except for an incomplete character at the end.
    pub(crate) fn flush(&mut self) {
        let incomplete = incomplete_suffix(&self.pending);
        let rest = self.pending.split_off(self.pending.len() - incomplete);
        let ready = std::mem::replace(&mut self.pending, rest);
        self.next = Instant::now() + INTERVAL;
        self.hand_on(&ready);
    }

    /// Passes on everything: no more will come.
    pub(crate) fn finish(&mut self) {
        let ready = std::mem::take(&mut self.pending);
        self.hand_on(&ready);
    }

    fn hand_on(&mut self, ready: &[u8]) {
        let text = self.stripper.push(&String::from_utf8_lossy(ready));
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            (self.watcher)(&format!("[{left_out} bytes omitted]\n{text}"));
        } else if !text.is_empty() {
            (self.watcher)(&text);
        }
    }
}

/// How many bytes at the end begin a UTF-8 character without completing it.
pub(crate) fn incomplete_suffix(bytes: &[u8]) -> usize {
    for (back, byte) in bytes.iter().rev().take(3).enumerate() {
        let needed = match byte {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            0x80..=0xbf => continue,
            _ => return 0,
        };
        return if needed > back + 1 { back + 1 } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_character_split_between_two_reads_arrives_whole() {
        let seen = Mutex::new(String::new());
        let watcher = |text: &str| seen.lock().unwrap().push_str(text);
        let mut feed = LiveFeed::new(&watcher);
        let (first, second) = "grün €".as_bytes().split_at(8);
        feed.push(first);
        feed.flush();
        feed.push(second);
        feed.finish();
        assert_eq!(*seen.lock().unwrap(), "grün €");
    }

    #[test]
    fn binary_output_is_announced_once_and_not_shown() {
        let seen = Mutex::new(Vec::new());
        let watcher = |text: &str| seen.lock().unwrap().push(text.to_owned());
        let mut feed = LiveFeed::new(&watcher);
        feed.push(b"\x7fELF\0\0");
        feed.push(b"more");
        feed.finish();
        assert_eq!(*seen.lock().unwrap(), ["[Binary output: not shown]\n"]);
    }

    #[test]
    fn a_nul_after_the_first_bytes_does_not_make_output_binary() {
        for pieces in [vec![600, 10], vec![300, 300, 10], vec![511, 1, 10]] {
            let seen = Mutex::new(String::new());
            let watcher = |text: &str| seen.lock().unwrap().push_str(text);
            let mut feed = LiveFeed::new(&watcher);
            let last = pieces.len() - 1;
            for (index, length) in pieces.iter().enumerate() {
                let mut bytes = vec![b'x'; *length];
                if index == last {
                    bytes.push(0);
                }
                feed.push(&bytes);
            }
            feed.finish();
            assert!(!seen.lock().unwrap().contains("Binary"), "{pieces:?}");
        }
        let seen = Mutex::new(String::new());
        let watcher = |text: &str| seen.lock().unwrap().push_str(text);
        let mut feed = LiveFeed::new(&watcher);
        let mut one_read = vec![b'x'; 512];
        one_read.extend(*b"text\0more");
        feed.push(&one_read);
        feed.finish();
        assert!(seen.lock().unwrap().contains("text"), "one read, a NUL after the first bytes");
        let mut feed = LiveFeed::new(&watcher);
        feed.push(&[b'x'; 511]);
        feed.push(&[0]);
        assert!(seen.lock().unwrap().contains("Binary"));
    }

    #[test]
    fn between_two_updates_only_the_latest_output_is_gathered_and_the_rest_is_counted() {
        let seen = Mutex::new(Vec::new());
        let watcher = |text: &str| seen.lock().unwrap().push(text.to_owned());
        let mut feed = LiveFeed::new(&watcher);
        for _ in 0..100 {
            feed.push(&[b'x'; 4096]);
        }
        feed.push(&[b'x'; 3 * UPDATE_BYTES]);
        feed.finish();
        let (mut shown, mut left_out) = (0, 0);
        for text in seen.lock().unwrap().iter() {
            let told = text.strip_prefix('[').and_then(|text| text.split_once(" bytes omitted]\n"));
            let (count, output) =
                told.map_or((0, text.as_str()), |(count, output)| (count.parse().unwrap(), output));
            assert!(output.len() <= UPDATE_BYTES);
            shown += output.len();
            left_out += count;
        }
        assert_eq!(shown + left_out, 100 * 4096 + 3 * UPDATE_BYTES);
        assert!(left_out >= 2 * UPDATE_BYTES, "{left_out}");
    }
}
