//! Differences between two texts, line by line, and their unified form.
//!
//! Only one algorithm is used here: each further one that a general interface offers is a hundred kilobytes of program.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::{Duration, Instant};

use similar::algorithms::{Capture, Compact, IdentifyDistinct, Replace, myers};
pub use similar::{ChangeTag, DiffOp};

/// Two texts, compared line by line. Lines include their ends.
#[derive(Debug)]
pub struct LineDiff<'a> {
    before: Vec<&'a str>,
    after: Vec<&'a str>,
    ops: Vec<DiffOp>,
}

impl<'a> LineDiff<'a> {
    /// After the time limit, the comparison goes on with less exactness.
    pub fn new(before: &'a str, after: &'a str, limit: Option<Duration>) -> Self {
        let before: Vec<&str> = before.split_inclusive('\n').collect();
        let after: Vec<&str> = after.split_inclusive('\n').collect();
        let lines = IdentifyDistinct::<u32>::new(&before, 0..before.len(), &after, 0..after.len());
        let (old, new) = (lines.old_lookup(), lines.new_lookup());
        let mut hook = Compact::new(Replace::new(Capture::new()), old, new);
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let Ok(()) =
            myers::diff_deadline(&mut hook, old, lines.old_range(), new, lines.new_range(), deadline);
        let ops = hook.into_inner().into_inner().into_ops();
        Self { before, after, ops }
    }

    pub fn ops(&self) -> &[DiffOp] {
        &self.ops
    }

    /// The changes in groups that are further apart than twice the context, each with that many lines around it.
    pub fn groups(&self, context: usize) -> Vec<Vec<DiffOp>> {
        similar::group_diff_ops(self.ops.clone(), context)
    }

    /// The lines of an operation: removed ones first, then added ones.
    pub fn lines(&self, op: &DiffOp) -> impl Iterator<Item = (ChangeTag, &'a str)> {
        let is_equal = matches!(op, DiffOp::Equal { .. });
        let (first, second) =
            if is_equal { (ChangeTag::Equal, None) } else { (ChangeTag::Delete, Some(ChangeTag::Insert)) };
        let old = slice(&self.before, op.old_range()).iter().map(move |line| (first, *line));
        let added = if is_equal { 0..0 } else { op.new_range() };
        let new = slice(&self.after, added).iter();
        old.chain(new.filter_map(move |line| Some((second?, *line))))
    }

    /// A unified diff; empty if nothing changed.
    pub fn unified(&self, context: usize, before: &str, after: &str) -> String {
        let mut text = String::new();
        for group in self.groups(context) {
            let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
            if text.is_empty() {
                let _ = write!(text, "--- {before}\n+++ {after}\n");
            }
            let old = hunk_range(first.old_range().start..last.old_range().end);
            let new = hunk_range(first.new_range().start..last.new_range().end);
            let _ = writeln!(text, "@@ -{old} +{new} @@");
            for (tag, line) in group.iter().flat_map(|op| self.lines(op)) {
                let _ = write!(text, "{tag}{line}");
                if !line.ends_with('\n') {
                    text.push_str("\n\\ No newline at end of file\n");
                }
            }
        }
        text
    }
}

fn slice<'s, 'a>(lines: &'s [&'a str], range: Range<usize>) -> &'s [&'a str] {
    lines.get(range).unwrap_or_default()
}

/// As in the head of a hunk: lines count from 1, and an empty range is named by the line before it.
fn hunk_range(range: Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => (range.start + 1).to_string(),
        len => format!("{},{len}", range.start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unified(before: &str, after: &str) -> String {
        LineDiff::new(before, after, None).unified(1, "old", "new")
    }

    #[test]
    fn a_change_has_its_lines_and_those_around_it() {
        assert_eq!(
            unified("a\nb\nc\nd\n", "a\nx\nc\nd\n"),
            "--- old\n+++ new\n@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"
        );
        assert_eq!(unified("a\n", "a\n"), "");
        assert_eq!(unified("", "a\nb\n"), "--- old\n+++ new\n@@ -0,0 +1,2 @@\n+a\n+b\n");
        assert_eq!(unified("a\n", ""), "--- old\n+++ new\n@@ -1 +0,0 @@\n-a\n");
    }

    #[test]
    fn a_missing_end_of_line_is_told() {
        assert_eq!(
            unified("a\nb", "a\nb\n"),
            "--- old\n+++ new\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"
        );
    }

    #[test]
    fn far_changes_are_hunks_of_their_own() {
        let before: String = (0..20).map(|number| format!("{number}\n")).collect();
        let after = before.replace("2\n3\n", "2\n").replace("17\n", "x\n");
        let diff = LineDiff::new(&before, &after, None);
        assert_eq!(diff.unified(3, "old", "new").matches("\n@@ ").count(), 2);
        let deleted =
            diff.ops().iter().flat_map(|op| diff.lines(op)).filter(|line| line.0 == ChangeTag::Delete);
        assert_eq!(deleted.map(|line| line.1).collect::<Vec<_>>(), ["3\n", "17\n"]);
    }

    #[test]
    fn both_sides_can_be_put_together_again() {
        let texts = ["", "a\n", "a\nb\nc\n", "c\nb\na\n", "a\nc\nb\nx", "\n\n\na", "x\ny\na\nb\nc\n"];
        for (before, after) in texts.iter().flat_map(|one| texts.iter().map(move |other| (one, other))) {
            let diff = LineDiff::new(before, after, Some(Duration::from_secs(9)));
            let lines: Vec<_> = diff.ops().iter().flat_map(|op| diff.lines(op)).collect();
            let side = |without: ChangeTag| {
                lines.iter().filter(|line| line.0 != without).map(|line| line.1).collect::<String>()
            };
            assert_eq!(
                (side(ChangeTag::Insert).as_str(), side(ChangeTag::Delete).as_str()),
                (*before, *after)
            );
        }
    }
}
