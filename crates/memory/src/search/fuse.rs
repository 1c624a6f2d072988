//! Combines keyword and vector rankings.

use std::collections::{HashMap, HashSet};

use super::answer::Explain;
use super::words;
use crate::dates;

/// The part of a score that time can take away, and after how many days half of it is gone.
const RECENCY_PART: f64 = 0.1;
const HALF_AGE_DAYS: f64 = 30.0;
/// Two notes with so many words in common are about the same thing, if the newer one has as much to do with
/// the question.
const SAME: f64 = 0.5;
/// So many, if both have every word of the question.
const SAME_SUBJECT: f64 = 0.3;
/// Shorter texts are too alike to be about the same.
const LEAST_WORDS: usize = 4;
const STEP: f64 = 1e-6;

/// A candidate chunk.
#[derive(Debug, Clone, Default)]
pub(super) struct Candidate {
    pub(super) number: i64,
    pub(super) explain: Explain,
}

/// What both ways found.
pub(super) struct Candidates {
    /// How well words fit; the more the better.
    pub(super) words: Vec<(i64, f64)>,
    /// Cosines.
    pub(super) near: Vec<(i64, f64)>,
    /// Chunks that have the very name that was asked for, and how many of them.
    pub(super) named: HashMap<i64, usize>,
}

/// The candidates with both scores on one scale, best first. A chunk that only its vector speaks for has to
/// be near enough.
pub(super) fn fuse(found: &Candidates, weights: (f64, f64), min_cosine: f64) -> Vec<Candidate> {
    let weights = match (found.near.is_empty(), found.words.is_empty()) {
        (true, _) => (0.0, 1.0),
        (false, true) => (1.0, 0.0),
        (false, false) => weights,
    };
    let mut all: HashMap<i64, Explain> = HashMap::new();
    let (least, most) = range(&found.near);
    for (number, cosine) in &found.near {
        let explain = all.entry(*number).or_default();
        explain.cosine = Some(*cosine);
        explain.vector = weights.0 * scaled(*cosine, least, most);
    }
    let (least, most) = range(&found.words);
    for (number, rank) in &found.words {
        let explain = all.entry(*number).or_default();
        explain.keyword = Some(rank / (1.0 + rank));
        explain.text = weights.1 * scaled(*rank, least, most);
    }
    for number in found.named.keys() {
        all.entry(*number).or_default();
    }
    let most_names = found.named.values().max().copied().unwrap_or(0);
    let is_near = |explain: &Explain| {
        explain.keyword.is_some() || explain.cosine.is_some_and(|cosine| cosine >= min_cosine)
    };
    let mut candidates: Vec<Candidate> = all
        .into_iter()
        .filter(|(number, explain)| is_near(explain) || found.named.contains_key(number))
        .map(|(number, mut explain)| {
            let base = explain.sum();
            explain.name = match found.named.get(&number) {
                // What has the name is above all that has not.
                Some(count) if *count == most_names => (1.0 - base) / 2.0,
                _ if most_names > 0 => -base / 2.0,
                _ => 0.0,
            };
            Candidate { number, explain }
        })
        .collect();
    candidates.sort_by(order);
    candidates
}

/// What was written down long ago counts a little less; what has no date does not change.
pub(super) fn age(candidate: &mut Candidate, date: Option<&str>, today: i64) {
    let Some(day) = date.and_then(dates::days) else { return };
    let faded = 1.0 - (-(today - day).max(0) as f64 / HALF_AGE_DAYS).exp2();
    candidate.explain.recency = -candidate.explain.sum() * RECENCY_PART * faded;
}

/// A dated text.
pub(super) struct Dated<'a> {
    pub(super) date: Option<&'a str>,
    pub(super) text: &'a str,
}

/// Ranks older notes behind newer ones on the same subject.
pub(super) fn supersede(candidates: &mut [Candidate], texts: &[Dated<'_>], question: &str) {
    let asked: HashSet<String> = words::phrases(question).into_iter().collect();
    let set = |dated: &Dated<'_>| dated.date.map(|_| words::set(dated.text)).unwrap_or_default();
    let sets: Vec<HashSet<String>> = texts.iter().map(set).collect();
    let mut newest_first: Vec<usize> = (0..candidates.len())
        .filter(|index| texts.get(*index).is_some_and(|dated| dated.date.is_some()))
        .collect();
    newest_first.sort_by_key(|index| std::cmp::Reverse(texts.get(*index).and_then(|dated| dated.date)));
    let replaces = |newer: usize, older: usize| {
        let (Some(newer), Some(older)) = (sets.get(newer), sets.get(older)) else { return false };
        let common = words::jaccard(newer, older);
        let as_much = asked.iter().all(|word| newer.contains(word) || !older.contains(word));
        let everything =
            asked.len() > 1 && asked.iter().all(|word| newer.contains(word) && older.contains(word));
        newer.len().min(older.len()) >= LEAST_WORDS
            && as_much
            && (common >= SAME || (everything && common >= SAME_SUBJECT))
    };
    for (place, older) in newest_first.iter().enumerate() {
        let date = texts.get(*older).and_then(|dated| dated.date);
        let newer = newest_first.iter().take(place).filter(|newer| {
            texts.get(**newer).and_then(|dated| dated.date) > date && replaces(**newer, *older)
        });
        let limit = newer
            .filter_map(|newer| candidates.get(*newer))
            .map(|newer| newer.explain.sum() - STEP)
            .min_by(f64::total_cmp);
        if let (Some(limit), Some(candidate)) = (limit, candidates.get_mut(*older)) {
            candidate.explain.superseded = (limit - candidate.explain.sum()).min(0.0);
        }
    }
}

/// The best first; of two that are equal, the one that was written later.
pub(super) fn order(one: &Candidate, other: &Candidate) -> std::cmp::Ordering {
    other.explain.sum().total_cmp(&one.explain.sum()).then(other.number.cmp(&one.number))
}

fn range(scores: &[(i64, f64)]) -> (f64, f64) {
    scores
        .iter()
        .fold((f64::MAX, f64::MIN), |(least, most), (_, score)| (least.min(*score), most.max(*score)))
}

fn scaled(score: f64, least: f64, most: f64) -> f64 {
    if most > least { (score - least) / (most - least) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(words: &[(i64, f64)], near: &[(i64, f64)]) -> Candidates {
        Candidates { words: words.to_vec(), near: near.to_vec(), named: HashMap::new() }
    }

    fn numbers(candidates: &[Candidate]) -> Vec<i64> {
        candidates.iter().map(|candidate| candidate.number).collect()
    }

    #[test]
    fn both_ways_count_and_the_parts_sum_to_the_score() {
        let found = found(&[(1, 9.0), (2, 5.0), (3, 1.0)], &[(2, 0.9), (1, 0.5), (4, 0.4)]);
        let candidates = fuse(&found, (0.5, 0.5), 0.35);
        assert_eq!(numbers(&candidates), [2, 1, 4, 3]);
        assert!((candidates[0].explain.sum() - 0.75).abs() < 1e-9);
        assert_eq!(
            numbers(&fuse(&found, (0.5, 0.5), 0.45)),
            [2, 1, 3],
            "4 has its vector alone, and is not near"
        );
    }

    #[test]
    fn one_way_alone_has_all_the_weight() {
        assert!((fuse(&found(&[(1, 2.0)], &[]), (0.7, 0.3), 0.35)[0].explain.sum() - 1.0).abs() < 1e-9);
        assert!((fuse(&found(&[], &[(1, 0.6)]), (0.7, 0.3), 0.35)[0].explain.sum() - 1.0).abs() < 1e-9);
        assert!(fuse(&found(&[], &[]), (0.7, 0.3), 0.35).is_empty());
    }

    #[test]
    fn an_exact_name_match_comes_first() {
        let mut found = found(&[(1, 9.0), (2, 1.0)], &[]);
        found.named.insert(2, 1);
        let candidates = fuse(&found, (0.5, 0.5), 0.35);
        assert_eq!(numbers(&candidates), [2, 1]);
        assert!(candidates.iter().all(|candidate| (0.0..=1.0).contains(&candidate.explain.sum())));
    }

    #[test]
    fn a_newer_note_is_before_the_older_one_that_it_replaces() {
        let mut candidates = fuse(&found(&[(1, 9.0), (2, 8.0), (3, 1.0)], &[]), (0.5, 0.5), 0.35);
        let texts = [
            Dated { date: Some("2026-01-01"), text: "the staging server is db1 in rome" },
            Dated { date: Some("2026-02-01"), text: "the staging server is db7 in rome" },
            Dated { date: Some("2026-03-01"), text: "lunch was very good today" },
        ];
        supersede(&mut candidates, &texts, "where is the staging server");
        candidates.sort_by(order);
        assert_eq!(numbers(&candidates), [2, 1, 3]);
    }

    #[test]
    fn only_dated_notes_age() {
        let mut candidate = Candidate { number: 1, explain: Explain { text: 1.0, ..Explain::default() } };
        age(&mut candidate, None, 20_000);
        assert_eq!(candidate.explain.recency, 0.0);
        age(&mut candidate, Some("2024-09-04"), dates::days("2024-10-04").unwrap());
        assert!((candidate.explain.recency + 0.05).abs() < 1e-9);
    }
}
