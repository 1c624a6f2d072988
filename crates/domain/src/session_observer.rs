//! The port to whoever remembers a conversation beyond its session.

use std::sync::Arc;

use crate::content::Content;
use crate::event::CallReport;

/// Sees a conversation grow. Nothing here waits: what takes time happens beside the session, and what goes wrong
/// is told by whoever made the witness.
pub trait Witness: Send + Sync {
    /// A prompt is recorded. `typed` is what stood for it at the front end; nobody typed what a hook sends.
    fn prompt(&self, typed: Option<&str>);

    /// A reply is recorded.
    fn reply(&self, text: &str, model: &str);

    /// A call is over.
    fn call(&self, report: &CallReport);

    /// The index of the first message that is kept as it is when the older ones are summarised.
    fn keeps_from(&self, messages: &[Arc<Content>]) -> usize;

    /// The older messages are about to be summarised. What the model is to be asked about them beside that, if
    /// anything; [`Self::notes`] gets the answer.
    fn before_compression(&self) -> Option<String>;

    /// What the model thinks is worth keeping of the messages that were summarised.
    fn notes(&self, text: &str);

    /// The older messages are a summary now.
    fn compressed(&self, summary: &str, tokens_before: u64);
}
