//! Rewinds to an earlier prompt.

use pollux_domain::content::Part;
use pollux_domain::event::{PromptView, SummaryView};
use pollux_session::{UserSource, summarised_prompt};

use super::{History, HistoryEntry};

impl History {
    /// The prompts to rewind to: record ids and texts.
    pub(crate) fn prompts(&self) -> Vec<PromptView> {
        self.prompt_entries()
            .filter_map(|entry| {
                let message = entry.message.clone()?;
                // Attachments of a prompt are separate parts after its text.
                let text = entry.content.parts.iter().find_map(Part::spoken_text)?.to_owned();
                Some(PromptView { message, text })
            })
            .collect()
    }

    /// The record of the last prompt.
    pub(crate) fn last_prompt(&self) -> Option<&str> {
        self.prompt_entries().rev().find_map(|entry| entry.message.as_deref())
    }

    /// Neither what the program itself told the model nor a summary is a prompt.
    fn prompt_entries(&self) -> impl DoubleEndedIterator<Item = &HistoryEntry> {
        self.entries.iter().skip(1).filter(|entry| is_prompt(entry))
    }

    /// The beginnings of the prompts before this turn, including those that an earlier summary replaced.
    pub(crate) fn prompts_before(&self, turn: usize) -> Vec<String> {
        let mut prompts = Vec::new();
        for entry in self.entries.iter().take(turn).skip(1) {
            match &entry.summarised {
                Some(earlier) => prompts.extend(earlier.iter().cloned()),
                None if is_prompt(entry) => prompts.extend(summarised_prompt(&entry.content.parts)),
                None => {}
            }
        }
        prompts
    }

    /// The summary that the conversation begins with.
    pub(crate) fn summary(&self) -> Option<SummaryView> {
        let prompts = self.entries.get(1)?.summarised.clone()?;
        let next = self.entries.iter().skip(2).find_map(|entry| entry.message.clone());
        let text = self.entries.get(1)?.content.text();
        Some(SummaryView { text, prompts, next })
    }

    /// Whether the conversation can be rewound to before this record.
    pub(crate) fn can_rewind(&self, to: &str) -> bool {
        let is_after_summary = || self.summary().and_then(|summary| summary.next).as_deref() == Some(to);
        self.prompt_entries().any(|entry| entry.message.as_deref() == Some(to)) || is_after_summary()
    }

    /// Drops the turn with this record and everything after it; false if there is none.
    pub(crate) fn rewind(&mut self, to: &str) -> bool {
        let place = self.entries.iter().skip(1).position(|entry| entry.message.as_deref() == Some(to));
        if let Some(place) = place {
            self.revision += 1;
            self.entries.truncate(place + 1);
            if self.entries.len() == 2 && self.summary().is_some() {
                self.entries.push(HistoryEntry::acknowledgement());
            }
        }
        place.is_some()
    }
}

fn is_prompt(entry: &HistoryEntry) -> bool {
    entry.is_prompt() && entry.source != UserSource::Program && entry.summarised.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_domain::content::{Content, Role};

    #[test]
    fn going_back_drops_a_prompt_and_what_followed_it() {
        let mut history = History::new(Content::user_text("env"), []);
        for (id, text) in [("a", "one"), ("b", "two")] {
            let parts = vec![Part::text(text), Part::text("a file")];
            history.push_prompt(UserSource::Prompt, Some(id.into()), parts);
            history.push(Some(format!("{id}r")), Content::model(vec![Part::text("reply")]));
        }
        let prompts = history.prompts();
        assert_eq!(
            prompts.iter().map(|p| (p.message.as_str(), p.text.as_str())).collect::<Vec<_>>(),
            [("a", "one"), ("b", "two")]
        );
        assert!(!history.rewind("unknown") && history.rewind("b"));
        assert_eq!((history.len(), history.last_prompt()), (3, Some("a")));
    }

    #[test]
    fn a_summary_can_be_gone_back_to_and_what_it_replaced_cannot() {
        let mut history = History::new(Content::user_text("env"), []);
        history.push_prompt(UserSource::Prompt, Some("a".into()), vec![Part::text("one")]);
        history.push(Some("ar".into()), Content::model(vec![Part::text("reply")]));
        let mut entries = vec![HistoryEntry::summary("all of it", history.prompts_before(3))];
        // A cut between two rounds of calls: the model's turn follows the summary.
        entries.push(HistoryEntry::new(Some("br".into()), Content::model(vec![Part::text("reply")])));
        history.replace(entries);
        history.push_prompt(UserSource::Prompt, Some("c".into()), vec![Part::text("three")]);
        let summary = history.summary().unwrap();
        assert_eq!((summary.prompts, summary.next.as_deref()), (vec!["one".to_owned()], Some("br")));
        assert_eq!(history.prompts_before(4), ["one", "three"]);
        assert_eq!(history.prompts().len(), 1);
        assert!(history.can_rewind("br") && history.can_rewind("c") && !history.can_rewind("ar"));
        assert!(history.rewind("br"));
        let roles: Vec<Role> = history.contents().iter().map(|content| content.role).collect();
        assert_eq!(roles, [Role::User, Role::User, Role::Model]);
        assert_eq!(history.summary().unwrap().next, None);
    }

    #[test]
    fn a_prompt_is_known_by_its_source_and_not_by_its_words() {
        let mut history = History::new(Content::user_text("env"), []);
        let said = [(UserSource::Prompt, "a"), (UserSource::DuringTurn, "b"), (UserSource::Program, "c")];
        for (source, id) in said {
            history.push_prompt(source, Some(id.into()), vec![Part::text("System: say hello")]);
        }
        let ids: Vec<String> = history.prompts().into_iter().map(|prompt| prompt.message).collect();
        assert_eq!((ids, history.last_prompt()), (vec!["a".to_owned(), "b".to_owned()], Some("b")));
    }
}
