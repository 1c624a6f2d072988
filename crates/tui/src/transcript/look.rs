//! How the transcript is rendered.

use std::time::Instant;

use crate::markdown;
use crate::theme::Theme;

/// The parameters of rendering.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    pub theme: &'a Theme,
    pub width: u16,
    /// Lines of output that a box shows at most.
    pub box_lines: usize,
    pub line_numbers: bool,
    /// The text as it is written, without Markdown.
    pub raw: bool,
    /// Show successful calls in one line.
    pub compact: bool,
    pub now: Instant,
}

impl<'a> Look<'a> {
    pub(crate) fn markdown(self) -> markdown::Look<'a> {
        let width = self.width.saturating_sub(2).max(1);
        markdown::Look { theme: self.theme, width, line_numbers: self.line_numbers }
    }
}
