//! Prepares a hook's command for the shell.

/// The command with every reference to one of these variables quoted, so that a folder with spaces in its
/// name stays one word. The values come through the environment: nothing is ever pasted into the command,
/// whatever a folder is called.
///
/// `also_in_single_quotes` are variables that upstream fills in even there.
pub(crate) fn quoted(command: &str, variables: &[&str], also_in_single_quotes: &[&str]) -> String {
    let mut result = String::with_capacity(command.len() + 16);
    let mut quotes = Quotes::None;
    let mut rest = command;
    while let Some(c) = rest.chars().next() {
        if c == '$'
            && let Some((name, length)) = reference(rest)
        {
            let everywhere = also_in_single_quotes.contains(&name);
            let known = everywhere || variables.contains(&name);
            let quoted = match quotes {
                Quotes::None if known => Some(format!("\"${{{name}}}\"")),
                Quotes::Single if everywhere => Some(format!("'\"${{{name}}}\"'")),
                Quotes::None | Quotes::Single | Quotes::Double => None,
            };
            if let Some(quoted) = quoted {
                result.push_str(&quoted);
                rest = rest.get(length..).unwrap_or_default();
                continue;
            }
        }
        let mut taken = c.len_utf8();
        match (quotes, c) {
            (Quotes::None, '\'') => quotes = Quotes::Single,
            (Quotes::None, '"') => quotes = Quotes::Double,
            (Quotes::Single, '\'') | (Quotes::Double, '"') => quotes = Quotes::None,
            // The rest has no special meaning.
            (Quotes::None | Quotes::Double, '\\') => {
                taken += rest.chars().nth(1).map_or(0, char::len_utf8);
            }
            _ => {}
        }
        result.push_str(rest.get(..taken).unwrap_or_default());
        rest = rest.get(taken..).unwrap_or_default();
    }
    result
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    None,
    Single,
    Double,
}

/// The name in a `$NAME` or `${NAME}` at the start of a text, and its total length.
fn reference(text: &str) -> Option<(&str, usize)> {
    let after = text.strip_prefix('$')?;
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if let Some(inner) = after.strip_prefix('{') {
        let name = inner.get(..inner.find('}')?)?;
        return name.chars().all(is_word).then_some((name, name.len() + 3));
    }
    let length = after.find(|c: char| !is_word(c)).unwrap_or(after.len());
    Some((after.get(..length)?, length + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_quoted_where_the_shell_would_split_them() {
        let table = [
            ("$DIR/x.sh a", "\"${DIR}\"/x.sh a"),
            ("${DIR}/x.sh", "\"${DIR}\"/x.sh"),
            ("\"$DIR/x.sh\"", "\"$DIR/x.sh\""),
            ("echo '$DIR' $DIR", "echo '$DIR' \"${DIR}\""),
            ("echo \\$DIR $DIRS $OTHER", "echo \\$DIR $DIRS $OTHER"),
            ("echo \"it's\" $DIR", "echo \"it's\" \"${DIR}\""),
            ("node '${ext}/x.js' ${ext}", "node ''\"${ext}\"'/x.js' \"${ext}\""),
            ("${", "${"),
            ("$", "$"),
            ("a\\", "a\\"),
            ("${é}", "${é}"),
        ];
        for (command, expected) in table {
            assert_eq!(quoted(command, &["DIR"], &["ext"]), expected, "{command}");
        }
    }
}
