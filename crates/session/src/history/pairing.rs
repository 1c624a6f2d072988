//! Pairs tool calls with their responses.

use pollux_domain::JsonObject;
use pollux_domain::content::{Body, Content, FunctionResponse, Part};
use pollux_domain::event::CallStatus;
use pollux_domain::id::CallId;
use pollux_domain::tool::Display;
use serde_json::json;

use crate::message::{StoredCall, StoredStatus};

/// The response for a call whose result was not recorded.
const INTERRUPTED: &str = "The call was interrupted before its result was recorded. \
    It may or may not have taken effect.";

/// The responses for calls whose status was recorded without a result.
const SUCCEEDED: &str = "The call succeeded. Its result was not recorded.";
const FAILED: &str = "The call failed. Its error was not recorded.";
const DENIED: &str = "The call was denied and did not run.";
const CANCELLED: &str = "The call was cancelled. Its result was not recorded.";

/// The calls of one model turn and what is known of their answers.
#[derive(Debug, Default)]
pub(super) struct OpenCalls {
    calls: Vec<OpenCall>,
}

#[derive(Debug)]
struct OpenCall {
    id: CallId,
    name: String,
    answer: Option<Answer>,
    /// What is known of a call without an answer: the key of the response and its text.
    outcome: (&'static str, String),
}

/// The one response and the media that go with it.
#[derive(Debug)]
struct Answer {
    response: Part,
    siblings: Vec<Part>,
}

impl OpenCalls {
    /// The calls of a model turn; results stored with them answer them.
    pub(super) fn of(content: &Content, mut unused: Vec<StoredCall>) -> Self {
        let calls = content.calls().map(|call| {
            let id = CallId::from_file(call.id.clone().unwrap_or_default());
            let found = unused.iter().position(|stored| is_same_call(&id, &call.name, stored.id.as_str()));
            let stored = found.map(|index| unused.remove(index));
            let outcome = stored.as_ref().map_or_else(interrupted, unrecorded);
            let answer = stored.and_then(|stored| stored_answer(&id, &call.name, stored));
            OpenCall { id, name: call.name.clone(), answer, outcome }
        });
        Self { calls: calls.collect() }
    }

    /// Takes the answers to open calls out of a user's parts and returns the rest. Answers that are already
    /// known, or that answer nothing, are dropped with the media next to them: upstream records each answer
    /// with its call and once more as a message.
    pub(super) fn take_answers(&mut self, parts: Vec<Part>) -> Vec<Part> {
        let has_answers = parts.iter().any(is_response);
        if !has_answers {
            return parts;
        }
        let mut answered = vec![None; parts.len()];
        // Answers that say which call they are for come first; the others take what is left.
        for named in [true, false] {
            for (part, slot) in parts.iter().zip(&mut answered) {
                if let Body::Response(response) = &part.body
                    && response.id.is_some() == named
                {
                    *slot = self.answer(response, part);
                }
            }
        }
        let mut rest = Vec::new();
        let mut answering = None;
        for (part, slot) in parts.into_iter().zip(answered) {
            match &part.body {
                Body::Response(_) => answering = slot,
                Body::InlineData(_) | Body::FileData { .. } => {
                    let answer =
                        answering.and_then(|index: usize| self.calls.get_mut(index)?.answer.as_mut());
                    if let Some(answer) = answer {
                        answer.siblings.push(part);
                    }
                }
                _ => rest.push(part),
            }
        }
        rest
    }

    /// Notes an answer; the index of the call it newly answers.
    fn answer(&mut self, response: &FunctionResponse, part: &Part) -> Option<usize> {
        let index = self.calls.iter().position(|call| {
            call.answer.is_none()
                && match &response.id {
                    Some(id) => is_same_call(&call.id, &call.name, id),
                    None => call.name == response.name,
                }
        })?;
        let call = self.calls.get_mut(index)?;
        let response = addressed(part.clone(), &call.id, &call.name);
        call.answer = Some(Answer { response, siblings: Vec::new() });
        Some(index)
    }

    /// One response for each call, in their order, then the media.
    pub(super) fn answers(self) -> Vec<Part> {
        let mut siblings = Vec::new();
        let mut parts: Vec<Part> = Vec::new();
        for call in self.calls {
            match call.answer {
                Some(answer) => {
                    parts.push(answer.response);
                    siblings.extend(answer.siblings);
                }
                None => {
                    let (key, text) = call.outcome;
                    parts.push(response(&call.id, &call.name, key, &text));
                }
            }
        }
        parts.extend(siblings);
        parts
    }
}

/// Gives calls that stand in a reply's own content the ids they are stored under, or one that lasts.
pub(super) fn name_calls(parts: &mut [Part], message: &str, stored: &[StoredCall]) {
    for (index, part) in parts.iter_mut().enumerate() {
        let Body::Call(call) = &mut part.body else { continue };
        let raw = call.id.get_or_insert_with(|| format!("{}__synth_{message}_{index}", call.name));
        let id = CallId::from_file(raw.clone());
        if let Some(known) = stored.iter().find(|stored| is_same_call(&id, &call.name, stored.id.as_str())) {
            known.id.as_str().clone_into(raw);
            if part.seal.is_none() {
                part.seal.clone_from(&known.seal);
            }
        }
    }
}

/// Ids are compared as the model knows them: some records have the tool's prefix, some do not.
fn is_same_call(id: &CallId, name: &str, other: &str) -> bool {
    id.on_wire(name) == CallId::from_file(other).on_wire(name)
}

fn interrupted() -> (&'static str, String) {
    ("error", INTERRUPTED.to_owned())
}

/// What the model is told of a call whose status was recorded, but not its result.
fn unrecorded(call: &StoredCall) -> (&'static str, String) {
    let StoredStatus::Ended(status) = call.status else { return interrupted() };
    let (key, text) = match status {
        CallStatus::Success => ("output", SUCCEEDED),
        CallStatus::Error if call.denied => ("error", DENIED),
        CallStatus::Error => ("error", FAILED),
        CallStatus::Cancelled => ("error", CANCELLED),
    };
    match call.display() {
        Display::Text(shown) if !shown.trim().is_empty() => {
            (key, format!("{text} This was displayed to the user:\n{shown}"))
        }
        _ => (key, text.to_owned()),
    }
}

fn stored_answer(id: &CallId, name: &str, stored: StoredCall) -> Option<Answer> {
    if stored.result.is_empty() {
        return None;
    }
    let mut siblings = Vec::new();
    let mut answer = None;
    let mut text = String::new();
    for part in own_result(id, name, stored.result) {
        match &part.body {
            Body::InlineData(_) | Body::FileData { .. } => siblings.push(part),
            Body::Response(_) if answer.is_none() => answer = Some(addressed(part, id, name)),
            Body::Text(said) => text.push_str(said),
            _ => {}
        }
    }
    let response = answer.unwrap_or_else(|| response(id, name, "output", &text));
    Some(Answer { response, siblings })
}

fn is_response(part: &Part) -> bool {
    matches!(part.body, Body::Response(_))
}

/// The response to this call and what follows it. Upstream, when it resumes a session, stores with every
/// call of a turn the answers to all of them.
fn own_result(id: &CallId, name: &str, mut result: Vec<Part>) -> Vec<Part> {
    if result.iter().filter(|part| is_response(part)).count() < 2 {
        return result;
    }
    let answers = |part: &Part| match &part.body {
        Body::Response(response) => match &response.id {
            Some(other) => is_same_call(id, name, other),
            None => response.name == name,
        },
        _ => false,
    };
    let start = result.iter().position(answers).or_else(|| result.iter().position(is_response)).unwrap_or(0);
    result.drain(..start);
    let next = result.iter().skip(1).position(is_response).map_or(result.len(), |offset| offset + 1);
    result.truncate(next);
    result
}

fn addressed(mut part: Part, id: &CallId, name: &str) -> Part {
    if let Body::Response(response) = &mut part.body {
        response.id = Some(id.as_str().to_owned());
        name.clone_into(&mut response.name);
    }
    part
}

fn response(id: &CallId, name: &str, key: &str, text: &str) -> Part {
    let mut fields = JsonObject::new();
    fields.insert(key.to_owned(), json!(text));
    Part::response(FunctionResponse {
        id: Some(id.as_str().to_owned()),
        name: name.to_owned(),
        response: fields.into(),
        parts: Vec::new(),
    })
}
