//! Composes the current frame.

use std::time::Instant;

use pollux_domain::approval::ApprovalMode;
use pollux_domain::terminal_text::one_line;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{App, Toast, clipboard, shortcuts, tray};
use crate::composer::{self, ClipboardRead, VimMode};
use crate::dialog::Room;
use crate::screen::Frame;
use crate::transcript::Look;
use crate::wrap::{Margin, wrap};

/// Rows of a call next to its output: a blank one, the heading, and the line about hidden rows.
const BOX: usize = 3;
/// Shown while a question waits for a pause in typing.
const TYPING: &str = "Typing continues below; pause to answer";
/// Shown while a draft stands below a question.
const DRAFT: &str = "Enter sends your text; ↑ ↓ and Enter answer the question";
/// Stands for the empty composer while a question has the keys.
const EMPTY: &str = "  Type to write your next message";
/// A lower window shows a question alone.
const ROOM_BELOW_QUESTION: u16 = 20;
/// Rows that a question has before anything else gets some.
const QUESTION: u16 = 10;
const WAITS: &str = "A question is waiting; pause to answer";
/// A window that is lower has no room for the footer's labels.
const ROOM_FOR_LABELS: u16 = 10;

impl App {
    /// The frame for a terminal of this size.
    pub fn frame(&mut self, width: u16, height: u16, now: Instant) -> Frame {
        let width = width.max(1);
        let _ = self.notices.toast.take_if(|toast| toast.until <= now);
        self.rest_keyboard(now);
        self.notice_question(now);
        self.questions.typing.said = self.is_typing(now);
        let theme = self.settings.theme.clone();
        let look = Look {
            theme: &theme,
            width,
            box_lines: if self.view.expanded { usize::MAX } else { self.settings.box_lines },
            line_numbers: self.settings.line_numbers,
            raw: self.view.raw,
            compact: self.settings.compact && !self.view.expanded,
            now,
        };
        if std::mem::take(&mut self.view.reveals) {
            let (box_lines, compact) = (self.settings.box_lines, self.settings.compact);
            self.transcript.reveal(Look { box_lines, compact, ..look });
        }
        match self.settings.alternate {
            true => self.whole_screen(look, height.max(1)),
            // The last row of the terminal stays free, because printing there would scroll.
            false => self.below_scrollback(look, height.max(2) - 1),
        }
    }

    /// The lines printed on the normal screen after the alternate one.
    pub fn last_words(&mut self, width: u16, now: Instant) -> Frame {
        let theme = self.settings.theme.clone();
        let (line_numbers, compact) = (self.settings.line_numbers, self.settings.compact);
        let look = Look { theme: &theme, width, box_lines: 15, line_numbers, raw: false, compact, now };
        let finished = self.ending.farewell.drain(..).flat_map(|item| item.lines(look)).collect();
        Frame { finished, live: Buffer::empty(Rect::new(0, 0, width, 0)), cursor: None }
    }

    fn below_scrollback(&mut self, look: Look<'_>, height: u16) -> Frame {
        let mut finished = self.transcript.finished(look);
        // The greeting waits for its last line, but not for long.
        let mut greeting = Vec::new();
        if !self.greeting.printed {
            greeting = self.greeting(look);
            self.greeting.printed = self.greeting.complete || self.ending.over || !finished.is_empty();
            if self.greeting.printed {
                finished.splice(0..0, std::mem::take(&mut greeting));
            }
        }
        if self.ending.over {
            finished.extend(self.transcript.live(look));
            return Frame { finished, live: Buffer::empty(Rect::new(0, 0, look.width, 0)), cursor: None };
        }
        let (below, between) = self.foot(look, height);
        let room = usize::from(height - below.height().min(height));
        let mut above = greeting;
        above.extend(self.transcript.live(self.within(look, room.saturating_sub(between.len()))));
        above.extend(between);
        let cut = above.len().saturating_sub(room);
        above.drain(..cut);
        let (live, cursor) = self.draw(&above, &below, look, height);
        Frame { finished, live, cursor }
    }

    fn whole_screen(&mut self, look: Look<'_>, height: u16) -> Frame {
        self.view.page.remake(look);
        for past in self.transcript.settled() {
            self.view.page.add(past, look);
        }
        let (below, mut between) = self.foot(look, height);
        let room = usize::from(height - below.height().min(height));
        let fits = room.saturating_sub(between.len());
        let before = self.greeting(look);
        let after = self.transcript.live(self.within(look, fits));
        let mut above = self.view.page.seen(&before, &after, fits);
        above.resize(fits, Line::default());
        if self.view.page.is_scrolled() {
            let text = "↓ more below (Ctrl+End)";
            above.pop();
            above.push(Line::from(Span::styled(text, look.theme.warning())));
        }
        let cut = between.len().saturating_sub(room);
        above.extend(between.drain(cut..));
        let (live, cursor) = self.draw(&above, &below, look, height);
        Frame { finished: Vec::new(), live, cursor }
    }

    fn greeting(&self, look: Look<'_>) -> Vec<Line<'static>> {
        self.greeting.header.lines(look.width, look.theme, self.settings.show)
    }

    /// The bottom of the screen, and the lines right above it.
    fn foot(&mut self, look: Look<'_>, height: u16) -> (Below, Vec<Line<'static>>) {
        match self.questions.standing.is_empty() {
            true => {
                let between = self.between(look);
                (self.below(look, height), between)
            }
            false => (self.asking(look, height), vec![Line::default()]),
        }
    }

    fn draw(
        &mut self,
        above: &[Line<'static>],
        below: &Below,
        look: Look<'_>,
        height: u16,
    ) -> (Buffer, Option<Position>) {
        let rows = below.height().min(height);
        let first = u16::try_from(above.len()).unwrap_or(height).min(height - rows);
        let area = Rect::new(0, 0, look.width, first + rows);
        let mut buffer = Buffer::empty(area);
        put(above, 0, &mut buffer);
        put(&below.question, first, &mut buffer);
        let first = first.saturating_add(rows_of(&below.question)).min(area.height);
        let Some(Prompt { input, popup, has_keys }) = below.prompt else {
            put(&below.foot, first, &mut buffer);
            return (buffer, None);
        };
        let styles = self.styles();
        let part = |from: u16, rows: u16| Rect::new(0, from, look.width, rows.min(area.height - from));
        let (input_at, popup_at) = match self.settings.alternate {
            true => (first + popup, first),
            false => (first, first + input),
        };
        let cursor = self.composer.render(part(input_at.min(area.height), input), &mut buffer, &styles);
        self.composer.render_popup(part(popup_at.min(area.height), popup), &mut buffer, &styles);
        put(&below.foot, (first + input + popup).min(area.height), &mut buffer);
        (buffer, cursor.filter(|_| has_keys))
    }

    /// The lines between transcript and composer.
    fn between(&self, look: Look<'_>) -> Vec<Line<'static>> {
        let theme = look.theme;
        let mut lines = vec![Line::default()];
        lines.extend(self.tray.lines(self.is_choosing(), look));
        lines.extend(self.session.todos.lines(look.width, theme));
        if let Some(Toast { text, .. }) = &self.notices.toast {
            lines.extend(wrap(
                &[Span::styled(text.clone(), theme.warning())],
                look.width,
                &Margin::default(),
            ));
        }
        lines.extend(self.clipboard_lines(look));
        lines.extend(self.status_row(look));
        if self.view.shortcuts {
            lines.extend(shortcuts::lines(&self.settings.keys, look.width, look.theme));
        }
        lines.push(Line::from(Span::styled("─".repeat(usize::from(look.width)), theme.border())));
        lines.push(self.mode_line(look));
        lines
    }

    /// The status line, or the hint about shortcuts.
    fn status_row(&self, look: Look<'_>) -> Vec<Line<'static>> {
        let theme = look.theme;
        if self.ending.begun {
            let text = Span::styled("Ending the session...", theme.accent());
            return wrap(&[text], look.width, &Margin::default());
        }
        let doing = self.transcript.running().map(|name| format!("Running {name}"));
        let doing = doing.as_deref().or_else(|| self.transcript.thought());
        let show = self.settings.show;
        if let Some(text) = self.session.status.line(doing, &self.settings.phrases, look.now, show.wheel) {
            return wrap(&[Span::styled(text, theme.accent())], look.width, &Margin::default());
        }
        let hint = "? for shortcuts";
        let gap = usize::from(look.width).checked_sub(hint.len());
        match gap.filter(|_| show.hint && self.composer.is_empty()) {
            Some(gap) => vec![Line::from(Span::styled(format!("{:gap$}{hint}", ""), theme.secondary()))],
            None => Vec::new(),
        }
    }

    fn mode_line(&self, look: Look<'_>) -> Line<'static> {
        let theme = look.theme;
        let text = match (self.composer.shell_mode(), self.session.mode) {
            (true, _) => "  shell mode enabled (esc to disable)",
            (false, ApprovalMode::Default) => "Shift+Tab to accept edits",
            (false, ApprovalMode::AutoEdit) => "Accepting edits (Shift+Tab for plan mode)",
            (false, ApprovalMode::Plan) => "Plan mode (Shift+Tab to approve each change)",
            (false, ApprovalMode::Yolo) if self.footer.unconfined => "YOLO, no sandbox (Ctrl+Y to stop)",
            (false, ApprovalMode::Yolo) => "YOLO (Ctrl+Y to stop)",
        };
        let style = match self.session.mode {
            ApprovalMode::Yolo if self.footer.unconfined => theme.error(),
            ApprovalMode::Yolo | ApprovalMode::AutoEdit => theme.warning(),
            ApprovalMode::Plan => theme.success(),
            ApprovalMode::Default => theme.secondary(),
        };
        let right = match self.settings.show.context {
            _ if self.clipboard_state() == ClipboardRead::Running => clipboard::READS.to_owned(),
            _ if self.can_steer() && !self.composer.is_empty() => tray::HINT.to_owned(),
            true => one_line(&self.facts.context),
            false => String::new(),
        };
        let mut line = match self.command_hint() {
            Some(hint) if self.command_has_keys() => Line::from(Span::styled(hint, theme.warning())),
            Some(hint) => Line::from(Span::styled(hint, theme.secondary())),
            None => Line::from(Span::styled(text, style)),
        };
        let gap = usize::from(look.width).checked_sub(line.width() + Span::raw(right.as_str()).width());
        if let Some(gap) = gap.filter(|gap| *gap > 2) {
            line.push_span(Span::raw(" ".repeat(gap)));
            line.push_span(Span::styled(right, theme.secondary()));
        }
        line
    }

    /// The composer and the lines below it.
    fn below(&mut self, look: Look<'_>, height: u16) -> Below {
        let foot = self.footer_lines(look, height);
        let feet = u16::try_from(foot.len()).unwrap_or_default();
        let input = self.composer.height(look.width).min(height.saturating_sub(feet).max(1));
        let popup = self.composer.popup_height().min(height.saturating_sub(feet + input));
        Below {
            question: Vec::new(),
            prompt: Some(Prompt { input, popup, has_keys: !self.command_has_keys() }),
            foot,
        }
    }

    fn footer_lines(&self, look: Look<'_>, height: u16) -> Vec<Line<'static>> {
        if !self.settings.show.footer || height <= 2 {
            return Vec::new();
        }
        let vim = match self.composer.vim_mode() {
            Some(VimMode::Normal) => Some("[NORMAL]"),
            Some(VimMode::Insert) => Some("[INSERT]"),
            None => None,
        };
        let facts = (&self.facts, &self.session.tally);
        self.footer.lines(look.width, look.theme, vim, facts, height > ROOM_FOR_LABELS)
    }

    /// The question, with the queue, the composer and the footer below it where the window has room.
    fn asking(&mut self, look: Look<'_>, height: u16) -> Below {
        let is_typing = self.is_typing(look.now);
        let own = self.questions.standing.iter().position(|standing| !standing.dialog.comes_by_itself());
        // A list in use stays visible until the question takes the keys.
        let place = own.filter(|_| is_typing).unwrap_or_default();
        let mut under = self.tray.lines(self.is_choosing(), look);
        if is_typing {
            let text = if place == 0 { TYPING } else { WAITS };
            let hint = Span::styled(text, look.theme.warning());
            under.extend(wrap(&[hint], look.width, &Margin::default()));
        }
        under.extend(self.clipboard_lines(look));
        if let Some(hint) = self.command_hint().filter(|_| self.command_has_keys()) {
            under.extend(wrap(&[Span::styled(hint, look.theme.warning())], look.width, &Margin::default()));
        }
        if !is_typing && self.is_drafting() {
            under.extend(wrap(&[Span::styled(DRAFT, look.theme.warning())], look.width, &Margin::default()));
        }
        let writes = place == 0 && (is_typing || !self.composer.is_empty());
        // A list has keys of its own for letters, and a low window has no row to spare.
        let has_room = height >= ROOM_BELOW_QUESTION && self.is_asking();
        let rule = || Line::from(Span::styled("─".repeat(usize::from(look.width)), look.theme.border()));
        let foot = if has_room { self.footer_lines(look, height) } else { Vec::new() };
        let prompt = writes.then(|| {
            under.push(rule());
            let input = self.composer.height(look.width).min((height / 4).max(1));
            let popup = self.composer.popup_height().min(height / 4);
            Prompt { input, popup, has_keys: is_typing || self.is_drafting() }
        });
        if has_room && prompt.is_none() {
            let sign = Span::styled("> ", look.theme.accent());
            under.extend([rule(), Line::from(vec![sign, Span::styled(EMPTY, look.theme.secondary())])]);
        }
        let taken = prompt.as_ref().map_or(0, |prompt| prompt.input + prompt.popup) + rows_of(&foot);
        // The question needs the larger half, and in a low window more than that.
        let room = usize::from((height / 2).min(height.saturating_sub(QUESTION)).saturating_sub(taken));
        under.drain(..under.len().saturating_sub(room));
        let left = height.saturating_sub(taken).saturating_sub(rows_of(&under));
        let room = Room { theme: look.theme, width: look.width, height: left };
        let mut question = match self.questions.standing.get_mut(place) {
            Some(standing) => standing.dialog.lines(room),
            None => Vec::new(),
        };
        // The answers at the end must be visible.
        question.drain(..question.len().saturating_sub(usize::from(left)));
        question.extend(under);
        Below { question, prompt, foot }
    }

    /// A box that is still open has its heading in sight. A command that is in use has all the room.
    fn within<'a>(&self, look: Look<'a>, room: usize) -> Look<'a> {
        let wished = if self.transcript.needs_room() { usize::MAX } else { look.box_lines };
        Look { box_lines: wished.min(room.saturating_sub(BOX)).max(1), ..look }
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

/// The bottom of the screen.
struct Below {
    question: Vec<Line<'static>>,
    prompt: Option<Prompt>,
    foot: Vec<Line<'static>>,
}

/// Rows for the prompt.
struct Prompt {
    input: u16,
    popup: u16,
    /// The keys go there, so the cursor does.
    has_keys: bool,
}

impl Below {
    fn height(&self) -> u16 {
        let prompt = self.prompt.as_ref().map_or(0, |prompt| prompt.input + prompt.popup);
        rows_of(&self.question).saturating_add(prompt).saturating_add(rows_of(&self.foot))
    }
}

fn rows_of(lines: &[Line<'static>]) -> u16 {
    u16::try_from(lines.len()).unwrap_or(u16::MAX)
}

fn put(lines: &[Line<'static>], from: u16, buffer: &mut Buffer) {
    for (y, line) in (from..buffer.area.height).zip(lines) {
        buffer.set_line(0, y, line, buffer.area.width);
        buffer.set_style(Rect::new(0, y, buffer.area.width, 1), Style::new());
    }
}
