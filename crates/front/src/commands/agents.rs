//! `/agents`: the helpers of this conversation.

use pollux_admin::agents::{AgentsCommand, listing};
use pollux_host::request::Scope;

use crate::Front;

/// The agents of a conversation are those that it began with.
const NEXT_TIME: &str = "This counts from the next conversation on.";

impl Front<'_, '_> {
    /// `/agents`, `/agents show|enable|disable|acknowledge <name>`.
    pub(super) fn agents(&self, rest: &str) -> String {
        let (word, name) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let (name, scope) = (name.trim().to_owned(), Scope::User);
        let (command, then) = match word {
            "" | "list" => return self.list_agents(),
            "show" | "config" | "enable" | "disable" | "acknowledge" if name.is_empty() => {
                return format!("Usage: /agents {word} <agent-name>");
            }
            "show" | "config" => (AgentsCommand::Show { name, json: false }, ""),
            "enable" => (AgentsCommand::Enable { name, scope }, NEXT_TIME),
            "disable" => (AgentsCommand::Disable { name, scope }, NEXT_TIME),
            "acknowledge" => (AgentsCommand::Acknowledge { name }, NEXT_TIME),
            _ => {
                return "Usage: /agents [list], /agents show|enable|disable|acknowledge <agent-name>"
                    .to_owned();
            }
        };
        let done = self.subcommand(command);
        match done.result {
            Ok(()) => format!("{}{then}", done.out),
            Err(failure) => failure.message(),
        }
    }
    fn list_agents(&self) -> String {
        match pollux_host::agents::agent_set(self.turn.request, &self.turn.loaded.env) {
            Ok(agents) => listing(&agents),
            Err(failure) => failure.message(),
        }
    }
}
