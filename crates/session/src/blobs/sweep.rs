//! Finds unused blobs and removes them.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use pollux_config::files::FileLock;

use super::{FOLDER, is_hash};

/// The blobs that a file may refer to: every text that looks like a hash. This way an unreadable
/// file keeps its blobs.
pub(crate) fn references(path: &Path, found: &mut HashSet<String>) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(256 * 1024, File::open(path)?);
    let mut run: Vec<u8> = Vec::with_capacity(65);
    loop {
        let chunk = reader.fill_buf()?;
        if chunk.is_empty() {
            break;
        }
        let length = chunk.len();
        for byte in chunk {
            if matches!(byte, b'0'..=b'9' | b'a'..=b'f') {
                if run.len() < 65 {
                    run.push(*byte);
                }
                continue;
            }
            take(&mut run, found);
        }
        reader.consume(length);
    }
    take(&mut run, found);
    Ok(())
}

fn take(run: &mut Vec<u8>, found: &mut HashSet<String>) {
    if run.len() == 64 {
        found.insert(String::from_utf8_lossy(run).into_owned());
    }
    run.clear();
}

/// Removes the blobs of a folder that no file in it names any more; of `only` these, if given. If any file
/// cannot be read nothing is removed. Returns what was.
pub(crate) fn sweep(chats: &Path, only: Option<&HashSet<String>>) -> io::Result<Vec<PathBuf>> {
    let dir = chats.join(FOLDER);
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let _guard = FileLock::acquire(&dir).map_err(io::Error::other)?;
    let blobs: BTreeSet<PathBuf> = fs::read_dir(&dir)?
        .filter_map(|entry| entry.ok())
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            is_hash(&name) && only.is_none_or(|only| only.contains(name.as_ref()))
        })
        .map(|entry| entry.path())
        .collect();
    if blobs.is_empty() {
        return Ok(Vec::new());
    }
    let mut used = HashSet::new();
    for file in files_of(chats)? {
        match references(&file, &mut used) {
            // Deleted in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let unused: Vec<PathBuf> = blobs.into_iter().filter(|path| !used.contains(&name(path))).collect();
    for path in &unused {
        fs::remove_file(path)?;
    }
    Ok(unused)
}

/// Those of these blobs that no file names but the ones that go. Nothing is changed.
pub(crate) fn used_alone(
    chats: &Path,
    named: &HashSet<String>,
    goes: impl Fn(&Path) -> bool,
) -> io::Result<Vec<PathBuf>> {
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let mut used = HashSet::new();
    for file in files_of(chats)?.iter().filter(|file| !goes(file)) {
        references(file, &mut used)?;
    }
    let mut alone: Vec<PathBuf> = named
        .difference(&used)
        .map(|name| chats.join(FOLDER).join(name))
        .filter(|path| path.is_file())
        .collect();
    alone.sort();
    Ok(alone)
}

/// Every file of a folder of sessions and of the sub-agents' folders in it.
fn files_of(chats: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(chats)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() && entry.file_name() != FOLDER {
            for inner in fs::read_dir(entry.path())? {
                let inner = inner?;
                if inner.path().is_file() {
                    files.push(inner.path());
                }
            }
        } else if entry.path().is_file() {
            files.push(entry.path());
        }
    }
    Ok(files)
}
