//! The names in git's index, the list of tracked files.
//!
//! Versions 2 to 4 are read. A split or sparse index contains only some of the names and is treated as unknown.

use std::ops::ControlFlow;

use crate::disk::EntryKind;

/// Size of an entry's fixed fields before its hash, in bytes.
const FIXED_FIELDS_BYTES: usize = 40;
const EXTENDED: u16 = 0x4000;
const FOLDER: u32 = 0o040_000;
const SUBMODULE: u32 = 0o160_000;
const LINK: u32 = 0o120_000;
/// Longest path, in bytes.
const MAX_PATH: usize = 4096;
/// Limit of the length of all paths, in bytes: version 4 stores only what differs from the path before.
const MAX_TOTAL: usize = 128 * 1024 * 1024;

/// Calls `visit` with every tracked path until it breaks off; `None` if the index is not understood. A submodule is an
/// entry of another kind than files and links.
pub(crate) fn each_path(
    index: &[u8],
    mut visit: impl FnMut(&[u8], EntryKind) -> ControlFlow<()>,
) -> Option<()> {
    // A first pass tells which hash the repository uses. What is too long for one must not be read as the other.
    let mut is_too_long = false;
    let hash = [20, 32].into_iter().find(|hash| {
        let read = |_: &[u8], _| ControlFlow::Continue(());
        !is_too_long && walk(index, *hash, &mut is_too_long, read).is_some()
    })?;
    walk(index, hash, &mut is_too_long, &mut visit)
}

fn walk(
    index: &[u8],
    hash: usize,
    is_too_long: &mut bool,
    mut visit: impl FnMut(&[u8], EntryKind) -> ControlFlow<()>,
) -> Option<()> {
    let version = number(index, 4)?;
    if index.get(..4)? != b"DIRC" || !(2..=4).contains(&version) {
        return None;
    }
    let count = number(index, 8)?;
    let (mut at, mut path, mut total) = (12, Vec::new(), 0);
    for _ in 0..count {
        let start = at;
        let kind = match number(index, start + 24)? & 0o170_000 {
            FOLDER => return None,
            SUBMODULE => EntryKind::Other,
            LINK => EntryKind::Link,
            _ => EntryKind::File,
        };
        at += FIXED_FIELDS_BYTES + hash;
        let flags = u16::from_be_bytes(index.get(at..at + 2)?.try_into().ok()?);
        at += if flags & EXTENDED == 0 { 2 } else { 4 };
        let kept = if version == 4 {
            let (removed, next) = offset(index, at)?;
            at = next;
            path.len().checked_sub(removed)?
        } else {
            0
        };
        path.truncate(kept);
        let rest = index.get(at..)?;
        let Some(length) = rest.iter().take(MAX_PATH + 1).position(|byte| *byte == 0) else {
            *is_too_long = rest.len() > MAX_PATH;
            return None;
        };
        let name = rest.get(..length)?;
        total += kept + length;
        if kept + length > MAX_PATH || total > MAX_TOTAL {
            *is_too_long = true;
            return None;
        }
        path.extend_from_slice(name);
        at += name.len() + 1;
        if version != 4 {
            // Padded to a multiple of eight bytes, with at least one zero.
            at = start + (at - start).next_multiple_of(8);
        }
        if visit(&path, kind).is_break() {
            return Some(());
        }
    }
    let end = index.len().checked_sub(hash)?;
    while at < end {
        if index.get(at..at + 4)? == b"link" {
            return None;
        }
        at = at.checked_add(8)?.checked_add(usize::try_from(number(index, at + 4)?).ok()?)?;
    }
    (at == end).then_some(())
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// A number in git's variable-length notation, and where it ends.
fn offset(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *bytes.get(at)?;
    let mut value = usize::from(byte & 127);
    while byte & 128 != 0 {
        at += 1;
        byte = *bytes.get(at)?;
        value = value.checked_add(1)?.checked_mul(128)?.checked_add(usize::from(byte & 127))?;
    }
    Some((value, at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(index: &[u8]) -> Option<Vec<String>> {
        let mut all = Vec::new();
        each_path(index, |path, _| {
            all.push(String::from_utf8_lossy(path).into_owned());
            ControlFlow::Continue(())
        })?;
        Some(all)
    }

    /// An index with these paths and an extension.
    fn index(version: u32, hash: usize, paths: &[&str], extension: &[u8; 4]) -> Vec<u8> {
        let mut bytes = b"DIRC".to_vec();
        bytes.extend(version.to_be_bytes());
        bytes.extend(u32::try_from(paths.len()).unwrap().to_be_bytes());
        let mut before = "";
        for path in paths {
            let start = bytes.len();
            bytes.extend([1; 24]);
            bytes.extend(0o100_644_u32.to_be_bytes());
            bytes.extend(vec![7; 12 + hash]);
            bytes.extend(0_u16.to_be_bytes());
            let shared = if version == 4 {
                before.bytes().zip(path.bytes()).take_while(|(a, b)| a == b).count()
            } else {
                0
            };
            if version == 4 {
                bytes.push(u8::try_from(before.len() - shared).unwrap());
            }
            bytes.extend(path.bytes().skip(shared));
            bytes.push(0);
            if version != 4 {
                bytes.resize(start + (bytes.len() - start).next_multiple_of(8), 0);
            }
            before = path;
        }
        bytes.extend(extension);
        bytes.extend(4_u32.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(vec![9; hash]);
        bytes
    }

    #[test]
    fn every_version_and_hash_is_read() {
        let paths = [".env", "src/a.rs", "src/ab.rs", "x"];
        for version in 2..=4 {
            for hash in [20, 32] {
                let found = names(&index(version, hash, &paths, b"TREE"));
                assert_eq!(found.as_deref(), Some(paths.map(str::to_owned).as_slice()), "{version} {hash}");
            }
        }
    }

    #[test]
    fn a_truncated_or_split_index_is_unknown() {
        let whole = index(2, 20, &["a", "b/c"], b"TREE");
        // Without its extension it is whole again.
        for end in 0..whole.len() - 12 {
            assert_eq!(names(&whole[..end]), None, "{end}");
        }
        assert_eq!(names(&index(2, 20, &["a"], b"link")), None);
        assert_eq!(names(&index(5, 20, &["a"], b"TREE")), None);
    }

    #[test]
    fn long_paths_and_a_visitor_that_breaks_off_end_the_search() {
        let long = "a/".repeat(2049);
        for version in [2, 4] {
            assert_eq!(names(&index(version, 20, &["a", &long], b"TREE")), None, "{version}");
        }
        let mut seen = 0;
        let whole = index(4, 20, &["a", "b", "c"], b"TREE");
        let visit = |_: &[u8], _| {
            seen += 1;
            if seen == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        assert_eq!((each_path(&whole, visit), seen), (Some(()), 2));
    }
}
