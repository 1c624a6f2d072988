//! Text from files made safe for one line of a terminal.

/// Longer texts are cut: a title is one line, whatever was pasted into the first prompt.
const MAX_CHARS: usize = 1000;

/// One line without control, escape and direction characters; letters of every script stay.
pub(crate) fn clean(text: &str) -> String {
    let mut line = String::new();
    let mut count = 0;
    let mut gap = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            skip_escape(&mut chars);
            continue;
        }
        if c.is_whitespace() {
            gap = true;
            continue;
        }
        if is_unsafe(c) {
            continue;
        }
        if count >= MAX_CHARS {
            line.push_str("...");
            break;
        }
        if gap && !line.is_empty() {
            line.push(' ');
            count += 1;
        }
        gap = false;
        line.push(c);
        count += 1;
    }
    line
}

/// At most `max` characters, the last three being dots if something was cut.
pub(crate) fn shorten(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(max.saturating_sub(3)).collect();
    short.push_str("...");
    short
}

/// Skips what follows an escape character: a control sequence, a string up to its end, or one character.
fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.next() {
        Some('[') => {
            while chars.next_if(|c| matches!(c, '\u{20}'..='\u{3f}')).is_some() {}
            chars.next_if(|c| matches!(c, '\u{40}'..='\u{7e}'));
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(c) = chars.next_if(|c| !matches!(c, '\n' | '\u{1b}')) {
                if c == '\u{7}' {
                    return;
                }
            }
            if chars.next_if_eq(&'\u{1b}').is_some() {
                chars.next_if_eq(&'\\');
            }
        }
        _ => {}
    }
}

fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            | '\u{200b}' | '\u{2060}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
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
        assert_eq!(shorten(&"ü".repeat(100), 100), "ü".repeat(100));
        assert_eq!(shorten(&"ü".repeat(101), 100), format!("{}...", "ü".repeat(97)));
        assert_eq!(clean(&"x".repeat(5000)).len(), 1003);
    }
}
