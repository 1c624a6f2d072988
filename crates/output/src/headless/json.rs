//! `json`: one object when everything is over.

use std::io::{self, Write};

use pollux_config::groups::Dialect;
use pollux_domain::event::TurnEnd;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::terminal_text;
use serde_json::Value;

use super::ending::{Trouble, failure_trouble};
use super::run::Run;
use super::{gemini_cli, pollux};

/// Returns whether stderr got an object that says it all.
pub(super) fn finish(
    run: &Run,
    end: &TurnEnd,
    trouble: Option<&Trouble>,
    exit: ExitKind,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<bool> {
    match (run.style.dialect, trouble) {
        (Dialect::Pollux, trouble) => {
            // The turn itself may have ended well: the exit code says so.
            let trouble = trouble.or(run.failed_call.as_ref());
            let document = pollux::document(run.answer.whole(), &run.stats, trouble, &run.warnings);
            write_line(&document, out)?;
            Ok(false)
        }
        (Dialect::GeminiCli, Some(trouble)) if !matches!(end, TurnEnd::InvalidReply { .. }) => {
            let _ = write_line(&gemini_cli::fatal(run.session.as_deref(), trouble, exit), err);
            Ok(true)
        }
        (Dialect::GeminiCli, invalid) => {
            let session = run.session.as_deref().unwrap_or_default();
            let response = if invalid.is_some() { "" } else { run.answer.last_step() };
            let invalid = invalid.map(|trouble| trouble.message.as_str());
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
    let trouble = failure_trouble(failure);
    match run.style.dialect {
        Dialect::Pollux => {
            let document = pollux::document(run.answer.whole(), &run.stats, Some(&trouble), &run.warnings);
            write_line(&document, out)?;
            Ok(false)
        }
        Dialect::GeminiCli => {
            let _ = write_line(&gemini_cli::fatal(run.session.as_deref(), &trouble, failure.exit), err);
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
