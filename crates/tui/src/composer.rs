//! The composer: prompt editing with history, search, suggestions, pastes and vim keys.
//!
//! Pure state: keys and pastes come in with the time, a [`Reaction`] says what the program has to do. Files, the
//! clipboard and suggestions are the program's. Start at [`Composer::key`] (in `input.rs`); `buffer.rs` is the text,
//! `view.rs` how it is drawn.

mod buffer;
mod completion;
mod folds;
mod glyph;
mod history;
mod input;
mod paste;
mod popup;
mod search;
mod view;
mod vim;

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::time::{Duration, Instant};

use pollux_domain::terminal_text::one_line;

use crate::keys::{Command, KeyMap};
pub use buffer::Mark;
pub(crate) use buffer::{Buffer, Pos};
pub use completion::{Candidates, Kind, Wanted};
pub(crate) use input::typed_char;
pub(crate) use paste::may_be_pasted;
pub use popup::Item;
pub use view::Look;
pub use vim::VimMode;

use completion::Completion;
use folds::Kept;
use history::{History, Recall};
use paste::Burst;
use search::Search;
use vim::Vim;

/// The second of two keys counts as long as the hint about it is shown.
pub const TWICE: Duration = Duration::from_secs(3);
/// Characters of an unsent text that are shown at the end.
const MOST_SHOWN: usize = 1000;
/// Two Tabs within this are one request; must equal upstream's.
const DOUBLE_TAB: Duration = Duration::from_millis(350);

/// What the program must do after a key or a paste.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reaction {
    /// Nothing happened.
    Ignored,
    /// Draw again.
    Changed,
    /// Send the prompt.
    Submit(Submission),
    /// Send the prompt when the request that runs is done.
    Queue(Submission),
    /// Send the prompt with [`Composer::send`] when the clipboard has been read.
    SendAfterPaste(WaitingPrompt),
    /// Do not send the prompt, and discard what the clipboard returns.
    CancelPaste,
    /// Draw again, and answer with [`Composer::candidates`] when there is an answer.
    Complete(Wanted),
    /// Take queued prompts back: `prepend` them.
    PullQueue,
    /// Let an editor change [`Composer::expanded`], then `set_text`.
    OpenEditor,
    /// Paste the clipboard's content.
    PasteClipboard,
    /// Show or hide the shortcuts.
    Shortcuts,
    /// Show less or all around the prompt.
    ToggleDetails,
    /// Offer to go back to an earlier turn.
    Rewind,
    /// Draw again and show a hint for a moment.
    Toast(Toast),
    /// The composer does not handle the key.
    Unhandled,
}

/// When a prompt is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// At once, as with Enter.
    Submit,
    /// When the request that runs is done, as with Tab.
    Queue,
}

/// A prompt that waits for the clipboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingPrompt {
    pub sending: Sending,
    /// [`Composer::revision`] when it was to be sent.
    pub revision: u64,
    /// Whether it is sent with the pasted content, although the user has not seen that.
    pub sends: bool,
}

/// Whether the clipboard is being read for the prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClipboardRead {
    #[default]
    Idle,
    Running,
    /// The prompt is sent when it has ended.
    Awaited,
}

/// A prompt that is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// Pastes in full, without blanks around it.
    pub text: String,
    /// As it was shown, with placeholders.
    pub raw: String,
    /// Written in shell mode.
    pub shell: bool,
}

impl Submission {
    /// Whether it is a command of Pollux or of the shell. Joined with another text, one would become part of the other.
    pub fn is_command(&self) -> bool {
        self.shell || is_command(&self.text)
    }

    /// A text as it is given to the conversation, with `!` before a shell command.
    pub fn typed(text: &str) -> Self {
        let (text, shell) = match text.strip_prefix('!') {
            Some(command) => (command, true),
            None => (text, false),
        };
        Self { text: text.to_owned(), raw: text.to_owned(), shell }
    }

    /// Whether it ends the conversation.
    pub fn leaves(&self) -> bool {
        !self.shell && matches!(self.text.split_whitespace().next(), Some("/quit" | "/exit"))
    }

    /// As it was shown, with `!` before a shell command.
    pub fn typed_raw(&self) -> String {
        if self.shell { format!("!{}", self.raw) } else { self.raw.clone() }
    }

    /// Says at the end that it was not sent. A long text is cut only if it is saved elsewhere.
    pub fn not_sent(&self, is_saved: bool) -> String {
        let mark = if self.shell { "!" } else { "" };
        if !is_saved {
            return format!("Not sent: {mark}{}", one_line(&self.text));
        }
        let text = one_line(&self.raw);
        let mut shown: String = text.chars().take(MOST_SHOWN).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        format!("Not sent: {mark}{shown}")
    }
}

fn is_command(text: &str) -> bool {
    text.trim_start().starts_with(['/', '!'])
}

/// A hint that is shown for a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toast {
    EscapeClears,
    EscapeRewinds,
    ExpandPaste,
    MoveToPaste,
    EditorKey,
    PasteTooLong,
}

impl Toast {
    /// Whether the same key does something if it comes again.
    pub fn wants_key_again(self) -> bool {
        matches!(self, Self::EscapeClears | Self::EscapeRewinds)
    }

    pub fn text(self, keys: &KeyMap) -> String {
        match self {
            Self::EscapeClears => "Press Esc again to clear prompt.".to_owned(),
            Self::EscapeRewinds => "Press Esc again to rewind.".to_owned(),
            Self::ExpandPaste => format!("Press {} to expand pasted text", keys.key(Command::ExpandPaste)),
            Self::MoveToPaste => "Move the cursor to a placeholder to expand it.".to_owned(),
            Self::EditorKey => format!("Use {} to open the external editor.", keys.key(Command::OpenEditor)),
            Self::PasteTooLong => "Too long for a prompt; save it to a file and use @path.".to_owned(),
        }
    }
}

/// How a terminal delivers pastes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pastes {
    /// Marked as such: Enter always sends.
    Marked,
    /// As keys: what arrives quickly is a paste.
    #[default]
    Unmarked,
}

/// The state of the program that the composer depends on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Conditions {
    /// A request runs.
    pub busy: bool,
    /// Prompts wait for it.
    pub queued: bool,
    /// Everything is approved.
    pub yolo: bool,
    /// How pastes arrive.
    pub pastes: Pastes,
    /// `@` in pasted text is text.
    pub escape_at: bool,
    /// A prompt is not sent while the clipboard is read for it.
    pub clipboard: ClipboardRead,
}

/// A paste that was expanded in place and can be folded again while nothing else changed.
#[derive(Debug, Clone)]
struct Expanded {
    range: Range<Pos>,
    revision: u64,
}

#[derive(Debug, Clone)]
pub struct Composer {
    pub conditions: Conditions,
    keys: KeyMap,
    buffer: Buffer,
    shell: bool,
    /// Counts changes between prompt, shell mode and search.
    mode_changes: u64,
    prompts: History,
    commands: History,
    search: Option<Search>,
    completion: Completion,
    vim: Option<Vim>,
    expanded: Option<Expanded>,
    burst: Option<Burst>,
    taps: Taps,
    /// The first line and row that is drawn.
    top: (usize, usize),
}

/// When keys came whose repetition means something.
#[derive(Debug, Clone, Copy, Default)]
struct Taps {
    text: Option<Instant>,
    /// Text keys in quick succession up to then.
    quick: usize,
    escape: Option<Instant>,
    tab: Option<Instant>,
    /// The first half of a line end that is sent as two.
    line_end: Option<Instant>,
}

impl Composer {
    pub fn new(keys: KeyMap) -> Self {
        Self {
            conditions: Conditions::default(),
            keys,
            buffer: Buffer::default(),
            shell: false,
            mode_changes: 0,
            prompts: History::default(),
            commands: History::default(),
            search: None,
            completion: Completion::default(),
            vim: None,
            expanded: None,
            burst: None,
            taps: Taps::default(),
            top: (0, 0),
        }
    }

    /// Vim keys on, in insert mode, or off.
    pub fn set_vim(&mut self, on: bool) {
        self.vim = on.then(|| self.vim.take().unwrap_or_default());
    }

    /// `None` without vim keys.
    pub fn vim_mode(&self) -> Option<VimMode> {
        self.vim.as_ref().map(|vim| vim.mode)
    }

    /// Adds earlier prompts and shell commands, oldest first, before those sent meanwhile.
    pub fn add_history(&mut self, prompts: Vec<String>, commands: Vec<String>) {
        self.prompts.precede(prompts);
        self.commands.precede(commands);
    }

    /// The text as it is shown, with placeholders for pastes.
    pub fn text(&self) -> String {
        self.buffer.folds.labelled(&self.buffer.raw())
    }

    /// The text with every paste in full.
    pub fn expanded(&self) -> String {
        self.buffer.folds.expand(&self.buffer.raw())
    }

    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Another text, the cursor at its end; it can be undone.
    pub fn set_text(&mut self, text: &str) {
        self.stop_search();
        self.completion.close();
        self.buffer.set(text);
    }

    /// A text from elsewhere, as a prompt. What is there is put aside until something has been sent.
    pub fn suggest(&mut self, text: &str) {
        self.stop_search();
        let shown = self.buffer.keep_all();
        self.history().put_aside(shown);
        self.history().rest();
        self.set_shell_mode(false);
        self.set_text(text);
    }

    /// Inserts a text before the existing one, separated from it; the cursor goes to the end.
    pub fn prepend(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.stop_search();
        self.completion.close();
        let apart = if self.buffer.is_empty() { "" } else { "\n\n" };
        self.buffer.go(Pos::default());
        self.buffer.insert(&format!("{text}{apart}"));
        self.buffer.go(self.buffer.end());
    }

    /// Removes a text that [`Self::prepend`] inserted, unless it was edited since.
    pub fn remove(&mut self, text: &str) {
        self.stop_search();
        let raw = self.buffer.raw();
        let text = self.buffer.folds.protect(text).into_owned();
        if text.is_empty() {
            return;
        }
        let found = raw.match_indices(&text).find_map(|(at, _)| {
            let (before, after) = (raw.get(..at)?, raw.get(at + text.len()..)?);
            let is_whole = (before.is_empty() || before.ends_with("\n\n"))
                && (after.is_empty() || after.starts_with("\n\n"));
            is_whole.then_some((before, after))
        });
        let Some((before, after)) = found else { return };
        let rest = match after.strip_prefix("\n\n") {
            Some(after) => format!("{before}{after}"),
            None => before.strip_suffix("\n\n").unwrap_or(before).to_owned(),
        };
        self.completion.close();
        self.buffer.set_raw(rest);
    }

    /// A text at the cursor, as if it was typed.
    pub fn insert(&mut self, text: &str) {
        self.completion.close();
        self.buffer.insert(text);
    }

    /// Marks the cursor's place for something that comes later.
    pub fn mark(&mut self) -> Mark {
        self.buffer.mark()
    }

    /// Inserts something into the prompt at a mark, or at the cursor if the text with the mark is gone. The cursor stays
    /// where it is in the text; if it is at the mark, it goes behind what is inserted. A search goes on.
    pub fn at<T>(&mut self, mark: Mark, insert: impl FnOnce(&mut Self) -> T) -> T {
        let search = self.set_search_aside();
        let back = self.buffer.open_mark(mark);
        let inserted = insert(self);
        self.buffer.close_mark(back);
        self.resume_search(search);
        inserted
    }

    /// A number that changes with every edit of the text and every change of the mode.
    pub fn revision(&self) -> u64 {
        self.buffer.revision() + self.mode_changes
    }

    /// Whether the prompt is a command of Pollux or of the shell.
    pub fn is_command(&self) -> bool {
        self.shell || is_command(&self.expanded())
    }

    /// Whether there is nothing to send.
    pub fn is_blank(&self) -> bool {
        self.buffer.is_blank()
    }

    /// Sends the prompt; `None` if there is none.
    pub fn send(&mut self) -> Option<Submission> {
        (!self.buffer.is_blank()).then(|| self.submission())
    }

    /// Inserts a file reference at the cursor, separated from the text before it.
    pub fn refer_to(&mut self, path: &str) {
        let blank = if self.joins() { " " } else { "" };
        self.insert(&format!("{blank}@{} ", completion::escape_reference(path)));
    }

    pub fn shell_mode(&self) -> bool {
        self.shell
    }

    pub fn set_shell_mode(&mut self, on: bool) {
        self.mode_changes += u64::from(self.shell != on);
        self.shell = on;
        self.completion.close();
    }

    pub fn searching(&self) -> bool {
        self.search.is_some()
    }

    /// An answer to [`Reaction::Complete`]; true when it is shown, false when it came too late.
    pub fn candidates(&mut self, candidates: Candidates) -> bool {
        if !self.completion.answer(candidates) {
            return false;
        }
        // As in a shell, a single candidate is inserted at once.
        if self.shell && self.completion.popup.len() == 1 {
            self.take_choice();
        }
        true
    }

    /// Shows the prompt before, as Up does.
    pub fn history_previous(&mut self) -> Reaction {
        let shown = self.buffer.keep_all();
        let recall = self.history().previous(shown);
        self.recall(recall, Pos::default())
    }

    fn history_next(&mut self) -> Reaction {
        let shown = self.buffer.keep_all();
        let recall = self.history().next(shown);
        self.recall(recall, Pos::new(usize::MAX, 0))
    }

    fn history(&mut self) -> &mut History {
        if self.shell { &mut self.commands } else { &mut self.prompts }
    }

    fn recall(&mut self, recall: Option<Recall>, cursor: Pos) -> Reaction {
        self.completion.close();
        match recall {
            None => return Reaction::Ignored,
            Some(Recall::Entry(text)) => self.buffer.set(&text),
            Some(Recall::Kept(kept)) => self.buffer.set_kept(&kept),
        }
        self.buffer.go(cursor);
        Reaction::Changed
    }

    /// Takes all drafts away: those that were put aside, and the text, unless it is an earlier prompt. A search ends.
    pub fn take_drafts(&mut self) -> Vec<Submission> {
        self.stop_search();
        let shown = draft(&self.buffer.keep_all(), self.shell);
        let is_earlier = self.prompts.shows(&shown.text) || self.commands.shows(&shown.text);
        let mut drafts = Vec::new();
        for (history, shell) in [(&mut self.prompts, false), (&mut self.commands, true)] {
            drafts.extend(history.take_drafts().iter().map(|kept| draft(kept, shell)));
        }
        drafts.extend((!is_earlier).then_some(shown));
        drafts.retain(|draft| !draft.text.is_empty());
        drafts.dedup();
        self.set_text("");
        drafts
    }

    /// Gives the prompt away and starts a new one, or returns to the draft that was put aside.
    fn submission(&mut self) -> Submission {
        let submission = draft(&self.buffer.keep_all(), self.shell);
        let next = self.history().push(&submission.text);
        self.buffer.reset();
        if let Some(next) = next {
            self.buffer.set_kept(&next);
        }
        self.completion.close();
        self.search = None;
        self.expanded = None;
        self.burst = None;
        self.top = (0, 0);
        if let Some(vim) = &mut self.vim {
            vim.rest();
        }
        submission
    }
}

fn draft(kept: &Kept, shell: bool) -> Submission {
    let trimmed = |text: String| text.trim().to_owned();
    Submission { text: trimmed(kept.expanded()), raw: trimmed(kept.labelled()), shell }
}
