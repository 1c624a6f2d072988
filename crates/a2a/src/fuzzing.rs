//! The text of an answer without a connection, for the fuzz targets. Not part of the interface.

use crate::answer::AnswerText;
use crate::protocol::Update;

/// What these events say, as the model reads it.
pub fn answer_text(updates: impl IntoIterator<Item = Update>) -> String {
    let mut answer = AnswerText::default();
    updates.into_iter().for_each(|update| answer.take(update));
    answer.text()
}
