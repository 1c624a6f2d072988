//! A one-line text input.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pollux_domain::terminal_text::{one_line, visible};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::{Room, Verdict};
use crate::wrap::{Margin, wrap};

/// A question that is answered with text.
#[derive(Debug)]
pub struct TextEntry {
    question: String,
    words: String,
    /// The typed text is not shown.
    secret: bool,
}

impl TextEntry {
    pub fn new(question: impl Into<String>, secret: bool) -> Self {
        Self { question: question.into(), words: String::new(), secret }
    }

    pub(super) fn key(&mut self, key: KeyEvent) -> Verdict {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Verdict::Closed,
            KeyCode::Esc => return Verdict::Closed,
            KeyCode::Enter => return Verdict::Entered(self.words.clone()),
            KeyCode::Char('u') if control => self.words.clear(),
            KeyCode::Backspace => drop(self.words.pop()),
            KeyCode::Char(character) if !control => self.words.push(character),
            _ => {}
        }
        Verdict::Open
    }

    pub(super) fn paste(&mut self, text: &str) {
        self.words.push_str(one_line(text).trim());
    }

    pub(super) fn lines(&self, room: Room<'_>) -> Vec<Line<'static>> {
        let bold = room.theme.text().add_modifier(Modifier::BOLD);
        let text = visible(&self.question).into_owned();
        let mut lines: Vec<Line<'static>> = text
            .lines()
            .flat_map(|line| wrap(&[Span::styled(line.to_owned(), bold)], room.width, &Margin::default()))
            .collect();
        let shown = match self.secret {
            true => "*".repeat(self.words.chars().count()),
            false => visible(&self.words).into_owned(),
        };
        let spans =
            [Span::styled("> ", room.theme.accent()), Span::styled(format!("{shown}▏"), room.theme.text())];
        lines.extend(wrap(&spans, room.width, &Margin::default()));
        lines.push(Line::from(Span::styled("Enter to confirm · Esc to cancel", room.theme.secondary())));
        lines
    }
}
