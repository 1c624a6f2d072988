//! Which of the main agent's tools a sub-agent gets.

use std::sync::Arc;

use pollux_domain::tool::{Tool, ToolKind};
use pollux_policy::canonical_tool_name;

use crate::subagent::goal::COMPLETE_TASK;
use crate::toolbox::UNDECLARED;

/// What belongs to the main conversation alone.
const NEVER: [&str; 4] = ["update_topic", "enter_plan_mode", "exit_plan_mode", COMPLETE_TASK];

/// The tools that a list names, sorted, and the names that fit nothing.
pub(super) fn chosen(list: Option<&[String]>, all: &[Arc<dyn Tool>]) -> (Vec<Arc<dyn Tool>>, Vec<String>) {
    let may = |tool: &Arc<dyn Tool>| {
        let spec = tool.spec();
        spec.kind != ToolKind::Agent && !NEVER.contains(&spec.name.as_str())
    };
    let everything = [String::from("*")];
    let list = list.unwrap_or(&everything);
    let mut tools: Vec<Arc<dyn Tool>> = all
        .iter()
        .filter(|tool| may(tool) && list.iter().any(|word| fits(word, &***tool)))
        .cloned()
        .collect();
    tools.sort_by(|a, b| a.spec().name.cmp(&b.spec().name));
    tools.dedup_by(|a, b| a.spec().name == b.spec().name);
    // What may not be given is known all the same.
    let unknown =
        list.iter().filter(|word| !word.ends_with('*') && !all.iter().any(|tool| fits(word, &**tool)));
    (tools, unknown.cloned().collect())
}

fn fits(word: &str, tool: &dyn Tool) -> bool {
    let name = tool.spec().name.as_str();
    match word.strip_suffix('*') {
        Some("") => !UNDECLARED.contains(&name),
        Some("mcp_") => tool.server().is_some(),
        Some(start) => tool.server().is_some() && name.starts_with(start),
        None => name == word || name == canonical_tool_name(word),
    }
}
