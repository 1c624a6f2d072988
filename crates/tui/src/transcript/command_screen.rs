//! The screen of a running command as rows of its box.

use std::sync::Arc;

use pollux_domain::terminal_screen::{CellStyle, ScreenColor, ScreenPosition, ScreenRun, TerminalScreen};
use pollux_domain::terminal_text::plain;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// A command's screen, and whether the person types into it.
#[derive(Debug, Clone)]
pub(super) struct CommandScreen {
    pub(super) screen: Arc<TerminalScreen>,
    pub(super) colours: bool,
    pub(super) focused: bool,
}

impl CommandScreen {
    /// The last rows, as many as fit, and the number of those above.
    pub(super) fn lines(&self, most: usize, text: Style) -> (Vec<Line<'static>>, usize) {
        let screen = &*self.screen;
        let cursor = screen.cursor.filter(|_| self.focused);
        let below = cursor.map_or(0, |cursor| usize::from(cursor.row) + 1);
        let all = screen.rows.len().max(below);
        // A full-screen program that does not fit is shown around its cursor.
        let end = if screen.alternate && below > 0 { below.max(most.min(all)) } else { all };
        let start = end.saturating_sub(most);
        let lines = (start..end).map(|at| {
            let runs = screen.rows.get(at).map(Vec::as_slice).unwrap_or_default();
            let line = line(runs, text, self.colours);
            match cursor.filter(|cursor| usize::from(cursor.row) == at) {
                Some(cursor) => with_cursor(line, cursor),
                None => line,
            }
        });
        (lines.collect(), start)
    }

    /// Whether it shows the end of a text. Rows break lines where the text does not, so blanks do not count.
    pub(super) fn is_end_of(&self, text: &str) -> bool {
        let squeezed = |text: &str| text.split_whitespace().collect::<String>();
        let shown = squeezed(&self.screen.text());
        !shown.is_empty() && !self.screen.alternate && squeezed(text).ends_with(&shown)
    }
}

fn line(runs: &[ScreenRun], text: Style, colours: bool) -> Line<'static> {
    let span = |run: &ScreenRun| {
        let style = run.style.filter(|_| colours).map_or(text, |style| patched(text, style));
        Span::styled(plain(&run.text).into_owned(), style)
    };
    Line::from(runs.iter().map(span).collect::<Vec<_>>())
}

fn patched(base: Style, cell: CellStyle) -> Style {
    let mut style = base;
    if let Some(colour) = colour(cell.foreground) {
        style = style.fg(colour);
    }
    if let Some(colour) = colour(cell.background) {
        style = style.bg(colour);
    }
    for (on, modifier) in [
        (cell.bold, Modifier::BOLD),
        (cell.dim, Modifier::DIM),
        (cell.italic, Modifier::ITALIC),
        (cell.underline, Modifier::UNDERLINED),
        (cell.inverse, Modifier::REVERSED),
    ] {
        if on {
            style = style.add_modifier(modifier);
        }
    }
    style
}

fn colour(colour: ScreenColor) -> Option<Color> {
    match colour {
        ScreenColor::Default => None,
        ScreenColor::Palette(index) => Some(Color::Indexed(index)),
        ScreenColor::Rgb { red, green, blue } => Some(Color::Rgb(red, green, blue)),
    }
}

/// Draws the cursor: the window's own one belongs to the prompt.
fn with_cursor(line: Line<'static>, cursor: ScreenPosition) -> Line<'static> {
    let column = usize::from(cursor.column);
    let mut spans: Vec<Span<'static>> = Vec::new();
    let (mut at, mut drawn) = (0, false);
    for span in line.spans {
        let mut text = String::new();
        for part in span.content.graphemes(true) {
            let width = part.width();
            if !drawn && at <= column && column < at + width {
                spans.push(Span::styled(std::mem::take(&mut text), span.style));
                spans.push(Span::styled(part.to_owned(), span.style.add_modifier(Modifier::REVERSED)));
                drawn = true;
            } else {
                text.push_str(part);
            }
            at += width;
        }
        spans.push(Span::styled(text, span.style));
    }
    if !drawn {
        spans.push(Span::raw(" ".repeat(column.saturating_sub(at))));
        spans.push(Span::styled(" ", Style::new().add_modifier(Modifier::REVERSED)));
    }
    spans.retain(|span| !span.content.is_empty());
    Line::from(spans)
}
