//! Whether a workspace has changed since it was stored.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pollux_domain::hex;
use sha2::{Digest as _, Sha256};

/// Entries of a workspace that are looked at; one with more is stored again every time.
const MAX_ENTRIES: usize = 200_000;

/// A digest of names, sizes, times and modes; `None` if there are too many of them.
pub(crate) fn fingerprint(root: &Path) -> io::Result<Option<String>> {
    let (mut lines, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            let path = folder.join(entry.file_name());
            let kind = metadata.file_type();
            if kind.is_dir() {
                folders.push(path.clone());
            } else if !kind.is_file() && !kind.is_symlink() {
                // Sockets, pipes and devices belong to the machine and are not stored.
                continue;
            }
            let (size, time) = if kind.is_file() { (metadata.len(), metadata.mtime()) } else { (0, 0) };
            let link = if kind.is_symlink() { fs::read_link(root.join(&path))? } else { PathBuf::new() };
            lines.push(format!("{path:?} {link:?} {size} {time} {:o}\n", metadata.mode()));
            if lines.len() > MAX_ENTRIES {
                return Ok(None);
            }
        }
    }
    lines.sort();
    let mut digest = Sha256::new();
    lines.iter().for_each(|line| digest.update(line.as_bytes()));
    Ok(Some(hex::encode(&digest.finalize())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "scratch files need no care")]

    use std::os::unix::fs::symlink;

    use pollux_archive::{Limits, pack_workspace, unpack_workspace};

    use super::*;

    #[test]
    fn a_restored_workspace_counts_as_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        fs::create_dir_all(one.join("src")).unwrap();
        fs::create_dir_all(&other).unwrap();
        fs::write(one.join("src/main.rs"), "fn main() {}").unwrap();
        symlink("main.rs", one.join("src/link")).unwrap();
        let file = dir.path().join("a.tar.gz");
        pack_workspace(&one, &file, &Limits::workspace()).unwrap();
        unpack_workspace(&file, &other, &Limits::workspace()).unwrap();
        assert_eq!(fingerprint(&one).unwrap(), fingerprint(&other).unwrap());
        fs::write(other.join("new"), "x").unwrap();
        assert_ne!(fingerprint(&one).unwrap(), fingerprint(&other).unwrap());
    }
}
