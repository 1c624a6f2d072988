//! Copying a folder without leaving it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::archive::{Limits, Refusal, create, make_link, stays_inside};

/// Folders below folders; nobody nests deeper by hand.
const MAX_DEPTH: usize = 64;

/// What belongs to the way a folder came here and not to it.
const LEFT_OUT: &str = ".git";

/// Why a folder was not copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("could not read `{}`: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("could not write `{}`: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("`{}` is refused: it {why}", path.display())]
    Refused { path: PathBuf, why: Refusal },
    #[error("`{}` is nested too deeply", path.display())]
    TooDeep { path: PathBuf },
}

/// Copies files, folders and the links that stay inside; gives how many. The user may write what is copied.
/// `.git` is left out.
pub fn copy_folder(from: &Path, to: &Path, limits: &Limits) -> Result<usize, CopyError> {
    let root = from.canonicalize().map_err(|source| CopyError::Read { path: from.to_owned(), source })?;
    let mut copy = Copy { root: &root, to, limits, entries: 0, total: 0 };
    copy.folder(Path::new(""), 0)?;
    Ok(copy.entries)
}

struct Copy<'a> {
    root: &'a Path,
    to: &'a Path,
    limits: &'a Limits,
    entries: usize,
    total: u64,
}

impl Copy<'_> {
    fn folder(&mut self, path: &Path, depth: usize) -> Result<(), CopyError> {
        let (from, to) = (self.root.join(path), self.to.join(path));
        if depth > MAX_DEPTH {
            return Err(CopyError::TooDeep { path: from });
        }
        let read = |source| CopyError::Read { path: from.clone(), source };
        fs::create_dir_all(&to).map_err(|source| CopyError::Write { path: to, source })?;
        for entry in fs::read_dir(&from).map_err(read)? {
            let entry = entry.map_err(read)?;
            if entry.file_name() == LEFT_OUT {
                continue;
            }
            self.entries += 1;
            if self.entries > self.limits.entries {
                return Err(refused(&entry.path(), Refusal::TooMany(self.limits.entries)));
            }
            let child = path.join(entry.file_name());
            let kind = entry.file_type().map_err(read)?;
            if kind.is_dir() {
                self.folder(&child, depth + 1)?;
            } else if kind.is_symlink() {
                self.link(&child)?;
            } else if kind.is_file() {
                self.file(&child)?;
            } else {
                return Err(refused(&entry.path(), Refusal::NotAFile));
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Result<(), CopyError> {
        let (from, to) = (self.root.join(path), self.to.join(path));
        let read = |source| CopyError::Read { path: from.clone(), source };
        let mut file = File::open(&from).map_err(read)?;
        let meta = file.metadata().map_err(read)?;
        self.total += meta.len();
        if meta.len() > self.limits.entry {
            return Err(refused(&from, Refusal::EntryTooLarge(self.limits.entry)));
        }
        if self.total > self.limits.total {
            return Err(refused(&from, Refusal::TotalTooLarge(self.limits.total)));
        }
        let written = create(&to, is_executable(&meta)).and_then(|mut to| io::copy(&mut file, &mut to));
        written.map(drop).map_err(|source| CopyError::Write { path: to, source })
    }

    fn link(&self, path: &Path) -> Result<(), CopyError> {
        let (from, to) = (self.root.join(path), self.to.join(path));
        let target = fs::read_link(&from).map_err(|source| CopyError::Read { path: from.clone(), source })?;
        // Followed too: the words stay inside where another link on the way may not.
        let inside = stays_inside(path, &target)
            && from.canonicalize().is_ok_and(|place| place.starts_with(self.root));
        if !inside {
            return Err(refused(&from, Refusal::Link(target.to_string_lossy().into_owned())));
        }
        make_link(&target, &to).map_err(|source| CopyError::Write { path: to, source })
    }
}

fn refused(path: &Path, why: Refusal) -> CopyError {
    CopyError::Refused { path: path.to_owned(), why }
}

#[cfg(unix)]
fn is_executable(meta: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    meta.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(_meta: &fs::Metadata) -> bool {
    false
}
