//! Error bodies in all the forms they come in.

use pollux_domain::JsonObject;
use pollux_domain::text::shortened;
use serde_json::Value;

use crate::http::web_page;

const MAX_MESSAGE_CHARS: usize = 4000;
/// Of a body that is not an API error, its beginning says enough.
const MAX_FOREIGN_CHARS: usize = 300;
/// A message may quote another server's error, which may quote another one.
const MAX_DEPTH: usize = 4;

/// What an error body says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Fault {
    pub(crate) status: u16,
    pub(crate) message: String,
    /// `code`, if it is a word.
    pub(crate) code: Option<String>,
    /// `type`.
    pub(crate) word: Option<String>,
    pub(crate) param: Option<String>,
    /// The tokens of the request and of the window, where fields name them.
    pub(super) asked: Option<u64>,
    pub(super) limit: Option<u64>,
    /// What the model wrote and the server refused.
    pub(super) rejected: Option<String>,
    pub(super) request_id: Option<String>,
    /// There was no body at all.
    pub(super) empty: bool,
}

impl Fault {
    /// Reads a body; one that is not JSON becomes the message.
    pub(crate) fn from_body(status: u16, reason: &str, body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let value: Option<Value> = serde_json::from_slice(body).ok();
        let read = value.as_ref().and_then(|value| Self::read(value, true));
        let mut fault = read.unwrap_or_else(|| Self { message: foreign(&text), ..Self::default() });
        fault.status = status;
        fault.empty = text.trim().is_empty();
        if fault.message.trim().is_empty() {
            fault.message = format!("the server responded with {status} {reason}").trim_end().to_owned();
        }
        fault
    }

    /// Finds an error in place of a piece of a reply.
    pub(crate) fn in_reply(value: &Value) -> Option<Self> {
        let mut fault = Self::read(value, false)?;
        if fault.message.trim().is_empty() {
            fault.message = fault.code.clone().or_else(|| fault.word.clone()).unwrap_or_default();
        }
        if fault.message.is_empty() {
            fault.message = "the server reported an error without a message".to_owned();
        }
        Some(fault)
    }

    /// Whether the error's words are among these.
    pub(crate) fn is_any(&self, words: &[&str]) -> bool {
        let known = |word: &Option<String>| word.as_deref().is_some_and(|word| words.contains(&word));
        known(&self.code) || known(&self.word)
    }

    /// `refused` means that the whole body is an error, so that a lone message is one.
    fn read(value: &Value, refused: bool) -> Option<Self> {
        let value = match value {
            Value::Array(items) => items.first()?,
            other => other,
        };
        let fields = value.as_object()?;
        let mut fault = match fields.get("error") {
            Some(Value::Object(error)) => Self::of_object(error),
            Some(Value::String(text)) if !text.is_empty() => {
                Self { message: text.clone(), ..Self::of_object(fields) }
            }
            _ if is_error(fields) => Self::of_object(fields),
            _ => match fields.get("detail") {
                Some(detail) => Self::of_detail(detail)?,
                None if refused => Self::of_object(fields),
                None => return None,
            },
        };
        fault.request_id = text(fields, "request_id").map(str::to_owned);
        fault.unwrap_message();
        fault.status = fault.status_of_words();
        fault.message = shortened(fault.message.trim(), MAX_MESSAGE_CHARS);
        Some(fault)
    }

    fn of_object(error: &JsonObject) -> Self {
        let word = |key: &str| text(error, key).filter(|word| !word.is_empty()).map(str::to_owned);
        let number = |key: &str| error.get(key).and_then(Value::as_u64);
        let nested = error.get("details").and_then(|details| details.get("error_code"));
        let message = word("message").or_else(|| word("msg")).or_else(|| word("detail"));
        let mut fault = Self {
            status: status_of(error.get("code")).or_else(|| status_of(error.get("status"))).unwrap_or(0),
            message: message.unwrap_or_default(),
            code: nested.and_then(Value::as_str).map(str::to_owned).or_else(|| word("code")),
            word: word("type"),
            param: word("param"),
            asked: number("n_prompt_tokens"),
            limit: number("n_ctx"),
            rejected: word("failed_generation"),
            ..Self::default()
        };
        fault.code = fault.code.filter(|code| code.parse::<u16>().is_err());
        if let Some(raw) = error.get("metadata").and_then(|metadata| text(metadata.as_object()?, "raw")) {
            // A go-between names its upstream's error apart, and its own message says nothing.
            fault.message = format!("{}: {}", fault.message, shortened(raw.trim(), 500));
        }
        fault
    }

    /// FastAPI's: a text, or what is wrong with each field.
    fn of_detail(detail: &Value) -> Option<Self> {
        match detail {
            Value::String(text) => Some(Self { message: text.clone(), ..Self::default() }),
            Value::Array(items) => {
                let messages = items.iter().filter_map(|item| text(item.as_object()?, "msg"));
                let message = messages.collect::<Vec<_>>().join("; ");
                let extra = items.iter().find(|item| {
                    item.get("type").and_then(Value::as_str).is_some_and(|kind| kind.contains("extra"))
                });
                let place = extra.and_then(|item| item.get("loc")?.as_array()?.last()?.as_str());
                Some(Self { message, param: place.map(str::to_owned), ..Self::default() })
            }
            Value::Object(fields) => Some(Self::of_object(fields)),
            _ => None,
        }
    }

    /// Takes what is quoted inside the message, if that is an error, too.
    fn unwrap_message(&mut self) {
        for _ in 0..MAX_DEPTH {
            let Some(quoted) = self.message.find('{').and_then(|start| self.message.get(start..)) else {
                return;
            };
            let end = quoted.rfind('}').map_or(0, |end| end + 1);
            let inner = quoted.get(..end).and_then(|json| serde_json::from_str::<Value>(json).ok());
            let Some(Value::Object(error)) = inner.as_ref().and_then(|value| value.get("error")) else {
                return;
            };
            let inner = Self::of_object(error);
            if inner.message.is_empty() {
                return;
            }
            self.message = inner.message;
            self.code = inner.code.or_else(|| self.code.take());
            self.word = inner.word.or_else(|| self.word.take());
            self.param = inner.param.or_else(|| self.param.take());
        }
    }

    /// The status that the words stand for, where no number says it.
    fn status_of_words(&self) -> u16 {
        if self.status != 0 {
            return self.status;
        }
        let words = [self.code.as_deref(), self.word.as_deref()];
        words.into_iter().flatten().find_map(status_of_word).unwrap_or(500)
    }
}

/// Whether an object says that it is an error as a whole.
fn is_error(fields: &JsonObject) -> bool {
    text(fields, "object") == Some("error") || text(fields, "type") == Some("error")
}

fn text<'a>(fields: &'a JsonObject, key: &str) -> Option<&'a str> {
    fields.get(key)?.as_str()
}

fn status_of(code: Option<&Value>) -> Option<u16> {
    let code = code?;
    let number = code.as_u64().or_else(|| code.as_str().and_then(|text| text.parse().ok()))?;
    u16::try_from(number).ok().filter(|status| (400..600).contains(status))
}

fn status_of_word(word: &str) -> Option<u16> {
    Some(match word {
        "invalid_request_error"
        | "invalid_prompt"
        | "context_length_exceeded"
        | "exceed_context_size_error" => 400,
        "authentication_error" | "invalid_api_key" => 401,
        "billing_error" | "insufficient_quota" => 402,
        "permission_error" => 403,
        "not_found_error" | "model_not_found" => 404,
        "conflict_error" => 409,
        "request_too_large" => 413,
        "rate_limit_error" | "rate_limit_exceeded" | "ramp_limit_exceeded" => 429,
        "unavailable_error" => 503,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => return None,
    })
}

/// A body that is not JSON; of a web page only its title is worth reading.
fn foreign(text: &str) -> String {
    match web_page(text) {
        Some(title) => format!("the server sent a web page instead of an API error: {title}"),
        None => shortened(text.trim(), MAX_FOREIGN_CHARS),
    }
}
