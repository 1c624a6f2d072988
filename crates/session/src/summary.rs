//! Titles in session files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use pollux_config::files::{self, Mode};
use serde_json::{Value, json};

use crate::lock::{Lock, LockError};

/// Longer files are skipped, because they would have to be rewritten.
const MAX_BYTES: u64 = 64 << 20;
/// The fields before the messages are shorter than this.
const MAX_HEAD: u64 = 64 << 10;
const MESSAGES: &[u8] = b"\n  \"messages\": [";
const TITLE: &[u8] = b"\n  \"summary\": ";

/// Why a title was not written. The file is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum SummaryError {
    #[error("could not read or write session file `{}`", path.display())]
    File { path: PathBuf, source: io::Error },
}

/// Adds a title to a session without one that is not in use; returns whether it did. The last-updated
/// time stays unchanged.
pub fn set_summary(path: &Path, summary: &str) -> Result<bool, SummaryError> {
    if fs::metadata(path).map_err(|source| failed(path, source))?.len() > MAX_BYTES {
        return Ok(false);
    }
    write_title(path, summary, Existing::Keep)
}

/// Gives a session that is not in use a title, in place of one that it may have; returns whether it did.
pub fn set_title(path: &Path, title: &str) -> Result<bool, SummaryError> {
    write_title(path, title, Existing::Replace)
}

/// What happens to a title that is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Existing {
    Keep,
    Replace,
}

fn failed(path: &Path, source: io::Error) -> SummaryError {
    SummaryError::File { path: path.to_owned(), source }
}

fn write_title(path: &Path, title: &str, existing: Existing) -> Result<bool, SummaryError> {
    let _lock = match Lock::take(path) {
        Ok(lock) => lock,
        Err(LockError::Held(_)) => return Ok(false),
        Err(LockError::Io(source)) => return Err(failed(path, source)),
    };
    let head = read_head(path).map_err(|source| failed(path, source))?;
    if let Some(place) = title_place(&head) {
        if existing == Existing::Keep && !place.is_empty() {
            return Ok(false);
        }
        return Ok(retitle(path, title).map_err(|source| failed(path, source))?.is_some());
    }
    if !is_log(path).map_err(|source| failed(path, source))? {
        return Ok(false);
    }
    let mut file = OpenOptions::new().append(true).open(path).map_err(|source| failed(path, source))?;
    file.write_all(title_record(title).as_bytes()).map_err(|source| failed(path, source))?;
    Ok(true)
}

/// The line of a record log that sets a title.
pub(crate) fn title_record(title: &str) -> String {
    format!("{}\n", json!({"$set": {"summary": title}}))
}

/// What moved in a file: everything behind `from`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) from: u64,
    pub(crate) added: u64,
    pub(crate) removed: u64,
}

/// Replaces a document by one with this title; `None` if it is not as our writer leaves it.
pub(crate) fn retitle(path: &Path, title: &str) -> io::Result<Option<Moved>> {
    let head = read_head(path)?;
    let Some(Range { start, end }) = title_place(&head) else { return Ok(None) };
    let field = format!("\n  \"summary\": {},", Value::from(title));
    let mut old = File::open(path)?;
    files::replace_with(path, Mode::Private, |new| {
        new.write_all(head.get(..start).unwrap_or_default())?;
        new.write_all(field.as_bytes())?;
        old.seek(SeekFrom::Start(end as u64))?;
        io::copy(&mut old, new).map(drop)
    })
    .map_err(io::Error::other)?;
    Ok(Some(Moved { from: start as u64, added: field.len() as u64, removed: (end - start) as u64 }))
}

/// The beginning of a file.
fn read_head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(MAX_HEAD).read_to_end(&mut head)?;
    Ok(head)
}

/// Where the title is, or where it goes: an empty place before the messages.
fn title_place(head: &[u8]) -> Option<Range<usize>> {
    let find = |bytes: &[u8], wanted: &[u8]| bytes.windows(wanted.len()).position(|found| found == wanted);
    let messages = find(head, MESSAGES)?;
    let fields = head.get(..messages)?;
    if !fields.starts_with(b"{\n  \"sessionId\": ") || !fields.ends_with(b",") {
        return None;
    }
    let Some(start) = find(fields, TITLE) else { return Some(messages..messages) };
    let rest = fields.get(start + 1..)?;
    let end = rest.iter().position(|byte| *byte == b'\n').map_or(messages, |length| start + 1 + length);
    Some(start..end)
}

/// Whether a file is a record log that ends with a whole line.
fn is_log(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let mut first = Vec::new();
    BufReader::new(&file).take(MAX_HEAD).read_until(b'\n', &mut first)?;
    let meta: Value = serde_json::from_slice(&first).unwrap_or_default();
    let mut last = [0];
    if file.metadata()?.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    Ok(last == *b"\n" && meta.get("sessionId").is_some_and(Value::is_string))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        CallRecord, CallResult, NewSession, Recorder, ReplyRecord, SessionFormat, SessionKind, load,
    };
    use pollux_domain::JsonObject;
    use pollux_domain::content::Part;
    use pollux_domain::event::CallStatus;
    use pollux_domain::id::{CallId, SessionId};
    use pollux_domain::time::Timestamp;
    use pollux_domain::tool::Display;

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
    fn a_session_gets_another_title_while_it_is_recorded() {
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
            let titles = recorder.title_writer();
            titles.set("before the first message").unwrap();
            recorder.user(&[Part::text("one")], None, now).unwrap();
            let path = recorder.path().unwrap().to_path_buf();
            assert_eq!(load(&path).unwrap().summary.as_deref(), Some("before the first message"));
            let (first, second) = (CallId::new("t", "1"), CallId::new("t", "2"));
            let call = |id: &CallId| CallRecord {
                id: id.clone(),
                name: "t".into(),
                args: JsonObject::new(),
                seal: None,
                display_name: "T".into(),
                description: "d".into(),
                markdown: false,
            };
            let reply = ReplyRecord {
                parts: Vec::new(),
                thoughts: Vec::new(),
                usage: None,
                model: "m".into(),
                origin: None,
                calls: vec![call(&first), call(&second)],
            };
            recorder.reply(&reply, now).unwrap();
            // Shorter, then longer: the places of the open calls move both ways.
            titles.set("x").unwrap();
            let result = |id: &CallId| CallResult {
                id: id.clone(),
                status: CallStatus::Success,
                result: vec![Part::text("done")],
                display: Display::Nothing,
            };
            recorder.results(&[result(&first)], now).unwrap();
            titles.set("a much longer title than the one before \"quoted\"").unwrap();
            recorder.results(&[result(&second)], now).unwrap();
            recorder.user(&[Part::text("two")], None, now).unwrap();
            let stored = load(&path).unwrap();
            assert_eq!(
                (stored.summary.as_deref(), stored.messages.len(), stored.repaired.is_none()),
                (Some("a much longer title than the one before \"quoted\""), 3, true)
            );
            let text = fs::read_to_string(&path).unwrap();
            assert!(!text.contains("pending") || format == SessionFormat::Jsonl, "{text}");
            drop(recorder);
            assert!(!set_summary(&path, "generated").unwrap() || format == SessionFormat::Jsonl);
            assert!(set_title(&path, "afterwards").unwrap());
            let stored = load(&path).unwrap();
            assert_eq!((stored.summary.as_deref(), stored.messages.len()), (Some("afterwards"), 3));
            Recorder::resume(&stored).unwrap().user(&[Part::text("three")], None, now).unwrap();
            assert_eq!(load(&path).unwrap().messages.len(), 4);
        }
    }

    #[test]
    fn files_that_are_not_our_sessions_stay_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session-x.json");
        for text in ["", "{}", "{\"sessionId\": \"a\"", "[1]\n"] {
            files::replace(&path, text.as_bytes(), Mode::Private).unwrap();
            assert!(!set_summary(&path, "t").unwrap() && !set_title(&path, "t").unwrap(), "{text}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
