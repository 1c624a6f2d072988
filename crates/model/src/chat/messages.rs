//! A conversation as the messages of a request.

use pollux_domain::JsonObject;
use pollux_domain::content::{Body, Content, FunctionCall, FunctionResponse, Part, Role, SealKind};
use pollux_domain::model::Capabilities;
use serde_json::{Map, Value, json};

use super::media;
use super::quirks::{Echo, Quirks};
use crate::shared::call_ids::CallIds;
use crate::shared::tool_names::ToolNames;

const INTERRUPTED: &str = "[no result: the tool call was interrupted]";
const SEE_NEXT: &str = "[attachment: see the next message]";
/// Stands between a tool and a person where the server wants it so.
const ACKNOWLEDGED: &str = "Understood.";

/// How one request is written.
pub(super) struct Writer<'a> {
    pub(super) names: &'a ToolNames,
    pub(super) ids: &'a CallIds,
    pub(super) caps: &'a Capabilities,
    pub(super) quirks: &'a Quirks,
    pub(super) echo: Echo,
    /// Whether reasoning of a turn may go back.
    pub(super) is_own: &'a dyn Fn(&Content) -> bool,
}

/// Turns of the same speaker, which become one.
struct Group<'a> {
    role: Role,
    parts: Vec<Item<'a>>,
}

#[derive(Clone, Copy)]
struct Item<'a> {
    /// Number of the turn and of the part in it.
    place: (usize, usize),
    part: &'a Part,
    own: bool,
}

impl Writer<'_> {
    /// The messages of a conversation, after those that are there.
    pub(super) fn write<'a>(&self, contents: impl Iterator<Item = &'a Content>, messages: &mut Vec<Value>) {
        let groups = self.groups(contents);
        let mut rest = groups.iter().peekable();
        while let Some(group) = rest.next() {
            match group.role {
                Role::Model => {
                    messages.extend(self.assistant(group));
                    let answers = rest.next_if(|next| next.role == Role::User);
                    self.results(group, answers, messages);
                }
                Role::User => self.user(group, Vec::new(), messages),
            }
        }
    }

    fn groups<'a>(&self, contents: impl Iterator<Item = &'a Content>) -> Vec<Group<'a>> {
        let mut groups: Vec<Group<'a>> = Vec::new();
        for (turn, content) in contents.enumerate() {
            let own = (self.is_own)(content);
            let items = content.parts.iter().enumerate();
            let items = items.map(|(part, body)| Item { place: (turn, part), part: body, own });
            let parts: Vec<Item<'a>> = items.filter(|item| has_content(item.part)).collect();
            // A turn with only reasoning would be an empty message, so the turns around it are merged.
            if parts.iter().all(|item| matches!(item.part.body, Body::Reasoning { .. })) {
                continue;
            }
            match groups.last_mut() {
                Some(last) if last.role == content.role => last.parts.extend(parts),
                _ => groups.push(Group { role: content.role, parts }),
            }
        }
        groups
    }

    fn assistant(&self, group: &Group<'_>) -> Option<Value> {
        let mut text = String::new();
        let mut calls = Vec::new();
        for item in &group.parts {
            match &item.part.body {
                Body::Text(piece) => text.push_str(piece),
                Body::Call(call) => calls.push(self.call(item, call)),
                Body::InlineData(_) | Body::FileData { .. } => {
                    text.push_str("[attachment of the assistant omitted]");
                }
                Body::Reasoning { .. } | Body::Response(_) | Body::Other(_) => {}
            }
        }
        if text.is_empty() && calls.is_empty() {
            return None;
        }
        let mut message = Map::new();
        message.insert("role".into(), json!("assistant"));
        message.insert("content".into(), if text.is_empty() { Value::Null } else { json!(text) });
        self.add_reasoning(group, !calls.is_empty(), &mut message);
        if !calls.is_empty() {
            message.insert("tool_calls".into(), Value::Array(calls));
        }
        Some(Value::Object(message))
    }

    fn call(&self, item: &Item<'_>, call: &FunctionCall) -> Value {
        let id = self.ids.call(item.place.0, item.place.1).unwrap_or_default();
        let arguments = json_text(&call.args);
        let mut sent = json!({
            "id": id, "type": "function",
            "function": {"name": self.names.wire(&call.name), "arguments": arguments}
        });
        if let (true, Some(signature), Value::Object(fields)) = (item.own, item.part.signature(), &mut sent) {
            let extra = json!({"google": {"thought_signature": signature}});
            fields.insert("extra_content".into(), extra);
        }
        sent
    }

    fn add_reasoning(&self, group: &Group<'_>, has_calls: bool, message: &mut Map<String, Value>) {
        let seals = |kind: SealKind| {
            group.parts.iter().filter(|item| item.own).filter_map(move |item| match &item.part.body {
                Body::Reasoning { seal: Some(seal), .. } if seal.kind == kind => Some(&seal.data),
                _ => None,
            })
        };
        match self.echo {
            Echo::Nothing => {}
            Echo::Content if has_calls => {
                let text: String =
                    seals(SealKind::ReasoningContent).filter_map(|data| data.as_str()).collect();
                message.insert("reasoning_content".into(), json!(text));
            }
            Echo::Content => {}
            Echo::Details => {
                let details = seals(SealKind::ReasoningDetails).filter_map(|data| data.as_array());
                let details: Vec<Value> = details.flatten().cloned().collect();
                if !details.is_empty() {
                    message.insert("reasoning_details".into(), Value::Array(details));
                }
            }
        }
    }

    /// Every call is answered right after it, in order; what else a person or a tool sent follows as one message.
    fn results(&self, calls: &Group<'_>, answers: Option<&Group<'_>>, messages: &mut Vec<Value>) {
        let mut media = Vec::new();
        for item in &calls.parts {
            let Body::Call(_) = &item.part.body else { continue };
            let id = self.ids.call(item.place.0, item.place.1).unwrap_or_default();
            let answered = answers.filter(|_| !self.ids.is_unanswered(item.place.0, item.place.1));
            let answer = answered.and_then(|group| {
                group.parts.iter().find_map(|answer| match &answer.part.body {
                    Body::Response(response)
                        if self.ids.answer(answer.place.0, answer.place.1) == Some(id) =>
                    {
                        Some(response)
                    }
                    _ => None,
                })
            });
            let text =
                answer.map_or_else(|| INTERRUPTED.to_owned(), |answer| self.result(answer, &mut media));
            messages.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
        }
        match answers {
            Some(group) => self.user(group, media, messages),
            None => say(media, messages, self.quirks),
        }
    }

    /// The text of a tool's answer; its media are for the message after all answers.
    fn result(&self, response: &FunctionResponse, media: &mut Vec<Value>) -> String {
        let mut text = result_text(response);
        for part in &response.parts {
            let line = match media::piece(part, self.caps) {
                Some(Ok(piece)) => {
                    media.push(piece);
                    SEE_NEXT.to_owned()
                }
                Some(Err(note)) => note,
                None => match part.spoken_text() {
                    Some(more) => more.to_owned(),
                    None => continue,
                },
            };
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&line);
        }
        text
    }

    fn user(&self, group: &Group<'_>, mut pieces: Vec<Value>, messages: &mut Vec<Value>) {
        let text = |text: &str| json!({"type": "text", "text": text});
        for item in &group.parts {
            match &item.part.body {
                Body::Text(said) => pieces.push(text(said)),
                Body::Response(response) if self.ids.answer(item.place.0, item.place.1).is_none() => {
                    let mut media = Vec::new();
                    let result = self.result(response, &mut media);
                    pieces.push(text(&format!("[result of an earlier call of {}]\n{result}", response.name)));
                    pieces.extend(media);
                }
                Body::InlineData(_) | Body::FileData { .. } => match media::piece(item.part, self.caps) {
                    Some(Ok(piece)) => pieces.push(piece),
                    Some(Err(note)) => pieces.push(text(&note)),
                    None => {}
                },
                Body::Response(_) | Body::Reasoning { .. } | Body::Call(_) | Body::Other(_) => {}
            }
        }
        say(pieces, messages, self.quirks);
    }
}

/// Appends a user message.
fn say(pieces: Vec<Value>, messages: &mut Vec<Value>, quirks: &Quirks) {
    if pieces.is_empty() {
        return;
    }
    let after_tool = messages.last().is_some_and(|last| last["role"] == "tool");
    if after_tool && quirks.no_user_after_tool {
        messages.push(json!({"role": "assistant", "content": ACKNOWLEDGED}));
    }
    messages.push(json!({"role": "user", "content": joined(pieces)}));
}

/// Text alone is sent as text: not every server reads lists.
fn joined(pieces: Vec<Value>) -> Value {
    let texts: Option<Vec<&str>> =
        pieces.iter().map(|piece| piece.get("text").and_then(Value::as_str)).collect();
    match texts {
        Some(texts) => json!(texts.join("\n")),
        None => Value::Array(pieces),
    }
}

fn has_content(part: &Part) -> bool {
    match &part.body {
        Body::Text(text) => !text.is_empty(),
        Body::Other(_) => false,
        _ => true,
    }
}

fn json_text(fields: &JsonObject) -> String {
    serde_json::to_string(fields).unwrap_or_default()
}

/// What a tool answered. The usual answer is one text; others keep their fields.
fn result_text(response: &FunctionResponse) -> String {
    let fields = &*response.response;
    let only = |key: &str| match fields.get(key) {
        Some(Value::String(text)) if fields.len() == 1 => Some(text),
        _ => None,
    };
    if let Some(text) = only("output") {
        return text.clone();
    }
    if let Some(text) = only("error") {
        return format!("Error: {text}");
    }
    if fields.is_empty() { String::new() } else { json_text(fields) }
}

/// Adds a line to the last user message, or a message where a tool or the model spoke last.
pub(super) fn remind(messages: &mut Vec<Value>, line: &str, quirks: &Quirks) {
    match messages.last_mut() {
        Some(Value::Object(last)) if last.get("role") == Some(&json!("user")) => {
            match last.get_mut("content") {
                Some(Value::String(text)) => {
                    text.push_str("\n\n");
                    text.push_str(line);
                }
                Some(Value::Array(pieces)) => pieces.push(json!({"type": "text", "text": line})),
                _ => {}
            }
        }
        _ => say(vec![json!({"type": "text", "text": line})], messages, quirks),
    }
}
