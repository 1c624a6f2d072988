//! Translates JavaScript regex syntax for a linear-time engine, where both mean the same.

/// The same regex for the `regex` crate; `None` if it could mean something else there.
pub(super) fn translate(source: &str) -> Option<String> {
    let mut out = String::with_capacity(source.len() + 16);
    let mut characters = source.chars().peekable();
    let mut class: Option<usize> = None;
    while let Some(c) = characters.next() {
        match (c, class) {
            ('\\', _) => escape(characters.next()?, class.is_some(), &mut characters, &mut out)?,
            ('[', None) => {
                class = Some(0);
                out.push('[');
                if characters.peek() == Some(&'^') {
                    characters.next();
                    out.push('^');
                }
                // `[]` and `[^]` only exist in JavaScript.
                if characters.peek() == Some(&']') {
                    return None;
                }
            }
            (']', Some(_)) => {
                class = None;
                out.push(']');
            }
            // Sets of sets.
            ('[', Some(_)) => return None,
            ('&' | '-' | '~', Some(_)) if characters.peek() == Some(&c) => return None,
            ('.', None) => out.push_str(r"[^\n\r\u{2028}\u{2029}]"),
            ('(', None) if characters.peek() == Some(&'?') => {
                characters.next();
                out.push_str("(?");
                match characters.peek() {
                    Some(':') => {}
                    // `(?<name>…)`, but not look-behind.
                    Some('<') => {
                        characters.next();
                        out.push('<');
                        if matches!(characters.peek(), Some('=' | '!')) {
                            return None;
                        }
                    }
                    _ => return None,
                }
            }
            _ => out.push(c),
        }
    }
    class.is_none().then_some(out)
}

fn escape(
    c: char,
    in_class: bool,
    rest: &mut std::iter::Peekable<std::str::Chars<'_>>,
    out: &mut String,
) -> Option<()> {
    match (c, in_class) {
        ('d', false) => out.push_str("[0-9]"),
        ('d', true) => out.push_str("0-9"),
        ('w', false) => out.push_str("[0-9A-Za-z_]"),
        ('w', true) => out.push_str("0-9A-Za-z_"),
        ('D', false) => out.push_str("[^0-9]"),
        ('W', false) => out.push_str("[^0-9A-Za-z_]"),
        ('b', false) => out.push_str(r"(?-u:\b)"),
        ('n' | 'r' | 't' | 'f' | 'v' | 's' | 'S', _) => out.extend(['\\', c]),
        ('x' | 'u', _) => {
            let length = if c == 'x' { 2 } else { 4 };
            let digits: String =
                std::iter::from_fn(|| rest.next_if(char::is_ascii_hexdigit)).take(length).collect();
            let value = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == length)?;
            char::from_u32(value)?;
            out.push_str(&format!(r"\x{{{value:x}}}"));
        }
        ('<' | '>', _) => return None,
        (c, _) if c.is_ascii_punctuation() => out.extend(['\\', c]),
        _ => return None,
    }
    Some(())
}

/// The number of quantifiers without an upper bound.
pub(super) fn repetitions(source: &str) -> u32 {
    let mut count = 0;
    let mut escaped = false;
    for c in source.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '*' | '+' | '{' => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equivalent_syntax_is_translated_and_the_rest_is_not() {
        for (source, expected) in [
            (r#""command":"git .*""#, Some(r#""command":"git [^\n\r\u{2028}\u{2029}]*""#)),
            (r"\x00a\/b\.c", Some(r"\x{0}a\/b\.c")),
            (r"[\w-]+\b", Some(r"[0-9A-Za-z_-]+(?-u:\b)")),
            (r"(?:a|b)", Some("(?:a|b)")),
            (r"^(?!.*rm)", None),
            (r"(?<=a)b", None),
            (r"(a)\1", None),
            (r"[a[b]]", None),
            (r"[a&&b]", None),
            (r"[^]", None),
            (r"\p{L}", None),
            (r"\A", None),
            (r"(?i)x", None),
        ] {
            assert_eq!(translate(source).as_deref(), expected, "{source}");
        }
    }
}
