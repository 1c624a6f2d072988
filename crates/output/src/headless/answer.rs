//! The answer of a turn, joined from its pieces of text.
//!
//! For `json`, which prints the answer at the end; `text` and `stream-json` print pieces as they arrive.

/// Collects text; the text of a discarded attempt is dropped.
#[derive(Debug, Default)]
pub(crate) struct AnswerText {
    whole: String,
    last_step: String,
    attempt: String,
}

impl AnswerText {
    pub(crate) fn push(&mut self, text: &str) {
        self.attempt.push_str(text);
    }

    /// The attempt counts.
    pub(crate) fn commit(&mut self) {
        let text = std::mem::take(&mut self.attempt);
        if !text.is_empty() {
            if !self.whole.is_empty() && !self.whole.ends_with('\n') {
                self.whole.push('\n');
            }
            self.whole.push_str(&text);
        }
        self.last_step = text;
    }

    /// Drops the attempt.
    pub(crate) fn discard(&mut self) {
        self.attempt.clear();
    }

    /// Whether an attempt has text that is not committed yet.
    pub(crate) fn has_open_text(&self) -> bool {
        !self.attempt.is_empty()
    }

    /// Everything the model said in this turn, one step after the other.
    pub(crate) fn whole(&self) -> &str {
        &self.whole
    }

    /// What the model said last: upstream's `response`.
    pub(crate) fn last_step(&self) -> &str {
        &self.last_step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_joined_and_void_attempts_left_out() {
        let mut answer = AnswerText::default();
        answer.push("Let me ");
        answer.push("look.");
        answer.commit();
        answer.push("half an ans");
        answer.discard();
        answer.commit();
        answer.push("Done.");
        assert!(answer.has_open_text());
        answer.commit();
        assert_eq!(answer.whole(), "Let me look.\nDone.");
        assert_eq!(answer.last_step(), "Done.");
    }
}
