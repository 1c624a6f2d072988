//! The private view of the file system that some levels have: how each path appears.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::paths::SandboxPaths;
use crate::wire::{Reader, Writer};

/// The visible part of `/run`: host names and, on some systems, all programs. No sockets.
const KEPT_OF_RUN: &[&str] = &[
    "/run/NetworkManager/resolv.conf",
    "/run/current-system",
    "/run/opengl-driver",
    "/run/resolvconf",
    "/run/systemd/resolve/resolv.conf",
    "/run/systemd/resolve/stub-resolv.conf",
];

/// How a path appears inside the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mount {
    ReadOnly,
    Writable,
    Empty,
    /// A file that cannot be opened.
    Blocked,
    /// Replaced by another folder.
    From(PathBuf),
}

/// A path, how it appears, and its identity when that was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) path: PathBuf,
    pub(crate) mount: Mount,
    identity: Option<(u64, u64)>,
}

impl Placed {
    pub(crate) fn new(path: PathBuf, mount: Mount) -> Self {
        // Paths covered by another folder do not matter.
        let looked_at = !matches!(mount, Mount::From(_));
        let identity = looked_at.then(|| identity(&path)).flatten();
        Self { path, mount, identity }
    }

    pub(crate) fn write(&self, body: &mut Writer) {
        body.text(self.path.as_os_str());
        match &self.mount {
            Mount::ReadOnly => body.number(0),
            Mount::Writable => body.number(1),
            Mount::Empty => body.number(2),
            Mount::Blocked => body.number(3),
            Mount::From(source) => {
                body.number(4);
                body.text(source.as_os_str());
            }
        }
    }

    pub(crate) fn read(body: &mut Reader<'_>) -> io::Result<Self> {
        let path = body.path()?;
        let mount = match body.number()? {
            0 => Mount::ReadOnly,
            1 => Mount::Writable,
            2 => Mount::Empty,
            3 => Mount::Blocked,
            4 => Mount::From(body.path()?),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        Ok(Self { path, mount, identity: None })
    }
}

/// The identity of the file at a path.
pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    path.symlink_metadata().ok().map(|meta| (meta.dev(), meta.ino()))
}

/// Every path that differs from the read-only root, parents first, so that the deeper one takes effect. Reads the
/// disk to include new files.
pub(crate) fn mounts(places: &SandboxPaths, scratch: &Path) -> Vec<Placed> {
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
    mounts.into_iter().map(|(path, mount)| Placed::new(path, mount)).collect()
}

/// The folder that commands see as `/tmp`, removed when dropped. The real one contains sockets of agents, displays
/// and terminals.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// A folder that only its owner can enter.
    pub(crate) fn create(temp: &Path) -> io::Result<Self> {
        let mut number = 0u32;
        loop {
            let path = temp.join(format!("pollux-sandbox-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => number += 1,
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover folder is temporary and harmless, so the error is ignored.
        let _ = fs::remove_dir_all(&self.0);
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
        let is_ours = |placed: &&Placed| !placed.path.starts_with("/run");
        let pairs = planned.iter().filter(is_ours).map(|placed| (placed.path.clone(), placed.mount.clone()));
        expected.sort_by_key(|(path, _)| path.components().count());
        assert_eq!(pairs.collect::<Vec<_>>(), expected);
        let first = planned.first().unwrap();
        assert_eq!((first.path.as_path(), &first.mount), (Path::new("/run"), &Mount::Empty));
        // A file that was replaced needs its mount again, one that only changed does not.
        let hooks = |placed: &Placed| placed.path.ends_with(".git/hooks");
        let before = planned.iter().find(|placed| hooks(placed)).unwrap();
        fs::write(root.join(".git/hooks/x"), "").unwrap();
        assert!(mounts(&places, &scratch).contains(before));
        fs::rename(root.join(".git/hooks"), root.join("old")).unwrap();
        fs::create_dir(root.join(".git/hooks")).unwrap();
        assert!(!mounts(&places, &scratch).contains(before));
    }
}
