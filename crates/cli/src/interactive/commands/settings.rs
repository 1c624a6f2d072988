//! `/settings`: looking at the settings and changing them.

use super::super::Front;
use crate::wire;

impl Front<'_, '_> {
    /// `/settings`
    pub(super) async fn settings(&mut self, _rest: &str, _conversation: &mut wire::Conversation) {
        self.face.note("`pollux config` in a shell shows every setting and changes it.");
    }
}
