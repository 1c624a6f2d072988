//! Decodes the JSON of any release to [`Message`].

use std::path::PathBuf;

use pollux_domain::JsonObject;
use pollux_domain::content::{FunctionResponse, POLLUX, Part, Seal};
use pollux_domain::event::{CallStatus, Severity, Thought};
use pollux_domain::id::CallId;
use pollux_domain::json::parse_lenient_str;
use pollux_domain::model::Usage;
use pollux_domain::time::Timestamp;
use pollux_domain::tool::{DiffStat, Display, FileDiff};
use serde_json::{Value, json};

use super::fields::{CallFields, MessageFields};
use super::own;
use super::{Compression, Message, NoticeMessage, ReplyMessage, StoredCall, StoredStatus, UserMessage};

/// Reads one message. `id` is the one the reader gave it if the file has none.
pub(crate) fn message_from_json(id: String, fields: MessageFields) -> Message {
    let MessageFields { all: mut fields, content, calls } = fields;
    fields.remove("id");
    let severity = match fields.get("type").and_then(Value::as_str) {
        Some("user") => return Message::User(user(id, fields, content)),
        Some("gemini") => return Message::Reply(reply(id, fields, calls)),
        Some("info") => Severity::Info,
        Some("warning") => Severity::Warning,
        Some("error") => Severity::Error,
        _ => return Message::Other { id, fields },
    };
    Message::Notice(notice(id, severity, fields))
}

fn user(id: String, mut fields: JsonObject, read: Option<Vec<Part>>) -> UserMessage {
    fields.remove("type");
    UserMessage {
        id,
        time: take_time(&mut fields),
        parts: {
            let content = fields.remove("content").unwrap_or_default();
            read.unwrap_or_else(|| parts_from_json(content))
        },
        typed: fields.remove("displayContent").map(|value| joined_text(&parts_from_json(value))),
        extra: remaining(fields),
    }
}

fn reply(id: String, mut fields: JsonObject, read: Option<Vec<CallFields>>) -> ReplyMessage {
    fields.remove("type");
    let calls = take_array(&mut fields, "toolCalls");
    let calls = match read {
        Some(read) => read.into_iter().enumerate().map(|(at, call)| stored_call(&id, at, call)).collect(),
        None => {
            let objects = calls.into_iter().enumerate().filter_map(|(at, call)| match call {
                Value::Object(fields) => Some(stored_call(&id, at, fields.into())),
                _ => None,
            });
            objects.collect()
        }
    };
    let mut parts = parts_from_json(fields.remove("content").unwrap_or_default());
    // It stays among the fields, so that a rewrite preserves it.
    let kept = fields.get(POLLUX);
    if let Some(kept) = kept {
        own::join(kept, &mut parts);
    }
    ReplyMessage {
        origin: kept.and_then(own::origin),
        time: take_time(&mut fields),
        parts,
        thoughts: take_array(&mut fields, "thoughts").iter().filter_map(thought).collect(),
        usage: fields.remove("tokens").as_ref().and_then(usage).map(Box::new),
        model: take_string(&mut fields, "model"),
        calls,
        extra: remaining(fields),
        id,
    }
}

fn notice(id: String, severity: Severity, mut fields: JsonObject) -> NoticeMessage {
    fields.remove("type");
    let compression = fields.remove("compression").and_then(|value| {
        Some(Compression {
            keep_from: value.get("keepFrom").and_then(Value::as_str).map(str::to_owned),
            snapshot: value.get("snapshot")?.as_str()?.to_owned(),
        })
    });
    NoticeMessage {
        id,
        time: take_time(&mut fields),
        severity,
        text: joined_text(&parts_from_json(fields.remove("content").unwrap_or_default())),
        compression,
        extra: remaining(fields),
    }
}

fn stored_call(message: &str, at: usize, call: CallFields) -> StoredCall {
    let CallFields { all: mut fields, result: read } = call;
    let name = take_string(&mut fields, "name").filter(|name| !name.trim().is_empty());
    let name = name.unwrap_or_else(|| "generic_tool".to_owned());
    let id = take_string(&mut fields, "id").filter(|id| !id.is_empty());
    // Deterministic, so that the same file always gives the same ids.
    let id = id.unwrap_or_else(|| format!("{name}__synth_{message}_{at}"));
    let result = match (fields.remove("result"), read) {
        (_, Some(parts)) => parts,
        (None | Some(Value::Null), None) => Vec::new(),
        (Some(Value::String(text)), None) => vec![output_response(&id, &name, text)],
        // Early releases wrote the answer itself.
        (Some(Value::Object(answer)), None) if !is_part(&answer) => vec![response(&id, &name, answer)],
        (Some(other), None) => parts_from_json(other),
    };
    StoredCall {
        denied: matches!(fields.get("status").and_then(Value::as_str), Some("denied" | "rejected")),
        args: match fields.remove("args") {
            Some(Value::Object(args)) => args,
            // Some releases wrote them as a text that is JSON.
            Some(Value::String(text)) => parse_lenient_str(&text).unwrap_or_default(),
            _ => JsonObject::new(),
        },
        seal: take_string(&mut fields, "thoughtSignature")
            .map(Seal::gemini)
            .or_else(|| fields.get(POLLUX).and_then(|own| own.get("seal")).and_then(Seal::from_json)),
        status: status(&mut fields, !result.is_empty()),
        result,
        result_display: fields.remove("resultDisplay").unwrap_or_default(),
        time: take_time(&mut fields),
        display_name: take_string(&mut fields, "displayName"),
        description: take_string(&mut fields, "description"),
        markdown: fields.remove("renderOutputAsMarkdown").and_then(|value| value.as_bool()).unwrap_or(true),
        extra: remaining(fields),
        id: CallId::from_file(id),
        name,
    }
}

fn status(fields: &mut JsonObject, has_result: bool) -> StoredStatus {
    match take_string(fields, "status") {
        Some(word) => StoredStatus::from_word(&word),
        None if has_result => StoredStatus::Ended(CallStatus::Success),
        None => StoredStatus::Pending,
    }
}

fn output_response(id: &str, name: &str, text: String) -> Part {
    response(id, name, JsonObject::from_iter([("output".to_owned(), json!(text))]))
}

fn response(id: &str, name: &str, answer: JsonObject) -> Part {
    Part::response(FunctionResponse {
        id: Some(id.to_owned()),
        name: name.to_owned(),
        response: answer.into(),
        parts: Vec::new(),
    })
}

/// Whether an object is a part of a message, not an answer.
fn is_part(object: &JsonObject) -> bool {
    const KINDS: [&str; 5] = ["text", "functionResponse", "functionCall", "inlineData", "fileData"];
    KINDS.iter().any(|kind| object.contains_key(*kind))
}

/// A string, a part, or an array of both.
pub(crate) fn parts_from_json(value: Value) -> Vec<Part> {
    match value {
        Value::Array(items) => items.into_iter().filter_map(|item| Part::from_json(item).ok()).collect(),
        Value::Null => Vec::new(),
        single => Part::from_json(single).into_iter().collect(),
    }
}

fn joined_text(parts: &[Part]) -> String {
    parts.iter().filter_map(Part::spoken_text).collect()
}

fn thought(value: &Value) -> Option<(Thought, Option<Timestamp>)> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    value.is_object().then(|| {
        let time = value.get("timestamp").and_then(Value::as_str).and_then(Timestamp::parse);
        (Thought { subject: text("subject"), description: text("description") }, time)
    })
}

fn usage(value: &Value) -> Option<Usage> {
    let count = |key: &str| value.get(key).and_then(Value::as_u64).unwrap_or(0);
    value.is_object().then(|| Usage {
        input: count("input"),
        output: count("output"),
        cached: count("cached"),
        reasoning: count("thoughts"),
        tool_input: count("tool"),
        total: count("total"),
        ..Usage::default()
    })
}

pub(super) fn display_from_json(value: &Value) -> Display {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    match value {
        Value::String(shown) if shown.is_empty() => Display::Nothing,
        Value::String(shown) => Display::Text(shown.clone()),
        Value::Object(_) => {
            if let (Some(unified), Some(file_name)) = (text("fileDiff"), text("fileName")) {
                let count =
                    |key: &str| value.get("diffStat").and_then(|stat| stat.get(key)?.as_u64()).unwrap_or(0);
                return Display::Diff(Box::new(FileDiff {
                    unified: unified.to_owned(),
                    file_name: file_name.to_owned(),
                    path: PathBuf::from(text("filePath").unwrap_or(file_name)),
                    before: text("originalContent").map(str::to_owned),
                    after: text("newContent").unwrap_or_default().to_owned(),
                    stat: DiffStat {
                        added_lines: count("model_added_lines"),
                        removed_lines: count("model_removed_lines"),
                        added_chars: count("model_added_chars"),
                        removed_chars: count("model_removed_chars"),
                    },
                }));
            }
            if value.get("isSubagentProgress").is_some() {
                return text("result").map_or(Display::Nothing, |result| Display::Text(result.to_owned()));
            }
            match (text("summary"), value.get("files").and_then(Value::as_array)) {
                (Some(summary), Some(files)) => Display::List {
                    summary: summary.to_owned(),
                    items: files.iter().filter_map(|file| file.as_str().map(str::to_owned)).collect(),
                },
                _ => Display::Nothing,
            }
        }
        _ => Display::Nothing,
    }
}

/// The fields that nobody took. A map that was emptied keeps its room, and a long session has very many of them.
fn remaining(fields: JsonObject) -> JsonObject {
    if fields.is_empty() { JsonObject::new() } else { fields }
}

fn take_string(fields: &mut JsonObject, key: &str) -> Option<String> {
    match fields.get(key) {
        Some(Value::String(_)) => match fields.remove(key) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

fn take_time(fields: &mut JsonObject) -> Option<Timestamp> {
    let time = fields.get("timestamp").and_then(Value::as_str).and_then(Timestamp::parse);
    if time.is_some() {
        fields.remove("timestamp");
    }
    time
}

fn take_array(fields: &mut JsonObject, key: &str) -> Vec<Value> {
    match fields.remove(key) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}
