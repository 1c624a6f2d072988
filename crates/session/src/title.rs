//! Makes text from files safe for a terminal.

use pollux_domain::terminal_text::one_line;

/// Longer texts are cut: a title is one line, whatever was pasted into the first prompt.
const MAX_CHARS: usize = 1000;

/// Maximum input length; the rest of a long prompt would be cut anyway.
const MAX_INPUT: usize = 16 * MAX_CHARS;

/// One line without control, escape and invisible characters; letters of every script stay.
pub(crate) fn clean(text: &str) -> String {
    let end = text.char_indices().nth(MAX_INPUT).map_or(text.len(), |(index, _)| index);
    let line = one_line(text.get(..end).unwrap_or_default());
    let words: Vec<&str> = line.split_whitespace().collect();
    let title = words.join(" ");
    match title.char_indices().nth(MAX_CHARS) {
        Some((index, _)) => format!("{}...", title.get(..index).unwrap_or_default()),
        None => title,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_keep_letters_and_lose_what_a_terminal_would_obey() {
        let cases = [
            ("  two\n\n lines\t here ", "two lines here"),
            ("größe — ünï 日本語 👩\u{200d}💻", "größe — ünï 日本語 👩\u{200d}💻"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("a\u{1b}]0;owned\u{7}b", "ab"),
            ("a\u{1b}]8;;x\u{1b}\\b", "ab"),
            ("safe\u{202e}gpj.exe", "safegpj.exe"),
            ("bell\u{7}\u{0}\u{9b}", "bell"),
            ("\u{1b}", ""),
        ];
        for (given, expected) in cases {
            assert_eq!(clean(given), expected, "{given:?}");
        }
    }

    #[test]
    fn long_titles_are_cut_by_characters() {
        assert_eq!(clean(&"x".repeat(5000)).len(), 1003);
    }
}
