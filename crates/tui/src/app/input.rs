//! Handling of keys, pastes and the mouse.

use std::time::Instant;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseEvent, MouseEventKind};
use pollux_domain::approval::{ApprovalAnswer, ApprovalMode};

use super::dialogs::Holder;
use super::tray::{AFTER_COMMAND, AFTER_TURN};
use super::{Action, App, TOAST};
use crate::composer::{Reaction, Submission, may_be_pasted};
use crate::dialog::Verdict;
use crate::keys::{Command, Context};

/// Rows that one step of a mouse's wheel moves.
const WHEEL_ROWS: isize = 3;

impl App {
    /// All keys that one read brought: many at once may be a paste that the terminal did not mark.
    pub fn keys(&mut self, keys: &[KeyEvent], now: Instant) -> Vec<Action> {
        let pressed: Vec<KeyEvent> =
            keys.iter().filter(|key| key.kind != KeyEventKind::Release).copied().collect();
        let (mut actions, pressed) = self.keys_for_command(&pressed, now);
        actions.extend(self.own_keys(pressed, now));
        actions
    }

    /// Keys that no running command gets.
    fn own_keys(&mut self, pressed: &[KeyEvent], now: Instant) -> Vec<Action> {
        if let Some(actions) = self.detach(pressed, now) {
            return actions;
        }
        let together = match self.holder(now) {
            Holder::Prompt => pressed.len() > 1,
            Holder::Dialog(place) => self.is_pasted(place, pressed),
        };
        if !together {
            return pressed.iter().flat_map(|key| self.key(*key, now)).collect();
        }
        let first = pressed.first().and_then(|key| self.turned_to_prompt(*key));
        self.typed_at(now);
        let mut actions = Vec::new();
        if let Some(key) = first {
            let reaction = self.composer.key(key, now);
            actions.extend(self.react(reaction, key, now));
        }
        // Commands take effect before the following keys are handled, and Esc after what Enter did.
        let mut at = 0;
        for run in pressed.chunk_by(|one, other| may_be_pasted(one) && may_be_pasted(other)) {
            // What follows the key that gives a command the keyboard may be a password.
            if run.first().is_some_and(|key| self.gives_keyboard(key)) {
                actions.extend(self.keys(pressed.get(at + 1..).unwrap_or_default(), now));
                return actions;
            }
            at += run.len();
            for (key, reaction) in self.composer.keys(run, now) {
                actions.extend(self.react(reaction, key, now));
            }
            self.set_conditions();
        }
        actions
    }

    /// The two keys that detach, together or one after the other; `None` if these keys are about something else.
    fn detach(&mut self, pressed: &[KeyEvent], now: Instant) -> Option<Vec<Action>> {
        let (first, rest) = pressed.split_first()?;
        let is_d = |key: &KeyEvent| key.code == KeyCode::Char('d') && key.modifiers.is_empty();
        let began = self.notices.detaching.take();
        let is_second = began.is_some_and(|began| now.saturating_duration_since(began) < TOAST);
        if is_second && rest.is_empty() && is_d(first) {
            let _ = self.notices.toast.take_if(|toast| toast.again);
            return Some(vec![Action::Detach]);
        }
        if self.settings.keys.command(first, Context::App) != Some(Command::Detach) {
            return None;
        }
        match rest {
            // Without a core, the program says so at once, and `d` remains a letter.
            [] if !self.facts.detaches => Some(vec![Action::Detach]),
            [] => {
                self.notices.detaching = Some(now);
                self.toast_again("Press d to detach.", now);
                Some(Vec::new())
            }
            [second] if is_d(second) => Some(vec![Action::Detach]),
            _ => None,
        }
    }

    /// A key.
    pub fn key(&mut self, key: KeyEvent, now: Instant) -> Vec<Action> {
        if key.kind == KeyEventKind::Release {
            return Vec::new();
        }
        let (actions, rest) = self.keys_for_command(std::slice::from_ref(&key), now);
        if rest.is_empty() {
            return actions;
        }
        if self.suspends(&key) {
            return vec![Action::Suspend];
        }
        if let Holder::Dialog(place) = self.holder(now)
            // A letter that says nothing to the question is the beginning of a text.
            && self.is_meant_for(place, key)
        {
            self.touched(now);
            self.turned_to_question(key);
            let actions = self.dialog_key(place, key);
            self.notice_question(now);
            self.set_conditions();
            return actions;
        }
        let first = self.turned_to_prompt(key);
        self.typed_at(now);
        let mut actions = Vec::new();
        for key in first.into_iter().chain([key]) {
            let reaction = self.composer.key(key, now);
            actions.extend(self.react(reaction, key, now));
        }
        self.set_conditions();
        actions
    }

    /// Whether a key suspends the program, whatever is open; a key that was bound to an edit as well edits.
    fn suspends(&self, key: &KeyEvent) -> bool {
        let keys = &self.settings.keys;
        keys.is(key, Command::Suspend) && keys.command(key, Context::Composer).is_none()
    }

    /// Something is typed into the prompt.
    fn typed_at(&mut self, now: Instant) {
        self.touched(now);
        self.typed_on(now);
    }

    /// Handles a paste. `exists` returns whether a path names a file.
    pub fn paste(&mut self, text: &str, now: Instant, exists: &dyn Fn(&str) -> bool) -> Vec<Action> {
        if let Some(actions) = self.paste_for_command(text, now) {
            return actions;
        }
        if let Holder::Dialog(place) = self.holder(now)
            && let Some(standing) = self.questions.standing.get_mut(place)
            && (standing.dialog.takes_text() || !standing.dialog.comes_by_itself())
        {
            standing.dialog.paste(text);
            self.touched(now);
            return Vec::new();
        }
        self.typed_at(now);
        let reaction = self.composer.paste(text, now, exists);
        let actions = self.react(reaction, KeyEvent::from(KeyCode::Null), now);
        self.set_conditions();
        actions
    }

    fn dialog_key(&mut self, place: usize, key: KeyEvent) -> Vec<Action> {
        let Some(standing) = self.questions.standing.get_mut(place) else { return Vec::new() };
        match standing.dialog.key(key, &self.settings.keys) {
            Verdict::Open => Vec::new(),
            Verdict::Answered { call, answer } => {
                self.settle(&call);
                // Cancelling a turn also cancels the queue.
                let mut actions = match answer == ApprovalAnswer::Cancel {
                    true => self.unqueue(),
                    false => Vec::new(),
                };
                actions.push(Action::Decide { call, answer });
                actions
            }
            Verdict::Edit { call } => vec![Action::EditCall(call)],
            Verdict::Picked { key, with } => {
                // A letter leaves the list open: there may be more to do in it.
                if with.is_none() && !standing.dialog.stays() {
                    self.questions.standing.remove(place);
                }
                vec![Action::Picked { key, with }]
            }
            Verdict::Marked(key) => vec![Action::Marked(key)],
            Verdict::Searched(words) => vec![Action::Searched(words)],
            Verdict::Entered(text) => {
                self.questions.standing.remove(place);
                vec![Action::Entered(text)]
            }
            Verdict::Closed => {
                self.questions.standing.remove(place);
                vec![Action::Closed]
            }
        }
    }

    fn react(&mut self, reaction: Reaction, key: KeyEvent, now: Instant) -> Vec<Action> {
        // The hint to press a key again is about the very next key.
        let leaving = self.notices.leaving.take();
        let _ = self.notices.toast.take_if(|toast| toast.again);
        match reaction {
            Reaction::Ignored | Reaction::Changed => {
                self.view.shortcuts = false;
                Vec::new()
            }
            Reaction::Submit(submission) => self.submit(submission),
            Reaction::Queue(submission) => {
                self.view.page.go_to_end();
                self.tray.queue(submission);
                Vec::new()
            }
            Reaction::Complete(wanted) => vec![Action::Complete(wanted)],
            Reaction::PullQueue => self.pull_queue(),
            Reaction::OpenEditor => {
                self.stop_waiting();
                vec![Action::OpenEditor]
            }
            Reaction::PasteClipboard => self.read_clipboard(now),
            Reaction::SendAfterPaste(prompt) => {
                self.send_after_paste(prompt);
                Vec::new()
            }
            Reaction::CancelPaste => {
                self.cancel_paste(now);
                Vec::new()
            }
            Reaction::Shortcuts => {
                self.view.shortcuts = !self.view.shortcuts;
                Vec::new()
            }
            Reaction::ToggleDetails => {
                self.toggle_details();
                Vec::new()
            }
            Reaction::Rewind => vec![Action::Rewind],
            Reaction::Toast(toast) => {
                let text = toast.text(&self.settings.keys);
                match toast.wants_key_again() {
                    true => self.toast_again(text, now),
                    false => self.toast(text, now),
                }
                Vec::new()
            }
            Reaction::Unhandled => self.command(key, leaving, now),
        }
    }

    pub(super) fn submit(&mut self, submission: Submission) -> Vec<Action> {
        if submission.text.trim().is_empty() {
            return Vec::new();
        }
        // What becomes of it is seen there.
        self.view.page.go_to_end();
        // The conversation reads no prompts before the answer.
        if self.is_choosing() {
            self.tray.queue(submission);
            return Vec::new();
        }
        if self.is_busy() && !runs_beside(&submission) {
            return self.send_during_turn(submission);
        }
        if self.is_busy() && submission.leaves() {
            self.tray.leaves = Some(if self.transcript.runs_shell() { AFTER_COMMAND } else { AFTER_TURN });
        }
        vec![Action::Submit { text: submission.text, shell: submission.shell }]
    }

    /// A key that is not about the text.
    fn command(&mut self, key: KeyEvent, leaving: Option<Instant>, now: Instant) -> Vec<Action> {
        match self.settings.keys.command(&key, Context::App) {
            Some(Command::Quit) => self.quit("Press Ctrl+C again to exit.", leaving, now),
            Some(Command::Exit) => self.quit("Press Ctrl+D again to exit.", leaving, now),
            Some(Command::Cancel) if self.is_busy() => self.cancel(),
            Some(Command::CycleMode) => vec![Action::SetMode(match self.session.mode {
                ApprovalMode::Default => ApprovalMode::AutoEdit,
                ApprovalMode::AutoEdit => ApprovalMode::Plan,
                ApprovalMode::Plan | ApprovalMode::Yolo => ApprovalMode::Default,
            })],
            Some(Command::ToggleYolo) => vec![Action::SetMode(match self.session.mode {
                ApprovalMode::Yolo => ApprovalMode::Default,
                _ => ApprovalMode::Yolo,
            })],
            Some(Command::FocusShell) => {
                self.focus_command();
                Vec::new()
            }
            Some(Command::BackgroundToggle) => self.toggle_background(now),
            Some(Command::ShowTodos) => {
                self.session.todos.open = !self.session.todos.open;
                Vec::new()
            }
            Some(Command::ShowMoreLines) => {
                self.toggle_details();
                Vec::new()
            }
            Some(Command::ScrollUp) => self.scroll(-1),
            Some(Command::ScrollDown) => self.scroll(1),
            Some(Command::PageUp) => self.scroll(-self.view.page.step()),
            Some(Command::PageDown) => self.scroll(self.view.page.step()),
            Some(Command::ScrollHome) => self.scroll(isize::MIN / 2),
            Some(Command::ScrollEnd) => self.scroll(isize::MAX / 2),
            Some(Command::ToggleMouse) if self.settings.alternate => vec![Action::ToggleMouse],
            Some(Command::ToggleMarkdown) => {
                self.view.raw = !self.view.raw;
                Vec::new()
            }
            Some(Command::ClearScreen) => vec![Action::Redraw],
            Some(Command::Suspend) => vec![Action::Suspend],
            _ => Vec::new(),
        }
    }

    /// Toggles full output. Calls of the last turn whose output was cut are printed again in full.
    fn toggle_details(&mut self) {
        self.view.expanded = !self.view.expanded;
        self.view.reveals = self.view.expanded && !self.settings.alternate;
    }

    fn scroll(&mut self, by: isize) -> Vec<Action> {
        self.view.page.scroll(by);
        Vec::new()
    }

    /// The mouse's wheel moves the conversation.
    pub fn mouse(&mut self, event: MouseEvent) {
        match event.kind {
            MouseEventKind::ScrollUp => self.view.page.scroll(-WHEEL_ROWS),
            MouseEventKind::ScrollDown => self.view.page.scroll(WHEEL_ROWS),
            _ => {}
        }
    }

    /// Cancels the turn. Queued prompts go back into the composer.
    fn cancel(&mut self) -> Vec<Action> {
        // Withdrawn first: the turn must not take along what is in the composer again.
        let mut actions = self.unqueue();
        actions.push(Action::Cancel);
        actions
    }

    /// Ctrl+C cancels the turn, or clears the text, or exits when pressed twice.
    fn quit(&mut self, again: &str, leaving: Option<Instant>, now: Instant) -> Vec<Action> {
        if self.is_busy() {
            return self.cancel();
        }
        if !self.composer.is_empty() {
            self.composer.set_text("");
            return Vec::new();
        }
        if leaving.is_some_and(|before| now.saturating_duration_since(before) < TOAST) {
            return vec![Action::Quit];
        }
        self.notices.leaving = Some(now);
        self.toast_again(again, now);
        Vec::new()
    }
}

/// Whether a key may be part of a paste.
pub(super) fn is_text(key: &KeyEvent) -> bool {
    !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT)
}

/// Whether a command may run while the model is at work.
fn runs_beside(submission: &Submission) -> bool {
    const BESIDE: &[&str] = &["/about", "/stats", "/usage", "/vim", "/help", "/?", "/quit", "/exit"];
    let word = submission.text.split_whitespace().next().unwrap_or_default();
    !submission.shell && BESIDE.contains(&word)
}
