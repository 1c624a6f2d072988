//! `/rewind` and `/restore`: go back to an earlier state.

use pollux_domain::event::{Op, PromptView};
use pollux_domain::terminal_text::{one_line, visible};
use pollux_host::FilePlan;

use super::{CommandOutcome, NewSession};
use crate::Front;
use crate::choice::{Choice, ChoiceRow};

/// Characters of a prompt in the list.
const SHOWN: usize = 80;
/// Lines of a plan.
const STEPS: usize = 40;

/// What to rewind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Both,
    Conversation,
    Files,
    Nothing,
}

impl Front<'_, '_> {
    pub(super) async fn rewind(&mut self, conversation: &mut pollux_host::Conversation) {
        let Some(view) = self.view(conversation).await else { return };
        if view.contents.len() <= 1 {
            return self.ui.note("No conversation found.");
        }
        if view.prompts.is_empty() {
            return self.ui.note("Nothing to rewind to.");
        }
        let Some(chosen) = self.choose_prompt(&view.prompts).await else {
            return self.ui.note("Nothing changed.");
        };
        let later: Vec<PromptView> = view.prompts.iter().skip(chosen).cloned().collect();
        let Some(prompt) = later.first() else { return };
        let ids = later.iter().map(|prompt| prompt.message.clone()).collect();
        let plan = match conversation.plan_rewind(ids).await {
            // The process of the session writes the journal.
            _ if conversation.is_remote() => {
                self.ui.note("Files are reverted only in a session that runs in this process.");
                None
            }
            Ok(plan) => Some(plan),
            Err(error) => {
                self.ui.note(&format!("Cannot revert files: {error}"));
                None
            }
        };
        let plan = plan.filter(|plan| !plan.lines.is_empty());
        match self.choose_extent(plan.as_ref()).await {
            What::Nothing => self.ui.note("Nothing changed."),
            What::Files => {
                self.revert(plan, conversation).await;
            }
            What::Conversation => self.take_back(prompt, conversation).await,
            What::Both => {
                if self.revert(plan, conversation).await {
                    self.take_back(prompt, conversation).await;
                }
            }
        }
    }

    async fn choose_prompt(&mut self, prompts: &[PromptView]) -> Option<usize> {
        let rows = prompts.iter().enumerate().map(|(number, prompt)| {
            let text: String = one_line(&visible(&prompt.text)).chars().take(SHOWN).collect();
            ChoiceRow { key: number.to_string(), columns: vec![text], ..ChoiceRow::default() }
        });
        let choice = Choice {
            title: "Rewind to before which prompt?".to_owned(),
            rows: rows.collect(),
            marked: prompts.len().checked_sub(1).map(|last| last.to_string()),
            ..Choice::default()
        };
        self.ui.choose(choice).await?.key.parse().ok()
    }

    async fn choose_extent(&mut self, plan: Option<&FilePlan>) -> What {
        let mut rows = Vec::new();
        rows.extend(plan.map(|_| ("both", "Rewind conversation and revert code changes")));
        rows.push(("conversation", "Rewind conversation"));
        rows.extend(plan.map(|_| ("files", "Revert code changes")));
        rows.push(("nothing", "Do nothing"));
        let mut choice = Choice::of("What to rewind?", rows);
        choice.about = match plan {
            None => vec!["No files to revert.".to_owned()],
            Some(plan) => std::iter::once("Files:".to_owned()).chain(shown(&plan.lines)).collect(),
        };
        match self.ui.choose(choice).await.as_ref().map(|chosen| chosen.key.as_str()) {
            Some("both") => What::Both,
            Some("conversation") => What::Conversation,
            Some("files") => What::Files,
            _ => What::Nothing,
        }
    }

    /// Reverts the files; returns whether it succeeded.
    async fn revert(&mut self, plan: Option<FilePlan>, conversation: &pollux_host::Conversation) -> bool {
        let Some(plan) = plan else { return true };
        let mut overwrite = false;
        if plan.has_conflicts {
            overwrite = self.ui.confirm("Also revert files marked as conflicts?").await;
        }
        if !plan.has_steps && !overwrite {
            self.ui.note("No files changed.");
            return true;
        }
        match conversation.apply_rewind(plan, overwrite).await {
            Ok(lines) => {
                lines.iter().for_each(|line| self.ui.note(line));
                true
            }
            Err(error) => {
                self.ui.note(&format!("Cannot revert files: {error}"));
                false
            }
        }
    }

    async fn take_back(&mut self, prompt: &PromptView, conversation: &mut pollux_host::Conversation) {
        let op = Op::Rewind { to: prompt.message.clone() };
        let Some(result) = self.ask(op, conversation).await else { return };
        if let Some(refusal) = result.refusal() {
            self.ui.note(&format!("Conversation unchanged: {}", refusal.message));
            return;
        }
        self.ui.note(&format!("Rewound to before:\n{}", visible(&prompt.text)));
        self.ui.suggest(&prompt.text);
    }

    pub(super) async fn restore(
        &mut self,
        name: &str,
        conversation: &mut pollux_host::Conversation,
    ) -> CommandOutcome {
        if !conversation.makes_checkpoints() {
            self.ui.note(
                "Checkpoints are off; set `general.checkpointing.enabled`. /rewind works without them.",
            );
            return CommandOutcome::Continue;
        }
        if name.is_empty() {
            let (Ok(text) | Err(text)) = conversation.restorable();
            self.ui.note(&text);
            return CommandOutcome::Continue;
        }
        match conversation.restore(name).await {
            Err(text) => {
                self.ui.note(&text);
                CommandOutcome::Continue
            }
            Ok(restored) => CommandOutcome::NewSession(NewSession {
                turns: restored.turns,
                proposal: restored.proposal,
                note: restored.message.to_owned(),
            }),
        }
    }
}

fn shown(lines: &[String]) -> Vec<String> {
    let mut shown: Vec<String> = lines.iter().take(STEPS).cloned().collect();
    if lines.len() > STEPS {
        shown.push(format!("  ... and {} more", lines.len() - STEPS));
    }
    shown
}
