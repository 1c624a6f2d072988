//! Moves a finished folder into place atomically.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pollux_config::files::{self, FileError, Mode};
use tempfile::TempDir;

/// Begins with a dot, so that a folder in preparation is not mistaken for an installed one.
const STAGING: &str = ".pollux-";

/// Why a folder could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error(transparent)]
    Folder(#[from] FileError),
    #[error("could not create a folder in `{}`: {source}", path.display())]
    Staging { path: PathBuf, source: io::Error },
    #[error("could not install `{}`: {source}", path.display())]
    Put { path: PathBuf, source: io::Error },
    #[error("could not remove `{}`: {source}", path.display())]
    Remove { path: PathBuf, source: io::Error },
}

/// A hidden folder next to the installed ones in `parent`, deleted when dropped.
pub fn staging(parent: &Path) -> Result<TempDir, PlaceError> {
    files::create_folder(parent, Mode::Private)?;
    let made = tempfile::Builder::new().prefix(STAGING).tempdir_in(parent);
    made.map_err(|source| PlaceError::Staging { path: parent.to_owned(), source })
}

/// Moves `staged` to `target`, which may be there already: it is replaced, and is back if the move fails.
pub fn put(staged: &Path, target: &Path) -> Result<(), PlaceError> {
    let put = |source| PlaceError::Put { path: target.to_owned(), source };
    let Some(parent) = target.parent() else { return Err(put(io::ErrorKind::InvalidInput.into())) };
    // A power failure must not leave a name without its content.
    sync_all(staged).map_err(put)?;
    let aside = staging(parent)?;
    let old = aside.path().join("old");
    let had_one = target.symlink_metadata().is_ok();
    if had_one {
        fs::rename(target, &old).map_err(put)?;
    }
    if let Err(error) = fs::rename(staged, target) {
        if had_one {
            let _ = fs::rename(&old, target);
        }
        return Err(put(error));
    }
    files::sync_folder(parent).map_err(put)
}

/// Syncs a file, or a folder with everything in it.
fn sync_all(path: &Path) -> io::Result<()> {
    let kind = path.symlink_metadata()?.file_type();
    if kind.is_file() {
        // Windows syncs no file that is open for reading only.
        return match fs::File::open(path).and_then(|file| files::sync(&file)) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            synced => synced,
        };
    }
    if kind.is_dir() {
        for entry in fs::read_dir(path)? {
            sync_all(&entry?.path())?;
        }
        files::sync_folder(path)?;
    }
    Ok(())
}

/// Removes the installation at `target`: a link itself, or a folder with its contents.
pub fn remove(target: &Path) -> Result<(), PlaceError> {
    let remove = |source| PlaceError::Remove { path: target.to_owned(), source };
    let is_link = target.symlink_metadata().map_err(remove)?.file_type().is_symlink();
    if is_link { remove_link(target) } else { fs::remove_dir_all(target) }.map_err(remove)
}

#[cfg(unix)]
fn remove_link(target: &Path) -> io::Result<()> {
    fs::remove_file(target)
}

#[cfg(windows)]
fn remove_link(target: &Path) -> io::Result<()> {
    fs::remove_dir(target).or_else(|_| fs::remove_file(target))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(path: &Path, text: &str) {
        fs::create_dir_all(path).unwrap();
        fs::File::create(path.join(text)).unwrap();
    }

    #[test]
    fn a_folder_replaces_the_old_one_as_a_whole() {
        let home = tempfile::tempdir().unwrap();
        let target = home.path().join("skills/one");
        folder_with(&target, "old");
        let staged = staging(&home.path().join("skills")).unwrap();
        folder_with(&staged.path().join("one"), "new");
        put(&staged.path().join("one"), &target).unwrap();
        drop(staged);
        assert!(target.join("new").exists() && !target.join("old").exists());
        assert_eq!(fs::read_dir(home.path().join("skills")).unwrap().count(), 1);
    }

    #[test]
    fn the_old_folder_is_restored_when_the_new_one_is_missing() {
        let home = tempfile::tempdir().unwrap();
        let target = home.path().join("one");
        folder_with(&target, "old");
        put(&home.path().join("missing"), &target).unwrap_err();
        assert!(target.join("old").exists());
    }

    #[cfg(unix)]
    #[test]
    fn removing_a_link_keeps_its_target() {
        let home = tempfile::tempdir().unwrap();
        folder_with(&home.path().join("source"), "file");
        let link = home.path().join("link");
        std::os::unix::fs::symlink(home.path().join("source"), &link).unwrap();
        remove(&link).unwrap();
        assert!(home.path().join("source/file").exists() && link.symlink_metadata().is_err());
    }
}
