//! `stream-json`: one JSON object per line, as events arrive.
//!
//! Decides which event becomes which line in either dialect, and in which order; the objects themselves are built in
//! `pollux.rs` and `gemini_cli.rs`.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use pollux_config::groups::Dialect;
use pollux_domain::JsonObject;
use pollux_domain::event::{CallReport, Event, NoticeCode, Severity, TurnEnd};
use pollux_domain::failure::Failure;
use pollux_domain::id::CallId;
use pollux_domain::model::Wait;
use pollux_domain::terminal_text::{self, plain};
use serde_json::Value;

use super::ending::{LOOP_CODE, RunError, failure_error};
use super::gemini_cli::Outcome;
use super::run::Run;
use super::{gemini_cli, pollux};

/// Calls whose results are held back: gemini-cli tells the results of a step together, in the order in
/// which the model asked.
#[derive(Debug, Default)]
pub(super) struct StreamJson {
    asked: Vec<(CallId, Option<Arc<CallReport>>)>,
}

impl StreamJson {
    pub(super) fn event(&mut self, run: &Run, event: &Event, out: &mut dyn Write) -> io::Result<()> {
        match run.style.dialect {
            Dialect::Pollux => pollux_line(run, event).map_or(Ok(()), |line| emit(&line, out)),
            Dialect::GeminiCli => self.upstream_event(run, event, out),
        }
    }

    fn upstream_event(&mut self, run: &Run, event: &Event, out: &mut dyn Write) -> io::Result<()> {
        let at = run.now();
        match event {
            Event::SessionReady { session, model, .. } => {
                emit(&gemini_cli::init(session.as_str(), model, at), out)
            }
            Event::PromptAccepted { typed, .. } | Event::Steered { typed, .. } => {
                emit(&gemini_cli::user_message(typed, at), out)
            }
            Event::Text(_) if !run.piece.is_empty() => {
                emit(&gemini_cli::assistant_delta(&run.piece, at), out)
            }
            Event::CallRequested(asked) => {
                self.asked.push((asked.call.clone(), None));
                emit(&gemini_cli::tool_use(&asked.call, &asked.name, &asked.args, at), out)
            }
            Event::CallFinished(report) => self.upstream_result(run, report, out),
            // Upstream repeats attempts without a word; text that is void must not stand, though.
            Event::AttemptDiscarded(discarded) if run.attempt_shown => {
                emit(&gemini_cli::error("warning", &discarded.sentence(), at), out)
            }
            Event::ModelFallback(fallback) => {
                emit(&gemini_cli::error("warning", &fallback.sentence(), at), out)
            }
            // Upstream's stream has no events about files and folders; stderr has the line.
            Event::Notice { severity: Severity::Warning, code: NoticeCode::Workspace, .. } => Ok(()),
            Event::Notice { severity, message, .. } => match severity {
                Severity::Info => Ok(()),
                Severity::Warning => emit(&gemini_cli::error("warning", &plain(message), at), out),
                Severity::Error => emit(&gemini_cli::error("error", &plain(message), at), out),
            },
            _ => Ok(()),
        }
    }

    fn upstream_result(
        &mut self,
        run: &Run,
        report: &Arc<CallReport>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        match self.asked.iter_mut().find(|(call, done)| *call == report.call && done.is_none()) {
            Some((_, done)) => *done = Some(Arc::clone(report)),
            None => return emit(&gemini_cli::tool_result(report, run.now()), out),
        }
        if self.asked.iter().all(|(_, done)| done.is_some()) { self.release(run, out) } else { Ok(()) }
    }

    fn release(&mut self, run: &Run, out: &mut dyn Write) -> io::Result<()> {
        for report in std::mem::take(&mut self.asked).into_iter().filter_map(|(_, done)| done) {
            emit(&gemini_cli::tool_result(&report, run.now()), out)?;
        }
        Ok(())
    }

    pub(super) fn finish(
        &mut self,
        run: &Run,
        end: &TurnEnd,
        run_error: Option<&RunError>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.release(run, out)?;
        match run.style.dialect {
            Dialect::Pollux => finish_pollux(run, run_error, out),
            Dialect::GeminiCli => finish_upstream(run, end, run_error, out),
        }
    }

    pub(super) fn fail(&mut self, run: &Run, failure: &Failure, out: &mut dyn Write) -> io::Result<()> {
        self.release(run, out)?;
        let run_error = failure_error(failure);
        match run.style.dialect {
            Dialect::Pollux => {
                emit(&pollux::error(&run_error.message, run_error.code, run.now()), out)?;
                emit(&pollux::result(&run.stats, Some(&run_error), run.now()), out)
            }
            // Before `init` upstream's stdout stays empty.
            Dialect::GeminiCli if run.session.is_none() => Ok(()),
            Dialect::GeminiCli => {
                let outcome = Outcome::Error {
                    class: run_error.upstream_class,
                    message: &run_error.message,
                    code: None,
                    details: &run_error.details,
                };
                emit(&gemini_cli::result(&outcome, &run.stats, Duration::ZERO, run.now()), out)
            }
        }
    }
}

fn pollux_line(run: &Run, event: &Event) -> Option<Value> {
    let at = run.now();
    match event {
        Event::SessionReady { session, resolved, .. } => {
            Some(pollux::init(session.as_str(), resolved, &run.conditions, at))
        },
        Event::PromptAccepted { typed, .. } | Event::Steered { typed, .. } => {
            Some(pollux::message("user", typed, false, at))
        }
        Event::Text(_) => (!run.piece.is_empty()).then(|| pollux::message("assistant", &run.piece, true, at)),
        Event::CallRequested(asked) => Some(pollux::tool_use(&asked.call, &asked.name, &asked.args, at)),
        Event::CallFinished(report) => Some(pollux::tool_result(report, at)),
        Event::Waiting(wait) => Some(pollux::error(&wait.sentence(), wait_code(wait), at)),
        Event::AttemptDiscarded(discarded) => {
            Some(pollux::error(&discarded.sentence(), "STREAM_RETRY", at))
        }
        Event::ModelFallback(fallback) => {
            Some(pollux::error(&fallback.sentence(), "MODEL_FALLBACK", at))
        }
        Event::Activity(activity) => Some(pollux::activity(activity, at)),
        Event::Notice { severity: Severity::Warning | Severity::Error, code, message }
        // A reader of only this stream must learn why there is no answer.
        | Event::Notice { severity: Severity::Info, code: code @ NoticeCode::Halted, message } => {
            Some(pollux::error(&plain(message), notice_code(*code), at))
        }
        Event::Notice { severity: Severity::Info, code: code @ NoticeCode::RecordingResumed, message } => {
            Some(pollux::error(&plain(message), notice_code(*code), at))
        }
        // It takes back the warning.
        Event::Notice { severity: Severity::Info, code: NoticeCode::Durability, message } => {
            Some(pollux::error(&plain(message), "SYNC_RECOVERED", at))
        }
        _ => None,
    }
}

fn wait_code(wait: &Wait) -> &'static str {
    match wait.status {
        Some(429) => "RATE_LIMIT",
        Some(_) => "SERVER_ERROR",
        None => "NETWORK_ERROR",
    }
}

fn notice_code(code: NoticeCode) -> &'static str {
    match code {
        NoticeCode::LoopDetected => LOOP_CODE,
        NoticeCode::RecordingStopped => "RECORDING_STOPPED",
        NoticeCode::RecordingResumed => "RECORDING_RESUMED",
        NoticeCode::SessionFile => "SESSION_FILE",
        NoticeCode::Durability => "SYNC_FAILED",
        NoticeCode::ContextFile => "CONTEXT_FILE",
        NoticeCode::Policy => "POLICY",
        NoticeCode::Workspace => "WORKSPACE",
        NoticeCode::ToolOutput => "TOOL_OUTPUT",
        NoticeCode::Model => "MODEL",
        NoticeCode::Rewind => "REWIND",
        NoticeCode::Hook => "HOOK",
        NoticeCode::Halted => "HALTED_BY_HOOK",
        NoticeCode::Server => "MCP_SERVER",
        NoticeCode::Agent => "AGENT",
        NoticeCode::Extension => "EXTENSION",
        NoticeCode::Memory => "MEMORY",
        NoticeCode::Title => "TITLE",
        NoticeCode::Update => "UPDATE",
        NoticeCode::Budget => "BUDGET",
        NoticeCode::Crashed => "CRASHED",
    }
}

fn finish_pollux(run: &Run, run_error: Option<&RunError>, out: &mut dyn Write) -> io::Result<()> {
    if let Some(message) = &run.loop_message {
        emit(&pollux::error(message, LOOP_CODE, run.now()), out)?;
    }
    // A reader that knows only `success` learns the reason from this event.
    if let Some(run_error) = run_error {
        emit(&pollux::error(&run_error.message, run_error.code, run.now()), out)?;
    }
    emit(&pollux::result(&run.stats, run_error, run.now()), out)
}

fn finish_upstream(
    run: &Run,
    end: &TurnEnd,
    run_error: Option<&RunError>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let now = run.now();
    let elapsed = u64::try_from(now.millis() - run.started.millis()).unwrap_or(0);
    let lasted = Duration::from_millis(elapsed);
    let message = run_error.map(|run_error| run_error.message.as_str()).unwrap_or_default();
    let none = JsonObject::new();
    let details = run_error.map_or(&none, |run_error| &run_error.details);
    let (outcome, lasted) = match end {
        TurnEnd::Finished(_) => (Outcome::Success, lasted),
        TurnEnd::Loop(_) => {
            if let Some(message) = &run.loop_message {
                emit(&gemini_cli::error("warning", message, now), out)?;
            }
            (Outcome::Success, lasted)
        }
        TurnEnd::InvalidReply { .. } => {
            emit(&gemini_cli::error("error", message, now), out)?;
            (Outcome::Reported, lasted)
        }
        TurnEnd::Overflow { .. } => {
            emit(&gemini_cli::error("error", message, now), out)?;
            (Outcome::Error { class: "Error", message, code: None, details }, Duration::ZERO)
        }
        TurnEnd::Failed(error) => {
            // Upstream's word for every failure of the API in this format.
            let class = run_error.filter(|error| !error.details.is_empty());
            let class = class.map_or("unknown", |error| error.upstream_class);
            (Outcome::Error { class, message, code: error.status, details }, Duration::ZERO)
        }
        TurnEnd::Cancelled | TurnEnd::TurnLimit | TurnEnd::FatalTool { .. } => {
            let class = run_error.map_or("Error", |run_error| run_error.upstream_class);
            (Outcome::Error { class, message, code: None, details }, Duration::ZERO)
        }
    };
    emit(&gemini_cli::result(&outcome, &run.stats, lasted, now), out)
}

/// One event is one write, so that a reader never sees half a line.
fn emit(event: &Value, out: &mut dyn Write) -> io::Result<()> {
    let mut line = terminal_text::json(event.to_string());
    line.push('\n');
    out.write_all(line.as_bytes())?;
    out.flush()
}
