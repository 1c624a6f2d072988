//! The questions that stand, and whose keys the keys are.
//!
//! A question that appears during typing must not be answered by keys meant for the prompt. It takes keys at once where
//! the keyboard was still and the prompt is empty; otherwise keys go on into the prompt until the keyboard rests.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pollux_domain::approval::ApprovalRequest;
use pollux_domain::id::CallId;

use super::App;
use crate::dialog::{Dialog, Picker, TextEntry};

/// How long the keyboard must rest before a question that came by itself takes a key.
pub const STILL: Duration = Duration::from_millis(700);
/// Text keys of one read that are a paste, however the keyboard rested before.
const PASTE: usize = 3;
/// As many of them must be characters: a busy machine can deliver an answer and a repeated Enter at once.
const PASTED_CHARACTERS: usize = 2;

/// A question, and since when it is the one that is asked.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) dialog: Dialog,
    since: Option<Instant>,
}

impl From<Dialog> for Standing {
    fn from(dialog: Dialog) -> Self {
        Self { dialog, since: None }
    }
}

/// The questions that wait.
#[derive(Debug, Default)]
pub(super) struct Questions {
    /// In the order in which they came; the first is shown.
    pub(super) standing: VecDeque<Standing>,
    pub(super) typing: Typing,
    requests: Vec<Arc<ApprovalRequest>>,
    /// Questions of calls that were answered since the first of those that wait came.
    answered: usize,
}

/// Where a key goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    Prompt,
    /// The dialog at this place.
    Dialog(usize),
}

/// Recent typing.
#[derive(Debug, Default)]
pub(super) struct Typing {
    /// The last key or paste.
    last: Option<Instant>,
    /// Until then keys are the prompt's, whatever stands.
    until: Option<Instant>,
    /// The person moved in the question that stands, and typed nothing since: Enter is the question's.
    turned: bool,
    /// A letter that marked an answer, and begins a word if others follow.
    letter: Option<KeyEvent>,
    /// Shown on the screen, which must be redrawn when it changes.
    pub(super) said: bool,
}

impl App {
    /// A list to choose from, in place of one that is open; questions of calls go before it.
    pub fn pick(&mut self, picker: Picker) {
        let picker = match self.picker() {
            Some(before) => picker.after(before),
            None => picker,
        };
        self.close();
        self.questions.standing.push_back(Dialog::Picker(Box::new(picker)).into());
    }

    /// The list that is open.
    pub fn picker(&mut self) -> Option<&mut Picker> {
        self.questions.standing.iter_mut().find_map(|standing| match &mut standing.dialog {
            Dialog::Picker(picker) => Some(&mut **picker),
            _ => None,
        })
    }

    /// A line to be typed. A list that stays waits behind it.
    pub fn enter(&mut self, entry: TextEntry) {
        self.questions
            .standing
            .retain(|standing| standing.dialog.call().is_some() || standing.dialog.stays());
        let place = self.questions.standing.iter().position(|standing| standing.dialog.call().is_none());
        self.questions
            .standing
            .insert(place.unwrap_or(self.questions.standing.len()), Dialog::TextEntry(entry).into());
    }

    /// Closes the dialog that [`App::pick`] or [`App::enter`] opened.
    pub fn close(&mut self) {
        self.questions.standing.retain(|standing| standing.dialog.call().is_some());
    }

    /// A call waits for an answer.
    pub(super) fn ask(&mut self, request: &Arc<ApprovalRequest>) {
        self.questions.requests.push(Arc::clone(request));
        self.questions.standing.push_back(Dialog::approval(request, &self.paths).into());
        // Approval questions come before open lists.
        self.questions.standing.make_contiguous().sort_by_key(|standing| standing.dialog.call().is_none());
        self.count_calls();
    }

    /// Says which of how many questions is asked.
    fn count_calls(&mut self) {
        let waiting =
            self.questions.standing.iter().filter(|standing| standing.dialog.call().is_some()).count();
        if waiting == 0 {
            self.questions.answered = 0;
        }
        let (which, all) = (self.questions.answered + 1, self.questions.answered + waiting);
        if let Some(standing) = self.questions.standing.front_mut() {
            standing.dialog.set_position(which, all);
        }
    }

    /// The question of a call stands no longer.
    pub fn settle(&mut self, call: &CallId) {
        let before = self.questions.standing.len();
        self.questions.standing.retain(|standing| standing.dialog.call() != Some(call));
        self.questions.answered += before - self.questions.standing.len();
        self.count_calls();
        self.questions.requests.retain(|request| request.call != *call);
    }

    /// No call waits any more.
    pub(super) fn settle_all(&mut self) {
        self.questions.standing.retain(|standing| standing.dialog.call().is_none());
        self.questions.requests.clear();
        self.questions.answered = 0;
    }

    /// The call that the person wants to change, as it was asked about.
    pub fn request(&self, call: &CallId) -> Option<&Arc<ApprovalRequest>> {
        self.questions.requests.iter().find(|request| request.call == *call)
    }

    /// Whether a call waits for an answer.
    pub(super) fn is_asking(&self) -> bool {
        self.questions.standing.iter().any(|standing| standing.dialog.call().is_some())
    }

    /// Whether a list that came by itself waits for an answer.
    pub(super) fn is_choosing(&self) -> bool {
        let is_list = |standing: &Standing| matches!(standing.dialog, Dialog::Picker(_));
        self.questions.standing.iter().any(|standing| is_list(standing) && standing.dialog.comes_by_itself())
    }

    /// The person pressed a key here, or elsewhere while another program had the terminal.
    pub fn touched(&mut self, now: Instant) {
        self.questions.typing.last = Some(now);
    }

    /// Whether a key is meant for the question and not for the prompt. While a text stands in the prompt, only keys that
    /// cannot be used there count, and Enter after one of them.
    pub(super) fn is_meant_for(&self, place: usize, key: KeyEvent) -> bool {
        let Some(Standing { dialog, .. }) = self.questions.standing.get(place) else { return false };
        if !dialog.comes_by_itself() {
            return true;
        }
        let turns = matches!(
            key.code,
            KeyCode::Up | KeyCode::Down | KeyCode::PageUp | KeyCode::PageDown | KeyCode::Esc
        );
        let commands =
            key.modifiers.contains(KeyModifiers::CONTROL) && matches!(key.code, KeyCode::Char('c' | 'o'));
        let enters = key.code == KeyCode::Enter && self.questions.typing.turned;
        let is_free = dialog.takes_text() || self.composer.is_empty();
        dialog.takes(key) && (is_free || turns || commands || enters)
    }

    /// A key went to the question.
    pub(super) fn turned_to_question(&mut self, key: KeyEvent) {
        let plain = !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        self.questions.typing.turned = matches!(key.code, KeyCode::Up | KeyCode::Down);
        self.questions.typing.letter = Some(key)
            .filter(|key| plain && matches!(key.code, KeyCode::Char('y' | 'n')) && self.composer.is_empty());
    }

    /// A key goes into the prompt: resets the question's mark and inserts a letter that it took before.
    pub(super) fn turned_to_prompt(&mut self, key: KeyEvent) -> Option<KeyEvent> {
        self.questions.typing.turned = false;
        if let Some(standing) =
            self.questions.standing.front_mut().filter(|standing| standing.dialog.comes_by_itself())
        {
            standing.dialog.restart();
        }
        self.questions
            .typing
            .letter
            .take()
            .filter(|_| super::input::is_text(&key) && key.code != KeyCode::Enter)
    }

    /// Whether a question stands above a text, so that Enter sends the text.
    pub(super) fn is_drafting(&self) -> bool {
        let asks = self
            .questions
            .standing
            .front()
            .is_some_and(|standing| standing.dialog.comes_by_itself() && !standing.dialog.takes_text());
        asks && !self.composer.is_empty() && !self.questions.typing.turned
    }

    /// Keys are the prompt's for as long as the keyboard does not rest.
    pub(super) fn typed_on(&mut self, now: Instant) {
        self.questions.typing.until = Some(now + STILL);
    }

    /// Updates the current question; a new one waits while the person types.
    pub(super) fn notice_question(&mut self, now: Instant) {
        let is_writing = !self.composer.is_empty();
        let typing = &mut self.questions.typing;
        for (place, standing) in self.questions.standing.iter_mut().enumerate() {
            if place > 0 {
                standing.since = None;
            } else if standing.since.is_none() {
                standing.since = Some(now);
                let rests = typing.last.map(|last| last + STILL).filter(|until| *until > now);
                let read = is_writing.then(|| now + STILL);
                typing.until = rests.max(read).filter(|_| standing.dialog.comes_by_itself());
            }
        }
    }

    /// Whose keys the keys are.
    pub(super) fn holder(&mut self, now: Instant) -> Holder {
        self.notice_question(now);
        let is_typing = self.is_typing(now);
        let takes = |standing: &Standing| !is_typing || !standing.dialog.comes_by_itself();
        self.questions.standing.iter().position(takes).map_or(Holder::Prompt, Holder::Dialog)
    }

    /// Whether a question stands and keys still go into the prompt.
    pub(super) fn is_typing(&self, now: Instant) -> bool {
        let asks = self.questions.standing.front().is_some_and(|standing| standing.dialog.comes_by_itself());
        asks && self.questions.typing.until.is_some_and(|until| until > now)
    }

    /// When the question that stands begins to take keys, as long as the screen says that it does not. That may be over
    /// by the time it is asked for.
    pub(super) fn takes_keys_at(&self) -> Option<Instant> {
        self.questions.typing.until.filter(|_| self.questions.typing.said)
    }

    /// Whether keys that came together are a text and no answer to the question.
    pub(super) fn is_pasted(&self, place: usize, keys: &[KeyEvent]) -> bool {
        let dialog = self.questions.standing.get(place).map(|standing| &standing.dialog);
        // Arrow keys are not part of a text; a busy machine delivers several of them at once.
        let count = |is_counted: fn(KeyCode) -> bool| keys.iter().filter(|key| is_counted(key.code)).count();
        let characters = count(|code| matches!(code, KeyCode::Char(_)));
        let line_ends = count(|code| matches!(code, KeyCode::Enter | KeyCode::Tab));
        characters >= PASTED_CHARACTERS
            && characters + line_ends >= PASTE
            && keys.iter().all(super::input::is_text)
            && dialog.is_some_and(|dialog| dialog.comes_by_itself() && !dialog.takes_text())
    }
}
