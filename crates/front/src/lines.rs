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

use pollux_domain::approval::ApprovalMode;
use pollux_domain::event::{Event, TurnEnd};
use pollux_domain::terminal_text::{one_line, visible};
use pollux_output::Console;
use pollux_tui::places::Places;

use self::keyboard::Keyboard;
pub(super) use self::words::said;
use super::choice::Choice;
use super::input::Input;

pub(super) struct Lines {
    pub(super) console: Console,
    keyboard: Keyboard,
    /// Prompts that were typed before the model was done.
    pub(super) ahead: VecDeque<String>,
    /// The same, of what is looked at only when the next prompt is awaited.
    pub(super) later: VecDeque<String>,
    pub(super) leaving: bool,
    /// The list that is put next.
    pub(super) presented: Option<Choice>,
    /// Where paths are seen from.
    pub(super) places: Places,
    /// The sandbox in force.
    pub(super) sandbox: String,
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
            places: Places::default(),
            sandbox: String::new(),
            speaking: false,
        })
    }

    pub(super) fn event(&mut self, event: &Event) {
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
            Event::CallFinished(report) => self.console.note(&words::call(report, &self.places)),
            Event::Compressed(done) => {
                self.console.note(&words::compressed(done.tokens_before, done.tokens_after, done.status));
            }
            _ => {}
        }
    }

    pub(super) fn over(&mut self, end: &TurnEnd) {
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

    /// The approval mode in words; the one that asks for nothing says what confines it.
    pub(super) fn mode(&self, mode: ApprovalMode) -> String {
        match mode {
            ApprovalMode::Yolo if self.sandbox == "no sandbox" => "Mode yolo, no sandbox".to_owned(),
            ApprovalMode::Yolo => format!("Mode yolo, sandbox {}", self.sandbox),
            mode => format!("Mode {mode}"),
        }
    }

    pub(super) fn ready(&mut self) {
        self.ahead.append(&mut self.later);
        if self.ahead.is_empty() {
            show(&format!("{PROMPT}{}", visible(self.keyboard.begun())));
        }
    }

    pub(super) async fn input(&mut self) -> Input {
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
    }

    pub(super) async fn line(&mut self, question: &str, secret: bool) -> Option<String> {
        let before = self.keyboard.typed_before();
        self.ahead.extend(before);
        // Before the question: some answer at once.
        let _unseen = secret.then(keyboard::Unseen::begin);
        show(&visible(question));
        self.keyboard.line().await
    }
}

/// What stands before the person's own words.
const PROMPT: &str = "User: ";

/// Prints at once, without a line end.
pub(super) fn show(text: &str) {
    let mut out = io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
