//! The approval rules of a session: the policy under the session's approval mode, which can change.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use pollux_domain::JsonObject;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::sync::Locked;
use pollux_domain::tool::{Effect, Tool, ToolKind, ToolSpec};
use pollux_policy::always::{ApprovedDefinitions, Grant};
use pollux_policy::engine::{Engine, ToolFacts};
use pollux_policy::request::Request;

/// The approval rules of one session, shared by the session, the tools that change the mode, and front end operations.
pub(crate) struct Approvals {
    state: Arc<Mutex<State>>,
    pub(crate) interactive: bool,
    pub(crate) trusted: bool,
    /// The mode the session started with, which was checked then.
    granted: ApprovalMode,
    /// The calling sub-agent; `None` for the main agent.
    subagent: Option<String>,
    /// The definitions of MCP tools when the user allowed them.
    pub(crate) agreed: Arc<ApprovedDefinitions>,
}

struct State {
    engine: Arc<Engine>,
    mode: ApprovalMode,
    /// The mode to restore after plan mode.
    before_plan: Option<ApprovalMode>,
    /// A plan was approved and is being carried out.
    plan_approved: bool,
}

/// A mode that is not available in an untrusted folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Cannot enable privileged approval modes in an untrusted folder.")]
pub(crate) struct ModeRefused;

impl Approvals {
    pub(crate) fn new(engine: Arc<Engine>, mode: ApprovalMode, interactive: bool, trusted: bool) -> Self {
        let state = Arc::new(Mutex::new(State { engine, mode, before_plan: None, plan_approved: false }));
        Self { state, interactive, trusted, granted: mode, subagent: None, agreed: Arc::default() }
    }

    /// The same rules, mode and approvals for a sub-agent.
    pub(crate) fn for_subagent(&self, name: &str) -> Self {
        let subagent = match &self.subagent {
            Some(outer) => format!("{outer}/{name}"),
            None => name.to_owned(),
        };
        Self {
            state: Arc::clone(&self.state),
            interactive: self.interactive,
            trusted: self.trusted,
            granted: self.granted,
            subagent: Some(subagent),
            agreed: Arc::clone(&self.agreed),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.locked()
    }

    pub(crate) fn mode(&self) -> ApprovalMode {
        self.state().mode
    }

    pub(crate) fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.state().engine)
    }

    /// Changes the mode; returns whether it was different.
    pub(crate) fn set_mode(&self, mode: ApprovalMode) -> Result<bool, ModeRefused> {
        if mode.is_privileged() && !self.trusted && mode != self.granted {
            return Err(ModeRefused);
        }
        let mut state = self.state();
        let before = std::mem::replace(&mut state.mode, mode);
        state.before_plan = match (before, mode) {
            (ApprovalMode::Plan, ApprovalMode::Plan) => state.before_plan,
            (other, ApprovalMode::Plan) => Some(other),
            _ => None,
        };
        state.plan_approved &= mode != ApprovalMode::Plan;
        Ok(before != mode)
    }

    /// The mode before plan mode; a session that started in plan mode
    /// returns to the default mode.
    pub(crate) fn mode_before_plan(&self) -> ApprovalMode {
        self.state().before_plan.unwrap_or_default()
    }

    /// From now on an approved plan is carried out, until the next one is made.
    pub(crate) fn approve_plan(&self) {
        self.state().plan_approved = true;
    }

    pub(crate) fn carries_out_plan(&self) -> bool {
        self.state().plan_approved
    }

    /// Applies an approval for the rest of the session.
    pub(crate) fn allow_for_session(&self, grant: &Grant) {
        Arc::make_mut(&mut self.state().engine).allow_for_session(grant);
    }

    /// Applies an approval that was also saved to a file.
    pub(crate) fn allow_saved(&self, grant: &Grant, file: &Path) {
        Arc::make_mut(&mut self.state().engine).allow_saved(grant, file.to_owned());
    }

    /// Whether the model sees the tool. In a headless run, a tool that always requires approval
    /// is not offered.
    pub(crate) fn exposes(&self, tool: &dyn Tool) -> bool {
        self.exposes_to(tool, self.interactive)
    }

    /// Whether the model would see the tool in an interactive session.
    pub(crate) fn lacks_person(&self, tool: &dyn Tool) -> bool {
        let talks = matches!(tool.spec().kind, ToolKind::Communicate | ToolKind::Plan);
        !self.interactive && !talks && !self.exposes_to(tool, false) && self.exposes_to(tool, true)
    }

    fn exposes_to(&self, tool: &dyn Tool, interactive: bool) -> bool {
        let spec = tool.spec();
        let planning = self.mode() == ApprovalMode::Plan;
        match spec.name.as_str() {
            "enter_plan_mode" if planning => return false,
            "exit_plan_mode" if !planning => return false,
            _ => {}
        }
        let facts = ToolFacts {
            name: &spec.name,
            server: tool.server(),
            read_only: spec.kind.is_read_only(),
            annotations: tool.annotations(),
            subagent: self.subagent.as_deref(),
        };
        let state = self.state();
        state.engine.exposes(&facts, state.mode, interactive)
    }

    /// A call as a policy request.
    pub(crate) fn request<'a>(
        &'a self,
        spec: &'a ToolSpec,
        tool: Option<&'a dyn Tool>,
        args: &'a JsonObject,
        effect: &'a Effect,
    ) -> Request<'a> {
        Request {
            tool: &spec.name,
            server: tool.and_then(Tool::server),
            read_only: spec.kind.is_read_only(),
            annotations: tool.and_then(Tool::annotations),
            args,
            effect,
            mode: self.mode(),
            interactive: self.interactive,
            subagent: self.subagent.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_domain::tool::{ArgError, Invocation};
    use pollux_policy::engine::Options;
    use pollux_policy::load::{Sources, load};
    use serde_json::json;

    struct Named(Arc<ToolSpec>);

    impl Tool for Named {
        fn spec(&self) -> &Arc<ToolSpec> {
            &self.0
        }

        fn prepare(&self, _args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
            Err(ArgError("never called".into()))
        }
    }

    fn tool(name: &str, kind: ToolKind) -> Named {
        Named(Arc::new(ToolSpec {
            name: name.into(),
            display_name: name.into(),
            description: String::new(),
            kind,
            parameters: json!({}),
            output_is_markdown: false,
            offloads_long_output: false,
        }))
    }

    fn approvals(mode: ApprovalMode, trusted: bool) -> Approvals {
        Approvals::new(Arc::new(load(&Sources::default(), Options::default())), mode, false, trusted)
    }

    #[test]
    fn without_anyone_to_ask_a_tool_that_would_ask_is_not_offered() {
        let rules = approvals(ApprovalMode::Default, true);
        assert!(rules.exposes(&tool("glob", ToolKind::Search)));
        assert!(!rules.exposes(&tool("write_file", ToolKind::Edit)));
        assert!(!rules.exposes(&tool("read_background_output", ToolKind::Read)));
        assert_eq!(rules.set_mode(ApprovalMode::AutoEdit), Ok(true));
        assert!(rules.exposes(&tool("write_file", ToolKind::Edit)));
        assert!(!rules.exposes(&tool("run_shell_command", ToolKind::Execute)));
        assert!(rules.lacks_person(&tool("run_shell_command", ToolKind::Execute)));
        assert!(!rules.lacks_person(&tool("write_file", ToolKind::Edit)));
        // Plan mode denies it regardless of approval.
        assert_eq!(rules.set_mode(ApprovalMode::Plan), Ok(true));
        assert!(!rules.lacks_person(&tool("replace", ToolKind::Edit)));
    }

    #[test]
    fn planning_ends_where_it_began_and_never_higher() {
        let rules = approvals(ApprovalMode::AutoEdit, true);
        assert_eq!(rules.set_mode(ApprovalMode::Plan), Ok(true));
        assert!(rules.exposes(&tool("exit_plan_mode", ToolKind::Plan)));
        assert!(!rules.exposes(&tool("enter_plan_mode", ToolKind::Plan)));
        assert_eq!(rules.set_mode(ApprovalMode::Plan), Ok(false));
        assert_eq!(rules.mode_before_plan(), ApprovalMode::AutoEdit);
        assert_eq!(approvals(ApprovalMode::Plan, true).mode_before_plan(), ApprovalMode::Default);
    }

    #[test]
    fn a_folder_without_trust_gets_no_privileged_mode() {
        let rules = approvals(ApprovalMode::Default, false);
        assert_eq!(rules.set_mode(ApprovalMode::Yolo), Err(ModeRefused));
        assert_eq!(rules.set_mode(ApprovalMode::AutoEdit), Err(ModeRefused));
        assert_eq!(rules.set_mode(ApprovalMode::Plan), Ok(true));
        assert_eq!(rules.mode(), ApprovalMode::Plan);
    }

    #[test]
    fn a_mode_granted_at_the_start_can_be_entered_again() {
        let rules = approvals(ApprovalMode::Yolo, false);
        assert_eq!(rules.set_mode(ApprovalMode::Plan), Ok(true));
        assert_eq!(rules.mode_before_plan(), ApprovalMode::Yolo);
        assert_eq!(rules.set_mode(ApprovalMode::AutoEdit), Err(ModeRefused));
        assert_eq!(rules.set_mode(ApprovalMode::Yolo), Ok(true));
    }
}
