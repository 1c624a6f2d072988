//! What the requests of one epoch begin with.

use std::sync::Arc;

use pollux_domain::approval::ApprovalMode;
use pollux_domain::content::Content;
use pollux_domain::tool::ToolSpec;

use super::Conversation;

/// The beginning of the requests of one epoch.
pub(crate) struct Epoch {
    model: String,
    mode: ApprovalMode,
    /// The state of the history that it began with.
    revision: u64,
    pub(crate) environment: Option<Arc<Content>>,
    pub(crate) system: Arc<str>,
    pub(crate) tools: Arc<[Arc<ToolSpec>]>,
    /// Whether people know that tools wait.
    pub(crate) told: bool,
}

impl Epoch {
    pub(crate) fn begin(model: &str, conversation: &Conversation, declared: Arc<[Arc<ToolSpec>]>) -> Self {
        Self {
            model: model.to_owned(),
            mode: conversation.prompt.mode,
            revision: conversation.history.revision(),
            environment: conversation.history.entries().first().map(|entry| Arc::clone(&entry.content)),
            system: Arc::clone(&conversation.system),
            tools: declared,
            told: false,
        }
    }

    /// Whether a request to this model with these tools can still append to it.
    pub(crate) fn continues(
        &self,
        model: &str,
        conversation: &Conversation,
        declared: &[Arc<ToolSpec>],
    ) -> bool {
        let is_there = |tool: &Arc<ToolSpec>| declared.iter().any(|other| other.name == tool.name);
        self.model == model
            && self.mode == conversation.prompt.mode
            && self.revision == conversation.history.revision()
            && self.tools.iter().all(is_there)
    }
}
