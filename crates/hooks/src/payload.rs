//! The input and the outcome of each event.

mod outcome;
mod tool;

use pollux_domain::JsonObject;
use pollux_domain::model::Chooser;
use serde_json::{Value, json};

use crate::answer::HookAnswer;
use crate::event::Event;
use crate::model_format::{LlmRequest, LlmResponse};

pub use outcome::{
    AfterAgentOutcome, AfterModelOutcome, AfterToolOutcome, BeforeAgentOutcome, BeforeModelOutcome,
    BeforeToolOutcome, CallVerdict, SessionStartOutcome, TailCall, ToolConfig, ToolMode,
    ToolSelectionOutcome, Verdict, hook_context,
};
pub use tool::{
    AfterTool, BeforeTool, MAX_TAIL_CALLS, McpContext, Notification, PermissionDetails, ToolFailure,
    ToolResponse,
};

/// An event and its possible outcome.
pub trait Payload {
    type Outcome: Default;

    const EVENT: Event;

    /// The event's own keys of the input.
    fn fields(self) -> JsonObject;

    /// The tool call that it is about. Only functions of the program that drives the session learn it.
    fn call(&self) -> Option<&str> {
        None
    }

    /// Converts the combined answer to an outcome.
    fn outcome(answer: HookAnswer) -> Self::Outcome;
}

pub(crate) fn object<const N: usize>(pairs: [(&str, Value); N]) -> JsonObject {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// A session begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionStart {
    pub source: StartSource,
}

/// How a session begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartSource {
    Startup,
    Resume,
    Clear,
}

impl Payload for SessionStart {
    type Outcome = SessionStartOutcome;
    const EVENT: Event = Event::SessionStart;

    fn fields(self) -> JsonObject {
        let source = match self.source {
            StartSource::Startup => "startup",
            StartSource::Resume => "resume",
            StartSource::Clear => "clear",
        };
        object([("source", source.into())])
    }

    fn outcome(answer: HookAnswer) -> SessionStartOutcome {
        SessionStartOutcome { context: outcome::context(&answer) }
    }
}

/// A session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionEnd {
    pub reason: EndReason,
}

/// Why a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    Exit,
    Clear,
    Logout,
    PromptInputExit,
    Other,
}

impl Payload for SessionEnd {
    type Outcome = ();
    const EVENT: Event = Event::SessionEnd;

    fn fields(self) -> JsonObject {
        let reason = match self.reason {
            EndReason::Exit => "exit",
            EndReason::Clear => "clear",
            EndReason::Logout => "logout",
            EndReason::PromptInputExit => "prompt_input_exit",
            EndReason::Other => "other",
        };
        object([("reason", reason.into())])
    }

    fn outcome(_: HookAnswer) {}
}

/// A prompt is about to be worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeforeAgent {
    pub prompt: String,
}

impl Payload for BeforeAgent {
    type Outcome = BeforeAgentOutcome;
    const EVENT: Event = Event::BeforeAgent;

    fn fields(self) -> JsonObject {
        object([("prompt", self.prompt.into())])
    }

    fn outcome(answer: HookAnswer) -> BeforeAgentOutcome {
        BeforeAgentOutcome { verdict: Verdict::of(&answer), context: outcome::context(&answer) }
    }
}

/// The work on a prompt is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AfterAgent {
    pub prompt: String,
    /// The text of all model turns of this prompt, joined by newlines.
    pub prompt_response: String,
    /// The turn is one that an `AfterAgent` hook forced.
    pub stop_hook_active: bool,
}

impl Payload for AfterAgent {
    type Outcome = AfterAgentOutcome;
    const EVENT: Event = Event::AfterAgent;

    fn fields(self) -> JsonObject {
        let response = match self.prompt_response.trim() {
            // Upstream's words.
            "" => "[no response text]".to_owned(),
            _ => self.prompt_response,
        };
        object([
            ("prompt", self.prompt.into()),
            ("prompt_response", response.into()),
            ("stop_hook_active", self.stop_hook_active.into()),
        ])
    }

    fn outcome(answer: HookAnswer) -> AfterAgentOutcome {
        AfterAgentOutcome {
            verdict: Verdict::of(&answer),
            clear_context: answer.specific.get("clearContext") == Some(&Value::Bool(true)),
        }
    }
}

/// A request is about to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct BeforeModel {
    pub llm_request: LlmRequest,
}

impl Payload for BeforeModel {
    type Outcome = BeforeModelOutcome;
    const EVENT: Event = Event::BeforeModel;

    fn fields(self) -> JsonObject {
        object([("llm_request", self.llm_request.to_json())])
    }

    fn outcome(answer: HookAnswer) -> BeforeModelOutcome {
        BeforeModelOutcome {
            verdict: Verdict::of(&answer),
            request: answer.specific.get("llm_request").and_then(crate::RequestChange::from_json).map(
                |change| match answer.chose_foreign_model {
                    true => crate::RequestChange { model_by: Chooser::Project, ..change },
                    false => change,
                },
            ),
            response: answer.specific.get("llm_response").and_then(LlmResponse::from_json),
        }
    }
}

/// Before the tools are declared to the model.
#[derive(Debug, Clone, PartialEq)]
pub struct BeforeToolSelection {
    pub llm_request: LlmRequest,
}

impl Payload for BeforeToolSelection {
    type Outcome = ToolSelectionOutcome;
    const EVENT: Event = Event::BeforeToolSelection;

    fn fields(self) -> JsonObject {
        object([("llm_request", self.llm_request.to_json())])
    }

    fn outcome(answer: HookAnswer) -> ToolSelectionOutcome {
        let config = answer.specific.get("toolConfig");
        ToolSelectionOutcome { tool_config: config.and_then(ToolConfig::from_json) }
    }
}

/// A piece of a reply arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct AfterModel {
    /// As it was sent.
    pub llm_request: LlmRequest,
    pub llm_response: LlmResponse,
}

impl Payload for AfterModel {
    type Outcome = AfterModelOutcome;
    const EVENT: Event = Event::AfterModel;

    fn fields(self) -> JsonObject {
        object([("llm_request", self.llm_request.to_json()), ("llm_response", self.llm_response.to_json())])
    }

    fn outcome(answer: HookAnswer) -> AfterModelOutcome {
        AfterModelOutcome {
            verdict: Verdict::of(&answer),
            response: answer.specific.get("llm_response").and_then(LlmResponse::from_json),
        }
    }
}

/// The history is about to be compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreCompress {
    pub trigger: CompressTrigger,
}

/// What triggered the compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressTrigger {
    Manual,
    Auto,
}

impl Payload for PreCompress {
    type Outcome = ();
    const EVENT: Event = Event::PreCompress;

    fn fields(self) -> JsonObject {
        let trigger = match self.trigger {
            CompressTrigger::Manual => "manual",
            CompressTrigger::Auto => "auto",
        };
        object([("trigger", json!(trigger))])
    }

    fn outcome(_: HookAnswer) {}
}

#[cfg(test)]
mod tests;
