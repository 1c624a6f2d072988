//! The transcript of a conversation, as it is shown.
//!
//! Events are folded into items. An item that can no longer change leaves as lines for the terminal's scrollback, in
//! the order in which things began; items that still change are drawn in the live area.

mod activity;
mod command_screen;
mod item;
mod look;
mod panel;
mod report;
mod tool_box;

use std::collections::VecDeque;
use std::time::Instant;

use pollux_domain::JsonObject;
use pollux_domain::event::{CompressionStatus, Event, NoticeCode, Severity, TurnEnd};
use pollux_domain::id::CallId;
use pollux_domain::path_display::PathDisplay;
use pollux_domain::terminal_screen::TerminalScreen;
use pollux_domain::terminal_text::{Stripper, one_line};
use ratatui::text::Line;

pub use item::Item;
pub use look::Look;
pub(crate) use panel::cut_to_width;
use tool_box::ToolBox;

use crate::markdown::Stream;

/// The call that stands for a command of the person's; no model's call is named so.
const SHELL: &str = "!";

/// The visible part of a conversation.
#[derive(Debug, Default)]
pub struct Transcript {
    /// Items that are not printed yet, oldest first. Only the last can be [`Open::Answer`].
    open: VecDeque<Open>,
    /// The model's last answer as it wrote it, for copying.
    answer: String,
    /// The answer under way, from its first piece on.
    writing: String,
    /// The heading of the thought under way.
    thought: Option<String>,
    /// Commands of the person's so far.
    shells: usize,
    /// The session's id of the last one.
    shell_call: Option<CallId>,
    /// Show the colours of command output.
    pub command_colours: bool,
    /// Calls that were printed since the last prompt, to show in full on request.
    printed: VecDeque<Box<ToolBox>>,
    /// A prompt was printed after them.
    printed_are_old: bool,
    /// Thoughts are part of the conversation.
    pub thoughts: bool,
    /// How paths are displayed.
    pub paths: PathDisplay,
    /// What was printed last is a call of one row; another one follows without a blank row.
    after_row: bool,
    /// The questions that stand, and since when the first of them does.
    asked: (usize, Option<Instant>),
}

/// A command that runs in a terminal.
pub(crate) struct RunningCommand<'a> {
    /// The session's id.
    pub(crate) call: &'a CallId,
    pub(crate) screen: &'a TerminalScreen,
    /// The person started it.
    pub(crate) is_own: bool,
}

/// Calls that were printed and can be shown in full.
const MOST_PRINTED: usize = 32;

/// Something that can no longer change.
#[derive(Debug)]
pub(crate) enum Past {
    Item(Item),
    Call(Box<ToolBox>),
}

impl Past {
    pub(crate) fn lines(&self, look: Look<'_>) -> Vec<Line<'static>> {
        match self {
            Self::Item(item) => item.lines(look),
            Self::Call(call) => call.lines(look),
        }
    }

    /// Its lines after others: calls of one row stand together.
    pub(crate) fn lines_after(&self, after_row: &mut bool, look: Look<'_>) -> Vec<Line<'static>> {
        close_up(self.lines(look), matches!(self, Self::Call(_)), after_row)
    }
}

/// Takes away the blank row between two calls of one row.
fn close_up(mut lines: Vec<Line<'static>>, is_call: bool, after_row: &mut bool) -> Vec<Line<'static>> {
    let is_row = is_call && lines.len() == 2;
    if is_row && *after_row {
        lines.remove(0);
    }
    *after_row = is_row;
    lines
}

#[derive(Debug)]
enum Open {
    Done(Item),
    /// The model's text; `begun` once a part of it was printed.
    Answer {
        stream: Stream,
        stripper: Stripper,
        begun: bool,
    },
    Call(Box<ToolBox>),
}

impl Transcript {
    /// Adds something that is complete.
    pub fn push(&mut self, item: Item) {
        self.end_answer();
        self.open.push_back(Open::Done(item));
    }

    /// A command of the person's begins.
    pub fn begin_shell(&mut self, command: &str, now: Instant) {
        self.end_answer();
        let mut args = JsonObject::new();
        args.insert("command".to_owned(), command.into());
        self.shells += 1;
        let mut shell = ToolBox::new(self.shell(), "Shell Command", &args, &self.paths, now);
        shell.start(now);
        self.open.push_back(Open::Call(Box::new(shell)));
    }

    fn shell(&self) -> CallId {
        CallId::new(SHELL, &self.shells.to_string())
    }

    pub fn shell_output(&mut self, text: &str) {
        if let Some(shell) = self.call(&self.shell()) {
            shell.output(text);
        }
    }

    /// It is over; a word about how, unless it went well.
    pub fn shell_ended(&mut self, said: Option<&str>) {
        if let Some(shell) = self.call(&self.shell()) {
            shell.end(said);
        }
    }

    /// The last command that runs in a terminal.
    pub(crate) fn command(&self) -> Option<RunningCommand<'_>> {
        let shell = self.shell();
        self.open.iter().rev().find_map(|open| {
            let Open::Call(call) = open else { return None };
            let screen = call.screen().filter(|_| !call.is_over())?;
            let is_own = *call.id() == shell;
            let id = if is_own { self.shell_call.as_ref()? } else { call.id() };
            Some(RunningCommand { call: id, screen, is_own })
        })
    }

    /// Shows which command has the keyboard.
    pub(crate) fn set_focus(&mut self, focused: Option<&CallId>) {
        let shell = self.shell();
        let own = self.shell_call.clone();
        for open in &mut self.open {
            if let Open::Call(call) = open {
                let id = if *call.id() == shell { own.as_ref() } else { Some(call.id()) };
                let is_focused = focused.is_some() && id == focused;
                call.set_focus(is_focused);
            }
        }
    }

    /// Whether a command is used that wants all the rows it can get.
    pub(crate) fn needs_room(&self) -> bool {
        self.open.iter().any(|open| matches!(open, Open::Call(call) if !call.is_over() && call.needs_room()))
    }

    /// The box of a call or of the person's command, by the session's id.
    fn call_or_shell(&mut self, id: &CallId) -> Option<&mut ToolBox> {
        let own = self.shell_call.as_ref() == Some(id);
        let id = if own { self.shell() } else { id.clone() };
        self.call(&id)
    }

    /// Whether a command of the person's runs.
    pub(crate) fn runs_shell(&self) -> bool {
        let shell = self.shell();
        self.open
            .iter()
            .any(|open| matches!(open, Open::Call(call) if *call.id() == shell && !call.is_over()))
    }

    /// The subject of the current thought.
    pub fn thought(&self) -> Option<&str> {
        self.thought.as_deref()
    }

    /// The last answer, as the model wrote it.
    pub fn answer(&self) -> &str {
        &self.answer
    }

    /// Whether a tool runs now, and its name.
    pub fn running(&self) -> Option<&str> {
        self.open.iter().find_map(|open| match open {
            Open::Call(call) if call.runs() => Some(call.name()),
            _ => None,
        })
    }

    /// Folds an event in.
    pub fn take(&mut self, event: &Event, now: Instant) {
        match event {
            Event::Text(text) => self.text(text),
            Event::Thought(thought) => {
                self.thought = Some(one_line(&thought.subject)).filter(|subject| !subject.is_empty());
                if self.thoughts {
                    let words = [thought.subject.as_str(), thought.description.as_str()];
                    let words: Vec<&str> = words.into_iter().filter(|text| !text.is_empty()).collect();
                    self.push(Item::Thought(words.join(": ")));
                }
            }
            Event::StepCommitted => self.end_answer(),
            Event::AttemptDiscarded(discarded) => {
                self.end_answer();
                if discarded.text_was_shown {
                    self.push(Item::warning("Answer discarded; retrying."));
                }
            }
            Event::ModelFallback(fallback) => {
                self.end_answer();
                self.push(Item::warning(fallback.sentence()));
            }
            Event::CallRequested(request) => {
                self.end_answer();
                let (name, args) = (&request.name, &request.args);
                let call = ToolBox::new(request.call.clone(), name, args, &self.paths, now);
                self.open.push_back(Open::Call(Box::new(call)));
            }
            Event::ApprovalWanted(request) => {
                self.asked = (self.asked.0 + 1, self.asked.1.or(Some(now)));
                if let Some(found) = self.call(&request.call) {
                    found.asked(request);
                }
            }
            Event::ApprovalSettled { call, .. } => {
                self.settled_one(now);
                if let Some(found) = self.call(call) {
                    found.settled();
                }
            }
            Event::CallStarted { call } => {
                if let Some(found) = self.call(call) {
                    found.start(now);
                }
            }
            Event::CallOutput { call, text } => {
                if let Some(found) = self.call(call) {
                    found.output(text);
                }
            }
            Event::CallScreen { call, screen } => {
                let colours = self.command_colours;
                if let Some(found) = self.call_or_shell(call) {
                    found.show(screen, colours);
                }
            }
            Event::ShellStarted { call, .. } => self.shell_call = Some(call.clone()),
            Event::ShellEnded(report) => {
                if let Some(found) = self.call_or_shell(&report.call) {
                    found.printed(&report.output);
                }
            }
            Event::Activity(activity) => {
                if let Some(found) = self.call(&activity.call) {
                    found.activity(activity);
                }
            }
            Event::CallFinished(report) => {
                if let Some(found) = self.call(&report.call) {
                    found.finish(report);
                }
            }
            Event::Compressed(done) => {
                self.push(compressed(done.tokens_before, done.tokens_after, done.status));
            }
            Event::HookRan(report) => {
                if let Some(message) = report.message.as_ref().filter(|_| !report.suppressed) {
                    self.push(Item::info(message));
                }
            }
            // The status line says so.
            Event::Notice { severity: Severity::Info, code: NoticeCode::Hook, message }
                if waited_for_hooks(message).is_some() => {}
            Event::Notice { severity, message, .. } => self.push(match severity {
                Severity::Info => Item::info(message),
                Severity::Warning => Item::warning(message),
                Severity::Error => Item::error(message),
            }),
            Event::TurnEnded(end) => self.end_turn(end),
            _ => {}
        }
    }

    /// One question less stands. While a person is asked no clock runs.
    fn settled_one(&mut self, now: Instant) {
        self.asked.0 = self.asked.0.saturating_sub(1);
        if self.asked.0 > 0 {
            return;
        }
        let Some(since) = self.asked.1.take() else { return };
        for open in &mut self.open {
            if let Open::Call(call) = open {
                call.waited(now.saturating_duration_since(since));
            }
        }
    }

    fn text(&mut self, text: &str) {
        self.thought = None;
        self.writing.push_str(text);
        if !matches!(self.open.back(), Some(Open::Answer { .. })) {
            let (stream, stripper) = (Stream::default(), Stripper::default());
            self.open.push_back(Open::Answer { stream, stripper, begun: false });
        }
        if let Some(Open::Answer { stream, stripper, .. }) = self.open.back_mut() {
            stream.push(&stripper.push(text));
        }
    }

    fn end_answer(&mut self) {
        if !self.writing.is_empty() {
            self.answer = std::mem::take(&mut self.writing);
        }
        if let Some(Open::Answer { stream, begun, .. }) = self.open.back_mut() {
            let rest = stream.finish();
            let goes_on = *begun;
            self.open.pop_back();
            self.open.extend(rest.map(|text| Open::Done(Item::Answer { text, goes_on })));
        }
    }

    fn end_turn(&mut self, end: &TurnEnd) {
        self.end_answer();
        (self.thought, self.asked) = (None, (0, None));
        for open in &mut self.open {
            if let Open::Call(call) = open {
                call.give_up();
            }
        }
        if let Some(item) = item::of_end(end) {
            self.push(item);
        }
    }

    fn call(&mut self, id: &CallId) -> Option<&mut ToolBox> {
        self.open.iter_mut().find_map(|open| match open {
            Open::Call(call) if call.id() == id => Some(&mut **call),
            _ => None,
        })
    }

    /// The items that have become final since the last call.
    pub(crate) fn settled(&mut self) -> Vec<Past> {
        let mut past = Vec::new();
        while let Some(open) = self.open.pop_front() {
            match open {
                Open::Done(item) => past.push(Past::Item(item)),
                Open::Call(call) if call.is_over() => past.push(Past::Call(call)),
                Open::Answer { mut stream, stripper, mut begun } => {
                    if let Some(text) = stream.settle() {
                        past.push(Past::Item(Item::Answer { text, goes_on: begun }));
                        begun = true;
                    }
                    self.open.push_front(Open::Answer { stream, stripper, begun });
                    break;
                }
                call @ Open::Call(_) => {
                    self.open.push_front(call);
                    break;
                }
            }
        }
        past
    }

    /// Lines that never change again, since the last time.
    pub fn finished(&mut self, look: Look<'_>) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        for past in self.settled() {
            lines.extend(past.lines_after(&mut self.after_row, look));
            match past {
                Past::Call(call) => self.keep_printed(call),
                Past::Item(Item::Prompt(_) | Item::Shell(_)) => self.printed_are_old = true,
                Past::Item(_) => {}
            }
        }
        lines
    }

    fn keep_printed(&mut self, call: Box<ToolBox>) {
        // Those of the turn before can be shown until the new turn has calls of its own.
        if std::mem::take(&mut self.printed_are_old) {
            self.printed.clear();
        }
        if call.is_whole() {
            return;
        }
        self.printed.push_back(call);
        if self.printed.len() > MOST_PRINTED {
            self.printed.pop_front();
        }
    }

    /// Shows those calls again, whole, of which `look` hid something.
    pub fn reveal(&mut self, look: Look<'_>) {
        let hidden: Vec<Box<ToolBox>> =
            self.printed.drain(..).filter(|call| call.hides_something(look)).collect();
        if !hidden.is_empty() {
            self.end_answer();
        }
        for mut call in hidden {
            call.show_whole();
            self.open.push_back(Open::Call(call));
        }
    }

    /// The items that still change.
    pub fn live(&self, look: Look<'_>) -> Vec<Line<'static>> {
        let mut after_row = self.after_row;
        let lines = self.open.iter().flat_map(|open| match open {
            Open::Done(item) => close_up(item.lines(look), false, &mut after_row),
            // Its question shows it.
            Open::Call(call) if call.is_asked() => Vec::new(),
            Open::Call(call) => close_up(call.lines(look), true, &mut after_row),
            Open::Answer { stream, begun, .. } if !stream.is_empty() => {
                close_up(item::answer(stream.tail(), *begun, look), false, &mut after_row)
            }
            Open::Answer { .. } => Vec::new(),
        });
        lines.collect()
    }
}

/// Which hooks a notice says that everything waits for.
pub(crate) fn waited_for_hooks(message: &str) -> Option<&str> {
    message.strip_prefix("Waiting for the ")?.strip_suffix(" hooks...")
}

fn compressed(before: u64, after: u64, status: CompressionStatus) -> Item {
    match status {
        CompressionStatus::Compressed | CompressionStatus::Truncated => {
            Item::info(format!("Chat history compressed from {before} to {after} tokens."))
        }
        CompressionStatus::Nothing => Item::info("Nothing to compress."),
        CompressionStatus::Inflated => {
            Item::warning("The summary would not be shorter; conversation unchanged.")
        }
        CompressionStatus::Failed | CompressionStatus::EmptySummary => {
            Item::warning("Compression failed; conversation unchanged.")
        }
    }
}

#[cfg(test)]
mod tests;
