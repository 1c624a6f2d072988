//! The slash commands that the client offers.

use std::collections::BTreeSet;

use pollux_domain::terminal_text::one_line;
use pollux_front::slash_commands;
use pollux_host::{Conversation, Loaded};
use serde_json::{Value, json};

/// Every command that makes sense in an editor: built-in ones, custom ones, prompts of MCP servers and skills.
pub(crate) fn available(conversation: &Conversation, loaded: &Loaded) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    let mut commands = Vec::new();
    for command in slash_commands().iter().filter(|command| !command.needs_terminal()) {
        let name = command.name().trim_start_matches('/');
        seen.insert(name.to_owned());
        commands.push(entry(name, command.about, command.follows));
    }
    let custom = conversation.commands(loaded).groups;
    let skills = conversation.skills().unwrap_or_default();
    let custom = custom.into_iter().flat_map(|(_, lines)| lines);
    let skills =
        skills.into_iter().filter(|skill| skill.enabled).map(|skill| (skill.name, skill.description));
    for (name, about) in custom.chain(skills) {
        let name = one_line(name.trim_start_matches('/'));
        if !name.is_empty() && seen.insert(name.clone()) {
            commands.push(entry(&name, &one_line(&about), "[arguments]"));
        }
    }
    commands
}

fn entry(name: &str, about: &str, follows: &str) -> Value {
    let mut entry = json!({"name": name, "description": about});
    if let (false, Some(fields)) = (follows.is_empty(), entry.as_object_mut()) {
        fields.insert("input".to_owned(), json!({"hint": follows}));
    }
    entry
}

/// The update that tells them.
pub(crate) fn update(commands: &[Value]) -> Value {
    json!({"sessionUpdate": "available_commands_update", "availableCommands": commands})
}
