//! Output without a terminal interface: `text`, `json` and `stream-json` in two dialects.
//!
//! A [`Renderer`] folds the session's events. stdout carries the answer or the protocol and nothing else;
//! everything said to people goes to stderr.

mod answer;
mod ending;
mod fatal;
mod gemini_cli;
mod json;
mod notes;
mod pollux;
mod stats;
mod stream_json;
mod text;

use std::io::{self, Write};
use std::sync::Arc;

use answer::Answer;
use ending::Trouble;
use pollux_config::groups::{Dialect, OutputFormat};
use pollux_domain::JsonObject;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::event::{Event, NoticeCode, TurnEnd};
use pollux_domain::exit::{ExitKind, Received};
use pollux_domain::failure::{Colour, Failure};
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::{Stripper, plain};
use pollux_domain::time::{Clock, Timestamp};
use serde_json::Value;

pub use stats::{ApiCounts, Decisions, ModelStats, Stats, ToolTotals, millis};

/// How a run's output is written.
#[derive(Clone)]
pub struct Style {
    pub format: OutputFormat,
    pub dialect: Dialect,
    /// Whether control sequences of the model pass.
    pub raw: bool,
    pub colour: Colour,
    pub clock: Arc<dyn Clock>,
    /// Whether `text` also tells what tools did, as the tour does.
    pub shows_calls: bool,
    /// Whether stderr also tells what happens inside.
    pub debug: bool,
}

/// Writes one run.
pub(crate) struct Renderer {
    form: Form,
    run: Run,
}

enum Form {
    Text(text::Text),
    Json,
    StreamJson(stream_json::StreamJson),
}

/// What every format needs to know of the run so far.
struct Run {
    style: Style,
    started: Timestamp,
    session: Option<String>,
    filter: Stripper,
    /// The filtered piece of the [`Event::Text`] under way.
    piece: String,
    /// Whether something of the attempt under way was shown.
    attempt_shown: bool,
    answer: Answer,
    stats: Stats,
    warnings: Vec<String>,
    /// The approval mode and the sandbox in force, for programs.
    conditions: JsonObject,
    /// The last call, if it failed.
    failed_call: Option<Trouble>,
    /// The message of the loop that ended the turn, unless a notice brought it before.
    loop_message: Option<String>,
}

impl Renderer {
    pub(crate) fn new(style: Style) -> Self {
        let form = match style.format {
            OutputFormat::Text => Form::Text(text::Text::default()),
            OutputFormat::Json => Form::Json,
            OutputFormat::StreamJson => Form::StreamJson(stream_json::StreamJson::default()),
        };
        Self { form, run: Run::new(style) }
    }

    /// What is really in force, to be told with the beginning of the run.
    pub(crate) fn set_conditions(&mut self, mode: ApprovalMode, sandbox: Value) {
        self.run.conditions.insert("approvalMode".to_owned(), mode.to_string().into());
        self.run.conditions.insert("sandbox".to_owned(), sandbox);
    }

    /// Takes one event. An error is one of `out`; nobody can be told when `err` is gone.
    pub(crate) fn event(
        &mut self,
        event: &Event,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> io::Result<()> {
        self.run.before(event);
        match &mut self.form {
            Form::Text(text) => text.event(&self.run, event, out)?,
            Form::Json => {}
            Form::StreamJson(stream) => stream.event(&self.run, event, out)?,
        }
        // After stdout: where both go to one terminal, the text has ended its line by now.
        let inside = self.run.style.debug.then(|| notes::inside(event)).flatten();
        let silent = self.run.style.dialect == Dialect::GeminiCli && notes::is_ours_alone(event);
        for line in notes::line(event).filter(|_| !silent).into_iter().chain(inside) {
            let _ = writeln!(err, "{}", redacted(&line));
        }
        self.run.after(event);
        Ok(())
    }

    /// Ends the output of a turn and says with which code the program is to exit.
    pub(crate) fn finish(
        &mut self,
        end: &TurnEnd,
        signal: Option<Received>,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> io::Result<ExitKind> {
        let exit = ending::exit_kind(end, self.run.style.dialect, signal);
        let trouble = ending::trouble(end);
        self.run.close(end, err);
        let told_as_object = match &mut self.form {
            Form::Text(text) => text.finish(out).map(|()| false)?,
            Form::Json => json::finish(&self.run, end, trouble.as_ref(), exit, out, err)?,
            Form::StreamJson(stream) => {
                stream.finish(&self.run, end, trouble.as_ref(), out).map(|()| false)?
            }
        };
        if let Some(trouble) = trouble.filter(|_| !told_as_object) {
            let mut failure = Failure::new(exit, trouble.message);
            failure.hint = trouble.hint.map(str::to_owned);
            let _ = failure.print(err, self.run.style.colour);
        }
        Ok(exit)
    }

    /// Ends the output of a run that failed outside a turn, for instance before it began.
    pub(crate) fn fail(
        &mut self,
        failure: &Failure,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> io::Result<ExitKind> {
        let told_as_object = match &mut self.form {
            Form::Text(text) => text.finish(out).map(|()| false)?,
            Form::Json => json::fail(&self.run, failure, out, err)?,
            Form::StreamJson(stream) => stream.fail(&self.run, failure, out).map(|()| false)?,
        };
        if !told_as_object {
            let _ = failure.print(err, self.run.style.colour);
        }
        Ok(failure.exit)
    }
}

impl Run {
    fn new(style: Style) -> Self {
        Self {
            started: style.clock.now(),
            style,
            session: None,
            filter: Stripper::default(),
            piece: String::new(),
            attempt_shown: false,
            answer: Answer::default(),
            stats: Stats::default(),
            warnings: Vec::new(),
            conditions: JsonObject::new(),
            failed_call: None,
            loop_message: None,
        }
    }

    fn now(&self) -> Timestamp {
        self.style.clock.now()
    }

    fn before(&mut self, event: &Event) {
        self.stats.fold(event);
        match event {
            Event::SessionReady { session, .. } => self.session = Some(session.as_str().to_owned()),
            Event::Text(text) => {
                self.piece = if self.style.raw { text.clone() } else { self.filter.push(text) };
                self.answer.push(&self.piece);
            }
            Event::CallFinished(report) => {
                self.failed_call = report.outcome.failure().map(ending::call_trouble);
            }
            Event::Notice { code: NoticeCode::LoopDetected | NoticeCode::Halted, message, .. } => {
                self.warnings.push(plain(message).into_owned());
            }
            _ => {}
        }
    }

    fn after(&mut self, event: &Event) {
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

    /// The turn is over: a loop leaves its warning, and text of a finished turn counts.
    fn close(&mut self, end: &TurnEnd, err: &mut dyn Write) {
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

/// A failure outside a turn, in the words of our dialect.
fn failure_trouble(failure: &Failure) -> Trouble {
    let kind = match failure.exit {
        ExitKind::Auth => "AUTH_ERROR",
        ExitKind::Input => "INPUT_ERROR",
        ExitKind::Sandbox => "SANDBOX_ERROR",
        ExitKind::Config => "CONFIG_ERROR",
        ExitKind::TurnLimit => "TURN_LIMIT",
        ExitKind::Tool => "TOOL_ERROR",
        ExitKind::Untrusted => "UNTRUSTED_FOLDER",
        ExitKind::Cancelled | ExitKind::Signal(_) => "CANCELLED",
        ExitKind::Success | ExitKind::Failure => "ERROR",
    };
    Trouble {
        kind,
        code: kind,
        upstream_class: "Error",
        message: failure.message(),
        status: None,
        hint: None,
    }
}

/// Whether the reader of stdout went away, which is no failure.
pub(crate) fn is_broken_pipe(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

#[cfg(test)]
mod tests;
