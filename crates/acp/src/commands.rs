//! The slash commands that the client offers.

use pollux_front::offered_commands;
use pollux_host::{Conversation, Loaded};
use serde_json::{Value, json};

/// The commands as the protocol lists them.
pub(crate) fn available(conversation: &Conversation, loaded: &Loaded) -> Vec<Value> {
    let offered = offered_commands(conversation, loaded);
    offered.iter().map(|command| entry(&command.name, &command.about, command.follows)).collect()
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
