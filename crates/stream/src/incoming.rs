//! Messages from the host.

use pollux_domain::JsonObject;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::shape::{Shape, camel, messages, object};

messages! {
    /// A message from the host.
    Incoming {
        /// A prompt. It starts a turn, which ends with `RESULT`.
        "message" => Message {
            /// A text, or parts: text, images and files.
            content: Content,
            /// Names the prompt in `QUEUED` and `ERROR`.
            id: Option<String>,
            /// While a turn runs: `queue` waits for its end, `now` is refused with `BUSY`.
            when: Option<When>,
        }
        /// The answer to an `APPROVAL`.
        "approve" => Approve {
            call_id: String,
            /// One of the outcomes that were offered, or `cancel` to refuse.
            outcome: Option<String>,
            /// Arguments to run the call with instead; they are decided on like a new call.
            args: Option<JsonObject>,
            /// With `cancel`: the reason, for the model.
            message: Option<String>,
            /// One answer for each of the questions.
            replies: Option<Vec<String>>,
        }
        /// Cancels the running turn. Queued messages stay.
        "interrupt" => Interrupt {}
        /// Changes the approval mode or the model.
        "set" => Set {
            /// `default`, `auto_edit`, `yolo` or `plan`.
            mode: Option<String>,
            model: Option<String>,
            /// Names the request in `ERROR`.
            id: Option<String>,
        }
        /// Runs a slash command, which ends with `RESULT`.
        "command" => Command {
            /// Its name, without the slash.
            name: String,
            args: Option<String>,
            /// Names the command in `QUEUED` and `ERROR`.
            id: Option<String>,
        }
        /// Runs one tool without the model, within the rules. Answered by `CALL_RESULT` and `RESULT`. The conversation
        /// does not contain it.
        "call" => Call {
            name: String,
            args: Option<JsonObject>,
            /// Names the call in `QUEUED` and `ERROR`.
            id: Option<String>,
        }
        /// Removes a prompt and everything after it from the conversation. Answered by `REWOUND`.
        "rewind" => Rewind {
            /// The id of the prompt, from `DESCRIPTION`.
            to: String,
            /// Names the request in `ERROR`.
            id: Option<String>,
        }
        /// Compresses the conversation. Answered by `COMPRESSED` and `RESULT`.
        "compress" => Compress {
            /// Names the request in `QUEUED` and `ERROR`.
            id: Option<String>,
        }
        /// Asks for a description of the conversation. Answered by `DESCRIPTION`.
        "describe" => Describe {
            /// Whether `DESCRIPTION` has the declarations of the tools, too.
            declarations: Option<bool>,
            /// Names the request in `ERROR`.
            id: Option<String>,
        }
        /// Declares tools that the host runs. Replaces those declared before.
        "init" => Init {
            tools: Option<Vec<ToolDeclaration>>,
        }
        /// The result of a `HOST_CALL`.
        "tool_result" => ToolResult {
            call_id: String,
            /// A text; other JSON reaches the model as text.
            output: Value,
            is_error: Option<bool>,
        }
        /// The same as the end of input: the program exits after the messages that it has.
        "end" => End {}
    }
}

object! {
    /// A tool of the host.
    ToolDeclaration {
        /// Letters, digits, `_`, `-` and `.`; at most 64.
        name: String,
        description: String,
        /// JSON schema of the arguments.
        parameters: Option<JsonObject>,
    }
}

/// When a message is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum When {
    Now,
    Queue,
}

impl Shape for When {
    fn schema() -> Value {
        json!({"type": "string", "enum": ["now", "queue"]})
    }
}

/// The content of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
}

/// A part of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum ContentPart {
    Text {
        text: String,
    },
    Image {
        #[serde(rename = "mimeType", alias = "mime_type")]
        mime_type: String,
        /// Base64.
        data: String,
    },
    File {
        path: String,
    },
}

impl Shape for Content {
    fn schema() -> Value {
        let part = |word: &str, fields: &[&str]| {
            let mut properties = serde_json::Map::new();
            properties.insert("type".to_owned(), json!({"const": word}));
            for field in fields {
                properties.insert((*field).to_owned(), json!({"type": "string"}));
            }
            let required: Vec<&str> = std::iter::once("type").chain(fields.iter().copied()).collect();
            json!({"type": "object", "properties": properties, "required": required})
        };
        let parts = [part("text", &["text"]), part("image", &["mimeType", "data"]), part("file", &["path"])];
        json!({"oneOf": [{"type": "string"}, {"type": "array", "items": {"oneOf": parts}}]})
    }
}

/// Why a line cannot be used: the code and a sentence.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unusable {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// The `id` of the message, if it has one.
    pub(crate) id: Option<String>,
}

impl Unusable {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self { code: "INVALID_INPUT", message: message.into(), id: None }
    }
}

/// Reads a line as an object and its `type`.
pub(crate) fn read_object(line: &[u8]) -> Result<(String, JsonObject), Unusable> {
    let text = std::str::from_utf8(line).map_err(|_| Unusable::invalid("the line is not valid UTF-8"))?;
    let value: Value = serde_json::from_str(text)
        .map_err(|error| Unusable::invalid(format!("the line is not valid JSON: {error}")))?;
    let Value::Object(mut fields) = value else {
        return Err(Unusable::invalid("a message must be a JSON object"));
    };
    match fields.shift_remove("type") {
        Some(Value::String(word)) => Ok((word, fields)),
        _ => Err(Unusable::invalid("a message needs a `type`, which is a string")),
    }
}

/// Reads a line of the host.
pub(crate) fn read(line: &[u8]) -> Result<Incoming, Unusable> {
    let (word, fields) = read_object(line)?;
    let id = fields.get("id").and_then(Value::as_str).map(str::to_owned);
    let fields: JsonObject = fields.into_iter().map(|(name, value)| (camel(&name), value)).collect();
    match Incoming::read(&word, fields) {
        Some(Ok(message)) => Ok(message),
        Some(Err(error)) => {
            let message = format!("invalid `{}` message: {error}", word.to_ascii_lowercase());
            Err(Unusable { id, ..Unusable::invalid(message) })
        }
        None => Err(Unusable {
            code: "UNKNOWN_INPUT",
            message: format!("unknown message type `{}`", word.chars().take(100).collect::<String>()),
            id,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_words_are_read_in_every_case() {
        for line in [
            r#"{"type":"approve","callId":"a","outcome":"proceed_once"}"#,
            r#"{"type":"APPROVE","call_id":"a","outcome":"proceed_once"}"#,
        ] {
            let Ok(Incoming::Approve(approve)) = read(line.as_bytes()) else { panic!("{line}") };
            assert_eq!(approve.call_id, "a");
        }
        let line = r#"{"type":"Tool_Result","callId":"a","output":{"some_key":null},"is_error":true}"#;
        let Ok(Incoming::ToolResult(result)) = read(line.as_bytes()) else { panic!() };
        assert_eq!(result.output, json!({"some_key": null}), "only names of fields are changed");
    }

    #[test]
    fn what_cannot_be_used_has_a_code_and_a_reason() {
        let code = |line: &[u8]| read(line).map_err(|unusable| unusable.code);
        assert_eq!(code(b"{not json"), Err("INVALID_INPUT"));
        assert_eq!(code(b"[]"), Err("INVALID_INPUT"));
        assert_eq!(code(b"7"), Err("INVALID_INPUT"));
        assert_eq!(code(b"{\"type\":\"x\xff\"}"), Err("INVALID_INPUT"));
        assert_eq!(code(br#"{"type":7}"#), Err("INVALID_INPUT"));
        assert_eq!(code(br#"{"type":"message"}"#), Err("INVALID_INPUT"));
        assert_eq!(code(br#"{"type":"message","content":"x","when":"soon"}"#), Err("INVALID_INPUT"));
        assert_eq!(code(br#"{"type":"no_such"}"#), Err("UNKNOWN_INPUT"));
        let unusable = read(br#"{"type":"rewind","id":"7"}"#).unwrap_err();
        assert_eq!(unusable.message, "invalid `rewind` message: missing field `to`");
        assert_eq!(unusable.id.as_deref(), Some("7"));
    }
}
