//! The row of a session in the index.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use pollux_domain::id::SessionId;
use pollux_domain::model::Usage;
use pollux_domain::time::Timestamp;
use pollux_foreign::{ForeignSession, Stamp};
use pollux_session::{IndexRecord, SessionFormat, SessionKind};
use rusqlite::{Result, Row, Statement, params};

/// The columns that [`record`] reads, of `sessions AS s` joined with `scopes AS c`.
pub(crate) const COLUMNS: &str = "c.origin, s.session_id, s.project_hash, coalesce(s.project, c.project), s.path,
    s.format, s.subagent, s.parent, s.start, s.updated, s.summary, s.first_user, s.last_user, s.user_messages,
    s.messages, s.tool_calls, s.errors, s.prompt, s.candidates, s.cached, s.thoughts, s.tool, s.total, s.models,
    s.resumable, s.damaged, s.size, s.modified_ns";
/// Positions of the origin and the session id in them.
pub(crate) const ORIGIN: usize = 0;
pub(crate) const SESSION_ID: usize = 1;
/// Behind them.
pub(crate) const ID: usize = 28;

/// Inserts a session into the index, or updates it.
pub(crate) const PUT: &str = "INSERT INTO sessions (scope, path, within, size, modified_ns, mark, session_id,
    project_hash, project, format, subagent, parent, start, updated, summary, first_user, last_user, user_messages,
    messages, tool_calls, errors, prompt, candidates, cached, thoughts, tool, total, models, resumable, damaged)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22,
    ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30)
    ON CONFLICT DO UPDATE SET size = excluded.size, modified_ns = excluded.modified_ns, mark = excluded.mark,
    problem = NULL, texts_stale = 1, session_id = excluded.session_id, project_hash = excluded.project_hash,
    project = excluded.project, format = excluded.format, subagent = excluded.subagent, parent = excluded.parent,
    start = excluded.start, updated = excluded.updated, summary = excluded.summary,
    first_user = excluded.first_user, last_user = excluded.last_user, user_messages = excluded.user_messages,
    messages = excluded.messages, tool_calls = excluded.tool_calls, errors = excluded.errors,
    prompt = excluded.prompt, candidates = excluded.candidates, cached = excluded.cached,
    thoughts = excluded.thoughts, tool = excluded.tool, total = excluded.total, models = excluded.models,
    resumable = excluded.resumable, damaged = excluded.damaged";

/// Records that a file cannot be read as a session, so that it is not retried before it changes.
pub(crate) const PUT_PROBLEM: &str =
    "INSERT INTO sessions (scope, path, within, size, modified_ns, mark, problem)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
    ON CONFLICT DO UPDATE SET size = excluded.size, modified_ns = excluded.modified_ns, mark = excluded.mark,
    problem = excluded.problem, texts_stale = 1";

/// Where a row belongs.
pub(crate) struct Key<'a> {
    pub(crate) scope: i64,
    pub(crate) path: &'a Path,
    pub(crate) within: &'a str,
    pub(crate) stamp: Stamp,
}

pub(crate) fn put(statement: &mut Statement<'_>, key: &Key<'_>, record: &IndexRecord) -> Result<()> {
    let format = match record.format {
        SessionFormat::Json => 0,
        SessionFormat::Jsonl => 1,
    };
    statement.execute(params![
        key.scope,
        path_of(key.path),
        key.within,
        key.stamp.size.cast_signed(),
        key.stamp.modified_ns,
        key.stamp.mark.cast_signed(),
        record.session_id.as_str(),
        record.project_hash,
        record.project_path.as_deref().map(path_of),
        format,
        record.kind == SessionKind::Subagent,
        record.parent,
        record.start.millis(),
        record.last_updated.millis(),
        record.summary,
        record.first_user,
        record.last_user,
        record.user_messages.cast_signed(),
        record.messages.cast_signed(),
        record.tool_calls.cast_signed(),
        record.errors.cast_signed(),
        record.usage.input.cast_signed(),
        record.usage.output.cast_signed(),
        record.usage.cached.cast_signed(),
        record.usage.reasoning.cast_signed(),
        record.usage.tool_input.cast_signed(),
        record.usage.total.cast_signed(),
        record.models.join("\n"),
        record.resumable,
        record.damaged,
    ])?;
    Ok(())
}

pub(crate) fn put_problem(statement: &mut Statement<'_>, key: &Key<'_>, problem: &str) -> Result<()> {
    statement.execute(params![
        key.scope,
        path_of(key.path),
        key.within,
        key.stamp.size.cast_signed(),
        key.stamp.modified_ns,
        key.stamp.mark.cast_signed(),
        problem,
    ])?;
    Ok(())
}

/// Reads [`COLUMNS`].
pub(crate) fn record(row: &Row<'_>) -> Result<IndexRecord> {
    let count = |column: usize| row.get(column).map(i64::cast_unsigned);
    let models: String = row.get(23)?;
    Ok(IndexRecord {
        session_id: SessionId::from_file(row.get::<_, String>(1)?),
        project_hash: row.get(2)?,
        project_path: path_from(row, 3)?,
        inferred: false,
        file: path_from(row, 4)?.unwrap_or_default(),
        format: if row.get(5)? { SessionFormat::Jsonl } else { SessionFormat::Json },
        kind: if row.get(6)? { SessionKind::Subagent } else { SessionKind::Main },
        parent: row.get(7)?,
        start: Timestamp::from_millis(row.get(8)?),
        last_updated: Timestamp::from_millis(row.get(9)?),
        summary: row.get(10)?,
        first_user: row.get(11)?,
        last_user: row.get(12)?,
        user_messages: count(13)?,
        messages: count(14)?,
        tool_calls: count(15)?,
        errors: count(16)?,
        usage: Usage {
            input: count(17)?,
            output: count(18)?,
            cached: count(19)?,
            reasoning: count(20)?,
            tool_input: count(21)?,
            total: count(22)?,
            ..Usage::default()
        },
        models: models.lines().map(str::to_owned).collect(),
        resumable: row.get(24)?,
        damaged: row.get(25)?,
        size: count(26)?,
        modified_ms: row.get::<_, i64>(27)? / 1_000_000,
    })
}

/// Another agent's session converted to our record.
pub(crate) fn from_foreign(session: ForeignSession, stamp: Stamp) -> IndexRecord {
    let is_lines = session.path.extension().is_some_and(|extension| extension == "jsonl");
    IndexRecord {
        session_id: SessionId::from_file(session.id),
        project_hash: None,
        project_path: session.project,
        inferred: false,
        format: if is_lines { SessionFormat::Jsonl } else { SessionFormat::Json },
        kind: if session.is_subagent { SessionKind::Subagent } else { SessionKind::Main },
        parent: session.parent,
        start: session.start,
        last_updated: session.updated,
        summary: session.title,
        first_user: session.first_user,
        last_user: session.last_user,
        user_messages: session.user_messages,
        messages: session.messages,
        tool_calls: session.tool_calls,
        errors: session.errors,
        usage: Usage::default(),
        models: session.models,
        resumable: true,
        damaged: false,
        size: stamp.size,
        modified_ms: stamp.modified_ns / 1_000_000,
        file: session.path,
    }
}

/// Reads `size`, `modified_ns` and `mark` from this column on.
pub(crate) fn stamp_from(row: &Row<'_>, column: usize) -> Result<Stamp> {
    Ok(Stamp {
        size: row.get(column).map(i64::cast_unsigned)?,
        modified_ns: row.get(column + 1)?,
        mark: row.get(column + 2).map(i64::cast_unsigned)?,
    })
}

/// A path as the bytes it has on this system.
pub(crate) fn path_of(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

pub(crate) fn path_from(row: &Row<'_>, column: usize) -> Result<Option<PathBuf>> {
    let bytes: Option<Vec<u8>> = row.get(column)?;
    Ok(bytes.map(|bytes| {
        #[cfg(unix)]
        let path: OsString = std::os::unix::ffi::OsStringExt::from_vec(bytes);
        #[cfg(not(unix))]
        let path = OsString::from(String::from_utf8_lossy(&bytes).into_owned());
        PathBuf::from(path)
    }))
}
