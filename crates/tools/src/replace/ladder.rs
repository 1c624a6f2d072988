//! The matching strategies of `replace`, from strict to lenient; the first that finds anything wins.
//!
//! All of them expect `\n` as the only line ending.

use std::ops::Range;

use regex::RegexBuilder;

use super::fuzzy;

/// A pattern beyond this is not worth compiling.
const MAX_PATTERN_CHARS: usize = 100_000;

/// One change: these bytes become this text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) range: Range<usize>,
    pub(super) text: String,
}

/// The matches, in order and without overlaps.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Matched {
    pub(super) edits: Vec<Edit>,
    /// First and last line of each match that is only similar.
    pub(super) similar_lines: Vec<(usize, usize)>,
}

impl Matched {
    fn exactly(edits: Vec<Edit>) -> Option<Self> {
        (!edits.is_empty()).then_some(Self { edits, similar_lines: Vec::new() })
    }

    /// A note for the model about how the match was found; begins with a space unless it is empty.
    pub(super) fn note(&self) -> String {
        if self.similar_lines.is_empty() {
            return String::new();
        }
        let range = |(first, last): &(usize, usize)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        let ranges: Vec<String> = self.similar_lines.iter().map(range).collect();
        let plural = if ranges.len() > 1 { "s" } else { "" };
        format!(" Applied fuzzy match at line{plural} {}.", ranges.join(", "))
    }
}

/// Looks for `old` in `text`.
pub(super) fn find(text: &str, old: &str, new: &str) -> Option<Matched> {
    if let Some(found) = Matched::exactly(exact(text, old, new)) {
        return Some(found);
    }
    // White space alone would match every blank line from here on.
    if old.trim().is_empty() {
        return None;
    }
    let lines = Lines::of(text);
    let block = Block::new(old, new);
    Matched::exactly(flexible(&lines, &block))
        .or_else(|| Matched::exactly(by_tokens(text, old, new)))
        .or_else(|| fuzzy::find(&lines, &block))
}

fn exact(text: &str, old: &str, new: &str) -> Vec<Edit> {
    text.match_indices(old)
        .map(|(start, _)| Edit { range: start..start + old.len(), text: new.to_owned() })
        .collect()
}

/// A text and where its lines are.
pub(super) struct Lines<'a> {
    /// Without line ends.
    pub(super) texts: Vec<&'a str>,
    starts: Vec<usize>,
    length: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let mut lines = Self { texts: Vec::new(), starts: Vec::new(), length: text.len() };
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            lines.starts.push(start);
            lines.texts.push(line.strip_suffix('\n').unwrap_or(line));
            start += line.len();
        }
        lines
    }

    /// The bytes of some lines, with or without the last line's end.
    fn bytes(&self, lines: Range<usize>, with_end: bool) -> Range<usize> {
        let start = self.starts.get(lines.start).copied().unwrap_or(self.length);
        let end = if with_end {
            self.starts.get(lines.end).copied().unwrap_or(self.length)
        } else {
            let last = lines.end.saturating_sub(1);
            self.starts.get(last).zip(self.texts.get(last)).map_or(start, |(start, text)| start + text.len())
        };
        start..end
    }
}

/// The text to find and its replacement, line by line.
pub(super) struct Block<'a> {
    pub(super) old: Vec<&'a str>,
    new: &'a str,
    /// Whether the text to replace ends with a line end.
    ends_line: bool,
}

impl<'a> Block<'a> {
    fn new(old: &'a str, new: &'a str) -> Self {
        let ends_line = old.ends_with('\n');
        Self { old: old.strip_suffix('\n').unwrap_or(old).split('\n').collect(), new, ends_line }
    }

    /// The change for a match at some lines; the new text takes over the indentation found there.
    pub(super) fn edit(&self, lines: &Lines<'_>, at: Range<usize>) -> Edit {
        // A blank line does not define indentation.
        let window = lines.texts.get(at.clone()).unwrap_or_default();
        let first = window.iter().find(|line| !line.trim().is_empty()).copied().unwrap_or_default();
        let (body, end) = match self.new.strip_suffix('\n') {
            Some(body) if self.ends_line => (body, "\n"),
            _ => (self.new, ""),
        };
        let mut text = reindented(body, indentation(first));
        text.push_str(end);
        Edit { range: lines.bytes(at, self.ends_line), text }
    }
}

/// Windows of complete lines that are equal except for white space at either end of each line.
fn flexible(lines: &Lines<'_>, block: &Block<'_>) -> Vec<Edit> {
    let wanted: Vec<&str> = block.old.iter().map(|line| line.trim()).collect();
    let mut edits = Vec::new();
    let mut at = 0;
    while let Some(window) = lines.texts.get(at..at + wanted.len()) {
        if window.iter().zip(&wanted).all(|(line, wanted)| line.trim() == *wanted) {
            edits.push(block.edit(lines, at..at + wanted.len()));
            at += wanted.len();
        } else {
            at += 1;
        }
    }
    edits
}

/// The same words and brackets with any white space between them, from the start of a line on.
fn by_tokens(text: &str, old: &str, new: &str) -> Vec<Edit> {
    if old.len() > MAX_PATTERN_CHARS {
        return Vec::new();
    }
    let mut spaced = String::with_capacity(old.len() * 2);
    for c in old.chars() {
        if matches!(c, '(' | ')' | ':' | '[' | ']' | '{' | '}' | '>' | '<' | '=') {
            spaced.extend([' ', c, ' ']);
        } else {
            spaced.push(c);
        }
    }
    let tokens: Vec<String> = spaced.split_whitespace().map(regex::escape).collect();
    let pattern = format!(r"^([ \t]*){}", tokens.join(r"\s*"));
    let Ok(regex) = RegexBuilder::new(&pattern).multi_line(true).build() else { return Vec::new() };
    regex
        .captures_iter(text)
        .filter_map(|captures| {
            let whole = captures.get(0)?;
            let indent = captures.get(1).map_or("", |group| group.as_str());
            Some(Edit { range: whole.range(), text: reindented(new, indent) })
        })
        .collect()
}

fn indentation(line: &str) -> &str {
    let rest = line.trim_start_matches([' ', '\t']);
    line.strip_suffix(rest).unwrap_or_default()
}

/// Moves a text to another indentation: its first line that is not blank gets `indent`, the others keep
/// their distance.
fn reindented(text: &str, indent: &str) -> String {
    let reference = text.split('\n').find(|line| !line.trim().is_empty()).map_or("", indentation);
    let moved = text.split('\n').map(|line| {
        if line.trim().is_empty() {
            String::new()
        } else if let Some(rest) = line.strip_prefix(reference) {
            format!("{indent}{rest}")
        } else {
            format!("{indent}{}", line.trim_start())
        }
    });
    moved.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(text: &str, old: &str, new: &str) -> Option<String> {
        find(text, old, new).map(|found| super::super::apply::edits(text, &found.edits))
    }

    #[test]
    fn an_exact_match_takes_everything_literally() {
        assert_eq!(changed("a $1 b", "$1", "$$&"), Some("a $$& b".into()));
        assert_eq!(changed("aXbX", "X", ""), Some("ab".into()));
    }

    #[test]
    fn a_match_with_other_indentation_moves_the_new_text() {
        let text = "fn f() {\n        if a {\n            b();\n        }\n}\n";
        let old = "if a {\n    b();\n}";
        let new = "if a {\n    c();\n\n    d();\n}";
        assert_eq!(
            changed(text, old, new),
            Some("fn f() {\n        if a {\n            c();\n\n            d();\n        }\n}\n".into())
        );
    }

    #[test]
    fn the_line_after_a_flexible_match_stays_a_line_of_its_own() {
        assert_eq!(changed("  a\nb\n", "a \n", "x\n"), Some("  x\nb\n".into()));
        assert_eq!(changed("  a \nb\n", "a\t", "x"), Some("  x\nb\n".into()));
        assert_eq!(changed("  a \nb\n", "a\t\n", ""), Some("b\n".into()));
    }

    #[test]
    fn a_blank_line_at_the_start_does_not_take_the_indentation_away() {
        let text = "class A:\n    x = 1\n\n    def g(self):\n        return 3\n";
        let old = "\ndef g(self):\n    return 3\n";
        let expected = "class A:\n    x = 1\n    def g(self):\n        return 4\n";
        assert_eq!(changed(text, old, "def g(self):\n    return 4\n").as_deref(), Some(expected));
        let expected = "class A:\n    x = 1\n\n    def g(self):\n        return 4\n";
        assert_eq!(changed(text, old, "\ndef g(self):\n    return 4\n").as_deref(), Some(expected));
    }

    #[test]
    fn similar_lines_are_named_as_upstream_names_them() {
        let note = |similar_lines| Matched { edits: Vec::new(), similar_lines }.note();
        assert_eq!(note(vec![]), "");
        assert_eq!(note(vec![(2, 3)]), " Applied fuzzy match at line 2-3.");
        assert_eq!(note(vec![(2, 2), (5, 6)]), " Applied fuzzy match at lines 2, 5-6.");
    }

    #[test]
    fn words_with_other_white_space_between_them_match() {
        let text = "let  x=call( a,\n   b );\nrest\n";
        assert_eq!(changed(text, "let x = call(a,\nb);", "let y = 1;"), Some("let y = 1;\nrest\n".into()));
    }

    #[test]
    fn white_space_alone_only_matches_exactly() {
        assert_eq!(changed("a\n\nb\n", "   ", "x"), None);
    }

    #[test]
    fn a_small_misspelling_is_forgiven_and_reported() {
        let text = "one\n    let retries = configuration.maximum_retries;\nthree\n";
        let found = find(text, "let retires = configuration.maximum_retries;", "let retries = 3;").unwrap();
        assert_eq!(found.similar_lines, [(2, 2)]);
        assert_eq!(found.note(), " Applied fuzzy match at line 2.");
        assert_eq!(found.edits[0].text, "    let retries = 3;");
    }
}
