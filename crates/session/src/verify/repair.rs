//! Repairs one file after making a backup.

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use pollux_config::files::{self, FileError, Mode};
use pollux_config::groups::SessionFormat;
use pollux_domain::json::parse_lenient;
use pollux_domain::time::Timestamp;
use serde_json::{Value, json};

use super::{FileReport, Problem, verify_file};
use crate::document;
use crate::load::{self, Layout, LoadError, load};
use crate::lock::{Lock, LockError, LockHolder};
use crate::redo;

/// What a repair did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// The backup; `None` if nothing had to be changed.
    pub backup: Option<PathBuf>,
    /// Problems that were fixed.
    pub solved: Vec<Problem>,
    /// Problems that remain.
    pub left: Vec<Problem>,
}

/// Why a file was not repaired. It is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    #[error(transparent)]
    Unreadable(#[from] LoadError),
    #[error("`{}` is in use by {holder}", path.display())]
    InUse { path: PathBuf, holder: LockHolder },
    #[error("could not lock `{}`", path.display())]
    Lock { path: PathBuf, source: io::Error },
    #[error("could not back up `{}`", path.display())]
    Backup { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Write(#[from] FileError),
}

/// Repairs a file as far as that needs no guess: a cut end, missing or repeated ids, the lock of a process
/// that is gone. A copy of the file is kept first. What cannot be read at all is left alone.
pub fn repair(path: &Path, now: Timestamp) -> Result<Repaired, RepairError> {
    // The stale lock is removed with this one.
    let before = verify_file(path);
    let session = load(path)?;
    let lock = Lock::take(path).map_err(|error| match error {
        LockError::Held(owner) => RepairError::InUse { path: path.to_owned(), holder: owner.holder(path) },
        LockError::Io(source) => RepairError::Lock { path: path.to_owned(), source },
    })?;
    let changes = |problem: &Problem| problem.is_repairable() && !matches!(problem, Problem::StaleLock(_));
    let backup = if before.problems.iter().any(changes) {
        let (bytes, _) = load::read(path)?;
        let backup = keep(path, &bytes, now)
            .map_err(|source| RepairError::Backup { path: path.to_owned(), source })?;
        let (_, _, mut folded) = load::read_folded(path)?;
        name_apart(&mut folded.messages);
        let format = match folded.layout {
            Layout::Log { .. } => SessionFormat::Jsonl,
            Layout::Document { .. } | Layout::Other => SessionFormat::Json,
        };
        let new = match format {
            SessionFormat::Jsonl => log(&bytes, lacks_ids(&before).then_some(folded.messages)),
            SessionFormat::Json => document::encode(&folded.meta, session.last_updated, &folded.messages),
        };
        files::replace(path, &new, Mode::Private)?;
        redo::discard(path);
        Some(backup)
    } else {
        None
    };
    drop(lock);
    let after = verify_file(path);
    let solved = without(&before, &after);
    Ok(Repaired { backup, solved, left: after.problems })
}

fn without(before: &FileReport, after: &FileReport) -> Vec<Problem> {
    before.problems.iter().filter(|problem| !after.problems.contains(problem)).cloned().collect()
}

/// Copies the file to `<file>.bak-<ms>`.
fn keep(path: &Path, bytes: &[u8], now: Timestamp) -> io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    for millis in now.millis().. {
        let copy = path.with_file_name(format!("{name}.bak-{millis}"));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&copy) {
            Ok(mut file) => {
                file.write_all(bytes)?;
                file.sync_all()?;
                return Ok(copy);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn lacks_ids(report: &FileReport) -> bool {
    report.problems.iter().any(|problem| matches!(problem, Problem::MissingIds(_)))
}

/// A record log loses only the lines at its end that are not records; they are in the copy. If messages lacked
/// ids, a record with all messages and their new ids is appended.
fn log(bytes: &[u8], messages_with_ids: Option<Vec<Value>>) -> Vec<u8> {
    let mut kept = bytes.trim_ascii_end();
    loop {
        let last = kept.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let is_whole = parse_lenient::<Value>(last.trim_ascii()).is_ok();
        if is_whole || last.is_empty() {
            break;
        }
        kept = kept.get(..kept.len() - last.len()).unwrap_or_default().trim_ascii_end();
    }
    let mut new = kept.to_vec();
    new.push(b'\n');
    if let Some(messages) = messages_with_ids {
        new.extend(format!("{}\n", json!({"$set": {"messages": messages}})).into_bytes());
    }
    new
}

/// Gives every message but the first of an id another one.
fn name_apart(messages: &mut [Value]) {
    let mut taken = HashSet::new();
    for message in messages {
        let Some(id) = message.get("id").and_then(Value::as_str).map(str::to_owned) else { continue };
        let mut free = id.clone();
        let mut number = 1;
        while !taken.insert(free.clone()) {
            number += 1;
            free = format!("{id}-{number}");
        }
        if free != id
            && let Some(fields) = message.as_object_mut()
        {
            fields.insert("id".into(), json!(free));
        }
    }
}
