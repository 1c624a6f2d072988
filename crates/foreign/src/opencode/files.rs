//! Sessions as files: `storage/session/<project>/<id>.json` with messages in `storage/message/<id>/` and their
//! parts in `storage/part/<message>/`; before that, the same layout below `project/<folder>/`.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::part::{self, Message};
use crate::entry::{Branches, ForeignEntry};
use crate::folder;
use crate::lines::readable;
use crate::session::{Facts, Record, RecordSink};

/// Larger messages and parts contain pictures.
const MAX_FILE: u64 = 16 * 1024 * 1024;

pub(super) fn entries(root: &Path) -> Vec<ForeignEntry> {
    let mut files = Vec::new();
    for project in folder::read(&root.join("storage/session")).folders {
        files.extend(folder::read(&project).files);
    }
    for project in folder::read(&root.join("project")).folders {
        files.extend(folder::read(&project.join("storage/session/info")).files);
    }
    files.retain(|path| folder::name(path).ends_with(".json"));
    files.into_iter().filter_map(entry).collect()
}

fn entry(path: PathBuf) -> Option<ForeignEntry> {
    let mut stamp = folder::stamp(&path)?;
    let messages = Layout::of(&path)?.messages();
    let mut hasher = DefaultHasher::new();
    stamp.mark.hash(&mut hasher);
    fs::symlink_metadata(&messages).ok().map(|meta| folder::modified_ns(&meta)).hash(&mut hasher);
    // The last reply is written again when it is complete.
    let last = folder::read(&messages).files.last().and_then(|path| folder::stamp(path));
    last.hash(&mut hasher);
    stamp.mark = hasher.finish();
    Some(ForeignEntry { path, within: None, stamp, name: None })
}

/// Where the messages and parts of a session are.
struct Layout {
    base: PathBuf,
    session: String,
    /// In the first layout, parts lie below their session.
    is_first: bool,
}

impl Layout {
    fn of(session: &Path) -> Option<Self> {
        let id = session.file_stem()?.to_str()?.to_owned();
        let folder = session.parent()?;
        let is_first = folder::name(folder) == "info";
        let base = if is_first { folder.parent()? } else { folder.parent()?.parent()? };
        Some(Self { base: base.to_owned(), session: id, is_first })
    }

    fn messages(&self) -> PathBuf {
        self.base.join("message").join(&self.session)
    }

    fn parts(&self, message: &str) -> PathBuf {
        let parts = self.base.join("part");
        if self.is_first { parts.join(&self.session).join(message) } else { parts.join(message) }
    }
}

pub(super) fn replay(
    path: &Path,
    branches: Branches,
    visit: &mut dyn FnMut(&Record<'_>),
) -> io::Result<Facts> {
    let (mut facts, reverted) = part::facts(&read(path)?).unwrap_or_default();
    let layout = Layout::of(path).ok_or_else(|| io::Error::other("it is not inside a session store"))?;
    // Names are ids, and those sort by time.
    for message_path in folder::read(&layout.messages()).files {
        let Some(id) = message_path.file_stem().and_then(|stem| stem.to_str()) else { continue };
        if branches == Branches::Last && reverted.as_deref().is_some_and(|reverted| id >= reverted) {
            break;
        }
        let Ok(text) = read(&message_path) else { continue };
        let Some(message) = Message::parse(&text) else { continue };
        let Some(speaker) = message.speaker() else { continue };
        if facts.project.is_none() {
            facts.project = message.project();
        }
        let mut sink = RecordSink { id, time: message.time(), visit };
        for part_path in folder::read(&layout.parts(id)).files {
            if let Ok(text) = read(&part_path) {
                part::record_part(&text, speaker, &mut sink);
            }
        }
        message.record(speaker, &mut sink);
    }
    Ok(facts)
}

fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::Error::other("it is too large"));
    }
    Ok(readable(&bytes).into_owned())
}
