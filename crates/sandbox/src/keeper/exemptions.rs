//! Exceptions from the protection, and whose they are: those of a command end with it, and those of the program's own
//! writes after a moment, even if other commands run on.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a write of the program itself may take.
const WRITE_LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Exemptions {
    /// The commands that run, with what each may write.
    commands: Vec<(u32, Vec<PathBuf>)>,
    /// What the program itself is about to write.
    permits: Vec<(PathBuf, Instant)>,
    last: u32,
}

impl Exemptions {
    /// Adds a command, and returns its number.
    pub(super) fn add(&mut self, paths: Vec<PathBuf>) -> u32 {
        self.last = self.last.wrapping_add(1);
        self.commands.push((self.last, paths));
        self.last
    }

    pub(super) fn permit(&mut self, path: PathBuf) {
        self.permits.push((path, Instant::now()));
    }

    /// Whether a command runs.
    pub(super) fn has_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    /// Everything that is excepted now.
    pub(super) fn all(&self) -> Vec<PathBuf> {
        let of_commands = self.commands.iter().flat_map(|(_, paths)| paths);
        of_commands.chain(self.permits.iter().map(|(path, _)| path)).cloned().collect()
    }

    /// Removes a command. Returns what is not excepted any more.
    pub(super) fn end(&mut self, command: u32) -> Vec<PathBuf> {
        let before = self.all();
        self.commands.retain(|(number, _)| *number != command);
        self.ended(before)
    }

    /// Ends the program's own writes that are over. Returns the same.
    pub(super) fn expire(&mut self) -> Vec<PathBuf> {
        if self.permits.is_empty() {
            return Vec::new();
        }
        let before = self.all();
        self.permits.retain(|(_, since)| since.elapsed() < WRITE_LIMIT);
        self.ended(before)
    }

    pub(super) fn clear_permits(&mut self) {
        self.permits.clear();
    }

    fn ended(&self, before: Vec<PathBuf>) -> Vec<PathBuf> {
        let left = self.all();
        let is_left = |path: &Path| left.iter().any(|open| path.starts_with(open));
        before.into_iter().filter(|path| !is_left(path)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_ends_with_its_command_unless_another_has_it() {
        let mut exemptions = Exemptions::default();
        let path = |name: &str| vec![PathBuf::from(name)];
        let (first, second) = (exemptions.add(path("/w/.envrc")), exemptions.add(path("/w/.envrc")));
        let third = exemptions.add(path("/w/.vscode/tasks.json"));
        assert!(exemptions.end(first).is_empty());
        assert_eq!(exemptions.end(second), path("/w/.envrc"));
        exemptions.permit("/w/.vscode".into());
        assert!(exemptions.end(third).is_empty(), "a folder around it is still excepted");
        assert!(!exemptions.has_commands() && exemptions.expire().is_empty());
        assert_eq!(exemptions.all(), path("/w/.vscode"));
    }
}
