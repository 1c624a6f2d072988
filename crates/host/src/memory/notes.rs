//! Daily notes: facts the model wants to keep from a conversation that is about to be summarised.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pollux_config::files::{self, FileError, FileLock, LockError, Mode};
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::one_line;
use pollux_domain::time::{Clock, SystemClock};
use pollux_memory::{AuthorshipError, ModelNotes};

/// Maximum number of notes per compression.
const MAX_NOTES: usize = 20;
/// Maximum length of a note in characters.
const NOTE: usize = 400;
const FOLDER: &str = "memory";
const NOTHING_TO_NOTE: &str = "NO_REPLY";

/// Why notes were not saved.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoteError {
    #[error("`{}` is a symbolic link, which could point outside the workspace", path.display())]
    Link { path: PathBuf },
    #[error(transparent)]
    Authorship(#[from] AuthorshipError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    File(#[from] FileError),
}

/// The notes in a reply; headings and other lines are dropped.
pub(super) fn noteworthy(reply: &str) -> Vec<String> {
    if reply.trim_start().starts_with(NOTHING_TO_NOTE) {
        return Vec::new();
    }
    let items = reply.lines().filter_map(|line| line.trim().strip_prefix("- "));
    let clean = items.map(|item| cut(&one_line(&redacted(item)), NOTE));
    clean.filter(|item| !item.is_empty()).take(MAX_NOTES).collect()
}

/// Appends to the notes of the day, and records that the model wrote them. Waits so long for each lock.
pub(super) fn append(
    workspace: &Path,
    authors: &ModelNotes,
    notes: &[String],
    wait: Duration,
) -> Result<(), NoteError> {
    if notes.is_empty() {
        return Ok(());
    }
    let now = SystemClock.now().to_iso();
    let day: String = now.chars().take(10).collect();
    let file = notes_file(workspace, &day);
    let folder = workspace.join(FOLDER);
    for path in [&folder, &file] {
        if fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink()) {
            return Err(NoteError::Link { path: path.clone() });
        }
    }
    files::create_folder(&folder, Mode::Shared)?;
    let _lock = FileLock::acquire_within(&file, wait)?;
    let mut text = files::read_text(&file)?.unwrap_or_else(|| format!("# {day}\n"));
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let lines: Vec<String> = notes.iter().map(|note| format!("- {note}")).collect();
    authors.add(&lines, wait)?;
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
    files::replace(&file, text.as_bytes(), Mode::Shared)?;
    Ok(())
}

/// The notes file of a day.
fn notes_file(workspace: &Path, day: &str) -> PathBuf {
    workspace.join(FOLDER).join(format!("{day}.md"))
}

/// The beginning of an overlong text.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use pollux_memory::{AgentId, StateDir};

    use super::*;

    #[test]
    fn notes_are_the_items_of_a_reply_and_nothing_else() {
        let reply = "Here you are:\n# System\n- the port is 8080\n  - key AIzaSyA0123456789012345678901234567890123\n* no\n- \n";
        assert_eq!(noteworthy(reply), ["the port is 8080", "key ***"]);
        assert!(noteworthy(" NO_REPLY\n- x").is_empty());
        assert_eq!(noteworthy(&"- n\n".repeat(99)).len(), MAX_NOTES);
    }

    #[test]
    fn notes_are_added_to_those_of_the_day_and_never_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let state = tempfile::tempdir().unwrap();
        let authors = ModelNotes::new(StateDir::at(state.path().join("s")).agent(&AgentId::default()));
        append(folder.path(), &authors, &["one".to_owned()], Duration::ZERO).unwrap();
        append(folder.path(), &authors, &["two".to_owned()], Duration::ZERO).unwrap();
        let day: String = SystemClock.now().to_iso().chars().take(10).collect();
        let text = fs::read_to_string(notes_file(folder.path(), &day)).unwrap();
        assert!(text.ends_with("- one\n- two\n") && text.starts_with("# "), "{text}");
        let other = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(folder.path(), other.path().join("memory")).unwrap();
        assert!(append(other.path(), &authors, &["three".to_owned()], Duration::ZERO).is_err());
    }
}
