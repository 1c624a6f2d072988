//! A redo note for writes that move complete records, kept next to the session during the write.
//!
//! A system may end a process in the middle of a write, and power may fail before all of it is on the disk. A message at
//! the end of the file is then lost with the write, as nobody was told of it yet; the results of a batch of calls,
//! though, push complete records towards the end. The note holds the end of the file before and after, so a reader that
//! finds a mixture of both knows what it was to become. A file without such a mixture has nothing to do with the note.
//!
//! If the disk does not answer, the file of notes holds several: the oldest first, and the newest is tried first.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use pollux_config::files;
use pollux_config::paths::sha256_hex;
use serde_json::{Value, json};

use crate::document::TAIL;

/// A session file is not larger either.
const MAX_BYTES: u64 = 1 << 30;
/// Notes that wait for the disk use no more space.
const MAX_WAITING: u64 = 64 << 20;

fn path_of(session: &Path) -> PathBuf {
    let name = session.file_name().unwrap_or_default().to_string_lossy();
    session.with_file_name(format!(".{name}.redo"))
}

/// Encodes the note of a write that replaces `old` (everything from `at` on) with `new`.
pub(crate) fn encode(at: u64, old: &[u8], new: &[u8]) -> Vec<u8> {
    let ends = [old, new].concat();
    let head = json!({"at": at, "old": old.len(), "new": new.len(), "sha256": sha256_hex(&ends)});
    [head.to_string().as_bytes(), b"\n", &ends].concat()
}

/// Writes the note. On failure, the session is written without it.
pub(crate) fn keep(session: &Path, note: &[u8]) {
    let path = path_of(session);
    let opened = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
    if opened.and_then(|mut file| file.write_all(note)).is_err() {
        discard(session);
    }
}

/// The same, on the disk: the note is there before anything of the write that it is about.
pub(crate) fn keep_synced(session: &Path, note: &[u8]) {
    keep(session, note);
    let path = path_of(session);
    let _ = File::open(&path).and_then(|file| files::sync(&file));
    let _ = files::sync_folder(path.parent().unwrap_or(Path::new("")));
}

/// Adds a note behind those whose writes may not be on the disk yet. It is not synced, because the disk does not answer.
pub(crate) fn keep_also(session: &Path, note: &[u8]) {
    let path = path_of(session);
    let length = fs::metadata(&path).map_or(0, |metadata| metadata.len());
    if length == 0 {
        return keep(session, note);
    }
    if length > MAX_WAITING {
        return;
    }
    let opened = OpenOptions::new().append(true).open(&path);
    // A part of a note would hide the notes behind it.
    let _ = opened.and_then(|mut file| file.write_all(note).inspect_err(|_| drop(file.set_len(length))));
}

/// Syncs the session if there is a note for it: the process that wrote may have ended before its sync, and the bytes
/// that are read may be in memory only. After a sync that failed the system takes them for synced, so they are written
/// again from the oldest noted place on. Nothing that can be read changes.
pub(crate) fn sync_noted(session: &Path) -> io::Result<()> {
    if !is_noted(session) {
        return Ok(());
    }
    let from = notes_of(session).and_then(|text| notes_in(&text).iter().map(|note| note.at as u64).min());
    let Some(from) = from else { return files::sync(&File::open(session)?) };
    let file = OpenOptions::new().read(true).write(true).open(session)?;
    let modified = file.metadata()?.modified()?;
    let mut buffer = vec![0; 64 << 10];
    let mut at = from;
    loop {
        let length = file.read_at(&mut buffer, at)?;
        let Some(bytes) = buffer.get(..length).filter(|bytes| !bytes.is_empty()) else { break };
        file.write_all_at(bytes, at)?;
        at += length as u64;
    }
    file.set_modified(modified)?;
    files::sync(&file)
}

/// Whether there is a note for this session.
pub(crate) fn is_noted(session: &Path) -> bool {
    path_of(session).exists()
}

/// Removes the note, if there is one.
pub(crate) fn discard(session: &Path) {
    let _ = fs::remove_file(path_of(session));
}

/// Finishes the write that left these bytes of a session, if a note is about them. Returns where it began.
pub(crate) fn finish(session: &Path, bytes: &mut Vec<u8>) -> Option<u64> {
    let text = notes_of(session)?;
    for note in notes_in(&text).iter().rev() {
        if let Some(at) = note.finish(bytes) {
            return Some(at);
        }
        // The older notes are about what this write replaced.
        if note.is_done(bytes) {
            return None;
        }
    }
    None
}

/// The text of all notes for this session.
fn notes_of(session: &Path) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path_of(session)).ok()?.take(MAX_BYTES).read_to_end(&mut text).ok()?;
    Some(text)
}

/// The whole notes, the oldest first.
fn notes_in(text: &[u8]) -> Vec<Note<'_>> {
    let mut notes = Vec::new();
    let mut rest = text;
    while let Some((note, behind)) = first_note(rest) {
        notes.push(note);
        rest = behind;
    }
    notes
}

/// A write: from `at` on, the session held `old` and was to hold `new`.
struct Note<'a> {
    at: usize,
    old: &'a [u8],
    new: &'a [u8],
}

/// The note at the front, and what is behind it; `None` if there is no whole note.
fn first_note(text: &[u8]) -> Option<(Note<'_>, &[u8])> {
    let head_end = text.iter().position(|byte| *byte == b'\n')?;
    let (head, rest) = text.split_at_checked(head_end + 1)?;
    let head: Value = serde_json::from_slice(head).ok()?;
    let size = |key: &str| head.get(key).and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok());
    let (at, old_length) = (size("at")?, size("old")?);
    let (ends, behind) = rest.split_at_checked(old_length.checked_add(size("new")?)?)?;
    if head.get("sha256")?.as_str()? != sha256_hex(ends) {
        return None;
    }
    let (old, new) = ends.split_at_checked(old_length)?;
    Some((Note { at, old, new }, behind))
}

impl Note<'_> {
    /// Whether all of the write is there, whatever was written behind it since.
    fn is_done(&self, bytes: &[u8]) -> bool {
        let body = self.new.strip_suffix(TAIL).unwrap_or(self.new);
        bytes.get(self.at..).is_some_and(|found| found.starts_with(body))
    }

    /// Finishes the write if these bytes are a mixture.
    fn finish(&self, bytes: &mut Vec<u8>) -> Option<u64> {
        let finished = finished(bytes.get(self.at..)?, self.old, self.new)?;
        bytes.truncate(self.at);
        bytes.extend_from_slice(&finished);
        u64::try_from(self.at).ok()
    }
}

/// What a mixture of two ends was to become, with what was written behind it since; `None` if it is not a mixture.
///
/// A kill leaves a part of the new end and the rest of the old one. A power failure leaves any of the bytes, and zeros
/// where the file had grown before its bytes arrived.
fn finished(found: &[u8], old: &[u8], new: &[u8]) -> Option<Vec<u8>> {
    if found == old || found == new || found.len() < old.len().min(new.len()) {
        return None;
    }
    let explained = |(index, byte): (usize, &u8)| match (old.get(index), new.get(index)) {
        (before, after) if before == Some(byte) || after == Some(byte) => true,
        (before, _) => before.is_none() && *byte == 0,
    };
    if found.len() <= old.len().max(new.len()) && found.iter().enumerate().all(explained) {
        return Some(new.to_vec());
    }
    // Later messages took the place of the tail.
    let body = new.strip_suffix(TAIL)?;
    let (mixed, later) = found.split_at_checked(body.len())?;
    let is_mixture = mixed != body && mixed.iter().enumerate().all(explained);
    is_mixture.then(|| [body, later].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_finished_wherever_it_was_cut_and_nothing_else_is_touched() {
        let dir = tempfile::tempdir().unwrap();
        let session = dir.path().join("session-a.json");
        let (head, old, new) = (b"head ", b"the old end", b"what the new end is");
        keep(&session, &encode(5, old, new));
        let whole = [&head[..], new].concat();
        for cut in 1..new.len() {
            let rest = old.get(cut..).unwrap_or_default();
            let mut torn = [head, &new[..cut], rest].concat();
            // A first byte that is the same before and after changes nothing.
            if torn != [&head[..], old].concat() {
                assert_eq!(finish(&session, &mut torn), Some(5), "cut at {cut}");
                assert_eq!(torn, whole, "cut at {cut}");
            }
        }
        let other = [&b"head the old end"[..], b"what the new end is and more", b"hea", b"head else"];
        for bytes in other.map(<[u8]>::to_vec).iter().chain([&whole]) {
            let mut same = bytes.clone();
            assert_eq!(finish(&session, &mut same), None);
            assert_eq!(same, *bytes);
        }
        discard(&session);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn any_mixture_of_both_ends_is_finished_and_later_messages_stay() {
        let old = b"one,two}]}\n  ]\n}\n".as_slice();
        let new = b"one,result,two}]}\n  ]\n}\n".as_slice();
        let body = &new[..new.len() - TAIL.len()];
        for kept in 0..1_u32 << new.len().min(16) {
            // Every byte is the old one, the new one, or the zero of a file that has grown.
            let byte = |index: usize| match kept >> (index % 16) & 1 {
                0 => old.get(index).copied().unwrap_or(0),
                _ => new[index],
            };
            let mixed: Vec<u8> = (0..new.len()).map(byte).collect();
            let finished = finished(&mixed, old, new);
            assert!(mixed == new || finished.as_deref() == Some(new), "{mixed:?}");
            let later = [&mixed[..body.len()], b",\n    {}\n  ]\n}\n"].concat();
            let expected = [body, b",\n    {}\n  ]\n}\n"].concat();
            let found = super::finished(&later, old, new);
            assert_eq!(found.unwrap_or(later), expected);
        }
        let foreign = b"one,other,two}]}\n  ]\n}\n".as_slice();
        assert_eq!(finished(foreign, old, new), None);
        assert_eq!(finished(&[foreign, b" and more"].concat(), old, new), None);
    }

    #[test]
    fn a_second_note_does_not_replace_one_that_is_still_needed() {
        let dir = tempfile::tempdir().unwrap();
        let session = dir.path().join("session-a.json");
        let (first, second, third) =
            (b"first-----".as_slice(), b"second____".as_slice(), b"third*****".as_slice());
        keep_also(&session, &encode(2, first, second));
        let next = encode(2, second, third);
        // Wherever the later note was cut, the earlier one is whole.
        for cut in 0..=next.len() {
            keep(&session, &encode(2, first, second));
            keep_also(&session, &next[..cut]);
            let mut torn = [b"..", &second[..4], &first[4..]].concat();
            assert_eq!(finish(&session, &mut torn), Some(2), "cut at {cut}");
            assert_eq!(torn, [b"..", second].concat());
        }
        let mut torn = [b"..", &third[..4], &second[4..]].concat();
        assert_eq!(finish(&session, &mut torn), Some(2));
        assert_eq!(torn, [b"..", third].concat());
        for whole in [first, second, third] {
            assert_eq!(finish(&session, &mut [b"..", whole].concat()), None);
        }
    }

    #[test]
    fn a_noted_session_is_written_again_without_a_change() {
        let dir = tempfile::tempdir().unwrap();
        let session = dir.path().join("session-a.json");
        let text: Vec<u8> = (0..200_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        files::replace(&session, &text, files::Mode::Private).unwrap();
        keep(&session, &encode(70_000, b"old", &text[70_000..]));
        let before = fs::metadata(&session).unwrap();
        sync_noted(&session).unwrap();
        let after = fs::metadata(&session).unwrap();
        assert_eq!(fs::read(&session).unwrap(), text);
        assert_eq!(before.modified().unwrap(), after.modified().unwrap());
        #[cfg(target_os = "linux")]
        {
            use std::os::unix::fs::MetadataExt as _;
            let changed = |metadata: &fs::Metadata| (metadata.ctime(), metadata.ctime_nsec());
            assert_ne!(changed(&before), changed(&after), "it was written");
        }
    }

    #[test]
    fn a_note_that_was_cut_itself_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let session = dir.path().join("session-a.json");
        let note = encode(0, b"old", b"newer");
        for cut in 0..note.len() {
            keep(&session, &note[..cut]);
            assert_eq!(finish(&session, &mut b"neo".to_vec()), None, "cut at {cut}");
        }
    }
}
