//! Words of the protocol for things that have other names here.

use pollux_domain::approval::ApprovalMode;
use pollux_domain::model::Usage;
use serde_json::{Value, json};

/// A permission mode of the host: our mode, and whether nobody is asked in it.
pub fn mode_named(word: &str) -> Option<(ApprovalMode, bool)> {
    Some(match word {
        // Its judge decides on what would be asked for; without one, the host is asked.
        "default" | "auto" => (ApprovalMode::Default, false),
        "acceptEdits" => (ApprovalMode::AutoEdit, false),
        "plan" => (ApprovalMode::Plan, false),
        "bypassPermissions" => (ApprovalMode::Yolo, false),
        "dontAsk" => (ApprovalMode::Default, true),
        _ => return None,
    })
}

/// Our mode in the words of the host.
pub(crate) fn mode_word(mode: ApprovalMode, never_asks: bool) -> &'static str {
    match mode {
        ApprovalMode::Default if never_asks => "dontAsk",
        ApprovalMode::Default => "default",
        ApprovalMode::AutoEdit => "acceptEdits",
        ApprovalMode::Plan => "plan",
        ApprovalMode::Yolo => "bypassPermissions",
    }
}

/// Counts of tokens.
pub(crate) fn usage(usage: Usage) -> Value {
    json!({
        // Theirs leaves out what came from the cache.
        "input_tokens": usage.input.saturating_sub(usage.cached),
        "output_tokens": usage.output + usage.reasoning,
        "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": usage.cache_write_short + usage.cache_write_long,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_named_in_both_directions() {
        for word in ["default", "acceptEdits", "plan", "bypassPermissions", "dontAsk"] {
            let (mode, never_asks) = mode_named(word).unwrap();
            assert_eq!(mode_word(mode, never_asks), word);
        }
        assert_eq!(mode_named("auto"), Some((ApprovalMode::Default, false)));
        assert_eq!(mode_named("yolo"), None);
    }
}
