//! A conversation in plain lines: nothing is redrawn, everything can be read aloud.
//!
//! Answers are typed as numbers or words. A line that was typed before a question stands is never taken as
//! its answer.

mod keyboard;
mod list;
mod question;
mod words;

use std::collections::VecDeque;
use std::io::{self, Write};

use pollux_domain::event::{Event, TurnEnd};
use pollux_domain::terminal_text::{one_line, visible};

pub(crate) use self::keyboard::Keyboard;
pub(super) use self::words::said;
use super::face::{Choice, Input};
use crate::console::Console;

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
}

impl Lines {
    pub(super) fn open(console: Console) -> io::Result<Self> {
        let keyboard = Keyboard::open()?;
        let (ahead, later) = (VecDeque::new(), VecDeque::new());
        Ok(Self { console, keyboard, ahead, later, leaving: false, presented: None })
    }

    pub(super) fn event(&mut self, event: &Event) {
        if let Event::HookRan(report) = event {
            self.console.export(event);
            if let Some(line) = words::hook(report) {
                self.console.note(&line);
            }
            return;
        }
        let _ = self.console.take(event);
        match event {
            Event::ModelChanged(model) => self.console.note(&format!("Model {}", one_line(model))),
            Event::ModeChanged(mode) => self.console.note(&format!("Mode {mode}")),
            Event::CallFinished(report) => self.console.note(&words::call(report)),
            Event::Compressed { tokens_before, tokens_after, status } => {
                self.console.note(&words::compressed(*tokens_before, *tokens_after, *status));
            }
            _ => {}
        }
    }

    pub(super) fn over(&mut self, end: &TurnEnd) {
        show("\n");
        if let Some(line) = words::end(end) {
            self.console.note(&line);
        }
    }

    pub(super) fn ready(&mut self) {
        self.ahead.append(&mut self.later);
        if self.ahead.is_empty() {
            show("> ");
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

/// Prints at once, without a line end.
pub(super) fn show(text: &str) {
    let mut out = io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
