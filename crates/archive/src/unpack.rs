//! Unpacks untrusted archives.
//!
//! An archive may fill the disk, name paths outside the folder or contain links that lead there. Sizes are
//! counted while streaming, and nothing that the archive declares is trusted. Links are resolved in memory
//! first and created last; no entry may be below one. After a refusal, the caller removes the folder with what
//! was unpacked so far.
//!
//! [`unpack`] is for what others publish: a packed repository (`.git`) is skipped, and every link must lead to
//! something inside. [`unpack_workspace`] is for what [`crate::pack_workspace`] or another agent packed: it keeps
//! permissions, times, repositories and hard links, and leaves out links that lead outside.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::confined::ConfinedFolder;
use crate::tree::{Node, Tree};

mod name;
mod tarball;
mod zip;

pub(crate) use name::safe_path;

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

impl Limits {
    /// Limits of a workspace. The ratio is open: a build folder may compress well, and the total is limited.
    pub fn workspace() -> Self {
        Self { entries: 200_000, total: 512 * 1024 * 1024, entry: 512 * 1024 * 1024, ratio: u64::MAX }
    }
}

/// An entry that was left out of an archive or a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub path: PathBuf,
    pub why: Refusal,
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
    #[error("is a hard link to a file that is not in the archive before it (`{}`)", .0.escape_debug())]
    HardLinkTarget(String),
    #[error("is not a regular file, a folder or a link")]
    NotAFile,
    #[error("could not be read ({0})")]
    Unreadable(String),
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
    unpack_as(archive, into, limits, Purpose::Install).map(drop)
}

/// Unpacks the tar.gz of a workspace into an existing empty folder; gives the links that lead outside, which are not
/// created.
pub fn unpack_workspace(archive: &Path, into: &Path, limits: &Limits) -> Result<Vec<Skipped>, UnpackError> {
    unpack_as(archive, into, limits, Purpose::Workspace)
}

/// What an archive is unpacked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Install,
    Workspace,
}

/// What an archive says of an entry besides its content.
#[derive(Debug, Clone, Copy)]
struct Attributes {
    mode: u32,
    modified: Option<SystemTime>,
}

fn unpack_as(
    archive: &Path,
    into: &Path,
    limits: &Limits,
    purpose: Purpose,
) -> Result<Vec<Skipped>, UnpackError> {
    let read = |source| UnpackError::Read { path: archive.to_owned(), source };
    let mut file = File::open(archive).map_err(read)?;
    let packed = file.metadata().map_err(read)?.len();
    let mut magic = [0; 2];
    let begins = file.read_exact(&mut magic).is_ok();
    file.seek(SeekFrom::Start(0)).map_err(read)?;
    let folder =
        ConfinedFolder::open(into).map_err(|source| UnpackError::Write { path: into.to_owned(), source })?;
    let case_matters = purpose == Purpose::Workspace && cfg!(target_os = "linux");
    let tree = if case_matters { Tree::with_case() } else { Tree::default() };
    let mut unpacking = Unpacking {
        archive,
        into,
        folder,
        limits,
        purpose,
        packed,
        entries: 0,
        total: 0,
        tree,
        folder_modes: Vec::new(),
    };
    match &magic {
        b"PK" if begins && purpose == Purpose::Install => zip::unpack(file, &mut unpacking)?,
        [0x1f, 0x8b] if begins => tarball::unpack(file, &mut unpacking)?,
        _ => return Err(UnpackError::UnknownFormat { path: archive.to_owned() }),
    }
    let skipped = unpacking.make_links()?;
    unpacking.set_folder_modes()?;
    Ok(skipped)
}

/// The state of unpacking.
struct Unpacking<'a> {
    archive: &'a Path,
    into: &'a Path,
    folder: ConfinedFolder,
    limits: &'a Limits,
    purpose: Purpose,
    /// Bytes of the archive itself.
    packed: u64,
    entries: usize,
    total: u64,
    tree: Tree,
    /// Set at the end: a folder may be read-only.
    folder_modes: Vec<(PathBuf, u32)>,
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
        let is_kept = |path: &PathBuf| self.purpose == Purpose::Workspace || !path.iter().any(is_repository);
        Ok(Some(path).filter(is_kept))
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

    fn folder(&mut self, path: &Path, mode: u32) -> Result<(), UnpackError> {
        self.add(path, Node::Folder)?;
        if self.purpose == Purpose::Workspace && !path.as_os_str().is_empty() {
            self.folder_modes.push((path.to_owned(), mode & 0o777 | 0o700));
        }
        self.folder.create_folder(path).map_err(|source| self.unwritten(path, source))
    }

    /// Writes one file, counting the actual bytes instead of the declared size.
    fn file(&mut self, path: &Path, mut content: impl Read, about: Attributes) -> Result<(), UnpackError> {
        let entry = path.to_string_lossy().into_owned();
        self.add(path, Node::File)?;
        let created = match self.purpose {
            Purpose::Install => self.folder.create_file(path, about.mode & 0o111 != 0),
            Purpose::Workspace => self.folder.create_private_file(path),
        };
        let mut file = created.map_err(|source| self.unwritten(path, source))?;
        let mut buffer = vec![0; BUFFER];
        let mut size = 0;
        loop {
            let count = match content.read(&mut buffer) {
                Ok(0) => break,
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
        if self.purpose == Purpose::Workspace {
            set_attributes(&file, about).map_err(|source| self.unwritten(path, source))?;
        }
        Ok(())
    }

    /// Copies the file that a hard link leads to: it must have come before, and count like any other.
    fn hard_link(&mut self, path: &Path, target: &[u8], about: Attributes) -> Result<(), UnpackError> {
        let shown = String::from_utf8_lossy(target).into_owned();
        let missing = |this: &Self| {
            this.refused(path.to_string_lossy().as_bytes(), Refusal::HardLinkTarget(shown.clone()))
        };
        if self.purpose != Purpose::Workspace {
            return Err(self.refused(path.to_string_lossy().as_bytes(), Refusal::HardLink));
        }
        let place = name::safe_path(target).map_err(|_| missing(self))?;
        if self.tree.get(&place) != Some(&Node::File) {
            return Err(missing(self));
        }
        let file = self.folder.open_file(&place).map_err(|_| missing(self))?;
        self.file(path, file, about)
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
    fn make_links(&self) -> Result<Vec<Skipped>, UnpackError> {
        let mut skipped = Vec::new();
        if self.purpose == Purpose::Install
            && let Some((path, target)) = self.tree.stray_link_of_archive()
        {
            return Err(self.refused(path.to_string_lossy().as_bytes(), Refusal::Link(target.to_owned())));
        }
        for (path, target) in self.tree.links() {
            if self.purpose == Purpose::Workspace && self.tree.is_leaving(path, target) {
                skipped.push(Skipped { path: path.to_owned(), why: Refusal::Link(target.to_owned()) });
                continue;
            }
            self.folder.create_link(path, target).map_err(|source| self.unwritten(path, source))?;
        }
        Ok(skipped)
    }

    fn set_folder_modes(&self) -> Result<(), UnpackError> {
        for (path, mode) in self.folder_modes.iter().rev() {
            let set = self.folder.set_folder_mode(path, *mode);
            set.map_err(|source| self.unwritten(path, source))?;
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

/// Permissions without what lends rights, and the time of the last change.
fn set_attributes(file: &File, about: Attributes) -> io::Result<()> {
    if let Some(time) = about.modified {
        // A file system without such times is no reason to lose the content.
        let _ = file.set_modified(time);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        file.set_permissions(std::fs::Permissions::from_mode(about.mode & 0o777))?;
    }
    Ok(())
}

/// Whether a name is that of a git repository's own folder, as a disk that ignores case would find it.
pub fn is_repository(name: &std::ffi::OsStr) -> bool {
    name.eq_ignore_ascii_case(".git")
}

#[cfg(test)]
mod tests;
