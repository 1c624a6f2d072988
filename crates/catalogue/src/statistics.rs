//! Totals over the indexed sessions.

use std::collections::BTreeMap;

use rusqlite::{Connection, Result};

use crate::scope::Scopes;
use crate::source::Origin;

/// How much there is, sub-agents included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    pub sessions: u64,
    pub by_origin: BTreeMap<Origin, u64>,
    pub messages: u64,
    pub tool_calls: u64,
    pub errors: u64,
    /// Of our own sessions.
    pub tokens: u64,
    /// Of the sessions' files.
    pub bytes: u64,
    /// Sessions whose texts are not indexed yet.
    pub without_texts: u64,
    /// Of the index itself.
    pub index_bytes: u64,
}

pub(crate) fn collect(connection: &Connection, scopes: &Scopes) -> Result<Statistics> {
    let query = format!(
        "SELECT c.origin, count(*), coalesce(sum(s.messages), 0), coalesce(sum(s.tool_calls), 0),
         coalesce(sum(s.errors), 0), coalesce(sum(s.total), 0), coalesce(sum(s.size), 0),
         coalesce(sum(s.texts_stale), 0)
         FROM sessions AS s JOIN scopes AS c ON c.id = s.scope
         WHERE s.problem IS NULL AND s.scope IN ({}) GROUP BY c.origin",
        scopes.numbers(None)
    );
    let mut statistics = Statistics::default();
    let mut statement = connection.prepare(&query)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let count = |column: usize| row.get(column).map(i64::cast_unsigned);
        if let Some(origin) = Origin::from_number(row.get(0)?) {
            statistics.by_origin.insert(origin, count(1)?);
        }
        statistics.sessions += count(1)?;
        statistics.messages += count(2)?;
        statistics.tool_calls += count(3)?;
        statistics.errors += count(4)?;
        statistics.tokens += count(5)?;
        statistics.bytes += count(6)?;
        statistics.without_texts += count(7)?;
    }
    let size = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";
    statistics.index_bytes = connection.query_row(size, [], |row| row.get(0)).map(i64::cast_unsigned)?;
    Ok(statistics)
}
