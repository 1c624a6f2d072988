//! The core's log: what it did, without prompts and secrets.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use pollux_domain::redact::redacted;
use pollux_domain::sync::Locked as _;
use pollux_domain::terminal_text::one_line;
use pollux_domain::time::{Clock as _, SystemClock};

/// Size at which a new file is begun, and how many older ones are kept.
const MAX_SIZE: u64 = 5 * 1024 * 1024;
const KEPT: usize = 2;

/// A log file that is rotated.
pub(crate) struct Log {
    path: PathBuf,
    file: Mutex<Option<File>>,
    max_size: u64,
}

impl Log {
    pub(crate) fn open(path: PathBuf) -> Self {
        Self::with_size(path, MAX_SIZE)
    }

    fn with_size(path: PathBuf, max_size: u64) -> Self {
        rotate(&path, max_size);
        let file = append(&path);
        Self { path, file: Mutex::new(file), max_size }
    }

    /// Adds a line. A log that cannot be written stops nothing.
    pub(crate) fn line(&self, text: &str) {
        let line = format!("{} {}\n", SystemClock.now().to_iso(), redacted(&one_line(text)));
        let mut file = self.file.locked();
        if file.as_ref().and_then(|file| file.metadata().ok()).is_none_or(|data| data.len() > self.max_size) {
            rotate(&self.path, self.max_size);
            *file = append(&self.path);
        }
        if let Some(file) = file.as_mut() {
            let _ = file.write_all(line.as_bytes());
        }
    }
}

/// Opens a log for writing at its end; only the user can read it.
pub(crate) fn append(path: &Path) -> Option<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path).ok()
}

fn rotate(path: &Path, max_size: u64) {
    if fs::metadata(path).is_ok_and(|data| data.len() > max_size) {
        let older = |number: usize| path.with_extension(format!("log.{number}"));
        for number in (1..KEPT).rev() {
            let _ = fs::rename(older(number), older(number + 1));
        }
        let _ = fs::rename(path, older(1));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_log_is_private_rotated_and_free_of_secrets() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("core.log");
        let log = Log::with_size(path.clone(), 1_000);
        log.line("opened with AIzaSyA1234567890abcdefghijklmnopqrstuv");
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("AIzaSyA1234567890"), "{text}");
        (0..100).for_each(|number| log.line(&format!("line {number} {}", "x".repeat(50))));
        let files: Vec<String> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        assert_eq!(files.len(), KEPT + 1, "{files:?}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(fs::read_to_string(&path).unwrap().contains("line 99"));
    }
}
