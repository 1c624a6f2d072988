//! The index writer: holds the lock of the index, and a connection only while it works.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pollux_config::files::{self, Mode};
use pollux_domain::embedding::Origin;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::database::{self, Opened};
use super::error::IndexError;
use super::identity::Identity;
use super::rows::{self, Added, Context, Difference, Prepared};
use super::{cache, claim, reindex};
use crate::chunk;
use crate::forgotten::Forgotten;
use crate::lock::{OwnedLock, Patience};
use crate::setup::Setup;
use crate::source::notes::Reading;
use crate::source::sessions::Sorted;
use crate::source::{Document, Listed, Provenance, Source, notes, sessions};
use crate::state::StateError;
use crate::workspace::Belonging;

/// A file changed so shortly before it was read may change again without another time.
const RACY_MS: i64 = 2000;

pub(crate) struct Writer {
    pub(crate) path: PathBuf,
    pub(crate) opened: Opened,
    pub(crate) identity: Identity,
    forgotten: Forgotten,
    shared: HashSet<String>,
    // After the connection: others may write when it is closed.
    _lock: Option<OwnedLock>,
}

/// What is to be done with one file.
pub(crate) enum Change {
    /// Only its time is another.
    Touched,
    Write(Box<Prepared>),
}

impl Writer {
    /// Opens the index to change it, and says what had to be put aside: a damaged one, or with `force`, which is about to
    /// make all of it again, any that cannot be used.
    pub(crate) fn open(
        setup: &Setup,
        wait: Duration,
        force: bool,
    ) -> Result<(Self, Vec<String>), IndexError> {
        setup.agent.prepare()?;
        let path = setup.index_file();
        if let Some(folder) = path.parent() {
            files::create_folder(folder, Mode::Private).map_err(StateError::Folder)?;
        }
        let lock = OwnedLock::acquire(&path, Patience::index(wait))?;
        reindex::clean_up(&path);
        let mut messages = Vec::new();
        let (opened, identity) = match Self::prepared(setup, &path) {
            Err(error) if matches!(error, IndexError::Damaged { .. }) || (force && error.is_unsound()) => {
                let aside = database::keep_aside(&path, setup.clock.now().millis())?;
                messages.push(format!("{error}; it was moved to `{}` and is being rebuilt", aside.display()));
                Self::prepared(setup, &path)?
            }
            other => other?,
        };
        messages.extend(claim::take_over(setup, &path, &opened, wait)?);
        let writer = Self {
            forgotten: setup.forgotten()?,
            shared: setup.shared_sessions(),
            path,
            opened,
            identity,
            _lock: Some(lock),
        };
        Ok((writer, messages))
    }

    /// A second index that will take the first one's place; the first one's writer holds the lock.
    /// `width` is the length of its vectors, if others in the cache are to be passed over.
    pub(crate) fn scratch(setup: &Setup, path: PathBuf, width: Option<usize>) -> Result<Self, IndexError> {
        let opened = database::open_to_write(&path, setup.settings.store.vector)?;
        let opened = Self::ready(&path, opened)?;
        let identity = Identity { dims: width, ..Identity::new(setup.origin(), setup.settings.chunking) };
        identity.write(&opened.connection).map_err(|source| IndexError::of(&path, source))?;
        let forgotten = setup.forgotten()?;
        claim::mark(setup, &path, &opened)?;
        let shared = setup.shared_sessions();
        Ok(Self { path, opened, identity, forgotten, shared, _lock: None })
    }

    /// The index of this workspace with all that it needs.
    fn prepared(setup: &Setup, path: &Path) -> Result<(Opened, Identity), IndexError> {
        let is_new = !path.exists();
        let opened = database::open_to_write(path, setup.settings.store.vector)?;
        let mut opened = Self::ready(path, opened)?;
        if is_new {
            Self::import(setup, &mut opened);
        }
        claim::own(setup, path, &mut opened)?;
        let identity = Self::identity(setup, path, &opened.connection)?;
        Ok((opened, identity))
    }

    /// Chunks of another program get what they lack.
    fn ready(path: &Path, mut opened: Opened) -> Result<Opened, IndexError> {
        let mut adopt = || -> rusqlite::Result<()> {
            if rows::is_foreign(&opened.connection)? {
                let transaction =
                    opened.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                rows::adopt(&transaction)?;
                transaction.commit()?;
            }
            rows::renew_parts(&mut opened.connection)
        };
        adopt().map_err(|source| IndexError::of(path, source))?;
        Ok(opened)
    }

    /// The vectors that gimli keeps elsewhere.
    fn import(setup: &Setup, opened: &mut Opened) {
        let Some(root) = setup.agent.root().parent().and_then(Path::parent) else { return };
        let other = root.join("memory").join(format!("{}.sqlite", setup.agent.id().as_str()));
        if other.is_file() {
            // A file that cannot be read costs vectors, which are made again.
            let _ = cache::copy_from(&opened.connection, &other);
        }
    }

    /// What the index was made with; a new one is made with what is set.
    fn identity(setup: &Setup, path: &Path, connection: &Connection) -> Result<Identity, IndexError> {
        let read = || -> rusqlite::Result<Identity> {
            if let Some(identity) = Identity::read(connection)? {
                return Ok(identity);
            }
            let identity = Identity::new(setup.origin(), setup.settings.chunking);
            let is_empty: bool =
                connection.query_row("SELECT count(*) = 0 FROM chunks", [], |row| row.get(0))?;
            if is_empty {
                identity.write(connection)?;
                return Ok(identity);
            }
            Ok(Identity { origin: Origin { model: String::new(), ..Identity::nobody() }, ..identity })
        };
        read().map_err(|source| IndexError::of(path, source))
    }

    /// Why everything has to be indexed again.
    pub(crate) fn outdated(&self, setup: &Setup) -> Option<String> {
        self.identity.outdated(setup)
    }

    /// The files that should be in the index, and lines about those that cannot be.
    pub(crate) fn list(
        &self,
        setup: &Setup,
        wanted: &[Source],
    ) -> Result<(Vec<Listed>, Vec<String>), IndexError> {
        let (mut listed, mut skipped) = (Vec::new(), Vec::new());
        for source in &setup.settings.sources {
            match source {
                Source::Memory if wanted.contains(source) => {
                    let notes = setup.places().look();
                    listed.extend(notes.found);
                    skipped.extend(notes.skipped);
                }
                Source::Sessions if wanted.contains(source) => listed.extend(self.transcripts(setup)?),
                Source::Memory | Source::Sessions => {}
            }
        }
        listed.retain(|file| !self.forgotten.has_path(&file.path));
        Ok((listed, skipped))
    }

    /// The transcripts that belong here. Those of others are noted, so that they are not opened every time.
    fn transcripts(&self, setup: &Setup) -> Result<Vec<Listed>, IndexError> {
        let connection = &self.opened.connection;
        let belonging = Belonging::of(&setup.agent, &setup.workspace);
        let fingerprint = belonging.fingerprint();
        let known = rows::sorted_before(connection, &fingerprint).map_err(|source| self.error(source))?;
        let all = sessions::list(&setup.agent.sessions_dir());
        let Sorted { here, elsewhere } = sessions::sorted(all, &known, setup.space, &belonging);
        rows::note_elsewhere(connection, &elsewhere, &known, &fingerprint)
            .map_err(|source| self.error(source))?;
        Ok(here)
    }

    /// Paths in the index that are not among those listed.
    pub(crate) fn removed(
        &self,
        setup: &Setup,
        listed: &[Listed],
        wanted: &[Source],
    ) -> Result<Vec<String>, IndexError> {
        let there: HashSet<&str> = listed.iter().map(|file| file.path.as_str()).collect();
        let read = || -> rusqlite::Result<Vec<String>> {
            let sql = "SELECT path, source FROM files";
            let mut statement = self.opened.connection.prepare(sql)?;
            let mut rows = statement.query([])?;
            let mut removed = Vec::new();
            while let Some(row) = rows.next()? {
                let path: String = row.get(0)?;
                let source = Source::parse(row.get_ref(1)?.as_str()?);
                let asked = source.is_none_or(|source| {
                    wanted.contains(&source) || !setup.settings.sources.contains(&source)
                });
                if asked && !there.contains(path.as_str()) {
                    removed.push(path);
                }
            }
            Ok(removed)
        };
        read().map_err(|source| self.error(source))
    }

    /// Files whose time and size are as they were, and that lack nothing.
    pub(crate) fn known(&self, wants_vectors: bool) -> Result<HashMap<String, (i64, i64)>, IndexError> {
        let read = || -> rusqlite::Result<HashMap<String, (i64, i64)>> {
            let sql = "SELECT path, modified_ns, size FROM pollux_files
                       WHERE indexed_ms - modified_ns / 1000000 >= ?1
                         AND (?2 = 0 OR path NOT IN (SELECT path FROM pollux_chunks WHERE embedded = 0))";
            let mut statement = self.opened.connection.prepare(sql)?;
            let rows = statement.query_map((RACY_MS, i64::from(wants_vectors)), |row| {
                Ok((row.get(0)?, (row.get(1)?, row.get(2)?)))
            })?;
            rows.collect()
        };
        read().map_err(|source| self.error(source))
    }

    /// Reads a file and finds out what changed in it.
    pub(crate) fn prepare(
        &self,
        setup: &Setup,
        listed: Listed,
        wants_vectors: bool,
    ) -> Result<Result<Change, String>, IndexError> {
        let known = self.hash_of(&listed.path, wants_vectors).map_err(|source| self.error(source))?;
        let document = match self.read(setup, &listed, known.as_deref()) {
            Ok(Some(document)) => document,
            Ok(None) => return Ok(Ok(Change::Touched)),
            Err(error) => return Ok(Err(format!("could not read `{}`: {error}", listed.file.display()))),
        };
        self.compare(listed, &document, wants_vectors).map(Ok).map_err(|source| self.error(source))
    }

    /// The hash of a file that lacks nothing.
    fn hash_of(&self, path: &str, wants_vectors: bool) -> rusqlite::Result<Option<String>> {
        let sql = "SELECT hash FROM files WHERE path = ?1 AND (?2 = 0 OR NOT EXISTS
                     (SELECT 1 FROM pollux_chunks WHERE embedded = 0 AND path = ?1))";
        let mut statement = self.opened.connection.prepare_cached(sql)?;
        statement.query_row((path, i64::from(wants_vectors)), |row| row.get(0)).optional()
    }

    fn compare(&self, listed: Listed, document: &Document, wants_vectors: bool) -> rusqlite::Result<Change> {
        let Identity { origin, chunking, .. } = &self.identity;
        let chunks = chunk::chunks(document, &listed.path, listed.source, *chunking);
        let with_ids =
            chunks.into_iter().map(|chunk| (chunk.id(listed.source, &listed.path, &origin.model), chunk));
        let connection = &self.opened.connection;
        let Difference { added, gone } =
            rows::compare(connection, &listed, with_ids.collect(), wants_vectors)?;
        let added = added.into_iter().map(|(id, chunk)| Added {
            id,
            vector_hash: chunk.vector_hash(chunking.mode),
            chunk,
            vector: None,
            is_new: false,
        });
        let mut prepared = Prepared { listed, hash: document.hash.clone(), added: added.collect(), gone };
        if wants_vectors {
            self.look_up(&mut prepared)?;
        }
        Ok(Change::Write(Box::new(prepared)))
    }

    fn look_up(&self, prepared: &mut Prepared) -> rusqlite::Result<()> {
        let hashes: Vec<String> = prepared.added.iter().map(|added| added.vector_hash.clone()).collect();
        let mut known = cache::look_up(&self.opened.connection, &self.identity.origin, &hashes)?;
        for added in &mut prepared.added {
            added.vector = known.get(&added.vector_hash).cloned();
            if added
                .vector
                .as_ref()
                .is_some_and(|vector| self.identity.dims.is_some_and(|dims| dims != vector.len()))
            {
                added.vector = None;
            }
        }
        known.clear();
        Ok(())
    }

    /// `None` when its hash is the known one.
    fn read(&self, setup: &Setup, listed: &Listed, known: Option<&str>) -> std::io::Result<Option<Document>> {
        let phrases = self.forgotten.phrases();
        match listed.source {
            Source::Memory => {
                let own = listed.path == notes::LEARNINGS;
                let provenance = if own || setup.trusted { Provenance::Owner } else { Provenance::Untrusted };
                let learnings = own.then(|| setup.learnings());
                let reading = Reading {
                    provenance,
                    agent: &setup.agent,
                    tombstones: phrases,
                    known,
                    learnings: learnings.as_ref(),
                };
                notes::read(&listed.file, &reading)
            }
            Source::Sessions => {
                let shared = self.shared.contains(&listed.session());
                let document = sessions::read(&listed.file, shared, phrases)?;
                Ok((known != Some(&document.hash)).then_some(document))
            }
        }
    }

    /// Writes files: all rows of each, or none.
    pub(crate) fn write(&mut self, files: &[Prepared], setup: &Setup) -> Result<(), IndexError> {
        if files.is_empty() {
            return Ok(());
        }
        let now_ms = setup.clock.now().millis();
        let dims =
            files.iter().flat_map(|file| &file.added).find_map(|added| added.vector.as_ref().map(Vec::len));
        let path = self.path.clone();
        let Self { opened, identity, .. } = self;
        let mut write = || -> rusqlite::Result<()> {
            if let Some(dims) = dims.filter(|_| identity.dims.is_none()) {
                identity.dims = Some(dims);
                identity.write(&opened.connection)?;
            }
            if let Some(dims) = identity.dims.filter(|_| opened.has_vectors) {
                database::make_vector_table(&opened.connection, dims)?;
            }
            // A file is in the index with all its rows or as it was before; several of them at once are quicker.
            let transaction = opened.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let context = Context {
                origin: &identity.origin,
                has_vectors: opened.has_vectors,
                keeps_cache: setup.settings.cache.enabled,
                dims: identity.dims,
                now_ms,
            };
            for file in files {
                rows::replace(&transaction, file, &context)?;
            }
            transaction.commit()
        };
        write().map_err(|source| IndexError::of(&path, source))?;
        self.touch();
        Ok(())
    }

    pub(crate) fn stamp(&mut self, files: &[Listed], now_ms: i64) -> Result<(), IndexError> {
        let path = self.path.clone();
        let mut write = || -> rusqlite::Result<()> {
            let transaction =
                self.opened.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for file in files {
                rows::stamp_file(&transaction, file, now_ms)?;
            }
            transaction.commit()
        };
        if files.is_empty() { Ok(()) } else { write().map_err(|source| IndexError::of(&path, source)) }
    }

    /// Removes files that are gone; how many chunks went with them.
    pub(crate) fn remove(&mut self, paths: &[String]) -> Result<usize, IndexError> {
        let path = self.path.clone();
        let Opened { connection, has_vectors } = &mut self.opened;
        let mut remove = || -> rusqlite::Result<usize> {
            let mut chunks = 0;
            for path in paths {
                let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                chunks += rows::remove_file(&transaction, path, *has_vectors)?;
                transaction.commit()?;
            }
            Ok(chunks)
        };
        remove().map_err(|source| IndexError::of(&path, source))
    }

    /// Puts the words of many new chunks into one place: a search then opens one list for each word.
    pub(crate) fn settle(&self) -> Result<(), IndexError> {
        let sql = "INSERT INTO pollux_fts (pollux_fts) VALUES ('optimize')";
        self.opened.connection.execute(sql, []).map(drop).map_err(|source| self.error(source))
    }

    pub(crate) fn prune(&self, setup: &Setup) -> Result<usize, IndexError> {
        cache::prune(&self.opened.connection, setup.settings.cache.max_entries)
            .map_err(|source| self.error(source))
    }

    /// Refreshes the lock for other processes.
    pub(crate) fn touch(&self) {
        if let Some(lock) = &self._lock {
            lock.touch();
        }
    }

    pub(crate) fn error(&self, source: rusqlite::Error) -> IndexError {
        IndexError::of(&self.path, source)
    }
}
