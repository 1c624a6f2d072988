//! The commands that a program can offer to its user.

use std::collections::BTreeSet;

use pollux_domain::terminal_text::one_line;
use pollux_host::{Conversation, Loaded};

use super::slash_commands;

/// A command without its slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedCommand {
    pub name: String,
    pub about: String,
    /// What follows the name, if anything can.
    pub follows: &'static str,
}

/// Every command that makes sense without a terminal: built-in ones, custom ones, prompts of MCP servers and skills.
pub fn offered_commands(conversation: &Conversation, loaded: &Loaded) -> Vec<OfferedCommand> {
    let built_in = slash_commands().iter().filter(|command| !command.needs_terminal());
    let built_in =
        built_in.map(|command| (command.name().to_owned(), command.about.to_owned(), command.follows));
    let custom = conversation.commands(loaded).groups.into_iter().flat_map(|(_, lines)| lines);
    let skills = conversation.skills().unwrap_or_default().into_iter().filter(|skill| skill.enabled);
    let skills = skills.map(|skill| (skill.name, skill.description));
    let others = custom.chain(skills).map(|(name, about)| (name, about, "[arguments]"));
    let mut seen = BTreeSet::new();
    built_in
        .chain(others)
        .map(|(name, about, follows)| OfferedCommand {
            name: one_line(name.trim_start_matches('/')),
            about: one_line(&about),
            follows,
        })
        .filter(|command| !command.name.is_empty() && seen.insert(command.name.clone()))
        .collect()
}
