//! Shortens texts for display.

/// The first `most` characters, and `…` if there were more.
pub fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// At most `most` characters, the last three of them dots if there were more.
pub fn with_dots(text: &str, most: usize) -> String {
    if text.chars().nth(most).is_none() {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(3)).collect();
    format!("{kept}...")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_too_long_is_cut_and_says_so() {
        for (text, short, dots) in [
            ("", "", ""),
            ("größe", "größe", "größe"),
            ("größer", "größe…", "gr..."),
            ("日本語日本語", "日本語日本…", "日本..."),
        ] {
            assert_eq!(shortened(text, 5), short);
            assert_eq!(with_dots(text, 5), dots);
        }
        assert_eq!(with_dots(&"ü".repeat(100), 100), "ü".repeat(100));
        assert_eq!(with_dots(&"ü".repeat(101), 100), format!("{}...", "ü".repeat(97)));
    }
}
