//! Encodes messages to the JSON of session files.

use pollux_domain::JsonObject;
use pollux_domain::content::{Body, POLLUX, Part};
use pollux_domain::event::Severity;
use pollux_domain::json::{MAX_DEPTH, is_deeper};
use pollux_domain::redact::redacted;
use pollux_domain::time::Timestamp;
use pollux_domain::tool::{Display, FileDiff};
use serde_json::{Value, json};

use super::own;
use crate::record::{CallRecord, CallResult, ReplyRecord};

pub(crate) fn user(id: &str, parts: &[Part], typed: Option<&str>, now: Timestamp) -> JsonObject {
    let mut fields = opening(id, "user", now);
    fields.insert("content".into(), user_content(parts));
    let sent: String = parts.iter().filter_map(Part::spoken_text).collect();
    if let Some(typed) = typed.filter(|typed| *typed != sent) {
        fields.insert("displayContent".into(), json!(typed));
    }
    fields
}

/// Everything of a reply but its calls.
pub(crate) fn reply(id: &str, reply: &ReplyRecord, now: Timestamp) -> JsonObject {
    let mut fields = opening(id, "gemini", now);
    let (parts, own) = own::split(&reply.parts, reply.origin.as_deref());
    fields.insert("content".into(), reply_content(&parts));
    let thoughts = reply.thoughts.iter().map(|(thought, time)| {
        json!({"subject": thought.subject, "description": thought.description, "timestamp": time.to_iso()})
    });
    fields.insert("thoughts".into(), thoughts.collect());
    let tokens = reply.usage.map(|usage| {
        json!({
            "input": usage.input, "output": usage.output, "cached": usage.cached,
            "thoughts": usage.reasoning, "tool": usage.tool_input, "total": usage.total,
        })
    });
    fields.insert("tokens".into(), tokens.unwrap_or_default());
    fields.insert("model".into(), json!(reply.model));
    if let Some(own) = own {
        fields.insert(POLLUX.into(), own);
    }
    fields
}

/// A call without its status and result, which are written after it.
pub(crate) fn call(call: &CallRecord, now: Timestamp) -> JsonObject {
    let mut fields = JsonObject::new();
    fields.insert("id".into(), json!(call.id.as_str()));
    fields.insert("name".into(), json!(call.name));
    let args = Value::Object(call.args.clone());
    // As a text, which readers take as well, if a parser would refuse the record otherwise.
    let args = if is_deeper(&args, MAX_DEPTH) { Value::String(args.to_string()) } else { args };
    fields.insert("args".into(), args);
    if let Some(seal) = &call.seal {
        match seal.signature() {
            Some(signature) => fields.insert("thoughtSignature".into(), json!(signature)),
            None => fields.insert(POLLUX.into(), json!({"seal": seal.to_json()})),
        };
    }
    fields.insert("timestamp".into(), json!(now.to_iso()));
    fields.insert("displayName".into(), json!(call.display_name));
    // A line for people: the arguments themselves stay, since a resumed session needs them.
    fields.insert("description".into(), json!(redacted(&call.description)));
    fields.insert("renderOutputAsMarkdown".into(), json!(call.markdown));
    fields
}

/// `result` and `resultDisplay`.
pub(crate) fn result(result: &CallResult) -> JsonObject {
    let mut fields = JsonObject::new();
    fields.insert("result".into(), parts_json(&result.result));
    fields.insert("resultDisplay".into(), display(&result.display));
    // Leads to the sub-agent's own file.
    if let Display::Agent(end) = &result.display
        && let Some(record) = &end.record
    {
        fields.insert("agentId".into(), json!(record));
    }
    fields
}

pub(crate) fn notice(id: &str, severity: Severity, text: &str, now: Timestamp) -> JsonObject {
    let kind = match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Error => "error",
    };
    let mut fields = opening(id, kind, now);
    fields.insert("content".into(), json!(text));
    fields
}

pub(crate) fn compression(keep_from: Option<&str>, snapshot: &str) -> Value {
    json!({"keepFrom": keep_from, "snapshot": snapshot})
}

fn opening(id: &str, kind: &str, now: Timestamp) -> JsonObject {
    let mut fields = JsonObject::new();
    fields.insert("id".into(), json!(id));
    fields.insert("timestamp".into(), json!(now.to_iso()));
    fields.insert("type".into(), json!(kind));
    fields
}

fn user_content(parts: &[Part]) -> Value {
    match parts {
        [single] => plain_text(single).map_or_else(|| parts_json(parts), |text| json!(text)),
        _ => parts_json(parts),
    }
}

/// One string as upstream has it, unless a part carries something a string cannot.
fn reply_content(parts: &[Part]) -> Value {
    let texts: Option<Vec<&str>> = parts.iter().map(plain_text).collect();
    texts.map_or_else(|| parts_json(parts), |texts| json!(texts.concat()))
}

fn plain_text(part: &Part) -> Option<&str> {
    match &part.body {
        Body::Text(text) if part.seal.is_none() && part.extra.is_empty() => Some(text),
        _ => None,
    }
}

fn parts_json(parts: &[Part]) -> Value {
    parts.iter().map(Part::to_json).collect()
}

/// What people see of a result, as session files and hooks have it.
pub fn display(display: &Display) -> Value {
    match display {
        Display::Todos(_) => self::display(&display.listed()),
        Display::Nothing => json!(""),
        Display::Text(text) => json!(text),
        Display::Diff(diff) => file_diff(diff),
        Display::List { summary, items } => json!({"summary": summary, "files": items}),
        Display::Agent(end) => json!({
            "isSubagentProgress": true,
            "agentName": end.agent,
            "recentActivity": [],
            "state": end.state,
            "result": end.result,
            "terminateReason": end.reason,
        }),
    }
}

fn file_diff(diff: &FileDiff) -> Value {
    json!({
        "fileDiff": diff.unified,
        "fileName": diff.file_name,
        "filePath": diff.path.to_string_lossy(),
        "originalContent": diff.before,
        "newContent": diff.after,
        "diffStat": {
            "model_added_lines": diff.stat.added_lines,
            "model_removed_lines": diff.stat.removed_lines,
            "model_added_chars": diff.stat.added_chars,
            "model_removed_chars": diff.stat.removed_chars,
            // What the person changed in the proposal; nothing here offers that yet.
            "user_added_lines": 0,
            "user_removed_lines": 0,
            "user_added_chars": 0,
            "user_removed_chars": 0,
        },
        "isNewFile": diff.before.is_none(),
    })
}
