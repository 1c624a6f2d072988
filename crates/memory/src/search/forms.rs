//! Finds other forms of query words.
//!
//! The text index knows the endings of English words. In every other language a word is found by what its forms have
//! in common: the beginning of an inflected word, a part of a joined one. It looks at few words, and at few rows of
//! each, so that a question costs the same in a large index.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, Result};

use super::words;
use crate::source::Source;

/// A word with so many rows of its own is not looked for in other forms.
const FEW: i64 = 8;
/// So many words of a question are, those with the fewest rows first.
const MAX_WORDS: usize = 4;
/// And so many of them inside of longer words.
const MAX_INSIDE: usize = 2;
/// Rows of one word.
const MAX_ROWS: i64 = 64;
/// The longest parts of a word that are words themselves.
const LONGEST_PART: usize = 12;
const SHORTEST_END: usize = 5;
/// Longer words are no words.
const LONGEST: usize = 24;
/// A word that is taken apart has at most so many letters.
const LONGEST_SPLIT: usize = 16;
/// The part of the best score that other forms can add to a chunk.
const BONUS: f64 = 0.6;
/// A chunk without any of the words themselves stays below all that have one.
const BELOW: f64 = 0.9;

/// Adds chunks with other forms of the words to those that have the words themselves.
pub(super) fn add(
    connection: &Connection,
    question: &str,
    source: Option<Source>,
    chunks: i64,
    found: &mut Vec<(i64, f64)>,
) -> Result<()> {
    let scores = scores(connection, &rare(connection, question)?, source, chunks)?;
    let best_form = scores.values().copied().fold(0.0, f64::max);
    if best_form <= 0.0 {
        return Ok(());
    }
    let best = found.iter().map(|(_, score)| *score).fold(0.0, f64::max);
    let least = found.iter().map(|(_, score)| *score).fold(f64::MAX, f64::min);
    let part = |number: &i64| scores.get(number).copied().unwrap_or(0.0) / best_form;
    let known: HashSet<i64> = found.iter().map(|(number, _)| *number).collect();
    let others: Vec<(i64, f64)> = scores
        .keys()
        .filter(|number| !known.contains(number))
        .map(|number| (*number, part(number) * if found.is_empty() { best_form } else { least * BELOW }))
        .collect();
    for (number, score) in found.iter_mut() {
        *score += BONUS * best * part(number);
    }
    found.extend(others);
    Ok(())
}

/// The words that hardly any chunk has, with how many do.
fn rare(connection: &Connection, question: &str) -> Result<Vec<(i64, String)>> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM pollux_fts WHERE pollux_fts MATCH ?1 LIMIT ?2)";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rare = Vec::new();
    for word in words::phrases(question).into_iter().filter(|word| is_word(word)) {
        let count: i64 = statement.query_row((words::quoted(&word), FEW), |row| row.get(0))?;
        if count < FEW {
            rare.push((count, word));
        }
    }
    rare.sort();
    rare.truncate(MAX_WORDS);
    Ok(rare)
}

fn is_word(word: &str) -> bool {
    word.chars().all(char::is_alphabetic) && (3..=LONGEST).contains(&word.chars().count())
}

/// Chunks with forms of the words: the rarer a form, the more it says.
fn scores(
    connection: &Connection,
    rare: &[(i64, String)],
    source: Option<Source>,
    chunks: i64,
) -> Result<HashMap<i64, f64>> {
    let mut scores = HashMap::new();
    for (place, (count, word)) in rare.iter().enumerate() {
        let mut rows = rows(connection, "pollux_fts", &expression(word, *count), source)?;
        if place < MAX_INSIDE && word.chars().count() >= words::LEAST_INSIDE {
            rows.extend(self::rows(connection, "pollux_trigram", &words::quoted(word), source)?);
        }
        rows.sort_unstable();
        rows.dedup();
        let weight = (1.0 + chunks.max(1) as f64 / (1.0 + rows.len() as f64)).ln();
        for row in rows {
            *scores.entry(row).or_insert(0.0) += weight;
        }
    }
    Ok(scores)
}

fn rows(connection: &Connection, table: &str, expression: &str, source: Option<Source>) -> Result<Vec<i64>> {
    if expression.is_empty() {
        return Ok(Vec::new());
    }
    // The latest ones, if there are too many.
    let of_source = format!("(SELECT source FROM pollux_chunks WHERE number = {table}.rowid) = ?3");
    let sql = format!(
        "SELECT rowid FROM {table} WHERE {table} MATCH ?1 AND {} ORDER BY rowid DESC LIMIT ?2",
        if source.is_some() { of_source.as_str() } else { "?3 IS NULL" }
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let values = (expression, MAX_ROWS, source.map(Source::as_str));
    statement.query_map(values, |row| row.get(0))?.collect()
}

/// What finds the word itself and its forms; empty for a word that is too short for any.
fn expression(word: &str, count: i64) -> String {
    let letters: Vec<char> = word.chars().collect();
    let length = letters.len();
    let part = |from: usize, to: usize| letters.get(from..to).unwrap_or_default().iter().collect::<String>();
    let stem = words::stem_length(length);
    if length < words::LEAST_STEM && count > 0 {
        return String::new();
    }
    let mut forms = vec![words::quoted(word), format!("{} *", words::quoted(&part(0, stem)))];
    // Shorter words that it begins with, and such that it ends with.
    forms.extend((words::LEAST_STEM..stem.min(LONGEST_PART + 1)).map(|end| words::quoted(&part(0, end))));
    let ends = (SHORTEST_END..=LONGEST_PART).filter(|size| size + 3 <= length);
    forms.extend(ends.map(|size| words::quoted(&part(length - size, length))));
    if (6..=LONGEST_SPLIT).contains(&length) {
        let places = 3..=length - 3;
        forms.extend(places.map(|at| words::quoted(&format!("{} {}", part(0, at), part(at, length)))));
    }
    forms.join(" OR ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_few_forms() {
        assert_eq!(
            expression("rollback", 0),
            "\"rollback\" OR \"rollba\" * OR \"roll\" OR \"rollb\" OR \"lback\" OR \"rol lback\" OR \"roll back\" OR \"rollb ack\""
        );
        assert_eq!(expression("tag", 0), "\"tag\" OR \"tag\" *");
        assert_eq!(expression("tag", 1), "");
        let longest = "x".repeat(LONGEST);
        assert!(expression(&longest, 0).matches(" OR ").count() < 32);
        assert!(is_word("копия") && !is_word("v2") && !is_word("ab") && !is_word(&"x".repeat(25)));
    }
}
