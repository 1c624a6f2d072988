//! Turns settings and flags such as `tools.allowed` into rules.

use crate::request::{Decision, RuleSource};
use crate::rule::{Condition, Modes, Rule, short_label};
use crate::tier::{Rank, Tier};
use crate::tool_name::{SHELL, ToolMatch, canonical};

/// Lists from settings and flags, as plain data.
#[derive(Debug, Clone, Default)]
pub struct Lists {
    /// `--allowed-tools`, or `tools.allowed` where the flag is not given.
    pub allowed: Vec<String>,
    /// Where `allowed` comes from, for explanations.
    pub allowed_by_flag: bool,
    /// `tools.exclude`.
    pub exclude: Vec<String>,
    /// `tools.core`; `None` means all tools.
    pub core: Option<Vec<String>>,
    /// The list is a project's: it can restrict tools but not allow any.
    pub core_only_limits: bool,
    /// `tools.confirmationRequired`.
    pub confirmation_required: Vec<String>,
    /// `mcp.excluded`.
    pub excluded_servers: Vec<String>,
    /// `mcp.allowed` or `--allowed-mcp-server-names`.
    pub allowed_servers: Vec<String>,
    /// `mcp.autoAllowInHeadless`: MCP tools run without approval in headless runs.
    pub headless_servers: bool,
    /// Servers with `trust: true`, in a trusted folder.
    pub trusted_servers: Vec<String>,
    /// Agents that run on another machine.
    pub remote_agents: Vec<String>,
}

/// The rules that the lists translate to.
pub(crate) fn rules(lists: &Lists) -> Vec<Rule> {
    let mut out = Vec::new();
    for server in &lists.excluded_servers {
        out.push(Draft::server(server, Decision::Deny, 900, "mcp.excluded").rule());
    }
    for entry in &lists.exclude {
        out.push(Draft::entry(entry, Decision::Deny, 400, "tools.exclude").rule());
    }
    for entry in &lists.confirmation_required {
        out.push(Draft::entry(entry, Decision::Ask, 350, "tools.confirmationRequired").rule());
    }
    let source = if lists.allowed_by_flag { "--allowed-tools" } else { "tools.allowed" };
    for entry in &lists.allowed {
        out.push(Draft::entry(entry, Decision::Allow, 300, source).rule());
    }
    if lists.allowed.iter().any(|entry| matches!(split(entry), (SHELL, Some(_)))) {
        out.push(Draft::new(ToolMatch::new(Some(SHELL), None), Decision::Deny, 290, source).rule());
    }
    if let Some(core) = &lists.core {
        let listed = if lists.core_only_limits {
            core.iter().map(|entry| split(entry).0.to_owned()).collect()
        } else {
            let allow = |entry: &String| Draft::entry(entry, Decision::Allow, 250, "tools.core");
            out.extend(core.iter().map(|entry| allow(entry).in_modes(Modes::NOT_PLAN).rule()));
            Vec::new()
        };
        // MCP tools have their own lists.
        let others = Draft::new(ToolMatch::own_but(listed), Decision::Deny, 240, "tools.core");
        out.push(others.in_modes(Modes::NOT_PLAN).rule());
    }
    for server in &lists.trusted_servers {
        let source = format!("mcpServers.{server}.trust");
        let draft = Draft::server(server, Decision::Allow, 200, &source);
        out.push(draft.in_modes(Modes::NOT_PLAN).rule());
    }
    for server in &lists.allowed_servers {
        let draft = Draft::server(server, Decision::Allow, 100, "mcp.allowed");
        out.push(draft.in_modes(Modes::NOT_PLAN).rule());
    }
    if lists.headless_servers {
        let draft = Draft::server("*", Decision::Allow, 100, "mcp.autoAllowInHeadless");
        let mut rule = draft.in_modes(Modes::NOT_PLAN).rule();
        rule.interactive = Some(false);
        out.push(rule);
    }
    for agent in &lists.remote_agents {
        let tool = ToolMatch::new(Some(agent), None);
        let mut draft = Draft::new(tool, Decision::Ask, 130, "remote agent");
        draft.tier = Tier::Default;
        out.push(draft.rule());
    }
    out
}

/// Whether a rule only denies the commands missing from an allow list.
pub(crate) fn is_remainder(rule: &Rule) -> bool {
    rule.decision == Decision::Deny
        && rule.condition.is_always()
        && rule.rank == Rank::new(Tier::User, 290)
        && matches!(rule.source.source.as_str(), "tools.allowed" | "--allowed-tools")
}

/// `name` or `name(argument)`, with the name as it is called today.
fn split(entry: &str) -> (&str, Option<&str>) {
    let entry = entry.trim();
    let parts =
        entry.split_once('(').and_then(|(name, rest)| Some((name.trim(), rest.strip_suffix(')')?.trim())));
    match parts {
        Some((name, argument)) if !argument.is_empty() => (canonical(name), Some(argument)),
        Some((name, _)) => (canonical(name), None),
        None => (canonical(entry), None),
    }
}

struct Draft {
    tool: ToolMatch,
    condition: Condition,
    decision: Decision,
    priority: u16,
    modes: Modes,
    tier: Tier,
    source: String,
}

impl Draft {
    fn new(tool: ToolMatch, decision: Decision, priority: u16, source: &str) -> Self {
        Self {
            tool,
            condition: Condition::Always,
            decision,
            priority,
            modes: Modes::UNSAID,
            tier: Tier::User,
            source: source.to_owned(),
        }
    }

    fn server(server: &str, decision: Decision, priority: u16, source: &str) -> Self {
        Self::new(ToolMatch::new(None, Some(server)), decision, priority, source)
    }

    fn entry(entry: &str, decision: Decision, priority: u16, source: &str) -> Self {
        let (name, argument) = split(entry);
        let mut draft = Self::new(ToolMatch::new(Some(name), None), decision, priority, source);
        if let Some(argument) = argument.filter(|_| name == SHELL) {
            // `git:*` is how another program writes the prefix `git`.
            draft.condition = Condition::prefix(argument.strip_suffix(":*").unwrap_or(argument));
        }
        draft
    }

    fn in_modes(mut self, modes: Modes) -> Self {
        self.modes = modes;
        self
    }

    fn rule(self) -> Rule {
        let rank = Rank::new(self.tier, self.priority);
        let label = short_label(self.decision, &self.tool, &self.condition);
        Rule {
            source: RuleSource {
                tier: self.tier.as_str(),
                source: self.source,
                path: None,
                line: None,
                label,
                priority: rank.as_f64(),
            },
            tool: self.tool,
            condition: self.condition,
            decision: self.decision,
            modes: self.modes,
            interactive: None,
            annotations: Vec::new(),
            subagent: None,
            allow_redirection: false,
            deny_message: None,
            rank,
            tier: self.tier,
            from_session: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> Vec<String> {
        entries.iter().map(|entry| (*entry).to_owned()).collect()
    }

    #[test]
    fn each_settings_list_has_its_documented_priority() {
        let lists = Lists {
            allowed: list(&["read_file", "ShellTool(git)"]),
            exclude: list(&["run_shell_command(rm)"]),
            core: Some(list(&["ReadFileTool"])),
            confirmation_required: list(&["web_fetch"]),
            excluded_servers: list(&["bad"]),
            allowed_servers: list(&["good"]),
            headless_servers: true,
            trusted_servers: list(&["mine"]),
            remote_agents: list(&["far"]),
            ..Lists::default()
        };
        let found: Vec<(String, f64)> =
            rules(&lists).into_iter().map(|rule| (rule.source.label, rule.source.priority)).collect();
        let expected = [
            ("deny * of server bad", 4.9),
            ("deny run_shell_command(rm)", 4.4),
            ("ask web_fetch", 4.35),
            ("allow read_file", 4.3),
            ("allow run_shell_command(git)", 4.3),
            ("deny run_shell_command", 4.29),
            ("allow read_file", 4.25),
            ("deny built-in tools", 4.24),
            ("allow * of server mine", 4.2),
            ("allow * of server good", 4.1),
            ("allow * of any server", 4.1),
            ("ask far", 1.13),
        ];
        assert_eq!(found, expected.map(|(label, number)| (label.to_owned(), number)));
    }

    #[test]
    fn a_projects_tool_list_can_restrict_but_not_allow() {
        let lists =
            Lists { core: Some(list(&["ShellTool(git)"])), core_only_limits: true, ..Lists::default() };
        let found = rules(&lists);
        assert_eq!(found.len(), 1);
        assert!(!found[0].tool.covers_shell());
        assert!(found[0].tool.matches(&crate::tool_name::CalledName::new("glob", None, None)));
    }

    #[test]
    fn without_a_shell_prefix_other_commands_are_not_denied() {
        let lists = Lists { allowed: list(&["run_shell_command", "read_file(x)"]), ..Lists::default() };
        assert!(rules(&lists).iter().all(|rule| rule.decision == Decision::Allow));
    }
}
