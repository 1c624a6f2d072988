//! The keyboard of a running command: who has it, and what its keys do.
//!
//! Keys that a command gets may be a password. They become bytes for the command here and are kept nowhere.

use std::time::Instant;

use crossterm::event::KeyEvent;
use pollux_domain::id::CallId;
use pollux_domain::terminal_screen::{KeyModes, TerminalSize, TypedBytes};

use super::dialogs::STILL;
use super::{Action, App};
use crate::keys::encode::{key_bytes, paste_bytes};
use crate::keys::{Command, Context};

/// Columns and rows of the window that a command's terminal cannot have.
const EDGE_COLUMNS: u16 = 4;
const OTHER_ROWS: u16 = 12;

/// Who has the keyboard.
#[derive(Debug, Default)]
pub(super) struct CommandKeys {
    /// The command that has it.
    focused: Option<CallId>,
    /// The last command that took it by itself.
    taken: Option<CallId>,
    /// The last key for it.
    typed: Option<Instant>,
    /// Its command ended in the middle of typing; the last key. Until the keyboard rests, keys are meant for the command
    /// and must not reach the prompt.
    astray: Option<Instant>,
}

/// The size of the terminal that commands have in a window of this size.
pub fn command_terminal(columns: u16, rows: u16) -> TerminalSize {
    TerminalSize { columns: columns.saturating_sub(EDGE_COLUMNS), rows: rows.saturating_sub(OTHER_ROWS) }
        .within_limits()
}

impl App {
    /// Whether a running command has the keyboard.
    pub(super) fn command_has_keys(&self) -> bool {
        self.command_keys.focused.is_some()
    }

    /// Gives the keyboard to the command that runs; false if none can take it.
    pub(super) fn focus_command(&mut self) -> bool {
        self.command_keys.focused = self.transcript.command().map(|command| command.call.clone());
        self.show_focus();
        self.command_has_keys()
    }

    /// Gives the keyboard to the command that runs if this is the key for it.
    pub(super) fn gives_keyboard(&mut self, key: &KeyEvent) -> bool {
        let is_key = self.settings.keys.command(key, Context::App) == Some(Command::FocusShell);
        is_key && self.composer.is_empty() && self.focus_command()
    }

    fn unfocus_command(&mut self) {
        self.command_keys.focused = None;
        self.show_focus();
    }

    fn show_focus(&mut self) {
        self.transcript.set_focus(self.command_keys.focused.as_ref());
    }

    /// Follows the command that runs: one that ended gives the keyboard back, and a full-screen program that the person
    /// has just started takes it.
    pub(super) fn follow_command(&mut self, now: Instant) {
        let running = self.transcript.command();
        if let Some(focused) = &self.command_keys.focused
            && running.as_ref().is_none_or(|command| command.call != focused)
        {
            let was_typing = self.command_keys.typed.take().is_some_and(|typed| is_recent(typed, now));
            self.command_keys.astray = was_typing.then_some(now);
            self.unfocus_command();
            return;
        }
        let Some(command) = running.filter(|command| command.is_own && command.screen.alternate) else {
            return;
        };
        let call = command.call.clone();
        if self.command_keys.taken.as_ref() != Some(&call) && self.composer.is_empty() {
            self.command_keys.taken = Some(call);
            self.focus_command();
        }
    }

    /// Keys are the prompt's again once the keyboard has rested.
    pub(super) fn rest_keyboard(&mut self, now: Instant) {
        let _ = self.command_keys.astray.take_if(|last| !is_recent(*last, now));
    }

    /// When that is.
    pub(super) fn keyboard_rests_at(&self) -> Option<Instant> {
        self.command_keys.astray.map(|last| last + STILL)
    }

    /// Handles keys if they are a command's; otherwise returns those that are not.
    pub(super) fn keys_for_command<'a>(
        &mut self,
        pressed: &'a [KeyEvent],
        now: Instant,
    ) -> (Vec<Action>, &'a [KeyEvent]) {
        self.rest_keyboard(now);
        if self.command_keys.astray.is_some() {
            self.command_keys.astray = Some(now);
            return (Vec::new(), &[]);
        }
        let Some(call) = self.command_keys.focused.clone() else { return (Vec::new(), pressed) };
        self.command_keys.typed = Some(now);
        // A question that stands waits until the keyboard rests.
        self.touched(now);
        let modes = self.key_modes();
        let mut bytes = Vec::new();
        for (at, key) in pressed.iter().enumerate() {
            match self.settings.keys.command(key, Context::Shell) {
                Some(Command::UnfocusShell) => {
                    self.unfocus_command();
                    let rest = pressed.get(at + 1..).unwrap_or_default();
                    return (typed(&call, bytes), rest);
                }
                Some(Command::BackgroundToggle) => {
                    let mut actions = typed(&call, bytes);
                    actions.push(Action::MoveToBackground(call));
                    return (actions, &[]);
                }
                Some(Command::ShellUnfocusWarning) => {
                    let back = self.settings.keys.key(Command::UnfocusShell);
                    self.toast(format!("{back} returns to the prompt."), now);
                    bytes.extend(key_bytes(key, modes));
                }
                _ => bytes.extend(key_bytes(key, modes)),
            }
        }
        (typed(&call, bytes), &[])
    }

    /// The bytes of a paste, if a command has the keyboard.
    pub(super) fn paste_for_command(&mut self, text: &str, now: Instant) -> Option<Vec<Action>> {
        self.rest_keyboard(now);
        if self.command_keys.astray.is_some() {
            self.command_keys.astray = Some(now);
            return Some(Vec::new());
        }
        let call = self.command_keys.focused.clone()?;
        self.command_keys.typed = Some(now);
        self.touched(now);
        Some(typed(&call, paste_bytes(text, self.key_modes())))
    }

    /// Moves the running command to the background, or shows those that are there.
    pub(super) fn toggle_background(&mut self, now: Instant) -> Vec<Action> {
        if let Some(command) = self.transcript.command() {
            return vec![Action::MoveToBackground(command.call.clone())];
        }
        if self.session.tally.background() == 0 {
            self.toast("No commands are running in the background.", now);
            return Vec::new();
        }
        vec![Action::Submit { text: "/tasks".to_owned(), shell: false }]
    }

    fn key_modes(&self) -> KeyModes {
        self.transcript.command().map_or_else(KeyModes::default, |command| command.screen.keys)
    }

    /// What to know about the command that runs, for the line above the prompt.
    pub(super) fn command_hint(&self) -> Option<String> {
        let keys = &self.settings.keys;
        if self.command_keys.astray.is_some() {
            return Some("The command has ended; pause before you type".to_owned());
        }
        self.transcript.command()?;
        if self.command_has_keys() {
            return Some(format!("Typing into the command ({} to return)", keys.key(Command::UnfocusShell)));
        }
        let (focus, away) = (keys.key(Command::FocusShell), keys.key(Command::BackgroundToggle));
        self.composer.is_empty().then(|| format!("{focus} to type into the command, {away} for background"))
    }
}

fn is_recent(key: Instant, now: Instant) -> bool {
    now.saturating_duration_since(key) < STILL
}

fn typed(call: &CallId, bytes: Vec<u8>) -> Vec<Action> {
    match bytes.is_empty() {
        true => Vec::new(),
        false => vec![Action::Type { call: call.clone(), input: TypedBytes(bytes) }],
    }
}
