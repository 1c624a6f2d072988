//! A short numbered list of choices.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::Room;
use crate::wrap::{Margin, cut, wrap};

/// A list of choices; one is marked.
#[derive(Debug)]
pub(super) struct Choices {
    /// The digit that makes a choice, and its words.
    choices: Vec<(usize, String)>,
    marked: usize,
    /// The choice that is marked at first.
    first: usize,
    /// The choice that does nothing, where there is one.
    no: Option<usize>,
}

impl Choices {
    /// Choices that are counted.
    pub(super) fn new(labels: Vec<String>) -> Self {
        Self::numbered(labels.into_iter().zip(1..).map(|(label, digit)| (digit, label)).collect(), None)
    }

    /// Choices with digits of their own. A digit that makes no choice marks `no`.
    pub(super) fn numbered(choices: Vec<(usize, String)>, no: Option<usize>) -> Self {
        Self { choices, marked: 0, first: 0, no }
    }

    /// The same, where one of those that are counted does nothing.
    pub(super) fn with_no(mut self, no: usize) -> Self {
        self.no = Some(no);
        self
    }

    /// Marks a choice from the start.
    pub(super) fn start_at(&mut self, index: usize) {
        self.mark(index);
        self.first = self.marked;
    }

    /// Marks the initial choice again.
    pub(super) fn restart(&mut self) {
        self.marked = self.first;
    }

    pub(super) fn marked(&self) -> usize {
        self.marked
    }

    pub(super) fn mark(&mut self, index: usize) {
        self.marked = index.min(self.choices.len().saturating_sub(1));
    }

    /// The choice that a key makes; moving makes none.
    pub(super) fn key(&mut self, key: KeyEvent) -> Option<usize> {
        if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            return None;
        }
        let count = self.choices.len().max(1);
        match key.code {
            KeyCode::Up | KeyCode::Char('k') => self.marked = (self.marked + count - 1) % count,
            KeyCode::Down | KeyCode::Char('j') => self.marked = (self.marked + 1) % count,
            KeyCode::Enter => return Some(self.marked),
            KeyCode::Char(digit) => {
                let digit = usize::try_from(digit.to_digit(10)?).ok()?;
                let index = self.choices.iter().position(|(known, _)| *known == digit);
                self.marked = index.or(self.no).unwrap_or(self.marked);
                return index;
            }
            _ => {}
        }
        None
    }

    pub(super) fn lines(&self, room: Room<'_>) -> Vec<Line<'static>> {
        let choice = |index| {
            let (sign, label, style) = self.parts(index, room);
            wrap(&[Span::styled(label, style)], room.width, &Margin::hanging(Span::styled(sign, style)))
        };
        (0..self.choices.len()).flat_map(choice).collect()
    }

    /// The choices around the marked one, in one row each and at most so many.
    pub(super) fn rows(&self, most: usize, room: Room<'_>) -> Vec<Line<'static>> {
        let first = (self.marked + 1).saturating_sub(most);
        let choice = |index| {
            let (sign, label, style) = self.parts(index, room);
            Line::from(Span::styled(cut(&format!("{sign}{label}"), room.width), style))
        };
        (0..self.choices.len()).skip(first).take(most).map(choice).collect()
    }

    fn parts(&self, index: usize, room: Room<'_>) -> (String, String, Style) {
        let marked = index == self.marked;
        let style = if marked { room.theme.focused() } else { room.theme.text() };
        let mark = if marked { "● " } else { "  " };
        let (digit, label) = self.choices.get(index).cloned().unwrap_or_default();
        (format!("{mark}{digit}. "), label, style)
    }
}
