//! Unpacks untrusted archives.
//!
//! An archive may fill the disk, name paths outside the folder or contain links that lead there. Sizes are
//! counted while streaming, and nothing that the archive declares is trusted. Links are resolved in memory
//! first and created last; no entry may be below one. After a refusal, the caller removes the folder with what
//! was unpacked so far. A packed repository (`.git`) is skipped.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use crate::confined::ConfinedFolder;
use crate::tree::{Node, Tree};

mod name;
mod tarball;
mod zip;

/// Archives smaller than this may be packed as tightly as they like.
const RATIO_FLOOR: u64 = 1024 * 1024;
const BUFFER: usize = 64 * 1024;

/// Limits of an archive.
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
    #[error("`{}`: unsupported archive format (expected zip or tar.gz)", path.display())]
    UnknownFormat { path: PathBuf },
    #[error("the archive `{}` is damaged: {message}", path.display())]
    Damaged { path: PathBuf, message: String },
    #[error("refused the archive `{}`: its entry `{}` {why}", path.display(), entry.escape_debug())]
    Refused { path: PathBuf, entry: String, why: Refusal },
    #[error("could not write `{}`: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Why an entry of an archive, or a file to copy, is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("points outside the folder (`..`)")]
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
    #[error("is a link that points outside the folder or to a missing file (`{}`)", .0.escape_debug())]
    Link(String),
    #[error("is inside `{}`, which is not a folder", .0.escape_debug())]
    Below(String),
    #[error("is nested deeper than {0} folders")]
    TooDeep(usize),
    #[error("is a hard link (only files, folders and symbolic links are supported)")]
    HardLink,
    #[error("is not a regular file, a folder or a link")]
    NotAFile,
    #[error("is encrypted")]
    Encrypted,
    #[error("uses an unsupported compression method (only stored and deflated files are supported)")]
    Method,
    #[error("occurs twice")]
    Twice,
    #[error("exceeds the limit of {0} files and folders")]
    TooMany(usize),
    #[error("is larger than {} MiB", .0 >> 20)]
    EntryTooLarge(u64),
    #[error("exceeds the total size limit of {} MiB", .0 >> 20)]
    TotalTooLarge(u64),
    #[error("unpacks to more than {0} times the size of the archive")]
    Ratio(u64),
}

/// Unpacks a zip or tar.gz file, distinguished by their first bytes, into an existing empty folder.
pub fn unpack(archive: &Path, into: &Path, limits: &Limits) -> Result<(), UnpackError> {
    let read = |source| UnpackError::Read { path: archive.to_owned(), source };
    let mut file = File::open(archive).map_err(read)?;
    let packed = file.metadata().map_err(read)?.len();
    let mut magic = [0; 2];
    let begins = file.read_exact(&mut magic).is_ok();
    file.seek(SeekFrom::Start(0)).map_err(read)?;
    let folder =
        ConfinedFolder::open(into).map_err(|source| UnpackError::Write { path: into.to_owned(), source })?;
    let tree = Tree::default();
    let mut unpacking = Unpacking { archive, into, folder, limits, packed, entries: 0, total: 0, tree };
    match &magic {
        b"PK" if begins => zip::unpack(file, &mut unpacking)?,
        [0x1f, 0x8b] if begins => tarball::unpack(file, &mut unpacking)?,
        _ => return Err(UnpackError::UnknownFormat { path: archive.to_owned() }),
    }
    unpacking.make_links()
}

/// The state of unpacking.
struct Unpacking<'a> {
    archive: &'a Path,
    into: &'a Path,
    folder: ConfinedFolder,
    limits: &'a Limits,
    /// Bytes of the archive itself.
    packed: u64,
    entries: usize,
    total: u64,
    tree: Tree,
}

impl Unpacking<'_> {
    /// Counts an entry and returns its path relative to the folder: empty for the folder itself, `None` for a
    /// skipped entry.
    fn admit(&mut self, entry: &[u8]) -> Result<Option<PathBuf>, UnpackError> {
        self.entries += 1;
        if self.entries > self.limits.entries {
            return Err(self.refused(entry, Refusal::TooMany(self.limits.entries)));
        }
        let path = name::safe_path(entry).map_err(|why| self.refused(entry, why))?;
        Ok(Some(path).filter(|path| !path.iter().any(is_repository)))
    }

    /// Notes an entry; nothing that the tree refuses gets as far as the disk.
    fn add(&mut self, path: &Path, node: Node) -> Result<(), UnpackError> {
        let refused = |this: &Self, why| this.refused(path.to_string_lossy().as_bytes(), why);
        self.tree.add(path, node).map_err(|why| refused(self, why))?;
        if self.tree.len() > self.limits.entries {
            return Err(refused(self, Refusal::TooMany(self.limits.entries)));
        }
        Ok(())
    }

    fn folder(&mut self, path: &Path) -> Result<(), UnpackError> {
        self.add(path, Node::Folder)?;
        self.folder.create_folder(path).map_err(|source| self.unwritten(path, source))
    }

    /// Writes one file, counting the actual bytes instead of the declared size.
    fn file(&mut self, path: &Path, mut content: impl Read, executable: bool) -> Result<(), UnpackError> {
        let entry = path.to_string_lossy().into_owned();
        self.add(path, Node::File)?;
        let mut file =
            self.folder.create_file(path, executable).map_err(|source| self.unwritten(path, source))?;
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
            written.map_err(|source| self.unwritten(path, source))?;
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

    fn link(&mut self, path: &Path, target: String) -> Result<(), UnpackError> {
        if target.chars().any(char::is_control) {
            return Err(self.refused(path.to_string_lossy().as_bytes(), Refusal::Link(target)));
        }
        self.add(path, Node::Link(target))
    }

    /// Creates the links after everything else is written, and only if each of them stays inside, through all
    /// others.
    fn make_links(&self) -> Result<(), UnpackError> {
        if let Some((path, target)) = self.tree.stray_link_of_archive() {
            return Err(self.refused(path.to_string_lossy().as_bytes(), Refusal::Link(target.to_owned())));
        }
        for (path, target) in self.tree.links() {
            self.folder.create_link(path, target).map_err(|source| self.unwritten(path, source))?;
        }
        Ok(())
    }

    fn unwritten(&self, path: &Path, source: io::Error) -> UnpackError {
        match source.kind() {
            // Two names that are one on this disk.
            io::ErrorKind::AlreadyExists => self.refused(path.to_string_lossy().as_bytes(), Refusal::Twice),
            _ => UnpackError::Write { path: self.into.join(path), source },
        }
    }

    fn refused(&self, entry: &[u8], why: Refusal) -> UnpackError {
        let entry = String::from_utf8_lossy(entry).chars().take(200).collect();
        UnpackError::Refused { path: self.archive.to_owned(), entry, why }
    }

    fn damaged(&self, message: String) -> UnpackError {
        UnpackError::Damaged { path: self.archive.to_owned(), message }
    }
}

/// Whether a name is that of a git repository's own folder, as a disk that ignores case would find it.
pub(crate) fn is_repository(name: &std::ffi::OsStr) -> bool {
    name.eq_ignore_ascii_case(".git")
}

#[cfg(test)]
mod tests;
