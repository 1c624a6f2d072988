//! Sessions in `opencode.db` (or `opencode-<channel>.db`), which OpenCode may be writing at the same time.
//!
//! The database is opened without creating files next to it: read-only with the shared memory of a running
//! OpenCode, or as an immutable file. The log left by a crash is read from a copy.

use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use pollux_domain::percent;
use pollux_domain::sync::Locked as _;
use pollux_domain::time::Timestamp;
use rusqlite::{Connection, OpenFlags, Result, Row};
use tempfile::TempDir;

use super::part::{self, Message, Speaker};
use crate::entry::{Branches, ForeignEntry, Stamp};
use crate::folder;
use crate::lines::readable;
use crate::session::{Facts, Record, RecordSink};

/// A larger database is read without its write-ahead log.
const MAX_COPY: u64 = 512 * 1024 * 1024;
/// How long to wait for a lock of another process.
const BUSY: Duration = Duration::from_millis(500);

/// Copies of databases, made at most once for each state of them.
#[derive(Debug, Default)]
pub(crate) struct Copies(Mutex<HashMap<PathBuf, (Stamp, TempDir)>>);

pub(crate) fn is_database(path: &Path) -> bool {
    let name = folder::name(path);
    name == "opencode.db" || (name.starts_with("opencode-") && name.ends_with(".db"))
}

pub(super) fn entries(root: &Path, copies: &Copies) -> Vec<ForeignEntry> {
    let databases = folder::read(root).files.into_iter().filter(|path| is_database(path));
    // A database that cannot be read has no sessions to show; files may still have them.
    databases.flat_map(|path| sessions(&path, copies).unwrap_or_default()).collect()
}

fn sessions(path: &Path, copies: &Copies) -> Result<Vec<ForeignEntry>> {
    let connection = open(path, copies)?;
    // Replies arrive without the session being touched; counting them needs only indexes.
    let messages = counts(&connection, "SELECT session_id, count(*) FROM message GROUP BY session_id");
    let parts = counts(&connection, "SELECT session_id, count(*) FROM part GROUP BY session_id");
    let newest =
        counts(&connection, "SELECT session_id, max(time_created) FROM session_message GROUP BY session_id");
    let mut statement = connection.prepare("SELECT id, time_updated FROM session ORDER BY id")?;
    let rows = statement.query_map([], |row| Ok((text(row, 0).unwrap_or_default(), number(row, 1))))?;
    let mut entries = Vec::new();
    for (id, updated) in rows.flatten() {
        let mut hasher = DefaultHasher::new();
        (messages.get(&id), parts.get(&id), newest.get(&id)).hash(&mut hasher);
        let modified_ns = updated.unwrap_or(0).saturating_mul(1_000_000);
        let stamp = Stamp { size: 0, modified_ns, mark: hasher.finish() };
        entries.push(ForeignEntry { path: path.to_owned(), within: Some(id), stamp, name: None });
    }
    Ok(entries)
}

/// Counts by session; empty if this release has no such table.
fn counts(connection: &Connection, query: &str) -> HashMap<String, i64> {
    let Ok(mut statement) = connection.prepare(query) else { return HashMap::new() };
    let Ok(rows) = statement.query_map([], |row| Ok((text(row, 0), number(row, 1)))) else {
        return HashMap::new();
    };
    rows.flatten().filter_map(|(id, count)| Some((id?, count?))).collect()
}

pub(super) fn replay(
    path: &Path,
    id: &str,
    copies: &Copies,
    branches: Branches,
    visit: &mut dyn FnMut(&Record<'_>),
) -> Result<Facts> {
    let connection = open(path, copies)?;
    let (facts, reverted) = facts(&connection, id)?;
    let until = reverted.filter(|_| branches == Branches::Last);
    let has_messages = replay_messages(&connection, id, until.as_deref(), visit).unwrap_or(false);
    if !has_messages {
        replay_newest(&connection, id, until.as_deref(), visit)?;
    }
    Ok(facts)
}

fn facts(connection: &Connection, id: &str) -> Result<(Facts, Option<String>)> {
    let query =
        "SELECT parent_id, directory, title, time_created, time_updated, revert FROM session WHERE id = ?1";
    connection.query_row(query, [id], |row| {
        let parent = text(row, 0);
        let time = |column| number(row, column).map(Timestamp::from_millis);
        let facts = Facts {
            id: Some(id.to_owned()),
            project: text(row, 1).filter(|path| !path.is_empty()).map(PathBuf::from),
            title: text(row, 2),
            start: time(3),
            updated: time(4),
            is_subagent: parent.is_some(),
            parent,
        };
        let revert = json(row, 5);
        let raw = revert.as_deref().and_then(|text| serde_json::from_str(text).ok());
        Ok((facts, part::reverted_from(raw)))
    })
}

/// The tables `message` and `part`. `false` if they have nothing of this session.
fn replay_messages(
    connection: &Connection,
    id: &str,
    until: Option<&str>,
    visit: &mut dyn FnMut(&Record<'_>),
) -> Result<bool> {
    let mut messages =
        connection.prepare("SELECT id, data FROM message WHERE session_id = ?1 ORDER BY time_created, id")?;
    let mut parts = connection.prepare("SELECT data FROM part WHERE message_id = ?1 ORDER BY id")?;
    let mut rows = messages.query([id])?;
    let mut is_any = false;
    while let Some(row) = rows.next()? {
        is_any = true;
        let (Some(message_id), Some(data)) = (text(row, 0), json(row, 1)) else { continue };
        if until.is_some_and(|until| message_id.as_str() >= until) {
            break;
        }
        let Some(message) = Message::parse(&data) else { continue };
        let Some(speaker) = message.speaker() else { continue };
        let mut sink = RecordSink { id: &message_id, time: message.time(), visit };
        tell_parts(&mut parts, speaker, &mut sink)?;
        message.record(speaker, &mut sink);
    }
    Ok(is_any)
}

fn tell_parts(
    parts: &mut rusqlite::Statement<'_>,
    speaker: Speaker,
    sink: &mut RecordSink<'_>,
) -> Result<()> {
    let mut rows = parts.query([sink.id])?;
    while let Some(row) = rows.next()? {
        if let Some(data) = json(row, 0) {
            part::record_part(&data, speaker, sink);
        }
    }
    Ok(())
}

/// The table `session_message` of the newest releases, with complete messages.
fn replay_newest(
    connection: &Connection,
    id: &str,
    until: Option<&str>,
    visit: &mut dyn FnMut(&Record<'_>),
) -> Result<()> {
    let query = |order: &str| {
        format!(
            "SELECT id, type, data, time_created FROM session_message WHERE session_id = ?1 ORDER BY {order}"
        )
    };
    // The first release with this table had no sequence numbers.
    let prepared =
        connection.prepare(&query("seq")).or_else(|_| connection.prepare(&query("time_created, id")));
    let Ok(mut statement) = prepared else { return Ok(()) };
    let mut rows = statement.query([id])?;
    while let Some(row) = rows.next()? {
        let (Some(message_id), Some(kind), Some(data)) = (text(row, 0), text(row, 1), json(row, 2)) else {
            continue;
        };
        if until == Some(message_id.as_str()) {
            break;
        }
        let Some(message) = Message::parse(&data) else { continue };
        let time = message.time().or_else(|| number(row, 3).map(Timestamp::from_millis));
        message.record_as(&kind, &mut RecordSink { id: &message_id, time, visit });
    }
    Ok(())
}

fn text(row: &Row<'_>, column: usize) -> Option<String> {
    let bytes = row.get_ref(column).ok()?.as_bytes_or_null().ok()??;
    Some(String::from_utf8_lossy(bytes).into_owned())
}

fn json(row: &Row<'_>, column: usize) -> Option<String> {
    let bytes = row.get_ref(column).ok()?.as_bytes_or_null().ok()??;
    Some(readable(bytes).into_owned())
}

fn number(row: &Row<'_>, column: usize) -> Option<i64> {
    row.get(column).ok()
}

fn open(path: &Path, copies: &Copies) -> Result<Connection> {
    let beside = |end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let log = folder::stamp(&beside("-wal"));
    let has_shared_memory = folder::stamp(&beside("-shm")).is_some();
    if log.is_some() && has_shared_memory {
        // `readonly_shm` maps existing shared memory and creates nothing.
        if let Ok(connection) = open_as(path, "mode=ro&readonly_shm=1") {
            return Ok(connection);
        }
    }
    if let Some(log) = log.filter(|log| log.size > 0)
        && let Some(copy) = copied(path, &beside("-wal"), log, copies)
    {
        let connection = Connection::open(copy)?;
        connection.busy_timeout(BUSY)?;
        return Ok(connection);
    }
    open_as(path, "mode=ro&immutable=1")
}

fn open_as(path: &Path, how: &str) -> Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(
        format!("file:{}?{how}", percent::encode(path.as_os_str().as_encoded_bytes(), percent::PATH)),
        flags,
    )?;
    connection.busy_timeout(BUSY)?;
    // Nothing is read before the first query.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(connection)
}

/// A private copy of the database with its log; `None` if it is too large or cannot be made.
fn copied(path: &Path, log_path: &Path, log: Stamp, copies: &Copies) -> Option<PathBuf> {
    let stamp = folder::stamp(path)?;
    if stamp.size.saturating_add(log.size) > MAX_COPY {
        return None;
    }
    let key = Stamp { size: stamp.size ^ log.size, modified_ns: log.modified_ns, mark: stamp.mark };
    let mut made = copies.0.locked();
    let is_current = made.get(path).is_some_and(|(known, _)| *known == key);
    if !is_current {
        let folder = tempfile::tempdir().ok()?;
        fs::copy(path, folder.path().join("copy.db")).ok()?;
        fs::copy(log_path, folder.path().join("copy.db-wal")).ok()?;
        made.insert(path.to_owned(), (key, folder));
    }
    made.get(path).map(|(_, folder)| folder.path().join("copy.db"))
}
