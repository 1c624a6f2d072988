//! `/editor`: the editor for long prompts and proposed changes.

use super::super::Front;
use crate::wire;

impl Front<'_, '_> {
    /// `/editor`
    pub(super) async fn editor(&mut self, _rest: &str, _conversation: &mut wire::Conversation) {
        self.face.note("The editor is `general.preferredEditor`, else what `VISUAL` or `EDITOR` names.");
    }
}
