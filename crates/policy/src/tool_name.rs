//! Tool names: aliases, MCP qualification and the patterns that rules use.

use pollux_config::server_name::sanitised;

/// The built-in tools, by their current names.
pub const BUILT_IN: &[&str] = &[
    "activate_skill",
    "ask_user",
    "cli_help",
    "codebase_investigator",
    "complete_task",
    "enter_plan_mode",
    "exit_plan_mode",
    "get_internal_docs",
    "glob",
    "google_web_search",
    "grep_search",
    "invoke_agent",
    "list_background_processes",
    "list_directory",
    "list_mcp_resources",
    "memory_get",
    "memory_search",
    "read_background_output",
    "read_file",
    "read_many_files",
    "read_mcp_resource",
    "replace",
    "run_shell_command",
    "save_memory",
    "tracker_add_dependency",
    "tracker_create_task",
    "tracker_get_task",
    "tracker_list_tasks",
    "tracker_update_task",
    "tracker_visualize",
    "update_topic",
    "web_fetch",
    "write_file",
    "write_todos",
];

/// The shell tool's name.
pub(crate) const SHELL: &str = "run_shell_command";

/// Agents that are asked for by name and only read.
const AGENT_TOOLS: &[&str] = &["cli_help", "codebase_investigator"];

/// The current name of a tool that has another name in older releases, settings or documents.
pub fn canonical(name: &str) -> &str {
    match name {
        "search_file_content" | "grep" | "search_files" | "GrepTool" | "RipGrepTool" => "grep_search",
        "edit_file" | "edit" | "EditTool" => "replace",
        "web_search" | "WebSearchTool" => "google_web_search",
        "shell" | "shell_execute" | "ShellTool" => SHELL,
        "delegate_to_agent" => "invoke_agent",
        "LSTool" => "list_directory",
        "ReadFileTool" => "read_file",
        "ReadManyFilesTool" => "read_many_files",
        "GlobTool" => "glob",
        "WriteFileTool" => "write_file",
        "WebFetchTool" => "web_fetch",
        "MemoryTool" => "save_memory",
        "WriteTodosTool" => "write_todos",
        other => other,
    }
}

/// A tool's name as registered for an MCP server: `mcp_<server>_<tool>`.
pub fn qualified(server: &str, tool: &str) -> String {
    let full = sanitised(&format!("mcp_{server}_{tool}"));
    let count = full.chars().count();
    if count <= 63 {
        return full;
    }
    let head: String = full.chars().take(30).collect();
    let tail: String = full.chars().skip(count - 30).collect();
    format!("{head}...{tail}")
}

/// The names of a called tool.
#[derive(Debug, Clone)]
pub(crate) struct CalledName<'a> {
    raw: &'a str,
    canonical: &'a str,
    server: Option<&'a str>,
    /// Its name without `mcp_<server>_`.
    bare: &'a str,
    agent: Option<&'a str>,
}

impl<'a> CalledName<'a> {
    /// Whether a text that could not be read as rules names this tool, or all tools.
    pub(crate) fn is_spoken_of_in(&self, text: &str) -> bool {
        let names = [Some(self.raw), Some(self.canonical), self.server];
        text.contains("\"*\"") || names.into_iter().flatten().any(|name| text.contains(name))
    }

    pub(crate) fn new(tool: &'a str, server: Option<&'a str>, agent: Option<&'a str>) -> Self {
        let parsed = tool.strip_prefix("mcp_").and_then(|rest| rest.split_once('_'));
        let Some(server) = server.or(parsed.map(|(server, _)| server)) else {
            let canonical = canonical(tool);
            // An agent that carries a tool's name must not inherit that tool's rules.
            let agent = agent
                .filter(|_| canonical == "invoke_agent")
                .filter(|name| AGENT_TOOLS.contains(name) || !BUILT_IN.contains(&self::canonical(name)));
            return Self { raw: tool, canonical, server: None, bare: tool, agent };
        };
        let bare = tool
            .strip_prefix("mcp_")
            .and_then(|rest| rest.strip_prefix(sanitised(server).as_str()))
            .and_then(|rest| rest.strip_prefix('_'))
            .unwrap_or(tool);
        Self { raw: tool, canonical: tool, server: Some(server), bare, agent: None }
    }

    pub(crate) fn is_shell(&self) -> bool {
        self.server.is_none() && self.canonical == SHELL
    }

    pub(crate) fn is_mcp(&self) -> bool {
        self.server.is_some()
    }

    pub(crate) fn canonical(&self) -> &'a str {
        self.canonical
    }
}

/// Which tools a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolMatch {
    name: NameMatch,
    server: ServerMatch,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum NameMatch {
    Any,
    Exact(String),
    Wildcard(String),
    /// Everything except MCP tools and the named tools.
    OwnBut(Vec<String>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ServerMatch {
    Unsaid,
    Any,
    Is(String),
}

impl ToolMatch {
    /// From a rule's `toolName` and `mcpName`; a missing tool name means any.
    pub(crate) fn new(tool: Option<&str>, server: Option<&str>) -> Self {
        let server_match = match server {
            None => ServerMatch::Unsaid,
            Some("*") => ServerMatch::Any,
            Some(name) => ServerMatch::Is(name.to_owned()),
        };
        let Some(tool) = tool else {
            return Self { name: NameMatch::Any, server: server_match };
        };
        if server.is_none()
            && let Some((old_server, old_tool)) = double_underscore(tool)
        {
            return Self::new(Some(old_tool), Some(old_server));
        }
        let name = if tool == "*" {
            NameMatch::Any
        } else if tool.contains('*') {
            NameMatch::Wildcard(tool.to_owned())
        } else if server.is_some() {
            NameMatch::Exact(tool.to_owned())
        } else {
            NameMatch::Exact(canonical(tool).to_owned())
        };
        Self { name, server: server_match }
    }

    /// Every tool that is not an MCP tool, except for the named ones.
    pub(crate) fn own_but(names: Vec<String>) -> Self {
        Self { name: NameMatch::OwnBut(names), server: ServerMatch::Unsaid }
    }

    pub(crate) fn is_shell(&self) -> bool {
        self.server == ServerMatch::Unsaid && matches!(&self.name, NameMatch::Exact(name) if name == SHELL)
    }

    /// Whether a rule with this match may be about the shell tool.
    pub(crate) fn covers_shell(&self) -> bool {
        self.matches(&CalledName::new(SHELL, None, None))
    }

    pub(crate) fn matches(&self, called: &CalledName<'_>) -> bool {
        match (&self.server, called.server) {
            (ServerMatch::Unsaid, _) => self.matches_name(called),
            (_, None) => false,
            (ServerMatch::Any, Some(server)) => self.matches_tool_of(server, called),
            (ServerMatch::Is(wanted), Some(server)) => {
                (wanted == server || sanitised(wanted) == sanitised(server))
                    && self.matches_tool_of(server, called)
            }
        }
    }

    fn matches_tool_of(&self, server: &str, called: &CalledName<'_>) -> bool {
        match &self.name {
            NameMatch::Any => true,
            NameMatch::OwnBut(_) => false,
            NameMatch::Exact(name) => {
                name == called.bare || name == called.raw || qualified(server, name) == called.raw
            }
            NameMatch::Wildcard(pattern) => wildcard(pattern, called.bare) || wildcard(pattern, called.raw),
        }
    }

    fn matches_name(&self, called: &CalledName<'_>) -> bool {
        match (&self.name, called.server) {
            (NameMatch::Any, _) => true,
            (NameMatch::OwnBut(names), server) => {
                server.is_none() && !names.iter().any(|name| name == called.raw || name == called.canonical)
            }
            (NameMatch::Exact(name), None) => {
                name == called.raw || name == called.canonical || Some(name.as_str()) == called.agent
            }
            (NameMatch::Wildcard(pattern), None) => {
                wildcard(pattern, called.raw)
                    || wildcard(pattern, called.canonical)
                    || called.agent.is_some_and(|agent| wildcard(pattern, agent))
            }
            // An MCP tool is only matched by its qualified name, so that it cannot pose as a built-in tool.
            (NameMatch::Exact(name), Some(server)) => {
                name.starts_with("mcp_") && (name == called.raw || *name == qualified(server, called.bare))
            }
            (NameMatch::Wildcard(pattern), Some(server)) => matches_server_tool(pattern, server, called),
        }
    }

    /// The match in a few characters, for labels.
    pub(crate) fn label(&self) -> String {
        let name = match &self.name {
            NameMatch::Any => "*",
            NameMatch::OwnBut(_) => "built-in tools",
            NameMatch::Exact(name) | NameMatch::Wildcard(name) => name,
        };
        match &self.server {
            ServerMatch::Unsaid => name.to_owned(),
            ServerMatch::Any => format!("{name} of any server"),
            ServerMatch::Is(server) => format!("{name} of server {server}"),
        }
    }
}

/// `server__tool`, the older way to name a server's tool.
pub(crate) fn double_underscore(tool: &str) -> Option<(&str, &str)> {
    if tool.starts_with("mcp_") || tool.starts_with("discovered_tool_") {
        return None;
    }
    tool.split_once("__").filter(|(server, name)| !server.is_empty() && !name.is_empty())
}

/// `mcp_*`, `mcp_<server>_*` and `mcp_*_tool`, without `mcp_git_*` reaching a server called `git_hub`.
fn matches_server_tool(pattern: &str, server: &str, called: &CalledName<'_>) -> bool {
    let full = qualified(server, called.bare);
    if !(wildcard(pattern, called.raw) || wildcard(pattern, &full)) {
        return false;
    }
    let fixed = pattern.split('*').next().unwrap_or_default();
    let own = format!("mcp_{}_", sanitised(server));
    fixed.starts_with(&own) || (fixed.len() <= "mcp_".len() || !fixed.ends_with('_'))
}

/// `*` matches any sequence of characters.
pub(crate) fn wildcard(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else {
        return rest.is_empty();
    };
    for piece in pieces {
        match rest.split_once(piece) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(tool: Option<&str>, server: Option<&str>, called: (&str, Option<&str>)) -> bool {
        ToolMatch::new(tool, server).matches(&CalledName::new(called.0, called.1, None))
    }

    #[test]
    fn names_wildcards_and_servers_match_as_written() {
        let table = [
            (Some("read_file"), None, ("read_file", None), true),
            (Some("search_file_content"), None, ("grep_search", None), true),
            (Some("grep_search"), None, ("grep", None), true),
            (Some("ShellTool"), None, ("run_shell_command", None), true),
            (Some("*"), None, ("anything", None), true),
            (Some("discovered_tool_*"), None, ("discovered_tool_x", None), true),
            (Some("discovered_tool_*"), None, ("discovered", None), false),
            (Some("mcp_*"), None, ("mcp_git_push", Some("git")), true),
            (Some("mcp_*"), None, ("read_file", None), false),
            (Some("mcp_git_*"), None, ("mcp_git_push", Some("git")), true),
            (Some("mcp_git_*"), None, ("mcp_git_hub_push", Some("git_hub")), false),
            (Some("mcp_*_push"), None, ("mcp_git_push", Some("git")), true),
            (Some("mcp_git_pu*"), None, ("mcp_git_push", Some("git")), true),
            (Some("mcp_git_push"), None, ("mcp_git_push", Some("git")), true),
            (Some("git__push"), None, ("mcp_git_push", Some("git")), true),
            (Some("push"), Some("git"), ("mcp_git_push", Some("git")), true),
            (Some("push"), Some("*"), ("mcp_git_push", Some("git")), true),
            (Some("pull"), Some("*"), ("mcp_git_push", Some("git")), false),
            (None, Some("git"), ("mcp_git_push", Some("git")), true),
            (None, Some("git"), ("mcp_other_push", Some("other")), false),
            (Some("*"), Some("my server"), ("mcp_my_server_x", Some("my server")), true),
            (Some("read_file"), None, ("read_file", Some("evil")), false),
            (None, Some("git"), ("mcp_git_push", None), true),
        ];
        for (tool, server, called, expected) in table {
            assert_eq!(hit(tool, server, called), expected, "{tool:?} {server:?} {called:?}");
        }
    }

    #[test]
    fn an_agent_is_matched_by_its_name_unless_a_tool_has_that_name() {
        let rule = ToolMatch::new(Some("codebase_investigator"), None);
        assert!(rule.matches(&CalledName::new("invoke_agent", None, Some("codebase_investigator"))));
        let rule = ToolMatch::new(Some("read_file"), None);
        assert!(!rule.matches(&CalledName::new("invoke_agent", None, Some("read_file"))));
    }

    #[test]
    fn long_names_are_shortened_the_way_they_are_registered() {
        let long = "x".repeat(80);
        let name = qualified("server", &long);
        assert_eq!(name.len(), 63);
        assert!(hit(Some(&long), Some("server"), (&name, Some("server"))));
    }
}
