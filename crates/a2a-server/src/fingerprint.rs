//! Whether a workspace has changed since it was stored from this machine, or restored here.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pollux_domain::hex;
use sha2::{Digest as _, Sha256};

/// Entries of a workspace that are looked at; one with more is stored again every time.
const MAX_ENTRIES: usize = 200_000;

/// A digest of names, sizes, times and modes; `None` if there are too many of them. It is good on this machine only.
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
            // The time of the last change cannot be set back, unlike that of the content. A folder's changes with what is
            // in it, which counts by itself.
            let (size, time) = match kind.is_dir() {
                true => (0, (0, 0)),
                false => (metadata.len(), (metadata.ctime(), metadata.ctime_nsec())),
            };
            lines.push(format!("{path:?} {} {size} {time:?} {:o}\n", metadata.ino(), metadata.mode()));
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
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn every_change_counts_also_one_that_keeps_size_and_time() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("src")).unwrap();
        let file = root.join("src/main.rs");
        fs::write(&file, "fn main() {}").unwrap();
        symlink("main.rs", root.join("src/link")).unwrap();
        let time = SystemTime::now() - Duration::from_secs(3_600);
        let set_time = || fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
        set_time();
        let before = fingerprint(root).unwrap();
        assert_eq!(fingerprint(root).unwrap(), before);
        // Clocks of files may be coarse: the change is seen once they have moved on.
        let end = std::time::Instant::now() + Duration::from_secs(30);
        while fingerprint(root).unwrap() == before {
            assert!(std::time::Instant::now() < end, "the change is not seen");
            fs::write(&file, "fn niam() {}").unwrap();
            set_time();
        }
        let before = fingerprint(root).unwrap();
        fs::remove_file(root.join("src/link")).unwrap();
        assert_ne!(fingerprint(root).unwrap(), before);
        fs::write(root.join("new"), "x").unwrap();
    }
}
