//! Files of a case, in a folder of the thread that runs it.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

thread_local! {
    static FOLDER: TempDir = tempfile::tempdir().expect("a temporary folder");
}

/// The folder of this thread. What a case left there, the next one finds.
pub(crate) fn folder() -> PathBuf {
    FOLDER.with(|folder| folder.path().to_owned())
}

/// An empty folder below the thread's.
pub(crate) fn empty(name: &str) -> PathBuf {
    let path = folder().join(name);
    remove(&path);
    fs::create_dir_all(&path).expect("a folder");
    path
}

/// Removes a folder with everything in it, also where it is read-only.
pub(crate) fn remove(path: &Path) {
    if fs::remove_dir_all(path).is_err() && path.exists() {
        open_folders(path);
        fs::remove_dir_all(path).expect("the folder can be removed");
    }
}

fn open_folders(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_folders(&entry.path());
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a fixture need not survive a crash")]
pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    fs::write(path, bytes).expect("a file");
}
