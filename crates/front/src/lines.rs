//! A conversation in plain lines: nothing is redrawn, everything can be read aloud.
//!
//! Answers are typed as numbers or words. A line that was typed before a question stands is never taken as
//! its answer.

use pollux_host::prompter::keyboard;
mod list;
mod question;
mod words;

use std::collections::VecDeque;
use std::io::{self, Write};

use pollux_domain::approval::{Answer, ApprovalMode, ApprovalRequest};
use pollux_domain::event::{Event, TurnEnd};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::path_display::PathDisplay;
use pollux_domain::terminal_text::{one_line, plain, visible};
use pollux_host::{Prepared, Said, VERSION};
use pollux_output::Console;

use self::keyboard::Keyboard;
use super::choice::{Choice, ListEvent};
use super::front_end::{FrontEnd, Pending};
use super::input::Input;
use crate::presentation::path_display;

pub(super) struct Lines {
    console: Console,
    keyboard: Keyboard,
    /// Prompts that were typed before the model was done.
    ahead: VecDeque<String>,
    /// The same, of what is looked at only when the next prompt is awaited.
    later: VecDeque<String>,
    leaving: bool,
    /// The list that is put next.
    presented: Option<Choice>,
    /// Where paths are seen from.
    paths: PathDisplay,
    /// The sandbox in force.
    sandbox: String,
    /// The model's answer has begun.
    speaking: bool,
}

impl Lines {
    pub(super) fn open(console: Console) -> io::Result<Self> {
        let keyboard = Keyboard::open()?;
        let (ahead, later) = (VecDeque::new(), VecDeque::new());
        Ok(Self {
            console,
            keyboard,
            ahead,
            later,
            leaving: false,
            presented: None,
            paths: PathDisplay::default(),
            sandbox: String::new(),
            speaking: false,
        })
    }

    /// The approval mode in words; the one that asks for nothing says what confines it.
    fn mode(&self, mode: ApprovalMode) -> String {
        match mode {
            ApprovalMode::Yolo if self.sandbox == "no sandbox" => "Mode yolo, no sandbox".to_owned(),
            ApprovalMode::Yolo => format!("Mode yolo, sandbox {}", self.sandbox),
            mode => format!("Mode {mode}"),
        }
    }

    async fn line(&mut self, question: &str, secret: bool) -> Option<String> {
        let before = self.keyboard.typed_before();
        self.ahead.extend(before);
        // Before the question: some answer at once.
        let _unseen = secret.then(keyboard::Unseen::begin);
        show(&visible(question));
        self.keyboard.line().await
    }
}

impl FrontEnd for Lines {
    fn console(&mut self) -> &mut Console {
        &mut self.console
    }

    fn greet(&mut self, turn: &Prepared<'_>, mode: ApprovalMode) {
        self.paths = path_display(turn.loaded);
        self.sandbox = turn.sandbox.in_force(&turn.loaded.env).name();
        let mode = self.mode(mode);
        self.note(&format!("Pollux {VERSION}. {mode}. /help lists commands; /quit leaves."));
    }

    fn event(&mut self, event: &Event) {
        if let Event::HookRan(report) = event {
            self.console.export(event);
            if let Some(line) = words::hook(report) {
                self.console.note(&line);
            }
            return;
        }
        match event {
            // Who listens must hear who speaks.
            Event::Text(text) if !self.speaking && !text.trim().is_empty() => {
                self.speaking = true;
                show("Model: ");
            }
            Event::StepCommitted | Event::AttemptDiscarded(_) | Event::TurnEnded(_) => self.speaking = false,
            _ => {}
        }
        let _ = self.console.take(event);
        match event {
            Event::ModelChanged(model) => self.console.note(&format!("Model {}", one_line(model))),
            Event::ModeChanged { mode, .. } => {
                let line = self.mode(*mode);
                self.console.note(&line);
            }
            Event::CallFinished(report) => self.console.note(&words::call(report, &self.paths)),
            Event::Compressed(done) => {
                self.console.note(&words::compressed(done.tokens_before, done.tokens_after, done.status));
            }
            _ => {}
        }
    }

    fn note(&mut self, text: &str) {
        self.console.note(text);
    }

    fn remember(&mut self, said: Vec<Said>) {
        said.iter().for_each(|said| show(&words::said(said)));
    }

    fn sequence(&mut self, sequence: &str) {
        show(sequence);
    }

    fn over(&mut self, end: &TurnEnd) {
        show("\n");
        if let Some(line) = words::end(end) {
            self.console.note(&line);
        }
        // Whoever stops a turn wants silence: what waited for its end is shown and not sent.
        if matches!(end, TurnEnd::Cancelled) {
            for typed in self.ahead.drain(..).chain(self.later.drain(..)) {
                self.console.note(&format!("Not sent: {}", one_line(&typed)));
            }
        }
    }

    fn ready(&mut self) {
        self.ahead.append(&mut self.later);
        if self.ahead.is_empty() {
            show(&format!("{PROMPT}{}", visible(self.keyboard.begun())));
        }
    }

    fn confined(&mut self, turn: &Prepared<'_>, _model: &str) {
        self.sandbox = turn.sandbox.in_force(&turn.loaded.env).name();
    }

    fn begin_shell(&mut self, _command: &str) -> Box<dyn Fn(&str) + Send + Sync> {
        Box::new(|text: &str| show(&plain(text)))
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

    fn say_first(&mut self, prompt: String) {
        self.ahead.push_back(prompt);
    }

    fn put_back(&mut self, input: Input) {
        match input {
            Input::Said(text) => self.later.push_back(text),
            Input::Leave => self.leaving = true,
            _ => {}
        }
    }

    fn ask<'a>(&'a mut self, request: &'a ApprovalRequest) -> Option<Pending<'a, Answer>> {
        Some(Box::pin(self.put_request(request)))
    }

    fn entry<'a>(&'a mut self, question: &'a str, secret: bool) -> Pending<'a, Option<String>> {
        Box::pin(self.line(question, secret))
    }

    fn agrees<'a>(&'a mut self, question: &'a str) -> Pending<'a, bool> {
        Box::pin(async move { self.says_yes(&format!("{question} (yes or no): ")).await })
    }

    fn present(&mut self, choice: Choice) {
        self.presented = Some(choice);
    }

    fn list_event(&mut self) -> Pending<'_, Option<ListEvent>> {
        Box::pin(async move { self.put_presented().await.map(ListEvent::Chosen) })
    }

    fn is_broken(&self) -> bool {
        self.console.is_broken()
    }

    fn leave(self: Box<Self>, _signalled: bool, ended: Result<(), Failure>) -> ExitKind {
        match ended {
            Ok(()) => ExitKind::Success,
            Err(failure) => self.console.fail(&failure),
        }
    }
}

/// What stands before the person's own words.
const PROMPT: &str = "User: ";

/// Prints at once, without a line end.
fn show(text: &str) {
    let mut out = io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
