//! Code in colours.
//!
//! A small lexer of our own: comments, strings, numbers, keywords, calls and types are what the eye looks for, a line
//! costs microseconds, nothing is loaded, and a block that is cut anywhere is still coloured. It never changes a
//! character.

mod languages;

use ratatui::style::{Modifier, Style};
use ratatui::text::Span;

use self::languages::{Language, language};
use crate::theme::Theme;

/// The lines of a piece of code.
pub(crate) fn highlight(name: &str, text: &str, theme: &Theme) -> Vec<Vec<Span<'static>>> {
    let Some(language) = language(name) else {
        return text.lines().map(|line| vec![Span::styled(line.to_owned(), theme.text())]).collect();
    };
    let mut lexer = Lexer { language, theme, inside: None };
    text.lines().map(|line| lexer.line(line)).collect()
}

/// The lines of a file, by the ending of its name.
pub(crate) fn highlight_file(file: &str, text: &str, theme: &Theme) -> Vec<Vec<Span<'static>>> {
    let ending = file.rsplit_once('.').map_or(file, |(_, ending)| ending);
    highlight(ending, text, theme)
}

/// A construct that continues from the line before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Comment(&'static str),
    Text(&'static str),
}

struct Lexer<'a> {
    language: &'static Language,
    theme: &'a Theme,
    inside: Option<Inside>,
}

impl Lexer<'_> {
    fn line(&mut self, line: &str) -> Vec<Span<'static>> {
        let mut spans = Vec::new();
        let mut rest = line;
        while !rest.is_empty() {
            let (length, style) = self.token(rest);
            let length = length.clamp(1, rest.len());
            let length = (length..=rest.len()).find(|end| rest.is_char_boundary(*end)).unwrap_or(rest.len());
            let (token, after) = rest.split_at(length);
            push(&mut spans, token, style);
            rest = after;
        }
        spans
    }

    /// The length and look of the token at the beginning of `rest`.
    fn token(&mut self, rest: &str) -> (usize, Style) {
        if let Some(inside) = self.inside {
            return self.within(inside, rest);
        }
        if self.language.line_comments.iter().any(|mark| rest.starts_with(mark)) {
            return (rest.len(), self.comment());
        }
        if let Some((open, close)) = self.language.block_comment
            && rest.starts_with(open)
        {
            return self.enter(Inside::Comment(close), open.len(), rest);
        }
        if let Some(quotes) = self.language.long_quotes.iter().find(|quotes| rest.starts_with(**quotes)) {
            return self.enter(Inside::Text(quotes), quotes.len(), rest);
        }
        let Some(first) = rest.chars().next() else { return (0, self.theme.text()) };
        if self.language.quotes.contains(first) {
            return (text_end(rest, first), self.colour(1));
        }
        if first.is_ascii_digit() {
            return (run(rest, |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_')), self.colour(2));
        }
        if first.is_alphabetic() || matches!(first, '_' | '$' | '@') {
            return self.word(rest);
        }
        (
            run(rest, |c| {
                !(c.is_alphanumeric() || matches!(c, '_' | '$' | '@' | '"' | '\'' | '`' | '#' | '/' | '-'))
            }),
            self.theme.text(),
        )
    }

    fn word(&self, rest: &str) -> (usize, Style) {
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let length = first + run_from(rest, first, |c| c.is_alphanumeric() || c == '_');
        let (word, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        let style = if self.language.keywords.split(' ').any(|keyword| keyword == word) {
            self.colour(0)
        } else if after.starts_with('(') || after.starts_with("!(") {
            self.colour(3)
        } else if word.chars().next().is_some_and(char::is_uppercase) {
            self.colour(4)
        } else {
            self.theme.text()
        };
        (length, style)
    }

    fn enter(&mut self, inside: Inside, opening: usize, rest: &str) -> (usize, Style) {
        let (Inside::Comment(close) | Inside::Text(close)) = inside;
        let style = self.look(inside);
        match rest.get(opening..).and_then(|body| body.find(close)) {
            Some(end) => (opening + end + close.len(), style),
            None => {
                self.inside = Some(inside);
                (rest.len(), style)
            }
        }
    }

    fn within(&mut self, inside: Inside, rest: &str) -> (usize, Style) {
        let (Inside::Comment(close) | Inside::Text(close)) = inside;
        let style = self.look(inside);
        match rest.find(close) {
            Some(end) => {
                self.inside = None;
                (end + close.len(), style)
            }
            None => (rest.len(), style),
        }
    }

    fn look(&self, inside: Inside) -> Style {
        match inside {
            Inside::Comment(_) => self.comment(),
            Inside::Text(_) => self.colour(1),
        }
    }

    fn comment(&self) -> Style {
        self.theme.secondary().add_modifier(Modifier::ITALIC)
    }

    /// One of the theme's five colours for code.
    fn colour(&self, index: usize) -> Style {
        match self.theme.code.get(index) {
            Some(colour) if !self.theme.plain => Style::new().fg(*colour),
            _ => self.theme.text(),
        }
    }
}

/// How long the text in quotes at the beginning is; without an end it ends with the line.
fn text_end(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in rest.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if character == '\\' {
            escaped = true;
        } else if character == quote {
            return at + character.len_utf8();
        }
    }
    rest.len()
}

fn run(rest: &str, belongs: impl Fn(char) -> bool) -> usize {
    run_from(rest, 0, belongs)
}

fn run_from(rest: &str, from: usize, belongs: impl Fn(char) -> bool) -> usize {
    let body = rest.get(from..).unwrap_or_default();
    body.find(|character| !belongs(character)).unwrap_or(body.len())
}

fn push(spans: &mut Vec<Span<'static>>, text: &str, style: Style) {
    match spans.last_mut() {
        Some(last) if last.style == style => last.content.to_mut().push_str(text),
        _ => spans.push(Span::styled(text.to_owned(), style)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn colours(name: &str, text: &str) -> Vec<(String, Option<ratatui::style::Color>)> {
        let theme = Theme::named("Dracula").expect("built in");
        let lines = highlight(name, text, &theme);
        lines.into_iter().flatten().map(|span| (span.content.into_owned(), span.style.fg)).collect()
    }

    #[test]
    fn keywords_texts_and_comments_stand_out() {
        let theme = Theme::named("Dracula").expect("built in");
        let found = colours("rust", "fn a() { \"x\\\"y\" } // end");
        let colour_of =
            |wanted: &str| found.iter().find(|(text, _)| text == wanted).and_then(|(_, colour)| *colour);
        assert_eq!(colour_of("fn"), Some(theme.code[0]));
        assert_eq!(colour_of("a"), Some(theme.code[3]));
        assert_eq!(colour_of("\"x\\\"y\""), Some(theme.code[1]));
        assert_eq!(colour_of("// end"), Some(theme.secondary));
    }

    #[test]
    fn no_character_is_changed() {
        let text = "/* a\n b */ x = '''é\n日''' 1.5e3 @d $v `t` \u{301} \"open\n#!/bin/sh <a b='c'>";
        for name in ["rust", "python", "js", "bash", "json", "yaml", "html", "sql", "unknown", ""] {
            let lines = highlight(name, text, &Theme::no_colour());
            let back: Vec<String> =
                lines.iter().map(|line| line.iter().map(|span| &*span.content).collect()).collect();
            assert_eq!(back.join("\n"), text, "{name}");
        }
    }

    #[test]
    fn a_comment_goes_on_over_lines() {
        let found = colours("c", "/* one\ntwo */ int");
        assert_eq!(found.len(), 4, "{found:?}");
        assert_eq!(found[0].1, found[1].1);
    }
}
