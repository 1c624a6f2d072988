//! `/sandbox`: the level in force, grants and denials.

use crate::Front;

impl Front<'_, '_> {
    pub(super) fn sandbox(&self, rest: &str) -> String {
        pollux_host::sandbox_page(&self.turn.sandbox, &self.turn.loaded.env, rest)
    }
}
