//! Splits the output of a command into characters and control sequences. Text inside sequences (titles, clipboard,
//! images) is dropped, and nothing grows with the output.

use crate::live::incomplete_suffix;

/// Numbers of a sequence that are kept; more are dropped.
const MAX_NUMBERS: usize = 16;

/// The numbers of a sequence.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Numbers {
    values: [u16; MAX_NUMBERS],
    /// Whether a number belongs to the one before it (`:`).
    joined: [bool; MAX_NUMBERS],
    last: usize,
}

impl Numbers {
    /// A number; 0 if it is not given.
    pub(super) fn get(&self, index: usize) -> u16 {
        self.values.get(index).copied().unwrap_or_default()
    }

    /// A number that counts something; 1 if it is not given.
    pub(super) fn count(&self, index: usize) -> u16 {
        self.get(index).max(1)
    }

    /// The numbers, those joined by `:` together.
    pub(super) fn groups(&self) -> Vec<&[u16]> {
        let values = self.values.get(..(self.last + 1).min(MAX_NUMBERS)).unwrap_or_default();
        let mut groups = Vec::new();
        let mut from = 0;
        for end in 1..=values.len() {
            if end == values.len() || !self.joined.get(end).copied().unwrap_or_default() {
                groups.push(values.get(from..end).unwrap_or_default());
                from = end;
            }
        }
        groups
    }

    fn digit(&mut self, digit: u16) {
        if let Some(value) = self.values.get_mut(self.last) {
            *value = value.saturating_mul(10).saturating_add(digit);
        }
    }

    fn next(&mut self, joined: bool) {
        self.last = (self.last + 1).min(MAX_NUMBERS);
        if let Some(place) = self.joined.get_mut(self.last) {
            *place = joined;
        }
    }
}

/// A sequence that begins with `ESC [`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sequence {
    /// `?`, `>`, `=` or `<` before the numbers.
    pub(super) private: Option<char>,
    /// A character between the numbers and the last one.
    pub(super) between: Option<char>,
    pub(super) numbers: Numbers,
}

/// Does what the output says.
pub(super) trait Target {
    fn print(&mut self, character: char);
    fn control(&mut self, character: char);
    /// `ESC`, maybe one character, and `last`.
    fn escape(&mut self, between: Option<char>, last: char);
    fn sequence(&mut self, sequence: &Sequence, last: char);
}

#[derive(Debug, Clone, Copy, Default)]
enum State {
    #[default]
    Text,
    Escape(Option<char>),
    Sequence(Sequence),
    /// A text that ends with BEL or `ESC \`.
    Message,
    MessageEscape,
}

/// Parses output that arrives in pieces; they may be cut anywhere.
#[derive(Debug, Default)]
pub(super) struct Parser {
    state: State,
    /// The first bytes of a character whose rest has not come yet.
    cut: Vec<u8>,
}

impl Parser {
    pub(super) fn push(&mut self, bytes: &[u8], target: &mut impl Target) {
        let mut whole = std::mem::take(&mut self.cut);
        whole.extend_from_slice(bytes);
        self.cut = whole.split_off(whole.len() - incomplete_suffix(&whole));
        for character in String::from_utf8_lossy(&whole).chars() {
            self.step(character, target);
        }
    }

    fn step(&mut self, character: char, target: &mut impl Target) {
        self.state = match (self.state, character) {
            (State::MessageEscape, '\\') => State::Text,
            (State::MessageEscape, other) => after_escape(other, target),
            (State::Message, '\u{1b}') => State::MessageEscape,
            (State::Message, '\u{7}' | '\u{18}' | '\u{1a}') => State::Text,
            // One without an end must not hide the rest of the output.
            (State::Message, '\n') => {
                target.control('\r');
                target.control('\n');
                State::Text
            }
            (State::Message, _) => State::Message,
            (_, '\u{1b}') => State::Escape(None),
            (_, '\u{18}' | '\u{1a}') => State::Text,
            // Single controls take effect in the middle of a sequence too.
            (state, '\0'..='\u{1f}') => {
                target.control(character);
                state
            }
            (state, '\u{7f}'..='\u{9f}') => state,
            (State::Text, _) => {
                target.print(character);
                State::Text
            }
            (State::Escape(None), _) => after_escape(character, target),
            (State::Escape(between), ' '..='/') => State::Escape(between),
            (State::Escape(between), _) => {
                target.escape(between, character);
                State::Text
            }
            (State::Sequence(sequence), _) => in_sequence(sequence, character, target),
        };
    }
}

fn after_escape(character: char, target: &mut impl Target) -> State {
    match character {
        '[' => State::Sequence(Sequence::default()),
        ']' | 'P' | 'X' | '^' | '_' => State::Message,
        ' '..='/' => State::Escape(Some(character)),
        '\u{1b}' => State::Escape(None),
        _ => {
            target.escape(None, character);
            State::Text
        }
    }
}

fn in_sequence(mut sequence: Sequence, character: char, target: &mut impl Target) -> State {
    match character {
        '0'..='9' => sequence.numbers.digit(character.to_digit(10).unwrap_or_default() as u16),
        ';' | ':' => sequence.numbers.next(character == ':'),
        '<'..='?' => sequence.private = Some(character),
        ' '..='/' => sequence.between = Some(character),
        '@'..='~' => {
            target.sequence(&sequence, character);
            return State::Text;
        }
        _ => return State::Text,
    }
    State::Sequence(sequence)
}
