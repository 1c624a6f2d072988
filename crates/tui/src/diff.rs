//! A change to a file, with line numbers.

use pollux_domain::terminal_text::visible;
use pollux_domain::tool::FileDiff;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::code;
use crate::theme::Theme;
use crate::wrap::{Margin, chop};

/// One line of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Same(usize, String),
    Removed(usize, String),
    Added(usize, String),
    /// Unchanged lines between two changes.
    Gap,
}

/// The change as lines, with hidden characters made visible, because it is shown for approval.
pub(crate) fn render(diff: &FileDiff, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    render_text(&diff.unified, &diff.file_name, width, theme)
}

/// The same of a unified diff.
pub(crate) fn render_text(unified: &str, file_name: &str, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    part(unified, file_name, width, theme, usize::MAX).0
}

/// Its first lines, and how many follow.
pub(crate) fn beginning(
    diff: &FileDiff,
    width: u16,
    theme: &Theme,
    most: usize,
) -> (Vec<Line<'static>>, usize) {
    part(&diff.unified, &diff.file_name, width, theme, most)
}

fn part(
    unified: &str,
    file_name: &str,
    width: u16,
    theme: &Theme,
    most: usize,
) -> (Vec<Line<'static>>, usize) {
    let mut entries = read(unified);
    let more = entries.len().saturating_sub(most);
    entries.truncate(most);
    let last = entries.iter().map(Entry::number).max().unwrap_or_default();
    let digits = last.to_string().len();
    let coloured = colours(&entries, file_name, theme);
    let lines = entries.iter().zip(coloured);
    (lines.flat_map(|(entry, spans)| line(entry, spans, digits, width, theme)).collect(), more)
}

impl Entry {
    fn number(&self) -> usize {
        match self {
            Self::Same(number, _) | Self::Removed(number, _) | Self::Added(number, _) => *number,
            Self::Gap => 0,
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Same(_, text) | Self::Removed(_, text) | Self::Added(_, text) => text,
            Self::Gap => "",
        }
    }
}

/// Reads a unified diff; headings of files are left out.
fn read(unified: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    let (mut old, mut new) = (0, 0);
    for text in unified.lines() {
        if let Some(place) = text.strip_prefix("@@ -") {
            if !entries.is_empty() {
                entries.push(Entry::Gap);
            }
            (old, new) = starts(place);
            continue;
        }
        // Before the first place there are only names of files.
        if old == 0 && new == 0 {
            continue;
        }
        let body = text.get(1..).unwrap_or_default();
        let body = visible(body).into_owned();
        match text.chars().next() {
            Some('-') => {
                entries.push(Entry::Removed(old, body));
                old += 1;
            }
            Some('+') => {
                entries.push(Entry::Added(new, body));
                new += 1;
            }
            Some('\\') => {}
            _ => {
                entries.push(Entry::Same(new, body));
                old += 1;
                new += 1;
            }
        }
    }
    entries
}

/// `12,3 +14,5 @@` → 12 and 14; never 0 and 0.
fn starts(place: &str) -> (usize, usize) {
    let number = |text: &str| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<usize>().unwrap_or(1)
    };
    let new = place.split_once('+').map_or(1, |(_, after)| number(after));
    (number(place).max(1), new.max(1))
}

fn colours(entries: &[Entry], file: &str, theme: &Theme) -> Vec<Vec<Span<'static>>> {
    let text: Vec<&str> = entries.iter().map(Entry::text).collect();
    let mut lines = code::highlight_file(file, &text.join("\n"), theme);
    lines.resize(entries.len(), Vec::new());
    lines
}

fn line(
    entry: &Entry,
    spans: Vec<Span<'static>>,
    digits: usize,
    width: u16,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let (sign, behind) = match entry {
        Entry::Gap => {
            let gap = format!("{:>digits$} ⋮", "");
            return vec![Line::from(Span::styled(gap, theme.secondary()))];
        }
        Entry::Same(..) => (' ', Style::new()),
        Entry::Removed(..) => ('-', theme.removed()),
        Entry::Added(..) => ('+', theme.added()),
    };
    let number = Span::styled(format!("{:>digits$} ", entry.number()), theme.secondary());
    let mark = Span::styled(format!("{sign} "), if sign == '-' { theme.error() } else { theme.success() });
    let blanks = Span::raw(" ".repeat(digits + 3));
    let margin = Margin { first: vec![number, mark], rest: vec![blanks] };
    let mut spans = spans;
    if let Some(colour) = behind.bg {
        spans.iter_mut().for_each(|span| span.style = span.style.bg(colour));
    }
    chop(&spans, width, &margin)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn shown(unified: &str) -> Vec<String> {
        let diff = FileDiff {
            unified: unified.to_owned(),
            file_name: "a.rs".to_owned(),
            path: PathBuf::from("/p/a.rs"),
            before: Some(String::new()),
            after: String::new(),
            stat: Default::default(),
        };
        let lines = render(&diff, 40, &Theme::no_colour());
        lines.iter().map(|line| line.to_string().trim_end().to_owned()).collect()
    }

    #[test]
    fn each_line_has_its_number_and_its_sign() {
        let unified =
            "--- a.rs\n+++ a.rs\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n@@ -90,1 +90,2 @@\n x\n+y\n";
        assert_eq!(
            shown(unified),
            [" 1   one", " 2 - two", " 2 + 2", " 3   three", "   ⋮", "90   x", "91 + y"]
        );
    }

    #[test]
    fn what_could_hide_is_visible() {
        let lines = shown("@@ -0,0 +1,1 @@\n+a\u{202e}b\u{1b}[2J\n");
        assert_eq!(lines.len(), 1);
        assert!(!lines[0].contains('\u{202e}') && !lines[0].contains('\u{1b}'), "{lines:?}");
    }
}
