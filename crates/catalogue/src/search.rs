//! Full-text search.

use std::collections::HashMap;
use std::ops::Range;

use pollux_domain::time::Timestamp;
use rusqlite::{Connection, Result, params};

use crate::listing::{self, Filter, Listed};
use crate::phrase::{GAP, Phrase, spaced};
use crate::scope::Scopes;
use crate::text_index::PLACE_BITS;

/// Number of the latest hits that are ranked; a common word has far more.
const MAX_COMPARED: usize = 1000;
/// The search stops after this many hits in unwanted sessions.
const MAX_PASSED: usize = 100_000;
/// Limit of hits per session, so that one does not hide the others.
const MAX_IN_SESSION: usize = 3;
const DEFAULT_LIMIT: usize = 50;
/// The weight halves after this many days.
const HALF_AGE_DAYS: f64 = 60.0;
/// Number of words in a snippet.
const SNIPPET_WORDS: i64 = 24;
const OPEN: char = '\u{1}';
const CLOSE: char = '\u{2}';

/// A match in one message.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    pub session: Listed,
    /// Empty for a title.
    pub message_id: String,
    pub kind: HitKind,
    pub time: Option<Timestamp>,
    pub snippet: Snippet,
}

/// The kind of text that matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HitKind {
    Title,
    User,
    Agent,
    Tool,
    Error,
}

/// A piece of a text on one line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snippet {
    pub text: String,
    /// The bytes that were searched for.
    pub matches: Vec<Range<usize>>,
}

impl HitKind {
    const ALL: [Self; 5] = [Self::Title, Self::User, Self::Agent, Self::Tool, Self::Error];

    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::User => "user",
            Self::Agent => "agent",
            Self::Tool => "tool",
            Self::Error => "error",
        }
    }

    /// The number in the index.
    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Title => 0,
            Self::User => 1,
            Self::Agent => 2,
            Self::Tool => 3,
            Self::Error => 4,
        }
    }

    fn from_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }

    /// Users search for messages more often than for commands.
    fn weight(self) -> f64 {
        match self {
            Self::Title => 2.0,
            Self::User => 1.5,
            Self::Agent => 1.0,
            Self::Error => 0.8,
            Self::Tool => 0.6,
        }
    }
}

/// A session that may be searched.
struct Searched {
    id: i64,
    updated: Timestamp,
}

/// A message with all the words.
struct Candidate {
    text: i64,
    session: i64,
    kind: HitKind,
    time: Option<Timestamp>,
    message: String,
    score: f64,
}

pub(crate) fn search(
    connection: &Connection,
    scopes: &Scopes,
    words: &str,
    filter: &Filter,
    now: Timestamp,
) -> Result<Vec<Hit>> {
    let Some(phrase) = Phrase::typed(words) else { return Ok(Vec::new()) };
    let sessions = sessions(connection, scopes, filter)?;
    let latest = latest(connection, &phrase, &sessions)?;
    let candidates = scored(connection, &phrase, &sessions, &latest, now)?;
    let best = best(candidates, filter.limit.unwrap_or(DEFAULT_LIMIT));
    let mut snippets = snippets(connection, &phrase, &best)?;
    let listed = listing::chosen(connection, best.iter().map(|candidate| candidate.session))?;
    let mut hits = Vec::new();
    for candidate in best {
        let Some(session) = listed.get(&candidate.session) else { continue };
        hits.push(Hit {
            session: session.clone(),
            message_id: candidate.message,
            kind: candidate.kind,
            time: candidate.time,
            snippet: snippets.remove(&candidate.text).unwrap_or_default(),
        });
    }
    Ok(hits)
}

/// The sessions that are wanted, by the number of their texts.
fn sessions(connection: &Connection, scopes: &Scopes, filter: &Filter) -> Result<HashMap<i64, Searched>> {
    let mut sessions = HashMap::new();
    let columns = "c.origin, s.session_id, s.id, s.text_id, s.updated";
    listing::each(connection, scopes, filter, columns, |_, row| {
        if let Some(text_id) = row.get(3)? {
            let updated = Timestamp::from_millis(row.get(4)?);
            sessions.insert(text_id, Searched { id: row.get(2)?, updated });
        }
        Ok(true)
    })?;
    Ok(sessions)
}

/// The latest messages with the words. They come in the order of their numbers without being ranked, so a
/// common word costs no more than a rare one; for the same reason SQLite's own ranking, which examines every
/// occurrence, is not used.
fn latest(connection: &Connection, phrase: &Phrase, sessions: &HashMap<i64, Searched>) -> Result<Vec<i64>> {
    let mut statement =
        connection.prepare("SELECT rowid FROM words WHERE words MATCH ?1 ORDER BY rowid DESC")?;
    let mut rows = statement.query([&phrase.expression])?;
    let mut latest = Vec::new();
    let mut passed = 0;
    while latest.len() < MAX_COMPARED
        && passed < MAX_PASSED
        && let Some(row) = rows.next()?
    {
        let text: i64 = row.get(0)?;
        if sessions.contains_key(&(text >> PLACE_BITS)) {
            latest.push(text);
        } else {
            passed += 1;
        }
    }
    Ok(latest)
}

fn scored(
    connection: &Connection,
    phrase: &Phrase,
    sessions: &HashMap<i64, Searched>,
    latest: &[i64],
    now: Timestamp,
) -> Result<Vec<Candidate>> {
    let mut statement = connection.prepare("SELECT kind, time, message, text FROM texts WHERE id = ?1")?;
    let mut candidates = Vec::new();
    for text in latest {
        let Some(session) = sessions.get(&(text >> PLACE_BITS)) else { continue };
        candidates.push(statement.query_row([text], |row| {
            let kind = HitKind::from_number(row.get(0)?).unwrap_or(HitKind::Agent);
            let time = row.get::<_, Option<i64>>(1)?.map(Timestamp::from_millis);
            let days = (now.millis() - time.unwrap_or(session.updated).millis()).max(0) as f64 / 86_400_000.0;
            let words = row.get_ref(3)?.as_str()?;
            let score = kind.weight() * relevance(words, &phrase.words) / (1.0 + days / HALF_AGE_DAYS);
            Ok(Candidate { text: *text, session: session.id, kind, time, message: row.get(2)?, score })
        })?);
    }
    Ok(candidates)
}

/// BM25 of one text. Every candidate contains every word, so the rarity of a word makes no difference.
fn relevance(text: &str, words: &[String]) -> f64 {
    const SATURATION: f64 = 1.2;
    const LENGTH_WEIGHT: f64 = 0.75;
    const USUAL_LENGTH: f64 = 500.0;
    let lowered = text.to_lowercase();
    let length = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * lowered.len() as f64 / USUAL_LENGTH;
    let of_word = |word: &String| {
        // The index may have found it in another spelling.
        let count = lowered.matches(word.as_str()).count().max(1) as f64;
        count * (SATURATION + 1.0) / (count + SATURATION * length)
    };
    words.iter().map(of_word).sum()
}

/// The best of them, a few of each session, best first.
fn best(mut candidates: Vec<Candidate>, limit: usize) -> Vec<Candidate> {
    candidates.sort_by(|a, b| b.score.total_cmp(&a.score).then(b.text.cmp(&a.text)));
    let mut in_session: HashMap<i64, usize> = HashMap::new();
    candidates.retain(|candidate| {
        let count = in_session.entry(candidate.session).or_default();
        *count += 1;
        *count <= MAX_IN_SESSION
    });
    candidates.truncate(limit);
    candidates
}

/// Snippets of the matching texts. A small index over them alone marks exactly what the large one matched, in
/// every script.
fn snippets(connection: &Connection, phrase: &Phrase, best: &[Candidate]) -> Result<HashMap<i64, Snippet>> {
    connection.execute_batch(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.shown USING fts5 (text, tokenize = \"unicode61 remove_diacritics 2\");
         DELETE FROM temp.shown;",
    )?;
    let mut text = connection.prepare("SELECT text FROM texts WHERE id = ?1")?;
    let mut insert = connection.prepare("INSERT INTO temp.shown (rowid, text) VALUES (?1, ?2)")?;
    for candidate in best {
        let text: String = text.query_row([candidate.text], |row| row.get(0))?;
        insert.execute(params![candidate.text, spaced(&text)])?;
    }
    let query = "SELECT rowid, snippet(shown, 0, ?2, ?3, '…', ?4) FROM temp.shown WHERE shown MATCH ?1";
    let mut statement = connection.prepare(query)?;
    let marks = (OPEN.to_string(), CLOSE.to_string());
    let rows = statement.query_map(params![phrase.expression, marks.0, marks.1, SNIPPET_WORDS], |row| {
        Ok((row.get(0)?, marked(&row.get::<_, String>(1)?)))
    })?;
    rows.collect()
}

/// One line of a text with marks around the matches.
fn marked(text: &str) -> Snippet {
    let mut snippet = Snippet::default();
    let mut start = None;
    for character in text.chars() {
        match character {
            GAP => {}
            OPEN => start = Some(snippet.text.len()),
            CLOSE => {
                let range = start.take().unwrap_or(snippet.text.len())..snippet.text.len();
                match snippet.matches.last_mut() {
                    // Letters indexed separately are one word for users.
                    Some(last) if last.end == range.start => last.end = range.end,
                    _ => snippet.matches.push(range),
                }
            }
            space if space.is_whitespace() => {
                if !snippet.text.is_empty() && !snippet.text.ends_with(' ') {
                    snippet.text.push(' ');
                }
            }
            other => snippet.text.push(other),
        }
    }
    snippet.text.truncate(snippet.text.trim_end().len());
    snippet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_ranges_of_one_line() {
        let snippet =
            marked("…fix\n the \u{1}build\u{2}  \u{1}now\u{2} \u{1}日\u{2}\u{200b}\u{200b}\u{1}本\u{2}\n");
        assert_eq!(snippet.text, "…fix the build now 日本");
        let found: Vec<&str> =
            snippet.matches.iter().map(|range| snippet.text.get(range.clone()).unwrap()).collect();
        assert_eq!(found, ["build", "now", "日本"]);
    }
}
