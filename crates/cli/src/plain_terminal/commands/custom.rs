//! Custom commands: listing them, and asking before one runs something.

use pollux_domain::terminal_text::visible;

use super::super::{Front, show};
use crate::wire::{CommandList, Conversation, Invocation};

const USAGE: &str = "Use \"/commands list\" to view available .toml files, or \"/commands reload\" to reload custom command definitions.";
const NONE: &str = "No custom command files (.toml) found.";

impl Front<'_, '_> {
    /// `/commands`
    pub(super) fn custom_commands(&mut self, rest: &str, conversation: &Conversation) {
        match rest {
            "list" => {
                let list = conversation.commands(self.turn.loaded);
                let text = lines(&list);
                self.console.note(if text.is_empty() { NONE } else { text.trim_end() });
            }
            "reload" | "refresh" => {
                conversation.reload_commands();
                self.console.note("Custom commands reloaded successfully.");
            }
            _ => self.console.note(USAGE),
        }
    }

    /// Whether a word that is none of ours is a command of somebody else's.
    pub(in crate::plain_terminal) fn knows(&self, word: &str, conversation: &Conversation) -> bool {
        conversation.has_prompt(word) || conversation.has_command(word, self.turn.loaded)
    }

    /// The command, once a person agrees to what it would run; `None` if not. One question for all of it.
    pub(in crate::plain_terminal) async fn confirmed(
        &mut self,
        invocation: Invocation,
        conversation: &Conversation,
    ) -> Option<Invocation> {
        if invocation.to_confirm.is_empty() {
            return Some(invocation);
        }
        // What stands in the line already was meant for the model.
        let before = self.keyboard.typed_before();
        self.ahead.extend(before);
        show("\nThis command wants to run:\n");
        for line in &invocation.to_confirm {
            show(&format!("  {}\n", visible(line)));
        }
        show("  1. Yes, this once\n  2. Yes, and for the rest of this session\n  3. No\n");
        loop {
            show("Answer (number): ");
            match self.line().await.as_deref().map(str::trim) {
                Some("1" | "y" | "yes") => return Some(invocation),
                Some("2") => {
                    conversation.allow_lines(&invocation.to_confirm);
                    return Some(invocation);
                }
                Some("3" | "n" | "no") | None => return None,
                Some(_) => {}
            }
        }
    }
}

/// What `/help` says of them; nothing where there are none.
pub(super) fn help(list: &CommandList) -> String {
    let text = lines(list);
    if text.is_empty() { text } else { format!("\n\n{}", text.trim_end()) }
}

fn lines(list: &CommandList) -> String {
    let all = || list.groups.iter().flat_map(|(_, lines)| lines);
    let widest = all().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    let mut text = String::new();
    for (heading, lines) in &list.groups {
        text.push_str(&format!("{heading}:\n"));
        for (name, about) in lines {
            text.push_str(&format!("  {name:widest$}  {about}\n"));
        }
    }
    for problem in &list.problems {
        text.push_str(&format!("{problem}\n"));
    }
    text
}
