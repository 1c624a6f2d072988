//! The output of plain lines: events and notes as text that can be read aloud.
//!
//! It only prints; reading and questions are in the modules next to it. A recorded event log gives the same output as the
//! session it comes from.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use pollux_domain::approval::ApprovalMode;
use pollux_domain::event::{Event, TurnEnd};
use pollux_domain::path_display::PathDisplay;
use pollux_domain::sync::Locked as _;
use pollux_domain::terminal_text::one_line;
use pollux_host::HistoryItem;
use pollux_output::Console;

use super::words;

/// Standard output, written at once and without a line end of its own.
#[derive(Clone)]
pub(super) struct LineOutput(Arc<Mutex<Box<dyn Write + Send>>>);

impl LineOutput {
    pub(super) fn of_process() -> Self {
        Self::new(Box::new(io::stdout()))
    }

    pub(super) fn new(out: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Mutex::new(out)))
    }

    pub(super) fn show(&self, text: &str) {
        let mut out = self.0.locked();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

/// Prints a conversation.
pub(super) struct LinePrinter {
    pub(super) console: Console,
    pub(super) out: LineOutput,
    pub(super) paths: PathDisplay,
    /// The sandbox in force.
    pub(super) sandbox: String,
    /// The model's answer has begun.
    speaking: bool,
}

impl LinePrinter {
    pub(super) fn new(console: Console, out: LineOutput) -> Self {
        Self { console, out, paths: PathDisplay::default(), sandbox: String::new(), speaking: false }
    }

    /// The approval mode; yolo mode is named with its sandbox.
    pub(super) fn mode(&self, mode: ApprovalMode) -> String {
        match mode {
            ApprovalMode::Yolo if self.sandbox == "no sandbox" => "Mode yolo, no sandbox".to_owned(),
            ApprovalMode::Yolo => format!("Mode yolo, sandbox {}", self.sandbox),
            mode => format!("Mode {mode}"),
        }
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
            // A listener must hear who speaks.
            Event::Text(text) if !self.speaking && !text.trim().is_empty() => {
                self.speaking = true;
                self.out.show("Model: ");
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

    pub(super) fn show_history(&self, said: &[HistoryItem]) {
        said.iter().for_each(|said| self.out.show(&words::said(said)));
    }

    pub(super) fn turn_ended(&mut self, end: &TurnEnd) {
        self.out.show("\n");
        if let Some(line) = words::end(end) {
            self.console.note(&line);
        }
    }
}
