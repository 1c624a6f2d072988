//! `enter_plan_mode`: switches to plan mode.

use std::sync::Arc;

use pollux_config::files::{self, Mode};
use pollux_domain::approval::{ApprovalAnswer, ApprovalMode, Outcome, Subject};
use pollux_domain::tool::{
    ArgError, Display, Effect, Invocation, Tool, ToolContext, ToolErrorKind, ToolKind, ToolOutcome, ToolSpec,
};
use pollux_domain::{BoxFuture, JsonObject};
use serde_json::{Value, json};

use super::dialog::{Planning, question, spec};

const DESCRIPTION: &str = "Switches to plan mode: you can read and search, write a plan, and change nothing else until \
the plan is approved. Use it for work that touches many places or whose right way is not clear; not for small or \
well-described changes, and not for questions.";

pub(super) struct EnterPlanMode {
    spec: Arc<ToolSpec>,
    planning: Planning,
}

impl EnterPlanMode {
    pub(super) fn new(planning: Planning) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "reason": {"type": "string", "description": "Why a plan is useful, in one sentence."},
            },
        });
        Self {
            spec: spec("enter_plan_mode", "Enter Plan Mode", ToolKind::Plan, DESCRIPTION, parameters),
            planning,
        }
    }
}

struct Call {
    spec: Arc<ToolSpec>,
    planning: Planning,
    reason: String,
}

impl Tool for EnterPlanMode {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        let reason = args.get("reason").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Box::new(Call { spec: Arc::clone(&self.spec), planning: self.planning.clone(), reason }))
    }
}

impl Invocation for Call {
    fn describe(&self) -> String {
        if self.reason.is_empty() { "Initiating Plan Mode".to_owned() } else { self.reason.clone() }
    }

    fn effect(&self) -> Effect {
        Effect::Dialog
    }

    fn run<'a>(self: Box<Self>, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let Planning { authority, folder } = &self.planning;
            let mut by = None;
            if context.must_ask {
                let subject = Subject::EnterPlan { reason: self.reason.clone() };
                let outcomes = [(Outcome::Once, ""), (Outcome::Refuse, "")];
                let request = question(&context.call, &self.spec, subject, &outcomes);
                let (answer, answered) = authority.questions.ask_with_author(request, &context.cancel).await;
                by = answered;
                if answer != ApprovalAnswer::Once {
                    return ToolOutcome::text(
                        "User cancelled entering Plan Mode.",
                        Display::Text("Cancelled".to_owned()),
                    );
                }
            }
            if let Err(error) = files::create_folder(folder, Mode::Private) {
                return ToolOutcome::failed(ToolErrorKind::ExecutionFailed, error.to_string());
            }
            let _ = authority.enter_mode(ApprovalMode::Plan, by.as_ref()).await;
            ToolOutcome::text("Switching to Plan mode.", Display::Text("Switching to Plan mode".to_owned()))
        })
    }
}
