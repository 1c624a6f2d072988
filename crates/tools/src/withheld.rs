//! Files that searches leave out because they may contain secrets.
//!
//! Approval rules judge what a call names, and cannot know what a search will find. So a search opens such a file only if
//! its pattern is one for which the rules ask.

use std::path::Path;

use pollux_domain::secret_names::secret_part;

/// How many names a note shows.
const SHOWN: usize = 3;

/// Why such a file was not read, for the user.
pub(crate) const REASON: &str = "it may contain secrets; only a tool call that you approve reads it";

/// Whether a path or pattern names files that may contain secrets. The approval rules use the same test.
pub(crate) fn names_secret(pattern: &str) -> bool {
    secret_part(Path::new(pattern)).is_some()
}

/// Tells the model which files were left out.
pub(crate) fn note(names: &[String]) -> Option<String> {
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!shown.is_empty()).then(|| {
        format!(
            "(Left out, because they may contain secrets: {}{more}. Name a file to ask for approval.)",
            shown.join(", ")
        )
    })
}
