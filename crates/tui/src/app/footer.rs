//! The last line: where we are and what we work with.

use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use crate::theme::Theme;

/// What the footer says; an empty text is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Footer {
    pub workspace: String,
    pub branch: String,
    pub sandbox: String,
    pub model: String,
    /// How much of the window is used, in percent.
    pub context_used: Option<u8>,
    /// What the session can use, such as `1 GEMINI.md file · 2 MCP servers`.
    pub context: String,
}

impl Footer {
    pub(super) fn line(&self, width: u16, theme: &Theme) -> Line<'static> {
        let branch = if self.branch.is_empty() { String::new() } else { format!("({}*)", self.branch) };
        let used = self.context_used.map(|percent| format!("{percent}% used")).unwrap_or_default();
        let mut parts: Vec<(String, bool)> = vec![
            (self.workspace.clone(), true),
            (branch, false),
            (self.sandbox.clone(), false),
            (self.model.clone(), true),
            (used, false),
        ];
        parts.retain(|(text, _)| !text.is_empty());
        // What does not fit goes from the least telling on.
        while total(&parts) > usize::from(width) {
            let place = parts.iter().rposition(|(_, telling)| !telling);
            match place {
                Some(place) => drop(parts.remove(place)),
                None => break,
            }
        }
        if total(&parts) > usize::from(width) {
            parts.truncate(1);
        }
        let gap = match parts.len() {
            0 | 1 => 0,
            count => {
                let texts: usize = parts.iter().map(|(text, _)| text.width()).sum();
                (usize::from(width).saturating_sub(texts) / (count - 1)).clamp(2, 12)
            }
        };
        let mut spans = Vec::new();
        for (index, (text, telling)) in parts.into_iter().enumerate() {
            if index > 0 {
                spans.push(Span::raw(" ".repeat(gap)));
            }
            spans.push(Span::styled(text, if telling { theme.link_plain() } else { theme.secondary() }));
        }
        Line::from(spans)
    }
}

fn total(parts: &[(String, bool)]) -> usize {
    parts.iter().map(|(text, _)| text.width() + 2).sum::<usize>().saturating_sub(2)
}
