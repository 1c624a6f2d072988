//! `json`: one object at the end of the run, on stdout, or on stderr where upstream prints a failure there.
//!
//! The keys are the dialect's (`pollux.rs`, `gemini_cli.rs`); events themselves print nothing in this format.

use std::io::{self, Write};

use pollux_config::groups::Dialect;
use pollux_domain::event::TurnEnd;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::id::SessionId;
use pollux_domain::terminal_text;
use serde_json::Value;

use super::ending::{RunError, failure_error};
use super::run::Run;
use super::{gemini_cli, pollux};

/// Returns whether stderr got an object that says it all.
pub(super) fn finish(
    run: &Run,
    end: &TurnEnd,
    run_error: Option<&RunError>,
    exit: ExitKind,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<bool> {
    match (run.style.dialect, run_error) {
        (Dialect::Pollux, run_error) => {
            // The turn itself may have ended well: the exit code says so.
            let run_error = run_error.or(run.failed_call.as_ref());
            let document = pollux::document(run.answer.whole(), &run.stats, run_error, &run.warnings);
            write_line(&document, out)?;
            Ok(false)
        }
        (Dialect::GeminiCli, Some(run_error)) if !matches!(end, TurnEnd::InvalidReply { .. }) => {
            let _ = write_line(&gemini_cli::fatal(run.session.as_deref(), run_error, exit), err);
            Ok(true)
        }
        (Dialect::GeminiCli, invalid) => {
            let session = run.session.as_deref().unwrap_or_default();
            let response = if invalid.is_some() { "" } else { run.answer.last_step() };
            let invalid = invalid.map(|run_error| run_error.message.as_str());
            let document = gemini_cli::document(session, response, &run.stats, invalid, &run.warnings);
            // Upstream ends without a newline.
            out.write_all(pretty(&document).as_bytes())?;
            out.flush()?;
            Ok(false)
        }
    }
}

/// Returns whether stderr got an object that says it all.
pub(super) fn fail(
    run: &Run,
    failure: &Failure,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<bool> {
    let run_error = failure_error(failure);
    match run.style.dialect {
        Dialect::Pollux => {
            let document = pollux::document(run.answer.whole(), &run.stats, Some(&run_error), &run.warnings);
            write_line(&document, out)?;
            Ok(false)
        }
        Dialect::GeminiCli => {
            // Upstream's sessions have their id before anything can fail.
            let session = run.session.clone().unwrap_or_else(|| SessionId::random().to_string());
            let _ = write_line(&gemini_cli::fatal(Some(&session), &run_error, failure.exit), err);
            Ok(true)
        }
    }
}

fn write_line(document: &Value, to: &mut dyn Write) -> io::Result<()> {
    let mut text = pretty(document);
    text.push('\n');
    to.write_all(text.as_bytes())?;
    to.flush()
}

fn pretty(document: &Value) -> String {
    terminal_text::json(format!("{document:#}"))
}
