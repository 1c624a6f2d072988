//! `/agents`: manage sub-agents.

use super::{CommandOutcome, Reopen};
use crate::Front;

/// Sub-agents are loaded when a session starts.
const NEXT_TIME: &str = "The change applies to new sessions.";

impl Front<'_, '_> {
    /// `/agents`, `/agents show|enable|disable|acknowledge <name>`.
    pub(super) fn agents(&mut self, rest: &str) -> CommandOutcome {
        if matches!(rest, "reload" | "refresh") {
            return self.reopen(Reopen::noting("Sub-agents reloaded."));
        }
        match self.agents_text(rest) {
            Ok(text) => self.ui.note(text.trim_end()),
            Err(text) => self.ui.error(text.trim_end()),
        }
        CommandOutcome::Continue
    }

    fn agents_text(&self, rest: &str) -> Result<String, String> {
        let (word, name) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let name = name.trim();
        let (words, then) = match word {
            "" | "list" => return Ok(self.subcommand(&["agents", "list"]).text()),
            "show" | "config" | "enable" | "disable" | "acknowledge" if name.is_empty() => {
                return Err(format!("Usage: /agents {word} <agent-name>"));
            }
            "show" | "config" => (vec!["agents", "show", name], ""),
            "enable" => (vec!["agents", "enable", name, "--scope", "user"], NEXT_TIME),
            "disable" => (vec!["agents", "disable", name, "--scope", "user"], NEXT_TIME),
            "acknowledge" => (vec!["agents", "acknowledge", name], NEXT_TIME),
            _ => {
                let usage = "Usage: /agents [list], /agents show|enable|disable|acknowledge <agent-name>";
                return Err(usage.to_owned());
            }
        };
        let done = self.subcommand(&words);
        match done.result {
            Ok(()) => Ok(format!("{}{then}", done.out)),
            Err(failure) => Err(failure.message()),
        }
    }
}
