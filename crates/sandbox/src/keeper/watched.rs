//! Files that commands may change, but not silently: what other agents read as instructions, and what builds run.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::tripped::{TripAction, Tripped};

const MAX_FILE_BYTES: u64 = 256 << 10;
const MAX_ENTRIES: usize = 200;
/// Only of interest where they exist.
const EXISTING_ONLY: &str = ".venv";

/// A file or folder, and what it was.
#[derive(Debug)]
pub(super) struct Watched {
    path: PathBuf,
    stamp: Vec<(i64, i64, u64)>,
    content: Option<Vec<u8>>,
}

impl Watched {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), stamp: stamp(path), content: content(path) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reports a change since the last look.
    pub(super) fn sweep(&mut self, tripped: &mut Vec<Tripped>) {
        let stamp = stamp(&self.path);
        if stamp == self.stamp {
            return;
        }
        let now = Self { path: self.path.clone(), stamp, content: content(&self.path) };
        let before = std::mem::replace(self, now);
        let is_new = before.stamp.is_empty();
        let is_same = before.content.is_some() && before.content == self.content;
        let is_optional = self.path.components().any(|part| part.as_os_str() == EXISTING_ONLY);
        if is_same || (is_new && is_optional) {
            return;
        }
        let what = if self.path.ends_with("package.json") {
            let changed = scripts_changed(before.content.as_deref(), self.content.as_deref());
            if changed.is_empty() {
                return;
            }
            Some(changed.join(", "))
        } else {
            None
        };
        tripped.push(Tripped { path: self.path.clone(), action: TripAction::Reported(what) });
    }
}

/// Changes with the file, or with an entry of the folder; empty if it does not exist.
fn stamp(path: &Path) -> Vec<(i64, i64, u64)> {
    let one = |meta: &fs::Metadata| (meta.ctime(), meta.ctime_nsec(), meta.ino());
    let Ok(meta) = path.symlink_metadata() else { return Vec::new() };
    let mut all = vec![one(&meta)];
    if meta.is_dir() {
        let entries = fs::read_dir(path).into_iter().flatten().flatten().take(MAX_ENTRIES);
        all.extend(entries.filter_map(|entry| entry.metadata().ok()).map(|meta| one(&meta)));
        all.sort_unstable();
    }
    all
}

fn content(path: &Path) -> Option<Vec<u8>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let mut content = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut content).ok()?;
    Some(content)
}

/// The scripts of a `package.json` that were added, changed or removed.
fn scripts_changed(before: Option<&[u8]>, after: Option<&[u8]>) -> Vec<String> {
    let scripts = |text: Option<&[u8]>| {
        let all = serde_json::from_slice::<serde_json::Value>(text?).ok()?;
        all.get("scripts")?.as_object().cloned()
    };
    let (before, after) = (scripts(before).unwrap_or_default(), scripts(after).unwrap_or_default());
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    let changed = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    changed.map(|name| format!("scripts.{name}")).collect()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "scratch files need no care")]
mod tests {
    use super::*;

    #[test]
    fn changes_are_reported_once_and_only_those_that_matter() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("package.json"), r#"{"version": "1", "scripts": {"test": "x", "build": "y"}}"#)
            .unwrap();
        fs::create_dir(path(".husky")).unwrap();
        let names = ["package.json", ".husky", "AGENTS.md", ".venv/bin/python"];
        let mut watched: Vec<Watched> = names.iter().map(|name| Watched::new(&path(name))).collect();
        let mut sweep = || {
            let mut tripped = Vec::new();
            watched.iter_mut().for_each(|one| one.sweep(&mut tripped));
            let told = tripped.into_iter().map(|one| (one.path.file_name().unwrap().to_owned(), one.action));
            told.map(|(name, action)| (name.to_str().unwrap().to_owned(), action)).collect::<Vec<_>>()
        };
        assert_eq!(sweep(), []);
        fs::write(path("package.json"), r#"{"version": "2", "scripts": {"test": "x", "build": "y"}}"#)
            .unwrap();
        fs::create_dir_all(path(".venv/bin")).unwrap();
        fs::write(path(".venv/bin/python"), "").unwrap();
        assert_eq!(sweep(), [], "neither scripts nor an interpreter that existed");
        fs::write(path("package.json"), r#"{"scripts": {"test": "x", "postinstall": "evil"}}"#).unwrap();
        fs::write(path(".husky/pre-commit"), "x").unwrap();
        fs::write(path("AGENTS.md"), "obey").unwrap();
        fs::write(path(".venv/bin/python"), "evil").unwrap();
        let scripts = Some("scripts.build, scripts.postinstall".to_owned());
        let expected = [("package.json", scripts), (".husky", None), ("AGENTS.md", None), ("python", None)];
        let expected = expected.map(|(name, what)| (name.to_owned(), TripAction::Reported(what)));
        assert_eq!(sweep(), expected);
        assert_eq!(sweep(), []);
    }
}
