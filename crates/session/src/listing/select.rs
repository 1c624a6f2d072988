//! Picking one session from a list.

use std::path::{Path, PathBuf};

use super::{Listing, SessionInfo};

/// Why no session was picked. The texts are upstream's; a caller puts its own prefix before them.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SelectError {
    #[error("No previous sessions found for this project.")]
    NoSessions,
    #[error(
        "Invalid session identifier \"{given}\".\n  Searched for sessions in {}.\n  Use --list-sessions to \
         see available sessions, then use --resume {{number}}, --resume {{uuid}}, or --resume latest.",
        searched.display()
    )]
    NoMatch { given: String, searched: PathBuf },
}

/// `latest` (or nothing) is the session updated last; otherwise an exact id or a number of the list.
pub fn select<'a>(
    listing: &'a Listing,
    given: &str,
    searched: &Path,
) -> Result<&'a SessionInfo, SelectError> {
    let given = given.trim();
    if listing.sessions.is_empty() {
        return Err(SelectError::NoSessions);
    }
    let found = if given.is_empty() || given == "latest" {
        listing.sessions.iter().max_by_key(|session| (session.last_updated, session.start))
    } else {
        position(listing, given).and_then(|index| listing.sessions.get(index))
    };
    found.ok_or_else(|| SelectError::NoMatch { given: given.to_owned(), searched: searched.to_owned() })
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
