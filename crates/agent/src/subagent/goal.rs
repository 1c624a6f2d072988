//! Validates a sub-agent's result, and limits invalid attempts.

use std::sync::{Mutex, MutexGuard};

use pollux_domain::event::TurnEnd;
use pollux_domain::sync::Locked;
use pollux_domain::{JsonObject, tool::ToolErrorKind};
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
    /// The last unusable output.
    refused: Option<JsonObject>,
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

    /// What was handed over last and was not valid.
    pub(crate) fn refused(&self) -> Option<String> {
        let state = self.state();
        let args = state.refused.as_ref()?;
        let mut values = args.values();
        Some(match (values.next(), values.next()) {
            (Some(Value::String(text)), None) => text.clone(),
            _ => serde_json::to_string_pretty(args).unwrap_or_default(),
        })
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
            message: format!(
                "The agent submitted an invalid result {} times ({}).",
                state.invalid,
                ToolErrorKind::InvalidToolParams.as_str()
            ),
        })
    }
}
