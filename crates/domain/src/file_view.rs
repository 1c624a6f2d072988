//! The port to files as the user sees them: an editor may have unsaved text.

use std::path::Path;

/// The files of an editor that is attached. Both methods wait for it, so they are called on threads that may wait. Without
/// an answer the disk is used.
pub trait FileView: Send + Sync {
    /// The text of a file, with what is not saved yet.
    fn read(&self, path: &Path) -> Option<String>;

    /// Writes a file, and its buffer if it is open; whether that was done.
    fn write(&self, path: &Path, text: &str) -> bool;
}
