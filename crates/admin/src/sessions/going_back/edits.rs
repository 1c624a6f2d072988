//! Taking back the edits that a session recorded, where no journal was kept.
//!
//! A session file may come from anybody, so only regular files below the project's folder are touched, never
//! through a link, and nothing of git's own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use pollux_config::files::{self, Mode};
use pollux_domain::event::CallStatus;
use pollux_domain::tool::{Display, FileDiff};
use pollux_rewind::revert::{Reversal, Warning, revert};
use pollux_session::{Message, StoredStatus};

use crate::sessions::{FileSteps, Rewound};

/// What would be put back, and what was there when that was decided.
pub(super) struct Edits {
    root: PathBuf,
    reversal: Reversal,
    present: BTreeMap<PathBuf, String>,
    outside: Vec<PathBuf>,
}

impl Edits {
    pub(super) fn of(messages: &[Message], root: &Path) -> Self {
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        let (mut edits, mut outside) = (Vec::new(), Vec::new());
        for mut edit in recorded(messages) {
            match below(&root, &edit.path) {
                Some(path) => {
                    edit.path = path;
                    edits.push(edit);
                }
                None if !outside.contains(&edit.path) => outside.push(edit.path),
                None => {}
            }
        }
        let present: BTreeMap<PathBuf, String> = edits
            .iter()
            .filter_map(|edit| Some((edit.path.clone(), fs::read_to_string(&edit.path).ok()?)))
            .collect();
        let mut reversal = revert(edits.iter(), |path| present.get(path).cloned());
        // What already is as it was needs nothing.
        reversal.files.retain(|path, text| present.get(path) != text.as_ref());
        Self { root, reversal, present, outside }
    }

    pub(super) fn steps(&self) -> FileSteps {
        let step = |(path, text): (&PathBuf, &Option<String>)| {
            let action = if text.is_some() { "overwrite" } else { "delete" };
            (action, self.relative(path))
        };
        let warning = |warning: &Warning| match warning {
            Warning::Missing(path) => (self.relative(path), "it no longer exists".to_owned()),
            Warning::Conflict(path) => {
                (self.relative(path), "it has since changed in the same place".to_owned())
            }
        };
        let outside = |path: &PathBuf| (path.clone(), "not a file of the project".to_owned());
        FileSteps {
            root: self.root.clone(),
            steps: self.reversal.files.iter().map(step).collect(),
            conflicts: self.reversal.warnings.iter().map(warning).collect(),
            lost: self.outside.iter().map(outside).collect(),
            from_diffs: true,
        }
    }

    pub(super) fn carry_out(self) -> Rewound {
        let mut done = Rewound::default();
        for (path, text) in &self.reversal.files {
            let shown = self.relative(path);
            let is_same = below(&self.root, path).is_some()
                && fs::read_to_string(path).ok().as_ref() == self.present.get(path);
            if !is_same {
                done.kept.push((shown, "changed in the meantime".to_owned()));
                continue;
            }
            let result = match text {
                Some(text) => {
                    files::replace(path, text.as_bytes(), Mode::Shared).map_err(|error| error.to_string())
                }
                None => fs::remove_file(path).map_err(|error| error.to_string()),
            };
            match result {
                Ok(()) => done.restored += 1,
                Err(error) => done.failed.push((shown, error)),
            }
        }
        done
    }

    fn relative(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root).unwrap_or(path).to_owned()
    }
}

/// The edits of successful calls, in order.
fn recorded(messages: &[Message]) -> Vec<FileDiff> {
    let replies = messages.iter().filter_map(|message| match message {
        Message::Reply(reply) => Some(&reply.calls),
        Message::User(_) | Message::Notice(_) | Message::Other { .. } => None,
    });
    replies
        .flatten()
        .filter(|call| call.status == StoredStatus::Ended(CallStatus::Success))
        .filter_map(|call| match call.display() {
            Display::Diff(diff) => Some(*diff),
            _ => None,
        })
        .collect()
}

/// The path of a file below the root, if it is one and no link leads there.
fn below(root: &Path, path: &Path) -> Option<PathBuf> {
    let path = root.join(path);
    let is_plain = |part: Component<'_>| !matches!(part, Component::ParentDir | Component::CurDir);
    let folder = path.parent()?.canonicalize().ok()?;
    let real = folder.join(path.file_name()?);
    let inside = real.strip_prefix(root).ok()?;
    let is_git = inside.components().any(|part| part.as_os_str().eq_ignore_ascii_case(".git"));
    let is_link = fs::symlink_metadata(&real).is_ok_and(|metadata| !metadata.is_file());
    (path.components().all(is_plain) && !is_git && !is_link).then_some(real)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_files_below_the_root_are_meant() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("root");
        fs::create_dir_all(root.join(".git/hooks")).unwrap();
        fs::File::create(root.join("a")).unwrap();
        fs::File::create(dir.path().join("outside")).unwrap();
        std::os::unix::fs::symlink(dir.path(), root.join("way-out")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("outside"), root.join("link")).unwrap();
        assert_eq!(below(&root, Path::new("a")), Some(root.join("a")));
        assert_eq!(below(&root, &root.join("a")), Some(root.join("a")));
        for bad in ["../outside", "way-out/outside", "link", ".git/hooks/post-checkout", "/etc/passwd", "."] {
            assert_eq!(below(&root, Path::new(bad)), None, "{bad}");
        }
    }
}
