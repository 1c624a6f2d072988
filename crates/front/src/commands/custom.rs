//! Custom commands: listing them, and asking before one runs something.

use pollux_host::{CommandList, Conversation, Invocation};

use super::columns;
use crate::Front;
use crate::choice::Choice;

const USAGE: &str = "Use \"/commands list\" to view available .toml files, or \"/commands reload\" to reload custom command definitions.";
const NONE: &str = "No custom command files (.toml) found.";

impl Front<'_, '_> {
    /// `/commands`
    pub(super) fn custom_commands(&mut self, rest: &str, conversation: &Conversation) {
        match rest {
            "list" => {
                let list = conversation.commands(self.turn.loaded);
                let text = lines(&list);
                self.ui.note(if text.is_empty() { NONE } else { text.trim_end() });
            }
            "reload" | "refresh" => {
                conversation.reload_commands();
                self.ui.note("Custom commands reloaded successfully.");
            }
            _ => self.ui.note(USAGE),
        }
    }

    /// Whether a word names a custom command or a prompt of an MCP server.
    pub(crate) fn knows(&self, word: &str, conversation: &Conversation) -> bool {
        conversation.has_prompt(word) || conversation.has_command(word, self.turn.loaded)
    }

    /// Asks once before a custom command runs shell commands; `None` if refused.
    pub(crate) async fn confirmed(
        &mut self,
        invocation: Invocation,
        conversation: &Conversation,
    ) -> Option<Invocation> {
        if invocation.to_confirm.is_empty() {
            return Some(invocation);
        }
        let rows =
            [("once", "Yes, this once"), ("session", "Yes, and for the rest of this session"), ("no", "No")];
        let mut choice = Choice::of("This command wants to run:", rows);
        choice.options.unrequested = true;
        choice.about = invocation.to_confirm.iter().map(|line| format!("  {line}")).collect();
        let chosen = self.ui.choose(choice).await?;
        match chosen.key.as_str() {
            "once" => Some(invocation),
            "session" => {
                conversation.allow_lines(&invocation.to_confirm);
                Some(invocation)
            }
            _ => None,
        }
    }
}

/// Their section of `/help`; empty if there are none.
pub(super) fn help(list: &CommandList) -> String {
    let text = lines(list);
    if text.is_empty() { text } else { format!("\n\n{}", text.trim_end()) }
}

fn lines(list: &CommandList) -> String {
    let all = list.groups.iter().flat_map(|(_, lines)| lines);
    let widest = all.map(|(name, _)| name.chars().count() + 4).max().unwrap_or_default();
    let mut text = String::new();
    for (heading, lines) in &list.groups {
        text.push_str(&format!("{heading}:\n"));
        for (name, about) in lines {
            text.push_str(&columns::row(&format!("  {name}"), about, widest.min(columns::SECOND)));
        }
    }
    for problem in &list.problems {
        text.push_str(&format!("{problem}\n"));
    }
    text
}
