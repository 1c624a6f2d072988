//! Adds a title to a finished session.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use pollux_config::files::{self, FileError, Mode};
use serde_json::{Value, json};

use crate::lock::{Lock, LockError};

/// Longer files are skipped, because they would have to be rewritten.
const MAX_BYTES: u64 = 64 << 20;
/// The fields before the messages are shorter than this.
const MAX_HEAD: usize = 64 << 10;
const MESSAGES: &[u8] = b"\n  \"messages\": [";

/// Why a title was not written. The file is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum SummaryError {
    #[error("could not read or write session file `{}`", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Replace(#[from] FileError),
}

/// Adds a title to a session without one that is not in use; returns whether it did. The last-updated
/// time stays unchanged.
pub fn set_summary(path: &Path, summary: &str) -> Result<bool, SummaryError> {
    let failed = |source| SummaryError::File { path: path.to_owned(), source };
    if fs::metadata(path).map_err(failed)?.len() > MAX_BYTES {
        return Ok(false);
    }
    let _lock = match Lock::take(path) {
        Ok(lock) => lock,
        Err(LockError::Held(_)) => return Ok(false),
        Err(LockError::Io(source)) => return Err(failed(source)),
    };
    let old = fs::read(path).map_err(failed)?;
    if let Some(new) = document(&old, summary) {
        files::replace(path, &new, Mode::Private)?;
        return Ok(true);
    }
    if !is_log(&old) {
        return Ok(false);
    }
    let line = format!("{}\n", json!({"$set": {"summary": summary}}));
    let mut file = OpenOptions::new().append(true).open(path).map_err(failed)?;
    file.write_all(line.as_bytes()).map_err(failed)?;
    Ok(true)
}

/// A document as our writer leaves it, with one more field before its messages.
fn document(old: &[u8], summary: &str) -> Option<Vec<u8>> {
    let head = old.get(..old.len().min(MAX_HEAD))?;
    let at = head.windows(MESSAGES.len()).position(|bytes| bytes == MESSAGES)?;
    let (head, rest) = old.split_at_checked(at)?;
    let starts = head.starts_with(b"{\n  \"sessionId\": ") && head.ends_with(b",");
    let has_summary = head.windows(13).any(|bytes| bytes == b"\n  \"summary\":");
    (starts && !has_summary).then(|| {
        let field = format!("\n  \"summary\": {},", Value::from(summary));
        [head, field.as_bytes(), rest].concat()
    })
}

/// A record log that ends with a whole line.
fn is_log(bytes: &[u8]) -> bool {
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let meta: Value = serde_json::from_slice(first).unwrap_or_default();
    bytes.ends_with(b"\n") && meta.get("sessionId").is_some_and(Value::is_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewSession, Recorder, SessionFormat, SessionKind, load};
    use pollux_domain::content::Part;
    use pollux_domain::id::SessionId;
    use pollux_domain::time::Timestamp;

    #[test]
    fn a_title_is_added_to_both_formats_and_the_session_can_be_resumed() {
        for format in [SessionFormat::Json, SessionFormat::Jsonl] {
            let dir = tempfile::tempdir().unwrap();
            let now = Timestamp::from_millis(1_770_000_000_000);
            let mut recorder = Recorder::create(NewSession {
                id: SessionId::from_file("11111111-2222-3333-4444-555555555555"),
                project_hash: "abc".into(),
                chats_dir: dir.path().to_path_buf(),
                format,
                kind: SessionKind::Main,
                now,
            })
            .unwrap();
            recorder.user(&[Part::text("one")], None, now).unwrap();
            let path = recorder.path().unwrap().to_path_buf();
            assert!(!set_summary(&path, "busy").unwrap(), "another process writes it");
            drop(recorder);
            assert!(set_summary(&path, "A \"title\"").unwrap());
            let stored = load(&path).unwrap();
            assert_eq!((stored.summary.as_deref(), stored.messages.len()), (Some("A \"title\""), 1));
            assert_eq!(stored.last_updated, now);
            let mut recorder = Recorder::resume(&stored).unwrap();
            recorder.user(&[Part::text("two")], None, now).unwrap();
            let stored = load(&path).unwrap();
            assert_eq!((stored.summary.as_deref(), stored.messages.len()), (Some("A \"title\""), 2));
            assert!(stored.repaired.is_none());
        }
    }

    #[test]
    fn files_that_are_not_our_sessions_stay_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session-x.json");
        for text in ["", "{}", "{\"sessionId\": \"a\"", "[1]\n"] {
            files::replace(&path, text.as_bytes(), Mode::Private).unwrap();
            assert!(!set_summary(&path, "t").unwrap(), "{text}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
