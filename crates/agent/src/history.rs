//! The conversation as sent to the model. Append-only, except for compression, masking and rewind.

mod rewind;
pub(crate) mod shell_turn;

use std::collections::HashSet;
use std::sync::Arc;

use pollux_domain::content::{Body, Content, Part, Role};
use pollux_session::{RestoredTurn, UserSource};

use crate::tokens;

const ACKNOWLEDGEMENT: &str = "I have read the snapshot and carry on from there.";

/// One turn with its metadata.
#[derive(Debug, Clone)]
pub(crate) struct HistoryEntry {
    /// The id of its record in the session file, if it has one.
    pub(crate) message: Option<String>,
    pub(crate) content: Arc<Content>,
    pub(crate) tokens: u64,
    /// Where it comes from, if it is the user's.
    pub(crate) source: UserSource,
    /// The beginnings of the prompts that it replaces, if it is a summary.
    pub(crate) summarised: Option<Vec<String>>,
}

impl HistoryEntry {
    pub(crate) fn new(message: Option<String>, content: Content) -> Self {
        let tokens = tokens::of_content(&content);
        let source = UserSource::default();
        Self { message, content: Arc::new(content), tokens, source, summarised: None }
    }

    /// A summary of the turns before it.
    pub(crate) fn summary(text: &str, summarised: Vec<String>) -> Self {
        Self { summarised: Some(summarised), ..Self::new(None, Content::user_text(text)) }
    }

    /// The model's turn after a summary.
    pub(crate) fn acknowledgement() -> Self {
        Self::new(None, Content::model(vec![Part::text(ACKNOWLEDGEMENT)]))
    }

    pub(crate) fn restored(turn: RestoredTurn) -> Self {
        let RestoredTurn { message_id, content, source, summarised } = turn;
        Self { source, summarised, ..Self::new(message_id, content) }
    }

    pub(crate) fn with_source(self, source: UserSource) -> Self {
        Self { source, ..self }
    }

    /// A prompt that began a turn.
    pub(crate) fn begins_turn(&self) -> bool {
        self.is_prompt() && self.source == UserSource::Prompt
    }

    /// A prompt: a user turn with text that is not a tool response. Media alone belong to the previous call.
    pub(crate) fn is_prompt(&self) -> bool {
        self.content.role == Role::User
            && !has_responses(&self.content)
            && self.content.parts.iter().any(|part| part.spoken_text().is_some())
    }
}

/// The turns of a session; the first one describes the environment.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    entries: Vec<HistoryEntry>,
    /// What hooks added to the first turn.
    added: Vec<Part>,
    /// Another number whenever something other than the end changes.
    revision: u64,
}

impl History {
    /// Starts with the environment, followed by the history of an earlier run.
    pub(crate) fn new(environment: Content, restored: impl IntoIterator<Item = HistoryEntry>) -> Self {
        let mut history =
            Self { entries: vec![HistoryEntry::new(None, environment)], added: Vec::new(), revision: 0 };
        history.entries.extend(restored);
        history
    }

    /// Describes dynamic tools in the first turn.
    pub(crate) fn describe_tools(&mut self, text: Option<String>) {
        let Some(entry) = self.entries.first_mut() else { return };
        let content = Arc::make_mut(&mut entry.content);
        content.parts.truncate(1);
        content.parts.extend(text.map(Part::text));
        content.parts.extend(self.added.iter().cloned());
        entry.tokens = tokens::of_content(&entry.content);
    }

    /// Adds to the environment description in the first turn.
    pub(crate) fn add_to_environment(&mut self, part: Part) {
        self.added.push(part.clone());
        self.revision += 1;
        if let Some(first) = self.entries.first_mut() {
            Arc::make_mut(&mut first.content).parts.push(part);
            first.tokens = tokens::of_content(&first.content);
        }
    }

    /// Adds a prompt. If the last turn was never answered, a placeholder is added first, so that the prompt is a
    /// separate turn.
    pub(crate) fn push_prompt(&mut self, source: UserSource, message: Option<String>, parts: Vec<Part>) {
        let unanswered = self.entries.len() > 1
            && self.entries.last().is_some_and(|entry| {
                // What the program tells the model wants no answer of its own.
                entry.content.role == Role::User
                    && entry.source != UserSource::Program
                    && !shell_turn::is_told(&entry.content)
            });
        if unanswered {
            let note = Part::text("[The previous response was interrupted.]");
            self.entries.push(HistoryEntry::new(None, Content::model(vec![note])));
        }
        self.entries.push(HistoryEntry::new(message, Content::user(parts)).with_source(source));
    }

    /// Adds what the user or the program said during a turn.
    pub(crate) fn push_during_turn(&mut self, source: UserSource, message: Option<String>, parts: Vec<Part>) {
        self.entries.push(HistoryEntry::new(message, Content::user(parts)).with_source(source));
    }

    /// Adds a turn.
    pub(crate) fn push(&mut self, message: Option<String>, content: Content) {
        self.entries.push(HistoryEntry::new(message, content));
    }

    /// The turns for a request.
    pub(crate) fn contents(&self) -> Vec<Arc<Content>> {
        self.entries.iter().map(|entry| Arc::clone(&entry.content)).collect()
    }

    /// The ids of all calls.
    pub(crate) fn call_ids(&self) -> HashSet<String> {
        self.entries
            .iter()
            .flat_map(|entry| entry.content.calls())
            .filter_map(|call| call.id.clone())
            .collect()
    }

    /// Which state the turns are in; the same number means that turns were only added. What the first turn says
    /// of tools does not count.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn entries(&self) -> &[HistoryEntry] {
        &self.entries
    }

    /// Replaces everything after the environment.
    pub(crate) fn replace(&mut self, entries: Vec<HistoryEntry>) {
        self.revision += 1;
        self.entries.truncate(1);
        self.entries.extend(entries);
    }

    /// Replaces what one part of a turn says, keeping the turn's record.
    pub(crate) fn rewrite(&mut self, turn: usize, part: usize, body: Body) {
        let Some(entry) = self.entries.get_mut(turn) else { return };
        self.revision += 1;
        if let Some(part) = Arc::make_mut(&mut entry.content).parts.get_mut(part) {
            part.body = body;
        }
        entry.tokens = tokens::of_content(&entry.content);
    }

    /// Whether the last turn is the model's.
    pub(crate) fn ends_with_reply(&self) -> bool {
        self.entries.last().is_some_and(|entry| entry.content.role == Role::Model)
    }

    /// Whether the last turn answers calls.
    pub(crate) fn ends_with_responses(&self) -> bool {
        self.entries.last().is_some_and(|entry| has_responses(&entry.content))
    }

    /// Estimated tokens of all turns.
    pub(crate) fn tokens(&self) -> u64 {
        self.entries.iter().map(|entry| entry.tokens).sum()
    }

    /// Estimated tokens of the turns from `index` on.
    pub(crate) fn tokens_from(&self, index: usize) -> u64 {
        self.entries.iter().skip(index).map(|entry| entry.tokens).sum()
    }

    /// Takes back what was added after this many turns.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.entries.truncate(length);
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

fn has_responses(content: &Content) -> bool {
    content.parts.iter().any(|part| matches!(part.body, Body::Response(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_after_an_unanswered_turn_gets_a_turn_of_its_own() {
        let mut history = History::new(Content::user_text("env"), []);
        history.push_prompt(UserSource::Prompt, None, vec![Part::text("one")]);
        history.push_prompt(UserSource::Prompt, None, vec![Part::text("two")]);
        let roles: Vec<Role> = history.contents().iter().map(|content| content.role).collect();
        assert_eq!(roles, [Role::User, Role::User, Role::Model, Role::User]);
    }
}
