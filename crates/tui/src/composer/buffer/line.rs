//! One line of the prompt and where it is broken into rows.

use std::ops::Range;

use super::super::folds::Folds;
use super::super::glyph::{GlyphKind, glyph};

/// A line without its line end. Rows are computed on demand and kept over edits that do not change them.
#[derive(Debug, Clone, Default)]
pub(crate) struct BufferLine {
    text: String,
    /// Where rows begin, without the first.
    breaks: Vec<usize>,
    /// The width the breaks are for; 0 when they are not known.
    width: usize,
}

impl BufferLine {
    pub(crate) fn new(text: String) -> Self {
        Self { text, breaks: Vec::new(), width: 0 }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Makes the rows known. Must be called before they are asked for.
    pub(crate) fn wrap(&mut self, width: usize, folds: &Folds) {
        if self.width != width {
            self.width = width;
            self.breaks.clear();
            self.wrap_from(0, 0, Vec::new(), folds);
        }
    }

    /// Rows must be computed again.
    pub(crate) fn forget_rows(&mut self) {
        self.width = 0;
    }

    /// Puts a text without line ends in the place of a range.
    pub(crate) fn splice(&mut self, range: Range<usize>, new: &str, folds: &Folds) {
        let (start, old_end) = (range.start, range.end);
        self.text.replace_range(range, new);
        if self.width == 0 {
            return;
        }
        let new_end = start + new.len();
        // A change can pull a word into the row before; one more for clusters that join across a break.
        let kept = self.breaks.partition_point(|at| *at <= start).saturating_sub(2);
        let old = self.breaks.split_off(kept);
        let later = old.into_iter().filter(|at| *at >= old_end).map(|at| at - old_end + new_end).collect();
        let from = self.breaks.last().copied().unwrap_or(0);
        self.wrap_from(from, new_end, later, folds);
    }

    /// Breaks from a row's start until the rest is as it was: how a row is broken depends on its start alone.
    fn wrap_from(&mut self, mut start: usize, changed_to: usize, later: Vec<usize>, folds: &Folds) {
        let mut later = later.into_iter().peekable();
        loop {
            let end = row_end(&self.text, start, self.width, folds);
            if end >= self.text.len() {
                return;
            }
            self.breaks.push(end);
            start = end;
            while later.next_if(|at| *at < end).is_some() {}
            if end >= changed_to && later.next_if(|at| *at == end).is_some() {
                self.breaks.extend(later);
                return;
            }
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.breaks.len() + 1
    }

    /// The row a byte stands in; a break belongs to the row it begins.
    pub(crate) fn row_of(&self, at: usize) -> usize {
        self.breaks.partition_point(|start| *start <= at)
    }

    pub(crate) fn row(&self, row: usize) -> Range<usize> {
        let start = row.checked_sub(1).and_then(|before| self.breaks.get(before)).copied().unwrap_or(0);
        let end = self.breaks.get(row).copied().unwrap_or(self.text.len());
        start..end
    }

    /// Cells from the start of a row to a byte in it.
    pub(crate) fn column(&self, row: usize, at: usize, folds: &Folds) -> usize {
        let (mut here, mut column) = (self.row(row).start, 0);
        while here < at
            && let Some(glyph) = glyph(&self.text, here, column, folds)
        {
            here += glyph.len;
            column += glyph.width;
        }
        column
    }

    /// The byte in a row that is nearest to a column, not beyond it.
    pub(crate) fn at_column(&self, row: usize, wanted: usize, folds: &Folds) -> usize {
        let range = self.row(row);
        let is_last = row + 1 == self.rows();
        let (mut here, mut column) = (range.start, 0);
        while here < range.end
            && let Some(glyph) = glyph(&self.text, here, column, folds)
        {
            // The end of a row is the start of the next one.
            if column + glyph.width > wanted || (!is_last && here + glyph.len >= range.end) {
                break;
            }
            here += glyph.len;
            column += glyph.width;
        }
        here
    }
}

/// Where the row that starts here ends: after the last blank that fits, or where nothing fits any more.
fn row_end(text: &str, start: usize, width: usize, folds: &Folds) -> usize {
    let (mut here, mut used, mut after_blank) = (start, 0, None);
    let is_simple = |at| text.as_bytes().get(at).is_some_and(|byte| matches!(byte, b' '..=b'~'));
    loop {
        // Most text by far: characters that nothing joins and that are one cell wide.
        while used < width && is_simple(here) && (is_simple(here + 1) || here + 1 == text.len()) {
            used += 1;
            here += 1;
            if text.as_bytes().get(here - 1) == Some(&b' ') {
                after_blank = Some(here);
            }
            count_work();
        }
        let Some(glyph) = glyph(text, here, used, folds) else { return here };
        count_work();
        if used + glyph.width > width && here > start {
            // One blank may hang over the edge, so that words do not begin with it.
            return match glyph.kind {
                GlyphKind::Blank => here + glyph.len,
                GlyphKind::Plain | GlyphKind::Marked | GlyphKind::Fold => after_blank.unwrap_or(here),
            };
        }
        here += glyph.len;
        used += glyph.width;
        // Between wide characters there are no blanks, and a row may end at any of them.
        if glyph.kind == GlyphKind::Blank || (glyph.kind == GlyphKind::Plain && glyph.width == 2) {
            after_blank = Some(here);
        }
    }
}

/// For the tests on large texts.
fn count_work() {
    #[cfg(test)]
    WORK.with(|work| work.set(work.get() + 1));
}

#[cfg(test)]
thread_local! {
    /// Characters measured for wrapping by this thread, for the tests on large texts.
    pub(crate) static WORK: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str, width: usize) -> Vec<String> {
        let mut line = BufferLine::new(text.to_owned());
        line.wrap(width, &Folds::default());
        (0..line.rows()).map(|row| line.text().get(line.row(row)).unwrap().to_owned()).collect()
    }

    #[test]
    fn rows_end_after_blanks_or_where_nothing_fits() {
        assert_eq!(rows("the quick brown fox", 10), ["the quick ", "brown fox"]);
        assert_eq!(rows("hello world", 5), ["hello ", "world"]);
        assert_eq!(rows("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(rows("ab 日本語日本語", 8), ["ab 日本", "語日本語"]);
        assert_eq!(rows("日本", 1), ["日", "本"]);
        assert_eq!(rows("", 5), [""]);
        assert_eq!(rows("a\tb\tc", 6), ["a\tb\t", "c"]);
    }

    #[test]
    fn an_edit_leaves_the_rows_a_fresh_wrap_would_find() {
        let folds = Folds::default();
        let text = "one two three 日本語 four👨‍👩‍👧five six seven eight nine ten";
        for at in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
            for (end, new) in [(at, "x"), (at, " long word "), (text.len(), ""), (at, "\u{301}")] {
                let mut line = BufferLine::new(text.to_owned());
                line.wrap(9, &folds);
                line.splice(at..end, new, &folds);
                let mut fresh = BufferLine::new(line.text().to_owned());
                fresh.wrap(9, &folds);
                assert_eq!(line.breaks, fresh.breaks, "{:?} at {at}", line.text());
            }
        }
    }
}
