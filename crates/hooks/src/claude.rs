//! Translates hooks written for Claude Code: other event and tool names, and timeouts in seconds.

use std::time::Duration;

use pollux_domain::JsonObject;
use serde_json::Value;

use crate::event::Event;
use crate::matcher::with_words;

/// Hooks in this program's form.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Migrated {
    /// Each event's definitions, in the order of the source.
    pub events: Vec<(Event, Vec<Value>)>,
    /// Hooks that could not be converted.
    pub notes: Vec<String>,
}

/// Their tools by our names.
const TOOLS: &[(&str, &str)] = &[
    ("Agent", "invoke_agent"),
    ("AskUserQuestion", "ask_user"),
    ("Bash", "run_shell_command"),
    ("Edit", "replace"),
    ("ExitPlanMode", "exit_plan_mode"),
    ("MultiEdit", "replace"),
    ("Read", "read_file"),
    ("Skill", "activate_skill"),
    ("Task", "invoke_agent"),
    ("Write", "write_file"),
    ("Glob", "glob"),
    ("Grep", "grep_search"),
    ("LS", "list_directory"),
    ("WebFetch", "web_fetch"),
    ("WebSearch", "google_web_search"),
    ("TodoWrite", "write_todos"),
];

/// Translates the `hooks` of Claude Code's settings.
pub fn migrate(hooks: &JsonObject) -> Migrated {
    let mut migrated = Migrated::default();
    for (name, definitions) in hooks {
        let Ok(event) = Event::parse(name) else {
            migrated.notes.push(format!("skipped `{name}`: no matching hook event"));
            continue;
        };
        let Value::Array(definitions) = definitions else {
            migrated.notes.push(format!("skipped `{name}`: not a list"));
            continue;
        };
        let converted = definitions.iter().map(|definition| project_dir_renamed(translated(definition)));
        match migrated.events.iter_mut().find(|(known, _)| *known == event) {
            Some((_, list)) => list.extend(converted),
            None => migrated.events.push((event, converted.collect())),
        }
    }
    migrated.events.retain(|(_, list)| !list.is_empty());
    migrated
}

/// A Claude Code definition converted to ours; other values are unchanged.
pub(crate) fn translated(definition: &Value) -> Value {
    let Value::Object(fields) = definition else { return definition.clone() };
    let mut fields = fields.clone();
    if let Some(Value::String(matcher)) = fields.get_mut("matcher") {
        *matcher = with_words(matcher, tool);
    }
    in_milliseconds(&mut fields);
    if let Some(Value::Array(hooks)) = fields.get_mut("hooks") {
        hooks.iter_mut().filter_map(Value::as_object_mut).for_each(in_milliseconds);
    }
    Value::Object(fields)
}

/// The name of one of Claude Code's tools here.
pub fn claude_tool_name(theirs: &str) -> Option<&'static str> {
    TOOLS.iter().find(|(known, _)| *known == theirs).map(|(_, ours)| *ours)
}

/// The same in a matcher.
fn tool(word: &str) -> String {
    if word.starts_with("mcp__") {
        return word.replace("__", "_");
    }
    if word == "Read" {
        return "read_file|read_many_files".to_owned();
    }
    claude_tool_name(word).unwrap_or(word).to_owned()
}

fn in_milliseconds(fields: &mut JsonObject) {
    if let Some(timeout) = fields.get_mut("timeout")
        && let Some(time) = timeout.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    {
        *timeout = Value::from(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    }
}

/// Both variables are set; converted commands should use ours.
fn project_dir_renamed(mut definition: Value) -> Value {
    let rename = |fields: &mut JsonObject| {
        if let Some(Value::String(command)) = fields.get_mut("command") {
            *command = command.replace("CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR");
        }
    };
    if let Some(fields) = definition.as_object_mut() {
        rename(fields);
        if let Some(Value::Array(hooks)) = fields.get_mut("hooks") {
            hooks.iter_mut().filter_map(Value::as_object_mut).for_each(rename);
        }
    }
    definition
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_and_timeouts_are_translated_without_overwriting() {
        let theirs = json!({
            "PreToolUse": [{"matcher": "Bash|Edit|mcp__github__search", "hooks": [
                {"type": "command", "command": "\"$CLAUDE_PROJECT_DIR\"/a.sh", "timeout": 2.5}]}],
            "Stop": [{"hooks": [{"type": "command", "command": "b"}]}],
            "SubagentStop": [{"hooks": [{"type": "command", "command": "c"}]}],
            "SessionStart": [{"matcher": "startup", "hooks": []}],
            "PermissionRequest": [{"hooks": []}],
            "Notification": {},
            "PreCompact": [],
        });
        let migrated = migrate(theirs.as_object().unwrap());
        let events: Vec<(&str, usize)> =
            migrated.events.iter().map(|(event, list)| (event.name(), list.len())).collect();
        assert_eq!(events, [("BeforeTool", 1), ("AfterAgent", 2), ("SessionStart", 1)]);
        assert_eq!(
            migrated.events[0].1[0],
            json!({"matcher": "run_shell_command|replace|mcp_github_search", "hooks": [
                {"type": "command", "command": "\"$GEMINI_PROJECT_DIR\"/a.sh", "timeout": 2500}]})
        );
        assert_eq!(migrated.notes.len(), 2);
        let grep = translated(&json!({"matcher": "^(Grep|LS|Reader)$"}));
        assert_eq!(grep["matcher"], "^(grep_search|list_directory|Reader)$");
    }
}
