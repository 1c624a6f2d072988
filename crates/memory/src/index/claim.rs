//! Migrates data from older indexes into the index of a workspace, and marks the index as belonging to it.
//!
//! Older versions had one index per agent. Data known to be of this
//! workspace is moved: embeddings are kept, so that nothing is embedded twice, and rows are rebuilt from
//! notes and transcripts. The rest stays unassigned. Every step is idempotent, so a
//! killed process loses nothing.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pollux_config::paths::sha256_hex;
use pollux_domain::embedding::Origin;
use rusqlite::{Connection, OptionalExtension, Result, TransactionBehavior, params};

use super::database::{self, Opened};
use super::error::IndexError;
use super::identity::Identity;
use super::rows;
use crate::lock::{OwnedLock, Patience};
use crate::setup::Setup;
use crate::source::{Listed, Source, Stamp, notes};
use crate::state::{self, StateError};
use crate::workspace::{self, Belonging, Space, WorkspaceId};

/// The key of the workspace that an index is for.
const OWNER: &str = "workspace";
/// Before the name of an older index: how it was when everything had been taken over from it.
const CLAIMED: &str = "claimed:";

/// Whether an index is the one of a workspace.
pub(crate) fn is_of(connection: &Connection, key: &str) -> Result<bool> {
    Ok(database::has_table(connection, "pollux_state")?
        && database::state(connection, OWNER)?.as_deref() == Some(key))
}

/// Says whose index it is.
pub(crate) fn mark(setup: &Setup, path: &Path, opened: &Opened) -> std::result::Result<(), IndexError> {
    if setup.space != Space::Workspace {
        return Ok(());
    }
    database::set_state(&opened.connection, OWNER, setup.id().key())
        .map_err(|source| IndexError::of(path, source))
}

/// Makes sure that an index is this workspace's. One of another, or of all of them, loses its rows; the vectors stay.
pub(crate) fn own(setup: &Setup, path: &Path, opened: &mut Opened) -> std::result::Result<(), IndexError> {
    if setup.space != Space::Workspace {
        return Ok(());
    }
    let id = setup.id();
    workspace::register(&setup.agent, &id).map_err(StateError::Folder)?;
    let mut own = || -> Result<()> {
        if is_of(&opened.connection, id.key())? {
            return Ok(());
        }
        let transaction = opened.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let paths: Vec<String> = transaction
            .prepare("SELECT path FROM files UNION SELECT path FROM chunks")?
            .query_map([], |row| row.get(0))?
            .collect::<Result<_>>()?;
        let vectors = Vectors::of(&transaction, &paths)?;
        vectors.keep(&transaction)?;
        for path in &paths {
            rows::remove_file(&transaction, path, opened.has_vectors)?;
        }
        database::set_state(&transaction, OWNER, id.key())?;
        transaction.commit()
    };
    own().map_err(|source| IndexError::of(path, source))
}

/// Takes over what older indexes have of this workspace; lines about what could not be.
pub(crate) fn take_over(
    setup: &Setup,
    path: &Path,
    opened: &Opened,
    wait: Duration,
) -> std::result::Result<Vec<String>, IndexError> {
    let mut messages = Vec::new();
    if setup.space != Space::Workspace {
        return Ok(messages);
    }
    for from in older(setup).into_iter().filter(|from| from != path && from.is_file()) {
        // An older version may have written to it since.
        let done = format!("{CLAIMED}{}", from.display());
        let failed = |source| IndexError::of(path, source);
        if database::state(&opened.connection, &done).map_err(failed)? == stamp(&from) {
            continue;
        }
        let _lock = OwnedLock::acquire(&from, Patience::index(wait))?;
        match claim(setup, &opened.connection, &from) {
            Ok(()) => {}
            Err(error @ IndexError::Damaged { .. }) => {
                messages.push(format!("{error}; nothing was imported from it"))
            }
            Err(error) => return Err(error),
        }
        database::set_state(&opened.connection, &done, &stamp(&from).unwrap_or_default()).map_err(failed)?;
    }
    Ok(messages)
}

/// Another one whenever a file was written.
fn stamp(file: &Path) -> Option<String> {
    let stamp = Stamp::of(&std::fs::metadata(file).ok()?);
    Some(format!("{}:{}", stamp.modified_ns, stamp.size))
}

/// The index of all workspaces, and those of paths that this one had before.
fn older(setup: &Setup) -> Vec<PathBuf> {
    let mut older = vec![setup.shared_index_file()];
    let former = Belonging::of(&setup.agent, &setup.workspace);
    let former = former.former_paths().map(|path| WorkspaceId::of(Path::new(path)).folder(&setup.agent));
    older.extend(former.map(|folder| folder.join(state::INDEX)));
    older
}

/// Embeddings are copied before rows are removed, so an interrupted migration can be repeated.
fn claim(setup: &Setup, own: &Connection, from: &Path) -> std::result::Result<(), IndexError> {
    let failed = |source| IndexError::of(from, source);
    let mut other = database::open_existing(from, setup.settings.store.vector)?;
    let paths = claimable(setup, &other.connection).map_err(failed)?;
    let vectors = Vectors::of(&other.connection, &paths).map_err(failed)?;
    let keep = || -> Result<()> {
        let transaction = own.unchecked_transaction()?;
        vectors.keep(&transaction)?;
        transaction.commit()
    };
    keep().map_err(failed)?;
    let mut remove = || -> Result<()> {
        // Rows of another program are its own to remove.
        if paths.is_empty() || !database::is_complete(&other.connection)? {
            return Ok(());
        }
        other.connection.execute_batch("PRAGMA secure_delete = ON")?;
        let transaction = other.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for path in &paths {
            rows::remove_file(&transaction, path, other.has_vectors)?;
        }
        transaction.commit()
    };
    remove().map_err(failed)
}

/// The files in an older index that are this workspace's: transcripts that say so, and notes that are word by word
/// what is here.
fn claimable(setup: &Setup, other: &Connection) -> Result<Vec<String>> {
    if !database::has_table(other, "files")? || !database::has_table(other, "chunks")? {
        return Ok(Vec::new());
    }
    let notes = setup.places().list().into_iter().filter(|note| note.path != notes::LEARNINGS);
    let here: HashMap<String, Listed> =
        notes.chain(setup.transcripts().here).map(|listed| (listed.path.clone(), listed)).collect();
    let mut statement = other.prepare("SELECT path, hash FROM files")?;
    let rows: Vec<(String, String)> =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_>>()?;
    let is_own = |(path, hash): &(String, String)| {
        here.get(path).is_some_and(|listed| listed.source == Source::Sessions || has_hash(&listed.file, hash))
    };
    Ok(rows.into_iter().filter(is_own).map(|(path, _)| path).collect())
}

fn has_hash(file: &Path, hash: &str) -> bool {
    std::fs::read(file).is_ok_and(|bytes| sha256_hex(String::from_utf8_lossy(&bytes).as_bytes()) == hash)
}

/// Vectors with what the cache knows them by.
struct Vectors {
    rows: Vec<(Origin, String, String)>,
}

impl Vectors {
    /// Those of some files, from their rows and from the cache.
    fn of(connection: &Connection, paths: &[String]) -> Result<Self> {
        let mut rows = Vec::new();
        let has_side = database::has_table(connection, "pollux_chunks")?;
        let has_cache = database::has_table(connection, "embedding_cache")?;
        let origin =
            if database::has_table(connection, "meta")? { Identity::read(connection)? } else { None };
        let hashes = if has_side {
            "SELECT coalesce(p.vector_hash, c.hash), c.embedding FROM chunks c LEFT JOIN pollux_chunks p ON p.id = c.id WHERE c.path = ?1"
        } else {
            "SELECT hash, embedding FROM chunks WHERE path = ?1"
        };
        for path in paths {
            let mut statement = connection.prepare_cached(hashes)?;
            let found: Vec<(String, String)> =
                statement.query_map([path], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_>>()?;
            for (hash, embedding) in found {
                if let Some(identity) = origin.as_ref().filter(|_| embedding != "[]") {
                    rows.push((identity.origin.clone(), hash.clone(), embedding));
                }
                if has_cache {
                    rows.extend(cached(connection, &hash)?);
                }
            }
        }
        Ok(Self { rows })
    }

    fn keep(&self, connection: &Connection) -> Result<()> {
        let sql = "INSERT OR IGNORE INTO embedding_cache (provider, model, provider_key, hash, embedding, dims, updated_at)
                   VALUES (?1, ?2, ?3, ?4, ?5, json_array_length(?5), ?6)";
        let newest: Option<i64> = connection
            .query_row("SELECT max(updated_at) FROM embedding_cache", [], |row| row.get(0))
            .optional()?
            .flatten();
        let mut statement = connection.prepare_cached(sql)?;
        for (origin, hash, embedding) in &self.rows {
            statement.execute(params![
                origin.provider,
                origin.model,
                origin.key,
                hash,
                embedding,
                newest.unwrap_or(0)
            ])?;
        }
        Ok(())
    }
}

fn cached(connection: &Connection, hash: &str) -> Result<Vec<(Origin, String, String)>> {
    let sql = "SELECT provider, model, provider_key, embedding FROM embedding_cache WHERE hash = ?1";
    connection
        .prepare_cached(sql)?
        .query_map([hash], |row| {
            let origin = Origin { provider: row.get(0)?, model: row.get(1)?, key: row.get(2)? };
            Ok((origin, hash.to_owned(), row.get(3)?))
        })?
        .collect()
}
