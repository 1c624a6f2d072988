//! The outcomes that hooks can cause.

use std::collections::BTreeSet;

use pollux_domain::JsonObject;
use serde_json::Value;

use crate::answer::{Decision, HookAnswer};
use crate::model_format::{LlmResponse, RequestChange};

/// Upstream's text when a hook gives no reason.
const NO_REASON: &str = "No reason provided";

/// Whether something goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Verdict {
    #[default]
    Proceed,
    /// The action is prevented; the turn continues.
    Block { reason: String },
    /// The turn ends.
    Stop { reason: String },
}

impl Verdict {
    pub(crate) fn of(answer: &HookAnswer) -> Self {
        if answer.stop {
            let reason = answer.stop_reason.clone().or_else(|| answer.reason.clone());
            return Self::Stop { reason: reason.unwrap_or_else(|| NO_REASON.to_owned()) };
        }
        match answer.decision {
            Decision::Deny => {
                Self::Block { reason: answer.reason.clone().unwrap_or_else(|| NO_REASON.to_owned()) }
            }
            // Only calls can require approval.
            Decision::None | Decision::Allow | Decision::Ask => Self::Proceed,
        }
    }
}

/// Whether a call continues.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CallVerdict {
    /// To the policy, which still decides.
    #[default]
    Proceed,
    /// The user must be asked, in any approval mode.
    Ask {
        message: Option<String>,
    },
    Block {
        reason: String,
    },
    Stop {
        reason: String,
    },
}

impl CallVerdict {
    pub(crate) fn of(answer: &HookAnswer) -> Self {
        match Verdict::of(answer) {
            Verdict::Stop { reason } => Self::Stop { reason },
            Verdict::Block { reason } => Self::Block { reason },
            Verdict::Proceed if answer.decision == Decision::Ask => {
                Self::Ask { message: answer.system_message.clone().or_else(|| answer.reason.clone()) }
            }
            Verdict::Proceed => Self::Proceed,
        }
    }
}

/// Of [`crate::SessionStart`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionStartOutcome {
    /// For the model, before the first prompt; see [`hook_context`].
    pub context: Option<String>,
}

/// Of [`crate::BeforeAgent`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BeforeAgentOutcome {
    pub verdict: Verdict,
    /// Additional context for the model; see [`hook_context`].
    pub context: Option<String>,
}

/// Of [`crate::AfterAgent`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AfterAgentOutcome {
    /// A block makes the reason the next user turn.
    pub verdict: Verdict,
    /// The history is forgotten, after a stop or before the next turn.
    pub clear_context: bool,
}

/// Of [`crate::BeforeModel`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BeforeModelOutcome {
    pub verdict: Verdict,
    pub request: Option<RequestChange>,
    /// Replaces the model's reply: after a warning if blocked, silently otherwise.
    pub response: Option<LlmResponse>,
}

/// Of [`crate::BeforeToolSelection`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolSelectionOutcome {
    pub tool_config: Option<ToolConfig>,
}

/// Of [`crate::AfterModel`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AfterModelOutcome {
    /// A block discards the piece.
    pub verdict: Verdict,
    /// Replaces the chunk.
    pub response: Option<LlmResponse>,
}

/// Of [`crate::BeforeTool`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BeforeToolOutcome {
    pub verdict: CallVerdict,
    /// Replaces the arguments. They are checked and decided on like the model's own.
    pub tool_input: Option<JsonObject>,
}

/// Of [`crate::AfterTool`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AfterToolOutcome {
    pub verdict: Verdict,
    /// For the model, behind the result; see [`hook_context`].
    pub context: Option<String>,
    /// A call whose result replaces this one's; see [`crate::MAX_TAIL_CALLS`].
    pub tail_call: Option<TailCall>,
}

/// A call requested by a hook.
#[derive(Debug, Clone, PartialEq)]
pub struct TailCall {
    pub name: String,
    pub args: JsonObject,
}

/// Which tools the model may choose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolConfig {
    pub mode: ToolMode,
    /// Empty for all.
    pub allowed: BTreeSet<String>,
}

/// Whether the model must, may or must not call a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolMode {
    #[default]
    Auto,
    Any,
    None,
}

impl ToolConfig {
    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        let names = value.get("allowedFunctionNames").and_then(Value::as_array);
        Some(Self {
            mode: match value.as_object()?.get("mode").and_then(Value::as_str) {
                Some("ANY") => ToolMode::Any,
                Some("NONE") => ToolMode::None,
                Some(_) | None => ToolMode::Auto,
            },
            allowed: names.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
        })
    }
}

impl TailCall {
    fn from_json(value: &Value) -> Option<Self> {
        let name = value.get("name").and_then(Value::as_str).filter(|name| !name.is_empty())?;
        let args = value.get("args").and_then(Value::as_object).cloned().unwrap_or_default();
        Some(Self { name: name.to_owned(), args })
    }
}

pub(crate) fn context(answer: &HookAnswer) -> Option<String> {
    let text = answer.specific.get("additionalContext").and_then(Value::as_str)?;
    (!text.trim().is_empty()).then(|| text.to_owned())
}

pub(crate) fn tool_input(answer: &HookAnswer) -> Option<JsonObject> {
    answer.specific.get("tool_input").and_then(Value::as_object).cloned()
}

pub(crate) fn tail_call(answer: &HookAnswer) -> Option<TailCall> {
    answer.specific.get("tailToolCallRequest").and_then(TailCall::from_json)
}

/// Context as sent to the model; it cannot close its own tags.
pub fn hook_context(text: &str) -> String {
    format!("<hook_context>{}</hook_context>", text.replace('<', "&lt;").replace('>', "&gt;"))
}
