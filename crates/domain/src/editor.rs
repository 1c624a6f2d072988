//! The files that a connected editor shows, and the port through which a session sees them.

use std::sync::Arc;

/// The files that are open in an editor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EditorFiles {
    /// The file that has the focus.
    pub active: Option<ActiveFile>,
    /// The other files, the most recently used first.
    pub others: Vec<String>,
}

/// The file that has the focus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveFile {
    pub path: String,
    pub cursor: Option<Cursor>,
    /// The selected text, if any.
    pub selection: Option<String>,
}

/// A position in a file; both numbers start at 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    pub line: u64,
    pub character: u64,
}

impl EditorFiles {
    /// The paths of all files, the active one first.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let active = self.active.iter().map(|file| file.path.as_str());
        active.chain(self.others.iter().map(String::as_str))
    }
}

/// A connected editor, for a status line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditorStatus {
    pub name: String,
    pub open_files: u64,
}

/// What a session sees of an editor.
pub trait EditorView: Send + Sync {
    /// The files that are open now; `None` while no editor is connected.
    fn files(&self) -> Option<Arc<EditorFiles>>;
}
