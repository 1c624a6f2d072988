//! How the prompt and its suggestions are drawn.

use pollux_domain::terminal_text;
use ratatui::buffer::Buffer as Cells;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use unicode_width::UnicodeWidthStr;

use super::buffer::BufferLine;
use super::completion::Kind;
use super::glyph::{GlyphKind, glyph};
use super::popup::Popup;
use super::{Composer, VimMode};
use crate::wrap::cut;

/// Rows the prompt may have; longer ones scroll.
const MOST_ROWS: u16 = 10;

/// The styles the composer is drawn with.
#[derive(Debug, Clone, Copy, Default)]
pub struct Look {
    pub prefix: Style,
    pub text: Style,
    pub placeholder: Style,
    pub popup: Style,
    pub selected: Style,
    pub dim: Style,
    /// Placeholders of pastes.
    pub fold: Style,
}

impl Composer {
    /// Rows the prompt needs in a window of this width.
    pub fn height(&mut self, width: u16) -> u16 {
        self.buffer.set_width(self.room(width));
        u16::try_from(self.buffer.rows(usize::from(MOST_ROWS))).unwrap_or(MOST_ROWS)
    }

    /// Rows the suggestions need; 0 without any.
    pub fn popup_height(&self) -> u16 {
        u16::try_from(self.popup().height()).unwrap_or(0)
    }

    fn popup(&self) -> &Popup {
        self.search.as_ref().map_or(&self.completion.popup, |search| &search.popup)
    }

    fn prefix(&self) -> &'static str {
        if self.search.is_some() {
            "(r:) "
        } else if self.shell {
            "! "
        } else if self.conditions.yolo {
            "* "
        } else {
            "> "
        }
    }

    fn placeholder(&self) -> &'static str {
        match self.vim_mode() {
            Some(VimMode::Insert) => "  Press 'Esc' for NORMAL mode.",
            Some(VimMode::Normal) => "  Press 'i' for INSERT mode.",
            None if self.shell => "  Type your shell command",
            None => "  Type your message or @path/to/file",
        }
    }

    /// Columns for text: without the prefix and one column for the cursor.
    fn room(&self, width: u16) -> usize {
        usize::from(width).saturating_sub(self.prefix().len() + 1).max(1)
    }

    /// Draws the prompt; the answer is where the cursor goes.
    pub fn render(&mut self, area: Rect, cells: &mut Cells, look: &Look) -> Option<Position> {
        let area = area.intersection(*cells.area());
        if area.is_empty() {
            return None;
        }
        let prefix = self.prefix();
        self.buffer.set_width(self.room(area.width));
        cells.set_stringn(area.x, area.y, prefix, usize::from(area.width), look.prefix);
        let indent = u16::try_from(prefix.len()).unwrap_or(0).min(area.width - 1);
        let field = Rect { x: area.x + indent, width: area.width - indent, ..area };
        if self.buffer.is_empty() && self.search.is_none() {
            let room = usize::from(field.width);
            cells.set_stringn(field.x, field.y, self.placeholder(), room, look.placeholder);
            return Some(Position::new(field.x, field.y));
        }
        let (row, column) = self.buffer.place();
        let cursor = (self.buffer.cursor().line, row);
        self.scroll_to(cursor, usize::from(field.height));
        self.draw_rows(field, cells, look, cursor).map(|y| {
            let right = usize::from(field.width - 1);
            Position::new(field.x + u16::try_from(column.min(right)).unwrap_or(0), y)
        })
    }

    /// Draws from the top row on; the answer is where the cursor's row is.
    fn draw_rows(
        &mut self,
        field: Rect,
        cells: &mut Cells,
        look: &Look,
        cursor: (usize, usize),
    ) -> Option<u16> {
        let (mut line, mut row) = self.top;
        let mut found = None;
        for y in field.top()..field.bottom() {
            let Some(rows) = self.buffer.wrapped(line).map(BufferLine::rows) else { break };
            self.draw_row(line, row, Rect { y, height: 1, ..field }, cells, look);
            if (line, row) == cursor {
                found = Some(y);
            }
            (line, row) = if row + 1 < rows { (line, row + 1) } else { (line + 1, 0) };
        }
        found
    }

    fn draw_row(&mut self, line: usize, row: usize, area: Rect, cells: &mut Cells, look: &Look) {
        let Some(range) = self.buffer.wrapped(line).map(|line| line.row(row)) else { return };
        let text = self.buffer.line(line);
        let (mut here, mut column) = (range.start, 0);
        while here < range.end
            && let Some(glyph) = glyph(text, here, column, &self.buffer.folds)
        {
            let left = usize::from(area.width).saturating_sub(column);
            if left == 0 {
                break;
            }
            let style = match glyph.kind {
                GlyphKind::Plain | GlyphKind::Blank => look.text,
                GlyphKind::Marked => look.dim,
                GlyphKind::Fold => look.fold,
            };
            let x = area.x + u16::try_from(column).unwrap_or(0);
            cells.set_stringn(x, area.y, &glyph.shown, left, style);
            here += glyph.len;
            column += glyph.width;
        }
    }

    /// Moves the top row so that the cursor's row is seen.
    fn scroll_to(&mut self, cursor: (usize, usize), height: usize) {
        // The text may have become shorter, or its rows others.
        let rows = self.buffer.wrapped(self.top.0).map(BufferLine::rows);
        match rows {
            Some(rows) => self.top.1 = self.top.1.min(rows - 1),
            None => self.top = cursor,
        }
        if self.top >= cursor {
            self.top = cursor;
        }
        // As far up as the cursor's row can be the last one; further up only when there are rows to fill.
        let highest = self.rows_before(cursor, height - 1);
        self.top = self.top.max(highest);
        let end = self.last_row();
        self.top = self.top.min(self.rows_before(end, height - 1));
    }

    fn last_row(&mut self) -> (usize, usize) {
        let line = self.buffer.line_count() - 1;
        (line, self.buffer.wrapped(line).map_or(0, |line| line.rows() - 1))
    }

    /// The row that is this many rows above, or the first.
    fn rows_before(&mut self, (mut line, mut row): (usize, usize), mut count: usize) -> (usize, usize) {
        while count > row {
            let Some(before) = line.checked_sub(1) else { return (0, 0) };
            count -= row + 1;
            line = before;
            row = self.buffer.wrapped(line).map_or(0, |line| line.rows() - 1);
        }
        (line, row - count)
    }

    /// Draws the suggestions, if there are any.
    pub fn render_popup(&self, area: Rect, cells: &mut Cells, look: &Look) {
        let area = area.intersection(*cells.area());
        let popup = self.popup();
        if popup.height() == 0 || area.width < 3 {
            return;
        }
        let inner = Rect { x: area.x + 1, width: area.width - 2, ..area };
        let labels =
            popup.seen().map(|(item, _)| terminal_text::name(&item.label).width()).max().unwrap_or(0);
        let is_slash = self.search.is_none() && self.completion.kind() == Some(Kind::Slash);
        let half = usize::from(inner.width) / 2;
        let column = if is_slash { labels.min(half) } else { labels };
        let mut rows = (inner.top()..inner.bottom()).map(|y| Rect { y, height: 1, ..inner });
        for ((item, is_selected), row) in popup.seen().zip(rows.by_ref()) {
            let style = if is_selected { look.selected } else { look.popup };
            cells.set_style(row, style);
            let label = terminal_text::name(&item.label);
            let column = u16::try_from(column).unwrap_or(u16::MAX);
            let room = if item.description.is_empty() { row.width } else { row.width.min(column) };
            cells.set_stringn(row.x, row.y, cut(&label, room), usize::from(room), style);
            let from = column.saturating_add(3);
            let left = row.width.saturating_sub(from);
            if !item.description.is_empty() && left > 3 {
                let style = if is_selected { look.selected } else { look.dim };
                let text = cut(&terminal_text::one_line(&item.description), left);
                cells.set_stringn(row.x + from, row.y, text, usize::from(left), style);
            }
        }
        if let Some(counter) = popup.counter()
            && let Some(row) = rows.next()
        {
            cells.set_stringn(row.x, row.y, counter, usize::from(row.width), look.dim);
        }
        if let Some(row) = rows.next() {
            cells.set_stringn(row.x, row.y, popup.note, usize::from(row.width), look.dim);
        }
    }
}
