//! The calls of past sessions. Only reads.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::time::{Clock, SystemClock};
use pollux_host::Loaded;
use pollux_session::{Listing, Message, list, load, select};

use super::super::{PastCall, PastSession, PastSessions};

/// These sessions, by index, id or file; without any, all of the project or of the home.
pub(super) fn sessions(
    loaded: &Loaded,
    which: &[String],
    all_projects: bool,
) -> Result<PastSessions, Failure> {
    let own = loaded.project.read_chat_dirs();
    let dirs = if all_projects { all_dirs(loaded, own) } else { own.to_vec() };
    let listing = list(&dirs, SystemClock.now());
    let here = |path: &Path| path.parent().is_some_and(|folder| own.iter().any(|dir| dir == folder));
    if which.is_empty() {
        let found = listing.sessions.iter().map(|session| past(session.id.as_str(), &session.path, here));
        return Ok(PastSessions { sessions: found.collect(), unreadable: unreadable(&listing) });
    }
    let mut chosen = PastSessions::default();
    for word in which {
        let file = loaded.env.cwd().join(word);
        if file.is_file() {
            // A file that is named is taken for one of this project.
            chosen.sessions.push(past(word, &file, |_| true));
            continue;
        }
        let found = select(&listing, word).map_err(|error| Failure::from_error(ExitKind::Input, &error))?;
        chosen.sessions.push(past(found.id.as_str(), &found.path, here));
    }
    Ok(chosen)
}

/// The calls of a session in their order; the error names the file.
pub(super) fn calls(session: &PastSession) -> Result<Vec<PastCall>, String> {
    let stored = load(&session.path).map_err(|error| match error.source() {
        Some(cause) => format!("Warning: {error}: {cause}"),
        None => format!("Warning: {error}"),
    })?;
    let replies = stored.messages.into_iter().filter_map(|message| match message {
        Message::Reply(reply) => Some(reply.calls),
        Message::User(_) | Message::Notice(_) | Message::Other { .. } => None,
    });
    Ok(replies.flatten().map(|call| PastCall { tool: call.name, args: call.args }).collect())
}

fn past(id: &str, path: &Path, is_here: impl Fn(&Path) -> bool) -> PastSession {
    PastSession { id: id.to_owned(), path: path.to_path_buf(), is_here: is_here(path) }
}

/// This project's folders, then those of every other project in the home.
fn all_dirs(loaded: &Loaded, own: &[PathBuf]) -> Vec<PathBuf> {
    let mut dirs = own.to_vec();
    for parent in [loaded.home.tmp_dir(), loaded.home.gemini_dir().join("projects")] {
        let entries = fs::read_dir(parent).into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> = entries.map(|entry| entry.path().join("chats")).collect();
        found.sort();
        dirs.extend(found.into_iter().filter(|dir| dir.is_dir() && !own.contains(dir)));
    }
    dirs
}

fn unreadable(listing: &Listing) -> Vec<String> {
    listing.unreadable.iter().map(|(_, reason)| format!("Warning: {reason}")).collect()
}
