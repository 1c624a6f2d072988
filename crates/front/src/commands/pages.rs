//! Commands that answer with a page of facts.

use crate::Front;
use crate::screen_provider::ShortcutList;

const DOCS: &str = "The handbook is part of the program: ask the model about Pollux itself, and it looks the answer up \
(`get_internal_docs`). `pollux --help` and `pollux <command> --help` list the flags, /help the commands, /shortcuts the keys.";

const PRIVACY: &str = "\
What leaves this machine:
  - prompts, and what tools read for the model, to the model's provider; its terms hold for them
  - once in a session, after its second answer, the beginning and the end of the conversation to the same model, for
    the session's title; `general.sessionSummaries: false` turns it off
  - what MCP servers, remote agents and web tools are asked, to those that you set up
Nothing else: no usage statistics, no look for updates. OpenTelemetry is off unless `telemetry.enabled` is set.
Conversations are kept below ~/.gemini on this machine; /quit --delete deletes the present one, `pollux sessions` others.
The Gemini API's terms: https://ai.google.dev/gemini-api/terms";

const UPGRADE: &str = "\
There is nothing to upgrade in Pollux: what can be asked of a model depends on its provider's plan.
For Gemini API keys: https://aistudio.google.com/plan_information; limits: https://ai.google.dev/gemini-api/docs/rate-limits";

const IDE: &str = "No editor is connected: this version does not speak to editors. Prompts can name files as @path, and \
/editor chooses the editor for long prompts and proposed changes.";

const SETUP_GITHUB: &str = "`/setup-github` is not offered: it would write workflows that run gemini-cli's own action. A \
workflow of yours can run `pollux -p \"...\" --output-format json` with a key from the repository's secrets.";

const TERMINAL_SETUP: &str = "\
Shift+Enter makes a new line wherever the terminal tells it from Enter; Ctrl+J and a \\ before Enter do everywhere.
In the terminals of VS Code, Cursor and Windsurf, add this to keybindings.json (\"Open Keyboard Shortcuts (JSON)\"):
  { \"key\": \"shift+enter\", \"command\": \"workbench.action.terminal.sendSequence\",
    \"args\": { \"text\": \"\\\\\\r\\n\" }, \"when\": \"terminalFocus\" }
Nothing was changed.";

/// The page of a command, if it has one.
pub(super) fn page(name: &str) -> Option<&'static str> {
    Some(match name {
        "/docs" => DOCS,
        "/privacy" => PRIVACY,
        "/upgrade" => UPGRADE,
        "/ide" => IDE,
        "/terminal-setup" => TERMINAL_SETUP,
        "/setup-github" => SETUP_GITHUB,
        _ => return None,
    })
}

impl Front<'_, '_> {
    /// `/bug [title]`: an address with the facts filled in, where a template says how.
    pub(super) async fn bug(&mut self, title: &str, conversation: &mut pollux_host::Conversation) {
        let facts = self.about(conversation).await;
        let template = self.turn.loaded.settings.get("advanced.bugCommand");
        let template = template.and_then(|(value, _)| value.get("urlTemplate")?.as_str());
        let text = match template {
            Some(template) => {
                let url = template.replace("{title}", &encoded(title)).replace("{info}", &encoded(&facts));
                format!("Open this address to report it:\n{url}")
            }
            None => format!(
                "Send these facts, and what you did and saw, to whoever you have Pollux from. An address for reports can \
                 be set as `advanced.bugCommand.urlTemplate`, with {{title}} and {{info}} in it.\n\n{facts}"
            ),
        };
        self.ui.note(&text);
    }

    /// `/shortcuts`
    pub(super) fn shortcuts(&self) -> String {
        let ShortcutList { shortcuts, problems } = self.screens.shortcuts(self.turn.loaded);
        let widest = shortcuts.iter().map(|shortcut| shortcut.keys.chars().count()).max().unwrap_or_default();
        let mut text = String::new();
        let mut section = "";
        for shortcut in &shortcuts {
            if shortcut.section != section {
                section = shortcut.section;
                text.push_str(&format!("{section}\n"));
            }
            text.push_str(&format!("  {:widest$}  {}\n", shortcut.keys, shortcut.description));
        }
        problems.iter().for_each(|problem| text.push_str(&format!("{problem}\n")));
        if !self.ui.is_screen() {
            text.push_str("They hold on the screen; in plain lines there is Ctrl+C alone.\n");
        }
        text
    }
}

/// A text as a part of an address.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte))
            }
            other => encoded.push_str(&format!("%{other:02X}")),
        }
    }
    encoded
}

/// What a command of gemini-cli means here, if it does anything.
pub(super) fn not_here(word: &str) -> String {
    page(word).map_or_else(|| format!("`{word}` is not part of this version."), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_add_to_an_address() {
        assert_eq!(encoded("a b&c=é\n"), "a%20b%26c%3D%C3%A9%0A");
    }
}
