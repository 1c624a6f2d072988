//! `/copy`: copy the last answer to the clipboard.

use pollux_domain::content::{Content, Role};
use pollux_domain::plural::counted;

use crate::Front;

impl Front<'_, '_> {
    /// `/copy`
    pub(super) async fn copy_answer(&mut self, conversation: &mut pollux_host::Conversation) {
        let view = self.view(conversation).await;
        let answer = view.and_then(|view| view.contents.iter().rev().find_map(|turn| answer(turn)));
        match answer {
            None => self.ui.note("No answer to copy yet."),
            Some(text) => self.copy("the last answer", &text).await,
        }
    }

    /// Copies a text and shows its size and the method.
    pub(super) async fn copy(&mut self, what: &str, text: &str) {
        let loaded = self.turn.loaded;
        let (lines, characters) = (text.lines().count() as u64, text.chars().count() as u64);
        let size = format!("{}, {}", counted(lines, "line"), counted(characters, "character"));
        if let Some(program) = crate::clipboard::copy_here(text, loaded).await {
            self.ui.note(&format!("Copied {what} to the clipboard ({size}, {program})."));
            return;
        }
        let draws = loaded.env.get("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
        let in_tmux = loaded.env.non_empty("TMUX").is_some();
        match crate::clipboard::copy_sequence(text, in_tmux).filter(|_| draws) {
            Some(sequence) => {
                self.ui.terminal_sequence(&sequence);
                self.ui.note(&format!(
                    "Sent {what} to the terminal's clipboard ({size}). Some terminals ask or refuse."
                ));
            }
            None if draws => self
                .ui
                .error(&format!("Could not copy {what}: too long for the terminal's clipboard ({size}).")),
            None => self.ui.error(
                "No clipboard available: no clipboard program found, and the terminal does not provide one.",
            ),
        }
    }
}

/// The model's text in a turn, if any.
fn answer(turn: &Content) -> Option<String> {
    let said = turn.text();
    (turn.role == Role::Model && !said.trim().is_empty()).then_some(said)
}
