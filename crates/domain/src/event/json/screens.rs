//! Rows of the screens of commands.

use serde_json::Value;

use super::{Fields, Json, MalformedEvent, fields, variants};
use crate::JsonObject;
use crate::terminal_screen::{
    CellStyle, KeyModes, ScreenColor, ScreenPosition, ScreenRun, TerminalScreen, TerminalSize,
};

fields! {
    TerminalSize { columns, rows }
    TerminalScreen { rows, cursor, alternate, keys }
    ScreenPosition { row, column }
    KeyModes { application_cursor, bracketed_paste }
    ScreenRun { text, style }
    CellStyle { foreground, background, bold, dim, italic, underline, inverse }
}

variants! {
    ScreenColor { Default, Palette(index), Rgb { red, green, blue } }
}
