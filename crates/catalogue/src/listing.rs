//! Lists sessions from the index.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use pollux_session::{IndexRecord, SessionFormat};
use rusqlite::types::Value;
use rusqlite::{Connection, Result, Row, params_from_iter};

use crate::row::{self, COLUMNS, ID, ORIGIN, SESSION_ID, path_of};
use crate::scope::Scopes;
use crate::source::Origin;

/// Of two files with one session the later counts, and of two of the same time the log.
pub(crate) const ORDER: &str = "ORDER BY s.updated DESC, s.format DESC, s.id";

/// Which sessions are wanted; by default the main ones with something in them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of these projects; of all if there are none here.
    pub projects: Vec<PathBuf>,
    pub origin: Option<Origin>,
    /// At most so many.
    pub limit: Option<usize>,
    pub include_subagents: bool,
    /// Whether to include sessions without messages.
    pub include_empty: bool,
}

/// One session of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    pub origin: Origin,
    /// For sessions of other agents, the summary is their title, and `file` may be a database with many
    /// sessions.
    pub record: IndexRecord,
}

impl Listed {
    /// The title of the session: its summary, or else its first message.
    pub fn title(&self) -> &str {
        self.record.summary.as_deref().unwrap_or(&self.record.first_user)
    }
}

pub(crate) fn list(connection: &Connection, scopes: &Scopes, filter: &Filter) -> Result<Vec<Listed>> {
    let Some(limit) = filter.limit else { return all(connection, scopes, filter) };
    let mut listed = Vec::new();
    each(connection, scopes, filter, COLUMNS, |origin, row| {
        listed.push(Listed { origin, record: row::record(row)? });
        Ok(listed.len() < limit)
    })?;
    Ok(listed)
}

/// Without a limit, complete rows would have to be sorted, which costs SQLite more than reading them.
fn all(connection: &Connection, scopes: &Scopes, filter: &Filter) -> Result<Vec<Listed>> {
    let mut found = Vec::new();
    wanted(connection, scopes, filter, &format!("{COLUMNS}, s.id"), "", |origin, row| {
        let id: i64 = row.get(ID)?;
        found.push((id, Listed { origin, record: row::record(row)? }));
        Ok(true)
    })?;
    found.sort_by_cached_key(|(id, Listed { record, .. })| {
        (Reverse(record.last_updated), record.format == SessionFormat::Json, *id)
    });
    let mut seen = HashSet::new();
    found.retain(|(_, Listed { origin, record })| {
        let id = record.session_id.as_str();
        id.is_empty() || seen.insert((*origin, id.to_owned()))
    });
    Ok(found.into_iter().map(|(_, listed)| listed).collect())
}

/// Sessions by their numbers in the index.
pub(crate) fn chosen(
    connection: &Connection,
    ids: impl Iterator<Item = i64>,
) -> Result<HashMap<i64, Listed>> {
    let query =
        format!("SELECT {COLUMNS} FROM sessions AS s JOIN scopes AS c ON c.id = s.scope WHERE s.id = ?1");
    let mut statement = connection.prepare(&query)?;
    let mut chosen = HashMap::new();
    for id in ids {
        if chosen.contains_key(&id) {
            continue;
        }
        let mut rows = statement.query([id])?;
        let Some(row) = rows.next()? else { continue };
        if let Some(origin) = Origin::from_number(row.get(ORIGIN)?) {
            chosen.insert(id, Listed { origin, record: row::record(row)? });
        }
    }
    Ok(chosen)
}

/// Passes the selected sessions to a callback, latest first, until it stops. `columns` begin like [`COLUMNS`].
pub(crate) fn each(
    connection: &Connection,
    scopes: &Scopes,
    filter: &Filter,
    columns: &str,
    mut take: impl FnMut(Origin, &Row<'_>) -> Result<bool>,
) -> Result<()> {
    let mut seen = HashSet::new();
    wanted(connection, scopes, filter, columns, ORDER, |origin, row| {
        let id: String = row.get(SESSION_ID)?;
        if id.is_empty() || seen.insert((origin, id)) { take(origin, row) } else { Ok(true) }
    })
}

/// The selected rows, until the callback stops.
fn wanted(
    connection: &Connection,
    scopes: &Scopes,
    filter: &Filter,
    columns: &str,
    order: &str,
    mut take: impl FnMut(Origin, &Row<'_>) -> Result<bool>,
) -> Result<()> {
    let mut conditions =
        vec![format!("s.scope IN ({})", scopes.numbers(filter.origin)), "s.problem IS NULL".to_owned()];
    if !filter.include_subagents {
        conditions.push("NOT s.subagent".to_owned());
    }
    if !filter.include_empty {
        conditions.push("s.resumable".to_owned());
    }
    if !filter.projects.is_empty() {
        let marks = vec!["?"; filter.projects.len()].join(",");
        conditions.push(format!("coalesce(s.project, c.project) IN ({marks})"));
    }
    let query = format!(
        "SELECT {columns} FROM sessions AS s JOIN scopes AS c ON c.id = s.scope WHERE {} {order}",
        conditions.join(" AND ")
    );
    let projects = filter.projects.iter().map(|project| Value::Blob(path_of(project).to_vec()));
    let mut statement = connection.prepare(&query)?;
    let mut rows = statement.query(params_from_iter(projects))?;
    while let Some(row) = rows.next()? {
        let Some(origin) = Origin::from_number(row.get(ORIGIN)?) else { continue };
        if !take(origin, row)? {
            break;
        }
    }
    Ok(())
}
