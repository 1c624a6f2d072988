//! Repairs that lose nothing: rights of files and folders, files that are rebuilt, and session files with copies.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use pollux_config::env::Env;
use pollux_domain::plural::counted;
use pollux_host::request::Request;

use crate::sessions::archive;

/// What `--fix` does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Repair {
    /// Sets the rights of a file or folder.
    Rights(PathBuf, u32),
    /// Deletes a file that is rebuilt from others.
    Delete(PathBuf),
    /// Repairs session files; copies of the originals are kept.
    Sessions,
}

/// Carries it out; returns a line about the result.
pub(super) fn apply(repair: &Repair, request: &Request, env: &Env) -> String {
    let (done, result) = match repair {
        Repair::Rights(path, mode) => {
            (format!("Set the mode of `{}` to {mode:o}.", path.display()), set_rights(path, *mode))
        }
        Repair::Delete(path) => {
            (format!("Deleted `{}`; it is rebuilt when needed.", path.display()), fs::remove_file(path))
        }
        Repair::Sessions => return sessions(request, env),
    };
    match result {
        Ok(()) => done,
        Err(error) => format!("Not repaired: {error}"),
    }
}

/// Rights of the file itself, never of what a link leads to.
fn set_rights(path: &Path, mode: u32) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_symlink() {
        return Err(io::Error::other(format!("`{}` is a symbolic link", path.display())));
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

fn sessions(request: &Request, env: &Env) -> String {
    let mut archive = match archive(request, env, false) {
        Ok(archive) => archive,
        Err(failure) => return format!("Not repaired: {}", failure.message()),
    };
    let checked = archive.verify(true);
    let repaired = checked.iter().filter(|file| !file.solved.is_empty()).count();
    format!("Repaired {}; copies of the originals were kept.", counted(repaired, "session file"))
}
