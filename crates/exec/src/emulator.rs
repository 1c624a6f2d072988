//! The terminal that a command believes to talk to: turns its output into a screen, and into the text that was shown.
//!
//! Output is hostile. Nothing of it passes through: a reader gets characters and colours. Of the questions that a
//! command may ask its terminal, only the one for the cursor's position is answered. Titles, clipboards, links, images
//! and the mouse do not exist.

mod grid;
mod parser;

use pollux_domain::terminal_screen::{
    CellStyle, KeyModes, ScreenColor, ScreenPosition, TerminalScreen, TerminalSize,
};
use pollux_domain::terminal_text::plain;
use unicode_width::UnicodeWidthChar as _;

use crate::capture::{Captured, is_binary};
use grid::Grid;
use parser::{Parser, Sequence, Target};

/// Bytes at the start that decide whether output is text.
const SAMPLE_BYTES: usize = 4096;
/// Answers that wait for a command; one that asks and never reads gets no more.
const MAX_ANSWER_BYTES: usize = 1024;

/// A terminal without a window.
#[derive(Debug)]
pub(crate) struct Emulator {
    parser: Parser,
    terminal: Terminal,
    /// The text of rows that left the screen.
    text: Captured,
    sample: Vec<u8>,
    total: u64,
}

#[derive(Debug)]
struct Terminal {
    size: TerminalSize,
    main: Grid,
    /// The screen of a full-screen program.
    alternate: Option<Grid>,
    keys: KeyModes,
    hides_cursor: bool,
    /// Which of two sets of characters is used, and whether each is the one for lines and corners.
    shifted: bool,
    draws_lines: [bool; 2],
    last_printed: Option<char>,
    answer: Vec<u8>,
}

impl Emulator {
    pub(crate) fn new(size: TerminalSize) -> Self {
        let text = Captured::default();
        Self { parser: Parser::default(), terminal: Terminal::new(size), text, sample: Vec::new(), total: 0 }
    }

    /// Takes output. Returns what the command gets as an answer, if it asked.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.total += bytes.len() as u64;
        let room = SAMPLE_BYTES.saturating_sub(self.sample.len());
        self.sample.extend(bytes.iter().take(room));
        self.parser.push(bytes, &mut self.terminal);
        self.collect();
        std::mem::take(&mut self.terminal.answer)
    }

    pub(crate) fn resize(&mut self, size: TerminalSize) {
        self.terminal.size = size;
        self.terminal.main.resize(size);
        self.terminal.alternate.iter_mut().for_each(|grid| grid.resize(size));
        self.collect();
    }

    fn collect(&mut self) {
        let text = self.terminal.main.take_gone();
        self.text.push(text.as_bytes());
    }

    /// What is on the screen now.
    pub(crate) fn screen(&self) -> TerminalScreen {
        let terminal = &self.terminal;
        let grid = terminal.alternate.as_ref().unwrap_or(&terminal.main);
        let mut rows: Vec<_> = grid.rows().map(grid::GridRow::runs).collect();
        let end = rows.iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1);
        rows.truncate(end);
        let position = |place: usize| u16::try_from(place).unwrap_or(u16::MAX);
        let cursor = (!terminal.hides_cursor)
            .then(|| ScreenPosition { row: position(grid.cursor.row), column: position(grid.cursor.column) });
        TerminalScreen { rows, cursor, alternate: terminal.alternate.is_some(), keys: terminal.keys }
    }

    /// All text that was shown, without what was overwritten or erased.
    pub(crate) fn into_text(mut self) -> Captured {
        if is_binary(&self.sample) {
            return Captured::binary(&self.sample, self.total);
        }
        let mut text = String::new();
        for grid in [Some(&self.terminal.main), self.terminal.alternate.as_ref()].into_iter().flatten() {
            let end = grid.rows().rposition(|row| !row.is_blank()).map_or(0, |last| last + 1);
            grid.rows().take(end).for_each(|row| row.write(&mut text));
        }
        self.text.push(text.as_bytes());
        self.text
    }
}

impl Terminal {
    fn new(size: TerminalSize) -> Self {
        Self {
            size,
            main: Grid::new(size, true),
            alternate: None,
            keys: KeyModes::default(),
            hides_cursor: false,
            shifted: false,
            draws_lines: [false; 2],
            last_printed: None,
            answer: Vec::new(),
        }
    }

    fn grid(&mut self) -> &mut Grid {
        self.alternate.as_mut().unwrap_or(&mut self.main)
    }

    fn reset(&mut self) {
        self.alternate = None;
        let size = self.size;
        // What was shown stays in the text.
        self.main.set_region(0, 0);
        self.main.scroll_up(usize::from(size.rows));
        let gone = self.main.take_gone();
        let (answer, main) = (std::mem::take(&mut self.answer), Grid::following(size, gone));
        *self = Self { answer, main, ..Self::new(size) };
    }

    fn set_mode(&mut self, mode: u16, on: bool) {
        match mode {
            1 => self.keys.application_cursor = on,
            7 => self.grid().auto_wrap = on,
            25 => self.hides_cursor = !on,
            47 | 1047 | 1049 => self.use_alternate(on, mode == 1049),
            1048 if on => self.grid().save(),
            1048 => self.grid().restore(),
            2004 => self.keys.bracketed_paste = on,
            _ => {}
        }
    }

    fn use_alternate(&mut self, on: bool, saves: bool) {
        if on == self.alternate.is_some() {
            return;
        }
        if on {
            if saves {
                self.main.save();
            }
            let mut grid = Grid::new(self.size, false);
            grid.cursor = self.main.cursor;
            self.alternate = Some(grid);
        } else {
            self.alternate = None;
            if saves {
                self.main.restore();
            }
        }
    }

    fn answer_position(&mut self) {
        let cursor = self.grid().cursor;
        let answer = format!("\u{1b}[{};{}R", cursor.row + 1, cursor.column + 1);
        if self.answer.len() + answer.len() <= MAX_ANSWER_BYTES {
            self.answer.extend(answer.into_bytes());
        }
    }

    fn set_style(&mut self, sequence: &Sequence) {
        let groups = sequence.numbers.groups();
        let mut style = self.grid().style;
        let mut rest = groups.iter();
        while let Some(group) = rest.next() {
            let (code, more) = group.split_first().map_or((0, [].as_slice()), |(code, more)| (*code, more));
            match code {
                0 => style = CellStyle::default(),
                1 => style.bold = true,
                2 => style.dim = true,
                3 => style.italic = true,
                4 => style.underline = more.first() != Some(&0),
                7 => style.inverse = true,
                22 => (style.bold, style.dim) = (false, false),
                23 => style.italic = false,
                24 => style.underline = false,
                27 => style.inverse = false,
                30..=37 => style.foreground = palette(code - 30),
                38 | 48 | 58 => {
                    let colour = if more.is_empty() { loose_colour(&mut rest) } else { joined_colour(more) };
                    match (code, colour) {
                        (38, Some(colour)) => style.foreground = colour,
                        (48, Some(colour)) => style.background = colour,
                        _ => {}
                    }
                }
                39 => style.foreground = ScreenColor::Default,
                40..=47 => style.background = palette(code - 40),
                49 => style.background = ScreenColor::Default,
                90..=97 => style.foreground = palette(code - 90 + 8),
                100..=107 => style.background = palette(code - 100 + 8),
                _ => {}
            }
        }
        self.grid().style = style;
    }
}

impl Target for Terminal {
    fn print(&mut self, character: char) {
        let set = usize::from(self.shifted);
        let is_line = self.draws_lines.get(set).copied().unwrap_or_default();
        let character = if is_line { line_character(character) } else { character };
        let Some(width) = character.width() else { return };
        let mut buffer = [0; 4];
        // Marks that change the direction of text would change the rows around it.
        if width == 0 && plain(character.encode_utf8(&mut buffer)).is_empty() {
            return;
        }
        if width > 0 {
            self.last_printed = Some(character);
        }
        self.grid().print(character, width.min(2));
    }

    fn control(&mut self, character: char) {
        let grid = self.grid();
        match character {
            '\u{8}' => grid.left(1),
            '\t' => grid.tab(1),
            '\n' | '\u{b}' | '\u{c}' => grid.index(),
            '\r' => grid.go_to_column(0),
            '\u{e}' => self.shifted = true,
            '\u{f}' => self.shifted = false,
            _ => {}
        }
    }

    fn escape(&mut self, between: Option<char>, last: char) {
        match (between, last) {
            (None, '7') => self.grid().save(),
            (None, '8') => self.grid().restore(),
            (None, 'D') => self.grid().index(),
            (None, 'E') => {
                self.grid().go_to_column(0);
                self.grid().index();
            }
            (None, 'M') => self.grid().reverse_index(),
            (None, 'c') => self.reset(),
            (Some('('), set) => self.draws_lines = [set == '0', self.draws_lines[1]],
            (Some(')'), set) => self.draws_lines = [self.draws_lines[0], set == '0'],
            _ => {}
        }
    }

    fn sequence(&mut self, sequence: &Sequence, last: char) {
        let numbers = &sequence.numbers;
        match (sequence.private, sequence.between) {
            (None, None) => {}
            (Some('?'), None) if matches!(last, 'h' | 'l') => {
                for mode in numbers.groups().iter().filter_map(|group| group.first()) {
                    self.set_mode(*mode, last == 'h');
                }
                return;
            }
            _ => return,
        }
        let count = usize::from(numbers.count(0));
        let (first, second) = (usize::from(numbers.count(0)) - 1, usize::from(numbers.count(1)) - 1);
        let grid = self.grid();
        match last {
            '@' => grid.insert_cells(count),
            'A' => grid.up(count),
            'B' | 'e' => grid.down(count),
            'C' | 'a' => grid.right(count),
            'D' => grid.left(count),
            'E' => {
                grid.down(count);
                grid.go_to_column(0);
            }
            'F' => {
                grid.up(count);
                grid.go_to_column(0);
            }
            'G' | '`' => grid.go_to_column(first),
            'H' | 'f' => grid.go_to(first, second),
            'I' => grid.tab(count),
            'J' => grid.erase_screen(numbers.get(0)),
            'K' => grid.erase_row(numbers.get(0)),
            'L' => grid.insert_rows(count),
            'M' => grid.delete_rows(count),
            'P' => grid.delete_cells(count),
            'S' => grid.scroll_up(count),
            'T' => grid.scroll_down(count),
            'X' => grid.erase_cells(grid.cursor.column, grid.cursor.column + count),
            'Z' => grid.tab_back(count),
            'b' => {
                let most = usize::from(self.size.columns);
                let again = self.last_printed.into_iter().cycle().take(count.min(most));
                again.for_each(|character| self.print(character));
            }
            'd' => grid.go_to_row(first),
            'm' => self.set_style(sequence),
            'n' if numbers.get(0) == 6 => self.answer_position(),
            'r' => grid.set_region(usize::from(numbers.get(0)), usize::from(numbers.get(1))),
            's' => grid.save(),
            'u' => grid.restore(),
            _ => {}
        }
    }
}

fn palette(index: u16) -> ScreenColor {
    u8::try_from(index).map_or(ScreenColor::Default, ScreenColor::Palette)
}

/// `5;n` or `2;r;g;b` after a `38`.
fn loose_colour<'a>(rest: &mut impl Iterator<Item = &'a &'a [u16]>) -> Option<ScreenColor> {
    let mut number = || rest.next().and_then(|group| group.first().copied());
    match number()? {
        5 => number().map(palette),
        2 => rgb([number()?, number()?, number()?]),
        _ => None,
    }
}

/// `38:5:n`, `38:2:r:g:b` or `38:2::r:g:b`, without the `38`.
fn joined_colour(numbers: &[u16]) -> Option<ScreenColor> {
    match *numbers {
        [5, index, ..] => Some(palette(index)),
        [2, red, green, blue] | [2, _, red, green, blue, ..] => rgb([red, green, blue]),
        _ => None,
    }
}

fn rgb(parts: [u16; 3]) -> Option<ScreenColor> {
    let [red, green, blue] = parts.map(|part| u8::try_from(part).unwrap_or(u8::MAX));
    Some(ScreenColor::Rgb { red, green, blue })
}

/// The set of characters for lines and corners.
fn line_character(character: char) -> char {
    match character {
        'j' => '┘',
        'k' => '┐',
        'l' => '┌',
        'm' => '└',
        'n' => '┼',
        'q' => '─',
        't' => '├',
        'u' => '┤',
        'v' => '┴',
        'w' => '┬',
        'x' => '│',
        'a' => '▒',
        '`' => '◆',
        '~' => '·',
        other => other,
    }
}

#[cfg(test)]
mod tests;
