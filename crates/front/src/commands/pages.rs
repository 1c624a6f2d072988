//! Commands that show a fixed text, `/bug` and `/shortcuts`.

use crate::Front;
use crate::screen_provider::ShortcutList;

const DOCS: &str = "The documentation is built in: ask the model about Pollux, and it looks up the answer \
(`get_internal_docs`). `pollux --help` and `pollux <command> --help` list flags, /help commands, /shortcuts keys.";

const PRIVACY: &str = "\
Data that leaves this machine:
  - prompts and tool results, to the model's provider, under its terms
  - once per session, after the second answer, the beginning and end of the conversation to the same model, for the
    session title; `general.sessionSummaries: false` turns it off
  - requests to the MCP servers, remote agents and web tools that you configure
Nothing else: no usage statistics, no checks for updates of Pollux (those of extensions are checked). Telemetry is off unless you set `telemetry.enabled`;
it then goes to your file or your OpenTelemetry collector.
Sessions are stored in ~/.gemini on this machine. /quit --delete deletes the current one, `pollux sessions` others.
Gemini API terms: https://ai.google.dev/gemini-api/terms";

const UPGRADE: &str = "\
Pollux has no plans of its own: quotas depend on the model provider's plan.
Gemini API keys: https://aistudio.google.com/plan_information; limits: https://ai.google.dev/gemini-api/docs/rate-limits";

const TERMINAL_SETUP: &str = "\
Shift+Enter inserts a new line if the terminal distinguishes it from Enter; Ctrl+J and \\ before Enter always do.
In the terminals of VS Code, Cursor and Windsurf, add this to keybindings.json (\"Open Keyboard Shortcuts (JSON)\"):
  { \"key\": \"shift+enter\", \"command\": \"workbench.action.terminal.sendSequence\",
    \"args\": { \"text\": \"\\\\\\r\\n\" }, \"when\": \"terminalFocus\" }
Nothing was changed.";

/// The text of a command, if it has one.
pub(super) fn page(name: &str) -> Option<&'static str> {
    Some(match name {
        "/docs" => DOCS,
        "/privacy" => PRIVACY,
        "/upgrade" => UPGRADE,
        "/terminal-setup" => TERMINAL_SETUP,
        _ => return None,
    })
}

impl Front<'_, '_> {
    /// `/bug [title]`: shows the facts, or a URL with them if a template is set.
    pub(super) async fn bug(&mut self, title: &str, conversation: &mut pollux_host::Conversation) {
        let facts = self.about(conversation).await;
        let template = self.turn.loaded.settings.get("advanced.bugCommand");
        let template = template.and_then(|(value, _)| value.get("urlTemplate")?.as_str());
        let text = match template {
            Some(template) => {
                let url = template.replace("{title}", &encoded(title)).replace("{info}", &encoded(&facts));
                format!("To submit your bug report, open:\n{url}")
            }
            None => format!(
                "Include these facts in your report. To open a report form instead, set `advanced.bugCommand.urlTemplate` \
                 to a URL with {{title}} and {{info}}.\n\n{facts}"
            ),
        };
        let id = &self.turn.session.id;
        self.ui.note(&format!(
            "{text}\n\nTo write a file with the events of this session for the report, run `pollux bug --session {id}`."
        ));
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
            text.push_str("These keys work only in the full-screen interface; in plain mode, use Ctrl+C.\n");
        }
        text
    }
}

/// A text, percent-encoded for a URL.
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

/// The answer to a command of gemini-cli that is not implemented.
pub(super) fn not_here(word: &str) -> String {
    page(word).map_or_else(|| format!("`{word}` is not available in this version."), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_add_to_an_address() {
        assert_eq!(encoded("a b&c=é\n"), "a%20b%26c%3D%C3%A9%0A");
    }
}
