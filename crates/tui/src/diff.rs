//! A change to a file, with line numbers and the changed parts of its lines.

mod parts;

use std::ops::Range;

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
    let marked = marks(&entries);
    let lines = entries.iter().zip(coloured).zip(marked);
    let lines = lines.flat_map(|((entry, spans), marks)| line(entry, spans, &marks, digits, width, theme));
    (lines.collect(), more)
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

/// The changed parts of each line, as bytes of its text: the first removed line of a group is compared with the first
/// added one, and so on.
fn marks(entries: &[Entry]) -> Vec<Vec<Range<usize>>> {
    let mut marks = vec![Vec::new(); entries.len()];
    let run =
        |from: usize, is: fn(&Entry) -> bool| entries.iter().skip(from).take_while(|entry| is(entry)).count();
    let mut at = 0;
    while at < entries.len() {
        let removed = run(at, |entry| matches!(entry, Entry::Removed(..)));
        let added = run(at + removed, |entry| matches!(entry, Entry::Added(..)));
        for pair in 0..removed.min(added) {
            let (old, new) = (at + pair, at + removed + pair);
            let (Some(before), Some(after)) = (entries.get(old), entries.get(new)) else { continue };
            let (in_old, in_new) = parts::changed(before.text(), after.text());
            if let Some(marked) = marks.get_mut(old) {
                *marked = in_old;
            }
            if let Some(marked) = marks.get_mut(new) {
                *marked = in_new;
            }
        }
        at += (removed + added).max(1);
    }
    marks
}

/// Styles the marked bytes of a line.
fn emphasised(spans: Vec<Span<'static>>, marks: &[Range<usize>], style: Style) -> Vec<Span<'static>> {
    if marks.is_empty() {
        return spans;
    }
    let mut styled = Vec::new();
    let mut start = 0;
    for span in spans {
        let end = start + span.content.len();
        let inside = |at: usize| (start..=end).contains(&at);
        let edges = marks.iter().flat_map(|mark| [mark.start, mark.end]).filter(|at| inside(*at));
        let mut cuts: Vec<usize> = [start].into_iter().chain(edges).chain([end]).collect();
        cuts.dedup();
        for (from, to) in cuts.iter().zip(cuts.iter().skip(1)) {
            let Some(text) = span.content.get(from - start..to - start) else { continue };
            let is_marked = marks.iter().any(|mark| mark.start <= *from && *to <= mark.end);
            let style = if is_marked { span.style.patch(style) } else { span.style };
            styled.push(Span::styled(text.to_owned(), style));
        }
        start = end;
    }
    styled
}

fn line(
    entry: &Entry,
    spans: Vec<Span<'static>>,
    marks: &[Range<usize>],
    digits: usize,
    width: u16,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let (sign, behind, part) = match entry {
        Entry::Gap => {
            let gap = format!("{:>digits$} ⋮", "");
            return vec![Line::from(Span::styled(gap, theme.secondary()))];
        }
        Entry::Same(..) => (' ', Style::new(), Style::new()),
        Entry::Removed(..) => ('-', theme.removed(), theme.removed_part()),
        Entry::Added(..) => ('+', theme.added(), theme.added_part()),
    };
    let number = Span::styled(format!("{:>digits$} ", entry.number()), theme.secondary());
    let mark = Span::styled(format!("{sign} "), if sign == '-' { theme.error() } else { theme.success() });
    let blanks = Span::raw(" ".repeat(digits + 3));
    let margin = Margin { first: vec![number, mark], rest: vec![blanks] };
    let mut spans = spans;
    if let Some(colour) = behind.bg {
        spans.iter_mut().for_each(|span| span.style = span.style.bg(colour));
    }
    let is_whole = spans.iter().map(|span| span.content.len()).sum::<usize>() == entry.text().len();
    let spans = if is_whole { emphasised(spans, marks, part) } else { spans };
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
    fn the_changed_words_of_a_line_are_marked() {
        let theme = Theme::named("Default").expect("built in");
        let text = "@@ -1,2 +1,2 @@\n same\n-let total = price * count;\n+let total = price * (count + 1);\n";
        let lines = render_text(text, "a.txt", 60, &theme);
        let marked = |row: usize, style: Style| {
            let spans = lines[row].spans.iter().filter(|span| span.style.bg == style.bg);
            spans.map(|span| span.content.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(marked(2, theme.added_part()), ["(", " + 1)"]);
        assert_eq!(marked(1, theme.removed_part()), Vec::<String>::new());
        assert!(lines.iter().all(|line| !line.spans.is_empty()));
        // Text stays as it is, whatever is marked.
        assert_eq!(lines[2].to_string(), "2 + let total = price * (count + 1);");
    }

    #[test]
    fn what_could_hide_is_visible() {
        let lines = shown("@@ -0,0 +1,1 @@\n+a\u{202e}b\u{1b}[2J\n");
        assert_eq!(lines.len(), 1);
        assert!(!lines[0].contains('\u{202e}') && !lines[0].contains('\u{1b}'), "{lines:?}");
    }
}
