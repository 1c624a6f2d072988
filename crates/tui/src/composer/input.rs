//! Key handling of the composer.

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::buffer::Edit;
use super::paste::BURST;
use super::{ClipboardRead, Composer, DOUBLE_TAB, Pos, Reaction, Sending, TWICE, Toast, WaitingPrompt};
use crate::keys::{Command, Context};

/// Keys that come closer together than this may be part of a paste; upstream's value.
pub(super) const QUICK: Duration = Duration::from_millis(30);

impl Composer {
    /// One key.
    pub fn key(&mut self, event: KeyEvent, now: Instant) -> Reaction {
        if event.kind == KeyEventKind::Release {
            return Reaction::Ignored;
        }
        let is_quick = is_within(self.taps.text, QUICK, now);
        let before = if is_quick { self.taps.quick } else { 0 };
        self.taps.text = typed_char(&event).map(|_| now);
        self.taps.quick = self.taps.text.map_or(0, |_| before.saturating_add(1));
        if is_plain(&event, KeyCode::Enter) && self.may_burst() && self.is_line_end(is_quick, before) {
            self.taps.quick = before;
            return self.quick_enter(now);
        }
        if is_line_feed(&event) && is_within(self.taps.line_end.take(), QUICK, now) {
            return Reaction::Ignored;
        }
        if !self.keys.is(&event, Command::Cancel) {
            self.taps.escape = None;
        }
        if !is_plain(&event, KeyCode::Tab) {
            self.taps.tab = None;
        }
        self.dispatch(event, now)
    }

    /// Whether Enter is a line end and does not send. After a few keys it sends: on a busy machine, keys that were typed
    /// one by one are read at once.
    fn is_line_end(&self, is_quick: bool, keys_before: usize) -> bool {
        let is_escaped = || self.buffer.cluster_before(self.buffer.cursor()) == Some("\\");
        is_quick && !self.buffer.is_blank() && (keys_before >= BURST || is_escaped())
    }

    /// A line end of a paste. A backslash before it is how some terminals are set up to send Shift+Enter.
    fn quick_enter(&mut self, now: Instant) -> Reaction {
        self.taps.text = Some(now);
        self.taps.line_end = Some(now);
        let at = self.buffer.cursor();
        let start = if self.buffer.cluster_before(at) == Some("\\") { self.buffer.left(at) } else { at };
        self.buffer.replace_raw(start..at, "\n".to_owned());
        self.moved()
    }

    pub(super) fn dispatch(&mut self, event: KeyEvent, now: Instant) -> Reaction {
        if self.search.is_some() {
            return self.search_key(event);
        }
        let cancels = |command: &Command| self.keys.is(&event, *command);
        if self.conditions.clipboard == ClipboardRead::Awaited
            && [Command::Cancel, Command::Clear, Command::Quit].iter().any(cancels)
        {
            return Reaction::CancelPaste;
        }
        if let Some(reaction) = self.vim_key(&event, now) {
            return reaction;
        }
        if self.buffer.is_empty()
            && let KeyCode::Char(sign @ ('!' | '?')) = event.code
            && typed_char(&event).is_some()
        {
            if sign == '?' {
                return Reaction::Shortcuts;
            }
            self.set_shell_mode(!self.shell);
            return Reaction::Changed;
        }
        if self.completion.is_open()
            && let Some(reaction) = self.suggestion_key(&event)
        {
            return reaction;
        }
        if is_plain(&event, KeyCode::Tab)
            && let Some(reaction) = self.tab(&event, now)
        {
            return reaction;
        }
        match self.keys.command(&event, Context::Composer) {
            Some(command) => self.command(command, now),
            None => match typed_char(&event) {
                Some(c) => {
                    self.buffer.insert(c.encode_utf8(&mut [0; 4]));
                    self.typed()
                }
                None => Reaction::Unhandled,
            },
        }
    }

    /// Requests completions after an edit.
    fn typed(&mut self) -> Reaction {
        if self.shell {
            self.completion.close();
            return Reaction::Changed;
        }
        match self.completion.ask(&self.buffer, false) {
            Some(wanted) => Reaction::Complete(wanted),
            None => Reaction::Changed,
        }
    }

    /// After anything else.
    pub(super) fn moved(&mut self) -> Reaction {
        self.completion.close();
        Reaction::Changed
    }

    fn command(&mut self, command: Command, now: Instant) -> Reaction {
        match command {
            Command::Submit | Command::Confirm => self.submit(),
            Command::Newline => {
                self.buffer.insert("\n");
                self.moved()
            }
            Command::Cancel => self.escape(now),
            Command::Clear => {
                if self.conditions.busy || self.buffer.is_empty() {
                    return Reaction::Unhandled;
                }
                self.clear();
                Reaction::Changed
            }
            Command::Up | Command::NavUp => self.up(),
            Command::Down | Command::NavDown => self.down(),
            Command::HistoryPrevious => self.earlier(),
            Command::HistoryNext => self.history_next(),
            Command::SearchStart => self.start_search(),
            Command::OpenEditor => Reaction::OpenEditor,
            Command::OldOpenEditor => Reaction::Toast(Toast::EditorKey),
            Command::PasteClipboard => Reaction::PasteClipboard,
            Command::ExpandPaste => self.toggle_paste(),
            Command::QueueMessage => self.queue().unwrap_or(Reaction::Unhandled),
            _ => self.edit(command),
        }
    }

    /// Commands that only touch the text.
    pub(super) fn edit(&mut self, command: Command) -> Reaction {
        if command == Command::DeleteLeft && self.buffer.is_empty() && self.shell {
            self.set_shell_mode(false);
            return Reaction::Changed;
        }
        match self.buffer.edit(command) {
            Edit::Unhandled => Reaction::Unhandled,
            Edit::Stayed => Reaction::Ignored,
            Edit::Moved => self.moved(),
            Edit::Changed => self.typed(),
        }
    }

    fn clear(&mut self) {
        self.completion.close();
        self.buffer.set_raw(String::new());
        self.history().rest();
    }

    fn submit(&mut self) -> Reaction {
        if !self.has_prompt() {
            return Reaction::Ignored;
        }
        let at = self.buffer.cursor();
        if self.buffer.cluster_before(at) == Some("\\") {
            self.buffer.replace_raw(self.buffer.left(at)..at, "\n".to_owned());
            return self.moved();
        }
        self.hand_over(Sending::Submit)
    }

    fn queue(&mut self) -> Option<Reaction> {
        let can = self.conditions.busy && self.has_prompt();
        can.then(|| self.hand_over(Sending::Queue))
    }

    /// Whether there is something to send, or will be when the clipboard has been read.
    pub(super) fn has_prompt(&self) -> bool {
        !self.buffer.is_blank() || self.conditions.clipboard != ClipboardRead::Idle
    }

    /// Sends the prompt, or lets it wait for the clipboard.
    pub(super) fn hand_over(&mut self, sending: Sending) -> Reaction {
        if self.conditions.clipboard != ClipboardRead::Idle {
            self.completion.close();
            // What is pasted must not be all of a prompt or part of a command before the user has seen it.
            let sends = !self.buffer.is_blank() && !self.is_command();
            return Reaction::SendAfterPaste(WaitingPrompt { sending, revision: self.revision(), sends });
        }
        match sending {
            Sending::Submit => Reaction::Submit(self.submission()),
            Sending::Queue => Reaction::Queue(self.submission()),
        }
    }

    /// Tab without suggestions: queue, suggest, or the first half of a double Tab.
    fn tab(&mut self, event: &KeyEvent, now: Instant) -> Option<Reaction> {
        if self.keys.is(event, Command::QueueMessage)
            && let Some(queued) = self.queue()
        {
            return Some(queued);
        }
        if let Some(wanted) = self.completion.ask(&self.buffer, self.shell) {
            return Some(Reaction::Complete(wanted));
        }
        if is_within(self.taps.tab.take(), DOUBLE_TAB, now) {
            return Some(Reaction::ToggleDetails);
        }
        self.taps.tab = Some(now);
        Some(Reaction::Unhandled)
    }

    /// A key while suggestions are shown; `None` when it is an ordinary key.
    fn suggestion_key(&mut self, event: &KeyEvent) -> Option<Reaction> {
        match self.keys.command(event, Context::Suggestions)? {
            Command::SuggestNext if self.completion.popup.len() > 1 => self.completion.popup.next(),
            Command::SuggestPrevious if self.completion.popup.len() > 1 => self.completion.popup.previous(),
            Command::Cancel => self.completion.close(),
            Command::SuggestAccept => return Some(self.accept(event)),
            _ => return None,
        }
        Some(Reaction::Changed)
    }

    fn accept(&mut self, event: &KeyEvent) -> Reaction {
        let Some(choice) = self.completion.choice(&self.buffer) else { return self.moved() };
        if self.keys.is(event, Command::Submit) {
            if choice.sends {
                return self.submit();
            }
            if choice.runs {
                choice.take(&mut self.buffer);
                return self.hand_over(Sending::Submit);
            }
        }
        self.take_choice();
        self.typed()
    }

    pub(super) fn take_choice(&mut self) {
        if let Some(choice) = self.completion.choice(&self.buffer) {
            choice.take(&mut self.buffer);
        }
        self.completion.close();
    }

    fn escape(&mut self, now: Instant) -> Reaction {
        if self.shell {
            self.set_shell_mode(false);
            return Reaction::Changed;
        }
        if self.conditions.busy {
            return Reaction::Unhandled;
        }
        let again = is_within(self.taps.escape.take(), TWICE, now);
        match (again, self.buffer.is_empty()) {
            (true, true) => Reaction::Rewind,
            (true, false) => {
                self.clear();
                Reaction::Changed
            }
            (false, is_empty) => {
                self.taps.escape = Some(now);
                Reaction::Toast(if is_empty { Toast::EscapeRewinds } else { Toast::EscapeClears })
            }
        }
    }

    fn up(&mut self) -> Reaction {
        if self.buffer.up() {
            return self.moved();
        }
        if self.buffer.cursor().col > 0 {
            self.buffer.go(Pos::default());
            return self.moved();
        }
        self.earlier()
    }

    fn earlier(&mut self) -> Reaction {
        if self.conditions.queued && self.buffer.is_blank() {
            return Reaction::PullQueue;
        }
        self.history_previous()
    }

    fn down(&mut self) -> Reaction {
        if self.buffer.down() {
            return self.moved();
        }
        let end = self.buffer.end();
        if self.buffer.cursor() < end {
            self.buffer.go(end);
            return self.moved();
        }
        self.history_next()
    }
}

/// The character a key types. AltGr comes as Ctrl+Alt on some systems; letters with it are shortcuts.
pub(crate) fn typed_char(event: &KeyEvent) -> Option<char> {
    let KeyCode::Char(c) = event.code else { return None };
    let held = event.modifiers - KeyModifiers::SHIFT;
    let is_alt_gr =
        held == KeyModifiers::CONTROL | KeyModifiers::ALT && !c.is_ascii_alphanumeric() && c != ' ';
    (held.is_empty() || is_alt_gr).then_some(c)
}

/// The second half of a line end that is sent as two.
pub(super) fn is_line_feed(event: &KeyEvent) -> bool {
    event.code == KeyCode::Char('j') && event.modifiers == KeyModifiers::CONTROL
}

pub(super) fn is_within(before: Option<Instant>, window: Duration, now: Instant) -> bool {
    before.is_some_and(|before| now.saturating_duration_since(before) <= window)
}

fn is_plain(event: &KeyEvent, code: KeyCode) -> bool {
    event.code == code && event.modifiers.is_empty()
}
