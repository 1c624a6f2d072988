//! The syntax of a `.env` file, as the JavaScript package of that name reads it.

/// One `NAME=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    pub name: String,
    pub value: String,
    /// Counted from 1.
    pub line: u32,
}

/// All assignments in order; of two with the same name the later one counts, so only it is returned.
pub fn parse(text: &str) -> Vec<Assignment> {
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut line = 1;
    let mut found: Vec<Assignment> = Vec::new();
    while !rest.is_empty() {
        let (assignment, after) = assignment(rest, line);
        let consumed = rest.len() - after.len();
        let lines = rest.bytes().take(consumed).filter(|byte| *byte == b'\n').count();
        line += u32::try_from(lines).unwrap_or(u32::MAX);
        rest = after;
        if let Some(assignment) = assignment {
            found.retain(|earlier| earlier.name != assignment.name);
            found.push(assignment);
        }
    }
    found
}

/// Reads one line, or more if a quoted value goes on; returns what follows.
fn assignment(text: &str, line: u32) -> (Option<Assignment>, &str) {
    let this_line = text.split('\n').next().unwrap_or_default();
    let next_line = text.get(this_line.len() + 1..).unwrap_or_default();
    let start = this_line.trim_start();
    let start = match start.strip_prefix("export") {
        Some(after) if after.starts_with([' ', '\t']) => after.trim_start(),
        Some(_) | None => start,
    };
    let length = start.bytes().take_while(|byte| is_name_byte(*byte)).count();
    let (Some(name), Some(after)) = (start.get(..length), start.get(length..)) else {
        return (None, next_line);
    };
    let value = match (after.trim_start().strip_prefix('='), after.strip_prefix(": ")) {
        (Some(value), _) | (None, Some(value)) if !name.is_empty() => value.trim_start_matches([' ', '\t']),
        (_, _) => return (None, next_line),
    };
    // Where the value begins in the whole text, since a quoted one may go on past the line.
    let offset = this_line.len() - value.len();
    let from_value = text.get(offset..).unwrap_or_default();
    let (value, after) = match quoted(from_value) {
        Some((value, after)) => (value, after.split_once('\n').map_or("", |(_, after)| after)),
        None => (unquoted(value), next_line),
    };
    (Some(Assignment { name: name.to_owned(), value, line }), after)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')
}

fn unquoted(value: &str) -> String {
    value.split('#').next().unwrap_or_default().trim().to_owned()
}

/// A value in quotes and what follows it; `None` if it has no closing quote or something else after it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|quote| matches!(quote, '"' | '\'' | '`'))?;
    let inner = text.get(1..)?;
    let mut escaped = false;
    let end = inner.char_indices().find_map(|(at, char)| {
        let closes = char == quote && !escaped;
        escaped = char == '\\' && !escaped;
        closes.then_some(at)
    })?;
    let after = inner.get(end + 1..)?;
    let tail = after.split('\n').next().unwrap_or_default().trim();
    if !tail.is_empty() && !tail.starts_with('#') {
        return None;
    }
    let value = inner.get(..end)?;
    Some((if quote == '"' { unescaped(value) } else { value.to_owned() }, after))
}

/// `\n`, `\r`, `\"` and `\\`; any other backslash stays, as in a Windows path.
fn unescaped(value: &str) -> String {
    let mut result = String::with_capacity(value.len());
    let mut chars = value.chars().peekable();
    while let Some(char) = chars.next() {
        let replacement = match (char, chars.peek()) {
            ('\\', Some('n')) => Some('\n'),
            ('\\', Some('r')) => Some('\r'),
            ('\\', Some('"')) => Some('"'),
            ('\\', Some('\\')) => Some('\\'),
            (_, _) => None,
        };
        if replacement.is_some() {
            chars.next();
        }
        result.push(replacement.unwrap_or(char));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        parse(text).into_iter().map(|found| (found.name, found.value)).collect()
    }

    #[test]
    fn each_form_of_line_is_read() {
        for (line, name, value) in [
            ("A=b", "A", "b"),
            ("  A = b  ", "A", "b"),
            ("export A=b", "A", "b"),
            ("exportA=b", "exportA", "b"),
            ("A=", "A", ""),
            ("A: b", "A", "b"),
            ("A=b # comment", "A", "b"),
            ("A=b#c", "A", "b"),
            ("A='b # c' # d", "A", "b # c"),
            ("A=\"b\\nc\"", "A", "b\nc"),
            ("A=\"b \\\"c\\\" \\\\\"", "A", "b \"c\" \\"),
            ("A=\"C:\\temp\"", "A", "C:\\temp"),
            ("A='b\\nc'", "A", "b\\nc"),
            ("A=`it's`", "A", "it's"),
            ("A=\"open", "A", "\"open"),
            ("A=b c", "A", "b c"),
            ("A=b=c", "A", "b=c"),
            ("a.b-c=d\r", "a.b-c", "d"),
            ("A=\"b\"\r", "A", "b"),
        ] {
            assert_eq!(pairs(line), [(name.to_owned(), value.to_owned())], "{line}");
        }
    }

    #[test]
    fn lines_that_assign_nothing_are_skipped() {
        assert_eq!(pairs("\n# A=b\nwords\n=c\n   \nA:b\n-"), []);
    }

    #[test]
    fn a_quoted_value_may_span_lines_and_the_next_line_is_still_found() {
        let found = parse("\u{feff}A=\"one\ntwo\" # x\r\nB=3\nA=4\n");
        let wanted = [("B", "3", 3), ("A", "4", 4)];
        assert_eq!(found.len(), 2);
        for (found, (name, value, line)) in found.iter().zip(wanted) {
            assert_eq!((found.name.as_str(), found.value.as_str(), found.line), (name, value, line));
        }
        assert_eq!(pairs("A='one\ntwo'\nB=3"), [("A".into(), "one\ntwo".into()), ("B".into(), "3".into())]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[A-B=\"'`#\\\\: \n\r\u{e9}]{0,60}") {
            parse(&text);
        }
    }
}
