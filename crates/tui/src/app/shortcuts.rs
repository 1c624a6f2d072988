//! The panel behind `?`: the keys that matter, in columns.

use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use crate::keys::{Command, KeyMap};
use crate::theme::Theme;
use crate::transcript::cut_to_width;

/// Blanks between two columns.
const GAP: usize = 2;
/// The widest panel that still reads as one.
const WIDEST: usize = 140;

/// The panel, as many columns wide as fit.
pub(super) fn lines(keys: &KeyMap, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let entries = entries(keys);
    let label = entries.iter().map(|(key, _)| key.width()).max().unwrap_or_default();
    let about = entries.iter().map(|(_, about)| about.width()).max().unwrap_or_default();
    let wide = label + GAP + about;
    let room = usize::from(width).min(WIDEST);
    let columns = ((room + GAP) / (wide + GAP)).max(1);
    let rows = entries.len().div_ceil(columns);
    let about = about.min(room.saturating_sub(label + GAP).max(1));
    let mut lines: Vec<Line<'static>> = (0..rows)
        .map(|row| {
            let mut spans = Vec::new();
            for (key, text) in entries.iter().skip(row).step_by(rows) {
                let text = cut_to_width(text, about);
                let blanks = (label + GAP).saturating_sub(key.width());
                let behind = about.saturating_sub(text.width()) + GAP;
                spans.push(Span::styled(key.clone(), theme.accent()));
                spans.push(Span::styled(format!("{:blanks$}{text}{:behind$}", "", ""), theme.secondary()));
            }
            Line::from(spans)
        })
        .collect();
    lines.push(Line::from(Span::styled("/shortcuts lists all keys", theme.secondary())));
    lines
}

/// The keys and what they do. A command that lost its key is left out.
fn entries(keys: &KeyMap) -> Vec<(String, &'static str)> {
    let twice = |key: String| if key.is_empty() { key } else { format!("{key} {key}") };
    let signs = [("/", "Commands"), ("@", "Add files"), ("!", "Shell mode")];
    let named = [
        (keys.last_key(Command::Newline), "New line"),
        (keys.key(Command::QueueMessage), "Queue while working"),
        (keys.key(Command::CycleMode), "Approval mode"),
        (keys.key(Command::ToggleYolo), "Toggle YOLO mode"),
        (keys.key(Command::ShowMoreLines), "Show all output"),
        (twice(keys.key(Command::Cancel)), "Clear, or rewind"),
        (keys.key(Command::SearchStart), "Search prompts"),
        (keys.key(Command::OpenEditor), "Open in editor"),
        (keys.key(Command::PasteClipboard), "Paste or add image"),
        (keys.key(Command::ShowTodos), "To-do list"),
        (keys.key(Command::Quit), "Cancel; twice: exit"),
        (keys.key(Command::Suspend), "Suspend"),
    ];
    let named = named.into_iter().filter(|(key, _)| !key.is_empty());
    signs.map(|(sign, about)| (sign.to_owned(), about)).into_iter().chain(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(keys: &KeyMap, width: u16) -> Vec<String> {
        let lines = lines(keys, width, &Theme::no_colour());
        lines.iter().map(|line| line.to_string().trim_end().to_owned()).collect()
    }

    #[test]
    fn the_panel_has_fifteen_keys_in_as_many_columns_as_fit() {
        let keys = KeyMap::default();
        assert_eq!(entries(&keys).len(), 15);
        for (width, rows) in [(40, 15), (80, 8), (120, 5), (300, 4)] {
            let shown = shown(&keys, width);
            assert_eq!(shown.len(), rows + 1, "{width}: {shown:#?}");
            assert!(shown.iter().all(|line| line.width() <= usize::from(width)), "{shown:#?}");
        }
        let text = shown(&keys, 80).join("\n");
        for key in ["Shift+Tab", "Ctrl+Y", "Ctrl+O", "Esc Esc", "Ctrl+Z", "Ctrl+J"] {
            assert!(text.contains(key), "{text}");
        }
    }

    #[test]
    fn the_panel_names_the_keys_of_the_person() {
        let (keys, _) = KeyMap::read(
            r#"[{"command": "app.cycleApprovalMode", "key": "f2"}, {"command": "-app.toggleYolo", "key": "ctrl+y"}]"#,
        );
        let text = shown(&keys, 80).join("\n");
        assert!(text.contains("F2 ") && !text.contains("Shift+Tab") && !text.contains("YOLO"), "{text}");
    }
}
