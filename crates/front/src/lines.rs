//! A conversation in plain lines: nothing is redrawn, everything can be read aloud.
//!
//! Used where the terminal cannot draw, or with `ui.accessibility.screenReader`. Answers are typed as numbers or words. A
//! line typed before a question appears is never taken as its answer.

mod list;
mod printer;
mod question;
mod words;

#[cfg(test)]
mod replay;

use std::collections::VecDeque;
use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use pollux_domain::approval::{ApprovalAnswer, ApprovalMode, ApprovalRequest};
use pollux_domain::event::{Event, TurnEnd};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::terminal_text::{one_line, plain, visible};
use pollux_host::prompter::keyboard::{Keyboard, Unseen};
use pollux_host::{HistoryItem, Prepared, VERSION};
use pollux_output::Console;

use self::printer::{LineOutput, LinePrinter};
use super::choice::{Choice, ListEvent};
use super::front_end::{FrontEnd, Pending};
use super::input::Input;
use crate::presentation::path_display;

/// The front end that prints lines.
pub(super) struct Lines {
    printer: LinePrinter,
    keyboard: Keyboard,
    /// Prompts that were typed while the model was working.
    ahead: VecDeque<String>,
    /// Prompts to be read when the next one is awaited.
    later: VecDeque<String>,
    leaving: bool,
    interrupts: Interrupts,
    /// The list that is shown next.
    presented: Option<Choice>,
}

impl Lines {
    pub(super) fn open(console: Console) -> io::Result<Self> {
        Ok(Self {
            printer: LinePrinter::new(console, LineOutput::of_process()),
            keyboard: Keyboard::open()?,
            ahead: VecDeque::new(),
            later: VecDeque::new(),
            leaving: false,
            interrupts: Interrupts::default(),
            presented: None,
        })
    }

    /// Prints at once, without a line end.
    fn show(&self, text: &str) {
        self.printer.out.show(text);
    }

    async fn line(&mut self, question: &str, secret: bool) -> Option<String> {
        let before = self.keyboard.typed_before();
        self.ahead.extend(before);
        // Before the question, because programs answer at once.
        let _unseen = secret.then(Unseen::begin);
        self.show(&visible(question));
        self.keyboard.line().await
    }
}

impl FrontEnd for Lines {
    fn console(&mut self) -> &mut Console {
        &mut self.printer.console
    }

    fn greet(&mut self, turn: &Prepared<'_>, mode: ApprovalMode) {
        self.printer.paths = path_display(turn.loaded);
        self.printer.sandbox = turn.sandbox.in_force(&turn.loaded.env).name();
        let mode = self.printer.mode(mode);
        self.note(&format!("Pollux {VERSION}. {mode}. /help lists commands; /quit exits."));
    }

    fn event(&mut self, event: &Event) {
        self.printer.event(event);
    }

    fn note(&mut self, text: &str) {
        self.printer.console.note(text);
    }

    fn show_history(&mut self, said: Vec<HistoryItem>) {
        self.printer.show_history(&said);
    }

    fn terminal_sequence(&mut self, sequence: &str) {
        self.show(sequence);
    }

    fn turn_ended(&mut self, end: &TurnEnd) {
        self.printer.turn_ended(end);
        // A cancelled turn also cancels the prompts that were typed ahead.
        if matches!(end, TurnEnd::Cancelled) {
            for typed in self.ahead.drain(..).chain(self.later.drain(..)) {
                self.printer.console.note(&format!("Not sent: {}", one_line(&typed)));
            }
        }
    }

    fn await_prompt(&mut self) {
        self.ahead.append(&mut self.later);
        if self.ahead.is_empty() {
            self.show(&format!("{PROMPT}{}", visible(self.keyboard.begun())));
        }
    }

    fn sandbox_changed(&mut self, turn: &Prepared<'_>, _model: &str) {
        self.printer.sandbox = turn.sandbox.in_force(&turn.loaded.env).name();
    }

    fn shell_started(&mut self, _command: &str) -> Box<dyn Fn(&str) + Send + Sync> {
        let out = self.printer.out.clone();
        Box::new(move |text: &str| out.show(&plain(text)))
    }

    fn input(&mut self) -> Pending<'_, Input> {
        Box::pin(async move {
            if self.leaving {
                return Input::Leave;
            }
            if let Some(typed) = self.ahead.pop_front() {
                return Input::Said(typed);
            }
            match self.keyboard.message().await {
                Some(line) => Input::Said(line),
                None => Input::Leave,
            }
        })
    }

    fn queue_prompt(&mut self, prompt: String) {
        self.ahead.push_back(prompt);
    }

    fn interrupt_leaves(&mut self) -> bool {
        // The terminal has discarded the line that was begun, and does not tell whether there was one.
        if !io::stdin().is_terminal() || self.interrupts.is_second(Instant::now()) {
            return true;
        }
        self.keyboard.discard();
        self.show("\n");
        self.note("Press Ctrl+C again to exit.");
        self.await_prompt();
        false
    }

    fn defer(&mut self, input: Input) {
        match input {
            Input::Said(text) => self.later.push_back(text),
            Input::Leave => self.leaving = true,
            _ => {}
        }
    }

    fn ask_approval<'a>(&'a mut self, request: &'a ApprovalRequest) -> Option<Pending<'a, ApprovalAnswer>> {
        Some(Box::pin(self.ask_request(request)))
    }

    fn ask_line<'a>(&'a mut self, question: &'a str, secret: bool) -> Pending<'a, Option<String>> {
        Box::pin(self.line(question, secret))
    }

    fn confirm<'a>(&'a mut self, question: &'a str) -> Pending<'a, bool> {
        Box::pin(async move { self.ask_yes_no(&format!("{question} (yes or no): ")).await })
    }

    fn present(&mut self, choice: Choice) {
        self.presented = Some(choice);
    }

    fn list_event(&mut self) -> Pending<'_, Option<ListEvent>> {
        Box::pin(async move { self.ask_list().await.map(ListEvent::Chosen) })
    }

    fn is_broken(&self) -> bool {
        self.printer.console.is_broken()
    }

    fn leave(self: Box<Self>, _signalled: bool, ended: Result<(), Failure>) -> ExitKind {
        match ended {
            Ok(()) => ExitKind::Success,
            Err(failure) => self.printer.console.fail(&failure),
        }
    }
}

/// Printed before the prompt that the person types.
const PROMPT: &str = "User: ";

/// The second Ctrl+C within this time leaves, as on the screen.
const TWICE: Duration = Duration::from_secs(3);

/// Ctrl+C at the prompt: the first one may have been about a draft.
#[derive(Debug, Default)]
struct Interrupts {
    last: Option<Instant>,
}

impl Interrupts {
    fn is_second(&mut self, now: Instant) -> bool {
        let last = self.last.replace(now);
        last.is_some_and(|last| now.saturating_duration_since(last) <= TWICE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_interrupts_in_succession_leave() {
        let (mut interrupts, now) = (Interrupts::default(), Instant::now());
        assert!(!interrupts.is_second(now));
        assert!(!interrupts.is_second(now + 2 * TWICE));
        assert!(interrupts.is_second(now + 3 * TWICE));
    }
}
