//! Commands that send a prompt: `/plan` and `/init`.

use pollux_domain::approval::ApprovalMode;
use pollux_domain::terminal_text::visible;

use super::CommandOutcome;
use crate::Front;

impl Front<'_, '_> {
    /// `/plan`, `/plan copy`, `/plan <text>`.
    pub(super) async fn plan(
        &mut self,
        rest: &str,
        conversation: &mut pollux_host::Conversation,
    ) -> CommandOutcome {
        let plan = self.turn.plan();
        if rest == "copy" {
            match plan {
                Some((_, text)) => self.copy("the plan", &text).await,
                None => self.ui.note("No plan yet."),
            }
            return CommandOutcome::Continue;
        }
        if self.mode != ApprovalMode::Plan {
            self.change_mode("plan", conversation).await;
        }
        if rest.is_empty() {
            self.ui.note(&match plan {
                Some((file, text)) => {
                    format!("Plan ({}):\n\n{}", file.display(), visible(text.trim_end()))
                }
                None => "No plan yet. In plan mode the model reads and plans but changes nothing.".to_owned(),
            });
            return CommandOutcome::Continue;
        }
        self.prompt(rest.to_owned(), conversation).await
    }

    /// `/init`: creates an empty context file and prompts the model to fill it.
    pub(super) async fn init(&mut self, conversation: &mut pollux_host::Conversation) -> CommandOutcome {
        match pollux_host::begin_context_file(self.turn.loaded) {
            Err(text) => {
                self.ui.note(&text);
                CommandOutcome::Continue
            }
            Ok(begun) => {
                self.ui.note(&begun.note);
                self.prompt(begun.prompt, conversation).await
            }
        }
    }

    async fn prompt(&mut self, text: String, conversation: &pollux_host::Conversation) -> CommandOutcome {
        match self.read_prompt(text.into(), conversation).await {
            Some(op) => CommandOutcome::Turn(op),
            None => CommandOutcome::Continue,
        }
    }
}
