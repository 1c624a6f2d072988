//! Where the cursor can go: by character, word, row and line.

use super::super::folds::is_fold;
use super::{Buffer, BufferLine, Pos};

/// The class of a character in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Blank,
    Word,
    Sign,
    Fold,
}

impl Class {
    pub(crate) fn of(cluster: &str) -> Self {
        match cluster.chars().next() {
            None => Self::Blank,
            Some(c) if c.is_whitespace() => Self::Blank,
            Some(c) if is_fold(c) => Self::Fold,
            Some(c) if c.is_alphanumeric() || c == '_' => Self::Word,
            Some(_) => Self::Sign,
        }
    }
}

impl Buffer {
    pub(crate) fn left(&self, at: Pos) -> Pos {
        match self.cluster_before(at) {
            Some(cluster) => Pos::new(at.line, at.col - cluster.len()),
            None if at.line > 0 => self.line_end(at.line - 1),
            None => at,
        }
    }

    pub(crate) fn right(&self, at: Pos) -> Pos {
        match self.cluster_after(at) {
            Some(cluster) => Pos::new(at.line, at.col + cluster.len()),
            None if at.line + 1 < self.lines.len() => Pos::new(at.line + 1, 0),
            None => at,
        }
    }

    pub(crate) fn line_end(&self, line: usize) -> Pos {
        Pos::new(line, self.line(line).len())
    }

    /// The start of the word before; the end of the line before from the start of a line.
    pub(crate) fn word_left(&self, from: Pos) -> Pos {
        if from.col == 0 {
            return self.left(from);
        }
        let start = self.skip_back(from, |class| class == Class::Blank);
        let Some(word) = self.cluster_before(start).map(Class::of) else { return start };
        self.skip_back(start, |class| class == word)
    }

    /// The end of the word after; the start of the next line from the end of a line.
    pub(crate) fn word_right(&self, from: Pos) -> Pos {
        if from.col == self.line(from.line).len() {
            return self.right(from);
        }
        let start = self.skip(from, |class| class == Class::Blank);
        let Some(word) = self.cluster_after(start).map(Class::of) else { return start };
        self.skip(start, |class| class == word)
    }

    /// The first place in the line, from here on, where the class is another one.
    pub(crate) fn skip(&self, mut at: Pos, is_skipped: impl Fn(Class) -> bool) -> Pos {
        while let Some(cluster) = self.cluster_after(at).filter(|cluster| is_skipped(Class::of(cluster))) {
            at.col += cluster.len();
        }
        at
    }

    pub(crate) fn skip_back(&self, mut at: Pos, is_skipped: impl Fn(Class) -> bool) -> Pos {
        while let Some(cluster) = self.cluster_before(at).filter(|cluster| is_skipped(Class::of(cluster))) {
            at.col -= cluster.len();
        }
        at
    }

    /// Sets how many cells a row has.
    pub(crate) fn set_width(&mut self, width: usize) {
        self.width = width.max(1);
    }

    /// The line with its rows known.
    pub(crate) fn wrapped(&mut self, line: usize) -> Option<&BufferLine> {
        let line = self.lines.get_mut(line)?;
        line.wrap(self.width, &self.folds);
        Some(line)
    }

    /// The rows of the whole text, counted up to a limit.
    pub(crate) fn rows(&mut self, most: usize) -> usize {
        let mut rows = 0;
        for line in 0..self.lines.len() {
            rows += self.wrapped(line).map_or(0, BufferLine::rows);
            if rows >= most {
                return most;
            }
        }
        rows
    }

    /// The row of the cursor in its line, and the column.
    pub(crate) fn place(&mut self) -> (usize, usize) {
        let cursor = self.cursor;
        let Some(row) = self.wrapped(cursor.line).map(|line| line.row_of(cursor.col)) else { return (0, 0) };
        let column = self.lines.get(cursor.line).map_or(0, |line| line.column(row, cursor.col, &self.folds));
        (row, column)
    }

    /// One row up; false on the first.
    pub(crate) fn up(&mut self) -> bool {
        let (row, column) = self.place();
        let to = match row.checked_sub(1) {
            Some(above) => (self.cursor.line, above),
            None if self.cursor.line > 0 => {
                let line = self.cursor.line - 1;
                (line, self.wrapped(line).map_or(0, |line| line.rows() - 1))
            }
            None => return false,
        };
        self.go_row(to, column);
        true
    }

    /// One row down; false on the last.
    pub(crate) fn down(&mut self) -> bool {
        let (row, column) = self.place();
        let rows = self.wrapped(self.cursor.line).map_or(1, BufferLine::rows);
        let to = if row + 1 < rows {
            (self.cursor.line, row + 1)
        } else if self.cursor.line + 1 < self.lines.len() {
            (self.cursor.line + 1, 0)
        } else {
            return false;
        };
        self.go_row(to, column);
        true
    }

    fn go_row(&mut self, (line, row): (usize, usize), column: usize) {
        let goal = self.goal.unwrap_or(column);
        if let Some(wrapped) = self.lines.get_mut(line) {
            wrapped.wrap(self.width, &self.folds);
            self.cursor = Pos::new(line, wrapped.at_column(row, goal, &self.folds));
        }
        self.goal = Some(goal);
    }

    /// The start of the row; from there the start of the line.
    pub(crate) fn row_start(&mut self) -> Pos {
        let cursor = self.cursor;
        let start = self.wrapped(cursor.line).map_or(0, |line| line.row(line.row_of(cursor.col)).start);
        Pos::new(cursor.line, if cursor.col == start { 0 } else { start })
    }

    /// The end of the row; from there the end of the line.
    pub(crate) fn row_end(&mut self) -> Pos {
        let cursor = self.cursor;
        let Some(end) = self.wrapped(cursor.line).map(|line| line.row(line.row_of(cursor.col)).end) else {
            return cursor;
        };
        let last = self.line(cursor.line).len();
        if end == last {
            return Pos::new(cursor.line, last);
        }
        // The end of a row that is not the last is the start of the next one.
        let inside = self.left(Pos::new(cursor.line, end));
        if cursor.col == inside.col { Pos::new(cursor.line, last) } else { inside }
    }

    pub(crate) fn delete_left(&mut self) -> bool {
        let from = self.left(self.cursor);
        self.delete(from, self.cursor)
    }

    pub(crate) fn delete_right(&mut self) -> bool {
        let to = self.right(self.cursor);
        self.delete(self.cursor, to)
    }

    fn delete(&mut self, from: Pos, to: Pos) -> bool {
        if from == to {
            return false;
        }
        self.replace_raw(from..to, String::new());
        true
    }

    /// To the end of the line, or the line end itself.
    pub(crate) fn kill_right(&mut self) {
        let end = self.line_end(self.cursor.line);
        let end = if end == self.cursor { self.right(end) } else { end };
        self.cut(self.cursor..end);
    }

    /// To the start of the line, or the line end before it.
    pub(crate) fn kill_left(&mut self) {
        let start = Pos::new(self.cursor.line, 0);
        let start = if start == self.cursor { self.left(start) } else { start };
        self.cut(start..self.cursor);
    }
}
