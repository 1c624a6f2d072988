//! What the rules would decide about a call. Nothing runs: neither the tool, nor hooks, nor safety checkers.

use std::path::Path;
use std::sync::Arc;

use pollux_domain::JsonObject;
use pollux_domain::approval::Why;
use pollux_domain::event::{ExplainedCall, OpResult};
use pollux_domain::id::CallId;

use crate::approval::Approvals;
use crate::call::{Refusal, RequestedCall};
use crate::calls::prepare;
use crate::permission::why;
use crate::toolbox::Toolbox;

/// Explains a call under the rules and in the mode of now. `plans` is the plan folder, in plan mode.
pub(crate) fn explain(
    approvals: &Approvals,
    toolbox: &Toolbox,
    plans: Option<&Path>,
    name: String,
    args: JsonObject,
) -> OpResult {
    let mut toolbox = toolbox.clone();
    toolbox.follow();
    toolbox.look_again(approvals);
    let call = RequestedCall { id: CallId::new(&name, "explained"), name, args };
    let ready = prepare(call, &toolbox, plans);
    let explained = match (&ready.run, &ready.spec) {
        (Ok(_), Some(spec)) => {
            let request = approvals.request(spec, ready.tool.as_deref(), &ready.args, &ready.effect);
            let verdict = approvals.engine().decide(&request);
            let mut why = why(&verdict, None);
            for check in &verdict.checks {
                why.reason.push_str(&format!(
                    " The safety checker `{}` decides when the call is made.",
                    check.name
                ));
            }
            ExplainedCall { decision: verdict.decision.as_str().to_owned(), why }
        }
        // No rule decides: the call cannot be made.
        (Err(Refusal::Failure(failure)), _) => impossible(failure.message.clone()),
        (Err(Refusal::ByPerson(reason)), _) => impossible(reason.clone()),
        (Ok(_), None) => impossible(format!("Tool \"{}\" not found.", ready.call.name)),
    };
    OpResult::Explained(Arc::new(explained))
}

fn impossible(reason: String) -> ExplainedCall {
    let why = Why { reason, rule: None, parts: Vec::new() };
    ExplainedCall { decision: "deny".to_owned(), why }
}
