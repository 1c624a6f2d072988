//! The latest activity of a sub-agent.

use std::collections::VecDeque;

use pollux_domain::event::{Activity, ActivityKind, CallStatus};
use pollux_domain::id::CallId;
use pollux_domain::terminal_text::one_line;
use ratatui::style::{Modifier, Style};
use ratatui::text::Span;

use crate::theme::Theme;

/// Lines that are kept; must equal upstream's.
const LINES: usize = 15;

/// The latest activities of a sub-agent.
#[derive(Debug, Default)]
pub(super) struct Activities(VecDeque<Doing>);

#[derive(Debug)]
struct Doing {
    call: Option<CallId>,
    state: State,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Thought,
    Runs,
    Over(CallStatus),
}

impl Activities {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn take(&mut self, activity: &Activity) {
        match &activity.what {
            ActivityKind::CallStarted { call, display_name, description, .. } => {
                let text = format!("{} {}", one_line(display_name), one_line(description));
                self.push(Some(call.clone()), State::Runs, text);
            }
            ActivityKind::CallEnded(report) => self.end(&report.call, report.outcome.status()),
            ActivityKind::Thought(text) if text.trim().is_empty() => {}
            ActivityKind::Thought(text) => {
                let text = one_line(text);
                match self.0.back_mut() {
                    Some(last) if last.state == State::Thought => last.text = text,
                    _ => self.push(None, State::Thought, text),
                }
            }
            ActivityKind::Error { message, call, .. } => match call {
                Some((call, _)) => self.end(call, CallStatus::Error),
                None => self.push(None, State::Over(CallStatus::Error), one_line(message)),
            },
        }
    }

    fn push(&mut self, call: Option<CallId>, state: State, text: String) {
        let text = text.trim().chars().take(200).collect();
        self.0.push_back(Doing { call, state, text });
        while self.0.len() > LINES {
            self.0.pop_front();
        }
    }

    fn end(&mut self, call: &CallId, status: CallStatus) {
        if let Some(doing) = self.0.iter_mut().find(|doing| doing.call.as_ref() == Some(call)) {
            doing.state = State::Over(status);
        }
    }

    pub(super) fn spans(&self, theme: &Theme) -> Vec<Vec<Span<'static>>> {
        let lines = self.0.iter().map(|doing| {
            let (sign, style): (&str, Style) = match doing.state {
                State::Thought => ("∴", theme.secondary()),
                State::Runs => ("⊷", theme.accent()),
                State::Over(CallStatus::Success) => ("✓", theme.success()),
                State::Over(CallStatus::Error) => ("✕", theme.error()),
                State::Over(CallStatus::Cancelled) => ("-", theme.secondary()),
            };
            let words = match doing.state {
                State::Thought => theme.secondary().add_modifier(Modifier::ITALIC),
                _ => theme.text(),
            };
            vec![Span::styled(format!("{sign} "), style), Span::styled(doing.text.clone(), words)]
        });
        lines.collect()
    }
}
