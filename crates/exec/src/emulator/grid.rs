//! The cells of a terminal, and the operations on them. Every operation takes time and memory in proportion to the
//! size of the screen at most, whatever numbers a command sends.

use std::collections::VecDeque;

use pollux_domain::terminal_screen::{CellStyle, ScreenRun, TerminalSize};

const TAB: usize = 8;
/// Marks that are kept on top of a character.
const MARKS: usize = 2;

/// A cell. The second half of a wide character has a width of 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    character: char,
    marks: [Option<char>; MARKS],
    width: u8,
    style: CellStyle,
}

impl Cell {
    fn blank(style: CellStyle) -> Self {
        // Only the background fills what is erased.
        let style = CellStyle { background: style.background, ..CellStyle::default() };
        Self { character: ' ', marks: [None; MARKS], width: 1, style }
    }

    fn is_blank(&self) -> bool {
        *self == Self::blank(CellStyle::default())
    }

    fn write(&self, text: &mut String) {
        if self.width > 0 {
            text.push(self.character);
            text.extend(self.marks.iter().flatten());
        }
    }
}

/// A row.
#[derive(Debug, Clone)]
pub(super) struct GridRow {
    cells: Vec<Cell>,
    /// Its text continues in the next row.
    wrapped: bool,
}

impl GridRow {
    fn blank(columns: usize, style: CellStyle) -> Self {
        Self { cells: vec![Cell::blank(style); columns], wrapped: false }
    }

    /// Adds its text, with a line end unless it continues.
    pub(super) fn write(&self, text: &mut String) {
        let start = text.len();
        self.cells.iter().for_each(|cell| cell.write(text));
        if !self.wrapped {
            let end = start + text.get(start..).unwrap_or_default().trim_end_matches(' ').len();
            text.truncate(end);
            text.push('\n');
        }
    }

    pub(super) fn is_blank(&self) -> bool {
        self.cells.iter().all(Cell::is_blank)
    }

    /// Its text by style, without blank cells at the end.
    pub(super) fn runs(&self) -> Vec<ScreenRun> {
        let end = self.cells.iter().rposition(|cell| !cell.is_blank()).map_or(0, |last| last + 1);
        let mut runs: Vec<ScreenRun> = Vec::new();
        for cell in self.cells.get(..end).unwrap_or_default() {
            let style = Some(cell.style).filter(|style| *style != CellStyle::default());
            match runs.last_mut() {
                Some(run) if run.style == style => cell.write(&mut run.text),
                _ => {
                    let mut text = String::new();
                    cell.write(&mut text);
                    runs.push(ScreenRun { text, style });
                }
            }
        }
        runs
    }
}

/// Where the next character goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) row: usize,
    pub(super) column: usize,
    /// The last column was filled; the next character begins a row.
    wraps: bool,
}

/// The cells of a screen.
#[derive(Debug)]
pub(super) struct Grid {
    rows: VecDeque<GridRow>,
    columns: usize,
    pub(super) cursor: Cursor,
    pub(super) style: CellStyle,
    pub(super) auto_wrap: bool,
    saved: (Cursor, CellStyle),
    /// The first and the last row that scroll.
    region: (usize, usize),
    /// The text of rows that left at the top. Only of the main screen.
    gone: Option<String>,
}

impl Grid {
    /// `keeps` the text of rows that leave at the top, for [`Grid::take_gone`].
    pub(super) fn new(size: TerminalSize, keeps: bool) -> Self {
        let (columns, height) = (usize::from(size.columns), usize::from(size.rows));
        Self {
            rows: (0..height).map(|_| GridRow::blank(columns, CellStyle::default())).collect(),
            columns,
            cursor: Cursor::default(),
            style: CellStyle::default(),
            auto_wrap: true,
            saved: Default::default(),
            region: (0, height - 1),
            gone: keeps.then(String::new),
        }
    }

    /// A blank main screen after rows that have left.
    pub(super) fn following(size: TerminalSize, gone: String) -> Self {
        Self { gone: Some(gone), ..Self::new(size, true) }
    }

    pub(super) fn rows(&self) -> impl DoubleEndedIterator<Item = &GridRow> + ExactSizeIterator {
        self.rows.iter()
    }

    pub(super) fn take_gone(&mut self) -> String {
        self.gone.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn last_row(&self) -> usize {
        self.rows.len() - 1
    }

    fn last_column(&self) -> usize {
        self.columns - 1
    }

    /// Whether everything scrolls.
    fn scrolls_whole(&self) -> bool {
        self.region.0 == 0
    }

    fn current(&mut self) -> Option<&mut GridRow> {
        self.rows.get_mut(self.cursor.row)
    }

    pub(super) fn resize(&mut self, size: TerminalSize) {
        let (columns, height) = (usize::from(size.columns), usize::from(size.rows));
        while self.rows.len() > height {
            if self.cursor.row < self.last_row() {
                self.rows.pop_back();
            } else if let Some(row) = self.rows.pop_front() {
                self.gone.iter_mut().for_each(|gone| row.write(gone));
                self.cursor.row = self.cursor.row.saturating_sub(1);
                self.saved.0.row = self.saved.0.row.saturating_sub(1);
            }
        }
        self.rows.resize_with(height, || GridRow::blank(self.columns, CellStyle::default()));
        if columns != self.columns {
            for row in &mut self.rows {
                row.cells.resize(columns, Cell::blank(CellStyle::default()));
                row.wrapped = false;
                mend(&mut row.cells);
            }
        }
        self.columns = columns;
        self.region = (0, height - 1);
        self.go_to(self.cursor.row, self.cursor.column);
        let saved = self.saved.0;
        self.saved.0 = Cursor {
            row: saved.row.min(self.last_row()),
            column: saved.column.min(self.last_column()),
            wraps: false,
        };
    }

    pub(super) fn save(&mut self) {
        self.saved = (self.cursor, self.style);
    }

    pub(super) fn restore(&mut self) {
        (self.cursor, self.style) = self.saved;
    }

    pub(super) fn print(&mut self, character: char, width: usize) {
        if width == 0 {
            return self.mark(character);
        }
        if self.cursor.wraps || self.cursor.column + width > self.columns {
            if self.auto_wrap {
                self.current().into_iter().for_each(|row| row.wrapped = true);
                self.cursor.column = 0;
                self.index();
            } else {
                self.cursor.column = self.columns - width;
            }
        }
        self.cursor.wraps = false;
        let (column, style) = (self.cursor.column, self.style);
        if let Some(row) = self.current() {
            row.wrapped &= column + width < row.cells.len();
            // Halves of wide characters that lose the other half become blank.
            let is_second = row.cells.get(column).is_some_and(|cell| cell.width == 0);
            if let Some(first) = column.checked_sub(1).filter(|_| is_second) {
                blank(row.cells.get_mut(first));
            }
            blank(row.cells.get_mut(column + width).filter(|cell| cell.width == 0));
            for (offset, cell) in row.cells.iter_mut().skip(column).take(width).enumerate() {
                let (character, width) = if offset == 0 { (character, width as u8) } else { (' ', 0) };
                *cell = Cell { character, marks: [None; MARKS], width, style };
            }
        }
        if column + width > self.last_column() {
            (self.cursor.column, self.cursor.wraps) = (self.last_column(), true);
        } else {
            self.cursor.column = column + width;
        }
    }

    /// Adds a mark to the character before the cursor.
    fn mark(&mut self, mark: char) {
        let end = if self.cursor.wraps { self.columns } else { self.cursor.column };
        let Some(row) = self.current() else { return };
        let before = row.cells.iter_mut().take(end).rev().find(|cell| cell.width > 0);
        if let Some(place) = before.and_then(|cell| cell.marks.iter_mut().find(|place| place.is_none())) {
            *place = Some(mark);
        }
    }

    pub(super) fn go_to(&mut self, row: usize, column: usize) {
        let (row, column) = (row.min(self.last_row()), column.min(self.last_column()));
        self.cursor = Cursor { row, column, wraps: false };
    }

    pub(super) fn go_to_row(&mut self, row: usize) {
        self.go_to(row, self.cursor.column);
    }

    pub(super) fn go_to_column(&mut self, column: usize) {
        self.go_to(self.cursor.row, column);
    }

    /// Moves up, not out of the part that scrolls.
    pub(super) fn up(&mut self, count: usize) {
        let top = if self.cursor.row >= self.region.0 { self.region.0 } else { 0 };
        self.go_to_row(self.cursor.row.saturating_sub(count).max(top));
    }

    pub(super) fn down(&mut self, count: usize) {
        let bottom = if self.cursor.row <= self.region.1 { self.region.1 } else { self.last_row() };
        self.go_to_row((self.cursor.row + count).min(bottom));
    }

    pub(super) fn left(&mut self, count: usize) {
        self.go_to_column(self.cursor.column.saturating_sub(count));
    }

    pub(super) fn right(&mut self, count: usize) {
        self.go_to_column(self.cursor.column + count);
    }

    pub(super) fn tab(&mut self, count: usize) {
        let stop = self.cursor.column / TAB + count.min(self.columns);
        self.go_to_column(stop * TAB);
    }

    pub(super) fn tab_back(&mut self, count: usize) {
        let stop = self.cursor.column.div_ceil(TAB).saturating_sub(count);
        self.go_to_column(stop * TAB);
    }

    /// One row down; scrolls at the end.
    pub(super) fn index(&mut self) {
        self.cursor.wraps = false;
        if self.cursor.row == self.region.1 {
            self.scroll_up(1);
        } else {
            self.go_to_row(self.cursor.row + 1);
        }
    }

    /// One row up; scrolls at the start.
    pub(super) fn reverse_index(&mut self) {
        if self.cursor.row == self.region.0 {
            self.scroll_down(1);
        } else {
            self.go_to_row(self.cursor.row.saturating_sub(1));
        }
    }

    /// Limits scrolling to these rows, from 1; 0 means the whole screen.
    pub(super) fn set_region(&mut self, top: usize, bottom: usize) {
        let bottom = if bottom == 0 { self.rows.len() } else { bottom.min(self.rows.len()) };
        let top = top.max(1);
        if top < bottom {
            self.region = (top - 1, bottom - 1);
            self.go_to(0, 0);
        }
    }

    pub(super) fn scroll_up(&mut self, count: usize) {
        let (top, bottom) = self.region;
        for _ in 0..count.min(bottom - top + 1) {
            let Some(row) = self.rows.remove(top) else { return };
            let whole = self.scrolls_whole();
            self.gone.iter_mut().filter(|_| whole).for_each(|gone| row.write(gone));
            self.rows.insert(bottom, GridRow::blank(self.columns, self.style));
        }
    }

    pub(super) fn scroll_down(&mut self, count: usize) {
        let (top, bottom) = self.region;
        self.insert_at(top, bottom, count);
    }

    fn insert_at(&mut self, top: usize, bottom: usize, count: usize) {
        for _ in 0..count.min(bottom - top + 1) {
            self.rows.remove(bottom);
            self.rows.insert(top, GridRow::blank(self.columns, self.style));
        }
    }

    fn is_in_region(&self) -> bool {
        (self.region.0..=self.region.1).contains(&self.cursor.row)
    }

    pub(super) fn insert_rows(&mut self, count: usize) {
        if self.is_in_region() {
            self.insert_at(self.cursor.row, self.region.1, count);
            self.go_to_column(0);
        }
    }

    pub(super) fn delete_rows(&mut self, count: usize) {
        if !self.is_in_region() {
            return;
        }
        let (top, bottom) = (self.cursor.row, self.region.1);
        for _ in 0..count.min(bottom - top + 1) {
            self.rows.remove(top);
            self.rows.insert(bottom, GridRow::blank(self.columns, self.style));
        }
        self.go_to_column(0);
    }

    pub(super) fn insert_cells(&mut self, count: usize) {
        let (column, columns, style) = (self.cursor.column, self.columns, self.style);
        let count = count.min(columns - column);
        self.edit(|cells| {
            cells.splice(column..column, std::iter::repeat_n(Cell::blank(style), count));
            cells.truncate(columns);
        });
    }

    pub(super) fn delete_cells(&mut self, count: usize) {
        let (column, columns, style) = (self.cursor.column, self.columns, self.style);
        let count = count.min(columns - column);
        self.edit(|cells| {
            cells.drain(column..column + count);
            cells.resize(columns, Cell::blank(style));
        });
    }

    /// Blanks cells of the current row.
    pub(super) fn erase_cells(&mut self, from: usize, to: usize) {
        let style = self.style;
        self.edit(|cells| {
            let end = to.min(cells.len());
            cells.get_mut(from..end).into_iter().for_each(|cells| cells.fill(Cell::blank(style)));
        });
    }

    fn edit(&mut self, change: impl FnOnce(&mut Vec<Cell>)) {
        self.cursor.wraps = false;
        if let Some(row) = self.current() {
            row.wrapped = false;
            change(&mut row.cells);
            mend(&mut row.cells);
        }
    }

    /// Erases to the end (0), from the start (1), or all (2) of the current row.
    pub(super) fn erase_row(&mut self, part: u16) {
        match part {
            0 => self.erase_cells(self.cursor.column, self.columns),
            1 => self.erase_cells(0, self.cursor.column + 1),
            2 => self.erase_cells(0, self.columns),
            _ => {}
        }
    }

    /// The same for the screen.
    pub(super) fn erase_screen(&mut self, part: u16) {
        self.erase_row(part);
        let (row, all) = (self.cursor.row, self.rows.len());
        let rows = match part {
            0 => row + 1..all,
            1 => 0..row,
            2 => 0..all,
            _ => return,
        };
        let blank = GridRow::blank(self.columns, self.style);
        self.rows.range_mut(rows).for_each(|row| row.clone_from(&blank));
    }
}

fn blank(cell: Option<&mut Cell>) {
    if let Some(cell) = cell {
        *cell = Cell::blank(cell.style);
    }
}

/// Blanks halves of wide characters that lost the other half.
fn mend(cells: &mut [Cell]) {
    let mut open = false;
    for at in 0..cells.len() {
        let follows = cells.get(at + 1).is_some_and(|next| next.width == 0);
        let Some(cell) = cells.get_mut(at) else { return };
        let is_half = (cell.width == 0 && !open) || (cell.width == 2 && !follows);
        open = cell.width == 2 && follows;
        if is_half {
            *cell = Cell::blank(cell.style);
        }
    }
}
