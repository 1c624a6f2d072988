//! Parses a command prompt into text, `@{path}`, `!{command}` and `{{args}}`.

use super::quoting;

const ARGS: &str = "{{args}}";

/// A part of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Words(String),
    /// A file or a folder of the workspace; `written` is used when it cannot be read.
    File {
        path: String,
        written: String,
    },
    /// A command; never empty.
    Shell(String),
}

/// Why a prompt cannot be filled in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Upstream's words.
    #[error(
        "Invalid syntax in command '{command}': Unclosed injection starting at index {index} ('{sign}'). Ensure braces \
         are balanced. Paths or commands with unbalanced braces are not supported directly."
    )]
    Unclosed { command: String, index: usize, sign: &'static str },
    #[error(
        "the arguments of '{command}' cannot be inserted safely at {{{{args}}}} in `{shell}`; remove the quotes around {{{{args}}}}, because arguments are quoted automatically"
    )]
    Unquotable { command: String, shell: String },
}

/// A parsed prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    command: String,
    pieces: Vec<Piece>,
    /// Whether the prompt has a placeholder for the arguments.
    takes_args: bool,
}

/// Parses a prompt, once. The first sign wins: nothing inside its braces is parsed as another one.
pub fn parse(command: &str, prompt: &str) -> Result<Template, TemplateError> {
    let mut pieces = Vec::new();
    let mut words = String::new();
    let mut rest = prompt;
    let mut index = 0;
    while let Some(first) = rest.chars().next() {
        let sign = if rest.starts_with("@{") {
            "@{"
        } else if rest.starts_with("!{") {
            "!{"
        } else {
            words.push(first);
            rest = rest.strip_prefix(first).unwrap_or_default();
            index += 1;
            continue;
        };
        let Some((content, length)) = braces(rest.strip_prefix(sign).unwrap_or_default()) else {
            return Err(TemplateError::Unclosed { command: command.to_owned(), index, sign });
        };
        if !words.is_empty() {
            pieces.push(Piece::Words(std::mem::take(&mut words)));
        }
        let whole = sign.len() + length;
        let written = rest.get(..whole).unwrap_or_default();
        let inside = content.trim().to_owned();
        match sign {
            "@{" => pieces.push(Piece::File { path: inside, written: written.to_owned() }),
            _ if inside.is_empty() => {}
            _ => pieces.push(Piece::Shell(inside)),
        }
        index += written.chars().count();
        rest = rest.get(whole..).unwrap_or_default();
    }
    if !words.is_empty() {
        pieces.push(Piece::Words(words));
    }
    Ok(Template { command: command.to_owned(), pieces, takes_args: prompt.contains(ARGS) })
}

/// The text before the closing brace, and its length including the brace.
fn braces(text: &str) -> Option<(&str, usize)> {
    let mut open = 1usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => open += 1,
            b'}' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return Some((text.get(..at)?, at + 1));
        }
    }
    None
}

impl Template {
    /// The pieces with the arguments inserted: as typed in text, as one shell word in commands. `typed` is the
    /// complete line, which is appended to a prompt without a placeholder.
    pub fn filled(self, args: &str, typed: &str) -> Result<Vec<Piece>, TemplateError> {
        let Self { command, pieces, takes_args } = self;
        let mut filled = Vec::with_capacity(pieces.len() + 1);
        for piece in pieces {
            filled.push(match piece {
                Piece::Words(words) => Piece::Words(words.replace(ARGS, args)),
                // The path comes from the author; typed arguments select no file.
                Piece::File { path, written } => Piece::File { path, written: written.replace(ARGS, args) },
                Piece::Shell(shell) => match quoting::insert(&shell, ARGS, args) {
                    Some(shell) => Piece::Shell(shell),
                    None => return Err(TemplateError::Unquotable { command, shell }),
                },
            });
        }
        if !takes_args && !args.is_empty() {
            let tail = format!("\n\n{typed}");
            match filled.last_mut() {
                Some(Piece::Words(words)) => words.push_str(&tail),
                _ => filled.push(Piece::Words(tail)),
            }
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Piece {
        Piece::Words(text.into())
    }

    fn file(path: &str, written: &str) -> Piece {
        Piece::File { path: path.into(), written: written.into() }
    }

    fn shell(text: &str) -> Piece {
        Piece::Shell(text.into())
    }

    fn filled(prompt: &str, args: &str) -> Vec<Piece> {
        parse("n", prompt).unwrap().filled(args, &format!("/n {args}")).unwrap()
    }

    #[test]
    fn a_prompt_is_parsed_at_balanced_braces() {
        for (prompt, expected) in [
            ("just words {x}", vec![words("just words {x}")]),
            ("a @{ b.md } c", vec![words("a "), file("b.md", "@{ b.md }"), words(" c")]),
            ("!{echo {a,b}}!", vec![shell("echo {a,b}"), words("!")]),
            ("x!{  }y", vec![words("x"), words("y")]),
            ("!{git log @{u}..}", vec![shell("git log @{u}..")]),
            ("@{a !{touch b}}", vec![file("a !{touch b}", "@{a !{touch b}}")]),
            ("é@{f}", vec![words("é"), file("f", "@{f}")]),
        ] {
            assert_eq!(filled(prompt, ""), expected, "{prompt}");
        }
    }

    #[test]
    fn an_unclosed_brace_is_reported_with_its_position() {
        let error = parse("git:fix", "ünd !{echo {x}").unwrap_err().to_string();
        assert_eq!(
            error,
            "Invalid syntax in command 'git:fix': Unclosed injection starting at index 4 ('!{'). Ensure braces are \
             balanced. Paths or commands with unbalanced braces are not supported directly."
        );
        assert!(parse("n", "@{a").unwrap_err().to_string().contains("index 0 ('@{')"));
    }

    #[test]
    fn arguments_are_inserted_once_and_not_reparsed() {
        assert_eq!(filled("on {{args}}: {{args}}", "a b"), [words("on a b: a b")]);
        assert_eq!(filled("{{args}}", "!{rm x} @{y}"), [words("!{rm x} @{y}")]);
        assert_eq!(
            filled("!{show {{args}}} {{args}}", "a; rm b"),
            [shell("show 'a; rm b'"), words(" a; rm b")]
        );
        assert_eq!(filled("!{show {{args}}}", ""), [shell("show ")]);
        assert_eq!(filled("@{docs/{{args}}}", "x"), [file("docs/{{args}}", "@{docs/x}")]);
    }

    #[test]
    fn without_an_args_placeholder_the_line_is_appended_to_the_prompt() {
        assert_eq!(filled("noargs prompt", "one two"), [words("noargs prompt\n\n/n one two")]);
        assert_eq!(filled("p", ""), [words("p")]);
        assert_eq!(filled("!{ls}", "x"), [shell("ls"), words("\n\n/n x")]);
    }
}
