//! `/ide`: the connection to the user's editor.

use std::sync::Arc;

use pollux_domain::failure::Failure;
use pollux_domain::terminal_text::one_line;
use pollux_host::editor::{Companion, EditorChoice, detected, status_page};
use pollux_host::request::Scope;

use crate::Front;
use crate::choice::{Choice, ChoiceRow, ListOptions};

/// Whether to connect to the editor.
pub(crate) const ENABLED: &str = "ide.enabled";
const USAGE: &str = "Usage: /ide [status|install|enable|disable|switch [editor]]";
const EXTENSION: &str = "google.gemini-cli-vscode-ide-companion";

impl Front<'_, '_> {
    pub(super) async fn ide(&mut self, rest: &str, conversation: &pollux_host::Conversation) {
        let Some(companion) = &conversation.services.editor else { return };
        match rest {
            "" | "status" => self.ui.note(&status_page(companion)),
            "install" => self.ui.note(&self.installation()),
            "enable" => {
                if let Err(failure) = self.switch_editor(true) {
                    return self.ui.error(&failure.message());
                }
                companion.connect();
                companion.settled().await;
                self.ui.note(&status_page(companion));
            }
            "disable" => {
                if let Err(failure) = self.switch_editor(false) {
                    return self.ui.error(&failure.message());
                }
                companion.disconnect().await;
                self.ui.note("Disconnected from the editor.");
            }
            _ => match subcommand(rest, "switch") {
                Some(which) => self.switch_to_editor(which, companion).await,
                None => self.ui.note(USAGE),
            },
        }
    }

    /// Connects to another of the editors that have this folder open.
    async fn switch_to_editor(&mut self, which: &str, companion: &Arc<Companion>) {
        let editors = companion.choices().await;
        let connected = companion.connected_port();
        let chosen = match (editors.as_slice(), which) {
            ([], _) => return self.ui.note("No editor with the companion extension has this folder open."),
            ([only], "") if connected == Some(only.port) => {
                let name = one_line(&only.name);
                return self.ui.note(&format!("{name} is connected. No other editor has this folder open."));
            }
            ([only], "") => only,
            (several, "") => {
                let rows = several.iter().map(|editor| ChoiceRow {
                    key: editor.port.to_string(),
                    columns: vec![
                        one_line(&editor.name),
                        editor.port.to_string(),
                        one_line(&editor.workspace),
                    ],
                    ..ChoiceRow::default()
                });
                let choice = Choice {
                    title: "Select Editor".to_owned(),
                    headings: vec!["Editor", "Port", "Folders"],
                    rows: rows.collect(),
                    marked: connected.map(|port| port.to_string()),
                    options: ListOptions { numbered: true, ..ListOptions::default() },
                    ..Choice::default()
                };
                let Some(chosen) = self.ui.choose(choice).await else { return };
                let Some(editor) = several.iter().find(|editor| editor.port.to_string() == chosen.key) else {
                    return;
                };
                editor
            }
            (several, which) => match named(several, which) {
                Ok(editor) => editor,
                Err(why) => return self.ui.error(&why),
            },
        };
        if connected == Some(chosen.port) {
            return self.ui.note(&format!("{} is already connected.", one_line(&chosen.name)));
        }
        companion.switch(chosen.port).await;
        companion.settled().await;
        self.ui.note(&status_page(companion));
    }

    /// Now and in later sessions.
    fn switch_editor(&mut self, on: bool) -> Result<(), Failure> {
        let mut files = pollux_host::settings::settings(self.turn.request, &self.turn.loaded.env)?;
        files.set(ENABLED, &on.to_string(), Scope::User)?;
        self.uses_editor = on;
        Ok(())
    }

    fn installation(&self) -> String {
        let editor = detected(self.turn.loaded);
        if let Some(editor) = editor.filter(|editor| !editor.has_companion) {
            return format!(
                "There is no companion extension for {}. Editors that speak the Agent Client Protocol can run `pollux --acp`.",
                editor.name
            );
        }
        format!(
            "The companion extension is \"Gemini CLI Companion\" ({EXTENSION}). To install it, search for it in the \
             editor's marketplace, or run one of these commands in another terminal:\n  \
             code --install-extension {EXTENSION}\n  \
             antigravity --install-extension {EXTENSION}\n  \
             positron --install-extension {EXTENSION}\n\
             Then open a new terminal in the editor, start Pollux there, and run /ide enable. Nothing was installed."
        )
    }
}

/// The text after a subcommand; `None` if it is another.
fn subcommand<'a>(typed: &'a str, name: &str) -> Option<&'a str> {
    let rest = typed.strip_prefix(name)?;
    (rest.is_empty() || rest.starts_with(' ')).then(|| rest.trim())
}

/// The editor with this port, or the only one whose name begins so.
fn named<'a>(editors: &'a [EditorChoice], which: &str) -> Result<&'a EditorChoice, String> {
    if let Some(editor) = editors.iter().find(|editor| editor.port.to_string() == which) {
        return Ok(editor);
    }
    let wanted = which.to_lowercase();
    let fitting: Vec<&EditorChoice> =
        editors.iter().filter(|editor| editor.name.to_lowercase().starts_with(&wanted)).collect();
    let list = |editors: &[&EditorChoice]| {
        let shown = editors.iter().map(|editor| format!("{} ({})", one_line(&editor.name), editor.port));
        shown.collect::<Vec<_>>().join(", ")
    };
    match fitting.as_slice() {
        [only] => Ok(only),
        [] => Err(format!(
            "no editor matches \"{which}\"; available: {}",
            list(&editors.iter().collect::<Vec<_>>())
        )),
        several => Err(format!("several editors match \"{which}\": {}; use the port", list(several))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn editors_are_named_by_port_or_by_the_beginning_of_their_name() {
        let editor = |name: &str, port| EditorChoice { name: name.into(), port, workspace: "/w".into() };
        let editors = [editor("VS Code", 4001), editor("VS Code", 4002), editor("Positron", 4003)];
        assert_eq!(named(&editors, "4002").unwrap().port, 4002);
        assert_eq!(named(&editors, "posi").unwrap().port, 4003);
        assert_eq!(
            named(&editors, "vs").unwrap_err(),
            "several editors match \"vs\": VS Code (4001), VS Code (4002); use the port"
        );
        assert!(named(&editors, "emacs").unwrap_err().contains("Positron (4003)"));
        assert_eq!(subcommand("switch  vs code ", "switch"), Some("vs code"));
        assert_eq!(subcommand("switch", "switch"), Some(""));
        assert_eq!(subcommand("switched", "switch"), None);
    }
}
