//! The shell history of a project (`shell_history`), in upstream's format.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use pollux_config::files::{self, FileError, FileLock, LockError, Mode};

/// Maximum number of commands kept.
const MAX_COMMANDS: usize = 100;

/// Why a command was not saved.
#[derive(Debug, thiserror::Error)]
pub enum ShellHistoryError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// The commands of a project, oldest first.
pub fn shell_history(temp: &Path) -> Result<Vec<String>, FileError> {
    Ok(parse(&read(&temp.join("shell_history"))?))
}

/// The commands in all folders that hold state of a project, oldest first; those of the first folder come last, and each
/// command once. What cannot be read is passed over.
pub fn shell_history_in(folders: &[PathBuf]) -> Vec<String> {
    let mut seen = HashSet::new();
    let newest_first =
        folders.iter().flat_map(|folder| shell_history(folder).unwrap_or_default().into_iter().rev());
    let mut commands: Vec<String> =
        newest_first.filter(|command| seen.insert(command.clone())).take(MAX_COMMANDS).collect();
    commands.reverse();
    commands
}

/// Adds a command. A repeated one moves to the end.
pub fn add_shell_command(temp: &Path, command: &str) -> Result<(), ShellHistoryError> {
    let command = command.trim();
    if command.is_empty() {
        return Ok(());
    }
    let path = temp.join("shell_history");
    let _lock = FileLock::acquire(&path)?;
    let mut commands = parse(&read(&path)?);
    // A command of several lines is read back on one.
    let command = joined_lines(command);
    commands.retain(|known| *known != command);
    commands.push(command);
    let surplus = commands.len().saturating_sub(MAX_COMMANDS);
    commands.drain(..surplus);
    files::replace(&path, commands.join("\n").as_bytes(), Mode::Private)?;
    Ok(())
}

/// The text of the file. A byte that is not UTF-8 must not cost the other commands.
fn read(path: &Path) -> Result<String, FileError> {
    match files::read_text(path) {
        Err(FileError::NotUtf8 { .. }) => {
            let bytes = fs::read(path).map_err(|source| FileError::Read { path: path.to_owned(), source })?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }
        text => Ok(text?.unwrap_or_default()),
    }
}

fn joined_lines(command: &str) -> String {
    command.lines().map(|line| line.trim_end_matches('\r')).collect::<Vec<_>>().join(" ")
}

/// One command per line; a line that ends in an odd number of backslashes goes on in the next.
fn parse(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut under_way = String::new();
    for line in text.lines() {
        let backslashes = line.bytes().rev().take_while(|byte| *byte == b'\\').count();
        if backslashes % 2 == 1 {
            under_way.push_str(line.strip_suffix('\\').unwrap_or(line));
            under_way.push(' ');
            continue;
        }
        under_way.push_str(line);
        let command = std::mem::take(&mut under_way);
        if !command.trim().is_empty() {
            commands.push(command);
        }
    }
    if !under_way.trim().is_empty() {
        commands.push(under_way);
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_is_not_utf8_costs_no_command() {
        let dir = tempfile::tempdir().unwrap();
        files::replace(&dir.path().join("shell_history"), b"ls\necho caf\xe9", Mode::Private).unwrap();
        assert_eq!(shell_history(dir.path()).unwrap(), ["ls", "echo caf\u{fffd}"]);
        add_shell_command(dir.path(), "pwd").unwrap();
        assert_eq!(shell_history(dir.path()).unwrap().len(), 3);
    }

    #[test]
    fn commands_are_unique_bounded_and_written_without_a_last_line_break() {
        let dir = tempfile::tempdir().unwrap();
        for command in ["ls", "pwd", " ls ", "", "echo a \\\n b"] {
            add_shell_command(dir.path(), command).unwrap();
        }
        assert_eq!(fs::read_to_string(dir.path().join("shell_history")).unwrap(), "pwd\nls\necho a \\  b");
        for number in 0..150 {
            add_shell_command(dir.path(), &format!("c{number}")).unwrap();
        }
        let history = shell_history(dir.path()).unwrap();
        assert_eq!((history.len(), history[0].as_str(), history[99].as_str()), (100, "c50", "c149"));
    }

    #[test]
    fn continued_lines_are_joined() {
        let cases = [
            ("a\n\n  \nb", vec!["a", "b"]),
            ("a \\\nb\nc", vec!["a  b", "c"]),
            ("a \\\\\nb", vec!["a \\\\", "b"]),
            ("a\\", vec!["a "]),
            ("", vec![]),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }
}
