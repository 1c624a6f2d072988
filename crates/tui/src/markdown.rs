//! Markdown as lines for the screen.
//!
//! A text that streams in is cut where a block is surely over ([`Stream`]); what is before the cut is rendered once
//! and never again, so a long answer costs no more per piece than a short one.

mod blocks;
mod stream;
mod table;

use ratatui::text::Line;

pub(crate) use stream::Stream;

use crate::theme::Theme;

/// The parameters of rendering.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) theme: &'a Theme,
    pub(crate) width: u16,
    /// Numbers before the lines of code.
    pub(crate) line_numbers: bool,
}

/// A whole text as lines. Control sequences in it are taken out first.
pub(crate) fn render(text: &str, look: Look<'_>) -> Vec<Line<'static>> {
    blocks::render(&pollux_domain::terminal_text::plain(text), look)
}
