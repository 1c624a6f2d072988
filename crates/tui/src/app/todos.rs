//! The model's to-do list.

use pollux_domain::event::Event;
use pollux_domain::terminal_text::one_line;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use serde_json::Value;

use crate::theme::Theme;

/// The list as the model last wrote it.
#[derive(Debug, Default)]
pub(super) struct Todos {
    entries: Vec<(State, String)>,
    pub(super) open: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Pending,
    Now,
    Done,
    Dropped,
}

impl Todos {
    pub(super) fn take(&mut self, event: &Event) {
        let Event::CallFinished(report) = event else { return };
        if report.name != "write_todos" || report.outcome.failure().is_some() {
            return;
        }
        let listed = report.args.get("todos").and_then(Value::as_array);
        self.entries = listed.into_iter().flatten().filter_map(entry).collect();
    }

    pub(super) fn lines(&self, width: u16, theme: &Theme) -> Vec<Line<'static>> {
        let left = self.entries.iter().any(|(state, _)| matches!(state, State::Pending | State::Now));
        if !left {
            return Vec::new();
        }
        let done = self.entries.iter().filter(|(state, _)| *state == State::Done).count();
        let now = self.entries.iter().find(|(state, _)| *state == State::Now);
        let now = now.map(|(_, text)| format!(" » {text}")).unwrap_or_default();
        let rule = Line::from(Span::styled("─".repeat(usize::from(width)), theme.border()));
        let mut lines = vec![
            rule,
            Line::from(vec![
                Span::styled(" Todo", theme.accent().add_modifier(Modifier::BOLD)),
                Span::styled(
                    format!("  {done}/{} completed (Ctrl+T to toggle)", self.entries.len()),
                    theme.secondary(),
                ),
                Span::styled(now, theme.text()),
            ]),
        ];
        if self.open {
            lines.extend(self.entries.iter().map(|(state, text)| {
                let (sign, style) = match state {
                    State::Done => ('✓', theme.success()),
                    State::Now => ('»', theme.accent()),
                    State::Pending => ('☐', theme.text()),
                    State::Dropped => ('✗', theme.secondary()),
                };
                Line::from(Span::styled(format!("   {sign} {text}"), style))
            }));
        }
        lines
    }
}

fn entry(value: &Value) -> Option<(State, String)> {
    let text = one_line(value.get("description")?.as_str()?);
    let state = match value.get("status").and_then(Value::as_str).unwrap_or_default() {
        "completed" => State::Done,
        "in_progress" => State::Now,
        "cancelled" => State::Dropped,
        _ => State::Pending,
    };
    Some((state, text))
}
