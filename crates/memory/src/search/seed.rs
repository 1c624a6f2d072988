//! gimli's ranking formula, for comparison.
//!
//! Its rank of words is always 1, since SQLite's is negative; so words alone never pass the least score.

use std::collections::HashMap;

use rusqlite::{Connection, Result, params};

use super::answer::Explain;
use crate::index::{cache, database};
use crate::source::Source;
use crate::vector;

/// What the formula is given.
pub(super) struct Formula<'a> {
    pub(super) question: &'a str,
    pub(super) vector: Option<&'a [f32]>,
    pub(super) model: &'a str,
    pub(super) sources: &'a [Source],
    pub(super) weights: (f64, f64),
    pub(super) candidates: usize,
    pub(super) min_score: f64,
    pub(super) max_results: usize,
    pub(super) has_vectors: bool,
}

/// Ids of chunks and their scores, best first.
pub(super) fn search(connection: &Connection, formula: &Formula<'_>) -> Result<Vec<(String, Explain)>> {
    let mut found: HashMap<String, Explain> = HashMap::new();
    let mut order: Vec<String> = Vec::new();
    for (id, score) in formula.vectors(connection)? {
        order.push(id.clone());
        found.entry(id).or_default().cosine = Some(score);
    }
    for (id, score) in formula.words(connection)? {
        if !found.contains_key(&id) {
            order.push(id.clone());
        }
        found.entry(id).or_default().keyword = Some(score);
    }
    let (vector_weight, text_weight) = formula.weights;
    let mut scored: Vec<(String, Explain)> = order
        .into_iter()
        .filter_map(|id| {
            let raw = found.get(&id)?;
            let vector = vector_weight * raw.cosine.unwrap_or(0.0);
            let text = text_weight * raw.keyword.unwrap_or(0.0);
            Some((id, Explain { vector, text, ..*raw }))
        })
        .collect();
    scored.sort_by(|a, b| b.1.sum().total_cmp(&a.1.sum()));
    scored.retain(|(_, explain)| explain.sum() >= formula.min_score);
    scored.truncate(formula.max_results);
    Ok(scored)
}

impl Formula<'_> {
    fn in_sources(&self) -> String {
        let names: Vec<String> = self.sources.iter().map(|source| format!("'{}'", source.as_str())).collect();
        format!("source IN ({})", names.join(","))
    }

    fn words(&self, connection: &Connection) -> Result<Vec<(String, f64)>> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let tokens: Vec<String> = self
            .question
            .split(|c| !is_word(c))
            .filter(|word| !word.is_empty())
            .map(|word| format!("\"{word}\""))
            .collect();
        if tokens.is_empty() {
            return Ok(Vec::new());
        }
        let sql = format!(
            "SELECT id, bm25(chunks_fts) AS rank FROM chunks_fts WHERE chunks_fts MATCH ?1 AND model = ?2 AND {}
             ORDER BY rank ASC LIMIT ?3",
            self.in_sources()
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let limit = i64::try_from(self.candidates).unwrap_or(i64::MAX);
        let rows = statement.query_map(params![tokens.join(" AND "), self.model, limit], |row| {
            Ok((row.get(0)?, 1.0 / (1.0 + row.get::<_, f64>(1)?.max(0.0))))
        })?;
        rows.collect()
    }

    fn vectors(&self, connection: &Connection) -> Result<Vec<(String, f64)>> {
        let Some(query) = self.vector else { return Ok(Vec::new()) };
        let mut found: Vec<(String, f64)> = if self.has_vectors
            && database::has_table(connection, "chunks_vec")?
        {
            let sql = format!(
                "SELECT c.id, vec_distance_cosine(v.embedding, ?1) FROM chunks_vec v JOIN chunks c ON c.id = v.id
                 WHERE c.model = ?2 AND c.{} ORDER BY 2 ASC LIMIT ?3",
                self.in_sources()
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let limit = i64::try_from(self.candidates).unwrap_or(i64::MAX);
            let rows = statement.query_map(params![vector::to_bytes(query), self.model, limit], |row| {
                Ok((row.get(0)?, row.get::<_, Option<f64>>(1)?))
            })?;
            // A vector of zeros has no distance.
            let found = rows.filter_map(|row| match row {
                Ok((id, distance)) => distance.map(|distance| Ok((id, 1.0 - distance))),
                Err(error) => Some(Err(error)),
            });
            found.collect::<Result<_>>()?
        } else {
            let sql = format!("SELECT id, embedding FROM chunks WHERE model = ?1 AND {}", self.in_sources());
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query([self.model])?;
            let mut all = Vec::new();
            while let Some(row) = rows.next()? {
                let embedding = cache::parse(row.get_ref(1)?.as_str()?);
                if !embedding.is_empty() {
                    all.push((row.get(0)?, vector::cosine(query, &embedding)));
                }
            }
            all
        };
        found.sort_by(|a, b| b.1.total_cmp(&a.1));
        found.truncate(self.candidates);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_of_zeros_in_the_table_does_not_fail_a_search() {
        let folder = tempfile::tempdir().unwrap();
        let opened = database::open_to_write(&folder.path().join("i.db"), true).unwrap();
        assert!(opened.has_vectors);
        let connection = &opened.connection;
        database::make_vector_table(connection, 2).unwrap();
        for (id, vector) in [("none", [0.0, 0.0]), ("some", [1.0, 0.0])] {
            let row = "INSERT INTO chunks VALUES (?1, 'a.md', 'memory', 1, 1, '', 'm', '', '[]', 0)";
            connection.execute(row, [id]).unwrap();
            let row = "INSERT INTO chunks_vec (id, embedding) VALUES (?1, ?2)";
            connection.execute(row, params![id, vector::to_bytes(&vector)]).unwrap();
        }
        let formula = Formula {
            question: "",
            vector: Some(&[1.0, 0.0]),
            model: "m",
            sources: &[Source::Memory],
            weights: (1.0, 0.0),
            candidates: 9,
            min_score: 0.0,
            max_results: 9,
            has_vectors: true,
        };
        let found = search(connection, &formula).unwrap();
        assert_eq!(found.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["some"]);
    }
}
