//! What the screen shows now.

use std::time::Instant;

use pollux_domain::approval::ApprovalMode;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::App;
use crate::composer;
use crate::dialog::Room;
use crate::screen::Frame;
use crate::transcript::Look;
use crate::wrap::{Margin, wrap};

/// Rows of the queue that are shown.
const QUEUED: usize = 3;

impl App {
    /// The frame for a terminal of this size.
    pub fn frame(&mut self, width: u16, height: u16, now: Instant) -> Frame {
        let width = width.max(1);
        // The last row of the terminal stays free: what is printed there would scroll.
        let height = height.max(2) - 1;
        let mut finished = Vec::new();
        if !std::mem::replace(&mut self.greeted, true) {
            let tips = !self.settings.hide_tips;
            finished.extend(self.header.lines(width, &self.settings.theme, tips));
        }
        if self.toast.as_ref().is_some_and(|(_, until)| *until <= now) {
            self.toast = None;
        }
        let theme = self.settings.theme.clone();
        let look = Look {
            theme: &theme,
            width,
            box_lines: if self.expanded { usize::MAX } else { self.settings.box_lines },
            line_numbers: self.settings.line_numbers,
            raw: self.raw,
        };
        finished.extend(self.transcript.finished(look));
        if self.ended {
            finished.extend(self.transcript.live(look));
            return Frame { finished, live: Buffer::empty(Rect::new(0, 0, width, 0)), cursor: None };
        }
        let (live, cursor) = self.live(look, height, now);
        Frame { finished, live, cursor }
    }

    fn live(&mut self, look: Look<'_>, height: u16, now: Instant) -> (Buffer, Option<Position>) {
        let below = match self.dialogs.is_empty() {
            true => self.below(look, height, now),
            false => Below::Lines(self.question(look, height)),
        };
        let rows = below.height().min(height);
        let room = usize::from(height - rows);
        let mut above = self.transcript.live(Look { box_lines: look.box_lines.min(room), ..look });
        if self.dialogs.is_empty() {
            above.extend(self.between(look, now));
        }
        let cut = above.len().saturating_sub(room);
        let above: Vec<Line<'static>> = above.into_iter().skip(cut).collect();
        let first = u16::try_from(above.len()).unwrap_or(height);
        let area = Rect::new(0, 0, look.width, first + rows);
        let mut buffer = Buffer::empty(area);
        put(&above, 0, &mut buffer);
        let cursor = match below {
            Below::Lines(lines) => {
                put(&lines, first, &mut buffer);
                None
            }
            Below::Composer { input, popup, foot } => {
                let styles = self.styles();
                let last =
                    |from: u16, rows: u16| Rect::new(0, from, look.width, rows.min(area.height - from));
                let cursor = self.composer.render(last(first, input), &mut buffer, &styles);
                let under = (first + input).min(area.height);
                self.composer.render_popup(last(under, popup), &mut buffer, &styles);
                put(&foot, (under + popup).min(area.height), &mut buffer);
                cursor
            }
        };
        (buffer, cursor)
    }

    /// What stands between the conversation and the composer.
    fn between(&self, look: Look<'_>, now: Instant) -> Vec<Line<'static>> {
        let theme = look.theme;
        let mut lines = vec![Line::default()];
        lines.extend(self.queued(look));
        lines.extend(self.todos.lines(theme));
        let doing = self.transcript.running().map(|name| format!("Running {name}"));
        let doing = doing.as_deref().or_else(|| self.transcript.thought());
        if let Some(text) = self.status.line(doing, now) {
            lines.extend(wrap(&[Span::styled(text, theme.accent())], look.width, &Margin::default()));
        } else if let Some((text, _)) = &self.toast {
            lines.push(Line::from(Span::styled(text.clone(), theme.warning())));
        }
        if self.is_busy()
            && let Some((text, _)) = &self.toast
        {
            lines.push(Line::from(Span::styled(text.clone(), theme.warning())));
        }
        if self.shortcuts {
            lines.extend(self.shortcut_lines(look));
        }
        lines.push(Line::from(Span::styled("─".repeat(usize::from(look.width)), theme.border())));
        lines.push(self.mode_line(look));
        lines
    }

    fn queued(&self, look: Look<'_>) -> Vec<Line<'static>> {
        if self.queue.is_empty() {
            return Vec::new();
        }
        let dim = look.theme.secondary();
        let mut lines = vec![Line::from(Span::styled("  Queued (press ↑ to edit):", dim))];
        for queued in self.queue.iter().take(QUEUED) {
            let text = pollux_domain::terminal_text::one_line(&queued.raw);
            let row = wrap(&[Span::styled(text, dim)], look.width, &Margin::hanging(Span::raw("    ")));
            lines.extend(row.into_iter().take(1));
        }
        if let Some(more) = self.queue.len().checked_sub(QUEUED).filter(|more| *more > 0) {
            lines.push(Line::from(Span::styled(format!("    ... (+{more} more)"), dim)));
        }
        lines
    }

    fn shortcut_lines(&self, look: Look<'_>) -> Vec<Line<'static>> {
        let entries = self.settings.keys.listing();
        let texts = entries.iter().map(|entry| format!("{}  {}", entry.keys, entry.description));
        let lines = texts.take(20).map(|text| Line::from(Span::styled(text, look.theme.secondary())));
        lines.collect()
    }

    fn mode_line(&self, look: Look<'_>) -> Line<'static> {
        let theme = look.theme;
        let text = match (self.composer.shell_mode(), self.mode) {
            (true, _) => "  shell mode enabled (esc to disable)",
            (false, ApprovalMode::Default) => "Shift+Tab to accept edits",
            (false, ApprovalMode::AutoEdit) => "auto-accept edits Shift+Tab to plan",
            (false, ApprovalMode::Plan) => "plan Shift+Tab to manual",
            (false, ApprovalMode::Yolo) => "YOLO Ctrl+Y",
        };
        let style = match self.mode {
            ApprovalMode::Yolo => theme.error(),
            ApprovalMode::AutoEdit => theme.warning(),
            ApprovalMode::Plan => theme.success(),
            ApprovalMode::Default => theme.secondary(),
        };
        let right = self.footer.context.clone();
        let mut line = Line::from(Span::styled(text, style));
        let gap = usize::from(look.width).checked_sub(line.width() + Span::raw(right.as_str()).width());
        if let Some(gap) = gap.filter(|gap| *gap > 2) {
            line.push_span(Span::raw(" ".repeat(gap)));
            line.push_span(Span::styled(right, theme.secondary()));
        }
        line
    }

    /// The composer with what is under it.
    fn below(&mut self, look: Look<'_>, height: u16, _now: Instant) -> Below {
        let foot = match self.settings.hide_footer {
            true => Vec::new(),
            false => vec![self.footer.line(look.width, look.theme)],
        };
        let feet = u16::try_from(foot.len()).unwrap_or_default();
        let input = self.composer.height(look.width).min(height.saturating_sub(feet).max(1));
        let popup = self.composer.popup_height().min(height.saturating_sub(feet + input));
        Below::Composer { input, popup, foot }
    }

    fn question(&mut self, look: Look<'_>, height: u16) -> Vec<Line<'static>> {
        let room = Room { theme: look.theme, width: look.width, height };
        let mut lines = match self.dialogs.front_mut() {
            Some(dialog) => dialog.lines(room),
            None => Vec::new(),
        };
        // The answers are below; they are what must be seen.
        let cut = lines.len().saturating_sub(usize::from(height));
        lines.drain(..cut);
        lines
    }

    fn styles(&self) -> composer::Look {
        let theme = &self.settings.theme;
        composer::Look {
            prefix: theme.accent(),
            text: theme.text(),
            placeholder: theme.secondary(),
            popup: theme.text(),
            selected: theme.focused(),
            dim: theme.secondary(),
            fold: theme.accent(),
        }
    }
}

/// What is in the composer's place.
enum Below {
    Lines(Vec<Line<'static>>),
    Composer { input: u16, popup: u16, foot: Vec<Line<'static>> },
}

impl Below {
    fn height(&self) -> u16 {
        match self {
            Self::Lines(lines) => u16::try_from(lines.len()).unwrap_or(u16::MAX),
            Self::Composer { input, popup, foot } => {
                input + popup + u16::try_from(foot.len()).unwrap_or_default()
            }
        }
    }
}

fn put(lines: &[Line<'static>], from: u16, buffer: &mut Buffer) {
    for (y, line) in (from..buffer.area.height).zip(lines) {
        buffer.set_line(0, y, line, buffer.area.width);
        buffer.set_style(Rect::new(0, y, buffer.area.width, 1), Style::new());
    }
}
