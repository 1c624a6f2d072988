//! Quotes typed arguments for use inside a bash command.

/// The quoting context of a position in a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Plain,
    Single,
    Double,
    /// Cannot be determined without running it.
    Unclear,
}

/// Inserts `value` at `mark`, so that bash reads it as it was typed: as one word, or as part of the quoted
/// text around it. `None` where that cannot be guaranteed.
pub(super) fn insert(command: &str, mark: &str, value: &str) -> Option<String> {
    let harmless = value.chars().all(|c| c.is_ascii_alphanumeric() || "_./-".contains(c));
    let mut result = String::with_capacity(command.len() + value.len());
    let mut rest = command;
    while let Some((before, after)) = rest.split_once(mark) {
        result.push_str(before);
        if harmless {
            result.push_str(value);
        } else {
            result.push_str(&quoted(value, place(&result))?);
        }
        rest = after;
    }
    result.push_str(rest);
    Some(result)
}

fn quoted(value: &str, place: Place) -> Option<String> {
    match place {
        // It cannot be passed to the shell.
        _ if value.contains('\0') => None,
        Place::Plain => Some(format!("'{}'", value.replace('\'', r"'\''"))),
        Place::Single => Some(value.replace('\'', r"'\''")),
        Place::Double => {
            let mut text = String::with_capacity(value.len() + 8);
            for c in value.chars() {
                if matches!(c, '"' | '\\' | '$' | '`') {
                    text.push('\\');
                }
                text.push(c);
            }
            Some(text)
        }
        Place::Unclear => None,
    }
}

/// The quoting context at the end of a piece of bash. Quotes and `$(…)` are followed; in other cases the
/// context is unclear.
fn place(command: &str) -> Place {
    // Of each level: whether its text is in double quotes.
    let mut levels = vec![false];
    let mut characters = command.chars().peekable();
    let mut before = ' ';
    while let Some(c) = characters.next() {
        let in_double = levels.last().copied().unwrap_or_default();
        match c {
            '\\' => {
                let Some(_) = characters.next() else { return Place::Unclear };
            }
            '\'' if !in_double => {
                // `$'…'` has its own escapes.
                if before == '$' {
                    return Place::Unclear;
                }
                if !characters.by_ref().any(|c| c == '\'') {
                    return Place::Single;
                }
            }
            '"' => levels.iter_mut().last().into_iter().for_each(|level| *level = !*level),
            '`' => return Place::Unclear,
            '$' if matches!(characters.peek(), Some('{' | '[')) => return Place::Unclear,
            '(' if !in_double || before == '$' => levels.push(false),
            ')' if !in_double && levels.len() > 1 => drop(levels.pop()),
            '<' if !in_double && before == '<' => return Place::Unclear,
            '#' if !in_double && (before.is_whitespace() || ";|&()".contains(before)) => {
                return Place::Unclear;
            }
            _ => {}
        }
        before = c;
    }
    // A pattern of `case` ends with a parenthesis that nothing opened.
    let words = |word: &str| command.split(|c: char| !c.is_alphanumeric()).any(|found| found == word);
    if words("case") {
        return Place::Unclear;
    }
    if levels.last().copied().unwrap_or_default() { Place::Double } else { Place::Plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str) -> String {
        let output = std::process::Command::new("bash").args(["-c", command]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[test]
    fn bash_receives_the_typed_arguments_in_every_quoting_context() {
        let typed = [
            "plain",
            "two words",
            "; echo no",
            "$(echo no)",
            "`echo no`",
            "it's",
            "say \"hi\"",
            "a\nb",
            "a\\",
            "$HOME *",
            "-n",
            "#x",
            "!x",
            "'; echo no; '",
            "\"; echo no; \"",
            "é\t|&<>(){}[]~=",
        ];
        let commands = [
            "printf '%s' {{args}}",
            "printf '%s' \"{{args}}\"",
            "printf '%s' '{{args}}'",
            "printf '%s' \"$(printf '%s' {{args}})\"",
            "printf '%s' \"$(printf '%s' \"{{args}}\")\"",
            "(printf '%s' {{args}})",
            "true \"a'b\" && printf '%s' {{args}}",
            "printf '%s' ''{{args}}\"\"",
        ];
        for command in commands {
            for value in typed {
                let whole = insert(command, "{{args}}", value).unwrap();
                assert_eq!(run(&whole), value, "{whole}");
            }
        }
    }

    #[test]
    fn in_ambiguous_contexts_only_harmless_arguments_are_accepted() {
        for command in [
            "echo `x {{args}}`",
            "cat <<END\n{{args}}\nEND",
            "ls # {{args}}",
            "echo $'{{args}}'",
            "echo ${x:-{{args}}}",
            "case x in a) echo {{args}};; esac",
            "echo $[{{args}}]",
            "echo \\{{args}}",
        ] {
            assert_eq!(insert(command, "{{args}}", "a b"), None, "{command}");
            assert!(insert(command, "{{args}}", "src/a-b_1.rs").is_some(), "{command}");
        }
        assert_eq!(insert("echo {{args}}", "{{args}}", "a\0b"), None);
        assert_eq!(insert("echo {{args}}!", "{{args}}", "").as_deref(), Some("echo !"));
    }
}
