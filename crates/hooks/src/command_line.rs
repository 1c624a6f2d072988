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
    let mut documents = Vec::new();
    while let Some(c) = rest.chars().next() {
        if quotes == Quotes::None
            && let Some(length) = without_quotes(&result, rest, &mut documents)
        {
            result.push_str(rest.get(..length).unwrap_or_default());
            rest = rest.get(length..).unwrap_or_default();
            continue;
        }
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

/// The length of what begins here and has no quotes of its own: a comment, a here-document, or `$'…'`, whose quotes end
/// elsewhere. `documents` has the here-documents that begin after this line.
fn without_quotes(before: &str, rest: &str, documents: &mut Vec<HereDocument>) -> Option<usize> {
    let begins_word =
        before.chars().next_back().is_none_or(|last| last.is_whitespace() || ";&|(".contains(last));
    if rest.starts_with('#') && begins_word {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if let Some(inner) = rest.strip_prefix("$'") {
        return Some(2 + end_of_ansi_quotes(inner));
    }
    if rest.starts_with("<<<") {
        return Some(3);
    }
    if let Some(after) = rest.strip_prefix("<<") {
        let indented = after.starts_with('-');
        let word = after.trim_start_matches('-').trim_start_matches([' ', '\t']);
        // A shift in arithmetic.
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return Some(2);
        }
        let length = word.find(|c: char| c.is_whitespace() || ";&|<>()".contains(c)).unwrap_or(word.len());
        let written = word.get(..length).unwrap_or_default();
        let end = written.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
        documents.push(HereDocument { end, indented });
        return Some(rest.len() - word.len() + length);
    }
    if !rest.starts_with('\n') || documents.is_empty() {
        return None;
    }
    let mut length = 1;
    'documents: for document in documents.drain(..) {
        for line in rest.get(length..).unwrap_or_default().split_inclusive('\n') {
            length += line.len();
            let line = line.trim_end_matches('\n');
            let line = if document.indented { line.trim_start_matches('\t') } else { line };
            if line == document.end {
                continue 'documents;
            }
        }
        return None;
    }
    Some(length)
}

/// A text in the command that ends with a line of its own.
struct HereDocument {
    end: String,
    /// Tabs in front of its end do not count.
    indented: bool,
}

/// The length of the text with its closing quote.
fn end_of_ansi_quotes(inner: &str) -> usize {
    let mut escaped = false;
    for (at, c) in inner.char_indices() {
        match c {
            _ if std::mem::take(&mut escaped) => {}
            '\\' => escaped = true,
            '\'' => return at + 1,
            _ => {}
        }
    }
    inner.len()
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
            ("# don't\n$DIR/x", "# don't\n\"${DIR}\"/x"),
            ("echo a#b'c' $DIR", "echo a#b'c' \"${DIR}\""),
            ("cat <<E\nit's $DIR\nE\n$DIR/x", "cat <<E\nit's $DIR\nE\n\"${DIR}\"/x"),
            ("cat <<-'E' | a\n\t\"\n\tE\n$DIR/x", "cat <<-'E' | a\n\t\"\n\tE\n\"${DIR}\"/x"),
            ("cat <<A <<B\n'\nA\n'\nB\n$DIR", "cat <<A <<B\n'\nA\n'\nB\n\"${DIR}\""),
            ("cat <<< \"it's\" $DIR", "cat <<< \"it's\" \"${DIR}\""),
            ("echo $'it\\'s' $DIR", "echo $'it\\'s' \"${DIR}\""),
            ("cat <<E\n$DIR", "cat <<E\n\"${DIR}\""),
            ("echo $((1 << 2))\n$DIR", "echo $((1 << 2))\n\"${DIR}\""),
        ];
        for (command, expected) in table {
            assert_eq!(quoted(command, &["DIR"], &["ext"]), expected, "{command}");
        }
    }
}
