//! A few things to choose from, with numbers.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::text::{Line, Span};

use super::Room;
use crate::wrap::{Margin, wrap};

/// A list of choices; one is marked.
#[derive(Debug)]
pub(super) struct Choices {
    labels: Vec<String>,
    marked: usize,
}

impl Choices {
    pub(super) fn new(labels: Vec<String>) -> Self {
        Self { labels, marked: 0 }
    }

    pub(super) fn marked(&self) -> usize {
        self.marked
    }

    pub(super) fn mark(&mut self, index: usize) {
        self.marked = index.min(self.labels.len().saturating_sub(1));
    }

    /// The choice that a key makes; moving makes none.
    pub(super) fn key(&mut self, key: KeyEvent) -> Option<usize> {
        if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            return None;
        }
        let count = self.labels.len().max(1);
        match key.code {
            KeyCode::Up | KeyCode::Char('k') => self.marked = (self.marked + count - 1) % count,
            KeyCode::Down | KeyCode::Char('j') => self.marked = (self.marked + 1) % count,
            KeyCode::Enter => return Some(self.marked),
            KeyCode::Char(digit) => {
                let number = usize::try_from(digit.to_digit(10)?).ok()?;
                let index = number.checked_sub(1).filter(|index| *index < self.labels.len())?;
                self.marked = index;
                return Some(index);
            }
            _ => {}
        }
        None
    }

    pub(super) fn lines(&self, room: Room<'_>) -> Vec<Line<'static>> {
        let choices = self.labels.iter().enumerate().flat_map(|(index, label)| {
            let marked = index == self.marked;
            let style = if marked { room.theme.focused() } else { room.theme.text() };
            let sign = if marked { "● " } else { "  " };
            let sign = Span::styled(format!("{sign}{}. ", index + 1), style);
            wrap(&[Span::styled(label.clone(), style)], room.width, &Margin::hanging(sign))
        });
        choices.collect()
    }
}
