//! What it takes to run a session again: prompts, the model's replies, and the results of calls.

use pollux_domain::content::{Body, FunctionCall, Part};
use pollux_domain::model::{Finish, FinishReason, ReplyChunk};
use pollux_model::recording::script_line;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::{CallEnd, EventKind, RecordedEvent};

/// A step of a replay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayStep {
    /// Begin a turn.
    Prompt(String),
    /// Say this to the turn, to be taken along with its next request.
    Steer(String),
    /// Answer a request.
    Reply {
        /// A line of a scripted model.
        line: Value,
        /// The results of its calls, in order.
        results: Vec<CallEnd>,
    },
}

impl ReplayStep {
    /// At most so many calls follow from it: every part of a reply may be one.
    pub fn calls(&self) -> usize {
        let Self::Reply { line, results } = self else { return 0 };
        let candidates = list(line.get("response")).iter().flat_map(|chunk| list(chunk.get("candidates")));
        let parts = candidates.map(|candidate| list(candidate.pointer("/content/parts")).len());
        parts.sum::<usize>().max(results.len())
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The steps that lead to these events. Calls are numbered through, from 1; the numbers are their ids in the script.
pub(crate) fn steps_to(events: &[RecordedEvent]) -> Vec<ReplayStep> {
    let mut steps = Vec::new();
    let mut calls = 0;
    for (index, event) in events.iter().enumerate() {
        match &event.kind {
            EventKind::Prompt { text } => steps.push(ReplayStep::Prompt(text.clone())),
            EventKind::Steer { text } | EventKind::Note { text } => {
                steps.push(ReplayStep::Steer(text.clone()));
            }
            EventKind::Reply { .. } => {
                let own = events.get(index..).unwrap_or_default();
                let (chunk, results) = reply(own, &mut calls);
                steps.push(ReplayStep::Reply { line: script_line(&chunk), results });
            }
            EventKind::Call { .. } | EventKind::Notice { .. } | EventKind::Other => {}
        }
    }
    steps
}

/// The reply that these events begin with, and the results of its calls.
fn reply(events: &[RecordedEvent], calls: &mut usize) -> (ReplyChunk, Vec<CallEnd>) {
    let finish = Some(Finish { reason: FinishReason::Stop, message: None });
    let mut chunk = ReplyChunk { finish, ..ReplyChunk::default() };
    let mut results = Vec::new();
    for (index, event) in events.iter().enumerate() {
        match &event.kind {
            EventKind::Reply { model, text, thoughts, tokens } if index == 0 => {
                let reasoning = |text| Part::from(Body::Reasoning { text, summary: true, seal: None });
                chunk.parts.extend(thoughts.iter().map(|thought| reasoning(thought.sent())));
                chunk.parts.extend(Some(text).filter(|text| !text.is_empty()).map(Part::text));
                chunk.usage = tokens.map(Into::into);
                chunk.model_version = Some(model.clone());
            }
            EventKind::Call { tool, args, result } => {
                *calls += 1;
                let call = FunctionCall::new(Some(calls.to_string()), tool.clone(), args.clone());
                chunk.parts.push(Part::call(call));
                results.push(result.clone());
            }
            _ => break,
        }
    }
    (chunk, results)
}
