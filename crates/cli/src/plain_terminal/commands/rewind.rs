//! `/rewind` and `/restore`: going back.

use pollux_domain::event::{Event, Op, PromptView};
use pollux_domain::terminal_text::{one_line, visible};

use super::super::{Front, show};
use super::{Anew, Then};
use crate::wire::{self, FilePlan};

/// Most characters of a prompt in the list.
const SHOWN: usize = 80;
/// Most lines of a plan.
const STEPS: usize = 40;

/// What is gone back with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Both,
    Conversation,
    Files,
    Nothing,
}

impl Front<'_, '_> {
    pub(super) async fn rewind(&mut self, conversation: &mut wire::Conversation) {
        // What stands in the line already was not meant as an answer.
        let before = self.keyboard.typed_before();
        self.ahead.extend(before);
        let Some(view) = self.view(conversation).await else { return };
        if view.contents.len() <= 1 {
            return self.console.note("No conversation found.");
        }
        if view.prompts.is_empty() {
            return self.console.note("Nothing to rewind to.");
        }
        let Some(chosen) = self.choose_prompt(&view.prompts).await else {
            return self.console.note("Nothing was changed.");
        };
        let later: Vec<PromptView> = view.prompts.iter().skip(chosen).cloned().collect();
        let Some(prompt) = later.first() else { return };
        let ids = later.iter().map(|prompt| prompt.message.clone()).collect();
        let plan = match conversation.plan_rewind(ids).await {
            Ok(plan) => Some(plan),
            Err(error) => {
                self.console.note(&format!("The files cannot be brought back: {error}"));
                None
            }
        };
        let plan = plan.filter(|plan| !plan.lines.is_empty());
        match self.choose_extent(plan.as_ref()).await {
            What::Nothing => self.console.note("Nothing was changed."),
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
        for (number, prompt) in prompts.iter().enumerate() {
            let text: String = one_line(&visible(&prompt.text)).chars().take(SHOWN).collect();
            show(&format!("  {}. {text}\n", number + 1));
        }
        loop {
            show("Go back to before which prompt (number, empty: stay): ");
            let line = self.line().await?;
            if line.trim().is_empty() {
                return None;
            }
            let number = line.trim().parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            if let Some(number) = number.filter(|number| *number < prompts.len()) {
                return Some(number);
            }
        }
    }

    async fn choose_extent(&mut self, plan: Option<&FilePlan>) -> What {
        let mut choices = Vec::new();
        match plan {
            None => show("No file has to be brought back.\n"),
            Some(plan) => {
                show(&format!("The files:\n{}", shown(&plan.lines)));
                choices.push((What::Both, "Rewind conversation and revert code changes"));
            }
        }
        choices.push((What::Conversation, "Rewind conversation"));
        if plan.is_some() {
            choices.push((What::Files, "Revert code changes"));
        }
        choices.push((What::Nothing, "Do nothing"));
        for (number, (_, words)) in choices.iter().enumerate() {
            show(&format!("  {}. {words}\n", number + 1));
        }
        loop {
            show("Answer (number): ");
            let Some(line) = self.line().await else { return What::Nothing };
            let number = line.trim().parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            if let Some((what, _)) = number.and_then(|number| choices.get(number)) {
                return *what;
            }
            if line.trim().is_empty() {
                return What::Nothing;
            }
        }
    }

    /// Brings the files back; whether that was done.
    async fn revert(&mut self, plan: Option<FilePlan>, conversation: &wire::Conversation) -> bool {
        let Some(plan) = plan else { return true };
        let mut overwrite = false;
        if plan.has_conflicts {
            show("Also take back what is marked as a conflict (yes or no): ");
            let answer = self.line().await.unwrap_or_default();
            overwrite = matches!(answer.trim().to_lowercase().as_str(), "y" | "yes");
        }
        if !plan.has_steps && !overwrite {
            self.console.note("No file was changed.");
            return true;
        }
        match conversation.apply_rewind(plan, overwrite).await {
            Ok(lines) => {
                lines.iter().for_each(|line| self.console.note(line));
                true
            }
            Err(error) => {
                self.console.note(&format!("The files could not be brought back: {error}"));
                false
            }
        }
    }

    async fn take_back(&mut self, prompt: &PromptView, conversation: &mut wire::Conversation) {
        let op = Op::Rewind { to: prompt.message.clone() };
        if conversation.handle.ops.send(op).await.is_err() {
            return;
        }
        let problem = loop {
            match conversation.handle.events.recv().await {
                None => return,
                Some(Event::Rewound { problem, .. }) => break problem,
                Some(event) => self.take(&event),
            }
        };
        self.console.note(&match problem {
            Some(problem) => format!("The conversation is as it was: {problem}"),
            None => format!("The conversation is back to before:\n{}", visible(&prompt.text)),
        });
    }

    pub(super) async fn restore(&mut self, name: &str, conversation: &mut wire::Conversation) -> Then {
        if !conversation.makes_checkpoints() {
            self.console.note(
                "Checkpoints are off: `general.checkpointing.enabled` switches them on. /rewind works without.",
            );
            return Then::GoOn;
        }
        if name.is_empty() {
            let (Ok(text) | Err(text)) = conversation.restorable();
            self.console.note(&text);
            return Then::GoOn;
        }
        match conversation.restore(name).await {
            Err(text) => {
                self.console.note(&text);
                Then::GoOn
            }
            Ok(restored) => Then::Anew(Anew {
                turns: restored.turns,
                proposal: restored.proposal,
                note: restored.message.to_owned(),
            }),
        }
    }
}

fn shown(lines: &[String]) -> String {
    let mut text: String = lines.iter().take(STEPS).map(|line| format!("{}\n", visible(line))).collect();
    if lines.len() > STEPS {
        text.push_str(&format!("  ... and {} more\n", lines.len() - STEPS));
    }
    text
}
