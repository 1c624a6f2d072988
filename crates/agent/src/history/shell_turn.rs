//! Turns that report a user shell command.

use pollux_domain::content::{Content, Part};

/// Upstream's words, by which such a turn is known in a session file, too.
pub(crate) const OPENING: &str = "I ran the following shell command:";

/// Whether a turn tells of a command and waits for no answer.
pub(crate) fn is_told(content: &Content) -> bool {
    let first = content.parts.first().and_then(Part::spoken_text);
    content.parts.len() == 1 && first.is_some_and(|text| text.starts_with(OPENING))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_about_a_command_is_told_from_a_prompt() {
        assert!(is_told(&Content::user_text(format!("{OPENING}\n```sh\nls\n```"))));
        assert!(!is_told(&Content::user_text("hello")));
    }
}
