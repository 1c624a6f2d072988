//! Text without terminal control sequences.
//!
//! A model, a tool or a file may contain sequences that move the cursor, rename the window or write the
//! clipboard. Sequences can be cut anywhere by streaming, so the filter remembers where it is.

/// Removes control sequences from a text that arrives in pieces.
#[derive(Debug, Default, Clone)]
pub(crate) struct PlainText {
    state: State,
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

impl PlainText {
    /// What of this piece may be shown.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        let mut shown = String::with_capacity(piece.len());
        for character in piece.chars() {
            self.step(character, &mut shown);
        }
        shown
    }

    fn step(&mut self, character: char, shown: &mut String) {
        self.state = match self.state {
            State::Text => Self::in_text(character, shown),
            State::Return => {
                if character == '\n' {
                    shown.push('\r');
                }
                Self::in_text(character, shown)
            }
            State::Escape => Self::after_escape(character, shown),
            State::EscapeIntermediate => match character {
                '\u{20}'..='\u{2f}' => State::EscapeIntermediate,
                '\u{30}'..='\u{7e}' => State::Text,
                other => Self::in_text(other, shown),
            },
            State::Control => match character {
                '\u{20}'..='\u{3f}' => State::Control,
                '\u{40}'..='\u{7e}' => State::Text,
                other => Self::in_text(other, shown),
            },
            State::Message => match character {
                '\u{7}' | '\u{9c}' => State::Text,
                '\u{1b}' => State::MessageEscape,
                // Without its end such a text would swallow the rest of the answer.
                '\n' => Self::in_text('\n', shown),
                _ => State::Message,
            },
            State::MessageEscape => match character {
                '\\' => State::Text,
                other => Self::after_escape(other, shown),
            },
        };
    }

    fn after_escape(character: char, shown: &mut String) -> State {
        match character {
            '[' => State::Control,
            ']' | 'P' | 'X' | '^' | '_' => State::Message,
            '\u{20}'..='\u{2f}' => State::EscapeIntermediate,
            '\u{30}'..='\u{7e}' => State::Text,
            other => Self::in_text(other, shown),
        }
    }

    fn in_text(character: char, shown: &mut String) -> State {
        match character {
            '\u{1b}' => return State::Escape,
            '\u{9b}' => return State::Control,
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => return State::Message,
            '\r' => return State::Return,
            '\n' | '\t' => shown.push(character),
            other if other.is_control() => {}
            other => shown.push(other),
        }
        State::Text
    }
}

/// A whole text without control sequences.
pub(crate) fn plain(text: &str) -> String {
    PlainText::default().push(text)
}

/// A whole text on one line, for messages.
pub(crate) fn one_line(text: &str) -> String {
    plain(text).lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASES: &[(&str, &str)] = &[
        ("plain é ✓\n\ttext", "plain é ✓\n\ttext"),
        ("\u{1b}[31mred\u{1b}[0m", "red"),
        ("a\u{1b}]0;title\u{7}b", "ab"),
        ("a\u{1b}]52;c;aGk=\u{1b}\\b", "ab"),
        ("a\u{1b}Pq#0\u{1b}\\b", "ab"),
        ("a\u{9b}2Jb", "ab"),
        ("a\u{1b}(Bb\u{1b}7c", "abc"),
        ("line\rover\r\nnext", "lineover\r\nnext"),
        ("bell\u{7}null\0del\u{7f}", "bellnulldel"),
        ("open \u{1b}]8;;http\nnext line", "open \nnext line"),
        ("\u{1b}\u{1b}[1mx", "x"),
        ("\u{1b}[3\nx", "\nx"),
        ("\u{1b}é", "é"),
    ];

    #[test]
    fn control_sequences_are_removed() {
        for (given, expected) in CASES {
            assert_eq!(&plain(given), expected, "{given:?}");
        }
    }

    #[test]
    fn the_result_does_not_depend_on_how_the_text_is_cut() {
        for (given, expected) in CASES {
            let mut filter = PlainText::default();
            let one_by_one: String = given.chars().map(|c| filter.push(&c.to_string())).collect();
            assert_eq!(&one_by_one, expected, "{given:?}");
        }
    }

    #[test]
    fn a_message_fits_on_one_line() {
        assert_eq!(one_line("a\n  b\u{1b}[1m\r\n\n"), "a b");
    }
}
