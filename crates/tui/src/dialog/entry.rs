//! A one-line text input.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pollux_domain::terminal_text::visible;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::field::Field;
use super::{Room, Verdict};
use crate::keys::KeyMap;
use crate::wrap::{Margin, wrap};

/// A question that is answered with text.
#[derive(Debug)]
pub struct TextEntry {
    question: String,
    field: Field,
}

impl TextEntry {
    /// With `secret`, the typed text is not shown.
    pub fn new(question: impl Into<String>, secret: bool) -> Self {
        Self { question: question.into(), field: Field::new(secret) }
    }

    pub(super) fn key(&mut self, key: KeyEvent, keys: &KeyMap) -> Verdict {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => Verdict::Closed,
            KeyCode::Esc => Verdict::Closed,
            KeyCode::Enter => Verdict::Entered(self.field.text()),
            _ => {
                self.field.key(key, keys);
                Verdict::Open
            }
        }
    }

    pub(super) fn paste(&mut self, text: &str) {
        self.field.paste(text.trim());
    }

    pub(super) fn lines(&self, room: Room<'_>) -> Vec<Line<'static>> {
        let bold = room.theme.text().add_modifier(Modifier::BOLD);
        let text = visible(&self.question).into_owned();
        let mut lines: Vec<Line<'static>> = text
            .lines()
            .flat_map(|line| wrap(&[Span::styled(line.to_owned(), bold)], room.width, &Margin::default()))
            .collect();
        let spans = [Span::styled("> ", room.theme.accent()), self.field.span(room.theme.text())];
        lines.extend(wrap(&spans, room.width, &Margin::default()));
        lines.push(Line::from(Span::styled("Enter to confirm · Esc to cancel", room.theme.secondary())));
        lines
    }
}
