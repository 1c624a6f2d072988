//! Archives that others publish.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use pollux_archive::{Limits, unpack, unpack_workspace};

use crate::pieces::steering;
use crate::scratch;

const BLOCK: usize = 512;
const LIMITS: Limits = Limits { entries: 40, total: 256 * 1024, entry: 64 * 1024, ratio: 200 };

/// Whatever an archive says, everything that is unpacked is inside the folder and within the limits, and no link leads
/// out of it.
pub(crate) fn unpack_any(bytes: &[u8]) {
    let ([kind], content) = steering(bytes);
    let place = scratch::empty("archive");
    let (archive, into, outside) = (place.join("archive"), place.join("into"), place.join("outside"));
    fs::create_dir(&into).unwrap();
    scratch::write(&outside, "untouched");
    match kind % 4 {
        0 | 1 => scratch::write(&archive, content),
        // Compressed here, so that changes of the input are changes of the entries.
        _ => scratch::write(&archive, gzip(&with_checksums(content))),
    }
    if kind % 2 == 0 {
        let _ = unpack(&archive, &into, &LIMITS);
    } else {
        let _ = unpack_workspace(&archive, &into, &LIMITS);
    }
    assert_eq!(fs::read(&outside).unwrap(), b"untouched", "a file outside");
    let mut names: Vec<_> = fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["archive", "into", "outside"], "files outside");
    let root = fs::canonicalize(&into).unwrap();
    let mut found = Found::default();
    look(&into, &root, &mut found);
    assert!(found.entries <= LIMITS.entries * 8, "{} entries", found.entries);
    assert!(found.bytes <= LIMITS.total, "{} bytes", found.bytes);
    scratch::remove(&place);
}

#[derive(Default)]
struct Found {
    entries: usize,
    bytes: u64,
}

fn look(folder: &Path, root: &Path, found: &mut Found) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let data = fs::symlink_metadata(&path).unwrap();
        found.entries += 1;
        let kind = data.file_type();
        assert!(kind.is_file() || kind.is_dir() || kind.is_symlink(), "{} is special", path.display());
        assert_eq!(data.mode() & 0o6000, 0, "{} changes users", path.display());
        if kind.is_symlink() {
            let target = fs::canonicalize(&path).unwrap_or_else(|_| root.to_owned());
            assert!(target.starts_with(root), "{} leads to {}", path.display(), target.display());
        } else if kind.is_dir() {
            look(&path, root, found);
        } else {
            found.bytes += data.len();
        }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The bytes as blocks of a tar file. Every block that could be a header gets its checksum.
fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut tar = bytes.to_vec();
    tar.resize(bytes.len().div_ceil(BLOCK) * BLOCK, 0);
    for block in tar.chunks_mut(BLOCK).filter(|block| block.get(257..262) == Some(b"ustar")) {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    tar
}
