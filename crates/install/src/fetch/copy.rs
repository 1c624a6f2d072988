//! Inspects and copies an untrusted folder without leaving it.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use pollux_archive::{ConfinedFolder, Limits, Node, Refusal, Tree, is_repository};

/// Why a folder was not copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("could not read `{}`: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("could not write `{}`: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("refused `{}`: it {why}", path.display())]
    Refused { path: PathBuf, why: Refusal },
}

/// Checks whether a folder can be copied: its links stay inside, and it contains only files, folders and links
/// within the limits. Only the top-level `.git` is skipped.
pub fn check_folder(folder: &Path, limits: &Limits) -> Result<(), CopyError> {
    survey(&real(folder)?, limits, |path| path == Path::new(".git")).map(drop)
}

/// Copies files, folders and the links that stay inside; returns their number. The copies are writable by the
/// user. `.git` is skipped. Nothing is written before everything was checked.
pub fn copy_folder(from: &Path, to: &Path, limits: &Limits) -> Result<usize, CopyError> {
    let from = real(from)?;
    let tree = survey(&from, limits, |path| path.file_name().is_some_and(is_repository))?;
    let unwritten = |path: &Path, source| CopyError::Write { path: to.join(path), source };
    fs::create_dir_all(to).map_err(|source| unwritten(Path::new(""), source))?;
    let folder = ConfinedFolder::open(to).map_err(|source| unwritten(Path::new(""), source))?;
    let source = ConfinedFolder::open(&from).map_err(|error| unread(&from, error))?;
    let mut total = 0;
    for (path, node) in tree.iter() {
        match node {
            Node::Folder => folder.create_folder(path).map_err(|source| unwritten(path, source))?,
            Node::File => {
                let file = source.open_file(path).map_err(|error| unread(&from.join(path), error))?;
                total += copy_file(file, &from.join(path), path, &folder, limits, total)?;
            }
            Node::Link(_) => {}
        }
    }
    for (path, target) in tree.links() {
        folder.create_link(path, target).map_err(|source| unwritten(path, source))?;
    }
    Ok(tree.len())
}

/// Everything in a folder, once it is known that nothing in it is refused.
fn survey(root: &Path, limits: &Limits, left_out: fn(&Path) -> bool) -> Result<Tree, CopyError> {
    let mut survey = Survey { root, limits, left_out, tree: Tree::default(), total: 0 };
    survey.folder(Path::new(""))?;
    if let Some((path, target)) = survey.tree.stray_link() {
        return Err(refused(&root.join(path), Refusal::Link(target.to_owned())));
    }
    Ok(survey.tree)
}

struct Survey<'a> {
    root: &'a Path,
    limits: &'a Limits,
    left_out: fn(&Path) -> bool,
    tree: Tree,
    total: u64,
}

impl Survey<'_> {
    fn folder(&mut self, path: &Path) -> Result<(), CopyError> {
        let from = self.root.join(path);
        let read = |source| CopyError::Read { path: from.clone(), source };
        for entry in fs::read_dir(&from).map_err(read)? {
            let entry = entry.map_err(read)?;
            let child = path.join(entry.file_name());
            if !(self.left_out)(&child) {
                self.entry(&child, &entry.path())?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, from: &Path) -> Result<(), CopyError> {
        let read = |source| CopyError::Read { path: from.to_owned(), source };
        match path.to_str() {
            None => return Err(refused(from, Refusal::NotUtf8)),
            Some(text) if text.chars().any(char::is_control) => {
                return Err(refused(from, Refusal::ControlCharacters));
            }
            Some(_) => {}
        }
        let meta = fs::symlink_metadata(from).map_err(read)?;
        let node = if meta.is_dir() {
            Node::Folder
        } else if meta.is_symlink() {
            let target = fs::read_link(from).map_err(read)?;
            let shown = target.to_string_lossy().into_owned();
            match target.to_str() {
                Some(_) => Node::Link(shown),
                None => return Err(refused(from, Refusal::Link(shown))),
            }
        } else if meta.is_file() {
            self.total += meta.len();
            within(meta.len(), self.total, self.limits).map_err(|why| refused(from, why))?;
            Node::File
        } else {
            return Err(refused(from, Refusal::NotAFile));
        };
        self.tree.add(path, node).map_err(|why| refused(from, why))?;
        if self.tree.len() > self.limits.entries {
            return Err(refused(from, Refusal::TooMany(self.limits.entries)));
        }
        if meta.is_dir() { self.folder(path) } else { Ok(()) }
    }
}

/// Copies one file and returns its size, which may have changed since it was checked.
fn copy_file(
    file: File,
    from: &Path,
    path: &Path,
    to: &ConfinedFolder,
    limits: &Limits,
    before: u64,
) -> Result<u64, CopyError> {
    let meta = file.metadata().map_err(|error| unread(from, error))?;
    if !meta.is_file() {
        return Err(refused(from, Refusal::NotAFile));
    }
    let write = |source| CopyError::Write { path: path.to_owned(), source };
    let mut target = to.create_file(path, is_executable(&meta)).map_err(write)?;
    let size = io::copy(&mut file.take(limits.entry + 1), &mut target).map_err(write)?;
    within(size, before + size, limits).map_err(|why| refused(from, why))?;
    Ok(size)
}

fn within(size: u64, total: u64, limits: &Limits) -> Result<(), Refusal> {
    if size > limits.entry {
        return Err(Refusal::EntryTooLarge(limits.entry));
    }
    if total > limits.total { Err(Refusal::TotalTooLarge(limits.total)) } else { Ok(()) }
}

fn real(folder: &Path) -> Result<PathBuf, CopyError> {
    folder.canonicalize().map_err(|source| CopyError::Read { path: folder.to_owned(), source })
}

fn unread(path: &Path, source: io::Error) -> CopyError {
    CopyError::Read { path: path.to_owned(), source }
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
