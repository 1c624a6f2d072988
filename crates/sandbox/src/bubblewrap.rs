//! The strongest level on Linux: `bwrap`, which gives a command its own view of the file system.
//!
//! Process ids are shared with the host, so that a later command can kill what an earlier one left running.
//! Processes outside still cannot be inspected, because they belong to another user namespace.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use pollux_config::search_path::SearchPath;

use crate::landlock::Restriction;
use crate::paths::SandboxPaths;
use crate::{LevelError, SandboxRequest, tripwire};

/// The visible part of `/run`: host names and, on some systems, all programs. No sockets.
const KEPT_OF_RUN: &[&str] = &[
    "/run/NetworkManager/resolv.conf",
    "/run/current-system",
    "/run/opengl-driver",
    "/run/resolvconf",
    "/run/systemd/resolve/resolv.conf",
    "/run/systemd/resolve/stub-resolv.conf",
];

#[derive(Debug)]
pub(crate) struct Bubblewrap {
    program: PathBuf,
    places: SandboxPaths,
    network: bool,
    /// The folder that commands see as `/tmp`. The real one contains sockets of agents, displays and
    /// terminals.
    scratch: PathBuf,
}

/// How a path appears inside the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mount {
    ReadOnly,
    Writable,
    Empty,
    /// A file that cannot be opened.
    Blocked,
    /// Replaced by another folder.
    From(PathBuf),
}

impl Bubblewrap {
    pub(crate) fn find(places: &SandboxPaths, request: &SandboxRequest) -> Result<Self, LevelError> {
        // Neither a command nor another user can have written it, and it is not one of the files that
        // accumulate in homes.
        let open: Vec<PathBuf> =
            places.writable.iter().chain(&places.temp).chain(&places.homes).cloned().collect();
        let program = SearchPath::new(Some(OsStr::new(&request.search_path)), &open)
            .find_guarded("bwrap")
            .ok_or(LevelError::NotInstalled("bwrap"))?;
        tripwire::remove_old_placeholders(&places.protected);
        let temp = places.temp.first().map_or(Path::new("/tmp"), PathBuf::as_path);
        let scratch =
            make_scratch(temp).map_err(|source| LevelError::Path { path: temp.to_owned(), source })?;
        Ok(Self { program, places: places.clone(), network: request.network, scratch })
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Restrictions in addition to mounts.
    pub(crate) fn restriction(&self) -> Restriction {
        // A setuid program loses its privileges in a restricted process and cannot work then.
        let is_setuid = fs::metadata(&self.program).is_ok_and(|meta| meta.mode() & 0o4000 != 0);
        if is_setuid { Restriction::none() } else { Restriction::of_scopes() }
    }

    /// The options for a command that starts in `directory`. Reads the disk, so that new files are considered.
    pub(crate) fn arguments(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let mut arguments: Vec<OsString> =
            ["--unshare-user", "--unshare-ipc", "--cap-drop", "ALL"].map(OsString::from).to_vec();
        if !self.network {
            arguments.push("--unshare-net".into());
        }
        arguments.extend(["--ro-bind", "/", "/", "--dev", "/dev"].map(OsString::from));
        // Empty folders are sealed last: until then, mount points are created in them for visible paths.
        let mut seals: Vec<OsString> = Vec::new();
        for (path, mount) in mounts(&self.places, &self.scratch) {
            let path = path.into_os_string();
            match mount {
                Mount::ReadOnly => arguments.extend(["--ro-bind".into(), path.clone(), path]),
                Mount::Writable => arguments.extend(["--bind".into(), path.clone(), path]),
                Mount::From(source) => arguments.extend(["--bind".into(), source.into_os_string(), path]),
                Mount::Empty => {
                    arguments.extend(["--tmpfs".into(), path.clone()]);
                    seals.extend(["--remount-ro".into(), path]);
                }
                // A device that the mount does not let anyone open.
                Mount::Blocked => arguments.extend(["--ro-bind".into(), "/dev/null".into(), path]),
            }
        }
        arguments.extend(seals);
        arguments.extend(["--chdir".into(), directory.into()]);
        Ok(arguments)
    }
}

impl Drop for Bubblewrap {
    fn drop(&mut self) {
        // Not worth reporting: it is temporary and harmless.
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

/// Every path that differs from the read-only root, parents first, so that the deeper one wins.
fn mounts(places: &SandboxPaths, scratch: &Path) -> Vec<(PathBuf, Mount)> {
    let mut mounts = vec![(PathBuf::from("/run"), Mount::Empty)];
    let kept = KEPT_OF_RUN.iter().filter(|path| Path::new(path).exists());
    mounts.extend(kept.map(|path| (PathBuf::from(path), Mount::ReadOnly)));
    mounts.extend(places.temp.iter().map(|path| (path.clone(), Mount::From(scratch.to_owned()))));
    let covered =
        |path: &Path| path.starts_with("/run") || places.temp.iter().any(|temp| path.starts_with(temp));
    // A home inside a replaced folder would disappear.
    mounts
        .extend(places.homes.iter().filter(|home| covered(home)).map(|home| (home.clone(), Mount::ReadOnly)));
    for path in &places.hidden {
        match path.symlink_metadata() {
            // A folder that does not exist inside contains nothing to hide.
            _ if covered(path) && !places.homes.iter().any(|home| path.starts_with(home)) => {}
            Ok(meta) if meta.is_dir() => mounts.push((path.clone(), Mount::Empty)),
            Ok(meta) if !meta.is_symlink() => mounts.push((path.clone(), Mount::Blocked)),
            Ok(_) | Err(_) => {}
        }
    }
    let exists = |path: &&PathBuf| path.exists();
    let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
    mounts.extend(places.writable.iter().filter(exists).map(|path| (path.clone(), Mount::Writable)));
    mounts.extend(places.pinned.iter().filter(exists).map(|path| (path.clone(), Mount::Writable)));
    let protected = places.protected.iter().filter(|path| path.exists() && !is_link(path));
    mounts.extend(protected.map(|path| (path.clone(), Mount::ReadOnly)));
    mounts.sort_by_key(|(path, _)| path.components().count());
    mounts
}

/// A folder that only its owner can enter.
fn make_scratch(temp: &Path) -> io::Result<PathBuf> {
    let mut number = 0u32;
    loop {
        let path = temp.join(format!("pollux-sandbox-{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => number += 1,
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "scratch files need no care")]
mod tests {
    use super::*;

    #[test]
    fn deeper_paths_come_later_and_absent_ones_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("w");
        for path in [".git/hooks", ".vscode"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        let home = folder.path().join("home");
        fs::create_dir_all(home.join(".ssh")).unwrap();
        fs::write(home.join(".netrc"), "").unwrap();
        let places = SandboxPaths {
            writable: vec![root.clone(), folder.path().join("gone")],
            temp: vec!["/var/tmp".into()],
            hidden: vec![home.join(".ssh"), home.join(".netrc"), home.join(".aws")],
            protected: vec![root.join(".git/hooks"), root.join(".vscode"), root.join(".envrc")],
            pinned: vec![root.join(".git")],
            homes: vec![home.clone()],
        };
        let scratch = PathBuf::from("/scratch");
        let mut expected = vec![
            (PathBuf::from("/var/tmp"), Mount::From(scratch.clone())),
            (root.clone(), Mount::Writable),
            (home.join(".ssh"), Mount::Empty),
            (home.join(".netrc"), Mount::Blocked),
            (root.join(".git"), Mount::Writable),
            (root.join(".vscode"), Mount::ReadOnly),
            (root.join(".git/hooks"), Mount::ReadOnly),
        ];
        let planned = mounts(&places, &scratch);
        let is_ours = |path: &Path| !path.starts_with("/run");
        let ours: Vec<_> = planned.iter().filter(|(path, _)| is_ours(path)).cloned().collect();
        expected.sort_by_key(|(path, _)| path.components().count());
        assert_eq!(ours, expected);
        assert_eq!(planned.first(), Some(&(PathBuf::from("/run"), Mount::Empty)));
    }
}
