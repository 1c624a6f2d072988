//! The default dialect: upper-case event types and camelCase keys.
//!
//! Assistant text comes as `delta: true` pieces only, so that joining them gives the answer; the user's
//! prompt is one `delta: false` message. Every wait, void attempt and failure is an `ERROR` event, and the
//! last line is always `RESULT`.

use pollux_domain::event::{Activity, CallFailure, CallOutcome, CallReport};
use pollux_domain::id::CallId;
use pollux_domain::terminal_text::plain;
use pollux_domain::tool::Display;
use pollux_domain::{JsonObject, time::Timestamp};
use serde_json::{Map, Value, json};

use super::denial::with_denial;
use super::ending::RunError;
use crate::stats::{Stats, millis};

pub(crate) fn init(session: &str, model: &str, conditions: &JsonObject, at: Timestamp) -> Value {
    let mut event = Map::new();
    event.insert("type".into(), "INIT".into());
    event.insert("sessionId".into(), session.into());
    event.insert("model".into(), model.into());
    event.extend(conditions.clone());
    event.insert("timestamp".into(), at.to_iso().into());
    event.into()
}

pub(crate) fn message(role: &str, content: &str, delta: bool, at: Timestamp) -> Value {
    json!({"type": "MESSAGE", "role": role, "content": content, "delta": delta, "timestamp": at.to_iso()})
}

pub(crate) fn tool_use(call: &CallId, name: &str, args: &JsonObject, at: Timestamp) -> Value {
    json!({"type": "TOOL_USE", "toolName": name, "callId": call.as_str(), "params": args, "timestamp": at.to_iso()})
}

pub(crate) fn tool_result(report: &CallReport, at: Timestamp) -> Value {
    let (status, result, error) = match &report.outcome {
        CallOutcome::Succeeded => ("success", Some(shown(report)), None),
        CallOutcome::Failed(failure) => (
            "error",
            output_of_run(report, failure),
            Some(plain(&with_denial(report, &failure.message)).into_owned()),
        ),
        CallOutcome::Cancelled => ("error", None, Some("The call was cancelled.".to_owned())),
    };
    let mut event = Map::new();
    event.insert("type".into(), "TOOL_RESULT".into());
    event.insert("callId".into(), report.call.as_str().into());
    event.insert("status".into(), status.into());
    for (key, text) in [("result", result), ("error", error)] {
        if let Some(text) = text {
            event.insert(key.into(), text.into());
        }
    }
    if let Some(sandbox) = &report.sandbox {
        event.insert("sandbox".into(), sandbox.to_json());
    }
    event.insert("timestamp".into(), at.to_iso().into());
    Value::Object(event)
}

/// What a command printed, or a sub-agent said, before it failed.
fn output_of_run(report: &CallReport, failure: &CallFailure) -> Option<String> {
    let silent = failure.run.as_ref()?.without_output();
    Some(shown(report)).filter(|text| !text.is_empty() && silent.as_ref() != Some(text))
}

fn shown(report: &CallReport) -> String {
    match &*report.display.listed() {
        // Nothing for a screen, yet a program that watches wants to know what was read.
        Display::Nothing if report.kind.is_read_only() => plain(&report.answer).into_owned(),
        Display::Nothing => String::new(),
        Display::Text(text) => plain(text).into_owned(),
        Display::Diff(diff) => plain(&diff.unified).into_owned(),
        Display::Agent(end) => plain(&end.result).into_owned(),
        Display::List { summary, items } => {
            let lines: Vec<&str> = std::iter::once(summary).chain(items).map(String::as_str).collect();
            plain(&lines.join("\n")).into_owned()
        }
        Display::Todos(_) => String::new(),
    }
}

/// What a sub-agent does, in the words that events of sub-agents have everywhere.
pub(crate) fn activity(activity: &Activity, at: Timestamp) -> Value {
    let data = activity.what.data();
    json!({
        "type": "SUBAGENT_ACTIVITY",
        "isSubagentActivityEvent": true,
        "callId": activity.call.as_str(),
        "agentName": activity.agent,
        "activity": activity.what.as_str(),
        "data": data,
        "timestamp": at.to_iso(),
    })
}

pub(crate) fn error(message: &str, code: &str, at: Timestamp) -> Value {
    json!({"type": "ERROR", "message": message, "code": code, "timestamp": at.to_iso()})
}

pub(crate) fn result(stats: &Stats, run_error: Option<&RunError>, at: Timestamp) -> Value {
    let mut event = Map::new();
    event.insert("type".into(), "RESULT".into());
    event.insert("success".into(), run_error.is_none().into());
    event.insert("stats".into(), stats_object(stats));
    if let Some(run_error) = run_error {
        event.insert("error".into(), error_object(run_error));
    }
    event.insert("timestamp".into(), at.to_iso().into());
    Value::Object(event)
}

/// The object of `json` output.
pub(crate) fn document(
    response: &str,
    stats: &Stats,
    run_error: Option<&RunError>,
    warnings: &[String],
) -> Value {
    let mut document = Map::new();
    document.insert("response".into(), response.into());
    document.insert("stats".into(), stats_object(stats));
    if let Some(run_error) = run_error {
        document.insert("error".into(), error_object(run_error));
    }
    if !warnings.is_empty() {
        document.insert("warnings".into(), json!(warnings));
    }
    Value::Object(document)
}

fn error_object(run_error: &RunError) -> Value {
    let mut object = Map::new();
    object.insert("type".into(), run_error.kind.into());
    object.insert("message".into(), run_error.message.as_str().into());
    object.insert("code".into(), run_error.code.into());
    if let Some(status) = run_error.status {
        object.insert("status".into(), status.into());
    }
    object.extend(run_error.details.clone());
    Value::Object(object)
}

pub(crate) fn stats_object(stats: &Stats) -> Value {
    let models: JsonObject = stats
        .models
        .iter()
        .map(|(name, model)| {
            let usage = model.api.usage;
            let mut counts = json!({
                "api": {
                    "requests": model.api.requests,
                    "errors": model.api.errors,
                    "latencyMs": millis(model.api.latency),
                },
                "tokens": {
                    "prompt": usage.input,
                    "candidates": usage.output,
                    "total": usage.total,
                    "cached": usage.cached,
                },
            });
            // Most providers do not report these.
            let written = usage.cache_written();
            if written > 0 {
                counts["tokens"]["cacheWrite"] = written.into();
            }
            if let Some(cost) = usage.cost_reported {
                counts["costUsd"] = (cost.0 as f64 / 1e6).into();
            }
            (name.clone(), counts)
        })
        .collect();
    let by_name: JsonObject = stats
        .by_tool
        .iter()
        .map(|(name, tool)| {
            (name.clone(), json!({"calls": tool.calls, "success": tool.success, "fail": tool.fail}))
        })
        .collect();
    let mut all = json!({
        "models": models,
        "tools": {
            "totalCalls": stats.tools.calls,
            "totalSuccess": stats.tools.success,
            "totalFail": stats.tools.fail,
            "totalDurationMs": millis(stats.tools.duration),
            "byName": by_name,
        },
        "files": {"totalLinesAdded": stats.lines_added, "totalLinesRemoved": stats.lines_removed},
    });
    if let (Some(budget), Value::Object(all)) = (stats.limited_budget(), &mut all) {
        all.insert("budget".into(), budget.to_json());
    }
    all
}
