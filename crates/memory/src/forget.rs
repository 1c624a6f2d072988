//! Forgetting: removes everything derived from a source, permanently.

mod target;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pollux_config::files::{self, Mode};
use pollux_domain::JsonObject;
use rusqlite::{Connection, TransactionBehavior};
use serde_json::Value;

use crate::forgotten::Forgotten as Tombstones;
use crate::index::error::IndexError;
use crate::index::sync::{Scope, blocking};
use crate::index::writer::Writer;
use crate::index::{cache, database, reindex, rows};
use crate::lock::{OwnedLock, Patience};
use crate::memory::Memory;
use crate::redaction::{self, Tombstone};
use crate::setup::Setup;
use crate::source::Listed;
use crate::source::sessions::Sorted;
use crate::state::StateError;
use crate::store::{SessionStore, StoreError};
use crate::vector;
use crate::workspace::{self, Space};
use target::Target;

pub use target::ForgetError;

const WAIT: Duration = Duration::from_secs(10);

/// What to forget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forget {
    /// A note, by its path or as it is cited; of a transcript, the session. The file of a note itself stays.
    Path(String),
    /// A session with its transcript, by its id or the beginning of it.
    Session(String),
    /// A phrase, wherever it occurs.
    Phrase(String),
}

/// What was forgotten, or would be with `dry_run`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Names in the index.
    pub files: Vec<String>,
    pub chunks: usize,
    pub cache_entries: usize,
    /// Transcripts that were removed or changed.
    pub transcripts: Vec<PathBuf>,
    pub learnings: usize,
    /// The user's own files that still contain it.
    pub kept: Vec<PathBuf>,
    /// Number of other workspaces that still contain it.
    pub elsewhere: usize,
}

impl Memory {
    /// Removes all removable traces in this workspace; with `dry_run` only reports them.
    pub async fn forget(&self, what: Forget, dry_run: bool) -> Result<Forgotten, ForgetError> {
        self.forget_in(what, dry_run, vec![(self.setup().workspace.clone(), self.setup().space)]).await
    }

    /// The same in all workspaces of the agent and in unassigned data.
    pub async fn forget_everywhere(&self, what: Forget, dry_run: bool) -> Result<Forgotten, ForgetError> {
        let own = &self.setup().workspace;
        let mut roots = workspace::registered(&self.setup().agent);
        roots.push(own.canonicalize().unwrap_or_else(|_| own.clone()));
        roots.sort();
        roots.dedup();
        let mut places: Vec<_> = roots.into_iter().map(|root| (root, Space::Workspace)).collect();
        // The last one, since it sees everything that is left.
        places.push((own.clone(), Space::Shared));
        self.forget_in(what, dry_run, places).await
    }

    async fn forget_in(
        &self,
        what: Forget,
        dry_run: bool,
        places: Vec<(PathBuf, Space)>,
    ) -> Result<Forgotten, ForgetError> {
        let setup = self.shared_setup();
        // An open reader would keep old pages alive.
        self.close().await;
        let is_everywhere = places.len() > 1;
        let work = move || {
            let places = places.into_iter().map(|(root, space)| setup.elsewhere(root, space)).collect();
            // Before anything is removed, since a place is asked what it knows.
            let targets = match target::find(&what, places)? {
                Ok(targets) => targets,
                Err(error) => return Ok(Err(error)),
            };
            let mut all = Forgotten::default();
            for (setup, target) in targets {
                all.add(run(&setup, &target, dry_run)?, dry_run);
            }
            all.elsewhere = if is_everywhere { 0 } else { all.elsewhere };
            Ok(Ok(all))
        };
        let forgotten = blocking(work).await??;
        if !dry_run {
            // What is left of the files that held it is found again.
            self.sync(Scope::All, WAIT, &|_| {}).await?;
        }
        Ok(forgotten)
    }
}

impl Forgotten {
    fn add(&mut self, more: Self, dry_run: bool) {
        let add = |list: &mut Vec<PathBuf>, more: Vec<PathBuf>| {
            let new: Vec<PathBuf> = more.into_iter().filter(|path| !list.contains(path)).collect();
            list.extend(new);
        };
        let files: Vec<String> = more.files.into_iter().filter(|path| !self.files.contains(path)).collect();
        self.files.extend(files);
        add(&mut self.transcripts, more.transcripts);
        add(&mut self.kept, more.kept);
        self.chunks += more.chunks;
        self.cache_entries += more.cache_entries;
        self.elsewhere += more.elsewhere;
        // While nothing goes, every place counts the total of all of them.
        self.learnings =
            if dry_run { self.learnings.max(more.learnings) } else { self.learnings + more.learnings };
    }
}

fn run(setup: &Setup, target: &Target, dry_run: bool) -> Result<Forgotten, IndexError> {
    // Do not create an index only to forget something.
    let mut writer =
        if setup.index_file().exists() { Some(Writer::open(setup, WAIT, false)?.0) } else { None };
    let mut work = Work { setup, dry_run, done: Forgotten::default() };
    let mut tombstones = Tombstones::read(&setup.own_forgotten_file())?;
    match target {
        Target::Note(path) => {
            work.done.files = vec![path.clone()];
            work.done.kept = setup.places().file_of(path).filter(|file| file.exists()).into_iter().collect();
            tombstones.add_path(path);
        }
        Target::Session(id) => {
            work.session(id)?;
            work.done.files.iter().for_each(|path| tombstones.add_path(path));
        }
        Target::Phrase(tombstone) => {
            work.phrase(writer.as_ref(), tombstone)?;
            tombstones.add_phrase(tombstone.clone());
        }
    }
    if !dry_run {
        // First, so that nothing comes back if the rest is interrupted.
        let file = setup.own_forgotten_file();
        if let Some(folder) = file.parent() {
            files::create_folder(folder, Mode::Private).map_err(StateError::Folder)?;
        }
        tombstones.write(&file)?;
        if matches!(target, Target::Session(_)) {
            work.done.transcripts.iter().try_for_each(|file| remove_transcript(file))?;
        }
    }
    if let Some(writer) = &mut writer {
        work.rows(writer)?;
    }
    Ok(work.done)
}

struct Work<'a> {
    setup: &'a Setup,
    dry_run: bool,
    done: Forgotten,
}

impl Work<'_> {
    fn session(&mut self, id: &str) -> Result<(), IndexError> {
        // An id that the user chose may look like one with a topic.
        let is_of = |listed: &Listed| {
            listed.session() == id || listed.file.file_stem().is_some_and(|stem| stem == id)
        };
        let Sorted { here, elsewhere } = self.setup.transcripts();
        self.done.elsewhere = usize::from(elsewhere.iter().any(is_of));
        for listed in here.into_iter().filter(is_of) {
            self.done.files.push(listed.path);
            self.done.transcripts.push(listed.file);
        }
        if self.done.elsewhere > 0 {
            return Ok(());
        }
        let own = format!("sessions/{id}.jsonl");
        if !self.done.files.contains(&own) {
            self.done.files.push(own);
        }
        self.store(|store| {
            store.retain(|_, entry| entry.get("sessionId").and_then(Value::as_str) != Some(id))
        })
    }

    fn phrase(&mut self, writer: Option<&Writer>, tombstone: &Tombstone) -> Result<(), IndexError> {
        if let Some(writer) = writer {
            self.done.files =
                files_with(&writer.opened.connection, tombstone).map_err(|source| writer.error(source))?;
        }
        let Sorted { here, elsewhere } = self.setup.transcripts();
        for listed in here {
            if self.transcript(&listed.file, tombstone)? {
                self.done.transcripts.push(listed.file);
            }
        }
        for listed in self.setup.places().list() {
            let text = fs::read(&listed.file)
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                .unwrap_or_default();
            if listed.file != self.setup.agent.learnings_file() && !tombstone.find(&text).is_empty() {
                self.done.kept.push(listed.file);
            }
        }
        let learnings = self.setup.learnings();
        let holds = |text: &str| !tombstone.find(text).is_empty();
        self.done.learnings = if self.dry_run {
            learnings.list().map_or(0, |all| all.iter().filter(|learning| holds(&learning.text)).count())
        } else {
            let path = self.setup.agent.learnings_file();
            learnings
                .retain(|item| !holds(&item.text))
                .map_err(|error| failed(&path)(io::Error::other(error)))?
        };
        self.done.elsewhere = self.others_with(tombstone);
        let phrases = std::slice::from_ref(tombstone);
        let others: HashSet<String> = elsewhere.iter().map(Listed::session).collect();
        let id = |entry: &Value| entry.get("sessionId").and_then(Value::as_str).map(str::to_owned);
        self.store(|store| {
            let own = store.iter_mut().filter(|(_, entry)| !id(entry).is_some_and(|id| others.contains(&id)));
            own.for_each(|(_, entry)| blank(entry, phrases));
        })
    }

    /// Number of other indexes of the agent that contain a phrase.
    fn others_with(&self, tombstone: &Tombstone) -> usize {
        if self.setup.space != Space::Workspace {
            return 0;
        }
        let own = self.setup.index_file();
        let others = workspace::registered(&self.setup.agent).into_iter();
        let others = others.map(|root| self.setup.elsewhere(root, Space::Workspace).index_file());
        let others = others.chain([self.setup.shared_index_file()]).filter(|file| *file != own);
        let holds = |file: &PathBuf| {
            let opened = database::open_to_read(file, false).ok().flatten();
            opened.is_some_and(|opened| {
                database::has_table(&opened.connection, "chunks").unwrap_or(false)
                    && files_with(&opened.connection, tombstone).is_ok_and(|found| !found.is_empty())
            })
        };
        let hidden = self.setup.learnings().hidden_with(|text| !tombstone.find(text).is_empty());
        others.filter(holds).count().max(usize::from(hidden))
    }

    /// Removes a phrase from a transcript; returns whether it occurred.
    fn transcript(&self, file: &Path, tombstone: &Tombstone) -> Result<bool, IndexError> {
        // A session that runs must not add a line between reading and replacing.
        let _lock = if self.dry_run { None } else { Some(OwnedLock::acquire(file, Patience::TRANSCRIPT)?) };
        let text =
            fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(failed(file))?;
        let phrases = std::slice::from_ref(tombstone);
        let mut changed = false;
        let lines: Vec<String> = text
            .split('\n')
            .map(|line| {
                let Ok(mut value) = serde_json::from_str::<Value>(line) else {
                    // Half a line, or none of ours.
                    let holds = !tombstone.find(line).is_empty();
                    changed |= holds;
                    return if holds { String::new() } else { line.to_owned() };
                };
                let before = value.clone();
                blank(&mut value, phrases);
                if value == before {
                    return line.to_owned();
                }
                changed = true;
                value.to_string()
            })
            .collect();
        if changed && !self.dry_run {
            let written = files::replace(file, lines.join("\n").as_bytes(), Mode::Private);
            written.map_err(|error| failed(file)(io::Error::other(error)))?;
        }
        Ok(changed)
    }

    fn store(&self, change: impl FnOnce(&mut JsonObject)) -> Result<(), IndexError> {
        let file = self.setup.agent.store_file();
        if self.dry_run || !file.exists() {
            return Ok(());
        }
        remove_siblings(&file);
        let store = SessionStore::new(file.clone(), Duration::ZERO, self.setup.clock.clone());
        store.update(change).map_err(|error| match error {
            StoreError::Lock(error) => IndexError::Lock(error),
            StoreError::File(error) => failed(&file)(io::Error::other(error)),
        })
    }

    /// The rows of the files, and every page that held them.
    fn rows(&mut self, writer: &mut Writer) -> Result<(), IndexError> {
        let path = writer.path.clone();
        let (chunks, entries) =
            count(&writer.opened.connection, &self.done.files).map_err(|source| writer.error(source))?;
        (self.done.chunks, self.done.cache_entries) = (chunks, entries);
        if self.dry_run {
            return Ok(());
        }
        reindex::remove_kept(&path);
        let hashes =
            hashes_of(&writer.opened.connection, &self.done.files).map_err(|source| writer.error(source))?;
        let has_vectors = writer.opened.has_vectors;
        scrub(&mut writer.opened.connection, &self.done.files, &[], has_vectors)
            .map_err(|source| IndexError::of(&path, source))?;
        self.older_index(&path, &hashes)
    }

    /// What the index of all workspaces still has of it: vectors, rows of sessions, and pages that were freed.
    fn older_index(&self, own: &Path, hashes: &[String]) -> Result<(), IndexError> {
        let path = self.setup.shared_index_file();
        if self.setup.space != Space::Workspace || path == own {
            return Ok(());
        }
        reindex::remove_kept(&path);
        if !path.is_file() {
            return Ok(());
        }
        let _lock = OwnedLock::acquire(&path, Patience::index(WAIT))?;
        let clean = || -> Result<(), IndexError> {
            let mut other = database::open_existing(&path, self.setup.settings.store.vector)?;
            let sessions: Vec<String> =
                self.done.files.iter().filter(|path| path.starts_with("sessions/")).cloned().collect();
            let clean = |other: &mut database::Opened| -> rusqlite::Result<()> {
                if database::is_complete(&other.connection)? {
                    scrub(&mut other.connection, &sessions, hashes, other.has_vectors)?;
                }
                Ok(())
            };
            clean(&mut other).map_err(|source| IndexError::of(&path, source))
        };
        match clean() {
            // Not cleaned here: the file can be deleted as a whole.
            Err(IndexError::Damaged { .. }) => Ok(()),
            other => other,
        }
    }
}

/// Removes a transcript. A session that still writes to it learns from the list of what is forgotten why it is gone.
fn remove_transcript(file: &Path) -> Result<(), IndexError> {
    let _lock = OwnedLock::acquire(file, Patience::TRANSCRIPT)?;
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(file)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> IndexError + '_ {
    move |source| IndexError::File { path: path.to_owned(), source }
}

/// Every text inside of a value without the phrases.
fn blank(value: &mut Value, phrases: &[Tombstone]) {
    match value {
        Value::String(text) => {
            if phrases.iter().any(|phrase| !phrase.find(text).is_empty()) {
                *text = redaction::clean(text, phrases).into_owned();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| blank(item, phrases)),
        Value::Object(fields) => fields.iter_mut().for_each(|(_, field)| blank(field, phrases)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Copies of the store that were kept because they could not be read.
fn remove_siblings(store: &Path) {
    let Some(folder) = store.parent() else { return };
    for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        if entry.file_name().to_string_lossy().starts_with("sessions.json.corrupt-") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn files_with(connection: &Connection, tombstone: &Tombstone) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare("SELECT path, text FROM chunks ORDER BY path")?;
    let mut rows = statement.query([])?;
    let mut found: Vec<String> = Vec::new();
    while let Some(row) = rows.next()? {
        let path: String = row.get(0)?;
        if found.last() != Some(&path) && !tombstone.find(row.get_ref(1)?.as_str()?).is_empty() {
            found.push(path);
        }
    }
    Ok(found)
}

fn count(connection: &Connection, files: &[String]) -> rusqlite::Result<(usize, usize)> {
    let (mut chunks, mut entries) = (0_i64, 0_i64);
    for path in files {
        chunks += connection
            .query_row("SELECT count(*) FROM chunks WHERE path = ?1", [path], |row| row.get::<_, i64>(0))?;
        entries += connection.query_row(
            "SELECT count(*) FROM embedding_cache WHERE hash IN (SELECT vector_hash FROM pollux_chunks WHERE path = ?1)",
            [path],
            |row| row.get::<_, i64>(0),
        )?;
    }
    Ok((usize::try_from(chunks).unwrap_or(0), usize::try_from(entries).unwrap_or(0)))
}

/// What the cache knows the vectors of files by.
fn hashes_of(connection: &Connection, files: &[String]) -> rusqlite::Result<Vec<String>> {
    let mut hashes = Vec::new();
    let mut statement = connection.prepare("SELECT vector_hash FROM pollux_chunks WHERE path = ?1")?;
    for path in files {
        let found = statement.query_map([path], |row| row.get(0))?;
        hashes.extend(found.collect::<rusqlite::Result<Vec<String>>>()?);
    }
    Ok(hashes)
}

/// Removes rows and cached vectors so that no page of the file keeps what they held.
fn scrub(
    connection: &mut Connection,
    files: &[String],
    hashes: &[String],
    has_vectors: bool,
) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA secure_delete = ON")?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for hash in hashes {
        transaction.prepare_cached("DELETE FROM embedding_cache WHERE hash = ?1")?.execute([hash])?;
    }
    for path in files {
        transaction.execute(
            "DELETE FROM embedding_cache WHERE hash IN (SELECT vector_hash FROM pollux_chunks WHERE path = ?1)",
            [path],
        )?;
        rows::remove_file(&transaction, path, has_vectors)?;
    }
    // Text indexes keep the words of deleted rows until their pieces are merged.
    for table in ["chunks_fts", "pollux_fts", "pollux_trigram"] {
        transaction.execute(&format!("INSERT INTO {table} ({table}) VALUES ('optimize')"), [])?;
    }
    transaction.commit()?;
    if has_vectors && database::has_table(connection, "chunks_vec")? {
        rebuild_vectors(connection)?;
    }
    connection.execute_batch("VACUUM")?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

/// The vector table keeps deleted rows in its blocks, so it is rebuilt from the remaining ones.
fn rebuild_vectors(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch("DROP TABLE chunks_vec")?;
    {
        let mut statement =
            transaction.prepare("SELECT id, embedding FROM chunks WHERE embedding != '[]'")?;
        let mut rows = statement.query([])?;
        let mut width = None;
        while let Some(row) = rows.next()? {
            let embedding = cache::parse(row.get_ref(1)?.as_str()?);
            if embedding.is_empty() || *width.get_or_insert(embedding.len()) != embedding.len() {
                continue;
            }
            database::make_vector_table(&transaction, embedding.len())?;
            transaction
                .prepare_cached("INSERT INTO chunks_vec (id, embedding) VALUES (?1, ?2)")?
                .execute((row.get::<_, String>(0)?, vector::to_bytes(&embedding)))?;
        }
    }
    transaction.commit()
}
