//! How a turn or a failed run is reported: error type, error code, message, hint and exit code.
//!
//! Every format takes its wording of failures from here; where the words stand in the output is up to the format.

use pollux_config::groups::Dialect;
use pollux_domain::JsonObject;
use pollux_domain::budget::Exceeded;
use pollux_domain::event::{CallReport, TurnEnd};
use pollux_domain::exit::{ExitKind, Received};
use pollux_domain::failure::Failure;
use pollux_domain::model::{ModelError, ModelErrorKind};
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::plain;
use pollux_domain::tool::RunFailure;

use super::denial::with_denial;

/// A failed turn or run, in the words of both dialects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunError {
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
    pub(crate) hint: Option<String>,
    /// More for programs: the limit that was reached.
    pub(crate) details: JsonObject,
}

/// The sentence is part of upstream's behaviour.
const TURN_LIMIT: &str = "Reached max session turns for this session. Increase the number of turns by specifying maxSessionTurns in settings.json.";

/// The type of error when a budget is reached, in both dialects.
const BUDGET_TYPE: &str = "BudgetExceeded";

pub(crate) const LOOP_CODE: &str = "LOOP_DETECTED";

/// What went wrong; `None` for a turn that counts as done. A loop counts as done, with a warning.
pub(crate) fn turn_error(end: &TurnEnd) -> Option<RunError> {
    let build = |kind, code, upstream_class, message: String| {
        let details = JsonObject::new();
        let message = sanitized(&message);
        Some(RunError { kind, code, upstream_class, message, status: None, hint: None, details })
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
        TurnEnd::Failed(error) => Some(api_error(error)),
        TurnEnd::FatalTool { kind, message } => {
            let message = format!("{message} ({})", kind.as_str());
            build("TOOL_ERROR", "TOOL_EXECUTION_FAILED", "FatalToolExecutionError", message)
        }
    }
}

/// What `json` names when nothing went well after this call; the words are the protocol's.
pub(crate) fn call_error(report: &CallReport) -> Option<RunError> {
    let failure = report.outcome.failure()?;
    let message = match &failure.run {
        Some(RunFailure::ExitCode(code)) => format!("Command failed with exit code {code}"),
        Some(_) | None => with_denial(report, &failure.message),
    };
    Some(RunError {
        kind: "TOOL_ERROR",
        code: "TOOL_EXECUTION_FAILED",
        upstream_class: "FatalToolExecutionError",
        message: sanitized(&message),
        status: None,
        hint: None,
        details: JsonObject::new(),
    })
}

/// A failure outside a turn, for instance before it began.
pub(crate) fn failure_error(failure: &Failure) -> RunError {
    let kind = match failure.exit {
        ExitKind::Auth => "AUTH_ERROR",
        ExitKind::Input => "INPUT_ERROR",
        ExitKind::Sandbox => "SANDBOX_ERROR",
        ExitKind::Config => "CONFIG_ERROR",
        ExitKind::TurnLimit => "TURN_LIMIT",
        ExitKind::Tool => "TOOL_ERROR",
        ExitKind::Untrusted => "UNTRUSTED_FOLDER",
        ExitKind::Cancelled | ExitKind::Signal(_) => "CANCELLED",
        ExitKind::Success | ExitKind::Failure | ExitKind::Program(_) | ExitKind::NotStarted(_) => "ERROR",
    };
    RunError {
        kind,
        code: kind,
        upstream_class: upstream_class(failure.exit),
        message: failure.message(),
        status: None,
        hint: None,
        details: JsonObject::new(),
    }
}

/// Upstream's name for the class of error.
fn upstream_class(exit: ExitKind) -> &'static str {
    match exit {
        ExitKind::Input => "FatalInputError",
        ExitKind::Sandbox => "FatalSandboxError",
        ExitKind::Config => "FatalConfigError",
        ExitKind::TurnLimit => "FatalTurnLimitedError",
        ExitKind::Tool => "FatalToolExecutionError",
        ExitKind::Untrusted => "FatalUntrustedWorkspaceError",
        ExitKind::Cancelled | ExitKind::Signal(_) => "FatalCancellationError",
        ExitKind::Success
        | ExitKind::Failure
        | ExitKind::Auth
        | ExitKind::Program(_)
        | ExitKind::NotStarted(_) => "Error",
    }
}

/// Without control sequences and secrets: it ends up on screens and in logs.
fn sanitized(message: &str) -> String {
    redacted(&plain(message)).into_owned()
}

fn invalid_message(kind: &str, message: &str) -> String {
    if message.is_empty() {
        format!("The model's reply could not be used ({kind}).")
    } else {
        message.to_owned()
    }
}

fn api_error(error: &ModelError) -> RunError {
    let over_budget = error.kind == ModelErrorKind::BudgetExceeded;
    let exceeded = error.details.exceeded.as_ref();
    RunError {
        kind: if over_budget { BUDGET_TYPE } else { "API_ERROR" },
        code: api_code(&error.kind),
        upstream_class: if over_budget { BUDGET_TYPE } else { "Error" },
        message: sanitized(&error.marked()),
        status: error.status,
        hint: api_hint(error),
        details: exceeded.map(Exceeded::to_json).unwrap_or_default(),
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
        ModelErrorKind::BudgetExceeded => "BUDGET_EXCEEDED",
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

fn api_hint(error: &ModelError) -> Option<String> {
    let by_kind = match error.kind {
        ModelErrorKind::RateLimited => Some("wait a while, or use another model with `--model`"),
        ModelErrorKind::QuotaExhausted => {
            Some("use another model with `--model`, or wait until the quota resets")
        }
        ModelErrorKind::Network if error.message.contains("connection refused") => {
            Some("check that the server is running and that its URL is correct")
        }
        ModelErrorKind::Network => Some("check your network connection and proxy settings"),
        ModelErrorKind::Auth
        | ModelErrorKind::NotFound
        | ModelErrorKind::BadRequest
        | ModelErrorKind::ContextOverflow { .. }
        | ModelErrorKind::Unsupported { .. }
        | ModelErrorKind::PolicyBlocked
        | ModelErrorKind::Billing
        | ModelErrorKind::BudgetExceeded
        | ModelErrorKind::Server
        | ModelErrorKind::Overloaded
        | ModelErrorKind::Loading
        | ModelErrorKind::Cut
        | ModelErrorKind::Malformed
        | ModelErrorKind::Script => None,
    };
    error.advice().map(|advice| sanitized(&advice)).or_else(|| by_kind.map(str::to_owned))
}

/// The exit code of a turn. Only an unusable reply differs: upstream counts it as success.
pub(crate) fn exit_kind(end: &TurnEnd, dialect: Dialect, signal: Option<Received>) -> ExitKind {
    match end {
        TurnEnd::Finished(_) | TurnEnd::Loop(_) => ExitKind::Success,
        TurnEnd::Cancelled => signal.map_or(ExitKind::Cancelled, Received::exit),
        TurnEnd::TurnLimit => ExitKind::TurnLimit,
        TurnEnd::InvalidReply { .. } => match dialect {
            Dialect::GeminiCli => ExitKind::Success,
            Dialect::Pollux => ExitKind::Failure,
        },
        TurnEnd::Failed(error) if error.kind == ModelErrorKind::BudgetExceeded => ExitKind::TurnLimit,
        // Nothing was sent, because there is no key.
        TurnEnd::Failed(error) if error.kind == ModelErrorKind::Auth && error.status.is_none() => {
            ExitKind::Auth
        }
        TurnEnd::Overflow { .. } | TurnEnd::Failed(_) => ExitKind::Failure,
        TurnEnd::FatalTool { .. } => ExitKind::Tool,
    }
}
