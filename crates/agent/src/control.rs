//! Tools that control the conversation: `ask_user` and plan mode.

mod ask_user;
mod dialog;
mod enter_plan_mode;
mod exit_plan_mode;

use std::path::Path;
use std::sync::Arc;

use pollux_domain::tool::Tool;

use self::dialog::Planning;
use crate::authority::Authority;
use crate::pending_questions::PendingQuestions;

/// All control tools; plan mode requires a plan folder.
pub(crate) fn tools(authority: &Arc<Authority>, plans: Option<&Path>) -> Vec<Arc<dyn Tool>> {
    let mut tools = vec![ask_user(&authority.questions)];
    if let Some(plans) = plans {
        let planning = Planning { authority: Arc::clone(authority), folder: plans.to_owned() };
        tools.push(Arc::new(exit_plan_mode::ExitPlanMode::new(planning.clone())));
        tools.push(Arc::new(enter_plan_mode::EnterPlanMode::new(planning)));
    }
    tools
}

/// The `ask_user` tool; a sub-agent has its own.
pub(crate) fn ask_user(questions: &Arc<PendingQuestions>) -> Arc<dyn Tool> {
    Arc::new(ask_user::AskUser::new(Arc::clone(questions)))
}
