//! Rebuilds the index in a new file that replaces the old one with one rename, so that searches always work.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::cache;
use super::database::beside;
use super::error::IndexError;
use super::sync::{Job, Progress, Scope, Synced, blocking};
use super::writer::Writer;

/// Indexes everything into a new file that then takes the old one's place. On any error the old one stays.
pub(crate) async fn run(mut job: Job, progress: &Progress<'_>) -> Result<Job, IndexError> {
    let scratch_path = {
        let live = job.with(|writer, _| Ok(writer.path.clone())).await?;
        beside(&live, &format!(".tmp-{}", uuid::Uuid::new_v4()))
    };
    let scratch = Scratch(scratch_path.clone());
    let setup = job.setup.clone();
    let writer = blocking(move || Writer::scratch(&setup, scratch_path)).await?;
    let mut rebuild = Job::new(
        job.setup.clone(),
        writer,
        Synced { warnings: std::mem::take(&mut job.synced.warnings), ..Synced::default() },
    );
    let live = job.with(|writer, _| Ok(writer.path.clone())).await?;
    let from = live.clone();
    rebuild
        .with(move |writer, _| {
            cache::copy_from(&writer.opened.connection, &from).map_err(|source| writer.error(source))
        })
        .await?;
    rebuild
        .update(Scope::All, &|step| {
            // Keep the lock fresh for other processes.
            if let Ok(writer) = job.writer.try_lock() {
                writer.touch();
            }
            progress(step);
        })
        .await?;
    let synced = std::mem::take(&mut rebuild.synced);
    rebuild
        .with(|writer, setup| {
            writer.prune(setup)?;
            finish(writer)
        })
        .await?;
    let Job { writer, .. } = rebuild;
    // Closed before it is renamed.
    drop(writer);
    let from = scratch.0.clone();
    job.with(move |writer, _| swap(writer, &from, &live)).await?;
    job.synced = synced;
    Ok(job)
}

/// Removes a half-made index, whatever went wrong.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        for end in ["", "-wal", "-shm", "-journal"] {
            let _ = fs::remove_file(beside(&self.0, end));
        }
    }
}

/// The new index is whole and in one file.
fn finish(writer: &mut Writer) -> Result<(), IndexError> {
    let check = || -> rusqlite::Result<String> {
        let connection = &writer.opened.connection;
        let answer: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(answer)
    };
    match check() {
        Ok(answer) if answer == "ok" => {}
        Ok(answer) => {
            let source = io::Error::other(answer);
            return Err(IndexError::File { path: writer.path.clone(), source });
        }
        Err(source) => return Err(writer.error(source)),
    }
    let synced = File::open(&writer.path).and_then(|file| file.sync_all());
    synced.map_err(|source| IndexError::File { path: writer.path.clone(), source })
}

/// Replaces the old file. Existing readers keep the old one; new ones wait for the
/// moment in which the old one's helpers are gone and its name is not.
fn swap(writer: &mut Writer, from: &Path, live: &Path) -> Result<(), IndexError> {
    let failed = |source| IndexError::File { path: live.to_owned(), source };
    let in_memory = rusqlite::Connection::open_in_memory().map_err(|source| writer.error(source))?;
    // Readers may keep it from being emptied; what they read is in the file they hold.
    let _ = writer.opened.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    let alone = Opening::exclusive(live);
    let old = std::mem::replace(&mut writer.opened.connection, in_memory);
    old.close().map_err(|(_, source)| IndexError::of(live, source))?;
    for end in ["-wal", "-shm", "-journal"] {
        match fs::remove_file(beside(live, end)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            Ok(()) | Err(_) => {}
        }
    }
    fs::rename(from, live).map_err(failed)?;
    drop(alone);
    if let Some(folder) = live.parent().and_then(|folder| File::open(folder).ok()) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// Keeps opening and swapping apart, across processes.
pub(crate) struct Opening {
    _folder: Option<File>,
}

impl Opening {
    pub(crate) fn shared(index: &Path) -> Self {
        Self::of(index, File::lock_shared)
    }

    fn exclusive(index: &Path) -> Self {
        Self::of(index, File::lock)
    }

    /// Where folders cannot be locked, the moment is short.
    fn of(index: &Path, lock: impl Fn(&File) -> io::Result<()>) -> Self {
        let folder = index.parent().and_then(|folder| File::open(folder).ok());
        Self { _folder: folder.filter(|folder| lock(folder).is_ok()) }
    }
}

/// Puts right what a process left that was killed. The caller holds the lock.
pub(crate) fn clean_up(live: &Path) {
    let (Some(folder), Some(name)) = (live.parent(), live.file_name()) else { return };
    let name = name.to_string_lossy().into_owned();
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        let found = entry.file_name().to_string_lossy().into_owned();
        let Some(end) = found.strip_prefix(&name) else { continue };
        let is_whole = end.starts_with(".backup-") && !end.ends_with("-wal") && !end.ends_with("-shm");
        if is_whole && !live.exists() {
            // Gimli was killed between its two renames.
            let _ = fs::rename(entry.path(), live);
        } else if end.starts_with(".tmp-") || end.starts_with(".backup-") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Removes every index that was kept aside.
pub(crate) fn remove_kept(live: &Path) {
    let (Some(folder), Some(name)) = (live.parent(), live.file_name()) else { return };
    let prefix = format!("{}.corrupt-", name.to_string_lossy());
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_put_right() {
        let folder = tempfile::tempdir().unwrap();
        let live = folder.path().join("memory-index.db");
        for name in
            ["memory-index.db.backup-1", "memory-index.db.tmp-2", "memory-index.db.tmp-2-wal", "other.tmp-3"]
        {
            File::create(folder.path().join(name)).unwrap();
        }
        clean_up(&live);
        let mut left: Vec<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["memory-index.db", "other.tmp-3"]);
    }
}
