//! The files of a journal: one with appended events, one with the last known state.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
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
    /// Opened at the first event, so that a session without one leaves nothing.
    file: Option<File>,
}

impl Log {
    /// Reads a session's events; a line that was not finished is as good as never written.
    pub(super) fn open(folder: PathBuf) -> io::Result<(Self, Vec<Event>)> {
        let path = folder.join(EVENTS);
        let mut events = Vec::new();
        let mut good = 0;
        match File::open(&path) {
            Ok(file) if file.metadata()?.len() > MAX_BYTES => return Err(io::ErrorKind::FileTooLarge.into()),
            Ok(file) => {
                let mut lines = BufReader::new(file);
                let mut line = Vec::new();
                while lines.read_until(b'\n', &mut line)? > 0 {
                    let whole = line.ends_with(b"\n");
                    let event = serde_json::from_slice::<LineWire>(&line).ok().and_then(LineWire::event);
                    let (true, Some(event)) = (whole, event) else { break };
                    events.push(event);
                    good += line.len() as u64;
                    line.clear();
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok((Self { folder, file: None }, events));
            }
            Err(error) => return Err(error),
        }
        let mut file = OpenOptions::new().write(true).open(&path)?;
        file.set_len(good)?;
        file.seek(SeekFrom::End(0))?;
        Ok((Self { folder, file: Some(file) }, events))
    }

    pub(super) fn append(&mut self, event: &Event) -> Result<(), LogError> {
        let path = self.folder.join(EVENTS);
        let write = |source| LogError::Write { path: path.clone(), source };
        if self.file.is_none() {
            files::create_folder(&self.folder, Mode::Private)?;
            let mut options = OpenOptions::new();
            self.file = Some(options.create(true).append(true).mode(0o600).open(&path).map_err(write)?);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let line = line_of(&LineWire::from(event)).map_err(write)?;
        // One write: a line is either complete or truncated at the end of the file, where the reader expects
        // it.
        file.write_all(&line).map_err(write)
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
            Event::Prompt(_) => {}
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
