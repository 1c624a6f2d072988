//! Output without a terminal interface: `text`, `json` and `stream-json` in two dialects.
//!
//! A [`Renderer`] folds the session's events. stdout carries the answer or the protocol and nothing else; notes and
//! errors for people go to stderr. It writes to the streams it is given and decides the exit code of a turn; it
//! neither opens streams nor asks questions.

mod answer;
mod denial;
mod ending;
mod gemini_cli;
mod json;
mod notes;
mod pollux;
mod run;
mod stream_json;
mod text;

use std::io::{self, Write};

use pollux_config::groups::{Dialect, OutputFormat};
use pollux_domain::approval::ApprovalMode;
use pollux_domain::event::{Event, TurnEnd};
use pollux_domain::exit::{ExitKind, Received};
use pollux_domain::failure::Failure;
use pollux_domain::redact::redacted;
use serde_json::Value;

use run::Run;
pub use run::Style;

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

impl Renderer {
    pub(crate) fn new(style: Style) -> Self {
        let form = match style.format {
            OutputFormat::Text => Form::Text(text::Text::default()),
            OutputFormat::Json => Form::Json,
            OutputFormat::StreamJson => Form::StreamJson(stream_json::StreamJson::default()),
        };
        Self { form, run: Run::new(style) }
    }

    /// The effective mode and sandbox, reported at the start.
    pub(crate) fn set_conditions(&mut self, mode: ApprovalMode, sandbox: Value) {
        self.run.conditions.insert("approvalMode".to_owned(), mode.to_string().into());
        self.run.conditions.insert("sandbox".to_owned(), sandbox);
    }

    /// Handles one event. Errors are those of `out`; errors of `err` are ignored.
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
        let debug = self.run.style.debug.then(|| notes::debug_line(event)).flatten();
        let silent = self.run.style.dialect == Dialect::GeminiCli && notes::is_silent_upstream(event);
        for line in notes::line(event, self.run.style.dialect).filter(|_| !silent).into_iter().chain(debug) {
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
        let run_error = ending::turn_error(end);
        self.run.close(end, err);
        let told_as_object = match &mut self.form {
            Form::Text(text) => text.finish(out).map(|()| false)?,
            Form::Json => json::finish(&self.run, end, run_error.as_ref(), exit, out, err)?,
            Form::StreamJson(stream) => {
                stream.finish(&self.run, end, run_error.as_ref(), out).map(|()| false)?
            }
        };
        if let Some(run_error) = run_error.filter(|_| !told_as_object) {
            let mut failure = Failure::new(exit, run_error.message);
            failure.hint = run_error.hint;
            let _ = failure.print(err, self.run.style.colour);
        }
        Ok(exit)
    }

    /// Begins the output of another turn of the same session.
    pub(crate) fn next_turn(&mut self) {
        self.run.next_turn();
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

/// Whether the reader of stdout closed it, which does not count as a failure.
pub(crate) fn is_broken_pipe(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

#[cfg(test)]
mod tests;
