//! Reads of the clipboard that have not ended, and the prompt that waits for them.
//!
//! A program answers a read after a while. A prompt that is sent meanwhile waits, so that it never goes without what was
//! pasted. It is not sent if its text or mode or the session changes before the answer, if it is a command, or if it has no
//! text but the pasted one: nobody has seen that.

use std::time::Instant;

use pollux_domain::terminal_text::one_line;
use ratatui::text::{Line, Span};

use super::{Action, App};
use crate::composer::{ClipboardRead, Composer, Mark, Reaction, Sending, Toast, WaitingPrompt};
use crate::transcript::{Item, Look};
use crate::wrap::{Margin, wrap};

/// Maximum number of concurrent reads; each uses a thread and a process.
const MAX_READS: usize = 8;

/// What is said if a prompt was to be sent and was not.
const PASTED: &str = "Pasted. Press Enter to send.";
const WAITS: &str = "Waiting for the clipboard before sending (esc to cancel)";
const WHITESPACE: &str = "The clipboard contains only whitespace.";
/// The same if the prompt is not sent then.
const PASTES: &str = "Reading the clipboard; press Enter after the paste to send (esc to cancel)";
/// The same on the right side of the mode line if no prompt waits.
pub(super) const READS: &str = "Reading the clipboard…";

/// Reads of the clipboard and the prompt that waits for them.
#[derive(Debug, Default)]
pub(super) struct ClipboardReads {
    places: Vec<Mark>,
    /// The prompt that is sent after the last read. Its revision is updated with each paste.
    waiting: Option<WaitingPrompt>,
}

impl App {
    pub(super) fn clipboard_state(&self) -> ClipboardRead {
        let revision = self.composer.revision();
        match &self.clipboard.waiting {
            _ if self.clipboard.places.is_empty() => ClipboardRead::Idle,
            Some(waiting) if waiting.revision == revision => ClipboardRead::Awaited,
            _ => ClipboardRead::Running,
        }
    }

    pub(super) fn read_clipboard(&mut self, now: Instant) -> Vec<Action> {
        if self.clipboard.places.len() >= MAX_READS {
            self.toast("Still reading the clipboard.", now);
            return Vec::new();
        }
        let place = self.composer.mark();
        self.clipboard.places.push(place);
        vec![Action::PasteClipboard(place)]
    }

    /// Sends the prompt when the clipboard has been read.
    pub(super) fn send_after_paste(&mut self, prompt: WaitingPrompt) {
        self.clipboard.waiting = Some(prompt);
    }

    /// Does not send the prompt that waits. What the clipboard returns is still inserted.
    pub(super) fn stop_waiting(&mut self) {
        if let Some(waiting) = &mut self.clipboard.waiting {
            waiting.sends = false;
        }
    }

    pub(super) fn cancel_paste(&mut self, now: Instant) {
        self.clipboard = ClipboardReads::default();
        self.toast("Paste cancelled. The prompt was not sent.", now);
    }

    /// Handles an image on the clipboard, which was saved to a file.
    pub fn paste_image(&mut self, path: &str, place: Mark, now: Instant) -> Vec<Action> {
        self.paste_from_clipboard(place, now, |composer| {
            composer.refer_to(path);
            Reaction::Changed
        })
    }

    /// Handles the text on the clipboard. It belongs to the prompt, whatever has the keyboard now.
    pub fn paste_text(&mut self, text: &str, place: Mark, now: Instant) -> Vec<Action> {
        self.paste_from_clipboard(place, now, |composer| composer.paste(text, now, &|_| false))
    }

    /// Handles a failed or empty read.
    pub fn paste_failed(&mut self, why: &str, place: Mark, now: Instant) {
        let state = self.clipboard_state();
        if self.end_read(place) {
            self.paste_problem(why, state, now);
            self.set_conditions();
        }
    }

    /// Ends a read. Returns `false` if it was cancelled or has already ended.
    fn end_read(&mut self, place: Mark) -> bool {
        let before = self.clipboard.places.len();
        self.clipboard.places.retain(|known| *known != place);
        self.clipboard.places.len() < before
    }

    fn paste_problem(&mut self, why: &str, state: ClipboardRead, now: Instant) {
        self.clipboard.waiting = None;
        match state {
            // The user may miss a toast while a prompt waits.
            ClipboardRead::Awaited => {
                self.say(Item::warning(format!("{} The prompt was not sent.", one_line(why))));
            }
            ClipboardRead::Idle | ClipboardRead::Running => self.toast(one_line(why), now),
        }
    }

    fn paste_from_clipboard(
        &mut self,
        place: Mark,
        now: Instant,
        insert: impl FnOnce(&mut Composer) -> Reaction,
    ) -> Vec<Action> {
        let state = self.clipboard_state();
        if !self.end_read(place) {
            return Vec::new();
        }
        let reaction = self.composer.at(place, insert);
        if let Reaction::Toast(toast @ Toast::PasteTooLong) = reaction {
            self.paste_problem(&toast.text(&self.settings.keys), state, now);
            self.set_conditions();
            return Vec::new();
        }
        let is_awaited = state == ClipboardRead::Awaited;
        let mut waiting = self.clipboard.waiting.take();
        if let Some(waiting) = waiting.as_mut().filter(|_| is_awaited) {
            waiting.revision = self.composer.revision();
            waiting.sends &= !self.composer.is_command();
        }
        let actions = match waiting {
            Some(_) if !self.clipboard.places.is_empty() => {
                self.clipboard.waiting = waiting;
                Vec::new()
            }
            Some(waiting) if is_awaited && waiting.sends => self.send_pasted(waiting.sending),
            // The prompt is behind the history search.
            _ if self.composer.searching() => {
                self.toast("Pasted into the prompt.", now);
                Vec::new()
            }
            Some(_) => {
                self.toast(if self.composer.is_blank() { WHITESPACE } else { PASTED }, now);
                Vec::new()
            }
            None => self.toasted(reaction, now),
        };
        self.set_conditions();
        actions
    }

    fn toasted(&mut self, reaction: Reaction, now: Instant) -> Vec<Action> {
        if let Reaction::Toast(toast) = reaction {
            self.toast(toast.text(&self.settings.keys), now);
        }
        Vec::new()
    }

    fn send_pasted(&mut self, sending: Sending) -> Vec<Action> {
        let Some(submission) = self.composer.send() else { return Vec::new() };
        match sending {
            // A turn that has ended meanwhile would never take it from the queue.
            Sending::Queue if self.is_busy() => {
                self.tray.queue(submission);
                Vec::new()
            }
            Sending::Queue | Sending::Submit => self.submit(submission),
        }
    }

    /// Says that a prompt waits for the clipboard.
    pub(super) fn clipboard_lines(&self, look: Look<'_>) -> Vec<Line<'static>> {
        match self.clipboard_state() {
            ClipboardRead::Awaited => {
                let sends = self.clipboard.waiting.as_ref().is_some_and(|waiting| waiting.sends);
                let text = if sends { WAITS } else { PASTES };
                wrap(&[Span::styled(text, look.theme.warning())], look.width, &Margin::default())
            }
            ClipboardRead::Idle | ClipboardRead::Running => Vec::new(),
        }
    }
}
