//! The text of the prompt: lines, a cursor between characters, undo, and the last deleted text.
//!
//! Every change is one call of [`Buffer::replace`]; undo, the rows and the cursor follow from it. A character is what a
//! person sees as one (a grapheme cluster); a folded paste is one, too.

mod edit;
mod line;
mod marks;
mod motion;
mod undo;

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use super::folds::{Folds, Kept, is_fold};
pub(crate) use edit::Edit;
pub(crate) use line::BufferLine;
#[cfg(test)]
pub(crate) use line::WORK;
pub use marks::Mark;
use marks::Marks;
pub(crate) use motion::Class;
use undo::{Change, Undo};

/// A place in the text: the line, and the byte in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Pos {
    pub(crate) line: usize,
    pub(crate) col: usize,
}

impl Pos {
    pub(crate) fn new(line: usize, col: usize) -> Self {
        Self { line, col }
    }

    /// The end of a text that starts here.
    fn after(self, text: &str) -> Self {
        let lines = text.bytes().filter(|byte| *byte == b'\n').count();
        match text.rfind('\n') {
            Some(last) => Self { line: self.line + lines, col: text.len() - last - 1 },
            None => Self { line: self.line, col: self.col + text.len() },
        }
    }
}

/// The last cut or copied text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Register {
    pub(crate) text: Kept,
    /// Whole lines, as vim's `dd` takes them.
    pub(crate) lines: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Buffer {
    /// Never empty.
    lines: Vec<BufferLine>,
    cursor: Pos,
    /// The column that moving up and down aims at.
    goal: Option<usize>,
    /// Cells in a row.
    width: usize,
    /// Counts changes of the text.
    revision: u64,
    pub(crate) folds: Folds,
    undo: Undo,
    marks: Marks,
    pub(crate) register: Register,
}

impl Default for Buffer {
    fn default() -> Self {
        Self {
            lines: vec![BufferLine::default()],
            cursor: Pos::default(),
            goal: None,
            width: 80,
            revision: 0,
            folds: Folds::default(),
            undo: Undo::default(),
            marks: Marks::default(),
            register: Register::default(),
        }
    }
}

impl Buffer {
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.len() == 1 && self.line(0).is_empty()
    }

    pub(crate) fn is_blank(&self) -> bool {
        self.lines.iter().all(|line| line.text().trim().is_empty())
    }

    /// The text as it is kept, a fold being one reserved character.
    pub(crate) fn raw(&self) -> String {
        let size = self.lines.iter().map(|line| line.text().len() + 1).sum();
        let mut text = String::with_capacity(size);
        for (index, line) in self.lines.iter().enumerate() {
            if index > 0 {
                text.push('\n');
            }
            text.push_str(line.text());
        }
        text
    }

    /// Bytes of the text with all pastes in full, at most.
    pub(crate) fn size(&self) -> usize {
        self.lines.iter().map(|line| line.text().len() + 1).sum::<usize>() + self.folds.size()
    }

    pub(crate) fn has_fold(&self) -> bool {
        self.lines.iter().any(|line| line.text().chars().any(|c| self.folds.paste_of(c).is_some()))
    }

    pub(crate) fn line(&self, line: usize) -> &str {
        self.lines.get(line).map_or("", BufferLine::text)
    }

    pub(crate) fn line_count(&self) -> usize {
        self.lines.len()
    }

    /// Another number after every change of the text.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn cursor(&self) -> Pos {
        self.cursor
    }

    pub(crate) fn end(&self) -> Pos {
        let last = self.lines.len().saturating_sub(1);
        Pos::new(last, self.line(last).len())
    }

    /// Puts the cursor at a place that the buffer gave out.
    pub(crate) fn go(&mut self, to: Pos) {
        self.cursor = to.min(self.end());
        self.goal = None;
    }

    /// Marks the cursor's place.
    pub(crate) fn mark(&mut self) -> Mark {
        self.marks.add(self.cursor)
    }

    /// Goes to a mark; returns where the cursor was, unless it was there. If the text with the mark is gone it stays.
    pub(crate) fn open_mark(&mut self, mark: Mark) -> Option<Mark> {
        let place = self.marks.take(mark).filter(|place| *place != self.cursor)?;
        let back = self.mark();
        self.go(place);
        Some(back)
    }

    /// Puts the cursor back where [`Self::open_mark`] found it.
    pub(crate) fn close_mark(&mut self, back: Option<Mark>) {
        if let Some(place) = back.and_then(|back| self.marks.take(back)) {
            self.go(place);
        }
    }

    /// Puts a text in place of this one, with its marks and undo history; the cut text stays.
    pub(crate) fn restore(&mut self, other: Self) {
        let register = std::mem::take(&mut self.register);
        let revision = self.revision.max(other.revision) + 1;
        *self = Self { width: self.width, revision, register, ..other };
    }

    /// Clears text and undo history; the cut text stays.
    pub(crate) fn reset(&mut self) {
        let register = std::mem::take(&mut self.register);
        let (revision, marks) = (self.revision + 1, self.marks.cleared());
        *self = Self { width: self.width, revision, marks, register, ..Self::default() };
    }

    /// The text between two positions.
    pub(crate) fn slice(&self, range: Range<Pos>) -> String {
        let Range { start, end } = range;
        if start.line == end.line {
            return self.line(start.line).get(start.col..end.col).unwrap_or_default().to_owned();
        }
        let mut text = self.line(start.line).get(start.col..).unwrap_or_default().to_owned();
        for line in start.line + 1..end.line {
            text.push('\n');
            text.push_str(self.line(line));
        }
        text.push('\n');
        text.push_str(self.line(end.line).get(..end.col).unwrap_or_default());
        text
    }

    /// Puts a text in the place of another and the cursor behind it.
    pub(crate) fn replace(&mut self, range: Range<Pos>, text: &str) {
        let text = self.folds.protect(text).into_owned();
        self.replace_raw(range, text);
    }

    /// The same with a text that comes from the buffer itself.
    pub(crate) fn replace_raw(&mut self, range: Range<Pos>, inserted: String) {
        let (at, cursor) = (range.start, self.cursor);
        let removed = self.slice(range.clone());
        if removed == inserted {
            return self.go(at.after(&inserted));
        }
        self.put(range, &inserted);
        self.undo.record(Change { at, removed, inserted, cursor });
    }

    fn put(&mut self, range: Range<Pos>, text: &str) {
        self.revision += 1;
        self.marks.follow(&range, range.start.after(text));
        let Range { start, end } = range;
        if start.line == end.line && !text.contains('\n') {
            if let Some(line) = self.lines.get_mut(start.line) {
                line.splice(start.col..end.col, text, &self.folds);
            }
        } else {
            let head = self.line(start.line).get(..start.col).unwrap_or_default();
            let tail = self.line(end.line).get(end.col..).unwrap_or_default();
            let mut parts: Vec<String> = text.split('\n').map(str::to_owned).collect();
            if let Some(first) = parts.first_mut() {
                first.insert_str(0, head);
            }
            if let Some(last) = parts.last_mut() {
                last.push_str(tail);
            }
            self.lines.splice(start.line..=end.line, parts.into_iter().map(BufferLine::new));
        }
        self.go(start.after(text));
    }

    pub(crate) fn insert(&mut self, text: &str) {
        self.replace(self.cursor..self.cursor, text);
    }

    pub(crate) fn set(&mut self, text: &str) {
        self.replace(Pos::default()..self.end(), text);
    }

    /// A text that comes from the buffer itself, for use in this prompt or a later one.
    pub(crate) fn keep(&self, range: Range<Pos>) -> Kept {
        self.folds.keep(self.slice(range))
    }

    /// The same with the whole text.
    pub(crate) fn keep_all(&self) -> Kept {
        self.folds.keep(self.raw())
    }

    /// A kept text, to be put in with [`Self::replace_raw`].
    pub(crate) fn adopt(&mut self, kept: &Kept) -> String {
        let lines = &self.lines;
        self.folds.adopt(kept, |sign| lines.iter().any(|line| line.text().contains(sign)))
    }

    pub(crate) fn set_kept(&mut self, kept: &Kept) {
        let raw = self.adopt(kept);
        self.set_raw(raw);
    }

    /// The whole text, as it was kept by the buffer itself.
    pub(crate) fn set_raw(&mut self, raw: String) {
        self.replace_raw(Pos::default()..self.end(), raw);
    }

    /// Deletes and remembers the deleted text.
    pub(crate) fn cut(&mut self, range: Range<Pos>) {
        if range.start < range.end {
            self.register = Register { text: self.keep(range.clone()), lines: false };
            self.replace_raw(range, String::new());
        }
    }

    /// Whether there was anything to undo.
    pub(crate) fn undo(&mut self) -> bool {
        let Some(change) = self.undo.back() else { return false };
        self.put(change.at..change.end(), &change.removed);
        self.go(change.cursor);
        true
    }

    pub(crate) fn redo(&mut self) -> bool {
        let Some(change) = self.undo.again() else { return false };
        self.put(change.at..change.at.after(&change.removed), &change.inserted);
        true
    }

    pub(crate) fn can_undo(&self) -> bool {
        !self.undo.is_empty()
    }

    /// Folds a pasted text at the cursor; inserts it as it is when it is short or nothing more can be folded.
    pub(crate) fn insert_paste(&mut self, text: &str) -> Option<char> {
        let sign = super::folds::is_large(text).then(|| self.fold(text.to_owned())).flatten();
        match sign {
            Some(sign) => self.replace_raw(self.cursor..self.cursor, String::from(sign)),
            None => self.insert(text),
        }
        sign
    }

    pub(crate) fn fold(&mut self, content: String) -> Option<char> {
        let lines = &self.lines;
        self.folds.fold(content, |sign| lines.iter().any(|line| line.text().contains(sign)))
    }

    /// Adds to a fold that stands before the cursor.
    pub(crate) fn extend_fold(&mut self, sign: char, more: &str) {
        let lines = &self.lines;
        self.folds.extend(sign, more, |sign| lines.iter().any(|line| line.text().contains(sign)));
        if let Some(line) = self.lines.get_mut(self.cursor.line) {
            line.forget_rows();
        }
    }

    /// The folded paste that the cursor touches, and where it stands.
    pub(crate) fn fold_at_cursor(&self) -> Option<(char, Range<Pos>)> {
        let cursor = self.cursor;
        let around = [cursor..self.right(cursor), self.left(cursor)..cursor];
        around.into_iter().find_map(|range| {
            let sign = self.slice(range.clone()).chars().next().filter(|c| is_fold(*c))?;
            self.folds.paste_of(sign).map(|_| (sign, range))
        })
    }

    /// The character that ends here, and the one that begins here, in their line.
    pub(crate) fn cluster_before(&self, at: Pos) -> Option<&str> {
        self.line(at.line).get(..at.col)?.graphemes(true).next_back()
    }

    pub(crate) fn cluster_after(&self, at: Pos) -> Option<&str> {
        self.line(at.line).get(at.col..)?.graphemes(true).next()
    }
}
