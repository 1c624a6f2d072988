//! `/footer`: what the last line shows.

use super::super::Front;
use crate::wire;

impl Front<'_, '_> {
    /// `/footer`
    pub(super) async fn footer(&mut self, _rest: &str, _conversation: &mut wire::Conversation) {
        self.face.note("`ui.footer.items` in a settings file lists what the last line shows.");
    }
}
