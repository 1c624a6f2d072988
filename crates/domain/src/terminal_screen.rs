//! The screen of a command that runs in a terminal, as front ends show it: text and colours, never escape sequences.

use std::fmt;

/// The size of a terminal, within limits that keep a screen small and usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    pub columns: u16,
    pub rows: u16,
}

impl TerminalSize {
    const COLUMNS: (u16, u16) = (20, 500);
    const ROWS: (u16, u16) = (4, 200);

    /// The nearest size within the limits.
    pub fn within_limits(self) -> Self {
        Self {
            columns: self.columns.clamp(Self::COLUMNS.0, Self::COLUMNS.1),
            rows: self.rows.clamp(Self::ROWS.0, Self::ROWS.1),
        }
    }
}

/// What a terminal shows at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TerminalScreen {
    /// From the top; blank rows at the end are left out.
    pub rows: Vec<Vec<ScreenRun>>,
    /// Where the cursor is, unless it is hidden.
    pub cursor: Option<ScreenPosition>,
    /// A full-screen program has taken over.
    pub alternate: bool,
    /// What the command wants the keyboard to send.
    pub keys: KeyModes,
}

impl TerminalScreen {
    /// The text without colours, row by row.
    pub fn text(&self) -> String {
        let row = |runs: &Vec<ScreenRun>| -> String { runs.iter().map(|run| run.text.as_str()).collect() };
        let rows: Vec<String> = self.rows.iter().map(|runs| row(runs).trim_end().to_owned()).collect();
        rows.join("\n").trim_end().to_owned()
    }
}

/// A place on a screen, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScreenPosition {
    pub row: u16,
    pub column: u16,
}

/// How keys and pastes reach a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyModes {
    /// Arrow keys as applications read them.
    pub application_cursor: bool,
    /// Pasted text with marks around it.
    pub bracketed_paste: bool,
}

/// Text of one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenRun {
    pub text: String,
    /// `None` for the terminal's own.
    pub style: Option<CellStyle>,
}

/// The look of a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CellStyle {
    pub foreground: ScreenColor,
    pub background: ScreenColor,
    pub bold: bool,
    pub dim: bool,
    pub italic: bool,
    pub underline: bool,
    pub inverse: bool,
}

/// A colour as a command chooses it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ScreenColor {
    /// The terminal's own.
    #[default]
    Default,
    /// One of the palette's 256.
    Palette(u8),
    Rgb {
        red: u8,
        green: u8,
        blue: u8,
    },
}

/// Bytes typed for a command. They may be a password, so no log shows them.
#[derive(Clone, PartialEq, Eq)]
pub struct TypedBytes(pub Vec<u8>);

impl fmt::Debug for TypedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TypedBytes({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_bytes_do_not_appear_in_debug_output() {
        assert_eq!(format!("{:?}", TypedBytes(b"hunter2".to_vec())), "TypedBytes(7 bytes)");
    }

    #[test]
    fn sizes_are_limited() {
        let size = |columns, rows| TerminalSize { columns, rows }.within_limits();
        assert_eq!(size(0, 0), TerminalSize { columns: 20, rows: 4 });
        assert_eq!(size(u16::MAX, u16::MAX), TerminalSize { columns: 500, rows: 200 });
        assert_eq!(size(80, 24), TerminalSize { columns: 80, rows: 24 });
    }
}
