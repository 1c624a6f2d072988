//! Finds what is to be forgotten: an id, a path or a phrase as a person gives it, and where it is known.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::Forget;
use crate::index::error::IndexError;
use crate::index::{claim, database};
use crate::redaction::Tombstone;
use crate::setup::Setup;
use crate::source::{Listed, Source, sessions};
use crate::workspace::Space;

/// Shorter beginnings of an id are too ambiguous.
const MIN_PREFIX: usize = 4;
/// Maximum number of ids listed for an ambiguous prefix.
const MAX_NAMED: usize = 5;

/// Why nothing was forgotten.
#[derive(Debug, thiserror::Error)]
pub enum ForgetError {
    #[error("no session in memory matches `{given}`")]
    NoSession { given: String },
    #[error("`{given}` matches several sessions: {}", ids.join(", "))]
    Ambiguous { given: String, ids: Vec<String> },
    #[error("no note in memory matches `{given}`")]
    NoNote { given: String },
    #[error("`{given}` contains no words to forget")]
    NoWords { given: String },
    #[error(transparent)]
    Index(#[from] IndexError),
}

impl ForgetError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoSession { .. } => Some(
                "run `pollux sessions list` to see numbers and ids; add `--all-workspaces` for other workspaces",
            ),
            Self::Ambiguous { .. } => Some("use a longer prefix of the id"),
            Self::NoNote { .. } => Some("run `pollux memory search` to find a note's path"),
            Self::NoWords { .. } => None,
            Self::Index(error) => error.hint(),
        }
    }
}

/// What is forgotten in a place.
pub(super) enum Target {
    /// A note, by its name in the index.
    Note(String),
    Session(String),
    Phrase(Tombstone),
}

/// The places that know it, each with what it is there.
pub(super) fn find(
    what: &Forget,
    places: Vec<Setup>,
) -> Result<Result<Vec<(Setup, Target)>, ForgetError>, IndexError> {
    Ok(match what {
        Forget::Phrase(phrase) => match Tombstone::of(phrase) {
            None => Err(ForgetError::NoWords { given: phrase.clone() }),
            Some(tombstone) => {
                Ok(places.into_iter().map(|place| (place, Target::Phrase(tombstone.clone()))).collect())
            }
        },
        Forget::Session(given) => session(given, places),
        Forget::Path(given) => {
            let mut found = Vec::new();
            for place in places {
                found.extend(note(given, &place).map(|target| (place, target)));
            }
            if found.is_empty() { Err(ForgetError::NoNote { given: given.clone() }) } else { Ok(found) }
        }
    })
}

/// A note or transcript, by its path or citation.
fn note(given: &str, place: &Setup) -> Option<Target> {
    let mut known: Vec<Listed> = place.places().list();
    known.extend(place.transcripts().here);
    let rows = indexed(place);
    for given in [Some(given), without_lines(given)].into_iter().flatten() {
        let asked = place.workspace.join(given);
        let listed = known
            .iter()
            .find(|listed| listed.path == given || listed.file == asked)
            .or_else(|| known.iter().find(|listed| is_same(&listed.file, &asked)));
        match listed {
            Some(listed) if listed.source == Source::Sessions => {
                return Some(Target::Session(listed.session()));
            }
            Some(listed) => return Some(Target::Note(listed.path.clone())),
            None => {}
        }
        // A file that is gone.
        if let Some((path, source)) =
            rows.iter().find(|(path, _)| path == given || place.workspace.join(path) == asked)
        {
            return Some(match source {
                Source::Memory => Target::Note(path.clone()),
                Source::Sessions => Target::Session(sessions::id_of(Path::new(path))),
            });
        }
    }
    None
}

fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// `memory/a.md` of `memory/a.md#L3-L9`.
fn without_lines(given: &str) -> Option<&str> {
    let (path, lines) = given.rsplit_once('#')?;
    let is_line = |text: &str| {
        let number = text.strip_prefix('L').unwrap_or(text);
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    lines.split('-').all(is_line).then_some(path)
}

/// The places that know a session by this id, or by the beginning of it.
fn session(given: &str, places: Vec<Setup>) -> Result<Vec<(Setup, Target)>, ForgetError> {
    let places: Vec<(Setup, Sessions)> = places
        .into_iter()
        .map(|place| {
            let known = Sessions::of(&place);
            (place, known)
        })
        .collect();
    let known: BTreeSet<&String> = places.iter().flat_map(|(_, known)| &known.here).collect();
    let others: BTreeSet<&String> = places.iter().flat_map(|(_, known)| &known.elsewhere).collect();
    let exact = [&known, &others].into_iter().flatten().find(|id| id.as_str() == given);
    let id = match exact {
        Some(id) => (*id).clone(),
        None => beginning(given, &known)?
            .or(beginning(given, &others)?)
            .ok_or_else(|| ForgetError::NoSession { given: given.to_owned() })?,
    };
    // Elsewhere means: in none of these places, if it is in none at all.
    let is_known = known.contains(&id);
    let knows = |known: &Sessions| if is_known { known.here.contains(&id) } else { true };
    let knowing = places.into_iter().filter(|(_, known)| knows(known));
    Ok(knowing.map(|(place, _)| (place, Target::Session(id.clone()))).collect())
}

/// The only id that begins so.
fn beginning(given: &str, ids: &BTreeSet<&String>) -> Result<Option<String>, ForgetError> {
    if given.chars().count() < MIN_PREFIX {
        return Ok(None);
    }
    let fitting: Vec<&String> = ids.iter().filter(|id| id.starts_with(given)).copied().collect();
    match fitting.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some((*only).clone())),
        several => {
            let ids = several.iter().take(MAX_NAMED).map(|id| (*id).clone()).collect();
            Err(ForgetError::Ambiguous { given: given.to_owned(), ids })
        }
    }
}

/// The ids of sessions that a place knows.
struct Sessions {
    here: BTreeSet<String>,
    elsewhere: BTreeSet<String>,
}

impl Sessions {
    fn of(place: &Setup) -> Self {
        let sorted = place.transcripts();
        let elsewhere: BTreeSet<String> = sorted.elsewhere.iter().map(Listed::session).collect();
        let mut here: BTreeSet<String> = sorted.here.iter().map(Listed::session).collect();
        let rows = indexed(place).into_iter().filter(|(_, source)| *source == Source::Sessions);
        here.extend(rows.map(|(path, _)| sessions::id_of(Path::new(&path))));
        // Entries of sessions whose transcripts are gone; none says where it comes from.
        let listed = place.store_entries();
        let ids = listed.values().filter_map(|entry| entry.get("sessionId").and_then(Value::as_str));
        here.extend(ids.filter(|id| !elsewhere.contains(*id)).map(str::to_owned));
        Self { here, elsewhere }
    }
}

/// The names in the index of a place. One that cannot be read has none; forgetting will say why.
fn indexed(place: &Setup) -> Vec<(String, Source)> {
    let read = || -> Option<Vec<(String, Source)>> {
        let opened = database::open_to_read(&place.index_file(), false).ok()??;
        let connection = &opened.connection;
        let is_own = place.space != Space::Workspace || claim::is_of(connection, place.id().key()).ok()?;
        if !is_own || !database::has_table(connection, "files").ok()? {
            return None;
        }
        let mut statement = connection.prepare("SELECT path, source FROM files").ok()?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?))).ok()?;
        let known = rows.filter_map(Result::ok).map(|(path, source): (String, String)| {
            let source = Source::parse(&source).unwrap_or(Source::Memory);
            (path, source)
        });
        Some(known.filter(|(path, source)| place.admits(path, *source)).collect())
    };
    read().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_citation_are_no_part_of_a_path() {
        for (given, path) in
            [("a.md#L3", Some("a.md")), ("a.md#L3-L9", Some("a.md")), ("a#b.md#3-9", Some("a#b.md"))]
        {
            assert_eq!(without_lines(given), path, "{given}");
        }
        for given in ["a.md", "a.md#", "a.md#L", "a.md#top", "a#1.md", "a.md#L3-"] {
            assert_eq!(without_lines(given), None, "{given}");
        }
    }
}
