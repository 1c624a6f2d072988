//! Titles in session files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use pollux_domain::json::parse_lenient;
use serde_json::{Value, json};

use crate::load::{self, LoadError};
use crate::lock::{Lock, LockError};
use crate::recorder::{SyncedFile, replace_file};
use crate::redo;
use crate::stream::Stream;

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
    if redo::is_noted(path) && !finish_noted(path)? {
        return Ok(false);
    }
    let head = read_head(path).map_err(|source| failed(path, source))?;
    let place = title_place(&head);
    if place.is_none() && !is_log(path).map_err(|source| failed(path, source))? {
        return Ok(false);
    }
    // A log may have it in any line, a document of another program behind the messages.
    let known = match Stream::open(path) {
        Ok(mut stream) => stream.meta.remove("summary"),
        Err(LoadError::Unreadable { source, .. }) => return Err(failed(path, source)),
        Err(_) => return Ok(false),
    };
    let is_titled = known.as_ref().and_then(Value::as_str).is_some_and(|title| !title.trim().is_empty());
    if existing == Existing::Keep && is_titled {
        return Ok(false);
    }
    if let Some(place) = place {
        let behind = known.as_ref().map(|known| place_behind(path, place.end as u64, known)).transpose();
        if let Some(place) = behind.map_err(|source| failed(path, source))?.flatten() {
            let value = Value::from(title).to_string();
            splice(path, place, value.as_bytes()).map_err(|source| failed(path, source))?;
            return Ok(true);
        }
        // It is somewhere else; a second one would not count.
        if place.is_empty() && known.is_some() {
            return Ok(false);
        }
        return Ok(retitle(path, title).map_err(|source| failed(path, source))?.is_some());
    }
    let file = OpenOptions::new().write(true).open(path).map_err(|source| failed(path, source))?;
    append_synced(&file, title_record(title).as_bytes()).map_err(|source| failed(path, source))?;
    Ok(true)
}

/// Adds bytes at the end of a file and syncs them. If that fails, the file is cut back: half a record would be a damaged
/// end.
pub(crate) fn append_synced(file: &dyn SyncedFile, bytes: &[u8]) -> io::Result<()> {
    let length = file.len()?;
    file.write_all_at(bytes, length).and_then(|()| file.sync()).inspect_err(|_| {
        // The first error is the one to report.
        let _ = file.set_len(length);
    })
}

/// Finishes a write that a redo note is about: the note does not fit a file in which everything has moved. False if the
/// file cannot be read as a session.
fn finish_noted(path: &Path) -> Result<bool, SummaryError> {
    let (mut bytes, _) = match load::read(path) {
        Ok(read) => read,
        Err(LoadError::Unreadable { source, .. }) => return Err(failed(path, source)),
        Err(_) => return Ok(false),
    };
    let settled = match redo::finish(path, &mut bytes) {
        Some(_) => replace_file(path, |file| file.write_all(&bytes)).map(drop),
        None => redo::sync_noted(path),
    };
    settled.map_err(|source| failed(path, source))?;
    redo::discard(path);
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

impl Moved {
    /// Moves a place in the file.
    pub(crate) fn apply(self, at: &mut u64) {
        if *at > self.from {
            *at = (*at + self.added).saturating_sub(self.removed);
        }
    }
}

/// A document with another title.
#[derive(Debug)]
pub(crate) struct Retitled {
    pub(crate) file: File,
    pub(crate) moved: Moved,
}

/// Replaces a document by one with this title; `None` if it is not as our writer leaves it.
pub(crate) fn retitle(path: &Path, title: &str) -> io::Result<Option<Retitled>> {
    let head = read_head(path)?;
    let Some(Range { start, end }) = title_place(&head) else { return Ok(None) };
    let field = format!("\n  \"summary\": {},", Value::from(title));
    let file = splice(path, start as u64..end as u64, field.as_bytes())?;
    let moved = Moved { from: start as u64, added: field.len() as u64, removed: (end - start) as u64 };
    Ok(Some(Retitled { file, moved }))
}

/// Replaces a file by one with these bytes in this place.
fn splice(path: &Path, place: Range<u64>, bytes: &[u8]) -> io::Result<File> {
    let mut old = File::open(path)?;
    replace_file(path, |new| {
        io::copy(&mut (&old).take(place.start), new)?;
        new.write_all(bytes)?;
        old.seek(SeekFrom::Start(place.end))?;
        io::copy(&mut old, new).map(drop)
    })
}

/// Where the value of the title is if it is on a line of its own behind `from`.
fn place_behind(path: &Path, from: u64, known: &Value) -> io::Result<Option<Range<u64>>> {
    let mut file = File::open(path)?;
    let from = from.max(file.metadata()?.len().saturating_sub(MAX_HEAD));
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.take(MAX_HEAD).read_to_end(&mut tail)?;
    // A line that begins like this is a field of the document: the messages are indented further.
    let Some(at) = tail.windows(TITLE.len()).rposition(|found| found == TITLE) else { return Ok(None) };
    let rest = tail.get(at + TITLE.len()..).unwrap_or_default();
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let value = line.strip_suffix(b",").unwrap_or(line);
    if parse_lenient::<Value>(value).ok().as_ref() != Some(known) {
        return Ok(None);
    }
    let start = from + (at + TITLE.len()) as u64;
    Ok(Some(start..start + value.len() as u64))
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
    let meta: Value = parse_lenient(&first).unwrap_or_default();
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
    use pollux_config::files::{self, Mode};

    use crate::{CallRecord, CallResult, NewSession, Recorder, ReplyRecord, SessionFormat, load};
    use pollux_domain::JsonObject;
    use pollux_domain::content::Part;
    use pollux_domain::event::CallStatus;
    use pollux_domain::id::CallId;
    use pollux_domain::time::Timestamp;
    use pollux_domain::tool::Display;

    #[test]
    fn a_title_is_added_to_both_formats_and_the_session_can_be_resumed() {
        for format in [SessionFormat::Json, SessionFormat::Jsonl] {
            let dir = tempfile::tempdir().unwrap();
            let now = Timestamp::from_millis(1_770_000_000_000);
            let mut recorder = Recorder::create(NewSession::of_test(dir.path(), format, now)).unwrap();
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

    /// A reply with these calls.
    fn reply(ids: &[&CallId]) -> ReplyRecord {
        let calls = ids.iter().map(|id| CallRecord {
            id: CallId::clone(id),
            name: "t".into(),
            args: JsonObject::new(),
            seal: None,
            display_name: "T".into(),
            description: "d".into(),
            markdown: false,
        });
        ReplyRecord {
            parts: Vec::new(),
            thoughts: Vec::new(),
            usage: None,
            model: "m".into(),
            origin: None,
            calls: calls.collect(),
        }
    }

    fn result(id: &CallId) -> CallResult {
        CallResult {
            id: id.clone(),
            status: CallStatus::Success,
            result: vec![Part::text("done")],
            display: Display::Nothing,
        }
    }

    #[test]
    fn a_title_for_a_session_with_an_unfinished_write_costs_no_call() {
        let dir = tempfile::tempdir().unwrap();
        let now = Timestamp::from_millis(1_770_000_000_000);
        let mut recorder =
            Recorder::create(NewSession::of_test(dir.path(), SessionFormat::Json, now)).unwrap();
        let (first, second) = (CallId::new("t", "1"), CallId::new("t", "2"));
        recorder.reply(&reply(&[&first, &second]), now).unwrap();
        let path = recorder.path().unwrap().to_path_buf();
        let before = fs::read(&path).unwrap();
        recorder.results(&[result(&first)], now).unwrap();
        drop(recorder);
        let after = fs::read(&path).unwrap();
        let messages = load(&path).unwrap().messages;
        let at = before.iter().zip(&after).position(|(old, new)| old != new).unwrap();
        let note = redo::encode(at as u64, &before[at..], &after[at..]);
        // The write was cut, it did not begin, or it is complete.
        for done in [at + 1, at + (before.len() - at) / 2, before.len(), at, after.len()] {
            let rest = before.get(done..).unwrap_or_default();
            files::replace(&path, &[&after[..done], rest].concat(), Mode::Private).unwrap();
            redo::keep(&path, &note);
            assert!(set_title(&path, "title").unwrap(), "{done}");
            assert!(!redo::is_noted(&path));
            let stored = load(&path).unwrap();
            assert_eq!((stored.summary.as_deref(), &stored.repaired), (Some("title"), &None), "{done}");
            assert!(done == at || stored.messages == messages, "{done}: {:?}", stored.messages);
        }
    }

    #[test]
    fn a_session_gets_another_title_while_it_is_recorded() {
        for format in [SessionFormat::Json, SessionFormat::Jsonl] {
            let dir = tempfile::tempdir().unwrap();
            let now = Timestamp::from_millis(1_770_000_000_000);
            let mut recorder = Recorder::create(NewSession::of_test(dir.path(), format, now)).unwrap();
            let titles = recorder.title_writer();
            titles.set("before the first message").unwrap();
            recorder.user(&[Part::text("one")], None, now).unwrap();
            let path = recorder.path().unwrap().to_path_buf();
            assert_eq!(load(&path).unwrap().summary.as_deref(), Some("before the first message"));
            let (first, second) = (CallId::new("t", "1"), CallId::new("t", "2"));
            recorder.reply(&reply(&[&first, &second]), now).unwrap();
            // Shorter, then longer: the places of the open calls move both ways.
            titles.set("x").unwrap();
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
            assert!(!set_summary(&path, "generated").unwrap());
            assert!(set_title(&path, "afterwards").unwrap());
            let stored = load(&path).unwrap();
            assert_eq!((stored.summary.as_deref(), stored.messages.len()), (Some("afterwards"), 3));
            Recorder::resume(&stored).unwrap().user(&[Part::text("three")], None, now).unwrap();
            assert_eq!(load(&path).unwrap().messages.len(), 4);
        }
    }

    #[test]
    fn a_title_behind_the_messages_is_kept_or_replaced_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session-x.json");
        let document = |summary: &str| {
            format!(
                "{{\n  \"sessionId\": \"a\",\n  \"startTime\": \"2026-01-01T00:00:00.000Z\",\n  \"messages\": [\n    \
                 {{\n      \"id\": \"1\",\n      \"type\": \"user\",\n      \"content\": \"hi\",\n      \
                 \"summary\": \"inner\"\n    }}\n  ],{summary}\n}}"
            )
        };
        let write = |text: &str| files::replace(&path, text.as_bytes(), Mode::Private).unwrap();
        for end in ["", ",\n  \"kind\": \"main\""] {
            write(&document(&format!("\n  \"summary\": \"Mine\"{end}")));
            assert!(!set_summary(&path, "generated").unwrap());
            assert!(set_title(&path, "A \"new\" one").unwrap());
            let expected = document(&format!("\n  \"summary\": \"A \\\"new\\\" one\"{end}"));
            assert_eq!(fs::read_to_string(&path).unwrap(), expected);
            assert_eq!(load(&path).unwrap().summary.as_deref(), Some("A \"new\" one"));
        }
        write(&document("\n  \"summary\": \"\""));
        assert!(set_summary(&path, "generated").unwrap(), "an empty one is none");
        assert_eq!(load(&path).unwrap().summary.as_deref(), Some("generated"));
        // Not on a line of its own: there must not be a second one.
        let unusual = document("\n  \"kind\": \"main\", \"summary\": \"Mine\"");
        write(&unusual);
        assert!(!set_title(&path, "t").unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), unusual);
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
