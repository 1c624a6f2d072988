//! How a frame reaches the terminal.
//!
//! A frame consists of the lines that have become final, which are printed once and belong to the terminal's own
//! scrollback from then on, and the live area below it, which is repainted where it changed. Rows are always written
//! whole: readers of the raw stream find contiguous text, and a terminal that loses something loses a row and not
//! the screen. Nothing ever clears the screen, unless all of it is ours.

use std::io::{self, Write};

use ratatui::buffer::Buffer;
use ratatui::layout::Position;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// The content to show.
#[derive(Debug, Default)]
pub struct Frame {
    /// Lines that never change again, each no wider than the terminal.
    pub finished: Vec<Line<'static>>,
    /// The area below, as wide as the terminal and lower than it.
    pub live: Buffer,
    /// Where the person types, in the live area.
    pub cursor: Option<Position>,
}

/// A row as it was written.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Row {
    bytes: Vec<u8>,
    /// Columns that it fills.
    width: u16,
    /// Terminals do not agree on its width.
    doubtful: bool,
}

/// The terminal as far as we wrote on it.
#[derive(Debug)]
pub struct Screen<W> {
    out: W,
    columns: u16,
    /// The live area as it stands on the terminal.
    shown: Vec<Row>,
    /// Where the terminal's cursor stands in it.
    at: u16,
    cursor: Option<Position>,
    colours: bool,
    /// The whole screen is ours, from its first row on.
    whole: bool,
}

impl<W: Write> Screen<W> {
    /// A live area that begins where the cursor is, at the start of a line.
    pub fn new(out: W, columns: u16, colours: bool) -> Self {
        Self { out, columns: columns.max(1), shown: Vec::new(), at: 0, cursor: None, colours, whole: false }
    }

    /// A live area that is the whole screen.
    pub fn whole(out: W, columns: u16, colours: bool) -> Self {
        Self { whole: true, ..Self::new(out, columns, colours) }
    }

    /// Writes the changes since the last frame.
    pub fn paint(&mut self, frame: &Frame) -> io::Result<()> {
        // Blanks before the cursor were typed, and readers of the stream expect them.
        let typed = |y: u16| frame.cursor.filter(|cursor| cursor.y == y).map_or(0, |cursor| cursor.x);
        let live: Vec<Row> =
            (0..frame.live.area.height).map(|y| self.row_of(&frame.live, y, typed(y))).collect();
        if frame.finished.is_empty() && live == self.shown && frame.cursor == self.cursor {
            return Ok(());
        }
        let mut text = Vec::with_capacity(4096);
        text.extend_from_slice(b"\x1b[?2026h\x1b[?25l");
        if self.whole && !self.shown.is_empty() && live.len() != self.shown.len() {
            // The window's height changed, and terminals differ in what they do with the rows.
            text.extend_from_slice(b"\x1b[2J");
            self.shown.clear();
        }
        if !frame.finished.is_empty() {
            self.go_to(0, &mut text);
            for line in &frame.finished {
                let row = self.row_of_line(line);
                write_row(&row, self.columns, &mut text);
                text.extend_from_slice(b"\r\n");
            }
            // The rows below have changed.
            text.extend_from_slice(b"\x1b[J");
            self.shown.clear();
        }
        self.rewrite(&live, &mut text);
        self.shown = live;
        self.cursor = frame.cursor;
        if let Some(cursor) = frame.cursor {
            self.go_to(cursor.y.min(self.last_row()), &mut text);
            if cursor.x > 0 {
                let _ = write!(text, "\x1b[{}C", cursor.x.min(self.columns.saturating_sub(1)));
            }
            text.extend_from_slice(b"\x1b[?25h");
        }
        text.extend_from_slice(b"\x1b[?2026l");
        self.out.write_all(&text)?;
        self.out.flush()
    }

    /// Brings the live area from `shown` to `live`; the cursor is somewhere in it.
    fn rewrite(&mut self, live: &[Row], text: &mut Vec<u8>) {
        for (index, row) in live.iter().enumerate() {
            let y = u16::try_from(index).unwrap_or(u16::MAX);
            if self.shown.get(index) == Some(row) {
                continue;
            }
            if self.whole || index < self.shown.len().max(1) {
                self.go_to(y, text);
            } else {
                self.go_to(y.saturating_sub(1), text);
                text.extend_from_slice(b"\r\n");
                self.at = y;
            }
            write_row(row, self.columns, text);
            if index >= self.shown.len() {
                self.shown.push(row.clone());
            }
        }
        if live.len() < self.shown.len() {
            let below = u16::try_from(live.len()).unwrap_or(u16::MAX);
            self.go_to(below, text);
            text.extend_from_slice(b"\x1b[J");
            self.go_to(below.saturating_sub(1), text);
        }
    }

    fn last_row(&self) -> u16 {
        u16::try_from(self.shown.len().saturating_sub(1)).unwrap_or(u16::MAX)
    }

    /// Moves to the first column of a row that is on the terminal already.
    fn go_to(&mut self, y: u16, text: &mut Vec<u8>) {
        // Scripts that drive the program wait for a carriage return, also where an absolute move needs none.
        text.push(b'\r');
        if self.whole {
            let _ = write!(text, "\x1b[{};1H", y + 1);
            self.at = y;
            return;
        }
        match self.at.cmp(&y) {
            std::cmp::Ordering::Greater => drop(write!(text, "\x1b[{}A", self.at - y)),
            std::cmp::Ordering::Less => drop(write!(text, "\x1b[{}B", y - self.at)),
            std::cmp::Ordering::Equal => {}
        }
        self.at = y;
    }

    /// The width changed and the terminal has rewrapped the rows. The live area is removed, for the next frame
    /// to be written in its place.
    pub fn resize(&mut self, columns: u16) -> io::Result<()> {
        let columns = columns.max(1);
        if self.whole && columns != self.columns {
            self.columns = columns;
            return self.clear();
        }
        if columns == self.columns {
            return Ok(());
        }
        let height = |row: &Row| row.width.div_ceil(columns).max(1);
        let above: u16 = self.shown.iter().take(usize::from(self.at)).map(height).sum();
        self.columns = columns;
        self.at = above;
        self.forget()
    }

    /// Clears the screen.
    pub fn clear(&mut self) -> io::Result<()> {
        self.shown.clear();
        self.at = 0;
        self.cursor = None;
        self.out.write_all(b"\x1b[H\x1b[2J")?;
        self.out.flush()
    }

    /// Takes the live area away and leaves the cursor where it began.
    pub fn forget(&mut self) -> io::Result<()> {
        let mut text = Vec::new();
        self.go_to(0, &mut text);
        text.extend_from_slice(b"\x1b[J");
        self.shown.clear();
        self.cursor = None;
        self.out.write_all(&text)?;
        self.out.flush()
    }

    /// Everything was lost, such as after another program had the terminal: the next frame is written whole, from
    /// the line on which the cursor is.
    pub fn begin_anew(&mut self, columns: u16) {
        self.columns = columns.max(1);
        self.shown.clear();
        self.at = 0;
        self.cursor = None;
    }

    /// Leaves the last frame on the terminal and the cursor below it.
    pub fn leave(&mut self) -> io::Result<()> {
        let mut text = Vec::new();
        if self.whole {
            return Ok(());
        }
        self.go_to(self.last_row(), &mut text);
        if !self.shown.is_empty() {
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"\x1b[0m\x1b[?25h");
        self.shown.clear();
        self.at = 0;
        self.out.write_all(&text)?;
        self.out.flush()
    }

    /// The writer, for sequences that move nothing, such as the window's title.
    pub fn out(&mut self) -> &mut W {
        &mut self.out
    }

    fn row_of(&self, buffer: &Buffer, y: u16, least: u16) -> Row {
        let mut row = Writer::new(self.colours);
        let mut x = 0;
        while x < buffer.area.width.min(self.columns) {
            let Some(cell) = buffer.cell(Position::new(buffer.area.x + x, buffer.area.y + y)) else { break };
            let width = u16::try_from(cell.symbol().width()).unwrap_or(1).max(1);
            if x + width > self.columns {
                break;
            }
            row.put(cell.symbol(), width, cell.style());
            x += width;
        }
        row.end(least)
    }

    fn row_of_line(&self, line: &Line<'_>) -> Row {
        let mut row = Writer::new(self.colours);
        for span in &line.spans {
            let style = line.style.patch(span.style);
            for grapheme in span.content.graphemes(true) {
                let width = u16::try_from(grapheme.width()).unwrap_or(u16::MAX);
                if width == 0 || grapheme.chars().any(char::is_control) {
                    continue;
                }
                if row.width + row.blanks + width > self.columns {
                    return row.end(0);
                }
                row.put(grapheme, width, style);
            }
        }
        row.end(0)
    }
}

/// Overwrites a row.
fn write_row(row: &Row, columns: u16, text: &mut Vec<u8>) {
    // Where such a row is wider than we think, it must not go on in the next one.
    if row.doubtful {
        text.extend_from_slice(b"\x1b[?7l");
    }
    text.extend_from_slice(&row.bytes);
    if row.doubtful {
        text.extend_from_slice(b"\x1b[?7h");
    }
    // After the last column the cursor hangs on the character itself, and erasing would take it away.
    if row.width < columns {
        text.extend_from_slice(b"\x1b[K");
    }
}

/// Makes the bytes of a row.
struct Writer {
    bytes: Vec<u8>,
    style: Style,
    width: u16,
    /// Plain blanks that are written only if something follows.
    blanks: u16,
    colours: bool,
    doubtful: bool,
}

impl Writer {
    fn new(colours: bool) -> Self {
        Self { bytes: Vec::new(), style: Style::new(), width: 0, blanks: 0, colours, doubtful: false }
    }

    fn put(&mut self, symbol: &str, width: u16, style: Style) {
        let ink = |colour: Option<Color>| colour.filter(|colour| self.colours && *colour != Color::Reset);
        let style =
            Style { fg: ink(style.fg), bg: ink(style.bg), add_modifier: style.add_modifier, ..Style::new() };
        if symbol == " " && is_plain(style) {
            self.blanks += 1;
            return;
        }
        self.put_blanks(self.blanks);
        self.change(style);
        self.doubtful |= symbol.chars().nth(1).is_some();
        self.bytes.extend_from_slice(symbol.as_bytes());
        self.width += width;
    }

    fn put_blanks(&mut self, count: u16) {
        if count > 0 && !is_plain(self.style) {
            self.change(Style::new());
        }
        self.bytes.resize(self.bytes.len() + usize::from(count), b' ');
        self.width += count;
        self.blanks = 0;
    }

    fn change(&mut self, style: Style) {
        if style == self.style {
            return;
        }
        self.style = style;
        self.bytes.extend_from_slice(b"\x1b[0");
        for (modifier, code) in MODIFIERS {
            if style.add_modifier.contains(*modifier) {
                let _ = write!(self.bytes, ";{code}");
            }
        }
        for (colour, base) in [(style.fg, 30), (style.bg, 40)] {
            match colour {
                None | Some(Color::Reset) => {}
                Some(colour) => self.colour(colour, base),
            }
        }
        self.bytes.push(b'm');
    }

    fn colour(&mut self, colour: Color, base: u8) {
        let _ = match colour {
            Color::Rgb(red, green, blue) => write!(self.bytes, ";{};2;{red};{green};{blue}", base + 8),
            Color::Indexed(index) => write!(self.bytes, ";{};5;{index}", base + 8),
            named => match index_of(named) {
                index @ 0..=7 => write!(self.bytes, ";{}", base + index),
                index => write!(self.bytes, ";{}", base + 60 + index - 8),
            },
        };
    }

    /// The row; blanks at its end are left out, except for those before column `least`.
    fn end(mut self, least: u16) -> Row {
        self.put_blanks(self.blanks.min(least.saturating_sub(self.width)));
        self.change(Style::new());
        Row { bytes: self.bytes, width: self.width, doubtful: self.doubtful }
    }
}

const MODIFIERS: &[(Modifier, u8)] = &[
    (Modifier::BOLD, 1),
    (Modifier::DIM, 2),
    (Modifier::ITALIC, 3),
    (Modifier::UNDERLINED, 4),
    (Modifier::REVERSED, 7),
    (Modifier::CROSSED_OUT, 9),
];

/// Whether a blank in this style looks like nothing.
fn is_plain(style: Style) -> bool {
    matches!(style.bg, None | Some(Color::Reset))
        && !style.add_modifier.intersects(Modifier::REVERSED | Modifier::UNDERLINED | Modifier::CROSSED_OUT)
}

/// The place of a named colour in the terminal's sixteen.
fn index_of(colour: Color) -> u8 {
    match colour {
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::DarkGray => 8,
        Color::LightRed => 9,
        Color::LightGreen => 10,
        Color::LightYellow => 11,
        Color::LightBlue => 12,
        Color::LightMagenta => 13,
        Color::LightCyan => 14,
        Color::White => 15,
        _ => 7,
    }
}

#[cfg(test)]
mod tests;
