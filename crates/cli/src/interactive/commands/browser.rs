//! `/resume` and `/chat` alone: choosing an earlier conversation.

use super::super::Front;
use super::Then;
use crate::wire;

impl Front<'_, '_> {
    /// Shows what there is to go on with.
    pub(super) async fn browse(&mut self, conversation: &mut wire::Conversation) -> Then {
        self.chat("list", conversation).await
    }
}
