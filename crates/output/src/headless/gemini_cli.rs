//! The `gemini-cli` dialect: upstream's keys in upstream's order, so that programs written for it work unchanged.
//!
//! Functions from values to JSON objects for `json` and `stream-json`; which object is printed when, they decide.

use std::time::Duration;

use pollux_domain::event::CallReport;
use pollux_domain::exit::ExitKind;
use pollux_domain::id::CallId;
use pollux_domain::model::Usage;
use pollux_domain::terminal_text::plain;
use pollux_domain::tool::Display;
use pollux_domain::{JsonObject, time::Timestamp};
use serde_json::{Map, Value, json};

use super::ending::RunError;
use crate::stats::{ApiCounts, Decisions, Stats, ToolTotals, millis};

pub(crate) fn init(session: &str, model: &str, at: Timestamp) -> Value {
    json!({"type": "init", "timestamp": at.to_iso(), "session_id": session, "model": model})
}

pub(crate) fn user_message(content: &str, at: Timestamp) -> Value {
    json!({"type": "message", "timestamp": at.to_iso(), "role": "user", "content": content})
}

pub(crate) fn assistant_delta(content: &str, at: Timestamp) -> Value {
    json!({"type": "message", "timestamp": at.to_iso(), "role": "assistant", "content": content, "delta": true})
}

pub(crate) fn tool_use(call: &CallId, name: &str, args: &JsonObject, at: Timestamp) -> Value {
    json!({"type": "tool_use", "timestamp": at.to_iso(), "tool_name": name, "tool_id": call.as_str(), "parameters": args})
}

pub(crate) fn tool_result(report: &CallReport, at: Timestamp) -> Value {
    let failed = !report.outcome.succeeded() && report.outcome.run_failure().is_none();
    let mut event = Map::new();
    event.insert("type".into(), "tool_result".into());
    event.insert("timestamp".into(), at.to_iso().into());
    event.insert("tool_id".into(), report.call.as_str().into());
    event.insert("status".into(), if failed { "error" } else { "success" }.into());
    if let Some(output) = output(report) {
        event.insert("output".into(), output.into());
    }
    if failed {
        let (kind, message) = match report.outcome.failure() {
            Some(failure) => (failure.kind.as_str(), plain(&failure.message).into_owned()),
            None => ("TOOL_EXECUTION_ERROR", "The call was cancelled.".to_owned()),
        };
        event.insert("error".into(), json!({"type": kind, "message": message}));
    }
    Value::Object(event)
}

/// Only texts are shown; a file that was read whole is an empty one.
fn output(report: &CallReport) -> Option<String> {
    let failure = report.outcome.failure().filter(|failure| failure.run.is_none());
    match (&report.display, failure) {
        (Display::Text(text), _) => Some(plain(text).into_owned()),
        (Display::Nothing, Some(failure)) => Some(plain(&failure.message).into_owned()),
        (Display::Nothing, None) => Some(String::new()),
        (Display::Diff(_) | Display::List { .. } | Display::Agent(_) | Display::Todos(_), _) => None,
    }
}

pub(crate) fn error(severity: &str, message: &str, at: Timestamp) -> Value {
    json!({"type": "error", "timestamp": at.to_iso(), "severity": severity, "message": message})
}

/// How a run ended.
pub(crate) enum Outcome<'a> {
    Success,
    /// An error that was told before, without an `error` key.
    Reported,
    /// `code` is the HTTP status; upstream has no such key, ours says what the exit code cannot.
    Error {
        class: &'a str,
        message: &'a str,
        code: Option<u16>,
        /// The limit that was reached; upstream has none.
        details: &'a JsonObject,
    },
}

pub(crate) fn result(outcome: &Outcome<'_>, stats: &Stats, lasted: Duration, at: Timestamp) -> Value {
    let mut event = Map::new();
    event.insert("type".into(), "result".into());
    event.insert("timestamp".into(), at.to_iso().into());
    let status = if matches!(outcome, Outcome::Success) { "success" } else { "error" };
    event.insert("status".into(), status.into());
    if let Outcome::Error { class, message, code, details } = outcome {
        let mut error = Map::new();
        error.insert("type".into(), (*class).into());
        error.insert("message".into(), (*message).into());
        if let Some(code) = code {
            error.insert("code".into(), (*code).into());
        }
        error.extend((*details).clone());
        event.insert("error".into(), Value::Object(error));
    }
    event.insert("stats".into(), stream_stats(stats, lasted));
    Value::Object(event)
}

fn stream_stats(stats: &Stats, lasted: Duration) -> Value {
    let mut object = stream_tokens(stats.usage());
    object.insert("duration_ms".into(), millis(lasted).into());
    object.insert("tool_calls".into(), stats.tools.calls.into());
    let models: JsonObject = stats
        .models
        .iter()
        .map(|(name, model)| (name.clone(), Value::Object(stream_tokens(model.api.usage))))
        .collect();
    object.insert("models".into(), Value::Object(models));
    Value::Object(object)
}

fn stream_tokens(usage: Usage) -> JsonObject {
    let mut object = Map::new();
    for (key, count) in [
        ("total_tokens", usage.total),
        ("input_tokens", usage.input),
        ("output_tokens", usage.output),
        ("cached", usage.cached),
        ("input", usage.input.saturating_sub(usage.cached)),
    ] {
        object.insert(key.into(), count.into());
    }
    object
}

/// The object of `json` output for a run that got an answer.
pub(crate) fn document(
    session: &str,
    response: &str,
    stats: &Stats,
    invalid: Option<&str>,
    warnings: &[String],
) -> Value {
    let mut document = Map::new();
    document.insert("session_id".into(), session.into());
    document.insert("response".into(), response.into());
    document.insert("stats".into(), stats_object(stats));
    if let Some(message) = invalid {
        document.insert("error".into(), json!({"type": "INVALID_STREAM", "message": message}));
    }
    if !warnings.is_empty() {
        document.insert("warnings".into(), json!(warnings));
    }
    Value::Object(document)
}

/// The object on stderr for a `json` run that failed; the session is left out while there is none. The code is the
/// HTTP status, if there was one, else the exit code.
pub(crate) fn fatal(session: Option<&str>, run_error: &RunError, exit: ExitKind) -> Value {
    let mut object = Map::new();
    if let Some(session) = session {
        object.insert("session_id".into(), session.into());
    }
    let code = run_error.status.unwrap_or(exit.code().into());
    let mut error = Map::new();
    error.insert("type".into(), run_error.upstream_class.into());
    error.insert("message".into(), run_error.message.as_str().into());
    error.insert("code".into(), code.into());
    error.extend(run_error.details.clone());
    object.insert("error".into(), error.into());
    Value::Object(object)
}

pub(crate) fn stats_object(stats: &Stats) -> Value {
    let models: JsonObject = stats
        .models
        .iter()
        .map(|(name, model)| {
            let mut api = api_counts(model.api);
            let errors: JsonObject =
                model.errors_by_type.iter().map(|(kind, count)| (kind.clone(), (*count).into())).collect();
            api.insert("errorsByType".into(), Value::Object(errors));
            let roles: JsonObject = model
                .roles
                .iter()
                .map(|(role, counts)| {
                    let mut object = api_counts(*counts);
                    object.insert("tokens".into(), tokens(counts.usage));
                    (role.as_str().to_owned(), Value::Object(object))
                })
                .collect();
            (name.clone(), json!({"api": api, "tokens": tokens(model.api.usage), "roles": roles}))
        })
        .collect();
    let by_name: JsonObject =
        stats.by_tool.iter().map(|(name, tool)| (name.clone(), one_tool(tool))).collect();
    json!({
        "models": models,
        "tools": {
            "totalCalls": stats.tools.calls,
            "totalSuccess": successes(&stats.tools),
            "totalFail": failures(&stats.tools),
            "totalDurationMs": millis(stats.tools.duration),
            "totalDecisions": decisions(stats.tools.decisions),
            "byName": by_name,
        },
        "files": {"totalLinesAdded": stats.lines_added, "totalLinesRemoved": stats.lines_removed},
    })
}

fn api_counts(counts: ApiCounts) -> JsonObject {
    let mut object = Map::new();
    object.insert("totalRequests".into(), counts.requests.into());
    object.insert("totalErrors".into(), counts.errors.into());
    object.insert("totalLatencyMs".into(), millis(counts.latency).into());
    object
}

fn tokens(usage: Usage) -> Value {
    json!({
        "input": usage.input.saturating_sub(usage.cached),
        "prompt": usage.input,
        "candidates": usage.output,
        "total": usage.total,
        "cached": usage.cached,
        "thoughts": usage.reasoning,
        "tool": usage.tool_input,
    })
}

/// A command that failed is a success of the shell tool here.
fn successes(tool: &ToolTotals) -> u64 {
    tool.success + tool.failed_runs
}

fn failures(tool: &ToolTotals) -> u64 {
    tool.fail.saturating_sub(tool.failed_runs)
}

fn one_tool(tool: &ToolTotals) -> Value {
    json!({
        "count": tool.calls,
        "success": successes(tool),
        "fail": failures(tool),
        "durationMs": millis(tool.duration),
        "decisions": decisions(tool.decisions),
    })
}

fn decisions(decisions: Decisions) -> Value {
    json!({
        "accept": decisions.accept,
        "reject": decisions.reject,
        "modify": decisions.modify,
        "auto_accept": decisions.auto_accept,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headless::ending::failure_error;
    use pollux_domain::failure::Failure;

    #[test]
    fn a_failed_run_is_an_object_with_class_and_code() {
        let of = |session, exit, message: &str| {
            fatal(session, &failure_error(&Failure::new(exit, message)), exit).to_string()
        };
        assert_eq!(
            of(Some("s1"), ExitKind::Input, "bad"),
            r#"{"session_id":"s1","error":{"type":"FatalInputError","message":"bad","code":42}}"#
        );
        assert_eq!(
            of(None, ExitKind::Auth, "no key"),
            r#"{"error":{"type":"Error","message":"no key","code":41}}"#
        );
    }
}
