//! `/theme`: the colours.

use super::super::Front;
use crate::wire;

impl Front<'_, '_> {
    /// `/theme`
    pub(super) async fn theme(&mut self, _rest: &str, _conversation: &mut wire::Conversation) {
        self.face.note("`ui.theme` in a settings file names the colours.");
    }
}
