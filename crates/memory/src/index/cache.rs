//! The embedding cache, keyed by the hash of the text.

use std::collections::HashMap;

use pollux_domain::embedding::Origin;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Result, params, params_from_iter};

use crate::vector;

const PER_QUERY: usize = 400;

/// The vectors that are known.
pub(crate) fn look_up(
    connection: &Connection,
    origin: &Origin,
    hashes: &[String],
) -> Result<HashMap<String, Vec<f32>>> {
    let mut found = HashMap::new();
    for part in hashes.chunks(PER_QUERY) {
        let marks = vec!["?"; part.len()].join(",");
        let sql = format!(
            "SELECT hash, embedding FROM embedding_cache
             WHERE provider = ? AND model = ? AND provider_key = ? AND hash IN ({marks})"
        );
        let keys = [&origin.provider, &origin.model, &origin.key].into_iter().chain(part);
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query(params_from_iter(keys))?;
        while let Some(row) = rows.next()? {
            let vector = parse(row.get_ref(1)?.as_str()?);
            if vector::has_direction(&vector) {
                found.insert(row.get(0)?, vector);
            }
        }
    }
    Ok(found)
}

pub(crate) fn keep(
    connection: &Connection,
    origin: &Origin,
    hash: &str,
    vector: &[f32],
    now_ms: i64,
) -> Result<()> {
    let sql = "INSERT INTO embedding_cache (provider, model, provider_key, hash, embedding, dims, updated_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
               ON CONFLICT DO UPDATE SET embedding = excluded.embedding, dims = excluded.dims, updated_at = excluded.updated_at";
    let mut statement = connection.prepare_cached(sql)?;
    let dims = i64::try_from(vector.len()).unwrap_or(0);
    statement.execute(params![
        origin.provider,
        origin.model,
        origin.key,
        hash,
        write(vector),
        dims,
        now_ms
    ])?;
    Ok(())
}

/// Drops the oldest when there are too many.
pub(crate) fn prune(connection: &Connection, max_entries: usize) -> Result<usize> {
    let count: i64 = connection.query_row("SELECT count(*) FROM embedding_cache", [], |row| row.get(0))?;
    let excess = count - i64::try_from(max_entries).unwrap_or(i64::MAX);
    if excess <= 0 {
        return Ok(0);
    }
    connection.execute(
        "DELETE FROM embedding_cache WHERE rowid IN (SELECT rowid FROM embedding_cache ORDER BY updated_at LIMIT ?1)",
        [excess],
    )
}

/// Takes over what another index knows.
pub(crate) fn copy_from(connection: &Connection, other: &std::path::Path) -> Result<usize> {
    // A path need not be UTF-8.
    let path = ToSqlOutput::Borrowed(ValueRef::Text(other.as_os_str().as_encoded_bytes()));
    connection.execute("ATTACH DATABASE ?1 AS other", [path])?;
    let copied = connection
        .execute("INSERT OR IGNORE INTO main.embedding_cache SELECT * FROM other.embedding_cache", []);
    connection.execute_batch("DETACH DATABASE other")?;
    copied
}

/// A vector in the tables: a list of numbers. What is none is empty.
pub(crate) fn parse(text: &str) -> Vec<f32> {
    serde_json::from_str(text).unwrap_or_default()
}

pub(crate) fn write(vector: &[f32]) -> String {
    serde_json::to_string(vector).unwrap_or_else(|_| "[]".to_owned())
}
