//! Error bodies in all the forms they come in.

use pollux_domain::JsonObject;
use pollux_domain::text::shortened;
use serde_json::Value;

use crate::http::web_page;

/// A stringified error may hold another one; nobody nests deeper than this.
const MAX_DEPTH: usize = 10;
const MAX_MESSAGE_CHARS: usize = 4000;
/// Of a body that is not an API error, its beginning says enough.
const MAX_FOREIGN_CHARS: usize = 300;

/// What an error body says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Facts {
    pub(super) code: u16,
    pub(super) message: String,
    details: Vec<Value>,
}

impl Facts {
    /// Reads a body; one that is no JSON becomes the message.
    pub(super) fn from_body(status: u16, reason: &str, body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let mut facts = parse(&text).as_ref().and_then(Self::from_json).unwrap_or_else(|| Self {
            code: status,
            message: foreign(&text),
            details: Vec::new(),
        });
        if facts.message.trim().is_empty() {
            facts.message = format!("the server responded with {status} {reason}").trim_end().to_owned();
        }
        facts
    }

    /// Reads `{"error": …}`, also wrapped in an array, and what is stringified inside its message.
    pub(super) fn from_json(value: &Value) -> Option<Self> {
        let mut facts = Self::read(error_object(value)?);
        for _ in 0..MAX_DEPTH {
            let Some(inner) = stringified(&facts.message) else { break };
            let Some(object) = error_object(&inner) else { break };
            let deeper = Self::read(object);
            facts = Self {
                code: deeper.code,
                message: deeper.message,
                details: if deeper.details.is_empty() { facts.details } else { deeper.details },
            };
        }
        facts.message = shortened(&facts.message, MAX_MESSAGE_CHARS);
        Some(facts)
    }

    fn read(error: &JsonObject) -> Self {
        let word = error.get("status").and_then(Value::as_str).unwrap_or_default();
        let code = error.get("code").and_then(|code| {
            let number = code.as_u64().or_else(|| code.as_str().and_then(|text| text.parse().ok()));
            number.and_then(|code| u16::try_from(code).ok())
        });
        let message = error.get("message").and_then(Value::as_str).unwrap_or(word);
        let details = error.get("details").and_then(Value::as_array).cloned().unwrap_or_default();
        Self { code: code.unwrap_or_else(|| code_of(word)), message: message.to_owned(), details }
    }

    fn of_kind<'a>(&'a self, kind: &'static str) -> impl Iterator<Item = &'a Value> {
        self.details
            .iter()
            .filter(move |detail| text(detail, "@type").is_some_and(|name| name.ends_with(kind)))
    }

    pub(super) fn reasons(&self) -> impl Iterator<Item = &str> {
        self.of_kind("ErrorInfo").filter_map(|info| text(info, "reason"))
    }

    pub(super) fn domains(&self) -> impl Iterator<Item = &str> {
        self.of_kind("ErrorInfo").filter_map(|info| text(info, "domain"))
    }

    pub(super) fn retry_delays(&self) -> impl Iterator<Item = &str> {
        self.of_kind("RetryInfo").filter_map(|info| text(info, "retryDelay"))
    }

    pub(super) fn quota_ids(&self) -> impl Iterator<Item = &str> {
        self.of_kind("QuotaFailure")
            .filter_map(|failure| failure.get("violations")?.as_array())
            .flatten()
            .filter_map(|violation| text(violation, "quotaId"))
    }

    pub(super) fn quota_limit(&self) -> Option<&str> {
        self.of_kind("ErrorInfo").find_map(|info| text(info.get("metadata")?, "quota_limit"))
    }
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

fn error_object(value: &Value) -> Option<&JsonObject> {
    let value = match value {
        Value::Array(items) => items.first()?,
        other => other,
    };
    value.get("error")?.as_object()
}

/// JSON inside a message, maybe after some words such as `got status: 429.`
fn stringified(message: &str) -> Option<Value> {
    let start = message.find(['{', '['])?;
    let end = message.rfind(['}', ']'])?;
    parse(message.get(start..=end)?)
}

/// Strict first; then without the doubled commas that some servers write.
fn parse(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().or_else(|| serde_json::from_str(&without_stray_commas(text)).ok())
}

fn without_stray_commas(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let (mut in_string, mut escaped, mut after_comma) = (false, false, false);
    for c in text.chars() {
        if in_string {
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else if c == ',' {
            if after_comma {
                continue;
            }
            after_comma = true;
        } else {
            in_string = c == '"';
            after_comma = after_comma && c.is_whitespace();
        }
        kept.push(c);
    }
    kept
}

/// The HTTP status of a gRPC word.
fn code_of(word: &str) -> u16 {
    match word {
        "INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "OUT_OF_RANGE" => 400,
        "UNAUTHENTICATED" => 401,
        "PERMISSION_DENIED" => 403,
        "NOT_FOUND" => 404,
        "ABORTED" | "ALREADY_EXISTS" => 409,
        "RESOURCE_EXHAUSTED" => 429,
        "CANCELLED" => 499,
        "UNIMPLEMENTED" => 501,
        "UNAVAILABLE" => 503,
        "DEADLINE_EXCEEDED" => 504,
        _ => 500,
    }
}

/// A body that is no JSON; of a web page only its title is worth reading.
fn foreign(text: &str) -> String {
    match web_page(text) {
        Some(title) => format!("the server sent a web page instead of an API error: {title}"),
        None => shortened(text.trim(), MAX_FOREIGN_CHARS),
    }
}
