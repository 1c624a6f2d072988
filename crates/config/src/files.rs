//! Reading and replacing small files so that a crash leaves the old content or the new one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

mod lock;
mod output;

pub use lock::{FileLock, LockError};
pub use output::{open_append, write_output};

/// Maximum size of state and settings files.
const MAX_BYTES: u64 = 16 * MIB;

/// Maximum size of sessions and of other files that hold conversations: reading one takes several times its size in
/// memory.
pub const MAX_SESSION_BYTES: u64 = 1024 * MIB;

const MIB: u64 = 1024 * 1024;

/// More links than this in a row are a loop.
const MAX_LINKS: usize = 40;

/// Who may read a file that did not exist before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Only the user (0600); missing folders are 0700.
    Private,
    /// According to the user's umask.
    Shared,
}

/// Why a file could not be read or replaced.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("could not read `{}`: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("`{}` is not valid UTF-8", path.display())]
    NotUtf8 { path: PathBuf },
    #[error("`{}` is larger than {} MiB", path.display(), limit / MIB)]
    TooLarge { path: PathBuf, limit: u64 },
    #[error("could not create the folder `{}`: {source}", path.display())]
    CreateFolder { path: PathBuf, source: io::Error },
    #[error("could not write `{}`: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("`{}` is a symbolic link to itself", path.display())]
    LinkLoop { path: PathBuf },
}

impl FileError {
    /// The file or folder that it is about.
    pub fn path(&self) -> &Path {
        match self {
            Self::Read { path, .. }
            | Self::NotUtf8 { path }
            | Self::TooLarge { path, .. }
            | Self::CreateFolder { path, .. }
            | Self::Write { path, .. }
            | Self::LinkLoop { path } => path,
        }
    }

    /// What the system said.
    pub fn into_source(self) -> io::Error {
        match self {
            Self::Read { source, .. } | Self::CreateFolder { source, .. } | Self::Write { source, .. } => {
                source
            }
            other @ (Self::NotUtf8 { .. } | Self::TooLarge { .. } | Self::LinkLoop { .. }) => {
                io::Error::other(other)
            }
        }
    }

    /// Whether the place simply cannot be written to (read-only, no permission).
    pub fn is_read_only(&self) -> bool {
        match self {
            Self::CreateFolder { source, .. } | Self::Write { source, .. } => read_only_kind(source),
            Self::Read { .. } | Self::NotUtf8 { .. } | Self::TooLarge { .. } | Self::LinkLoop { .. } => false,
        }
    }
}

pub(crate) fn read_only_kind(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// The text of a file, or `None` if there is none.
pub fn read_text(path: &Path) -> Result<Option<String>, FileError> {
    read_text_up_to(path, MAX_BYTES)
}

/// As [`read_text`], with another limit.
pub fn read_text_up_to(path: &Path, limit: u64) -> Result<Option<String>, FileError> {
    let read = |source| FileError::Read { path: path.to_owned(), source };
    let is_missing = |error: &io::Error| {
        // `a/b` where `a` is a file: there is no such file either.
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    };
    // Opening a pipe would wait for a writer that may never come.
    let too_large = || FileError::TooLarge { path: path.to_owned(), limit };
    match fs::metadata(path) {
        Ok(meta) if meta.is_file() && meta.len() > limit => return Err(too_large()),
        Ok(meta) if meta.is_file() || meta.is_dir() => {}
        Ok(_) => return Err(read(io::Error::other("not a regular file"))),
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(read(error)),
    }
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(read(error)),
    };
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(read)?;
    if bytes.len() as u64 > limit {
        return Err(too_large());
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(FileError::NotUtf8 { path: path.to_owned() }),
    }
}

/// Replaces a file's content in one step; a reader sees all of the old or all of the new.
///
/// An existing file keeps its mode, a link keeps leading where it led, and missing folders are created. A pipe or device
/// is an error; for output that the user named, there is [`write_output`].
pub fn replace(path: &Path, bytes: &[u8], mode: Mode) -> Result<(), FileError> {
    replace_with(path, mode, |file| file.write_all(bytes))
}

/// The same for content that is written piece by piece; if `fill` fails the old content stays.
pub fn replace_with(
    path: &Path,
    mode: Mode,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), FileError> {
    replace_if(path, mode, fill, || Ok(()))
}

/// As [`replace_with`], with a last check when the new content is on the disk; if it fails, the old content stays.
pub(crate) fn replace_if(
    path: &Path,
    mode: Mode,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
    check: impl FnOnce() -> io::Result<()>,
) -> Result<(), FileError> {
    if let Some(refused) = output::not_replaceable(path) {
        return Err(refused);
    }
    let target = follow(path)?;
    let write = |source| FileError::Write { path: path.to_owned(), source };
    let Some(folder) = target.parent() else {
        return Err(write(io::Error::from(io::ErrorKind::IsADirectory)));
    };
    create_folder(folder, mode)?;
    let old = fs::metadata(&target).ok();
    let mut temp = temp_file(&target, folder, mode).map_err(write)?;
    fill(temp.as_file_mut()).map_err(write)?;
    if let Some(old) = old {
        temp.as_file().set_permissions(old.permissions()).map_err(write)?;
    }
    temp.as_file().sync_all().map_err(write)?;
    check().map_err(write)?;
    if let Err(refused) = temp.persist(&target) {
        match refused.error.kind() {
            io::ErrorKind::ResourceBusy => write_in_place(&target, refused.file.as_file()).map_err(write)?,
            _ => return Err(write(refused.error)),
        }
    }
    // The new content is in place, so this must not look as if the old one were.
    let _ = sync_folder(folder);
    Ok(())
}

/// Writes over a file that nothing can replace, because it is a mount point of its own, as single files in containers are.
/// A failed write puts the old content back; after a crash, the new one is in the temporary file.
fn write_in_place(target: &Path, new: &File) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(target)?;
    let mut old = Vec::new();
    file.read_to_end(&mut old)?;
    overwrite(&mut file, new).inspect_err(|_| {
        let _ =
            file.rewind().and_then(|()| file.write_all(&old)).and_then(|()| file.set_len(old.len() as u64));
    })
}

fn overwrite(file: &mut File, mut new: &File) -> io::Result<()> {
    new.rewind()?;
    file.rewind()?;
    let length = io::copy(&mut new, file)?;
    file.set_len(length)?;
    file.sync_all()
}

/// Creates a folder and those above it; new ones are the user's alone when `mode` is private. They survive a power
/// failure.
pub fn create_folder(path: &Path, mode: Mode) -> Result<(), FileError> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let missing = path.ancestors().take_while(|folder| !folder.exists());
    let above: Vec<&Path> = missing.filter_map(Path::parent).collect();
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    if mode == Mode::Private {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    #[cfg(not(unix))]
    let _ = mode;
    builder.create(path).map_err(|source| FileError::CreateFolder { path: path.to_owned(), source })?;
    for folder in above {
        let _ = sync_folder(folder);
    }
    Ok(())
}

/// The place that a path leads to through links, which need not exist yet.
pub fn follow(path: &Path) -> Result<PathBuf, FileError> {
    let mut target = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&target) {
            Ok(next) if next.is_absolute() => target = next,
            Ok(next) => target = target.parent().map_or(next.clone(), |folder| folder.join(next)),
            Err(_) => return Ok(target),
        }
    }
    Err(FileError::LinkLoop { path: path.to_owned() })
}

fn temp_file(target: &Path, folder: &Path, mode: Mode) -> io::Result<tempfile::NamedTempFile> {
    let name = target.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let prefix = format!(".{name}.");
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(".tmp");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(match mode {
            Mode::Private => 0o600,
            Mode::Shared => 0o666,
        }));
    }
    #[cfg(not(unix))]
    let _ = mode;
    builder.tempfile_in(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
}

/// Syncs a file's content, as is needed before it replaces another file. File systems that cannot are tolerated.
pub fn sync(file: &File) -> io::Result<()> {
    match file.sync_data() {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        synced => synced,
    }
}

/// Syncs a folder: a new name in it survives a power failure only then. File systems that cannot, and folders that the
/// user may not list, are tolerated.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let folder = match File::open(folder) {
            Err(error) if error.kind() == PermissionDenied => return Ok(()),
            opened => opened?,
        };
        match folder.sync_all() {
            Err(error) if matches!(error.kind(), InvalidInput | Unsupported) => Ok(()),
            synced => synced,
        }
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
