//! The word at the cursor: an `@` reference or a word of a shell command, with and without its escapes.

use std::ops::Range;

/// Maximum length of a word; longer ones are not paths.
const REACH: usize = 4096;

/// Ends an `@` reference unless escaped or quoted.
fn ends_reference(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | ',' | ';' | '!' | '?' | '(' | ')' | '[' | ']' | '{' | '}')
}

/// The reference the cursor stands in: the bytes after its `@`, and the path without escapes.
pub(crate) fn reference(line: &str, cursor: usize) -> Option<(Range<usize>, String)> {
    let from = floor(line, cursor.saturating_sub(REACH));
    let mut search = from;
    while let Some(at) = line.get(search..cursor)?.find('@').map(|found| search + found) {
        if is_escaped(line, at) {
            search = at + 1;
            continue;
        }
        let (end, path) = read_reference(line, at + 1, cursor);
        if cursor <= end {
            return Some((at + 1..end, path));
        }
        search = end.max(at + 1);
    }
    None
}

fn is_escaped(line: &str, at: usize) -> bool {
    let before = line.as_bytes().get(..at).unwrap_or_default();
    before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// Reads on to the end of a reference. What stands before the cursor may still be unfinished: a quote that is open, a
/// dot at the end.
fn read_reference(line: &str, start: usize, cursor: usize) -> (usize, String) {
    let limit = floor(line, line.len().min(cursor + REACH));
    let (mut here, mut path) = (start, String::new());
    while let Some(rest) = line.get(here..limit)
        && let Some(c) = rest.chars().next()
    {
        let next = here + c.len_utf8();
        let follows = line.get(next..).and_then(|rest| rest.chars().next());
        match c {
            '"' => {
                let inside = line.get(next..limit).unwrap_or_default();
                let Some((quoted, _)) = inside.split_once('"') else {
                    return (cursor.max(here), path + line.get(next..cursor).unwrap_or_default());
                };
                path.push_str(quoted);
                here = next + quoted.len() + 1;
            }
            '\\' => {
                path.extend(follows);
                here = next + follows.map_or(0, char::len_utf8);
            }
            '.' if here >= cursor && follows.is_none_or(char::is_whitespace) => return (here, path),
            c if ends_reference(c) => return (here, path),
            c => {
                path.push(c);
                here = next;
            }
        }
    }
    (here, path)
}

/// A path as it stands after `@`.
pub(crate) fn escape_reference(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for (index, c) in path.char_indices() {
        let is_last_dot = c == '.' && index + 1 == path.len();
        if ends_reference(c) || matches!(c, '"' | '\\') || is_last_dot {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// The shell word that ends at the cursor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ShellWord {
    pub(crate) range: Range<usize>,
    /// Without quotes and escapes.
    pub(crate) text: String,
    /// Whether a command stands here, not an argument.
    pub(crate) is_command: bool,
}

pub(crate) fn shell_word(line: &str, cursor: usize) -> ShellWord {
    let from = floor(line, cursor.saturating_sub(REACH));
    let (mut word, mut start, mut in_word) = (String::new(), from, false);
    let (mut is_command, mut quote) = (true, None);
    let mut chars = line.get(from..cursor).unwrap_or_default().char_indices();
    while let Some((offset, c)) = chars.next() {
        let is_break = c.is_whitespace() || matches!(c, '|' | '&' | ';' | '(' | ')' | '<' | '>');
        if quote.is_none() && is_break {
            if in_word {
                is_command = false;
            }
            match c {
                '|' | '&' | ';' | '(' => is_command = true,
                '<' | '>' => is_command = false,
                _ => {}
            }
            word.clear();
            in_word = false;
            start = from + offset + c.len_utf8();
            continue;
        }
        in_word = true;
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('\\', None | Some('"')) => word.extend(chars.next().map(|(_, escaped)| escaped)),
            (c, _) => word.push(c),
        }
    }
    ShellWord { range: start..cursor, text: word, is_command }
}

/// A word the shell reads back as this text.
pub(crate) fn escape_shell(text: &str) -> String {
    if text.chars().any(char::is_control) {
        return format!("'{}'", text.replace('\'', "'\\''"));
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        let is_plain = c.is_alphanumeric() || !c.is_ascii() || "_-./+,:@%=^~".contains(c);
        if !is_plain {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `|` is the cursor; the answer is the range and the path.
    fn at(marked: &str) -> Option<(String, String)> {
        let cursor = marked.find('|').unwrap();
        let line = marked.replacen('|', "", 1);
        reference(&line, cursor).map(|(range, path)| (line.get(range).unwrap().to_owned(), path))
    }

    #[test]
    fn references_follow_the_token_rules() {
        for (marked, expected) in [
            ("look at @src/ma|", Some(("src/ma", "src/ma"))),
            ("@|", Some(("", ""))),
            ("@src/m|ain.rs please", Some(("src/main.rs", "src/main.rs"))),
            ("@a b|", None),
            ("@a\\ b|", Some(("a\\ b", "a b"))),
            ("@\"a b|", Some(("\"a b", "a b"))),
            ("@\"a b\"/c|", Some(("\"a b\"/c", "a b/c"))),
            ("(@x|)", Some(("x", "x"))),
            ("@x,|", None),
            ("me@host|", Some(("host", "host"))),
            ("\\@x|", None),
            ("\\\\@x|", Some(("x", "x"))),
            ("@src/.|", Some(("src/.", "src/."))),
            ("@src/.git|", Some(("src/.git", "src/.git"))),
            ("@a|. Then", Some(("a", "a"))),
            ("@a @b|", Some(("b", "b"))),
            ("no reference|", None),
            ("|@x", None),
            ("@ü日|", Some(("ü日", "ü日"))),
        ] {
            let expected = expected.map(|(a, b): (&str, &str)| (a.to_owned(), b.to_owned()));
            assert_eq!(at(marked), expected, "{marked}");
        }
    }

    #[test]
    fn an_escaped_path_is_read_back() {
        for path in ["a b(1)[x].txt", "we\"ird\\name", "end.", "日本 語", "a,b;c!d?e{f}"] {
            let line = format!("@{} rest", escape_reference(path));
            let (range, read) = reference(&line, 1).unwrap();
            assert_eq!(read, path);
            assert_eq!(line.get(range.end..).unwrap(), " rest");
        }
    }

    #[test]
    fn shell_words_know_quotes_and_where_commands_stand() {
        for (line, text, is_command) in [
            ("gi", "gi", true),
            ("git st", "st", false),
            ("cat my\\ fi", "my fi", false),
            ("cat 'my fi", "my fi", false),
            ("a | gr", "gr", true),
            ("a && b", "b", true),
            ("cat < in", "in", false),
            ("echo ", "", false),
            ("", "", true),
        ] {
            let word = shell_word(line, line.len());
            assert_eq!((word.text.as_str(), word.is_command), (text, is_command), "{line:?}");
        }
        assert_eq!(escape_shell("my fi$le'.txt"), "my\\ fi\\$le\\'.txt");
        assert_eq!(escape_shell("a\nb'c"), "'a\nb'\\''c'");
    }
}
