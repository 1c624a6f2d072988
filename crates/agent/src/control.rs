//! Tools that change the conversation itself: questions to the person, and planning.

mod ask_user;
mod dialog;
mod enter_plan_mode;
mod exit_plan_mode;

use std::path::Path;
use std::sync::Arc;

use pollux_domain::tool::Tool;

use self::dialog::Planning;
use crate::authority::Authority;
use crate::desk::Desk;

/// All of them; without a folder for plans there is no planning.
pub(crate) fn tools(authority: &Arc<Authority>, plans: Option<&Path>) -> Vec<Arc<dyn Tool>> {
    let mut tools = vec![ask_user(&authority.desk)];
    if let Some(plans) = plans {
        let planning = Planning { authority: Arc::clone(authority), folder: plans.to_owned() };
        tools.push(Arc::new(exit_plan_mode::ExitPlanMode::new(planning.clone())));
        tools.push(Arc::new(enter_plan_mode::EnterPlanMode::new(planning)));
    }
    tools
}

/// The model's questions at this desk; a sub-agent has one of its own.
pub(crate) fn ask_user(desk: &Arc<Desk>) -> Arc<dyn Tool> {
    Arc::new(ask_user::AskUser::new(Arc::clone(desk)))
}
