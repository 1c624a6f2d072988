//! `/rewind` and `/restore`: go back to an earlier state.

use pollux_domain::event::{Op, PromptView, SummaryView};
use pollux_domain::terminal_text::{one_line, visible};
use pollux_host::FilePlan;

use super::{CommandOutcome, NewSession};
use crate::Front;
use crate::choice::{Choice, ChoiceRow};

/// Characters of a prompt in the list.
const SHOWN: usize = 80;
/// Summarised prompts in the list.
const SUMMARISED: usize = 5;
/// The key of the row that goes back to the summary.
const SUMMARY: &str = "summary";
/// Lines of a plan.
const STEPS: usize = 40;

/// Where to rewind to.
struct Goal {
    /// The first record that is removed.
    to: String,
    /// The prompts that are removed, oldest first.
    removed: Vec<String>,
    /// The prompt to suggest again; `None` for the summary.
    prompt: Option<String>,
}

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
        let summary = view.summary.as_ref();
        if view.prompts.is_empty() && summary.is_none_or(|summary| summary.next.is_none()) {
            let mut lines = vec!["Nothing to rewind to.".to_owned()];
            lines.extend(summary.map(unavailable).into_iter().flatten());
            return self.ui.note(lines.join("\n").trim_end());
        }
        let Some(goal) = self.choose_goal(&view.prompts, summary).await else {
            return self.ui.note("Nothing changed.");
        };
        let plan = match conversation.plan_rewind(goal.removed.clone()).await {
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
            What::Conversation => self.take_back(&goal, conversation).await,
            What::Both => {
                if self.revert(plan, conversation).await {
                    self.take_back(&goal, conversation).await;
                }
            }
        }
    }

    async fn choose_goal(&mut self, prompts: &[PromptView], summary: Option<&SummaryView>) -> Option<Goal> {
        let row = |key: String, text: String| ChoiceRow { key, columns: vec![text], ..ChoiceRow::default() };
        let after_summary = summary.and_then(|summary| summary.next.clone());
        let back = after_summary.as_ref().map(|_| row(SUMMARY.to_owned(), "The summary".to_owned()));
        let numbered = prompts.iter().enumerate();
        let numbered = numbered.map(|(number, prompt)| row(number.to_string(), shown_prompt(&prompt.text)));
        let choice = Choice {
            title: "Rewind to before which prompt?".to_owned(),
            about: summary.map(unavailable).unwrap_or_default(),
            rows: back.into_iter().chain(numbered).collect(),
            marked: prompts.len().checked_sub(1).map(|last| last.to_string()),
            ..Choice::default()
        };
        let key = self.ui.choose(choice).await?.key;
        let ids = |from: usize| prompts.iter().skip(from).map(|prompt| prompt.message.clone()).collect();
        if key == SUMMARY {
            return Some(Goal { to: after_summary?, removed: ids(0), prompt: None });
        }
        let number: usize = key.parse().ok()?;
        let prompt = prompts.get(number)?;
        Some(Goal { to: prompt.message.clone(), removed: ids(number), prompt: Some(prompt.text.clone()) })
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

    async fn take_back(&mut self, goal: &Goal, conversation: &mut pollux_host::Conversation) {
        let op = Op::Rewind { to: goal.to.clone() };
        let Some(result) = self.ask(op, conversation).await else { return };
        if let Some(refusal) = result.refusal() {
            self.ui.note(&format!("Conversation unchanged: {}", refusal.message));
            return;
        }
        match &goal.prompt {
            None => self.ui.note("Rewound to the summary."),
            Some(text) => {
                self.ui.note(&format!("Rewound to before:\n{}", visible(text)));
                self.ui.suggest(text);
            }
        }
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

fn shown_prompt(text: &str) -> String {
    one_line(&visible(text)).chars().take(SHOWN).collect()
}

/// The prompts that cannot be rewound to, and why.
fn unavailable(summary: &SummaryView) -> Vec<String> {
    if summary.prompts.is_empty() {
        return Vec::new();
    }
    let mut lines = vec!["Not available, because the summary replaced them:".to_owned()];
    let earlier = summary.prompts.len().saturating_sub(SUMMARISED);
    if earlier > 0 {
        lines.push(format!("  … {earlier} earlier"));
    }
    let last = summary.prompts.iter().skip(earlier);
    lines.extend(last.map(|text| format!("  {}", shown_prompt(text))));
    lines.push(String::new());
    lines
}

fn shown(lines: &[String]) -> Vec<String> {
    let mut shown: Vec<String> = lines.iter().take(STEPS).cloned().collect();
    if lines.len() > STEPS {
        shown.push(format!("  ... and {} more", lines.len() - STEPS));
    }
    shown
}
