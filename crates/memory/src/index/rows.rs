//! Updates the rows of one file in one transaction, leaving unchanged rows alone.

use std::collections::{HashMap, HashSet};

use pollux_domain::embedding::Origin;
use rusqlite::{Connection, Result, Transaction, TransactionBehavior, params};

use super::{cache, database};
use crate::chunk::Chunk;
use crate::dates;
use crate::search::words;
use crate::source::{Listed, Provenance, Source, sessions};
use crate::vector;

/// A file that is to be written.
pub(crate) struct Prepared {
    pub(crate) listed: Listed,
    pub(crate) hash: String,
    /// Chunks that are not there yet.
    pub(crate) added: Vec<Added>,
    /// Numbers and ids of those that are there and should not be.
    pub(crate) gone: Vec<(i64, String)>,
}

pub(crate) struct Added {
    pub(crate) id: String,
    pub(crate) chunk: Chunk,
    pub(crate) vector_hash: String,
    pub(crate) vector: Option<Vec<f32>>,
    /// Not from the cache.
    pub(crate) is_new: bool,
}

/// What every row needs to know.
pub(crate) struct Context<'a> {
    pub(crate) origin: &'a Origin,
    pub(crate) has_vectors: bool,
    pub(crate) keeps_cache: bool,
    /// The length of every vector.
    pub(crate) dims: Option<usize>,
    pub(crate) now_ms: i64,
}

/// Chunks with their ids, and rows with their numbers.
pub(crate) struct Difference {
    pub(crate) added: Vec<(String, Chunk)>,
    pub(crate) gone: Vec<(i64, String)>,
}

/// Compares a file's chunks with its rows. A row that still lacks its vector is written again.
pub(crate) fn compare(
    connection: &Connection,
    listed: &Listed,
    chunks: Vec<(String, Chunk)>,
    wants_vectors: bool,
) -> Result<Difference> {
    let mut rows: HashMap<String, (i64, bool)> = HashMap::new();
    // The plus keeps SQLite from walking through everything of a source instead.
    let mut statement = connection.prepare_cached(
        "SELECT c.id, coalesce(p.number, 0), coalesce(p.embedded, 0) FROM chunks c LEFT JOIN pollux_chunks p ON p.id = c.id
         WHERE c.path = ?1 AND +c.source = ?2",
    )?;
    let mut found = statement.query(params![listed.path, listed.source.as_str()])?;
    while let Some(row) = found.next()? {
        rows.insert(row.get(0)?, (row.get(1)?, row.get::<_, i64>(2)? != 0));
    }
    let mut seen = HashSet::new();
    let mut added = Vec::new();
    for (id, chunk) in chunks {
        if !seen.insert(id.clone()) {
            continue;
        }
        match rows.get(&id) {
            Some((number, embedded)) if *number != 0 && (*embedded || !wants_vectors) => {
                rows.remove(&id);
            }
            Some(_) | None => added.push((id, chunk)),
        }
    }
    let gone = rows.into_iter().map(|(id, (number, _))| (number, id)).collect();
    Ok(Difference { added, gone })
}

/// Writes one file.
pub(crate) fn replace(transaction: &Transaction<'_>, file: &Prepared, context: &Context<'_>) -> Result<()> {
    for (number, id) in &file.gone {
        remove_chunk(transaction, *number, id, context.has_vectors)?;
    }
    for added in &file.added {
        insert_chunk(transaction, &file.listed, added, context)?;
    }
    let Listed { path, source, stamp, .. } = &file.listed;
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO files (path, source, hash, mtime, size) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![path, source.as_str(), file.hash, stamp.modified_ms(), stamp.size])?;
    stamp_file(transaction, &file.listed, context.now_ms)
}

/// Notes when a file was seen as it is.
pub(crate) fn stamp_file(connection: &Connection, listed: &Listed, now_ms: i64) -> Result<()> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO pollux_files (path, modified_ns, size, indexed_ms) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![listed.path, listed.stamp.modified_ns, listed.stamp.size, now_ms])?;
    Ok(())
}

/// Removes a file with everything that came from it; how many chunks.
pub(crate) fn remove_file(transaction: &Transaction<'_>, path: &str, has_vectors: bool) -> Result<usize> {
    let rows: Vec<(i64, String)> = transaction
        .prepare_cached(
            "SELECT coalesce(p.number, 0), c.id FROM chunks c LEFT JOIN pollux_chunks p ON p.id = c.id WHERE c.path = ?1",
        )?
        .query_map([path], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_>>()?;
    for (number, id) in &rows {
        remove_chunk(transaction, *number, id, has_vectors)?;
    }
    transaction.execute("DELETE FROM files WHERE path = ?1", [path])?;
    transaction.execute("DELETE FROM pollux_files WHERE path = ?1", [path])?;
    Ok(rows.len())
}

fn remove_chunk(connection: &Connection, number: i64, id: &str, has_vectors: bool) -> Result<()> {
    connection.prepare_cached("DELETE FROM chunks WHERE id = ?1")?.execute([id])?;
    for table in ["chunks_fts", "pollux_fts", "pollux_trigram"] {
        connection.prepare_cached(&format!("DELETE FROM {table} WHERE rowid = ?1"))?.execute([number])?;
    }
    for table in ["pollux_chunks", "pollux_q8"] {
        connection.prepare_cached(&format!("DELETE FROM {table} WHERE number = ?1"))?.execute([number])?;
    }
    if has_vectors && database::has_table(connection, "chunks_vec")? {
        connection.prepare_cached("DELETE FROM chunks_vec WHERE id = ?1")?.execute([id])?;
    }
    Ok(())
}

fn insert_chunk(
    connection: &Connection,
    listed: &Listed,
    added: &Added,
    context: &Context<'_>,
) -> Result<()> {
    let Added { id, chunk, vector_hash, vector, is_new } = added;
    // The cache may have others; a chunk without a vector gets one with the next sync.
    let vector = vector.as_deref().filter(|vector| context.dims.is_none_or(|dims| dims == vector.len()));
    let embedding = vector.map_or_else(|| "[]".to_owned(), cache::write);
    let (start, end) = (to_i64(chunk.start_line), to_i64(chunk.end_line));
    let source = listed.source.as_str();
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO chunks (id, path, source, start_line, end_line, hash, model, text, embedding, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            id, listed.path, source, start, end, chunk.hash, context.origin.model, chunk.text, embedding, context.now_ms
        ])?;
    let side = Side { id, chunk, path: &listed.path, source: listed.source, vector_hash, vector };
    let number = side.insert(connection)?;
    insert_text(connection, number, &side, &context.origin.model)?;
    if let Some(vector) = vector {
        if context.has_vectors {
            connection
                .prepare_cached("INSERT INTO chunks_vec (id, embedding) VALUES (?1, ?2)")?
                .execute(params![id, vector::to_bytes(vector)])?;
        }
        if *is_new && context.keeps_cache {
            cache::keep(connection, context.origin, vector_hash, vector, context.now_ms)?;
        }
    }
    Ok(())
}

/// The part of a chunk that is ours.
struct Side<'a> {
    id: &'a str,
    chunk: &'a Chunk,
    path: &'a str,
    source: Source,
    vector_hash: &'a str,
    vector: Option<&'a [f32]>,
}

impl Side<'_> {
    fn insert(&self, connection: &Connection) -> Result<i64> {
        connection
            .prepare_cached(
                "INSERT INTO pollux_chunks (id, path, source, provenance, date, vector_hash, embedded)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                self.id,
                self.path,
                self.source.as_str(),
                self.chunk.provenance.as_str(),
                self.chunk.date,
                self.vector_hash,
                i64::from(self.vector.is_some())
            ])?;
        let number = connection.last_insert_rowid();
        if let Some(vector) = self.vector {
            let small = vector::Quantised::of(vector);
            connection
                .prepare_cached("INSERT INTO pollux_q8 (number, source, scale, q8) VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![number, self.source as i64, f64::from(small.scale), small.bytes()])?;
        }
        Ok(number)
    }
}

fn insert_text(connection: &Connection, number: i64, side: &Side<'_>, model: &str) -> Result<()> {
    let Side { chunk, path, .. } = side;
    connection
        .prepare_cached(
            "INSERT INTO chunks_fts (rowid, text, id, path, source, model, start_line, end_line)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            number,
            chunk.text,
            side.id,
            path,
            side.source.as_str(),
            model,
            to_i64(chunk.start_line),
            to_i64(chunk.end_line)
        ])?;
    let date = chunk.date.as_deref().map(dates::spoken).unwrap_or_default();
    connection
        .prepare_cached("INSERT INTO pollux_fts (rowid, body, trail, path) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![
        number,
        words::spaced(&chunk.text),
        format!("{} {date}", words::spaced(&chunk.trail)),
        words::spaced(path)
    ])?;
    insert_parts(connection, number, &chunk.text)
}

fn insert_parts(connection: &Connection, number: i64, text: &str) -> Result<()> {
    let parts = words::found_by_parts(text);
    if !parts.is_empty() {
        connection
            .prepare_cached("INSERT INTO pollux_trigram (rowid, body) VALUES (?1, ?2)")?
            .execute(params![number, parts])?;
    }
    Ok(())
}

/// The fingerprint of the workspace that transcripts were sorted for.
const SORTED_FOR: &str = "sorted";

/// Transcripts that were sorted before: those in the index, and those that belong elsewhere.
pub(crate) fn sorted_before(connection: &Connection, fingerprint: &str) -> Result<sessions::Known> {
    let mut known = sessions::Known::new();
    let mut read = |sql: &str, is_here: bool| -> Result<()> {
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            known.insert(row.get(0)?, (row.get(1)?, row.get(2)?, is_here));
        }
        Ok(())
    };
    let is_current = database::state(connection, SORTED_FOR)?.as_deref() == Some(fingerprint);
    if is_current && database::has_table(connection, "pollux_elsewhere")? {
        read("SELECT path, modified_ns, size FROM pollux_elsewhere", false)?;
    }
    read("SELECT path, modified_ns, size FROM pollux_files WHERE path LIKE 'sessions/%'", true)?;
    Ok(known)
}

/// Notes the transcripts that belong elsewhere; their names and times, nothing of what was said.
pub(crate) fn note_elsewhere(
    connection: &Connection,
    elsewhere: &[Listed],
    known: &sessions::Known,
    fingerprint: &str,
) -> Result<()> {
    let is_known = |listed: &Listed| {
        known.get(&listed.path) == Some(&(listed.stamp.modified_ns, listed.stamp.size, false))
    };
    if elsewhere.iter().all(is_known) {
        return Ok(());
    }
    let transaction = connection.unchecked_transaction()?;
    transaction.execute_batch(
        "CREATE TABLE IF NOT EXISTS pollux_elsewhere (path TEXT PRIMARY KEY, modified_ns INTEGER NOT NULL, size INTEGER NOT NULL);
         DELETE FROM pollux_elsewhere;",
    )?;
    for listed in elsewhere {
        transaction
            .prepare_cached("INSERT INTO pollux_elsewhere (path, modified_ns, size) VALUES (?1, ?2, ?3)")?
            .execute(params![listed.path, listed.stamp.modified_ns, listed.stamp.size])?;
    }
    database::set_state(&transaction, SORTED_FOR, fingerprint)?;
    transaction.commit()
}

/// Whether another program has written to the file since.
pub(crate) fn is_foreign(connection: &Connection) -> Result<bool> {
    connection.query_row(
        "SELECT (SELECT count(*) FROM chunks) != (SELECT count(*) FROM pollux_chunks)
             OR (SELECT coalesce(max(id), 0) FROM chunks_fts_content) > (SELECT coalesce(max(number), 0) FROM pollux_chunks)",
        [],
        |row| row.get(0),
    )
}

/// Raise it when other words are found by a part of them.
const PARTS_VERSION: &str = "2";
const PARTS: &str = "parts";

/// Makes the table of parts again when it was made in another way.
pub(crate) fn renew_parts(connection: &mut Connection) -> Result<()> {
    if database::state(connection, PARTS)?.as_deref() == Some(PARTS_VERSION) {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute("DELETE FROM pollux_trigram", [])?;
    {
        let mut statement = transaction
            .prepare("SELECT p.number, c.text FROM pollux_chunks p JOIN chunks c ON c.id = p.id")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            insert_parts(&transaction, row.get(0)?, row.get_ref(1)?.as_str()?)?;
        }
    }
    database::set_state(&transaction, PARTS, PARTS_VERSION)?;
    transaction.commit()
}

/// Makes our side tables and the text index for chunks that another program wrote.
pub(crate) fn adopt(transaction: &Transaction<'_>) -> Result<()> {
    for table in ["chunks_fts", "pollux_fts", "pollux_trigram", "pollux_chunks", "pollux_q8", "pollux_files"]
    {
        transaction.execute(&format!("DELETE FROM {table}"), [])?;
    }
    // Chunks without a file are found and removed as those of a file that is gone.
    transaction.execute(
        "INSERT OR IGNORE INTO files (path, source, hash, mtime, size) SELECT DISTINCT path, source, '', 0, 0 FROM chunks",
        [],
    )?;
    let mut statement = transaction.prepare(
        "SELECT id, path, source, start_line, end_line, hash, model, text, embedding FROM chunks ORDER BY rowid",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (id, path, model): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(6)?);
        let source = Source::parse(row.get_ref(2)?.as_str()?).unwrap_or(Source::Memory);
        let chunk = Chunk {
            start_line: row.get::<_, f64>(3)? as usize,
            end_line: row.get::<_, f64>(4)? as usize,
            hash: row.get(5)?,
            text: row.get(7)?,
            trail: String::new(),
            date: dates::of_path(&path),
            // The author is unknown.
            provenance: Provenance::Untrusted,
        };
        let vector = cache::parse(row.get_ref(8)?.as_str()?);
        let vector = (!vector.is_empty()).then_some(vector);
        let side = Side {
            id: &id,
            chunk: &chunk,
            path: &path,
            source,
            vector_hash: &chunk.hash,
            vector: vector.as_deref(),
        };
        let number = side.insert(transaction)?;
        insert_text(transaction, number, &side, &model)?;
    }
    Ok(())
}

fn to_i64(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
