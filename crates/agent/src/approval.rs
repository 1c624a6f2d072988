//! What may run in this session: the policy's rules under the session's mode.

use std::sync::Arc;

use pollux_domain::JsonObject;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::tool::{Effect, ToolSpec};
use pollux_policy::engine::{Engine, ToolFacts};
use pollux_policy::request::{self, Request};

/// What is to happen with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    Allow,
    Deny(String),
    Ask,
}

/// The rules of one session.
#[derive(Clone)]
pub(crate) struct Approvals {
    engine: Arc<Engine>,
    mode: ApprovalMode,
    interactive: bool,
}

/// These belong to the shell: where it is not available, they have nothing to tell.
const SHELL_COMPANIONS: [&str; 2] = ["list_background_processes", "read_background_output"];

const SHELL: &str = "run_shell_command";

impl Approvals {
    pub(crate) fn new(engine: Arc<Engine>, mode: ApprovalMode, interactive: bool) -> Self {
        Self { engine, mode, interactive }
    }

    /// Whether the model sees the tool at all. Without anyone to ask, a tool that would always have to ask
    /// is not offered.
    pub(crate) fn exposes(&self, spec: &ToolSpec) -> bool {
        let companion = SHELL_COMPANIONS.contains(&spec.name.as_str());
        self.is_exposed(&spec.name, spec.kind.is_read_only()) && (!companion || self.is_exposed(SHELL, false))
    }

    fn is_exposed(&self, name: &str, read_only: bool) -> bool {
        let facts = ToolFacts { name, server: None, read_only, annotations: None, subagent: None };
        self.engine.exposes(&facts, self.mode, self.interactive)
    }

    /// Decides on one call.
    pub(crate) fn decide(&self, spec: &ToolSpec, args: &JsonObject, effect: &Effect) -> Decision {
        let verdict = self.engine.decide(&Request {
            tool: &spec.name,
            server: None,
            read_only: spec.kind.is_read_only(),
            annotations: None,
            args,
            effect,
            mode: self.mode,
            interactive: self.interactive,
            subagent: None,
        });
        match verdict.decision {
            request::Decision::Allow if verdict.checks.is_empty() => Decision::Allow,
            // No external checker can be run yet; what it might have refused is not let through.
            request::Decision::Allow => {
                Decision::Deny("A safety checker that has to be asked is not available.".into())
            }
            request::Decision::Ask => Decision::Ask,
            request::Decision::Deny if verdict.would_ask => Decision::Ask,
            request::Decision::Deny => Decision::Deny(verdict.deny_message.unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_domain::tool::ToolKind;
    use pollux_policy::engine::Options;
    use pollux_policy::load::{Sources, load};
    use pollux_policy::settings_rules::Lists;
    use serde_json::json;

    fn spec(name: &str, kind: ToolKind) -> ToolSpec {
        ToolSpec {
            name: name.into(),
            display_name: name.into(),
            description: String::new(),
            kind,
            parameters: json!({}),
            output_is_markdown: false,
            offloads_long_output: false,
        }
    }

    fn approvals(mode: ApprovalMode, interactive: bool, lists: Lists) -> Approvals {
        let options = Options { workspaces: vec!["/w".into()], ..Options::default() };
        let engine = load(&Sources { lists, ..Sources::default() }, options);
        assert!(engine.problems().is_empty(), "{:?}", engine.problems());
        Approvals::new(Arc::new(engine), mode, interactive)
    }

    fn run(rules: &Approvals, command: &str) -> Decision {
        let effect = Effect::Execute { command: command.into(), directory: "/w".into() };
        let args = json!({"command": command});
        rules.decide(&spec(SHELL, ToolKind::Execute), args.as_object().unwrap(), &effect)
    }

    fn edit(rules: &Approvals, path: &str) -> Decision {
        let args = json!({"file_path": path, "old_string": "a", "new_string": "b", "instruction": "i"});
        rules.decide(&spec("replace", ToolKind::Edit), args.as_object().unwrap(), &Effect::Edit(path.into()))
    }

    #[test]
    fn modes_decide_what_is_free() {
        let read = (spec("read_file", ToolKind::Read), Effect::Read(vec!["/w/a".into()]));
        let cases = [
            (ApprovalMode::Default, [Decision::Allow, Decision::Ask, Decision::Ask]),
            (ApprovalMode::AutoEdit, [Decision::Allow, Decision::Allow, Decision::Ask]),
            (ApprovalMode::Yolo, [Decision::Allow, Decision::Allow, Decision::Allow]),
        ];
        for (mode, expected) in cases {
            let rules = approvals(mode, true, Lists::default());
            let args = json!({"file_path": "/w/a"});
            let looked = rules.decide(&read.0, args.as_object().unwrap(), &read.1);
            assert_eq!([looked, edit(&rules, "/w/a"), run(&rules, "make install")], expected, "{mode}");
        }
    }

    #[test]
    fn without_anyone_to_ask_a_tool_that_would_ask_is_not_offered() {
        let rules = approvals(ApprovalMode::Default, false, Lists::default());
        assert!(rules.exposes(&spec("glob", ToolKind::Search)));
        assert!(!rules.exposes(&spec("write_file", ToolKind::Edit)));
        assert!(!rules.exposes(&spec("read_background_output", ToolKind::Read)));
        let editing = approvals(ApprovalMode::AutoEdit, false, Lists::default());
        assert!(editing.exposes(&spec("write_file", ToolKind::Edit)));
        assert!(!editing.exposes(&spec(SHELL, ToolKind::Execute)));
    }

    #[test]
    fn exclusion_beats_everything() {
        let lists = Lists { exclude: vec![SHELL.into()], allowed: vec![SHELL.into()], ..Lists::default() };
        let rules = approvals(ApprovalMode::Yolo, false, lists);
        assert!(!rules.exposes(&spec(SHELL, ToolKind::Execute)));
        assert!(matches!(run(&rules, "ls"), Decision::Deny(_)));
    }

    #[test]
    fn a_shell_prefix_vouches_for_its_own_command_only() {
        let lists = Lists { allowed: vec!["run_shell_command(git status)".into()], ..Lists::default() };
        let rules = approvals(ApprovalMode::Default, false, lists);
        assert!(rules.exposes(&spec(SHELL, ToolKind::Execute)));
        assert_eq!(run(&rules, "git status -s src"), Decision::Allow);
        for command in
            ["git statusx", "git status; rm -rf .", "git status $(id)", "git status > /etc/x", "git push"]
        {
            assert_ne!(run(&rules, command), Decision::Allow, "{command}");
        }
    }
}
