//! The state of a run that every format reads: session, text, answer, counts and warnings.
//!
//! [`Run::before`] and [`Run::after`] fold an event around the format's own handling of it. Nothing is written here
//! except the warning that a loop leaves on stderr.

use std::io::Write;
use std::sync::Arc;

use pollux_config::groups::{Dialect, OutputFormat};
use pollux_domain::JsonObject;
use pollux_domain::event::{Event, NoticeCode, TurnEnd};
use pollux_domain::failure::Colour;
use pollux_domain::terminal_text::{Stripper, plain};
use pollux_domain::time::{Clock, Timestamp};

use super::answer::AnswerText;
use super::ending::{self, RunError};
use crate::stats::Stats;

/// How a run's output is written.
#[derive(Clone)]
pub struct Style {
    pub format: OutputFormat,
    pub dialect: Dialect,
    /// Whether control sequences in the model's text are kept.
    pub raw: bool,
    pub colour: Colour,
    pub clock: Arc<dyn Clock>,
    /// Whether `text` also lists tool calls, as the demo does.
    pub shows_calls: bool,
    /// Whether stderr also gets debug output.
    pub debug: bool,
}

/// The run so far.
pub(super) struct Run {
    pub(super) style: Style,
    pub(super) started: Timestamp,
    pub(super) session: Option<String>,
    filter: Stripper,
    /// The filtered piece of the [`Event::Text`] under way.
    pub(super) piece: String,
    /// Whether something of the attempt under way was shown.
    pub(super) attempt_shown: bool,
    pub(super) answer: AnswerText,
    pub(super) stats: Stats,
    pub(super) warnings: Vec<String>,
    /// The approval mode and the sandbox in force, for programs.
    pub(super) conditions: JsonObject,
    /// The last call, if it failed.
    pub(super) failed_call: Option<RunError>,
    /// The message of the loop that ended the turn, unless a notice brought it before.
    pub(super) loop_message: Option<String>,
}

impl Run {
    pub(super) fn new(style: Style) -> Self {
        Self {
            started: style.clock.now(),
            style,
            session: None,
            filter: Stripper::default(),
            piece: String::new(),
            attempt_shown: false,
            answer: AnswerText::default(),
            stats: Stats::default(),
            warnings: Vec::new(),
            conditions: JsonObject::new(),
            failed_call: None,
            loop_message: None,
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.style.clock.now()
    }

    pub(super) fn before(&mut self, event: &Event) {
        self.stats.fold(event);
        match event {
            Event::SessionReady { session, .. } => self.session = Some(session.as_str().to_owned()),
            Event::Text(text) => {
                self.piece = if self.style.raw { text.clone() } else { self.filter.push(text) };
                self.answer.push(&self.piece);
            }
            Event::CallFinished(report) => self.failed_call = ending::call_error(report),
            Event::Notice { code: NoticeCode::LoopDetected | NoticeCode::Halted, message, .. } => {
                self.warnings.push(plain(message).into_owned());
            }
            _ => {}
        }
    }

    pub(super) fn after(&mut self, event: &Event) {
        match event {
            Event::Text(_) => self.attempt_shown |= !self.piece.is_empty(),
            Event::AttemptDiscarded(_) => {
                self.answer.discard();
                self.next_attempt();
            }
            Event::StepCommitted => {
                self.answer.commit();
                self.next_attempt();
            }
            _ => {}
        }
    }

    fn next_attempt(&mut self) {
        self.attempt_shown = false;
        self.filter = Stripper::default();
    }

    /// Forgets the turn that is over; the session goes on.
    pub(super) fn next_turn(&mut self) {
        self.started = self.now();
        self.answer = AnswerText::default();
        self.stats = Stats::default();
        self.warnings.clear();
        self.failed_call = None;
        self.loop_message = None;
        self.next_attempt();
    }

    /// The turn is over: a loop leaves its warning, and text of a finished turn counts.
    pub(super) fn close(&mut self, end: &TurnEnd, err: &mut dyn Write) {
        match end {
            TurnEnd::Finished(_) | TurnEnd::Loop(_) if self.answer.has_open_text() => self.answer.commit(),
            _ => {}
        }
        if let TurnEnd::Loop(message) = end {
            let message = plain(message).into_owned();
            if !self.warnings.contains(&message) {
                let _ = writeln!(err, "Warning: {message}");
                self.warnings.push(message.clone());
                self.loop_message = Some(message);
            }
        }
    }
}
