//! Renders terminal windows as SVG. The same window always gives the same picture.

mod recording;

use std::fmt::Write as _;

use vt100::{Cell, Color};

pub use recording::Recording;

/// A cell's size, and that of letters which fill it.
const WIDTH: usize = 9;
const HEIGHT: usize = 19;
const LETTERS: usize = 15;
/// Room around the window, and the bar above it.
const MARGIN: usize = 14;
const BAR: usize = 30;

/// Closes the rows and the picture.
const END: &str = "</g>\n</svg>\n";

/// The colours of a terminal.
pub struct Palette {
    background: &'static str,
    foreground: &'static str,
    /// The first sixteen.
    named: [&'static str; 16],
}

pub const DARK: Palette = Palette {
    background: "#1e1e2e",
    foreground: "#cdd6f4",
    named: [
        "#45475a", "#f38ba8", "#a6e3a1", "#f9e2af", "#89b4fa", "#cba6f7", "#94e2d5", "#bac2de", "#7f849c",
        "#f38ba8", "#a6e3a1", "#f9e2af", "#89b4fa", "#cba6f7", "#94e2d5", "#ffffff",
    ],
};

pub const LIGHT: Palette = Palette {
    background: "#ffffff",
    foreground: "#24292f",
    named: [
        "#24292f", "#cf222e", "#116329", "#4d2d00", "#0969da", "#8250df", "#1b7c83", "#6e7781", "#57606a",
        "#a40e26", "#1a7f37", "#633c01", "#218bff", "#a475f9", "#3192aa", "#8c959f",
    ],
};

/// Draws a window with a title above it. Empty rows at the end are left out.
pub fn svg(window: &vt100::Screen, title: &str, palette: &Palette) -> String {
    let columns = window.size().1;
    let rows = used_rows(window);
    let mut svg = palette.begin(columns, rows, title, "");
    for row in 0..rows {
        palette.draw_row(&mut svg, window, row, columns);
    }
    svg.push_str(END);
    svg
}

/// Up to the last row with something in it; at least one.
fn used_rows(window: &vt100::Screen) -> u16 {
    let (rows, columns) = window.size();
    let used = (0..rows).rev().find(|row| (0..columns).any(|column| is_used(window, *row, column)));
    used.map_or(1, |last| last + 1)
}

fn is_used(window: &vt100::Screen, row: u16, column: u16) -> bool {
    let has_background = |cell: &Cell| cell.inverse() || cell.bgcolor() != Color::Default;
    window.cell(row, column).is_some_and(|cell| !cell.contents().trim().is_empty() || has_background(cell))
}

impl Palette {
    /// The window without its rows, which follow; [`END`] closes it. Browsers that no longer read `xml:space` keep blanks
    /// because of the style.
    fn begin(&self, columns: u16, rows: u16, title: &str, style: &str) -> String {
        let Self { background, foreground, .. } = self;
        let (width, height) =
            (usize::from(columns) * WIDTH + 2 * MARGIN, usize::from(rows) * HEIGHT + 2 * MARGIN + BAR);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
             <title>{title}</title>\n\
             <style>text{{white-space:pre}}{style}</style>\n\
             <rect width=\"{width}\" height=\"{height}\" rx=\"9\" fill=\"{background}\" stroke=\"#8888\"/>\n"
        );
        for (at, colour) in ["#f38ba8", "#f9e2af", "#a6e3a1"].iter().enumerate() {
            let x = MARGIN + 6 + at * 20;
            let _ = writeln!(svg, "<circle cx=\"{x}\" cy=\"17\" r=\"6\" fill=\"{colour}\"/>");
        }
        let _ = writeln!(
            svg,
            "<g transform=\"translate({MARGIN} {})\" font-family=\"'DejaVu Sans Mono',Menlo,Consolas,monospace\" \
             font-size=\"{LETTERS}\" fill=\"{foreground}\" xml:space=\"preserve\">",
            BAR + MARGIN
        );
        svg
    }

    /// One row: backgrounds, lines and blocks, then text.
    fn draw_row(&self, svg: &mut String, window: &vt100::Screen, row: u16, columns: u16) {
        let top = usize::from(row) * HEIGHT;
        let cells: Vec<&Cell> = (0..columns).filter_map(|column| window.cell(row, column)).collect();
        for (start, run) in runs(&cells, |cell| self.background(cell)) {
            if let Some(colour) = self.background(run[0]) {
                let (x, width) = (start * WIDTH, run.len() * WIDTH);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x}\" y=\"{top}\" width=\"{width}\" height=\"{HEIGHT}\" fill=\"{colour}\"/>"
                );
            }
        }
        for (column, cell) in cells.iter().enumerate() {
            if let Some(shape) = shape(cell.contents()) {
                shape.draw(svg, column * WIDTH, top, &self.foreground(cell));
            }
        }
        for (start, run) in runs(&cells, |cell| (self.style(cell), is_word(cell))) {
            let text: String = run.iter().map(|cell| cell.contents()).collect();
            if !is_word(run[0]) || text.trim().is_empty() {
                continue;
            }
            let (x, y, length) = (start * WIDTH, top + HEIGHT - 5, run.len() * WIDTH);
            let style = self.style(run[0]);
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" textLength=\"{length}\"{style}>{text}</text>");
        }
    }

    fn style(&self, cell: &Cell) -> String {
        let mut style = String::new();
        let colour = self.foreground(cell);
        if colour != self.foreground {
            let _ = write!(style, " fill=\"{colour}\"");
        }
        for (is_on, words) in [
            (cell.bold(), " font-weight=\"bold\""),
            (cell.italic(), " font-style=\"italic\""),
            (cell.underline(), " text-decoration=\"underline\""),
            (cell.dim(), " opacity=\"0.65\""),
        ] {
            if is_on {
                style.push_str(words);
            }
        }
        style
    }

    fn foreground(&self, cell: &Cell) -> String {
        let own = self.colour(if cell.inverse() { cell.bgcolor() } else { cell.fgcolor() });
        own.unwrap_or_else(|| if cell.inverse() { self.background } else { self.foreground }.to_owned())
    }

    fn background(&self, cell: &Cell) -> Option<String> {
        if cell.inverse() {
            return Some(self.colour(cell.fgcolor()).unwrap_or_else(|| self.foreground.to_owned()));
        }
        self.colour(cell.bgcolor())
    }

    fn colour(&self, colour: Color) -> Option<String> {
        let hex = |red: u8, green: u8, blue: u8| format!("#{red:02x}{green:02x}{blue:02x}");
        match colour {
            Color::Default => None,
            Color::Rgb(red, green, blue) => Some(hex(red, green, blue)),
            Color::Idx(index) => Some(match index {
                0..=15 => self.named[usize::from(index)].to_owned(),
                16..=231 => {
                    let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
                    let cube = index - 16;
                    hex(level(cube / 36), level(cube / 6 % 6), level(cube % 6))
                }
                232..=255 => {
                    let grey = 8 + 10 * (index - 232);
                    hex(grey, grey, grey)
                }
            }),
        }
    }
}

/// Neighbours that are alike, each with where it begins.
fn runs<'a, K: PartialEq>(cells: &'a [&'a Cell], key: impl Fn(&Cell) -> K) -> Vec<(usize, &'a [&'a Cell])> {
    let mut start = 0;
    let alike = cells.chunk_by(move |one, other| key(one) == key(other));
    alike
        .map(|run| {
            let begun = start;
            start += run.len();
            (begun, run)
        })
        .collect()
}

/// Whether a cell is written with letters. The second half of a wide letter belongs to it; a blank joins words.
fn is_word(cell: &Cell) -> bool {
    cell.is_wide_continuation() || (cell.has_contents() && shape(cell.contents()).is_none())
}

/// Characters that are drawn as shapes, because they must join their neighbours.
enum Shape {
    /// Where a line goes to from the middle (left, right, up, down), and how thick it is.
    Lines([bool; 4], usize),
    /// Part of a cell that is filled, in eighths: from the left, the top, wide, high.
    Block([usize; 4]),
}

fn shape(contents: &str) -> Option<Shape> {
    let sides = |sides: &str| ['l', 'r', 'u', 'd'].map(|side| sides.contains(side));
    let lines = |to: &str| Some(Shape::Lines(sides(to), 1));
    let heavy = |to: &str| Some(Shape::Lines(sides(to), 3));
    let mut characters = contents.chars();
    let (Some(character), None) = (characters.next(), characters.next()) else { return None };
    match character {
        '─' | '╌' | '═' => lines("lr"),
        '│' | '║' => lines("ud"),
        '╭' | '┌' | '╔' => lines("rd"),
        '╮' | '┐' | '╗' => lines("ld"),
        '╰' | '└' | '╚' => lines("ru"),
        '╯' | '┘' | '╝' => lines("lu"),
        '├' => lines("rud"),
        '┤' => lines("lud"),
        '┬' => lines("lrd"),
        '┴' => lines("lru"),
        '┼' => lines("lrud"),
        '━' => heavy("lr"),
        '┃' => heavy("ud"),
        '┏' => heavy("rd"),
        '┓' => heavy("ld"),
        '┗' => heavy("ru"),
        '┛' => heavy("lu"),
        '┣' => heavy("rud"),
        '┫' => heavy("lud"),
        '╋' => heavy("lrud"),
        '╸' => heavy("l"),
        '╺' => heavy("r"),
        '╹' => heavy("u"),
        '╻' => heavy("d"),
        '█' => Some(Shape::Block([0, 0, 8, 8])),
        '▀' => Some(Shape::Block([0, 0, 8, 4])),
        '▐' => Some(Shape::Block([4, 0, 4, 8])),
        '▉'..='▏' => {
            let eighths = usize::try_from('▏' as u32 - character as u32 + 1).ok()?;
            Some(Shape::Block([0, 0, eighths, 8]))
        }
        '▁'..='▇' => {
            let eighths = usize::try_from(character as u32 - '▁' as u32 + 1).ok()?;
            Some(Shape::Block([0, 8 - eighths, 8, eighths]))
        }
        _ => None,
    }
}

impl Shape {
    fn draw(&self, svg: &mut String, x: usize, y: usize, colour: &str) {
        match self {
            Self::Block([left, top, wide, high]) => {
                let part = |eighths: usize, whole: usize| eighths * whole / 8;
                let (x, y) = (x + part(*left, WIDTH), y + part(*top, HEIGHT));
                let (width, height) = (part(*wide, WIDTH), part(*high + *top, HEIGHT) - part(*top, HEIGHT));
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{colour}\"/>"
                );
            }
            Self::Lines([left, right, up, down], thick) => {
                let (middle, centre) = (x + WIDTH / 2, y + HEIGHT / 2);
                let ends = [
                    (left, x, centre),
                    (right, x + WIDTH, centre),
                    (up, middle, y),
                    (down, middle, y + HEIGHT),
                ];
                let mut path = String::new();
                for (_, to_x, to_y) in ends.iter().filter(|(is_there, ..)| **is_there) {
                    let _ = write!(path, "M{middle} {centre}L{to_x} {to_y}");
                }
                let _ = writeln!(svg, "<path d=\"{path}\" stroke=\"{colour}\" stroke-width=\"{thick}\"/>");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(bytes: &str) -> String {
        let mut emulator = vt100::Parser::new(4, 20, 0);
        emulator.process(bytes.as_bytes());
        svg(emulator.screen(), "A window", &DARK)
    }

    #[test]
    fn text_keeps_its_colours_and_is_escaped() {
        let picture = drawn("a<b> \x1b[1;31m& red\x1b[0m");
        assert!(
            picture.contains(">a&lt;b&gt; </text>") || picture.contains(">a&lt;b&gt;</text>"),
            "{picture}"
        );
        assert!(picture.contains("fill=\"#f38ba8\" font-weight=\"bold\">&amp; red</text>"), "{picture}");
    }

    #[test]
    fn box_lines_are_drawn_and_unused_rows_omitted() {
        let picture = drawn("╭─╮\r\n\x1b[44m█\x1b[0m");
        assert_eq!(picture.matches("<path").count(), 3);
        assert!(picture.contains("fill=\"#89b4fa\""), "{picture}");
        let height = 2 * HEIGHT + 2 * MARGIN + BAR;
        assert!(picture.contains(&format!("height=\"{height}\"")), "{picture}");
    }
}
