//! Keyword search, weighted by rarity.

use std::collections::HashMap;

use rusqlite::{Connection, Result};

use super::{forms, words};
use crate::source::Source;

/// In a small index every word is looked for.
const SMALL: i64 = 2000;
/// In a large one so many chunks are compared, or one in [`SHARE`]; common words are left out.
const LEAST_BUDGET: i64 = 600;
const SHARE: i64 = 40;
/// Rows of a word that are counted first.
const FIRST_COUNT: i64 = 64;
/// Weights of the text, the headings and the path.
const WEIGHTS: &str = "1.0, 1.0, 1.0";

/// Chunks with words of the question, and how well they fit: more is better.
pub(super) fn search(
    connection: &Connection,
    question: &str,
    more: &[String],
    count: usize,
    source: Option<Source>,
    chunks: i64,
) -> Result<Vec<(i64, f64)>> {
    let mut found = exactly(connection, question, more, source, chunks)?;
    forms::add(connection, question, source, chunks, &mut found)?;
    found.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
    found.truncate(count);
    Ok(found)
}

/// Chunks that have the words themselves.
fn exactly(
    connection: &Connection,
    question: &str,
    more: &[String],
    source: Option<Source>,
    chunks: i64,
) -> Result<Vec<(i64, f64)>> {
    let mut phrases: Vec<String> = words::phrases(question);
    phrases.extend(words::joined(question));
    phrases.extend(more.iter().map(|date| date.replace('-', " ")));
    let budget = if chunks > SMALL { LEAST_BUDGET.max(chunks / SHARE) } else { SMALL };
    let mut is_common = false;
    if chunks > SMALL {
        (phrases, is_common) = rare(connection, phrases, budget)?;
    }
    if phrases.is_empty() {
        return Ok(Vec::new());
    }
    let expression: Vec<String> = phrases.iter().map(|phrase| words::quoted(phrase)).collect();
    let of_source = "AND (SELECT source FROM pollux_chunks WHERE number = pollux_fts.rowid) = ?3";
    let sql = format!(
        "SELECT rowid, bm25(pollux_fts, {WEIGHTS}) FROM pollux_fts WHERE pollux_fts MATCH ?1 {} {} LIMIT ?2",
        if source.is_some() { of_source } else { "AND ?3 IS NULL" },
        // Of a word that is everywhere the latest chunks are compared, and not all of them.
        if is_common { "ORDER BY rowid DESC" } else { "" }
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let values = (expression.join(" OR "), budget, source.map(Source::as_str));
    // SQLite's rank is negative, the best lowest.
    statement.query_map(values, |row| Ok((row.get(0)?, -row.get::<_, f64>(1)?)))?.collect()
}

/// The rarest words, as many as can be compared in time. The others would hardly change the order: a word
/// weighs the less the more chunks have it. Also whether even the rarest is too common.
fn rare(connection: &Connection, phrases: Vec<String>, budget: i64) -> Result<(Vec<String>, bool)> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM pollux_fts WHERE pollux_fts MATCH ?1 LIMIT ?2)";
    let mut statement = connection.prepare_cached(sql)?;
    let mut counted: Vec<(i64, String)> = Vec::with_capacity(phrases.len());
    let mut rest = phrases;
    let mut limit = FIRST_COUNT;
    // Most common words are out after a few rows: what is left of the budget is less than what they have.
    loop {
        let mut more = Vec::new();
        for phrase in rest {
            match statement.query_row((words::quoted(&phrase), limit), |row| row.get(0))? {
                0 => {}
                count if count < limit => counted.push((count, phrase)),
                _ => more.push(phrase),
            }
        }
        let sum: i64 = counted.iter().map(|(count, _)| count).sum();
        let is_full = sum + limit > budget && !counted.is_empty();
        if more.is_empty() || is_full || limit > budget {
            counted.extend(more.into_iter().map(|phrase| (limit, phrase)));
            break;
        }
        rest = more;
        limit = (limit * 4).min(budget + 1);
    }
    counted.sort();
    let mut sum = 0;
    let mut kept = Vec::new();
    for (count, phrase) in counted {
        if !kept.is_empty() && sum + count > budget {
            break;
        }
        sum += count;
        kept.push(phrase);
    }
    Ok((kept, sum > budget))
}

/// Chunks that hold names of the question as they are written, or as a part of a longer one.
pub(super) fn named(connection: &Connection, question: &str, count: usize) -> Result<HashMap<i64, usize>> {
    let mut found = HashMap::new();
    let sql = "SELECT rowid FROM pollux_trigram WHERE pollux_trigram MATCH ?1 LIMIT ?2";
    let limit = i64::try_from(count).unwrap_or(i64::MAX);
    for name in words::asked_names(question) {
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query((words::quoted(&name), limit))?;
        while let Some(row) = rows.next()? {
            *found.entry(row.get(0)?).or_default() += 1;
        }
    }
    Ok(found)
}

/// Chunks of the file that the question names by its path, its name, or its name without the ending.
pub(super) fn of_file(connection: &Connection, question: &str) -> Result<HashMap<i64, usize>> {
    let name = question.trim().to_lowercase();
    if name.is_empty() || name.contains(char::is_whitespace) || name.len() > 200 {
        return Ok(HashMap::new());
    }
    let sql = "SELECT p.number, lower(f.path) FROM files f JOIN chunks c ON c.path = f.path JOIN pollux_chunks p ON p.id = c.id
               WHERE lower(f.path) = ?1 OR lower(f.path) LIKE '%/' || ?2 ESCAPE '\\' OR lower(f.path) LIKE '%/' || ?2 || '.md' ESCAPE '\\'
                  OR lower(f.path) = ?1 || '.md'
               LIMIT 200";
    let escaped = name.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    let mut statement = connection.prepare_cached(sql)?;
    let tier = |path: String| match () {
        () if path == name => 3,
        () if path.ends_with(&format!("/{name}")) => 2,
        () => 1,
    };
    let rows = statement.query_map((&name, &escaped), |row| Ok((row.get(0)?, tier(row.get(1)?))))?;
    rows.collect()
}
