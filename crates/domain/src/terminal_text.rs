//! Makes untrusted text safe for a terminal.
//!
//! Output of models, tools and files may contain sequences that move the cursor, rename the window or write the
//! clipboard, and characters that make a line look different from its content. [`Stripper`] removes them from a text
//! that arrives in pieces, [`plain`] from a whole one; [`visible`] and [`name`] show them, for texts that
//! the user approves; [`one_line`] is for messages and titles; [`json`] is for documents.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Removes control sequences from a text that arrives in pieces; they may be cut anywhere.
#[derive(Debug, Default, Clone)]
pub struct Stripper {
    state: State,
    keep: Keep,
}

/// What passes next tos text.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Keep {
    /// Line ends and tabs.
    #[default]
    Lines,
    /// Every character that is no part of a sequence, for readers that are no terminal.
    Singles,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// A carriage return was seen; it stays only before a newline, since alone it hides a line.
    Return,
    Escape,
    /// `ESC` with intermediate bytes: one final byte follows.
    EscapeIntermediate,
    /// `ESC [`: parameters until a final byte.
    Control,
    /// `ESC ]` and its kin: a text until `BEL` or `ESC \`.
    Message,
    /// `ESC` inside such a text.
    MessageEscape,
}

impl Stripper {
    /// Removes sequences only: single control characters and direction marks stay. For what a model
    /// reads, never for a terminal.
    pub fn of_sequences() -> Self {
        Self { state: State::Text, keep: Keep::Singles }
    }

    /// What of this piece may be shown.
    pub fn push(&mut self, piece: &str) -> String {
        if self.state == State::Text && piece.chars().all(|character| self.passes(character)) {
            return piece.to_owned();
        }
        let mut shown = String::with_capacity(piece.len());
        for character in piece.chars() {
            self.step(character, &mut shown);
        }
        shown
    }

    fn step(&mut self, character: char, shown: &mut String) {
        self.state = match self.state {
            State::Text => self.in_text(character, shown),
            State::Return => {
                if character == '\n' {
                    shown.push('\r');
                }
                self.in_text(character, shown)
            }
            State::Escape => self.after_escape(character, shown),
            State::EscapeIntermediate => match character {
                '\u{20}'..='\u{2f}' => State::EscapeIntermediate,
                '\u{30}'..='\u{7e}' => State::Text,
                other => self.in_text(other, shown),
            },
            State::Control => match character {
                '\u{20}'..='\u{3f}' => State::Control,
                '\u{40}'..='\u{7e}' => State::Text,
                other => self.in_text(other, shown),
            },
            State::Message => match character {
                '\u{7}' | '\u{9c}' => State::Text,
                '\u{1b}' => State::MessageEscape,
                // Without its end such a text would swallow the rest of the answer.
                '\n' => self.in_text('\n', shown),
                _ => State::Message,
            },
            State::MessageEscape => match character {
                '\\' => State::Text,
                other => self.after_escape(other, shown),
            },
        };
    }

    fn after_escape(&self, character: char, shown: &mut String) -> State {
        match character {
            '[' => State::Control,
            ']' | 'P' | 'X' | '^' | '_' => State::Message,
            '\u{20}'..='\u{2f}' => State::EscapeIntermediate,
            '\u{30}'..='\u{7e}' => State::Text,
            other => self.in_text(other, shown),
        }
    }

    fn in_text(&self, character: char, shown: &mut String) -> State {
        match character {
            '\u{1b}' => return State::Escape,
            '\u{9b}' => return State::Control,
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => return State::Message,
            '\r' if self.keep == Keep::Lines => return State::Return,
            other if self.passes(other) => shown.push(other),
            _ => {}
        }
        State::Text
    }

    fn passes(&self, character: char) -> bool {
        match self.keep {
            Keep::Lines => is_plain(character),
            Keep::Singles => !matches!(character, '\u{1b}' | '\u{80}'..='\u{9f}'),
        }
    }
}

/// A whole text without control sequences, control characters and direction overrides.
pub fn plain(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_plain) { Cow::Borrowed(text) } else { Stripper::default().push(text).into() }
}

/// Whether a character may reach a terminal as it is.
fn is_plain(c: char) -> bool {
    matches!(c, '\n' | '\t') || !(c.is_control() || is_override(c))
}

/// Changes the order in which the rest of a line is drawn.
fn is_override(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Nothing is drawn for it, or nothing that tells it from a space.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0d}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
        || (c.is_whitespace() && !c.is_ascii())
}

/// A multi-line text with hidden characters made visible, such as `<U+202E>`. For texts that
/// the user approves.
pub fn visible(text: &str) -> Cow<'_, str> {
    marked(text, |c| matches!(c, '\n' | '\t'))
}

/// A name on one line with hidden characters and line breaks made visible.
pub fn name(text: &str) -> Cow<'_, str> {
    marked(text, |_| false)
}

fn marked(text: &str, passes: impl Fn(char) -> bool) -> Cow<'_, str> {
    let hides = |c: char| !passes(c) && (c.is_control() || is_override(c) || is_invisible(c));
    if !text.contains(hides) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        if c == '\r' && passes('\n') && characters.peek() == Some(&'\n') {
            // A line end of another system hides nothing.
        } else if hides(c) {
            // Writing to a string cannot fail.
            let _ = write!(shown, "<U+{:04X}>", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown.into()
}

/// A whole text on one line, for messages and titles. What is invisible is left out, except for what joins
/// the parts of a letter or an emoji.
pub fn one_line(text: &str) -> String {
    let plain = plain(text);
    let mut line = String::with_capacity(plain.len());
    for part in plain.split(['\n', '\u{2028}', '\u{2029}']).map(str::trim).filter(|part| !part.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(part.chars().filter(|c| !is_left_out(*c)).map(|c| if c == '\t' { ' ' } else { c }));
    }
    line
}

fn is_left_out(c: char) -> bool {
    is_invisible(c) && !matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0d}') && !c.is_whitespace()
}

/// A JSON document in which every character that a terminal obeys is escaped. JSON itself escapes only the
/// first 32, and only inside of strings do such characters occur.
pub fn json(document: String) -> String {
    let obeyed = |c: char| matches!(c, '\u{7f}'..='\u{9f}') || is_override(c);
    if !document.contains(obeyed) {
        return document;
    }
    let mut escaped = String::with_capacity(document.len() + 16);
    for c in document.chars() {
        if obeyed(c) {
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
