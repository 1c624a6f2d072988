//! Splits a command line into words like a shell, without expansions.

/// A quote is opened and not closed, or the line ends with a backslash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a quote is not closed")]
pub struct UnclosedQuote;

/// Splits at spaces outside quotes.
pub(super) fn split(line: &str) -> Result<Vec<String>, UnclosedQuote> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next().ok_or(UnclosedQuote)? {
                        '\'' => break,
                        inner => word.push(inner),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next().ok_or(UnclosedQuote)? {
                        '"' => break,
                        '\\' => match characters.next().ok_or(UnclosedQuote)? {
                            special @ ('"' | '\\' | '$' | '`') => word.push(special),
                            other => word.extend(['\\', other]),
                        },
                        inner => word.push(inner),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(characters.next().ok_or(UnclosedQuote)?),
            space if space.is_whitespace() => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

/// A word, quoted for the shell.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_like_a_shell_does() {
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            ("  \t\n", &[]),
            ("a b  c", &["a", "b", "c"]),
            ("a 'b c' \"d e\"", &["a", "b c", "d e"]),
            ("a'b'\"c\"d", &["abcd"]),
            ("a\\ b \\\\", &["a b", "\\"]),
            ("\"a\\\"b\\n\" ''", &["a\"b\\n", ""]),
            ("'$HOME' $HOME ;", &["$HOME", "$HOME", ";"]),
        ];
        for (line, words) in cases {
            assert_eq!(split(line).unwrap(), *words, "{line}");
        }
        for line in ["'a", "\"a", "a\\", "\"a\\"] {
            assert_eq!(split(line), Err(UnclosedQuote), "{line}");
        }
    }

    #[test]
    fn a_quoted_word_is_read_back() {
        for word in ["a", "", "a b", "it's", "$x\"`\\"] {
            assert_eq!(split(&quoted(word)).unwrap(), [word]);
        }
    }
}
