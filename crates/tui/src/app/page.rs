//! The conversation when the whole screen is ours: it is kept, and scrolls.

use std::collections::VecDeque;

use ratatui::text::Line;

use crate::transcript::{Look, Past};

/// Lines that are kept; older ones are in the session's file.
const MOST: usize = 50_000;

/// The transcript on the alternate screen, and its visible part.
#[derive(Debug, Default)]
pub(super) struct Page {
    entries: VecDeque<Entry>,
    lines: usize,
    /// The last entry is a call of one row.
    after_row: bool,
    /// The parameters that the lines were rendered with.
    made_for: (u16, usize, bool, String),
    /// The first line that is seen; `None` follows the end.
    top: Option<usize>,
    /// As it was when it was last seen: all lines, and how many fit.
    whole: usize,
    fits: usize,
}

#[derive(Debug)]
struct Entry {
    past: Past,
    lines: Vec<Line<'static>>,
}

impl Page {
    pub(super) fn add(&mut self, past: Past, look: Look<'_>) {
        let lines = past.lines_after(&mut self.after_row, look);
        self.lines += lines.len();
        self.entries.push_back(Entry { past, lines });
        while self.lines > MOST
            && let Some(first) = self.entries.pop_front()
        {
            self.lines -= first.lines.len();
            self.top = self.top.map(|top| top.saturating_sub(first.lines.len()));
        }
    }

    /// Renders everything again after a change of width or appearance.
    pub(super) fn remake(&mut self, look: Look<'_>) {
        let made_for = (look.width, look.box_lines, look.raw, look.theme.name.clone());
        if self.made_for == made_for {
            return;
        }
        self.made_for = made_for;
        self.after_row = false;
        for entry in &mut self.entries {
            entry.lines = entry.past.lines_after(&mut self.after_row, look);
        }
        self.lines = self.entries.iter().map(|entry| entry.lines.len()).sum();
    }

    /// The visible lines in `fits` rows.
    pub(super) fn seen(
        &mut self,
        before: &[Line<'static>],
        after: &[Line<'static>],
        fits: usize,
    ) -> Vec<Line<'static>> {
        self.whole = before.len() + self.lines + after.len();
        self.fits = fits;
        let last = self.whole.saturating_sub(fits);
        self.top = self.top.filter(|top| *top < last);
        let top = self.top.unwrap_or(last);
        let kept = self.entries.iter().flat_map(|entry| &entry.lines);
        before.iter().chain(kept).chain(after).skip(top).take(fits).cloned().collect()
    }

    /// Whether the end is not seen.
    pub(super) fn is_scrolled(&self) -> bool {
        self.top.is_some()
    }

    /// Rows of a page, with one for the eye to hold on to.
    pub(super) fn step(&self) -> isize {
        isize::try_from(self.fits.saturating_sub(1).max(1)).unwrap_or(isize::MAX)
    }

    /// Follows the end again.
    pub(super) fn go_to_end(&mut self) {
        self.top = None;
    }

    pub(super) fn scroll(&mut self, by: isize) {
        let last = self.whole.saturating_sub(self.fits);
        let top = self.top.unwrap_or(last).saturating_add_signed(by);
        self.top = Some(top).filter(|top| *top < last);
    }
}
