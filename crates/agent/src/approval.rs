//! What a call may do without asking, by approval mode and settings.
//!
//! The plain rules of the modes: reading is free, edits follow `auto_edit`, everything follows `yolo`.
//! Nothing here runs anything, and a tool never decides about itself.

use std::path::PathBuf;

use pollux_config::groups::Tools;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::tool::{Effect, ToolKind, ToolSpec};

use crate::toolbox::canonical;

/// What is to happen with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    Allow,
    Deny(String),
    Ask,
}

/// The rules of one session.
#[derive(Debug, Clone)]
pub(crate) struct Approvals {
    mode: ApprovalMode,
    interactive: bool,
    core: Option<Vec<String>>,
    excluded: Vec<String>,
    allowed: Vec<String>,
    /// `run_shell_command(<prefix>)` entries.
    shell_prefixes: Vec<String>,
    plans_dir: PathBuf,
}

/// These belong to the shell: where it is not available, they have nothing to tell.
const SHELL_COMPANIONS: [&str; 2] = ["list_background_processes", "read_background_output"];

const SHELL: &str = "run_shell_command";

const PLAN_DENIAL: &str = "You are in Plan Mode with access to read-only tools.";

impl Approvals {
    /// Reads the settings' lists.
    pub(crate) fn new(mode: ApprovalMode, interactive: bool, tools: &Tools, plans_dir: PathBuf) -> Self {
        let mut allowed = Vec::new();
        let mut shell_prefixes = Vec::new();
        for entry in &tools.allowed {
            match entry.split_once('(') {
                Some((name, rest)) if canonical(name) == SHELL => {
                    shell_prefixes.push(rest.trim_end_matches(')').trim().to_owned());
                }
                // Arguments of other tools are not looked at: without them the entry would say too much.
                Some(_) => {}
                None => allowed.push(canonical(entry).to_owned()),
            }
        }
        Self {
            mode,
            interactive,
            core: tools.core.as_ref().map(|names| names.iter().map(|name| plain_name(name)).collect()),
            excluded: tools.exclude.iter().map(|name| canonical(name).to_owned()).collect(),
            allowed,
            shell_prefixes,
            plans_dir,
        }
    }

    /// Whether the model sees the tool at all. Without anyone to ask, a tool that would always have to ask
    /// is not offered.
    pub(crate) fn exposes(&self, spec: &ToolSpec) -> bool {
        if self.is_switched_off(&spec.name) {
            return false;
        }
        if SHELL_COMPANIONS.contains(&spec.name.as_str()) {
            return self.shell_is_possible();
        }
        self.interactive || self.some_call_is_allowed(spec)
    }

    /// Decides on one call.
    pub(crate) fn decide(&self, spec: &ToolSpec, effect: &Effect) -> Decision {
        if self.is_switched_off(&spec.name) {
            return Decision::Deny(String::new());
        }
        if spec.kind.is_read_only() || matches!(effect, Effect::None) {
            return Decision::Allow;
        }
        match self.mode {
            ApprovalMode::Yolo => Decision::Allow,
            ApprovalMode::Plan if self.is_plan_file(effect) => Decision::Allow,
            ApprovalMode::Plan => Decision::Deny(PLAN_DENIAL.to_owned()),
            ApprovalMode::AutoEdit if spec.kind == ToolKind::Edit => Decision::Allow,
            ApprovalMode::AutoEdit | ApprovalMode::Default => {
                if self.is_listed(spec, effect) {
                    Decision::Allow
                } else {
                    Decision::Ask
                }
            }
        }
    }

    fn is_switched_off(&self, name: &str) -> bool {
        self.excluded.iter().any(|excluded| excluded == name)
            || self.core.as_ref().is_some_and(|core| !core.iter().any(|kept| kept == name))
    }

    fn some_call_is_allowed(&self, spec: &ToolSpec) -> bool {
        if spec.kind.is_read_only() || !is_mutator(spec.kind) {
            return true;
        }
        match self.mode {
            ApprovalMode::Yolo => true,
            ApprovalMode::Plan => spec.kind == ToolKind::Edit,
            ApprovalMode::AutoEdit if spec.kind == ToolKind::Edit => true,
            ApprovalMode::AutoEdit | ApprovalMode::Default => {
                self.allowed.contains(&spec.name) || (spec.name == SHELL && !self.shell_prefixes.is_empty())
            }
        }
    }

    fn shell_is_possible(&self) -> bool {
        !self.is_switched_off(SHELL)
            && self.mode != ApprovalMode::Plan
            && (self.interactive
                || self.mode == ApprovalMode::Yolo
                || self.allowed.iter().any(|name| name == SHELL)
                || !self.shell_prefixes.is_empty())
    }

    fn is_listed(&self, spec: &ToolSpec, effect: &Effect) -> bool {
        if self.allowed.contains(&spec.name) {
            return true;
        }
        let Effect::Execute { command, .. } = effect else { return false };
        spec.name == SHELL && self.shell_prefixes.iter().any(|prefix| is_plain_use(command, prefix))
    }

    fn is_plan_file(&self, effect: &Effect) -> bool {
        let Effect::Edit(path) = effect else { return false };
        path.extension().is_some_and(|extension| extension == "md") && path.parent() == Some(&self.plans_dir)
    }
}

fn is_mutator(kind: ToolKind) -> bool {
    matches!(kind, ToolKind::Edit | ToolKind::Delete | ToolKind::Move | ToolKind::Execute)
}

fn plain_name(entry: &str) -> String {
    canonical(entry.split('(').next().unwrap_or(entry)).to_owned()
}

/// Whether a command is the prefix with plain words after it. Anything a shell could read as more than
/// one simple command is not vouched for by a prefix.
fn is_plain_use(command: &str, prefix: &str) -> bool {
    const MEANING: [char; 17] =
        [';', '|', '&', '$', '<', '>', '(', ')', '`', '\n', '\r', '{', '}', '\\', '!', '"', '\''];
    !prefix.is_empty()
        && !command.contains(MEANING)
        && command
            .trim_start()
            .strip_prefix(prefix)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::path::Path;

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

    fn approvals(mode: ApprovalMode, interactive: bool, tools: Tools) -> Approvals {
        Approvals::new(mode, interactive, &tools, Path::new("/t/plans").into())
    }

    fn run(command: &str) -> Effect {
        Effect::Execute { command: command.into(), directory: "/w".into() }
    }

    #[test]
    fn modes_decide_what_is_free() {
        let (read, edit, shell) = (
            (spec("read_file", ToolKind::Read), Effect::Read(vec![])),
            (spec("replace", ToolKind::Edit), Effect::Edit("/w/a".into())),
            (spec(SHELL, ToolKind::Execute), run("ls")),
        );
        let cases = [
            (ApprovalMode::Default, [Decision::Allow, Decision::Ask, Decision::Ask]),
            (ApprovalMode::AutoEdit, [Decision::Allow, Decision::Allow, Decision::Ask]),
            (ApprovalMode::Yolo, [Decision::Allow, Decision::Allow, Decision::Allow]),
        ];
        for (mode, expected) in cases {
            let rules = approvals(mode, true, Tools::default());
            let found = [&read, &edit, &shell].map(|(spec, effect)| rules.decide(spec, effect));
            assert_eq!(found, expected, "{mode}");
        }
    }

    #[test]
    fn plan_mode_writes_plans_and_nothing_else() {
        let rules = approvals(
            ApprovalMode::Plan,
            false,
            Tools { allowed: vec!["replace".into()], ..Tools::default() },
        );
        let edit = spec("replace", ToolKind::Edit);
        assert_eq!(rules.decide(&edit, &Effect::Edit("/t/plans/next.md".into())), Decision::Allow);
        assert!(matches!(rules.decide(&edit, &Effect::Edit("/w/a.md".into())), Decision::Deny(_)));
        assert!(!rules.exposes(&spec(SHELL, ToolKind::Execute)));
    }

    #[test]
    fn without_anyone_to_ask_a_tool_that_would_ask_is_not_offered() {
        let rules = approvals(ApprovalMode::Default, false, Tools::default());
        assert!(rules.exposes(&spec("glob", ToolKind::Search)));
        assert!(!rules.exposes(&spec("write_file", ToolKind::Edit)));
        assert!(!rules.exposes(&spec("read_background_output", ToolKind::Read)));
        assert!(
            approvals(ApprovalMode::AutoEdit, false, Tools::default())
                .exposes(&spec("write_file", ToolKind::Edit))
        );
    }

    #[test]
    fn exclusion_beats_everything() {
        let tools =
            Tools { exclude: vec!["ShellTool".into()], allowed: vec![SHELL.into()], ..Tools::default() };
        let rules = approvals(ApprovalMode::Yolo, false, tools);
        assert!(!rules.exposes(&spec(SHELL, ToolKind::Execute)));
        assert!(matches!(rules.decide(&spec(SHELL, ToolKind::Execute), &run("ls")), Decision::Deny(_)));
        let core = approvals(
            ApprovalMode::Yolo,
            false,
            Tools { core: Some(vec!["glob".into()]), ..Tools::default() },
        );
        assert!(!core.exposes(&spec("read_file", ToolKind::Read)));
    }

    #[test]
    fn a_shell_prefix_vouches_for_plain_words_only() {
        let tools = Tools { allowed: vec!["run_shell_command(git status)".into()], ..Tools::default() };
        let rules = approvals(ApprovalMode::Default, false, tools);
        let shell = spec(SHELL, ToolKind::Execute);
        assert!(rules.exposes(&shell));
        for (command, expected) in [
            ("git status", Decision::Allow),
            ("git status -s src", Decision::Allow),
            ("git statusx", Decision::Ask),
            ("git status; rm -rf .", Decision::Ask),
            ("git status $(id)", Decision::Ask),
            ("git status > /etc/x", Decision::Ask),
            ("git log", Decision::Ask),
        ] {
            assert_eq!(rules.decide(&shell, &run(command)), expected, "{command}");
        }
    }
}
