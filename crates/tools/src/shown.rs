//! Remembers the content that was shown for approval, so that a change in between is noticed.

use std::sync::OnceLock;

use pollux_config::paths::sha256_hex;
use pollux_domain::tool::{ToolErrorKind, ToolFailure};

/// The content that the shown change starts from, if one was shown.
#[derive(Default)]
pub(crate) struct Shown(OnceLock<String>);

impl Shown {
    /// A change to this content is about to be shown; `None` is a file that does not exist.
    pub(crate) fn keep(&self, before: Option<&[u8]>) {
        let _ = self.0.set(mark(before));
    }

    /// Whether the approved change is still the one that would be made.
    pub(crate) fn check(&self, before: Option<&[u8]>) -> Result<(), ToolFailure> {
        match self.0.get() {
            Some(shown) if *shown != mark(before) => Err(ToolFailure {
                kind: ToolErrorKind::EditPreparationFailure,
                message:
                    "The file changed after the edit was shown for approval, so nothing was written. Read it \
                          again and repeat the edit."
                        .to_owned(),
                display: None,
            }),
            Some(_) | None => Ok(()),
        }
    }
}

fn mark(before: Option<&[u8]>) -> String {
    before.map(sha256_hex).unwrap_or_default()
}
