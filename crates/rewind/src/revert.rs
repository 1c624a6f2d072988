//! Reverts edits that a session recorded, where no journal exists: gemini-cli sessions.
//!
//! Works like upstream, from the newest edit to the oldest: a file that is unchanged since the edit gets its
//! old content; a file that has changed gets the inverse of the edit, if it still applies. Changes by commands
//! are not recorded and stay.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pollux_diff::{ChangeTag, LineDiff};
use pollux_domain::tool::FileDiff;

/// Lines around a change that must be there for its inverse to fit.
const CONTEXT: usize = 3;

/// The effect of reverting the edits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reversal {
    /// Files with the content they get; `None` deletes.
    pub files: BTreeMap<PathBuf, Option<String>>,
    pub warnings: Vec<Warning>,
}

/// An edit that was not reverted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    #[error("`{}` no longer exists, so its edit was not reverted", .0.display())]
    Missing(PathBuf),
    #[error("`{}` has since changed in the same place, so its edit was not reverted", .0.display())]
    Conflict(PathBuf),
}

/// Reverts edits, given in the order in which they were made; `read` returns the present text of a file.
pub fn revert<'a>(
    edits: impl DoubleEndedIterator<Item = &'a FileDiff>,
    read: impl Fn(&Path) -> Option<String>,
) -> Reversal {
    let mut reversal = Reversal::default();
    for edit in edits.rev() {
        let present = match reversal.files.get(&edit.path) {
            Some(planned) => planned.clone(),
            None => read(&edit.path),
        };
        let Some(present) = present else {
            reversal.warnings.push(Warning::Missing(edit.path.clone()));
            continue;
        };
        if present == edit.after {
            reversal.files.insert(edit.path.clone(), edit.before.clone());
            continue;
        }
        match inverse(&present, &edit.after, edit.before.as_deref().unwrap_or_default()) {
            Some(text) => {
                reversal.files.insert(edit.path.clone(), Some(text));
            }
            None => reversal.warnings.push(Warning::Conflict(edit.path.clone())),
        }
    }
    reversal
}

/// One region of lines that an edit changed.
struct Hunk<'a> {
    /// Where it begins in the text that the edit left.
    at: usize,
    old: Vec<&'a str>,
    new: Vec<&'a str>,
}

/// Applies the change from `after` to `before` on a text that is neither.
fn inverse(present: &str, after: &str, before: &str) -> Option<String> {
    let diff = LineDiff::new(after, before, None);
    let mut lines: Vec<&str> = present.split_inclusive('\n').collect();
    let mut shift = 0_isize;
    for group in diff.groups(CONTEXT) {
        let mut hunk = Hunk { at: group.first()?.old_range().start, old: Vec::new(), new: Vec::new() };
        for (tag, line) in group.iter().flat_map(|op| diff.lines(op)) {
            match tag {
                ChangeTag::Equal => {
                    hunk.old.push(line);
                    hunk.new.push(line);
                }
                ChangeTag::Delete => hunk.old.push(line),
                ChangeTag::Insert => hunk.new.push(line),
            }
        }
        let expected = hunk.at.saturating_add_signed(shift);
        let found = nearest(&lines, &hunk.old, expected)?;
        shift += found.cast_signed() - expected.cast_signed();
        shift += hunk.new.len().cast_signed() - hunk.old.len().cast_signed();
        lines.splice(found..found + hunk.old.len(), hunk.new);
    }
    Some(lines.concat())
}

/// The position of a run of lines, as near as possible to the expected one.
fn nearest(lines: &[&str], wanted: &[&str], expected: usize) -> Option<usize> {
    if wanted.is_empty() {
        return (expected <= lines.len()).then_some(expected);
    }
    let starts = lines.windows(wanted.len()).enumerate().filter(|(_, window)| *window == wanted);
    starts.map(|(start, _)| start).min_by_key(|start| start.abs_diff(expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(path: &str, before: Option<&str>, after: &str) -> FileDiff {
        FileDiff {
            unified: String::new(),
            file_name: path.to_owned(),
            path: path.into(),
            before: before.map(str::to_owned),
            after: after.to_owned(),
            stat: pollux_domain::tool::DiffStat::default(),
        }
    }

    fn reverted(edits: &[FileDiff], files: &[(&str, &str)]) -> Reversal {
        let find = |path: &Path| {
            files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned())
        };
        revert(edits.iter(), find)
    }

    #[test]
    fn unmodified_edits_are_reverted_newest_first() {
        let edits = [
            edit("a", Some("one\n"), "two\n"),
            edit("b", None, "new\n"),
            edit("a", Some("two\n"), "three\n"),
        ];
        let reversal = reverted(&edits, &[("a", "three\n"), ("b", "new\n")]);
        assert_eq!(reversal.files[Path::new("a")].as_deref(), Some("one\n"));
        assert_eq!(reversal.files[Path::new("b")], None);
        assert!(reversal.warnings.is_empty());
    }

    #[test]
    fn an_edit_is_reverted_around_later_changes_elsewhere_in_the_file() {
        let numbers = |range: std::ops::Range<u32>| range.map(|n| format!("{n}\n")).collect::<String>();
        let before = numbers(0..30);
        let after = before.replace("15\n", "fifteen\n");
        let present = format!("top\n{}", after.replace("28\n", "28!\n"));
        let reversal = reverted(&[edit("a", Some(&before), &after)], &[("a", &present)]);
        let wanted = format!("top\n{}", before.replace("28\n", "28!\n"));
        assert_eq!(reversal.files[Path::new("a")].as_deref(), Some(wanted.as_str()));
    }

    #[test]
    fn a_change_in_the_same_place_and_a_missing_file_are_warned_about() {
        let edits = [edit("a", Some("one\n"), "two\n"), edit("gone", Some("x"), "y")];
        let reversal = reverted(&edits, &[("a", "mine\n")]);
        assert!(reversal.files.is_empty());
        assert_eq!(reversal.warnings, [Warning::Missing("gone".into()), Warning::Conflict("a".into())]);
    }
}
