//! The end of a turn.

use std::time::Duration;

use pollux_domain::event::TurnEnd;
use pollux_domain::model::{FinishReason, MicroUsd, ModelErrorKind, Usage};
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::plain;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::words;

/// What is counted in a turn.
pub(crate) struct TurnCounts {
    pub(crate) started: Instant,
    /// Time spent waiting for the model.
    pub(crate) requests: Duration,
    /// Replies of the model.
    pub(crate) steps: u64,
    pub(crate) usage: Usage,
    /// The last text of the model, or the output of a command.
    pub(crate) text: String,
    /// Calls that were refused.
    pub(crate) denials: Vec<Value>,
    /// A call runs.
    pub(crate) in_call: bool,
}

impl Default for TurnCounts {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            requests: Duration::ZERO,
            steps: 0,
            usage: Usage::default(),
            text: String::new(),
            denials: Vec::new(),
            in_call: false,
        }
    }
}

/// The `result` of a turn. What it cost is for the whole session, as far as it is known.
pub(crate) fn result(outcome: &Result<TurnEnd, String>, counts: &TurnCounts, cost: MicroUsd) -> Value {
    let (subtype, reason, error) = match outcome {
        Ok(TurnEnd::Finished(_)) => ("success", "completed", None),
        Ok(TurnEnd::Cancelled) => {
            let reason = if counts.in_call { "aborted_tools" } else { "aborted_streaming" };
            ("error_during_execution", reason, Some("The turn was interrupted.".to_owned()))
        }
        Ok(TurnEnd::TurnLimit) => {
            ("error_max_turns", "max_turns", Some("The maximum number of turns is reached.".to_owned()))
        }
        Ok(TurnEnd::Failed(error)) => {
            let subtype = match error.kind {
                ModelErrorKind::BudgetExceeded => "error_max_budget_usd",
                _ => "error_during_execution",
            };
            (subtype, "model_error", Some(error.message.clone()))
        }
        Ok(TurnEnd::Loop(message)) => ("error_during_execution", "error", Some(message.clone())),
        Ok(TurnEnd::InvalidReply { message, .. } | TurnEnd::FatalTool { message, .. }) => {
            ("error_during_execution", "error", Some(message.clone()))
        }
        Ok(TurnEnd::Overflow { .. }) => {
            let message = "The request does not fit the model's context window.".to_owned();
            ("error_during_execution", "prompt_too_long", Some(message))
        }
        Err(why) => ("error_during_execution", "error", Some(why.clone())),
    };
    let status = match outcome {
        Ok(TurnEnd::Failed(error)) => error.status,
        _ => None,
    };
    let errors: Vec<String> = error.iter().map(|error| redacted(&plain(error)).into_owned()).collect();
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let mut result = json!({
        "type": "result",
        "subtype": subtype,
        "is_error": error.is_some(),
        "duration_ms": millis(counts.started.elapsed()),
        "duration_api_ms": millis(counts.requests),
        "num_turns": counts.steps,
        "stop_reason": stop_reason(outcome),
        "terminal_reason": reason,
        "total_cost_usd": cost.0 as f64 / 1_000_000.0,
        "usage": words::usage(counts.usage),
        "permission_denials": counts.denials,
        "api_error_status": status,
        "errors": errors,
    });
    if let (None, Some(fields)) = (&error, result.as_object_mut()) {
        fields.insert("result".to_owned(), counts.text.as_str().into());
    }
    result
}

fn stop_reason(outcome: &Result<TurnEnd, String>) -> Option<&'static str> {
    let Ok(TurnEnd::Finished(finish)) = outcome else { return None };
    Some(match finish.as_ref().map(|finish| &finish.reason) {
        Some(FinishReason::MaxTokens | FinishReason::ContextWindow) => "max_tokens",
        Some(FinishReason::Safety | FinishReason::ContentFilter | FinishReason::Refusal(_)) => "refusal",
        Some(FinishReason::StopSequence) => "stop_sequence",
        _ => "end_turn",
    })
}

#[cfg(test)]
mod tests {
    use pollux_domain::model::ModelError;

    use super::*;

    #[test]
    fn every_end_has_its_subtype() {
        let failed = |kind| Ok(TurnEnd::Failed(ModelError::new(kind, Some(429), "no")));
        let cases = [
            (Ok(TurnEnd::Finished(None)), "success", false),
            (Ok(TurnEnd::Cancelled), "error_during_execution", true),
            (Ok(TurnEnd::TurnLimit), "error_max_turns", true),
            (Ok(TurnEnd::Loop("x".into())), "error_during_execution", true),
            (failed(ModelErrorKind::RateLimited), "error_during_execution", true),
            (failed(ModelErrorKind::BudgetExceeded), "error_max_budget_usd", true),
            (Err("no".to_owned()), "error_during_execution", true),
        ];
        for (outcome, subtype, is_error) in cases {
            let counts = TurnCounts { text: "said".to_owned(), ..TurnCounts::default() };
            let result = result(&outcome, &counts, MicroUsd(1_500_000));
            assert_eq!((&result["subtype"], &result["is_error"]), (&json!(subtype), &json!(is_error)));
            assert_eq!(result["result"].as_str(), (!is_error).then_some("said"));
            assert_eq!(
                (result["errors"].as_array().unwrap().len(), &result["total_cost_usd"]),
                (usize::from(is_error), &json!(1.5))
            );
        }
    }
}
