//! Files that a rewind moves into the root while their folders change, and those that an interrupted rewind left there.

use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use pollux_domain::hex;

use rustix::fs::{AtFlags, Dir, RenameFlags, renameat, renameat_with, statat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use crate::beneath;
use crate::path::RelPath;
use crate::rights::Rights;
use crate::scope::TEMP_PREFIX;

/// The end of the names of files that were set aside.
const SUFFIX: &[u8] = b"-moved";

/// A file that is moved back by way of a temporary name in the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SetAside {
    pub(crate) from: RelPath,
    pub(crate) to: RelPath,
    /// The temporary name.
    pub(crate) name: Vec<u8>,
}

impl SetAside {
    /// Chooses a name that no other rewind uses: an interrupted one may have left a file that exists nowhere else.
    pub(crate) fn new(from: RelPath, to: RelPath) -> Self {
        let random = RandomState::new().build_hasher().finish();
        let mut name = temp_name(&to);
        name.push(b'-');
        name.extend_from_slice(hex::encode(&random.to_be_bytes()).as_bytes());
        name.extend_from_slice(SUFFIX);
        Self { from, to, name }
    }

    /// From a journal; `None` unless the name is a temporary one.
    pub(crate) fn parse(from: RelPath, to: RelPath, name: &RelPath) -> Option<Self> {
        let (parent, last) = name.split()?;
        let name = last.to_vec();
        (parent.is_root() && is_aside(&name)).then_some(Self { from, to, name })
    }

    /// The file's path while it is set aside.
    pub(crate) fn path(&self) -> RelPath {
        RelPath::root().join(&self.name)
    }
}

/// The name of a temporary file for a path.
pub(crate) fn temp_name(path: &RelPath) -> Vec<u8> {
    let hash: [u8; 32] = Sha256::digest(path.bytes()).into();
    let mut name = TEMP_PREFIX.to_vec();
    name.extend(hex::encode(&hash).bytes().take(16));
    name
}

fn is_aside(name: &[u8]) -> bool {
    name.starts_with(TEMP_PREFIX) && name.ends_with(SUFFIX)
}

/// Renames a file unless the new name exists.
pub(crate) fn rename_new(from: impl AsFd, name: &[u8], to: impl AsFd, new_name: &[u8]) -> Result<(), Errno> {
    match renameat_with(&from, name, &to, new_name, RenameFlags::NOREPLACE) {
        // Not every file system can.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            match statat(&to, new_name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => renameat(from, name, to, new_name),
                Err(error) => Err(error),
                Ok(_) => Err(Errno::EXIST),
            }
        }
        renamed => renamed,
    }
}

/// The names in the root that a rewind gave to files it set aside.
pub(crate) fn leftovers(root: BorrowedFd<'_>) -> io::Result<Vec<Vec<u8>>> {
    let mut left = Vec::new();
    for entry in Dir::read_from(beneath::listable(root)?)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if is_aside(name) {
            left.push(name.to_vec());
        }
    }
    left.sort_unstable();
    Ok(left)
}

/// Puts files back: where they came from, or else where they were going. Returns the names that stay, because both places
/// are taken or unknown.
pub(crate) fn put_back(
    root: BorrowedFd<'_>,
    left: Vec<Vec<u8>>,
    place: impl Fn(&[u8]) -> Option<SetAside>,
) -> Vec<PathBuf> {
    let mut rights = Rights::new(root);
    let mut stays = Vec::new();
    for name in left {
        let is_back = place(&name).is_some_and(|aside| {
            [&aside.from, &aside.to].into_iter().any(|path| {
                let Some((parent, own)) = path.split() else { return false };
                rights.open(&parent).is_ok_and(|folder| rename_new(root, &name, folder, own).is_ok())
            })
        });
        if !is_back {
            stays.push(PathBuf::from(OsStr::from_bytes(&name)));
        }
    }
    drop(rights.close());
    stays
}
