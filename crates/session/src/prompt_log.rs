//! The prompt log of a project (`logs.json`), in upstream's format.

use std::borrow::Cow;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use pollux_config::files::{self, FileError, FileLock, LockError, MAX_SESSION_BYTES, Mode};
use pollux_domain::id::SessionId;
use pollux_domain::json::{parse_lenient_str, replace_unpaired};
use pollux_domain::time::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

/// Why a prompt was not logged.
#[derive(Debug, thiserror::Error)]
pub enum PromptLogError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("could not move the unreadable file `{}` aside", path.display())]
    Move { path: PathBuf, source: io::Error },
}

/// Logs a prompt; returns its number in the session, from 0. A log that is too large to be read is moved aside, like one
/// that is damaged: gemini-cli reads the log whole as well.
pub fn log_prompt(
    temp: &Path,
    session: &SessionId,
    prompt: &str,
    now: Timestamp,
) -> Result<u64, PromptLogError> {
    let path = temp.join("logs.json");
    let _lock = FileLock::acquire(&path)?;
    if let Some(number) = append_in_place(&path, session, prompt, now) {
        return Ok(number);
    }
    let move_aside = |why: &str| {
        let aside = temp.join(format!("logs.json.{why}.{}.bak", now.millis()));
        let renamed = fs::rename(&path, &aside).map(|()| aside);
        renamed.map_err(|source| PromptLogError::Move { path: path.clone(), source })
    };
    let mut moved = None;
    let text = match read_lossy(&path) {
        Err(FileError::TooLarge { .. }) => {
            moved = Some(move_aside("full")?);
            None
        }
        read => read?,
    };
    let mut longer = text.as_deref().and_then(|text| appended(text, session, prompt, now));
    if longer.is_none()
        && let Some(mended) = text.as_deref().and_then(without_torn_end)
    {
        // Keep the damaged log as a backup.
        moved = Some(move_aside("invalid_json")?);
        longer = appended(&mended, session, prompt, now);
    }
    if let Some((number, longer)) = longer {
        let written = files::replace(&path, longer.as_bytes(), Mode::Private);
        written.inspect_err(|_| put_back(moved.as_deref(), &path))?;
        return Ok(number);
    }
    let mut entries = match read(text) {
        Content::Entries(entries) => entries,
        Content::Bad(why) => {
            moved = Some(move_aside(why)?);
            Vec::new()
        }
    };
    let own = entries.iter().filter(|entry| entry["sessionId"] == session.as_str());
    let last = own.filter_map(|entry| entry["messageId"].as_u64()).max();
    let number = last.map_or(0, |last| last + 1);
    entries.push(entry(session, number, prompt, now));
    let written = files::replace(&path, format!("{:#}", Value::Array(entries)).as_bytes(), Mode::Private);
    written.inspect_err(|_| put_back(moved.as_deref(), &path))?;
    Ok(number)
}

/// Gives a log that was moved aside its name back, since no other could be written: the disk may be full.
fn put_back(moved: Option<&Path>, path: &Path) {
    if let Some(moved) = moved
        && !path.exists()
    {
        let _ = fs::rename(moved, path);
    }
}

fn entry(session: &SessionId, number: u64, prompt: &str, now: Timestamp) -> Value {
    json!({
        "sessionId": session.as_str(),
        "messageId": number,
        "timestamp": now.to_iso(),
        "type": "user",
        "message": prompt,
    })
}

/// Bytes at the end of a log that are searched for its last entry.
const END_BYTES: u64 = 64 * 1024;

/// Writes an entry behind the last one, if that is of the same session and where this program left it. A log grows with
/// every prompt of a project, so it is read as a whole only when a session begins. If the write breaks off with this
/// process, the entry is missing and nothing else: [`without_torn_end`].
fn append_in_place(path: &Path, session: &SessionId, prompt: &str, now: Timestamp) -> Option<u64> {
    // Opening a pipe would wait for another program.
    let length = fs::metadata(path).ok().filter(fs::Metadata::is_file)?.len();
    let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
    let begin = length.saturating_sub(END_BYTES);
    let mut end = vec![0; usize::try_from(length - begin).ok()?];
    file.read_exact_at(&mut end, begin).ok()?;
    let entries = end.strip_suffix(LOG_END)?;
    let last = entries.get(memchr::memmem::rfind(entries, b"\n  {\n")?..)?;
    let last = replace_unpaired(std::str::from_utf8(last).ok()?);
    let last: Known<'_> = serde_json::from_str(&last).ok()?;
    let number = last.number.checked_add(1).filter(|_| last.session == session.as_str())?;
    let added = format!(",\n  {}\n]", indented(session, number, prompt, now));
    replace_end(&file, length, added.as_bytes()).ok()?;
    Some(number)
}

/// The end of a log where this program left it.
const LOG_END: &[u8] = b"\n]";

/// Writes `added` instead of the end of a log of this length. On failure, the end is put back, which needs no new space.
fn replace_end(file: &File, length: u64, added: &[u8]) -> io::Result<()> {
    let at = length.saturating_sub(LOG_END.len() as u64);
    file.write_all_at(added, at).inspect_err(|_| {
        // If this fails too, the log ends in a torn entry.
        let _ = file.set_len(length).and_then(|()| file.write_all_at(LOG_END, at));
    })
}

/// The text of an entry as it stands in a log.
fn indented(session: &SessionId, number: u64, prompt: &str, now: Timestamp) -> String {
    format!("{:#}", entry(session, number, prompt, now)).replace('\n', "\n  ")
}

/// The text of a log. Broken characters are replaced: one of them must not cost the prompts behind it. What follows a
/// complete log is dropped if it is not valid UTF-8.
fn read_lossy(path: &Path) -> Result<Option<String>, FileError> {
    let read = files::read_text_up_to(path, MAX_SESSION_BYTES);
    if !matches!(read, Err(FileError::NotUtf8 { .. })) {
        return read;
    }
    let bytes = fs::read(path).map_err(|source| FileError::Read { path: path.to_owned(), source })?;
    let valid = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let is_complete = serde_json::from_str::<IgnoredAny>(valid).is_ok();
    Ok(Some(if is_complete { valid.to_owned() } else { String::from_utf8_lossy(&bytes).into_owned() }))
}

/// The entries in front of the place from which on a log cannot be read: what was being written when the program or the
/// power ended. `None` if all of it can be read, or nothing.
fn without_torn_end(text: &str) -> Option<String> {
    let error = serde_json::from_str::<IgnoredAny>(text).err()?;
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let bad = lines.map(str::len).sum::<usize>() + error.column();
    let good = text.as_bytes().get(..bad.min(text.len()))?;
    let end = memchr::memmem::rfind(good, b"\n  }")? + b"\n  }".len();
    let whole = format!("{}\n]", text.get(..end)?);
    serde_json::from_str::<Vec<Known<'_>>>(&replace_unpaired(&whole)).is_ok().then_some(whole)
}

/// The number of a prompt and the log with it at its end; nothing if the log is not in order. Its entries are looked at
/// but not taken apart.
fn appended(text: &str, session: &SessionId, prompt: &str, now: Timestamp) -> Option<(u64, String)> {
    // Only what is looked at is replaced; the text itself stays as it is.
    let readable = replace_unpaired(text);
    let known: Vec<Known<'_>> = serde_json::from_str(&readable).ok()?;
    let own = known.iter().filter(|entry| entry.session == session.as_str());
    let number = own.map(|entry| entry.number).max().map_or(0, |last| last + 1);
    let before = text.trim_end().strip_suffix(']')?.trim_end();
    let comma = if known.is_empty() { "" } else { "," };
    let new = indented(session, number, prompt, now);
    Some((number, format!("{before}{comma}\n  {new}\n]")))
}

/// The prompts of a project, newest first. Unreadable entries are skipped; nothing is written.
pub fn logged_prompts(temp: &Path) -> Vec<String> {
    logged_prompts_in(&[temp.to_owned()])
}

/// The same of all folders that hold state of a project.
pub fn logged_prompts_in(folders: &[PathBuf]) -> Vec<String> {
    let mut prompts: Vec<(Option<Timestamp>, String)> =
        folders.iter().rev().flat_map(|folder| dated_prompts(folder)).collect();
    // A file is in the order of writing; several sessions may write at the same time.
    prompts.sort_by_key(|(time, _)| *time);
    prompts.into_iter().rev().map(|(_, message)| message).collect()
}

fn dated_prompts(temp: &Path) -> Vec<(Option<Timestamp>, String)> {
    let Ok(Some(text)) = read_lossy(&temp.join("logs.json")) else { return Vec::new() };
    // Logs can be long, so only the needed fields are decoded.
    let decoded = |text: &str| parse_lenient_str::<Vec<Line>>(text).ok();
    let lines = decoded(&text).or_else(|| decoded(&without_torn_end(&text)?)).unwrap_or_default();
    let dated = |line| match line {
        Line::Prompt { timestamp, message, .. } => Some((Timestamp::parse(&timestamp), message)),
        Line::Other(_) => None,
    };
    lines.into_iter().filter_map(dated).collect()
}

/// An entry as far as it is needed to list it; what is not one is passed over.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Prompt {
        timestamp: String,
        message: String,
        #[serde(rename = "sessionId")]
        _session: String,
        #[serde(rename = "type")]
        _kind: String,
        #[serde(rename = "messageId")]
        _number: u64,
    },
    Other(IgnoredAny),
}

/// An entry in order.
#[derive(Deserialize)]
struct Known<'a> {
    #[serde(rename = "sessionId", borrow)]
    session: Cow<'a, str>,
    #[serde(rename = "messageId")]
    number: u64,
    #[serde(rename = "timestamp", borrow)]
    _timestamp: Cow<'a, str>,
    #[serde(rename = "type", borrow)]
    _kind: Cow<'a, str>,
    #[serde(rename = "message", borrow)]
    _message: Cow<'a, str>,
}

enum Content {
    Entries(Vec<Value>),
    /// Upstream's marker in the name of a file moved aside.
    Bad(&'static str),
}

fn read(text: Option<String>) -> Content {
    let Some(text) = text else { return Content::Entries(Vec::new()) };
    match parse_lenient_str(&text) {
        Err(_) => Content::Bad("invalid_json"),
        Ok(Value::Array(mut entries)) => {
            entries.retain(is_entry);
            Content::Entries(entries)
        }
        Ok(_) => Content::Bad("malformed_array"),
    }
}

fn is_entry(entry: &Value) -> bool {
    let has = |key: &str| entry.get(key).is_some_and(Value::is_string);
    ["sessionId", "timestamp", "type", "message"].into_iter().all(has)
        && entry.get("messageId").is_some_and(Value::is_u64)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_770_000_000_000 + millis)
    }

    #[test]
    fn prompts_are_numbered_by_session_and_come_back_latest_first() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(SessionId::from_file);
        let mut numbers = Vec::new();
        for (session, prompt, time) in [(&a, "one", 1), (&b, "two", 2), (&a, "three", 3)] {
            numbers.push(log_prompt(dir.path(), session, prompt, at(time)).unwrap());
        }
        assert_eq!(numbers, [0, 0, 1]);
        assert_eq!(logged_prompts(dir.path()), ["three", "two", "one"]);
        let text = fs::read_to_string(dir.path().join("logs.json")).unwrap();
        assert!(
            text.starts_with("[\n  {\n    \"sessionId\": \"a\",\n    \"messageId\": 0,\n    \"timestamp\": "),
            "{text}"
        );
        assert!(text.contains("\"type\": \"user\",\n    \"message\": \"one\"\n  },"), "{text}");
        let whole: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(text, format!("{whole:#}"), "it is written as a whole would be");
    }

    #[test]
    fn unreadable_files_are_moved_aside_and_invalid_entries_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs.json");
        let session = SessionId::from_file("a");
        for (text, aside) in [("{", "invalid_json"), ("{}", "malformed_array")] {
            fs::write(&path, text).unwrap();
            assert!(logged_prompts(dir.path()).is_empty());
            assert_eq!(log_prompt(dir.path(), &session, "x", at(0)).unwrap(), 0);
            let kept = dir.path().join(format!("logs.json.{aside}.{}.bak", at(0).millis()));
            assert_eq!(fs::read_to_string(kept).unwrap(), text);
        }
        fs::write(&path, "[1, {\"sessionId\":\"a\",\"messageId\":6,\"timestamp\":\"t\",\"type\":\"user\",\"message\":\"m\",\"new\":1}]").unwrap();
        assert_eq!(log_prompt(dir.path(), &session, "x", at(0)).unwrap(), 7);
        assert!(fs::read_to_string(&path).unwrap().contains("\"new\": 1"));
    }

    #[test]
    fn entries_of_others_stay_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs.json");
        let other = "[{\"new\":[1, 2],\"message\":\"a\\nb\",\"type\":\"user\",\"timestamp\":\"t\",\"messageId\":4,\"sessionId\":\"s\"}\n]\n";
        fs::write(&path, other).unwrap();
        assert_eq!(log_prompt(dir.path(), &SessionId::from_file("s"), "line\nline", at(0)).unwrap(), 5);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(other.trim_end().trim_end_matches("\n]")), "{text}");
        assert_eq!(logged_prompts(dir.path())[0], "line\nline");
        fs::write(&path, "[]").unwrap();
        assert_eq!(log_prompt(dir.path(), &SessionId::from_file("s"), "x", at(0)).unwrap(), 0);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("[\n  {\n    \"sessionId\""), "{text}");
    }

    #[test]
    fn a_longer_log_is_not_written_again_and_a_torn_entry_costs_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs.json");
        let [a, b] = ["a", "b"].map(SessionId::from_file);
        log_prompt(dir.path(), &a, "first", at(0)).unwrap();
        let file = fs::metadata(&path).unwrap().ino();
        for number in 1..40 {
            let prompt = format!("{number} ] }}\n  }}\n]\n  {{\n é");
            assert_eq!(log_prompt(dir.path(), &a, &prompt, at(number)).unwrap(), number.unsigned_abs());
        }
        assert_eq!(fs::metadata(&path).unwrap().ino(), file, "the file is still the same");
        let before = fs::read_to_string(&path).unwrap();
        let whole: Value = serde_json::from_str(&before).unwrap();
        assert_eq!(before, format!("{whole:#}"), "it is written as a whole would be");
        log_prompt(dir.path(), &a, "last é é", at(40)).unwrap();
        let after = fs::read_to_string(&path).unwrap();
        for cut in before.len() - 2..after.len() {
            fs::write(&path, &after.as_bytes()[..cut]).unwrap();
            // The entry is complete before the log is.
            let left = if cut < after.len() - 2 { 40 } else { 41 };
            assert_eq!(logged_prompts(dir.path()).len(), left, "cut at {cut}");
            assert_eq!(log_prompt(dir.path(), &b, "next", at(41)).unwrap(), 0);
            let aside = dir.path().join(format!("logs.json.invalid_json.{}.bak", at(41).millis()));
            assert_eq!(fs::read(aside).unwrap(), after.as_bytes()[..cut], "what was there is kept");
            let prompts = logged_prompts(dir.path());
            assert_eq!((prompts.len(), prompts[0].as_str()), (left + 1, "next"), "cut at {cut}");
            // Of several writes that power cut off, the last may be there without the others.
            let hole = [&after.as_bytes()[..cut], &[0; 30], &after.as_bytes()[before.len() - 2..]].concat();
            fs::write(&path, hole).unwrap();
            assert_eq!(logged_prompts(dir.path()).len(), left, "hole at {cut}");
        }
    }

    #[test]
    fn a_broken_character_costs_no_other_prompt() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs.json");
        let [a, b] = ["a", "b"].map(SessionId::from_file);
        for (prompt, time) in [("first", 0), ("br?ken", 1), ("third", 2)] {
            log_prompt(dir.path(), &a, prompt, at(time)).unwrap();
        }
        let mut bytes = fs::read(&path).unwrap();
        let broken = bytes.iter().position(|byte| *byte == b'?').unwrap();
        bytes[broken] = 0xff;
        let torn = &bytes[..bytes.len() - "\n  }\n]".len()];
        let longer = [&bytes[..], b"\xff"].concat();
        for (text, left) in [(torn, 2), (&bytes[..], 3), (&longer[..], 3)] {
            fs::write(&path, text).unwrap();
            assert_eq!(logged_prompts(dir.path()).len(), left);
            assert!(logged_prompts(dir.path()).contains(&"br\u{fffd}ken".to_owned()));
            assert_eq!(log_prompt(dir.path(), &b, "next", at(9)).unwrap(), 0);
            assert_eq!(logged_prompts(dir.path()).len(), left + 1);
        }
    }

    #[test]
    fn a_large_log_is_read_and_one_that_cannot_be_is_moved_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs.json");
        let [a, b] = ["a", "b"].map(SessionId::from_file);
        log_prompt(dir.path(), &a, &"x".repeat(17 << 20), at(0)).unwrap();
        assert_eq!(log_prompt(dir.path(), &b, "next", at(1)).unwrap(), 0);
        assert_eq!(log_prompt(dir.path(), &b, "last", at(2)).unwrap(), 1);
        let prompts = logged_prompts(dir.path());
        assert_eq!((prompts.len(), prompts[0].as_str(), prompts[1].as_str()), (3, "last", "next"));
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Known<'_>>>(&text).unwrap().len(), 3, "gemini-cli can read it");
        OpenOptions::new().write(true).open(&path).unwrap().set_len(MAX_SESSION_BYTES + 1).unwrap();
        assert_eq!(log_prompt(dir.path(), &a, "again", at(3)).unwrap(), 0);
        assert_eq!(logged_prompts(dir.path()), ["again"]);
        let aside = dir.path().join(format!("logs.json.full.{}.bak", at(3).millis()));
        assert_eq!(fs::metadata(aside).unwrap().len(), MAX_SESSION_BYTES + 1);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn an_append_that_finds_the_disk_full_leaves_the_log_as_it_was() {
        use std::os::fd::AsRawFd as _;

        use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

        let dir = tempfile::tempdir().unwrap();
        let session = SessionId::from_file("a");
        // The last bracket is on a page of its own, so the first part of a write still fits.
        let log_with = |length: usize| {
            let _ = fs::remove_file(dir.path().join("logs.json"));
            log_prompt(dir.path(), &session, &"x".repeat(length), at(0)).unwrap();
            fs::read(dir.path().join("logs.json")).unwrap()
        };
        let log = log_with(4097 - log_with(0).len());
        assert_eq!(log.len(), 4097);
        let full =
            File::from(memfd_create("logs.json", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap());
        full.write_all_at(&log, 0).unwrap();
        fcntl_add_seals(&full, SealFlags::GROW).unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}", full.as_raw_fd()));
        assert_eq!(append_in_place(&path, &session, "next", at(1)), None);
        assert!(fs::read(&path).unwrap() == log);
    }

    #[test]
    fn a_log_that_was_moved_aside_gets_its_name_back_unless_there_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let [path, aside] = ["logs.json", "logs.json.bak"].map(|name| dir.path().join(name));
        fs::write(&aside, "old").unwrap();
        put_back(None, &path);
        assert!(!path.exists());
        put_back(Some(&aside), &path);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        fs::write(&aside, "older").unwrap();
        put_back(Some(&aside), &path);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    }

    #[test]
    fn writers_at_the_same_time_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let dir = dir.path();
                scope.spawn(move || {
                    let session = SessionId::from_file(format!("s{writer}"));
                    for number in 0..10 {
                        assert_eq!(log_prompt(dir, &session, "x", at(0)).unwrap(), number);
                    }
                });
            }
        });
        assert_eq!(logged_prompts(dir.path()).len(), 40);
    }
}
