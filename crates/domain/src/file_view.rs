//! The port to files as the user sees them: an editor may have unsaved text.

use std::io;
use std::path::Path;

use crate::BoxFuture;

/// Reads and writes files. The default is the disk (`config::disk`); an editor that is attached answers from its buffers.
pub trait FileView: Send + Sync {
    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<Vec<u8>>>;

    fn write<'a>(&'a self, path: &'a Path, bytes: &'a [u8]) -> BoxFuture<'a, io::Result<()>>;
}
