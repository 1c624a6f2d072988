//! Validates a sub-agent's result, and limits invalid attempts.

use std::sync::{Mutex, MutexGuard};

use pollux_domain::JsonObject;
use pollux_domain::event::TurnEnd;
use pollux_domain::sync::Locked;
use pollux_domain::tool::{ToolErrorKind, ToolOutcome};
use serde_json::Value;

use crate::call::RequestedCall;

pub(crate) const COMPLETE_TASK: &str = "complete_task";

/// How often an output may be invalid. A model that has not understood the schema by then will not.
const MAX_INVALID: u32 = 3;

/// The kind of an end that came from unusable outputs.
pub(crate) const INVALID_OUTPUT: &str = "INVALID_OUTPUT";

/// The end of the work, as far as it is reached.
#[derive(Debug, Default)]
pub(crate) struct Goal(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    output: Option<String>,
    invalid: u32,
    /// The last output that was not taken.
    refused: Option<JsonObject>,
    /// Why it was not even checked, such as a rule that denies it.
    denied: Option<String>,
}

impl Goal {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.locked()
    }

    /// Takes the output; the first one counts.
    pub(crate) fn submit(&self, output: String) {
        self.state().output.get_or_insert(output);
    }

    pub(crate) fn output(&self) -> Option<String> {
        self.state().output.clone()
    }

    /// What was handed over last and not taken, and why.
    pub(crate) fn refused(&self) -> Option<(String, &'static str)> {
        let state = self.state();
        let args = state.refused.as_ref()?;
        let mut values = args.values();
        let result = match (values.next(), values.next()) {
            (Some(Value::String(text)), None) => text.clone(),
            _ => serde_json::to_string_pretty(args).unwrap_or_default(),
        };
        Some((result, if state.denied.is_some() { "not allowed" } else { "not in the requested format" }))
    }

    /// Notes why a call that hands a result over did not.
    pub(crate) fn answered(&self, call: &RequestedCall, outcome: &ToolOutcome) {
        if call.name != COMPLETE_TASK {
            return;
        }
        self.state().denied = match outcome {
            ToolOutcome::Failed(failure) if failure.kind != ToolErrorKind::InvalidToolParams => {
                Some(failure.message.clone())
            }
            ToolOutcome::Refused(reason) => Some(reason.clone()),
            ToolOutcome::Failed(_) | ToolOutcome::Done(_) | ToolOutcome::Cancelled { .. } => None,
        };
    }

    /// Whether these calls were the last ones.
    pub(crate) fn weigh(&self, calls: &[RequestedCall]) -> Option<TurnEnd> {
        let mut state = self.state();
        if state.output.is_some() {
            return Some(TurnEnd::Finished(None));
        }
        let submitted = calls.iter().rev().find(|call| call.name == COMPLETE_TASK)?;
        state.invalid += 1;
        let same_again = state.refused.replace(submitted.args.clone()).as_ref() == Some(&submitted.args);
        (same_again || state.invalid >= MAX_INVALID).then(|| TurnEnd::InvalidReply {
            kind: INVALID_OUTPUT.to_owned(),
            message: match &state.denied {
                Some(why) => {
                    format!("The agent could not submit its result; `{COMPLETE_TASK}` was refused: {why}")
                }
                None => format!(
                    "The agent submitted an invalid result {} times ({}).",
                    state.invalid,
                    ToolErrorKind::InvalidToolParams.as_str()
                ),
            },
        })
    }
}
