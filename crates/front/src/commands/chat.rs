//! `/chat`: conversations saved under a name. The texts are upstream's.

use pollux_domain::content::Content;
use pollux_domain::terminal_text::one_line;
use pollux_domain::time::{Clock, SystemClock};

use super::{CommandOutcome, NewSession};
use crate::Front;

impl Front<'_, '_> {
    /// `/chat`, `/resume`: the browser, or a subcommand.
    pub(super) async fn chats(
        &mut self,
        rest: &str,
        conversation: &mut pollux_host::Conversation,
    ) -> CommandOutcome {
        if rest.is_empty() { self.browse().await } else { self.chat(rest, conversation).await }
    }

    pub(super) async fn chat(
        &mut self,
        rest: &str,
        conversation: &mut pollux_host::Conversation,
    ) -> CommandOutcome {
        let (word, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        // Older releases used another level.
        if matches!(word, "checkpoint" | "checkpoints") {
            return Box::pin(self.chat(rest.trim(), conversation)).await;
        }
        let tag = rest.trim();
        let said = match (word, tag) {
            ("list" | "", _) => Ok(self.saved_chats()),
            ("share", file) => self.share(file, conversation).await,
            ("save", "") => Err("Missing tag. Usage: /resume save <tag>".to_owned()),
            ("resume" | "load", "") => Err("Missing tag. Usage: /resume resume <tag>".to_owned()),
            ("delete", "") => Err("Missing tag. Usage: /resume delete <tag>".to_owned()),
            ("save", tag) => self.save(tag, conversation).await,
            ("delete", tag) => self.turn.delete_chat(tag),
            ("resume" | "load", tag) => match self.turn.load_chat(tag, &self.model) {
                Ok(turns) => {
                    let note = format!("Resuming the conversation saved as {tag} in a new session.");
                    return CommandOutcome::NewSession(NewSession { turns, note, ..NewSession::default() });
                }
                Err(text) => Err(text),
            },
            _ => Err("Usage: /chat save|resume|delete <tag>, /chat list, /chat share [file]".to_owned()),
        };
        match said {
            Ok(text) => self.ui.note(&text),
            Err(text) => self.ui.error(&text),
        }
        CommandOutcome::Continue
    }

    fn saved_chats(&self) -> String {
        let saved = self.turn.saved_chats();
        if saved.is_empty() {
            return "No saved conversation checkpoints found.".to_owned();
        }
        let lines =
            saved.iter().map(|chat| format!("\n  {}  ({})", one_line(&chat.tag), chat.saved.to_local_date()));
        format!("Saved conversations, oldest first:{}", lines.collect::<String>())
    }

    async fn save(
        &mut self,
        tag: &str,
        conversation: &mut pollux_host::Conversation,
    ) -> Result<String, String> {
        let turns = self.turns(conversation).await.ok_or("No conversation found to save.")?;
        if self.turn.saved_chats().iter().any(|chat| chat.tag == tag) {
            let tag = one_line(tag);
            let question =
                format!("A checkpoint with the tag {tag} already exists. Do you want to overwrite it?");
            if !self.ui.confirm(&question).await {
                return Err("Nothing was saved.".to_owned());
            }
        }
        self.turn.save_chat(tag, turns, &self.model)?;
        Ok(format!("Conversation checkpoint saved with tag: {tag}."))
    }

    async fn share(
        &mut self,
        file: &str,
        conversation: &mut pollux_host::Conversation,
    ) -> Result<String, String> {
        let turns = self.turns(conversation).await.ok_or("No conversation found to share.")?;
        let file = match file {
            "" => format!("gemini-conversation-{}.json", SystemClock.now().millis()),
            given => given.to_owned(),
        };
        let path = self.turn.share_chat(&file, &turns)?;
        Ok(format!("Conversation shared to {}", path.display()))
    }

    /// The turns, if there are any.
    async fn turns(&mut self, conversation: &mut pollux_host::Conversation) -> Option<Vec<Content>> {
        let view = self.view(conversation).await.filter(|view| view.contents.len() > 1)?;
        Some(view.contents.iter().map(|turn| Content::clone(turn)).collect())
    }
}
