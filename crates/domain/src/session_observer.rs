//! The port to the memory, which observes a conversation.

use std::sync::Arc;

use crate::content::Content;
use crate::event::CallReport;

/// Observes a conversation. Methods must not block: slow work happens in the background, and problems
/// are reported by the implementation.
pub trait SessionObserver: Send + Sync {
    /// A prompt was recorded. `typed` is the text as typed; `None` for prompts sent by hooks.
    fn prompt(&self, typed: Option<&str>);

    /// A reply was recorded.
    fn reply(&self, text: &str, model: &str);

    /// A call has ended.
    fn call(&self, report: &CallReport);

    /// The index of the first message to keep verbatim when older ones are summarised.
    fn keeps_from(&self, messages: &[Arc<Content>]) -> usize;

    /// The older messages are about to be summarised. Returns an additional instruction for the model, if
    /// anything; [`Self::notes`] gets the answer.
    fn before_compression(&self) -> Option<String>;

    /// The model's notes about the summarised messages.
    fn notes(&self, text: &str);

    /// The older messages were replaced by a summary.
    fn compressed(&self, summary: &str, tokens_before: u64);
}
