//! The SQLite file of the index, and its recovery when it is old or damaged.

use std::fs::{self, DirBuilder, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, Error, ErrorCode, Result};

/// A file with another version is deleted. Increase it whenever a table or its content changes.
const VERSION: i64 = 2;
const PAGE: i64 = 16_384;
/// How long another process may be writing.
const BUSY: Duration = Duration::from_secs(5);

const TABLES: &str = "
CREATE TABLE scopes (
    id INTEGER PRIMARY KEY,
    origin INTEGER NOT NULL,
    path BLOB NOT NULL,
    project BLOB,
    UNIQUE (origin, path)
);
-- Long texts come last: what stands before them is read without them.
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    scope INTEGER NOT NULL,
    path BLOB NOT NULL,
    within TEXT NOT NULL,
    size INTEGER NOT NULL,
    modified_ns INTEGER NOT NULL,
    mark INTEGER NOT NULL,
    problem TEXT,
    text_id INTEGER,
    texts_stale INTEGER NOT NULL DEFAULT 1,
    session_id TEXT NOT NULL DEFAULT '',
    project_hash TEXT,
    project BLOB,
    format INTEGER NOT NULL DEFAULT 0,
    subagent INTEGER NOT NULL DEFAULT 0,
    resumable INTEGER NOT NULL DEFAULT 0,
    damaged INTEGER NOT NULL DEFAULT 0,
    start INTEGER NOT NULL DEFAULT 0,
    updated INTEGER NOT NULL DEFAULT 0,
    user_messages INTEGER NOT NULL DEFAULT 0,
    messages INTEGER NOT NULL DEFAULT 0,
    tool_calls INTEGER NOT NULL DEFAULT 0,
    errors INTEGER NOT NULL DEFAULT 0,
    prompt INTEGER NOT NULL DEFAULT 0,
    candidates INTEGER NOT NULL DEFAULT 0,
    cached INTEGER NOT NULL DEFAULT 0,
    thoughts INTEGER NOT NULL DEFAULT 0,
    tool INTEGER NOT NULL DEFAULT 0,
    total INTEGER NOT NULL DEFAULT 0,
    parent TEXT,
    models TEXT NOT NULL DEFAULT '',
    summary TEXT,
    first_user TEXT NOT NULL DEFAULT '',
    last_user TEXT NOT NULL DEFAULT '',
    UNIQUE (scope, path, within)
);
-- Everything by which sessions are chosen and ordered, so that a search does not read their rows.
CREATE INDEX sessions_chosen ON sessions
    (scope, updated, format, subagent, resumable, problem, project, session_id, text_id);
CREATE INDEX sessions_text ON sessions (text_id);
CREATE TABLE texts (
    id INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,
    time INTEGER,
    message TEXT NOT NULL,
    text TEXT NOT NULL
);
CREATE VIRTUAL TABLE words USING fts5
    (text, content = '', prefix = '3', tokenize = \"unicode61 remove_diacritics 2\");
-- Fewer and larger pieces: building is what takes time.
INSERT INTO words (words, rank) VALUES ('hashsize', 16777216);
";

/// Opens the index in a file; a file of another version, or one that is not an index, is replaced.
pub(crate) fn open(file: &Path) -> Result<Connection> {
    match try_open(file) {
        Err(error) if remedy(&error) == Remedy::ThrowAway => {
            throw_away(file);
            try_open(file)
        }
        opened => opened,
    }
}

/// An index for this process alone.
pub(crate) fn in_memory() -> Result<Connection> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch("PRAGMA temp_store = MEMORY")?;
    connection.execute_batch(TABLES)?;
    Ok(connection)
}

fn try_open(file: &Path) -> Result<Connection> {
    create_private(file).map_err(|error| Error::ToSqlConversionFailure(Box::new(error)))?;
    let mut connection = Connection::open(file)?;
    connection.busy_timeout(BUSY)?;
    // Only a new file takes it. A list reads all rows: fewer and larger pieces.
    connection.pragma_update(None, "page_size", PAGE)?;
    let version = version(&connection)?;
    // If two processes create it at once, the second finds it complete.
    if version != VERSION {
        let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        match self::version(&transaction)? {
            VERSION => {}
            0 => {
                transaction.execute_batch(TABLES)?;
                transaction.pragma_update(None, "user_version", VERSION)?;
            }
            other => return Err(Error::IntegralValueOutOfRange(0, other)),
        }
        transaction.commit()?;
    }
    // After the first transaction: a file that is not our database must not be changed.
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -16000; PRAGMA journal_size_limit = 1048576;",
    )?;
    Ok(connection)
}

fn version(connection: &Connection) -> Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// An empty file is a new database; SQLite gives its helpers the same permissions.
fn create_private(file: &Path) -> std::io::Result<()> {
    let mut folders = DirBuilder::new();
    let mut options = OpenOptions::new();
    folders.recursive(true);
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        folders.mode(0o700);
        options.mode(0o600);
    }
    if let Some(folder) = file.parent() {
        folders.create(folder)?;
    }
    options.open(file).map(|_| ())
}

/// The remedy for an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// The file is damaged, or is another program's idea of an index.
    ThrowAway,
    /// The file is locked by another process, or cannot be written: continue without it.
    ReadAround,
}

pub(crate) fn remedy(error: &Error) -> Remedy {
    match error {
        Error::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::SchemaChanged
            // A table or a column that should be there is not.
            | ErrorCode::Unknown | ErrorCode::TypeMismatch | ErrorCode::ConstraintViolation => Remedy::ThrowAway,
            _ => Remedy::ReadAround,
        },
        Error::ToSqlConversionFailure(_) => Remedy::ReadAround,
        _ => Remedy::ThrowAway,
    }
}

/// Deletes an index with the files that SQLite keeps next to it.
pub(crate) fn throw_away(file: &Path) {
    for end in ["", "-wal", "-shm", "-journal"] {
        let mut name = file.as_os_str().to_owned();
        name.push(end);
        // An index that cannot be deleted is bypassed.
        let _ = fs::remove_file(PathBuf::from(name));
    }
}
