//! The index database: opening and schema.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Result, TransactionBehavior, params};

use super::error::IndexError;
use super::extension;

const BUSY: Duration = Duration::from_secs(5);
/// Statements that stay prepared: more than there are.
const STATEMENTS: usize = 64;
/// Another number means that our side tables are made again.
const SIDE_VERSION: &str = "1";

/// The tables of gimli. Nothing may be added to them: both programs open the same file.
const SEED_TABLES: &str = "
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS files (
  path TEXT PRIMARY KEY,
  source TEXT NOT NULL DEFAULT 'memory',
  hash TEXT NOT NULL,
  mtime INTEGER NOT NULL,
  size INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS chunks (
  id TEXT PRIMARY KEY,
  path TEXT NOT NULL,
  source TEXT NOT NULL DEFAULT 'memory',
  start_line INTEGER NOT NULL,
  end_line INTEGER NOT NULL,
  hash TEXT NOT NULL,
  model TEXT NOT NULL,
  text TEXT NOT NULL,
  embedding TEXT NOT NULL,
  updated_at INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS embedding_cache (
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  provider_key TEXT NOT NULL,
  hash TEXT NOT NULL,
  embedding TEXT NOT NULL,
  dims INTEGER,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (provider, model, provider_key, hash)
);
CREATE VIRTUAL TABLE IF NOT EXISTS chunks_fts USING fts5(
  text,
  id UNINDEXED,
  path UNINDEXED,
  source UNINDEXED,
  model UNINDEXED,
  start_line UNINDEXED,
  end_line UNINDEXED
);
";

/// Indexes, once old files have the column `source`.
const SEED_INDEXES: &str = "
CREATE INDEX IF NOT EXISTS idx_embedding_cache_updated_at ON embedding_cache(updated_at);
CREATE INDEX IF NOT EXISTS idx_chunks_path ON chunks(path);
CREATE INDEX IF NOT EXISTS idx_chunks_source ON chunks(source);
";

/// What is ours alone, by the number of a chunk. A number is never used twice.
const SIDE_TABLES: &str = "
CREATE TABLE IF NOT EXISTS pollux_state (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS pollux_chunks (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  path TEXT NOT NULL,
  source TEXT NOT NULL,
  provenance TEXT NOT NULL,
  date TEXT,
  vector_hash TEXT NOT NULL,
  embedded INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS pollux_pending ON pollux_chunks(path) WHERE embedded = 0;
CREATE TABLE IF NOT EXISTS pollux_q8 (number INTEGER PRIMARY KEY, source INTEGER NOT NULL, scale REAL NOT NULL, q8 BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS pollux_files (
  path TEXT PRIMARY KEY, modified_ns INTEGER NOT NULL, size INTEGER NOT NULL, indexed_ms INTEGER NOT NULL
);
CREATE VIRTUAL TABLE IF NOT EXISTS pollux_fts USING fts5(
  body, trail, path, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE IF NOT EXISTS pollux_trigram USING fts5(
  body, content = '', contentless_delete = 1, tokenize = 'trigram'
);
";
const SIDE_NAMES: [&str; 6] =
    ["pollux_state", "pollux_chunks", "pollux_q8", "pollux_files", "pollux_fts", "pollux_trigram"];

/// A connection, and whether vectors are in a table of their own.
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    pub(crate) has_vectors: bool,
}

/// What every connection needs.
fn ready(connection: &Connection) -> Result<()> {
    connection.busy_timeout(BUSY)?;
    // Otherwise the index of chunks without vectors has every statement planned again for every value.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(())
}

/// Opens the index for writing and makes what is missing.
pub(crate) fn open_to_write(path: &Path, vectors: bool) -> std::result::Result<Opened, IndexError> {
    create_private(path).map_err(|source| IndexError::File { path: path.to_owned(), source })?;
    let open = || -> Result<Opened> {
        let mut connection = Connection::open(path)?;
        ready(&connection)?;
        let journal = if is_network(path) { "DELETE" } else { "WAL" };
        connection.execute_batch(&format!(
            "PRAGMA journal_mode = {journal}; PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY;
             PRAGMA journal_size_limit = 16777216; PRAGMA cache_size = -16000;"
        ))?;
        let has_vectors = vectors && extension::load(&connection).is_ok();
        if !is_complete(&connection)? {
            make_tables(&mut connection)?;
        }
        Ok(Opened { connection, has_vectors })
    };
    open().map_err(|source| IndexError::of(path, source))
}

/// Opens an existing index to take something out of it; makes nothing that is missing.
pub(crate) fn open_existing(path: &Path, vectors: bool) -> std::result::Result<Opened, IndexError> {
    let open = || -> Result<Opened> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        ready(&connection)?;
        // The first read: fails here if at all.
        connection.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))?;
        let has_vectors = vectors && extension::load(&connection).is_ok();
        Ok(Opened { connection, has_vectors })
    };
    open().map_err(|source| IndexError::of(path, source))
}

/// Opens an existing index for reading; `None` when there is none.
pub(crate) fn open_to_read(path: &Path, vectors: bool) -> std::result::Result<Option<Opened>, IndexError> {
    if !path.exists() {
        return Ok(None);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let to_read = |connection: Connection| -> Result<Opened> {
        ready(&connection)?;
        connection.execute_batch("PRAGMA temp_store = MEMORY; PRAGMA cache_size = -8000;")?;
        // The first read: fails here if at all.
        connection.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))?;
        let has_vectors = vectors && extension::load(&connection).is_ok();
        Ok(Opened { connection, has_vectors })
    };
    let opened = Connection::open_with_flags(path, flags).and_then(to_read).or_else(|error| {
        let cannot_write = [
            ErrorCode::ReadOnly,
            ErrorCode::CannotOpen,
            ErrorCode::SystemIoFailure,
            ErrorCode::PermissionDenied,
        ];
        if !error.sqlite_error_code().is_some_and(|code| cannot_write.contains(&code)) {
            return Err(error);
        }
        // In a read-only folder the file cannot change, so locking is unnecessary.
        let name = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
        let uri = format!("file:{name}?immutable=1");
        Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI).and_then(to_read)
    });
    opened.map(Some).map_err(|source| IndexError::of(path, source))
}

/// Whether our side tables are there and of this version; a file of gimli has none.
pub(crate) fn is_complete(connection: &Connection) -> Result<bool> {
    let sql = "SELECT count(*) FROM sqlite_master WHERE name IN ('pollux_state', 'chunks', 'files', 'meta', 'embedding_cache')";
    let has_state = connection.prepare_cached(sql)?.query_row([], |row| Ok(row.get::<_, i64>(0)? == 5))?;
    Ok(has_state && state(connection, "version")?.as_deref() == Some(SIDE_VERSION))
}

fn make_tables(connection: &mut Connection) -> Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(SEED_TABLES)?;
    for table in ["files", "chunks"] {
        let sql = "SELECT count(*) FROM pragma_table_info(?1) WHERE name = 'source'";
        if transaction.query_row(sql, [table], |row| row.get::<_, i64>(0))? == 0 {
            transaction.execute_batch(&format!(
                "ALTER TABLE {table} ADD COLUMN source TEXT NOT NULL DEFAULT 'memory'"
            ))?;
        }
    }
    transaction.execute_batch(SEED_INDEXES)?;
    for name in SIDE_NAMES {
        transaction.execute_batch(&format!("DROP TABLE IF EXISTS {name}"))?;
    }
    transaction.execute_batch(SIDE_TABLES)?;
    set_state(&transaction, "version", SIDE_VERSION)?;
    transaction.commit()
}

/// Makes the table of vectors; it is bound to one length.
pub(crate) fn make_vector_table(connection: &Connection, dims: usize) -> Result<()> {
    connection.execute_batch(&format!(
        "CREATE VIRTUAL TABLE IF NOT EXISTS chunks_vec USING vec0(id TEXT PRIMARY KEY, embedding FLOAT[{dims}])"
    ))
}

pub(crate) fn has_table(connection: &Connection, name: &str) -> Result<bool> {
    connection
        .prepare_cached("SELECT count(*) FROM sqlite_master WHERE name = ?1")?
        .query_row([name], |row| Ok(row.get::<_, i64>(0)? > 0))
}

pub(crate) fn state(connection: &Connection, key: &str) -> Result<Option<String>> {
    connection
        .prepare_cached("SELECT value FROM pollux_state WHERE key = ?1")?
        .query_row([key], |row| row.get(0))
        .optional()
}

pub(crate) fn set_state(connection: &Connection, key: &str, value: &str) -> Result<()> {
    connection
        .execute("INSERT OR REPLACE INTO pollux_state (key, value) VALUES (?1, ?2)", params![key, value])?;
    Ok(())
}

/// An empty file is a new database; SQLite gives its helpers the same permissions.
fn create_private(path: &Path) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path).map(|_| ())
}

/// Moves an index that cannot be read out of the way; where it is now.
pub(crate) fn keep_aside(path: &Path, now_ms: i64) -> std::result::Result<PathBuf, IndexError> {
    let aside = beside(path, &format!(".corrupt-{now_ms}"));
    fs::rename(path, &aside).map_err(|source| IndexError::File { path: path.to_owned(), source })?;
    for end in ["-wal", "-shm", "-journal"] {
        // They belong to the file that is gone, and would be applied to the next one.
        let _ = fs::remove_file(beside(path, end));
    }
    Ok(aside)
}

pub(crate) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// Shared memory between processes does not work over a network.
#[cfg(target_os = "linux")]
fn is_network(path: &Path) -> bool {
    const KINDS: [u64; 8] =
        [0x6969, 0xff53_4d42, 0xfe53_4d42, 0x517b, 0x6573_5546, 0x0102_1997, 0x5346_414f, 0x00c3_6400];
    let folder = path.parent().unwrap_or(path);
    rustix::fs::statfs(folder).is_ok_and(|found| KINDS.contains(&(found.f_type as u64 & 0xffff_ffff)))
}

#[cfg(not(target_os = "linux"))]
fn is_network(_path: &Path) -> bool {
    false
}
