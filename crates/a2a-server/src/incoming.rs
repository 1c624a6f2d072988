//! Messages of clients: what they ask of a task.

use pollux_a2a::protocol::{Message, Part, PartBody, Role};
use pollux_domain::JsonObject;
use pollux_domain::approval::{ApprovalAnswer, Outcome};
use pollux_domain::content::{self, Blob, Body};
use pollux_domain::id::CallId;
use serde_json::Value;

use crate::error::A2aError;
use crate::task::record::{AgentSettings, is_offered};

/// What the model reads about a call that the client rejected.
const REJECTED: &str = "The user rejected this call.";

/// What a message asks for.
#[derive(Debug)]
pub(crate) enum Asked {
    Prompt { parts: Vec<content::Part>, typed: String },
    Decisions(Vec<Decision>),
}

/// The answer to a call that waits for approval.
#[derive(Debug)]
pub(crate) struct Decision {
    pub(crate) call: CallId,
    pub(crate) answer: ApprovalAnswer,
}

/// Reads the message of a request.
pub(crate) fn message(params: &Value) -> Result<Message, A2aError> {
    let value = params.get("message").filter(|message| message.is_object());
    let value = value.ok_or_else(|| A2aError::params("`message` is missing"))?;
    let message = Message::read(value);
    if message.id.is_empty() || message.id.len() > 1_000 {
        return Err(A2aError::params("`message.messageId` is missing or too long"));
    }
    if message.ids.context.as_ref().is_some_and(|context| context.len() > 1_000) {
        return Err(A2aError::params("`message.contextId` is too long"));
    }
    if message.role != Role::User {
        return Err(A2aError::params("`message.role` must be the user's role"));
    }
    let given = value.get("parts").or_else(|| value.get("content")).and_then(Value::as_array);
    let given = given.ok_or_else(|| A2aError::params("`message.parts` is missing"))?;
    if given.is_empty() || given.len() != message.parts.len() {
        return Err(A2aError::params("`message.parts` is empty or has a part of an unknown kind"));
    }
    Ok(message)
}

/// Upstream's settings of a new task. Whether its workspace is trusted is never taken from here.
pub(crate) fn settings(message: &Message, params: &Value) -> AgentSettings {
    let of_params = params.get("metadata").and_then(|metadata| metadata.get("coderAgent"));
    let given = message.metadata.get("coderAgent").or(of_params).unwrap_or(&Value::Null);
    agent_settings(given)
}

pub(crate) fn agent_settings(given: &Value) -> AgentSettings {
    let is_set = |key: &str| given.get(key).and_then(Value::as_bool).unwrap_or_default();
    AgentSettings {
        workspace_path: given.get("workspacePath").and_then(Value::as_str).map(str::to_owned),
        auto_execute: is_set("autoExecute"),
        single_turn: is_set("singleTurn"),
    }
}

/// What a message asks of a task with these open questions.
pub(crate) fn asked(message: &Message, pending: &[(String, Value)]) -> Result<Asked, A2aError> {
    let decisions: Vec<&Value> = message.parts.iter().filter_map(decision).collect();
    if decisions.is_empty() {
        if !pending.is_empty() {
            return Err(A2aError::params(
                "a tool call is waiting for approval: send a data part with its `callId` and an `outcome`",
            ));
        }
        return Ok(prompt(message));
    }
    let read = decisions.into_iter().map(|data| read_decision(data, pending));
    Ok(Asked::Decisions(read.collect::<Result<_, _>>()?))
}

fn decision(part: &Part) -> Option<&Value> {
    match &part.body {
        PartBody::Data(data) if data.get("callId").is_some() && data.get("outcome").is_some() => Some(data),
        _ => None,
    }
}

fn read_decision(data: &Value, pending: &[(String, Value)]) -> Result<Decision, A2aError> {
    let text = |key: &str| data.get(key).and_then(Value::as_str).unwrap_or_default();
    let call = text("callId");
    let Some((_, asked)) = pending.iter().find(|(waiting, _)| waiting == call) else {
        return Err(A2aError::params(format!(
            "no tool call `{}` is waiting for approval",
            call.escape_debug().take(100).collect::<String>()
        )));
    };
    let replies = data.get("answers").and_then(Value::as_array);
    let answer = match text("outcome") {
        "cancel" => ApprovalAnswer::Refuse(REJECTED.to_owned()),
        "proceed_once" if replies.is_some() => {
            let replies = replies.into_iter().flatten();
            ApprovalAnswer::Replies(
                replies.map(|reply| reply.as_str().unwrap_or_default().to_owned()).collect(),
            )
        }
        "proceed_once" => match data.get("newContent").and_then(Value::as_str) {
            Some(content) => ApprovalAnswer::Edited(edited(asked, content)?),
            None => ApprovalAnswer::Once,
        },
        "proceed_always" | "proceed_always_tool" => ApprovalAnswer::Session,
        "proceed_always_server" => ApprovalAnswer::SessionServer,
        "modify_with_editor" => {
            let content = data.get("newContent").and_then(Value::as_str);
            let content =
                content.ok_or_else(|| A2aError::params("`modify_with_editor` needs `newContent`"))?;
            ApprovalAnswer::Edited(edited(asked, content)?)
        }
        other => {
            let other: String = other.escape_debug().take(100).collect();
            return Err(A2aError::params(format!("unknown outcome `{other}`")));
        }
    };
    check_offered(&answer, asked)?;
    Ok(Decision { call: CallId::from_file(call), answer })
}

/// A client cannot grant more than it was offered.
fn check_offered(answer: &ApprovalAnswer, asked: &Value) -> Result<(), A2aError> {
    let outcome = answer.outcome();
    let is_allowed = outcome == Outcome::Refuse
        || matches!(answer, ApprovalAnswer::Replies(_))
        || is_offered(outcome, asked);
    match is_allowed {
        true => Ok(()),
        false => Err(A2aError::params(format!("outcome `{}` was not offered", outcome.as_str()))),
    }
}

/// The arguments of a call that writes a file, with other content.
fn edited(asked: &Value, content: &str) -> Result<JsonObject, A2aError> {
    let args = asked.pointer("/request/args").and_then(Value::as_object);
    let args = args.filter(|args| args.get("content").is_some_and(Value::is_string));
    let mut args = args.cloned().ok_or_else(|| A2aError::params("this call does not accept `newContent`"))?;
    args.insert("content".to_owned(), Value::from(content));
    Ok(args)
}

fn prompt(message: &Message) -> Asked {
    let (mut typed, mut parts) = (String::new(), Vec::new());
    for part in &message.parts {
        match &part.body {
            PartBody::Text(text) => typed.push_str(text),
            PartBody::Data(data) => typed.push_str(&data.to_string()),
            PartBody::Uri(uri) => typed.push_str(&format!("[{uri}]")),
            PartBody::Bytes(bytes) => {
                let mime_type =
                    part.media_type.clone().unwrap_or_else(|| "application/octet-stream".to_owned());
                parts.push(Body::InlineData(Blob { mime_type, data_base64: bytes.clone() }).into());
            }
            PartBody::Nothing => {}
        }
    }
    if !typed.is_empty() {
        parts.insert(0, content::Part::text(typed.clone()));
    }
    Asked::Prompt { parts, typed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn data(data: Value) -> Message {
        let message =
            json!({"message": {"messageId": "m", "role": "user", "parts": [{"kind": "data", "data": data}]}});
        super::message(&message).unwrap()
    }

    #[test]
    fn only_offered_answers_to_open_questions_count() {
        let asked_of = json!({
            "request": {"args": {"content": "old", "file_path": "a"}},
            "confirmationDetails": {"outcomes": ["proceed_once", "modify_with_editor"]},
        });
        let pending = [("c1".to_owned(), asked_of)];
        let answer = |value: Value| asked(&data(value), &pending);
        let Ok(Asked::Decisions(decisions)) = answer(json!({"callId": "c1", "outcome": "proceed_once"}))
        else {
            panic!()
        };
        assert_eq!(decisions[0].answer, ApprovalAnswer::Once);
        let edit = answer(json!({"callId": "c1", "outcome": "proceed_once", "newContent": "new"}));
        let Ok(Asked::Decisions(decisions)) = edit else { panic!() };
        let ApprovalAnswer::Edited(args) = &decisions[0].answer else { panic!() };
        assert_eq!(args["content"], "new");
        for wrong in [
            json!({"callId": "c2", "outcome": "proceed_once"}),
            json!({"callId": "c1", "outcome": "proceed_always"}),
            json!({"callId": "c1", "outcome": "sure"}),
            json!({"callId": 7, "outcome": "proceed_once"}),
        ] {
            assert!(answer(wrong.clone()).is_err(), "{wrong}");
        }
        let text =
            message(&json!({"message": {"messageId": "m", "role": "user", "parts": [{"text": "hi"}]}}));
        assert!(asked(&text.unwrap(), &pending).is_err(), "a prompt does not answer the question");
    }

    #[test]
    fn messages_that_cannot_be_used_are_refused() {
        for wrong in [
            json!({}),
            json!({"message": {"role": "user", "parts": [{"text": "a"}]}}),
            json!({"message": {"messageId": "m", "role": "agent", "parts": [{"text": "a"}]}}),
            json!({"message": {"messageId": "m", "role": "user", "parts": []}}),
            json!({"message": {"messageId": "m", "role": "user", "parts": [{"video": 1}]}}),
            json!({"message": {"messageId": "m", "role": "user"}}),
        ] {
            assert!(message(&wrong).is_err(), "{wrong}");
        }
    }
}
