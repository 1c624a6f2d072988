//! The port to files as the person sees them: an editor may hold text that is not on disk yet.

use std::io;
use std::path::Path;

use crate::BoxFuture;

/// Reads and writes text files. The default is the disk; an editor that is attached answers from its buffers.
pub trait FileView: Send + Sync {
    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<Vec<u8>>>;

    fn write<'a>(&'a self, path: &'a Path, bytes: &'a [u8]) -> BoxFuture<'a, io::Result<()>>;
}

/// The files on disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl FileView for Disk {
    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<Vec<u8>>> {
        Box::pin(std::future::ready(std::fs::read(path)))
    }

    fn write<'a>(&'a self, path: &'a Path, bytes: &'a [u8]) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(std::future::ready(std::fs::write(path, bytes)))
    }
}
