//! Diffs of file changes: for the user, for statistics, and as a snippet for the model.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use pollux_diff::{ChangeTag, DiffOp, LineDiff};
use pollux_domain::tool::{DiffStat, FileDiff, LineDelta};

/// Lines around a change in the diff; upstream's value.
const DIFF_CONTEXT: usize = 3;
/// Lines around a change in the snippet; upstream's value.
const SNIPPET_CONTEXT: usize = 5;
/// The model wrote the text itself; it needs no more than this of it back.
const SNIPPET_CHARS: usize = 40_000;
/// A hopeless comparison stops being exact after this time.
const EFFORT: Duration = Duration::from_millis(500);

/// A change to one file, compared line by line.
pub(crate) struct FileChange<'a> {
    diff: LineDiff<'a>,
    before: Option<&'a str>,
    after: &'a str,
}

impl<'a> FileChange<'a> {
    /// `before` is `None` for a new file.
    pub(crate) fn new(before: Option<&'a str>, after: &'a str) -> Self {
        let diff = LineDiff::new(before.unwrap_or_default(), after, Some(EFFORT));
        Self { diff, before, after }
    }

    /// The change for display.
    pub(crate) fn for_people(&self, path: &Path) -> FileDiff {
        let file_name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let (current, proposed) = (format!("{file_name}\tCurrent"), format!("{file_name}\tProposed"));
        let hunks = self.diff.unified(DIFF_CONTEXT, &current, &proposed);
        let unified = format!("Index: {file_name}\n{}\n{hunks}", "=".repeat(67));
        FileDiff {
            unified,
            file_name,
            path: path.to_owned(),
            before: self.before.map(str::to_owned),
            after: self.after.to_owned(),
            stat: self.stat(),
        }
    }

    /// How many lines and characters came and went; line ends do not count as characters.
    pub(crate) fn stat(&self) -> DiffStat {
        let mut stat = DiffStat::default();
        for (tag, line) in self.diff.ops().iter().flat_map(|op| self.diff.lines(op)) {
            let chars = line.trim_end_matches(['\r', '\n']).chars().count() as u64;
            match tag {
                ChangeTag::Equal => {}
                ChangeTag::Insert => {
                    stat.added_lines += 1;
                    stat.added_chars += chars;
                }
                ChangeTag::Delete => {
                    stat.removed_lines += 1;
                    stat.removed_chars += chars;
                }
            }
        }
        stat
    }

    /// The changed regions of the new text with five lines of context; all of a new file, and all of an
    /// unchanged one. As in upstream, the text after the last line end counts as a line.
    pub(crate) fn snippet(&self) -> String {
        if self.before.is_none_or(str::is_empty) {
            return capped(self.after);
        }
        let lines: Vec<&str> =
            self.after.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
        let regions = self.regions(lines.len());
        if regions.is_empty() {
            return capped(&lines.join("\n"));
        }
        let mut shown = Vec::new();
        let mut end = 0;
        for range in regions {
            if range.start > end {
                shown.push("...");
            }
            shown.extend(lines.get(range.clone()).unwrap_or_default());
            end = range.end;
        }
        if end < lines.len() {
            shown.push("...");
        }
        capped(&shown.join("\n"))
    }

    fn regions(&self, count: usize) -> Vec<Range<usize>> {
        let mut regions: Vec<Range<usize>> = Vec::new();
        for op in self.diff.ops() {
            if matches!(op, DiffOp::Equal { .. }) {
                continue;
            }
            let new = op.new_range();
            let start = new.start.saturating_sub(SNIPPET_CONTEXT).min(count);
            let end = (new.end + SNIPPET_CONTEXT).min(count);
            match regions.last_mut() {
                Some(last) if start <= last.end => last.end = end.max(last.end),
                _ => regions.push(start..end),
            }
        }
        regions
    }
}

/// The lines of a change, for the session's statistics.
pub(crate) fn line_delta(stat: DiffStat) -> LineDelta {
    LineDelta { added: stat.added_lines, removed: stat.removed_lines }
}

fn capped(text: &str) -> String {
    match text.char_indices().nth(SNIPPET_CHARS) {
        None => text.to_owned(),
        Some((cut, _)) => format!("{}\n... [snippet cut]", text.get(..cut).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(count: usize) -> String {
        (1..=count).map(|n| format!("line {n}\n")).collect()
    }

    #[test]
    fn a_change_is_counted_in_lines_and_characters() {
        let change = FileChange::new(Some("a\nbb\nc\n"), "a\nddd\nc\ne\n");
        let stat = DiffStat { added_lines: 2, removed_lines: 1, added_chars: 4, removed_chars: 2 };
        assert_eq!(change.stat(), stat);
        let diff = change.for_people(Path::new("/w/x.txt"));
        assert!(
            diff.unified.contains("--- x.txt\tCurrent\n+++ x.txt\tProposed\n@@ -1,3 +1,4 @@"),
            "{}",
            diff.unified
        );
        assert_eq!(diff.before.as_deref(), Some("a\nbb\nc\n"));
    }

    #[test]
    fn a_snippet_shows_changed_regions_and_marks_the_gaps() {
        let before = numbered(40);
        let after = before.replace("line 10\n", "ten\n").replace("line 30\n", "");
        let snippet = FileChange::new(Some(&before), &after).snippet();
        let lines: Vec<&str> = snippet.lines().collect();
        assert_eq!(lines.first(), Some(&"..."));
        assert_eq!(lines.iter().filter(|line| **line == "...").count(), 3);
        assert!(lines.contains(&"line 5") && lines.contains(&"ten") && lines.contains(&"line 15"));
        assert!(!lines.contains(&"line 4") && !lines.contains(&"line 20") && !lines.contains(&"line 30"));
        assert!(lines.contains(&"line 29") && lines.contains(&"line 31"));
    }

    #[test]
    fn a_snippet_shows_whether_the_text_ends_with_a_line_end() {
        let snippet = |before, after| FileChange::new(Some(before), after).snippet();
        assert_eq!(snippet("a\nb\n", "a\nc\n"), "a\nc\n");
        assert_eq!(snippet("a\nb", "a\nc"), "a\nc");
        assert_eq!(snippet("a\r\nb\r\n", "a\r\nc\r\n"), "a\nc\n");
        assert_eq!(snippet("a\nb\n", ""), "");
        assert_eq!(snippet("x\n1\n2\n3\n4\n5\n", "y\n1\n2\n3\n4\n5\n"), "y\n1\n2\n3\n4\n5\n...");
    }

    #[test]
    fn a_text_that_did_not_change_is_shown_whole() {
        assert_eq!(FileChange::new(Some("a\nb\n"), "a\nb\n").snippet(), "a\nb\n");
    }

    #[test]
    fn a_new_file_is_shown_whole() {
        assert_eq!(FileChange::new(None, "a\nb").snippet(), "a\nb");
    }
}
