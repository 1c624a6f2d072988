//! Entries of tool lists as Claude Code writes them, in the form of our lists.

use pollux_hooks::claude_tool_name;
use pollux_policy::{BUILT_IN, canonical_tool_name, qualified_tool_name};

/// The tool that runs commands.
const SHELL: &str = "run_shell_command";
/// Another tool that reads files.
const READ_MANY: &str = "read_many_files";

/// What a list is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolList {
    Allowed,
    /// Denied, or asked for.
    Restricted,
}

/// The entries of a list, which commas or spaces separate.
pub fn tool_entries(list: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    let split = |letter: char| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (letter == ',' || letter.is_whitespace())
    };
    list.split(split).filter(|entry| !entry.is_empty()).collect()
}

/// An entry such as `Bash(git:*)` or `mcp__server__tool` in our form, which may be several; an error says why there is
/// none that allows no more, or restricts no less.
pub fn tool_entry(entry: &str, list: ToolList) -> Result<Vec<String>, String> {
    let inexpressible = |why: &str| Err(format!("`{entry}` {why}"));
    let (name, argument) = match entry.split_once('(') {
        None => (entry.trim(), None),
        Some((name, rest)) => match rest.strip_suffix(')') {
            Some(argument) => (name.trim(), Some(argument.trim()).filter(|argument| *argument != "*")),
            None => return inexpressible("has no closing parenthesis"),
        },
    };
    if name.is_empty() {
        return inexpressible("names no tool");
    }
    if let Some(of_server) = name.strip_prefix("mcp__") {
        if argument.is_some() {
            return inexpressible("has an argument, which is not supported for MCP tools");
        }
        let (server, tool) = of_server.split_once("__").unwrap_or((of_server, "*"));
        if server.contains('*') || (tool.contains('*') && tool != "*") {
            return inexpressible("uses `*` for something other than all tools of a server");
        }
        return Ok(vec![match tool {
            "*" | "" => format!("{}*", qualified_tool_name(server, "")),
            tool => qualified_tool_name(server, tool),
        }]);
    }
    let ours = claude_tool_name(name).unwrap_or_else(|| canonical_tool_name(name));
    if (name, argument, list) == ("Read", None, ToolList::Restricted) {
        return Ok(vec![ours.to_owned(), READ_MANY.to_owned()]);
    }
    match argument.filter(|argument| !argument.is_empty()) {
        None => Ok(vec![ours.to_owned()]),
        Some(_) if ours != SHELL => inexpressible("has an argument, which is supported for commands only"),
        Some(argument) => {
            let prefix = argument.strip_suffix(":*").or_else(|| argument.strip_suffix(" *"));
            if prefix.unwrap_or(argument).contains('*') {
                return inexpressible("has an unsupported wildcard; use `Bash(COMMAND:*)`");
            }
            match (prefix, list) {
                (Some(prefix), _) => Ok(vec![format!("{SHELL}({prefix})")]),
                // Ours are beginnings, so a whole command would allow more.
                (None, ToolList::Allowed) => inexpressible("is a whole command, not the beginning of one"),
                (None, ToolList::Restricted) => Ok(vec![format!("{SHELL}({argument})")]),
            }
        }
    }
}

/// Whether an entry names a tool that exists here or on a server.
pub fn is_known_entry(entry: &str) -> bool {
    let name = entry.split('(').next().unwrap_or(entry);
    name.starts_with("mcp_") || BUILT_IN.contains(&name)
}

/// The built-in tools that are not among these entries.
pub fn other_built_in_tools(kept: &[String]) -> Vec<String> {
    let is_kept = |tool: &&&str| kept.iter().any(|name| name == **tool);
    BUILT_IN.iter().filter(|tool| !is_kept(tool)).map(|tool| (*tool).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_allow_no_more_and_restrict_no_less() {
        let joined = |entry, list| tool_entry(entry, list).ok().map(|entries| entries.join(" "));
        let allowed = |entry| joined(entry, ToolList::Allowed);
        let restricted = |entry| joined(entry, ToolList::Restricted);
        for (entry, ours) in [
            ("Bash", "run_shell_command"),
            ("Bash(*)", "run_shell_command"),
            ("Bash(git log:*)", "run_shell_command(git log)"),
            ("Task", "invoke_agent"),
            ("write_file", "write_file"),
            ("mcp__calc__add", "mcp_calc_add"),
            ("mcp__calc", "mcp_calc_*"),
            ("mcp__calc__*", "mcp_calc_*"),
            ("NoSuch", "NoSuch"),
        ] {
            assert_eq!(allowed(entry).as_deref(), Some(ours), "{entry}");
            assert_eq!(restricted(entry).as_deref(), Some(ours), "{entry}");
        }
        assert_eq!(allowed("Read").as_deref(), Some("read_file"));
        assert_eq!(restricted("Read").as_deref(), Some("read_file read_many_files"));
        assert_eq!(allowed("Bash(npm test)"), None);
        assert_eq!(restricted("Bash(rm -rf)").as_deref(), Some("run_shell_command(rm -rf)"));
        for entry in [
            "Read(./secrets/**)",
            "Bash(git * main)",
            "Bash(git",
            "mcp__a__b(c)",
            "(x)",
            "mcp__a__del_*",
            "mcp__a*",
            "mcp__*",
        ] {
            assert_eq!((allowed(entry), restricted(entry)), (None, None), "{entry}");
        }
    }

    #[test]
    fn lists_are_split_outside_of_parentheses() {
        assert_eq!(tool_entries("Bash(git a, b:*),Read Edit,,"), ["Bash(git a, b:*)", "Read", "Edit"]);
        assert!(tool_entries("").is_empty());
    }

    #[test]
    fn what_is_kept_is_not_among_the_others() {
        let others = other_built_in_tools(&["read_file".to_owned()]);
        assert!(!others.contains(&"read_file".to_owned()) && others.contains(&"write_file".to_owned()));
        assert_eq!(others.len() + 1, BUILT_IN.len());
    }
}
