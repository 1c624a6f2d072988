//! Opens a file for reading.

use std::ffi::OsStr;
use std::fs::{File, FileType, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_domain::file_view::FileView;

use super::beneath::{Folder, Missing, Purpose, Status};
use super::{Location, PathRefusal, Workspace};

/// A file that cannot be opened for reading.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error(transparent)]
    Refused(PathRefusal),
    #[error("file does not exist")]
    Missing,
    #[error("it is a directory")]
    IsDirectory,
    #[error("it is a {0}, not a regular file")]
    Special(&'static str),
    #[error("{0}")]
    Io(#[source] io::Error),
}

/// A regular file that is open.
pub(crate) struct Opened {
    pub(crate) file: File,
    pub(crate) metadata: Metadata,
    /// The editor that may have newer text of it.
    view: Option<(Arc<dyn FileView>, PathBuf)>,
}

impl Opened {
    /// Everything up to `limit` bytes; the file may have grown since its size was looked up.
    pub(crate) fn read(self, limit: u64) -> io::Result<Vec<u8>> {
        let size = self.metadata.len().min(limit);
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default().saturating_add(1));
        self.file.take(limit).read_to_end(&mut bytes)?;
        let newer = self.view.and_then(|(view, path)| newer_text(&*view, &path, &bytes, limit));
        Ok(newer.unwrap_or(bytes))
    }
}

impl Workspace {
    /// Opens a regular file; tests the path again before that.
    pub(crate) fn open_file(&self, location: &Location) -> Result<Opened, OpenError> {
        let location = self.admit_again(location).map_err(OpenError::Refused)?;
        let mut opened = open_beneath(&location).map_err(|error| self.explain(&location, error))?;
        opened.view = self.view_of(&location).map(|view| (Arc::clone(view), location.path().to_path_buf()));
        Ok(opened)
    }

    /// Opens a regular file by a real path that a walk found.
    pub(crate) fn open_found(&self, path: &Path) -> Result<Opened, OpenError> {
        let location = self.found(path).ok_or_else(|| OpenError::Refused(self.outside(path)))?;
        open_beneath(&location)
    }

    /// Opens a directory by its real path.
    pub(crate) fn open_folder(&self, path: &Path) -> io::Result<Folder> {
        let base = self.found(path).ok_or(io::ErrorKind::PermissionDenied)?.base;
        let below = path.strip_prefix(&base).unwrap_or(Path::new(""));
        Folder::open(&base, below, Missing::Fail)
    }

    /// The status of a location; a link created after it was resolved is not followed.
    pub(crate) fn status(&self, location: &Location) -> io::Result<Status> {
        let path = location.path();
        let below = path.strip_prefix(&location.base).unwrap_or(Path::new(""));
        match (below.parent(), below.file_name()) {
            (Some(parent), Some(name)) => Folder::open(&location.base, parent, Missing::Fail)?.status(name),
            _ => Folder::open(&location.base, below, Missing::Fail)?.status(OsStr::new(".")),
        }
    }

    fn explain(&self, location: &Location, error: OpenError) -> OpenError {
        match error {
            // A link appeared after the path was resolved.
            OpenError::Io(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                OpenError::Refused(self.outside(location.path()))
            }
            other => other,
        }
    }
}

/// What an editor has instead of these bytes. Only files that are text on disk are asked about, and line ends alone are no
/// difference: editors keep them apart from the text.
fn newer_text(view: &dyn FileView, path: &Path, bytes: &[u8], limit: u64) -> Option<Vec<u8>> {
    let on_disk = std::str::from_utf8(bytes).ok()?;
    if on_disk.contains('\0') || on_disk.starts_with('\u{feff}') {
        return None;
    }
    let text = view.read(path).filter(|text| text.len() as u64 <= limit)?;
    let ends = |text: &str| text.replace("\r\n", "\n");
    (ends(&text) != ends(on_disk)).then(|| text.into_bytes())
}

fn open_beneath(location: &Location) -> Result<Opened, OpenError> {
    let below = location.path().strip_prefix(&location.base).unwrap_or(Path::new(""));
    let (Some(parent), Some(name)) = (below.parent(), below.file_name()) else {
        return Err(OpenError::IsDirectory);
    };
    let folder = Folder::open(&location.base, parent, Missing::Fail).map_err(from_io)?;
    let file = folder.file(name, Purpose::Read).map_err(from_io)?;
    let metadata = file.metadata().map_err(OpenError::Io)?;
    let kind = metadata.file_type();
    if kind.is_dir() {
        return Err(OpenError::IsDirectory);
    }
    if !kind.is_file() {
        return Err(OpenError::Special(special_name(kind)));
    }
    Ok(Opened { file, metadata, view: None })
}

fn from_io(error: io::Error) -> OpenError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => OpenError::Missing,
        // Opening a socket.
        _ if error.raw_os_error() == Some(libc::ENXIO) => OpenError::Special("socket or device"),
        _ => OpenError::Io(error),
    }
}

/// The name of a file kind that is neither regular nor a directory.
pub(super) fn special_name(kind: FileType) -> &'static str {
    if kind.is_fifo() {
        "named pipe"
    } else if kind.is_socket() {
        "socket"
    } else if kind.is_char_device() || kind.is_block_device() {
        "device"
    } else if kind.is_symlink() {
        "symbolic link"
    } else {
        "special file"
    }
}
