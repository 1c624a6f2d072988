//! The files of a journal: one with appended events, one with the last known state.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use pollux_config::files::{self, FileError, Mode};
use serde::Serialize;

use crate::entry::Hash;
use crate::entry::{Content, WorkspaceEntry};
use crate::snapshot::Tree;

use super::state::Event;
use super::wire::{IndexWire, LineWire};

const EVENTS: &str = "events.jsonl";
const INDEX: &str = "index.jsonl";
/// A journal beyond this is not ours.
const MAX_BYTES: u64 = 1 << 30;
/// How much waits in memory for room on the disk.
const MAX_UNWRITTEN: usize = 64 << 20;

/// Why the journal could not be written.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("could not write the rewind journal `{}`: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Folder(#[from] FileError),
}

/// One session's folder in the store.
pub(super) struct Log {
    folder: PathBuf,
    /// Opened at the first event, so that a session without one leaves nothing and reading changes nothing.
    file: Option<File>,
    /// The length that was read, and how much of it is lines with an end.
    length: u64,
    complete: u64,
    /// Whole lines that could not be written yet.
    unwritten: Vec<u8>,
}

impl Log {
    /// Reads a session's events. A line that was not finished is as good as never written; one that cannot be read
    /// costs no other.
    pub(super) fn open(folder: PathBuf) -> io::Result<(Self, Vec<Event>)> {
        let mut log = Self { folder, file: None, length: 0, complete: 0, unwritten: Vec::new() };
        let mut events = Vec::new();
        let file = match File::open(log.folder.join(EVENTS)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((log, events)),
            Err(error) => return Err(error),
        };
        if file.metadata()?.len() > MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut lines = BufReader::new(file);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            log.length += line.len() as u64;
            if line.ends_with(b"\n") {
                log.complete = log.length;
                events.extend(event_of(&line));
            }
            line.clear();
        }
        Ok((log, events))
    }

    /// Writes an event. If that fails it is kept, and written with the next one.
    pub(super) fn append(&mut self, event: &Event) -> Result<(), LogError> {
        let line = line_of(&LineWire::from(event)).map_err(|source| self.failed(source))?;
        let waiting = self.unwritten.len();
        self.unwritten.extend(&line);
        self.write().inspect_err(|_| {
            if self.unwritten.len() > MAX_UNWRITTEN {
                self.unwritten.truncate(waiting);
            }
        })
    }

    /// As [`Self::append`], but the first event that cannot be written is forgotten: the caller reports that it is not
    /// recorded. Behind events that wait, it waits too; their failure was reported.
    pub(super) fn append_or_forget(&mut self, event: &Event) -> Result<(), LogError> {
        let waiting = self.unwritten.len();
        let written = self.append(event);
        if written.is_err() && waiting > 0 && self.unwritten.len() > waiting {
            return Ok(());
        }
        written.inspect_err(|_| self.unwritten.truncate(waiting))
    }

    fn failed(&self, source: io::Error) -> LogError {
        LogError::Write { path: self.folder.join(EVENTS), source }
    }

    fn write(&mut self) -> Result<(), LogError> {
        if self.file.is_none() {
            files::create_folder(&self.folder, Mode::Private)?;
            self.file = Some(self.open_to_append().map_err(|source| self.failed(source))?);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        append_whole(file, &self.unwritten).map_err(|source| self.failed(source))?;
        self.unwritten.clear();
        Ok(())
    }

    fn open_to_append(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let file = options.create(true).read(true).append(true).mode(0o600).open(self.folder.join(EVENTS))?;
        // Only if nothing was added since: this is then the line that a crash broke off.
        if self.complete < self.length && file.metadata()?.len() == self.length {
            file.set_len(self.complete)?;
        }
        Ok(file)
    }

    /// Writes the last known state, for recovery and for the next session's first snapshot.
    pub(super) fn write_index(&self, tree: &Tree) -> Result<(), LogError> {
        let path = self.folder.join(INDEX);
        let write = |source| LogError::Write { path: path.clone(), source };
        files::create_folder(&self.folder, Mode::Private)?;
        let mut bytes = Vec::with_capacity(tree.nodes.len() * 160);
        let nodes = tree.nodes.iter().map(|(path, node)| IndexWire::node(path, node));
        let unlisted = tree.unlisted.iter().map(|(path, reason)| IndexWire::unlisted(path, *reason));
        let unsaved = tree.unsaved.iter().map(|(path, reason)| IndexWire::unsaved(path, *reason));
        for line in nodes.chain(unlisted).chain(unsaved) {
            bytes.extend(line_of(&line).map_err(write)?);
        }
        // Not synced: after a power cut it is only read again.
        let temp = path.with_extension("new");
        let written = File::create(&temp).and_then(|mut file| file.write_all(&bytes));
        written.and_then(|()| fs::rename(&temp, &path)).map_err(write)
    }

    /// This session's last known state.
    pub(super) fn read_index(&self) -> Option<Tree> {
        read_index(&self.folder)
    }

    /// The last known state of whichever session wrote one last.
    pub(super) fn newest_index(&self) -> Option<Tree> {
        let sessions = fs::read_dir(self.folder.parent()?).ok()?.flatten().map(|entry| entry.path());
        let dated = sessions
            .filter_map(|folder| Some((fs::metadata(folder.join(INDEX)).ok()?.modified().ok()?, folder)));
        read_index(&dated.max()?.1)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // There may be room again.
        if !self.unwritten.is_empty() {
            let _ = self.write();
        }
    }
}

fn event_of(line: &[u8]) -> Option<Event> {
    serde_json::from_slice::<LineWire>(line).ok().and_then(LineWire::event)
}

/// Adds whole lines to a file, or leaves it as it was: after a part of a line, the next one could not be read either.
fn append_whole(file: &mut File, lines: &[u8]) -> io::Result<()> {
    let length = file.metadata()?.len();
    let mut last = [b'\n'];
    if length > 0 {
        file.read_exact_at(&mut last, length - 1)?;
    }
    let separated = if last == [b'\n'] { Ok(()) } else { file.write_all(b"\n") };
    separated.and_then(|()| file.write_all(lines)).inspect_err(|_| {
        // If this fails too, the next line is separated from the broken one.
        let _ = file.set_len(length);
    })
}

fn line_of(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

fn read_index(folder: &Path) -> Option<Tree> {
    let file = File::open(folder.join(INDEX)).ok()?;
    if file.metadata().ok()?.len() > MAX_BYTES {
        return None;
    }
    let mut tree = Tree::default();
    for line in BufReader::new(file).split(b'\n') {
        serde_json::from_slice::<IndexWire>(&line.ok()?).ok()?.add_to(&mut tree)?;
    }
    Some(tree)
}

/// Every content that a session's journal may need.
pub(super) fn needed(folder: &Path) -> io::Result<Vec<Hash>> {
    let (_, events) = Log::open(folder.to_owned())?;
    let index = read_index(folder).unwrap_or_default();
    let mut entries: Vec<WorkspaceEntry> = index.nodes.into_values().map(|node| node.entry).collect();
    for event in events {
        match event {
            Event::Prompt(_) | Event::SetAside(_) => {}
            Event::Opened { files, .. } => {
                entries.extend(files.into_iter().flatten().filter_map(|(_, entry)| entry));
            }
            Event::Closed { changes, .. } => {
                entries.extend(changes.into_iter().flat_map(|change| [change.was, change.now]).flatten());
            }
        }
    }
    let hash = |entry| match entry {
        WorkspaceEntry::File {
            content: Content::Saved(hash) | Content::Linked { key: hash, .. }, ..
        } => Some(hash),
        WorkspaceEntry::File { .. }
        | WorkspaceEntry::Folder { .. }
        | WorkspaceEntry::Link { .. }
        | WorkspaceEntry::Special { .. } => None,
    };
    Ok(entries.into_iter().filter_map(hash).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Point;

    fn prompt(id: &str) -> Event {
        Event::Prompt(id.to_owned())
    }

    fn opened(call: &str) -> Event {
        let point = Point { call: call.to_owned(), prompt: "p".to_owned(), tool: "t".to_owned() };
        Event::Opened { point, files: None }
    }

    fn closed(call: &str) -> Event {
        Event::Closed { call: call.to_owned(), unsure: false, changes: Vec::new() }
    }

    fn scene() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("session");
        (dir, folder)
    }

    fn events(folder: &Path) -> Vec<Event> {
        Log::open(folder.to_owned()).unwrap().1
    }

    /// A file with this content that cannot grow.
    #[cfg(target_os = "linux")]
    fn full(content: &[u8]) -> File {
        use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

        let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
        let mut full = File::from(memfd_create(EVENTS, flags).unwrap());
        full.write_all(content).unwrap();
        fcntl_add_seals(&full, SealFlags::GROW).unwrap();
        full
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_a_full_disk_refused_is_written_when_there_is_room() {
        let (_dir, folder) = scene();
        let (mut log, _) = Log::open(folder.clone()).unwrap();
        log.append(&opened("1")).unwrap();
        let before = fs::read(folder.join(EVENTS)).unwrap();
        log.file = Some(full(&before));
        log.append_or_forget(&opened("lost")).unwrap_err();
        log.append(&closed("1")).unwrap_err();
        log.append_or_forget(&opened("2")).unwrap();
        assert_eq!(log.file.as_ref().unwrap().metadata().unwrap().len(), before.len() as u64);
        assert_eq!(events(&folder), [opened("1")]);
        log.file = None;
        log.append_or_forget(&opened("3")).unwrap();
        assert_eq!(events(&folder), [opened("1"), closed("1"), opened("2"), opened("3")]);
        log.file = Some(full(b""));
        log.append(&closed("3")).unwrap_err();
        log.file = None;
        drop(log);
        assert_eq!(events(&folder).last(), Some(&closed("3")));
    }

    #[test]
    fn a_line_that_cannot_be_read_costs_no_other_and_reading_changes_nothing() {
        let (_dir, folder) = scene();
        let (mut log, _) = Log::open(folder.clone()).unwrap();
        log.append(&opened("1")).unwrap();
        let path = folder.join(EVENTS);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"close\":{\"call\":\"1\",\"ch").unwrap();
        // Behind a broken line, the next one begins on its own.
        log.append(&opened("2")).unwrap();
        file.write_all(b"{\"close\":{\"call\":\"2\",\"ch").unwrap();
        let before = fs::read(&path).unwrap();
        let (mut again, found) = Log::open(folder.clone()).unwrap();
        assert_eq!(found, [opened("1"), opened("2")]);
        needed(&folder).unwrap();
        assert_eq!(fs::read(&path).unwrap(), before);
        // Only the unfinished line at the end goes.
        again.append(&prompt("next")).unwrap();
        let after = fs::read(&path).unwrap();
        let end = before.iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
        assert_eq!(after[..end], before[..end]);
        assert_eq!(after.iter().filter(|byte| **byte == b'\n').count(), 4);
        assert_eq!(events(&folder), [opened("1"), opened("2"), prompt("next")]);
    }
}
