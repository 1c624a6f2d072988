//! What the end of a turn means: which words, which code, which exit.

use pollux_config::groups::Dialect;
use pollux_domain::event::{CallFailure, TurnEnd};
use pollux_domain::exit::ExitKind;
use pollux_domain::model::{ModelError, ModelErrorKind};
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::plain;
use pollux_domain::tool::RunFailure;

use crate::signals::Received;

/// A turn that did not end well, in the words of both dialects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// Our `error.type`.
    pub(crate) kind: &'static str,
    /// Our `error.code`, and the `code` of the `ERROR` event.
    pub(crate) code: &'static str,
    /// Upstream's class of error in `json` output.
    pub(crate) upstream_class: &'static str,
    pub(crate) message: String,
    /// The HTTP status, if there was one.
    pub(crate) status: Option<u16>,
    /// What a person can do.
    pub(crate) hint: Option<&'static str>,
}

/// The sentence is part of upstream's behaviour.
const TURN_LIMIT: &str = "Reached max session turns for this session. Increase the number of turns by specifying maxSessionTurns in settings.json.";

pub(crate) const LOOP_CODE: &str = "LOOP_DETECTED";

/// What went wrong; `None` for a turn that counts as done. A loop counts as done, with a warning.
pub(crate) fn trouble(end: &TurnEnd) -> Option<Trouble> {
    let build = |kind, code, upstream_class, message: String| {
        Some(Trouble { kind, code, upstream_class, message: harmless(&message), status: None, hint: None })
    };
    match end {
        TurnEnd::Finished(_) | TurnEnd::Loop(_) => None,
        TurnEnd::Cancelled => {
            build("CANCELLED", "CANCELLED", "FatalCancellationError", "Operation cancelled.".into())
        }
        TurnEnd::TurnLimit => build("TURN_LIMIT", "MAX_TURNS", "FatalTurnLimitedError", TURN_LIMIT.into()),
        TurnEnd::InvalidReply { kind, message } => {
            build("INVALID_STREAM", "INVALID_STREAM", "INVALID_STREAM", invalid_message(kind, message))
        }
        TurnEnd::Overflow { estimated, remaining } => build(
            "CONTEXT_OVERFLOW",
            "CONTEXT_OVERFLOW",
            "Error",
            format!(
                "The request does not fit the model's context window: about {estimated} tokens, {remaining} left."
            ),
        ),
        TurnEnd::Failed(error) => Some(api_trouble(error)),
        TurnEnd::FatalTool { kind, message } => {
            let message = format!("{message} ({})", kind.as_str());
            build("TOOL_ERROR", "TOOL_EXECUTION_FAILED", "FatalToolExecutionError", message)
        }
    }
}

/// What `json` names when nothing went well after this call; the words are the protocol's.
pub(crate) fn call_trouble(failure: &CallFailure) -> Trouble {
    let message = match &failure.run {
        Some(RunFailure::ExitCode(code)) => format!("Command failed with exit code {code}"),
        Some(_) | None => failure.message.clone(),
    };
    Trouble {
        kind: "TOOL_ERROR",
        code: "TOOL_EXECUTION_FAILED",
        upstream_class: "FatalToolExecutionError",
        message: harmless(&message),
        status: None,
        hint: None,
    }
}

/// Without control sequences and secrets: it ends up on screens and in logs.
fn harmless(message: &str) -> String {
    redacted(&plain(message)).into_owned()
}

fn invalid_message(kind: &str, message: &str) -> String {
    if message.is_empty() { format!("The model's reply was of no use ({kind}).") } else { message.to_owned() }
}

fn api_trouble(error: &ModelError) -> Trouble {
    Trouble {
        kind: "API_ERROR",
        code: api_code(&error.kind),
        upstream_class: "Error",
        message: harmless(&error.marked()),
        status: error.status,
        hint: api_hint(&error.kind),
    }
}

fn api_code(kind: &ModelErrorKind) -> &'static str {
    match kind {
        ModelErrorKind::Auth => "AUTH",
        ModelErrorKind::BadRequest
        | ModelErrorKind::ContextOverflow { .. }
        | ModelErrorKind::Unsupported { .. } => "BAD_REQUEST",
        ModelErrorKind::PolicyBlocked => "POLICY_BLOCKED",
        ModelErrorKind::Billing => "BILLING",
        ModelErrorKind::NotFound => "NOT_FOUND",
        ModelErrorKind::RateLimited => "RATE_LIMIT",
        ModelErrorKind::QuotaExhausted => "QUOTA_EXHAUSTED",
        ModelErrorKind::Server | ModelErrorKind::Overloaded | ModelErrorKind::Loading => "SERVER_ERROR",
        ModelErrorKind::Network => "NETWORK_ERROR",
        ModelErrorKind::Cut => "STREAM_CUT",
        ModelErrorKind::Malformed => "MALFORMED_REPLY",
        ModelErrorKind::Script => "SCRIPT",
    }
}

fn api_hint(kind: &ModelErrorKind) -> Option<&'static str> {
    match kind {
        ModelErrorKind::Auth => {
            Some("check `GEMINI_API_KEY`, or what `pollux config get security.auth.selectedType` says")
        }
        ModelErrorKind::NotFound => Some("check the model's name: `pollux config get model.name`"),
        ModelErrorKind::RateLimited => Some("wait a while, or use another model with `--model`"),
        ModelErrorKind::QuotaExhausted => {
            Some("use another model with `--model`, or wait until the quota is renewed")
        }
        ModelErrorKind::Network => Some("check the connection and, if you use one, the proxy"),
        ModelErrorKind::BadRequest
        | ModelErrorKind::ContextOverflow { .. }
        | ModelErrorKind::Unsupported { .. }
        | ModelErrorKind::PolicyBlocked
        | ModelErrorKind::Billing
        | ModelErrorKind::Server
        | ModelErrorKind::Overloaded
        | ModelErrorKind::Loading
        | ModelErrorKind::Cut
        | ModelErrorKind::Malformed
        | ModelErrorKind::Script => None,
    }
}

/// The exit code of a turn. Only a reply of no use differs: upstream calls that a success.
pub(crate) fn exit_kind(end: &TurnEnd, dialect: Dialect, signal: Option<Received>) -> ExitKind {
    match end {
        TurnEnd::Finished(_) | TurnEnd::Loop(_) => ExitKind::Success,
        TurnEnd::Cancelled => signal.map_or(ExitKind::Cancelled, Received::exit),
        TurnEnd::TurnLimit => ExitKind::TurnLimit,
        TurnEnd::InvalidReply { .. } => match dialect {
            Dialect::GeminiCli => ExitKind::Success,
            Dialect::Pollux => ExitKind::Failure,
        },
        TurnEnd::Overflow { .. } | TurnEnd::Failed(_) => ExitKind::Failure,
        TurnEnd::FatalTool { .. } => ExitKind::Tool,
    }
}
