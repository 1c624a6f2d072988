//! Splits a command line into words, with quotes and backslashes and nothing else of a shell.

/// The words of a line; an open quote ends with the line.
pub fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\\', Some('"') | None) => word.get_or_insert_default().extend(chars.next()),
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_words_together() {
        for (line, expected) in [
            ("node srv.js", vec!["node", "srv.js"]),
            ("  'a b'\"c d\" \\ e ", vec!["a bc d", " e"]),
            (r#"x "" 'it\s' "a\"b""#, vec!["x", "", r"it\s", "a\"b"]),
            ("open 'quote", vec!["open", "quote"]),
            ("", vec![]),
        ] {
            assert_eq!(split(line), expected, "{line}");
        }
    }
}
