//! Unpacking archives that strangers made.
//!
//! An archive may fill the disk, name places outside of the folder or hide links that lead there. Everything is
//! counted while it streams, nothing is believed that the archive says of itself, and links are made last, when
//! nothing is written any more that could go through them. What was unpacked before a refusal stays for the
//! caller to remove with its folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

mod name;
mod tarball;
mod zip;

/// Archives smaller than this may be packed as tightly as they like.
const RATIO_FLOOR: u64 = 1024 * 1024;
const BUFFER: usize = 64 * 1024;

/// How much an archive may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Files, folders and links together.
    pub entries: usize,
    /// Bytes of all files.
    pub total: u64,
    /// Bytes of one file.
    pub entry: u64,
    /// How many times larger than the archive its content may be.
    pub ratio: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { entries: 10_000, total: 256 * 1024 * 1024, entry: 64 * 1024 * 1024, ratio: 200 }
    }
}

/// Why an archive was not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    #[error("could not read the archive `{}`: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("`{}` is no archive that can be unpacked: it is neither zip nor tar.gz", path.display())]
    UnknownFormat { path: PathBuf },
    #[error("the archive `{}` is damaged: {message}", path.display())]
    Damaged { path: PathBuf, message: String },
    #[error("the archive `{}` is refused: its entry `{}` {why}", path.display(), entry.escape_debug())]
    Refused { path: PathBuf, entry: String, why: Refusal },
    #[error("could not write `{}`: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// What is wrong with an entry of an archive, or with a file that is to be copied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("leads out of the folder (`..`)")]
    Traversal,
    #[error("has an absolute path")]
    Absolute,
    #[error("has control characters in its name")]
    ControlCharacters,
    #[error("has a name that is not UTF-8")]
    NotUtf8,
    #[error("has a backslash in its name")]
    Backslash,
    #[error("has no name or one that is too long")]
    Length,
    #[error("is a link that leads out of the folder or nowhere (to `{}`)", .0.escape_debug())]
    Link(String),
    #[error("is a hard link; only files, folders and symbolic links are taken")]
    HardLink,
    #[error("is a device, a pipe or something else that is no file")]
    NotAFile,
    #[error("is encrypted")]
    Encrypted,
    #[error("is packed by a method that is not known (only stored and deflated files are)")]
    Method,
    #[error("is there twice")]
    Twice,
    #[error("is one too many: at most {0} files and folders are taken")]
    TooMany(usize),
    #[error("is larger than {} MiB", .0 >> 20)]
    EntryTooLarge(u64),
    #[error("takes the whole beyond {} MiB", .0 >> 20)]
    TotalTooLarge(u64),
    #[error("unpacks to more than {0} times the size of the archive")]
    Ratio(u64),
}

/// Unpacks a zip or tar.gz file, told apart by their first bytes, into a folder that is there and empty.
pub fn unpack(archive: &Path, into: &Path, limits: &Limits) -> Result<(), UnpackError> {
    let read = |source| UnpackError::Read { path: archive.to_owned(), source };
    let mut file = File::open(archive).map_err(read)?;
    let packed = file.metadata().map_err(read)?.len();
    let mut magic = [0; 2];
    let begins = file.read_exact(&mut magic).is_ok();
    file.seek(SeekFrom::Start(0)).map_err(read)?;
    let mut unpacking = Unpacking { archive, into, limits, packed, entries: 0, total: 0, links: Vec::new() };
    match &magic {
        b"PK" if begins => zip::unpack(file, &mut unpacking)?,
        [0x1f, 0x8b] if begins => tarball::unpack(file, &mut unpacking)?,
        _ => return Err(UnpackError::UnknownFormat { path: archive.to_owned() }),
    }
    unpacking.make_links()
}

/// What has been taken so far.
struct Unpacking<'a> {
    archive: &'a Path,
    into: &'a Path,
    limits: &'a Limits,
    /// Bytes of the archive itself.
    packed: u64,
    entries: usize,
    total: u64,
    /// Links with what they point to; made when everything else is written.
    links: Vec<(PathBuf, String)>,
}

impl Unpacking<'_> {
    /// Counts one more entry and gives the path that it names, relative to the folder; empty for the folder itself.
    fn admit(&mut self, entry: &[u8]) -> Result<PathBuf, UnpackError> {
        self.entries += 1;
        if self.entries > self.limits.entries {
            return Err(self.refused(entry, Refusal::TooMany(self.limits.entries)));
        }
        name::safe_path(entry).map_err(|why| self.refused(entry, why))
    }

    fn folder(&self, path: &Path) -> Result<(), UnpackError> {
        let place = self.into.join(path);
        fs::create_dir_all(&place).map_err(|source| UnpackError::Write { path: place, source })
    }

    /// Writes one file, counting what comes rather than what was announced.
    fn file(&mut self, path: &Path, mut content: impl Read, executable: bool) -> Result<(), UnpackError> {
        let entry = path.to_string_lossy().into_owned();
        if path.as_os_str().is_empty() {
            return Err(self.refused(b"", Refusal::Length));
        }
        if let Some(parent) = path.parent() {
            self.folder(parent)?;
        }
        let place = self.into.join(path);
        let mut file = create(&place, executable).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => self.refused(entry.as_bytes(), Refusal::Twice),
            _ => UnpackError::Write { path: place.clone(), source },
        })?;
        let mut buffer = vec![0; BUFFER];
        let mut size = 0;
        loop {
            let count = match content.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(self.damaged(format!("its entry `{}`: {error}", entry.escape_debug())));
                }
            };
            size += count as u64;
            self.total += count as u64;
            if let Some(why) = self.excess(size) {
                return Err(self.refused(entry.as_bytes(), why));
            }
            let written = file.write_all(buffer.get(..count).unwrap_or_default());
            written.map_err(|source| UnpackError::Write { path: place.clone(), source })?;
        }
    }

    fn excess(&self, size: u64) -> Option<Refusal> {
        if size > self.limits.entry {
            return Some(Refusal::EntryTooLarge(self.limits.entry));
        }
        if self.total > self.limits.total {
            return Some(Refusal::TotalTooLarge(self.limits.total));
        }
        let tight = self.total > RATIO_FLOOR && self.total / self.limits.ratio.max(1) > self.packed;
        tight.then_some(Refusal::Ratio(self.limits.ratio))
    }

    fn link(&mut self, path: PathBuf, target: String) -> Result<(), UnpackError> {
        if path.as_os_str().is_empty() || !name::stays_inside(&path, Path::new(&target)) {
            return Err(self.refused(path.to_string_lossy().as_bytes(), Refusal::Link(target)));
        }
        self.links.push((path, target));
        Ok(())
    }

    /// Makes the links and follows each: several together may still lead out where each alone does not.
    fn make_links(&self) -> Result<(), UnpackError> {
        let write = |path: &Path, source| UnpackError::Write { path: path.to_owned(), source };
        for (path, target) in &self.links {
            if let Some(parent) = path.parent() {
                self.folder(parent)?;
            }
            let place = self.into.join(path);
            make_link(target, &place).map_err(|source| match source.kind() {
                io::ErrorKind::AlreadyExists => {
                    self.refused(path.to_string_lossy().as_bytes(), Refusal::Twice)
                }
                _ => write(&place, source),
            })?;
        }
        let root = self.into.canonicalize().map_err(|source| write(self.into, source))?;
        for (path, target) in &self.links {
            let inside = self.into.join(path).canonicalize().is_ok_and(|place| place.starts_with(&root));
            if !inside {
                return Err(self.refused(path.to_string_lossy().as_bytes(), Refusal::Link(target.clone())));
            }
        }
        Ok(())
    }

    fn refused(&self, entry: &[u8], why: Refusal) -> UnpackError {
        let entry = String::from_utf8_lossy(entry).chars().take(200).collect();
        UnpackError::Refused { path: self.archive.to_owned(), entry, why }
    }

    fn damaged(&self, message: String) -> UnpackError {
        UnpackError::Damaged { path: self.archive.to_owned(), message }
    }
}

/// A new file; what was there already stays as it is.
pub(crate) fn create(place: &Path, executable: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(if executable { 0o755 } else { 0o644 });
    }
    #[cfg(not(unix))]
    let _ = executable;
    options.open(place)
}

#[cfg(unix)]
pub(crate) fn make_link(target: impl AsRef<Path>, place: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, place)
}

#[cfg(windows)]
pub(crate) fn make_link(target: impl AsRef<Path>, place: &Path) -> io::Result<()> {
    let target = target.as_ref();
    let full = place.parent().map_or_else(|| target.to_owned(), |folder| folder.join(target));
    if full.is_dir() {
        std::os::windows::fs::symlink_dir(target, place)
    } else {
        std::os::windows::fs::symlink_file(target, place)
    }
}

pub(crate) use name::stays_inside;

#[cfg(test)]
mod tests;
