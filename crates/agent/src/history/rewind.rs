//! Rewinds to an earlier prompt.

use pollux_domain::content::Part;
use pollux_domain::event::PromptView;

use pollux_session::UserSource;

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

    /// What the program itself told the model is not a prompt.
    fn prompt_entries(&self) -> impl DoubleEndedIterator<Item = &HistoryEntry> {
        let said = |entry: &&HistoryEntry| entry.is_prompt() && entry.source != UserSource::Program;
        self.entries.iter().skip(1).filter(said)
    }

    /// Drops the turn with this record and everything after it; false if there is none.
    pub(crate) fn rewind(&mut self, to: &str) -> bool {
        let place = self.entries.iter().skip(1).position(|entry| entry.message.as_deref() == Some(to));
        if let Some(place) = place {
            self.revision += 1;
            self.entries.truncate(place + 1);
        }
        place.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_domain::content::Content;

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
