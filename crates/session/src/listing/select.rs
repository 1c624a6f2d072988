//! Selects one session from a list.

use super::{Listing, SessionInfo};
use crate::projects::KnownProject;

/// Shorter prefixes are too ambiguous.
const MIN_PREFIX: usize = 4;
/// Maximum number of ids listed for an ambiguous prefix.
const MAX_NAMED: usize = 5;

/// Why no session was selected, in upstream's words; the caller adds its own prefix.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SelectError {
    #[error("No previous sessions found for this project.")]
    NoSessions,
    #[error(
        "Invalid session identifier \"{given}\".\n  Searched {}.\n  Use --list-sessions to see available \
         sessions, then use --resume {{number}}, --resume {{uuid}}, or --resume latest.",
        counted(*sessions, *everywhere)
    )]
    NoMatch { given: String, sessions: usize, everywhere: bool },
    #[error(
        "Session identifier \"{given}\" matches several sessions: {}. Use a longer prefix of the id.",
        named(candidates)
    )]
    Ambiguous { given: String, candidates: Vec<String> },
}

/// How many sessions were searched, and where.
fn counted(sessions: usize, everywhere: bool) -> String {
    match (sessions, everywhere) {
        (1, false) => "the only session of this project".to_owned(),
        (count, false) => format!("the {count} sessions of this project"),
        (1, true) => "the only session of all projects".to_owned(),
        (count, true) => format!("the {count} sessions of all projects"),
    }
}

fn named(candidates: &[String]) -> String {
    let shown = candidates.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match candidates.len().saturating_sub(MAX_NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// `latest` (or nothing) is the session updated last; otherwise an exact id, a number of the list, or the
/// beginning of an id that only one session has.
pub fn select<'a>(listing: &'a Listing, given: &str) -> Result<&'a SessionInfo, SelectError> {
    let given = given.trim();
    if listing.sessions.is_empty() {
        return Err(SelectError::NoSessions);
    }
    if let Some(index) = position(listing, given) {
        return listing.sessions.get(index).ok_or(SelectError::NoSessions);
    }
    pick(&listing.sessions.iter().collect::<Vec<_>>(), given, false, |session| session)
}

/// The same among the sessions of all projects, where numbers mean nothing.
pub fn select_anywhere<'a>(
    listings: &'a [(KnownProject, Listing)],
    given: &str,
) -> Result<(&'a KnownProject, &'a SessionInfo), SelectError> {
    let all: Vec<(&KnownProject, &SessionInfo)> = listings
        .iter()
        .flat_map(|(project, listing)| listing.sessions.iter().map(move |session| (project, session)))
        .collect();
    if all.is_empty() {
        return Err(SelectError::NoSessions);
    }
    let given = given.trim();
    if let Some(found) = all.iter().find(|(_, session)| session.id.as_str() == given) {
        return Ok(*found);
    }
    pick(&all, given, true, |(_, session)| session)
}

/// The latest, or the only one whose id begins so.
fn pick<'a, T: Copy>(
    sessions: &[T],
    given: &str,
    everywhere: bool,
    session_of: impl Fn(T) -> &'a SessionInfo,
) -> Result<T, SelectError> {
    let no_match = || SelectError::NoMatch { given: given.to_owned(), sessions: sessions.len(), everywhere };
    if given.is_empty() || given == "latest" {
        let age = |item: &T| (session_of(*item).last_updated, session_of(*item).start);
        return sessions.iter().copied().max_by_key(age).ok_or_else(no_match);
    }
    if given.chars().count() < MIN_PREFIX {
        return Err(no_match());
    }
    let fitting: Vec<T> =
        sessions.iter().copied().filter(|item| session_of(*item).id.as_str().starts_with(given)).collect();
    match fitting.as_slice() {
        [] => Err(no_match()),
        [only] => Ok(*only),
        _ => {
            let candidates = fitting.iter().map(|item| session_of(*item).id.to_string()).collect();
            Err(SelectError::Ambiguous { given: given.to_owned(), candidates })
        }
    }
}

/// The place of the session with this id or number in the list.
pub(crate) fn position(listing: &Listing, given: &str) -> Option<usize> {
    let by_id = listing.sessions.iter().position(|session| session.id.as_str() == given);
    by_id.or_else(|| {
        let number: usize = given.parse().ok()?;
        // `+2`, `02` and `2abc` are not numbers of the list.
        let is_plain = number.to_string() == given;
        (is_plain && (1..=listing.sessions.len()).contains(&number)).then(|| number - 1)
    })
}
