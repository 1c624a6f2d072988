//! `/ide`: the connection to the user's editor.

use pollux_domain::failure::Failure;
use pollux_host::editor::{detected, status_page};
use pollux_host::request::Scope;

use crate::Front;

/// Whether to connect to the editor.
pub(crate) const ENABLED: &str = "ide.enabled";
const USAGE: &str = "Usage: /ide [status|install|enable|disable]";
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
            _ => self.ui.note(USAGE),
        }
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
