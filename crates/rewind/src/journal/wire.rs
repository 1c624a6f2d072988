//! The file format of a journal and of its index.

use pollux_domain::hex;

use serde::{Deserialize, Serialize};

use crate::aside::SetAside;
use crate::coverage::Reason;
use crate::entry::{Content, Node, Stamp, WorkspaceEntry};
use crate::path::RelPath;
use crate::snapshot::Change;
use crate::store::hash_of;

use super::point::Point;
use super::state::Event;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum LineWire {
    /// A prompt of the user begins.
    Prompt(String),
    /// A call begins; `files` are its paths, or `None` for the complete workspace.
    Open { call: String, prompt: String, tool: String, files: Option<Vec<(String, Option<EntryWire>)>> },
    /// A call has ended; it changed these.
    Close { call: String, unsure: bool, changes: Vec<(String, Option<EntryWire>, Option<EntryWire>)> },
    /// A rewind moves these files: from, to, and the temporary name between.
    Aside(Vec<(String, String, String)>),
}

#[derive(Serialize, Deserialize)]
pub(super) enum EntryWire {
    #[serde(rename = "d")]
    Folder(u32),
    #[serde(rename = "f")]
    Saved(u32, u64, String),
    #[serde(rename = "k")]
    Linked(u32, u64, String, i64),
    #[serde(rename = "u")]
    Unsaved(u32, u64, u64, i64),
    #[serde(rename = "l")]
    Link(String),
    #[serde(rename = "s")]
    Special(u64),
}

#[derive(Serialize, Deserialize)]
pub(super) enum IndexWire {
    /// Path, entry, `[device, inode, mode, length]`, `[mtime, ctime]`, fresh.
    #[serde(rename = "n")]
    Node(String, EntryWire, [u64; 4], [i64; 2], bool),
    #[serde(rename = "x")]
    Unlisted(String, ReasonWire),
    #[serde(rename = "u")]
    Unsaved(String, ReasonWire),
}

#[derive(Serialize, Deserialize, Clone, Copy)]
#[serde(rename_all = "camelCase")]
pub(super) enum ReasonWire {
    TooLarge,
    TreeFull,
    StoreFull,
    TooMany,
    Unreadable,
    Changing,
    Special,
    Skipped,
    OtherFileSystem,
    Outside,
}

macro_rules! same_words {
    ($($word:ident),*) => {
        impl From<Reason> for ReasonWire {
            fn from(reason: Reason) -> Self {
                match reason { $(Reason::$word => Self::$word),* }
            }
        }
        impl From<ReasonWire> for Reason {
            fn from(reason: ReasonWire) -> Self {
                match reason { $(ReasonWire::$word => Self::$word),* }
            }
        }
    };
}
same_words!(
    TooLarge,
    TreeFull,
    StoreFull,
    TooMany,
    Unreadable,
    Changing,
    Special,
    Skipped,
    OtherFileSystem,
    Outside
);

impl From<&WorkspaceEntry> for EntryWire {
    fn from(entry: &WorkspaceEntry) -> Self {
        match entry {
            WorkspaceEntry::Folder { mode } => Self::Folder(*mode),
            WorkspaceEntry::File { mode, len, content: Content::Saved(hash) } => {
                Self::Saved(*mode, *len, hex::encode(hash))
            }
            WorkspaceEntry::File { mode, len, content: Content::Linked { key, mtime } } => {
                Self::Linked(*mode, *len, hex::encode(key), *mtime)
            }
            WorkspaceEntry::File { mode, len, content: Content::Unsaved { inode, mtime } } => {
                Self::Unsaved(*mode, *len, *inode, *mtime)
            }
            WorkspaceEntry::Link { target } => Self::Link(text(target)),
            WorkspaceEntry::Special { inode } => Self::Special(*inode),
        }
    }
}

impl EntryWire {
    fn entry(self) -> Option<WorkspaceEntry> {
        let file = |mode, len, content| WorkspaceEntry::File { mode, len, content };
        Some(match self {
            Self::Folder(mode) => WorkspaceEntry::Folder { mode },
            Self::Saved(mode, len, hash) => file(mode, len, Content::Saved(hash_of(&hash)?)),
            Self::Linked(mode, len, key, mtime) => {
                file(mode, len, Content::Linked { key: hash_of(&key)?, mtime })
            }
            Self::Unsaved(mode, len, inode, mtime) => file(mode, len, Content::Unsaved { inode, mtime }),
            Self::Link(target) => WorkspaceEntry::Link { target: bytes(&target)? },
            Self::Special(inode) => WorkspaceEntry::Special { inode },
        })
    }
}

impl From<&Event> for LineWire {
    fn from(event: &Event) -> Self {
        match event {
            Event::Prompt(id) => Self::Prompt(id.clone()),
            Event::Opened { point, files } => Self::Open {
                call: point.call.clone(),
                prompt: point.prompt.clone(),
                tool: point.tool.clone(),
                files: files.as_ref().map(|files| {
                    files
                        .iter()
                        .map(|(path, entry)| (text(path.bytes()), entry.as_ref().map(Into::into)))
                        .collect()
                }),
            },
            Event::Closed { call, unsure, changes } => Self::Close {
                call: call.clone(),
                unsure: *unsure,
                changes: changes
                    .iter()
                    .map(|change| {
                        let (was, now) = (change.was.as_ref(), change.now.as_ref());
                        (text(change.path.bytes()), was.map(Into::into), now.map(Into::into))
                    })
                    .collect(),
            },
            Event::SetAside(files) => {
                let file =
                    |aside: &SetAside| (text(aside.from.bytes()), text(aside.to.bytes()), text(&aside.name));
                Self::Aside(files.iter().map(file).collect())
            }
        }
    }
}

impl LineWire {
    /// `None` for a line that this program did not write.
    pub(super) fn event(self) -> Option<Event> {
        Some(match self {
            Self::Prompt(id) => Event::Prompt(id),
            Self::Open { call, prompt, tool, files } => {
                let file = |(path, entry): (String, _)| Some((path_of(&path)?, optional(entry)?));
                let files = match files {
                    Some(files) => Some(files.into_iter().map(file).collect::<Option<_>>()?),
                    None => None,
                };
                Event::Opened { point: Point { call, prompt, tool }, files }
            }
            Self::Close { call, unsure, changes } => {
                let change = |(path, was, now): (String, _, _)| {
                    Some(Change { path: path_of(&path)?, was: optional(was)?, now: optional(now)? })
                };
                Event::Closed {
                    call,
                    unsure,
                    changes: changes.into_iter().map(change).collect::<Option<_>>()?,
                }
            }
            Self::Aside(files) => {
                let file = |(from, to, name): (String, String, String)| {
                    SetAside::parse(path_of(&from)?, path_of(&to)?, &path_of(&name)?)
                };
                Event::SetAside(files.into_iter().map(file).collect::<Option<_>>()?)
            }
        })
    }
}

impl IndexWire {
    pub(super) fn node(path: &RelPath, node: &Node) -> Self {
        let stamp = &node.stamp;
        Self::Node(
            text(path.bytes()),
            (&node.entry).into(),
            [stamp.device, stamp.inode, stamp.mode.into(), stamp.len],
            [stamp.mtime, stamp.ctime],
            node.fresh,
        )
    }

    pub(super) fn unlisted(path: &RelPath, reason: Reason) -> Self {
        Self::Unlisted(text(path.bytes()), reason.into())
    }

    pub(super) fn unsaved(path: &RelPath, reason: Reason) -> Self {
        Self::Unsaved(text(path.bytes()), reason.into())
    }

    /// Puts the line into a tree.
    pub(super) fn add_to(self, tree: &mut crate::snapshot::Tree) -> Option<()> {
        match self {
            Self::Node(path, entry, [device, inode, mode, len], [mtime, ctime], fresh) => {
                let stamp = Stamp { device, inode, mode: u32::try_from(mode).ok()?, len, mtime, ctime };
                tree.nodes.insert(path_of(&path)?, Node { entry: entry.entry()?, stamp, fresh });
            }
            Self::Unlisted(path, reason) => {
                tree.unlisted.insert(path_of(&path)?, reason.into());
            }
            Self::Unsaved(path, reason) => {
                tree.unsaved.insert(path_of(&path)?, reason.into());
            }
        }
        Some(())
    }
}

fn optional(entry: Option<EntryWire>) -> Option<Option<WorkspaceEntry>> {
    match entry {
        Some(entry) => entry.entry().map(Some),
        None => Some(None),
    }
}

fn path_of(text: &str) -> Option<RelPath> {
    RelPath::parse(bytes(text)?)
}

/// Bytes as text: bytes that are not UTF-8 become NUL and two hex digits, since file names contain no NUL.
fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push('\0');
            text.push_str(&hex::encode(&[*byte]));
        }
    }
    text
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('\0');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.extend(hex::decode(digits)?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_not_text_survive_the_file() {
        for name in [b"plain".as_slice(), "größe".as_bytes(), b"a\xffb\xfe", b"\xff", b"new\nline", b""] {
            let written = serde_json::to_string(&text(name)).unwrap();
            let read: String = serde_json::from_str(&written).unwrap();
            assert_eq!(bytes(&read).as_deref(), Some(name), "{written}");
        }
        assert_eq!(bytes("a\0zz"), None);
        assert_eq!(bytes("a\0f"), None);
    }

    #[test]
    fn a_journal_line_outside_the_root_is_refused() {
        let line = r#"{"close":{"call":"c","unsure":false,"changes":[["../x",null,{"d":493}]]}}"#;
        assert!(serde_json::from_str::<LineWire>(line).unwrap().event().is_none());
    }
}
