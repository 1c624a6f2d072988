//! Rebuilds the index in a new file that replaces the old one with one rename, so that searches always work.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::cache;
use super::database::{self, beside};
use super::error::IndexError;
use super::sync::{Job, Progress, Scope, Synced, blocking};
use super::writer::Writer;
use crate::setup::Setup;

/// Indexes everything into a new file that then takes the old one's place. On any error the old one stays. `width` is
/// the length of the provider's vectors, if the index has others.
pub(crate) async fn run(
    mut job: Job,
    width: Option<usize>,
    progress: &Progress<'_>,
) -> Result<Job, IndexError> {
    let mut built = build(&job, width, progress).await?;
    if let (None, Some(_)) = (width, built.job.other_width) {
        // The vectors in the cache are of another length than the new ones.
        built = build(&job, built.job.other_width, progress).await?;
    }
    let Built { job: mut rebuild, scratch, unsound } = built;
    let mut synced = std::mem::take(&mut rebuild.synced);
    if rebuild.other_width.is_some() {
        let problem =
            "the embedding model returns vectors of different lengths; only keywords find some passages";
        synced.warnings.push(problem.to_owned());
    }
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
    let is_unsound = unsound.is_some();
    let aside = job.with(move |writer, setup| swap(writer, setup, &from, is_unsound)).await?;
    if let (Some(error), Some(aside)) = (unsound, aside) {
        synced.warnings.push(format!("{error}; it was moved to `{}`", aside.display()));
    }
    synced.warnings.splice(..0, std::mem::take(&mut job.synced.warnings));
    job.synced = synced;
    Ok(job)
}

/// A new index that is not in its place yet.
struct Built {
    job: Job,
    scratch: Scratch,
    /// Why nothing could be taken out of the old one.
    unsound: Option<IndexError>,
}

async fn build(job: &Job, width: Option<usize>, progress: &Progress<'_>) -> Result<Built, IndexError> {
    let live = job.with(|writer, _| Ok(writer.path.clone())).await?;
    let scratch_path = beside(&live, &format!(".tmp-{}", uuid::Uuid::new_v4()));
    let scratch = Scratch(scratch_path.clone());
    let setup = job.setup.clone();
    let writer = blocking(move || Writer::scratch(&setup, scratch_path, width)).await?;
    let mut rebuild = Job::new(job.setup.clone(), writer, Synced::default());
    let copied = rebuild.with(move |writer, _| {
        cache::copy_from(&writer.opened.connection, &live).map_err(|source| IndexError::of(&live, source))
    });
    let unsound = match copied.await {
        Ok(_) => None,
        Err(error) if error.is_unsound() => Some(error),
        Err(error) => return Err(error),
    };
    rebuild
        .update(Scope::All, &|step| {
            // Keep the lock fresh for other processes.
            if let Ok(writer) = job.writer.try_lock() {
                writer.touch();
            }
            progress(step);
        })
        .await?;
    Ok(Built { job: rebuild, scratch, unsound })
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
/// moment in which the old one's helpers are gone and its name is not. One that is unsound is kept; returns where.
fn swap(
    writer: &mut Writer,
    setup: &Setup,
    from: &Path,
    is_unsound: bool,
) -> Result<Option<PathBuf>, IndexError> {
    let live = writer.path.clone();
    let live = live.as_path();
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
    let aside = if is_unsound { Some(database::keep_aside(live, setup.clock.now().millis())?) } else { None };
    fs::rename(from, live).map_err(failed)?;
    drop(alone);
    if let Some(folder) = live.parent().and_then(|folder| File::open(folder).ok()) {
        let _ = folder.sync_all();
    }
    Ok(aside)
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
    fn leftovers_of_a_killed_process_are_cleaned_up() {
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
