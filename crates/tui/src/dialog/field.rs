//! A line of text that is typed into a dialog, edited as the prompt is.

use crossterm::event::KeyEvent;
use pollux_domain::terminal_text::{one_line, visible};
use ratatui::style::Style;
use ratatui::text::Span;

use crate::composer::{Buffer, Pos, typed_char};
use crate::keys::{Context, KeyMap};

/// The text and its cursor.
#[derive(Debug)]
pub(super) struct Field {
    buffer: Box<Buffer>,
    /// The text is not shown.
    secret: bool,
}

impl Field {
    pub(super) fn new(secret: bool) -> Self {
        let mut buffer = Box::<Buffer>::default();
        // The dialog wraps it: to the keys it is one row.
        buffer.set_width(usize::MAX);
        Self { buffer, secret }
    }

    pub(super) fn text(&self) -> String {
        self.buffer.folds.expand(&self.buffer.raw())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// A key that types or edits; any other does nothing.
    pub(super) fn key(&mut self, key: KeyEvent, keys: &KeyMap) {
        match (keys.command(&key, Context::Composer), typed_char(&key)) {
            (Some(command), _) => drop(self.buffer.edit(command)),
            (None, Some(typed)) => self.buffer.insert(typed.encode_utf8(&mut [0; 4])),
            (None, None) => {}
        }
    }

    pub(super) fn paste(&mut self, text: &str) {
        self.buffer.insert(&one_line(text));
    }

    /// The text with its cursor.
    pub(super) fn span(&self, style: Style) -> Span<'static> {
        let shown = |text: String| match self.secret {
            true => "*".repeat(text.chars().count()),
            false => visible(&self.buffer.folds.expand(&text)).into_owned(),
        };
        let cursor = self.buffer.cursor();
        let before = self.buffer.slice(Pos::default()..cursor);
        let after = self.buffer.slice(cursor..self.buffer.end());
        Span::styled(format!("{}▏{}", shown(before), shown(after)), style)
    }
}
