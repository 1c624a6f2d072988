//! A read-only view of a tool call for transcripts and search.

use pollux_domain::JsonObject;
use pollux_domain::json::parse_lenient_str;
use pollux_domain::time::Timestamp;
use serde_json::Value;

use super::shown;
use crate::raw::{self, Fields};

/// The main arguments of tools, in display order.
const TELLING: [&str; 8] =
    ["file_path", "command", "path", "pattern", "query", "absolute_path", "dir_path", "include"];
/// Maximum characters shown of an argument or error.
const ARGUMENT_CHARS: usize = 200;
const ERROR_CHARS: usize = 300;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ok,
    Error,
    Cancelled,
    Unfinished,
}

impl Outcome {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
            Self::Unfinished => "unfinished",
        }
    }
}

/// One call of a reply.
#[derive(Debug)]
pub(crate) struct CallView<'a> {
    /// What the model asked for; the record itself if it only is there.
    asked: Option<Fields<'a>>,
    record: Fields<'a>,
}

impl<'a> CallView<'a> {
    pub(super) fn stored(record: Fields<'a>) -> Self {
        Self { asked: None, record }
    }

    /// The calls that a reply's content holds, with the records that belong to them.
    pub(super) fn joined(spoken: Vec<Fields<'a>>, mut stored: Vec<Self>) -> Vec<Self> {
        let calls = spoken.into_iter().map(|asked| {
            let (id, name) = (raw::string(&asked, "id"), raw::string(&asked, "name"));
            let matches = |call: &CallView<'_>| {
                let plain = |id: &str| {
                    let prefix = format!("{}__", name.as_deref().unwrap_or_default());
                    id.strip_prefix(&prefix).unwrap_or(id).to_owned()
                };
                match (&id, call.id()) {
                    (Some(id), Some(known)) => plain(id) == plain(&known),
                    _ => name.as_deref() == Some(&call.name()),
                }
            };
            let record = stored.iter().position(matches).map(|at| stored.remove(at).record);
            Self { asked: Some(asked), record: record.unwrap_or_default() }
        });
        calls.collect()
    }

    fn string(&self, key: &str) -> Option<String> {
        let asked = self.asked.as_ref().and_then(|asked| raw::string(asked, key));
        asked.or_else(|| raw::string(&self.record, key))
    }

    pub(crate) fn id(&self) -> Option<String> {
        self.string("id")
    }

    pub(crate) fn name(&self) -> String {
        let name = self.string("name").filter(|name| !name.trim().is_empty());
        name.unwrap_or_else(|| "generic_tool".to_owned())
    }

    pub(crate) fn time(&self) -> Option<Timestamp> {
        Timestamp::parse(&raw::string(&self.record, "timestamp")?)
    }

    /// The arguments; some releases wrote them as a text that is JSON.
    pub(crate) fn args(&self) -> JsonObject {
        let args = self.asked.as_ref().and_then(|asked| asked.get("args"));
        let Some(args) = args.or_else(|| self.record.get("args")) else { return JsonObject::new() };
        let text = raw::text(args).unwrap_or_else(|| args.get().to_owned());
        parse_lenient_str(&text).unwrap_or_default()
    }

    pub(crate) fn has_result(&self) -> bool {
        self.record.get("result").is_some_and(|result| result.get() != "null")
    }

    pub(crate) fn outcome(&self) -> Outcome {
        match raw::string(&self.record, "status").as_deref() {
            Some("success" | "complete" | "completed") => Outcome::Ok,
            Some("error" | "failed") => Outcome::Error,
            Some("cancelled" | "canceled" | "denied") => Outcome::Cancelled,
            Some(_) => Outcome::Unfinished,
            None if self.has_result() => Outcome::Ok,
            None => Outcome::Unfinished,
        }
    }

    /// The main arguments, each shortened to one line.
    pub(crate) fn telling_args(&self) -> Vec<(&'static str, String)> {
        let args = self.args();
        let name = self.name();
        let extra: &[&'static str] = if name.contains("fetch") {
            &["prompt", "url"]
        } else if name.contains("skill") {
            &["name"]
        } else {
            &[]
        };
        let keys = TELLING.iter().chain(extra);
        keys.filter_map(|key| Some((*key, argument(args.get(*key)?)?))).collect()
    }

    /// The error of a failed call.
    pub(crate) fn error(&self) -> Option<String> {
        if self.outcome() != Outcome::Error {
            return None;
        }
        let result = self.result();
        let display = || raw::string(&self.record, "resultDisplay").filter(|text| !text.is_empty());
        let error = field_of(&result, "error").or_else(display).or_else(|| field_of(&result, "output"));
        Some(error.unwrap_or_default().chars().take(ERROR_CHARS).collect())
    }

    fn result(&self) -> Value {
        let result = self.record.get("result");
        result.and_then(|result| parse_lenient_str(result.get()).ok()).unwrap_or_default()
    }

    /// The full text of the result, for search.
    pub(crate) fn result_text(&self) -> String {
        let mut text = String::new();
        collect(&self.result(), &mut text);
        text
    }
}

fn argument(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            items?.join(", ")
        }
        _ => return None,
    };
    let line = text.replace("\r\n", "⏎").replace(['\n', '\r'], "⏎");
    Some(line.chars().take(ARGUMENT_CHARS).collect())
}

/// A field of the response in a result, whatever shape that has.
fn field_of(result: &Value, key: &str) -> Option<String> {
    match result {
        Value::String(text) if key == "output" => Some(text.clone()),
        Value::Array(items) => items.iter().find_map(|item| field_of(item, key)),
        Value::Object(fields) => match fields.get("functionResponse") {
            Some(response) => response.get("response")?.get(key).map(shown),
            None => fields.get(key).map(shown),
        },
        _ => None,
    }
}

/// The strings of a result, without ids and encoded media.
fn collect(value: &Value, text: &mut String) {
    match value {
        Value::String(words) => {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(words);
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, text)),
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "id" | "name" | "inlineData" | "thoughtSignature"))
            .for_each(|(_, field)| collect(field, text)),
        _ => {}
    }
}
