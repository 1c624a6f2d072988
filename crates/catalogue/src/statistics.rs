//! Totals over the indexed sessions.

use std::collections::BTreeMap;

use rusqlite::{Connection, Result};

use crate::listing::ORDER;
use crate::scope::Scopes;
use crate::source::Origin;

/// How much there is, sub-agents included. A session with several files is one session; of those, the file that is
/// listed counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    pub sessions: u64,
    pub by_origin: BTreeMap<Origin, u64>,
    pub messages: u64,
    pub tool_calls: u64,
    pub errors: u64,
    /// Of our own sessions.
    pub tokens: u64,
    /// Of all session files.
    pub bytes: u64,
    /// Sessions whose texts are not indexed yet.
    pub without_texts: u64,
    /// Of the index itself.
    pub index_bytes: u64,
}

pub(crate) fn collect(connection: &Connection, scopes: &Scopes) -> Result<Statistics> {
    // A session without an id is like no other.
    let query = format!(
        "SELECT origin, sum(is_listed), sum(messages * is_listed), sum(tool_calls * is_listed),
         sum(errors * is_listed), sum(total * is_listed), sum(size), sum(texts_stale)
         FROM (SELECT c.origin, s.messages, s.tool_calls, s.errors, s.total, s.size, s.texts_stale,
             row_number() OVER (
                 PARTITION BY c.origin, CASE s.session_id WHEN '' THEN s.id ELSE s.session_id END {ORDER}
             ) = 1 AS is_listed
             FROM sessions AS s JOIN scopes AS c ON c.id = s.scope
             WHERE s.problem IS NULL AND s.scope IN ({}))
         GROUP BY origin",
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
