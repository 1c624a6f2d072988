//! The text that every match of an expression begins with, so that most texts need no search.

/// The literal prefix of a regex; empty if it has none.
pub(super) fn beginning(source: &str) -> String {
    if has_branches(source) {
        return String::new();
    }
    let mut literal = String::new();
    for c in source.chars() {
        if c.is_ascii_alphanumeric() || " \"':/-_,=@%&;#!<>~".contains(c) {
            literal.push(c);
            continue;
        }
        if matches!(c, '*' | '?' | '+' | '{') {
            // It may be absent.
            literal.pop();
        }
        break;
    }
    literal
}

/// Whether there is a `|` outside of every group.
fn has_branches(source: &str) -> bool {
    let (mut depth, mut in_class, mut escaped) = (0_usize, false, false);
    for c in source.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ']' => in_class = false,
            _ if in_class => {}
            '[' => in_class = true,
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_required_text_becomes_the_literal() {
        let table = [
            ("git push", "git push"),
            ("git pushe?s", "git push"),
            ("ab*", "a"),
            ("ab+c", "a"),
            ("a{2}", ""),
            ("a.c", "a"),
            ("(a|b)c", ""),
            ("make (all|part) x|y", ""),
            ("make (all|part)", "make "),
            ("x[|]y", "x"),
            (r"x\|y", "x"),
            ("^git", ""),
            ("ä", ""),
            ("", ""),
        ];
        for (source, expected) in table {
            assert_eq!(beginning(source), expected, "{source}");
        }
    }
}
