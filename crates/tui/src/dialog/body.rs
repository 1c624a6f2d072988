//! A text that may be longer than the room for it, and must be seen before it is agreed to.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::text::{Line, Span};

use super::Room;
use crate::wrap::{Margin, wrap};

/// How far a text was read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// The first line that is shown.
    top: usize,
    /// Lines in all, and lines that fit, when it was last drawn.
    whole: usize,
    fits: usize,
    /// The last line was on the screen.
    seen: bool,
}

impl Reading {
    /// Whether everything was on the screen.
    pub(super) fn is_read(&self) -> bool {
        self.seen
    }

    pub(super) fn next_page(&mut self) {
        self.move_to(self.top + self.fits.max(1));
    }

    /// Scrolls if the key says so.
    pub(super) fn key(&mut self, key: KeyEvent) -> bool {
        let shift = key.modifiers.contains(KeyModifiers::SHIFT);
        match key.code {
            KeyCode::PageDown => self.next_page(),
            KeyCode::PageUp => self.move_to(self.top.saturating_sub(self.fits.max(1))),
            KeyCode::Down if shift => self.move_to(self.top + 1),
            KeyCode::Up if shift => self.move_to(self.top.saturating_sub(1)),
            KeyCode::Home => self.move_to(0),
            KeyCode::End => self.move_to(self.whole),
            _ => return false,
        }
        true
    }

    fn move_to(&mut self, top: usize) {
        self.top = top.min(self.whole.saturating_sub(self.fits));
    }

    /// The part that fits into `height` lines, with a line about the rest. What has no room counts as not read.
    pub(super) fn part(
        &mut self,
        lines: Vec<Line<'static>>,
        height: usize,
        room: Room<'_>,
    ) -> Vec<Line<'static>> {
        self.whole = lines.len();
        if lines.len() <= height {
            (self.fits, self.top, self.seen) = (lines.len(), 0, true);
            return lines;
        }
        self.fits = if height > 1 { height - 1 } else { height };
        self.move_to(self.top);
        let end = self.top + self.fits;
        self.seen |= self.fits > 0 && end >= self.whole;
        if height <= 1 {
            return lines.into_iter().skip(self.top).take(self.fits).collect();
        }
        let below = self.whole.saturating_sub(end);
        let note = match below {
            0 => format!("(end of {} lines; PgUp goes back)", self.whole),
            _ => format!("({below} more of {} lines: Enter or PgDn shows them, End the last)", self.whole),
        };
        let note = wrap(&[Span::styled(note, room.theme.warning())], room.width, &Margin::default());
        lines.into_iter().skip(self.top).take(self.fits).chain(note.into_iter().take(1)).collect()
    }
}
