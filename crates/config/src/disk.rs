//! Direct access to files on disk, used while no editor is attached.

use std::io;
use std::path::Path;

use pollux_domain::BoxFuture;
use pollux_domain::file_view::FileView;

use crate::files::{self, Mode};

/// The files on disk. A crash leaves the old or the new file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl FileView for Disk {
    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<Vec<u8>>> {
        Box::pin(std::future::ready(std::fs::read(path)))
    }

    fn write<'a>(&'a self, path: &'a Path, bytes: &'a [u8]) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(std::future::ready(files::replace(path, bytes, Mode::Shared).map_err(io::Error::other)))
    }
}
