//! Tracks how much transcripts have grown since they were indexed.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

const BLOCK: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(super) struct Deltas {
    files: HashMap<PathBuf, Growth>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Growth {
    seen: u64,
    bytes: u64,
    messages: u64,
}

impl Deltas {
    /// Counts what is new in a transcript; whether there is enough of it to be indexed.
    pub(super) fn observe(&mut self, path: &Path, enough_bytes: u64, enough_messages: u64) -> bool {
        let Ok(size) = std::fs::metadata(path).map(|meta| meta.len()) else { return false };
        let growth = self.files.entry(path.to_owned()).or_default();
        // A file that shrank is a new one.
        let from = if size < growth.seen { 0 } else { growth.seen };
        if size == from {
            return false;
        }
        growth.bytes += size - from;
        growth.seen = size;
        let by_bytes = growth.bytes >= enough_bytes;
        if !by_bytes {
            growth.messages += newlines(path, from, size);
        }
        let by_messages = growth.messages >= enough_messages;
        if by_bytes {
            growth.bytes = growth.bytes.saturating_sub(enough_bytes);
        }
        if by_messages {
            growth.messages = growth.messages.saturating_sub(enough_messages);
        }
        by_bytes || by_messages
    }

    pub(super) fn is_pending(&self) -> bool {
        self.files.values().any(|growth| growth.bytes > 0 || growth.messages > 0)
    }

    /// Everything is indexed.
    pub(super) fn reset(&mut self) {
        for growth in self.files.values_mut() {
            (growth.bytes, growth.messages) = (0, 0);
        }
    }
}

fn newlines(path: &Path, from: u64, to: u64) -> u64 {
    let Ok(mut file) = File::open(path) else { return 0 };
    if file.seek(SeekFrom::Start(from)).is_err() {
        return 0;
    }
    let mut rest = file.take(to - from);
    let mut block = vec![0; BLOCK];
    let mut count = 0;
    while let Ok(read @ 1..) = rest.read(&mut block) {
        count += block.iter().take(read).filter(|byte| **byte == b'\n').count() as u64;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_config::files::{Mode, replace};

    #[test]
    fn bytes_and_messages_add_up() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.jsonl");
        let write = |text: &str| replace(&file, text.as_bytes(), Mode::Private).unwrap();
        let mut deltas = Deltas::default();
        write("a\nb\n");
        assert!(!deltas.observe(&file, 100, 3) && deltas.is_pending());
        assert!(!deltas.observe(&file, 100, 3), "nothing is new");
        write("a\nb\nc\n");
        assert!(deltas.observe(&file, 100, 3), "three messages");
        write(&"x".repeat(150));
        assert!(deltas.observe(&file, 100, 3), "many bytes");
        write("y");
        assert!(deltas.observe(&file, 1, 9), "a file that shrank is new");
        deltas.reset();
        assert!(!deltas.is_pending());
        write("yy");
        assert!(deltas.observe(&file, 0, 9), "any growth");
    }
}
