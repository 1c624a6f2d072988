//! Tools that change the conversation itself: questions to the person, and planning.

mod ask_user;
mod enter_plan_mode;
mod exit_plan_mode;

use std::path::Path;
use std::sync::Arc;

use pollux_domain::approval::{ApprovalRequest, Offer, Outcome, Subject, Why};
use pollux_domain::id::CallId;
use pollux_domain::tool::{Tool, ToolKind, ToolSpec};
use serde_json::Value;

use crate::approval::Approvals;
use crate::desk::Desk;

/// All of them; without a folder for plans there is no planning.
pub(crate) fn tools(
    desk: &Arc<Desk>,
    approvals: &Arc<Approvals>,
    plans: Option<&Path>,
) -> Vec<Arc<dyn Tool>> {
    let mut tools: Vec<Arc<dyn Tool>> = vec![Arc::new(ask_user::AskUser::new(Arc::clone(desk)))];
    if let Some(plans) = plans {
        let planning =
            Planning { desk: Arc::clone(desk), approvals: Arc::clone(approvals), folder: plans.to_owned() };
        tools.push(Arc::new(exit_plan_mode::ExitPlanMode::new(planning.clone())));
        tools.push(Arc::new(enter_plan_mode::EnterPlanMode::new(planning)));
    }
    tools
}

/// The questions of a sub-agent, who asks at a desk of its own.
pub(crate) fn ask_user(desk: &Arc<Desk>) -> Arc<dyn Tool> {
    Arc::new(ask_user::AskUser::new(Arc::clone(desk)))
}

/// What the planning tools work with.
#[derive(Clone)]
struct Planning {
    desk: Arc<Desk>,
    approvals: Arc<Approvals>,
    folder: std::path::PathBuf,
}

fn spec(
    name: &str,
    display_name: &str,
    kind: ToolKind,
    description: &str,
    parameters: Value,
) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        name: name.to_owned(),
        display_name: display_name.to_owned(),
        description: description.to_owned(),
        kind,
        parameters,
        output_is_markdown: false,
        offloads_long_output: false,
    })
}

/// A question of one of these tools.
fn question(
    call: &CallId,
    spec: &ToolSpec,
    subject: Subject,
    outcomes: &[(Outcome, &str)],
) -> ApprovalRequest {
    let offers =
        outcomes.iter().map(|(outcome, covers)| Offer { outcome: *outcome, covers: (*covers).to_owned() });
    ApprovalRequest {
        call: call.clone(),
        tool: spec.name.clone(),
        display_name: spec.display_name.clone(),
        args: pollux_domain::JsonObject::new(),
        subject,
        destroys: None,
        why: Why::default(),
        offers: offers.collect(),
    }
}
