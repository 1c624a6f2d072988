//! Commands that make a prompt: `/plan` and `/init`.

use pollux_domain::approval::ApprovalMode;
use pollux_domain::terminal_text::visible;

use super::Then;
use crate::Front;

impl Front<'_, '_> {
    /// `/plan`, `/plan copy`, `/plan <text>`.
    pub(super) async fn plan(&mut self, rest: &str, conversation: &mut pollux_host::Conversation) -> Then {
        let plan = self.turn.plan();
        if rest == "copy" {
            match plan {
                Some((_, text)) => self.copy("The plan", &text).await,
                None => self.face.note("There is no plan yet."),
            }
            return Then::GoOn;
        }
        if self.mode != ApprovalMode::Plan {
            self.change_mode("plan", conversation).await;
        }
        if rest.is_empty() {
            self.face.note(&match plan {
                Some((file, text)) => {
                    format!("The plan ({}):\n\n{}", file.display(), visible(text.trim_end()))
                }
                None => "There is no plan yet. In plan mode the model looks and plans; it changes nothing."
                    .to_owned(),
            });
            return Then::GoOn;
        }
        self.prompt(rest.to_owned(), conversation).await
    }

    /// `/init`: an empty context file, and a prompt to fill it.
    pub(super) async fn init(&mut self, conversation: &mut pollux_host::Conversation) -> Then {
        match pollux_host::begin_context_file(self.turn.loaded) {
            Err(text) => {
                self.face.note(&text);
                Then::GoOn
            }
            Ok(begun) => {
                self.face.note(&begun.note);
                self.prompt(begun.prompt, conversation).await
            }
        }
    }

    async fn prompt(&mut self, text: String, conversation: &pollux_host::Conversation) -> Then {
        match self.read_prompt(text, conversation).await {
            Some(op) => Then::Work(op),
            None => Then::GoOn,
        }
    }
}
