//! `@path` in a prompt: which words name files.

/// One `@path` of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    /// As written, with the `@`.
    pub(crate) written: String,
    /// The path, without quotes and escapes.
    pub(crate) path: String,
}

/// Finds the mentions of a prompt, each once.
pub(crate) fn find(prompt: &str) -> Vec<Mention> {
    let chars: Vec<char> = prompt.chars().collect();
    let mut found: Vec<Mention> = Vec::new();
    let mut at = 0;
    while let Some(c) = chars.get(at) {
        let escaped = at > 0 && chars.get(at - 1) == Some(&'\\');
        if *c != '@' || escaped {
            at += 1;
            continue;
        }
        let (path, end) = read_path(&chars, at + 1);
        let written: String = chars.get(at..end).unwrap_or_default().iter().collect();
        if !path.is_empty() && !found.iter().any(|known| known.path == path) {
            found.push(Mention { written, path });
        }
        at = end.max(at + 1);
    }
    found
}

/// Reads a path from `start`; the path and where it ends.
fn read_path(chars: &[char], start: usize) -> (String, usize) {
    let mut path = String::new();
    let mut at = start;
    while let Some(c) = chars.get(at) {
        match c {
            '"' => {
                let Some(length) = chars.iter().skip(at + 1).position(|c| *c == '"') else { break };
                path.extend(chars.iter().skip(at + 1).take(length));
                at += length + 2;
            }
            '\\' => {
                let Some(next) = chars.get(at + 1) else { break };
                path.push(*next);
                at += 2;
            }
            // The end of a sentence is not part of a path.
            '.' if chars.get(at + 1).is_none_or(|next| next.is_whitespace()) => break,
            c if c.is_whitespace() || ",;!?()[]{}".contains(*c) => break,
            c => {
                path.push(*c);
                at += 1;
            }
        }
    }
    (path, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_end_where_a_reader_would_say_so() {
        let cases: [(&str, &[&str]); 8] = [
            ("explain @src/main.rs.", &["src/main.rs"]),
            ("see (@a.md), @b.md!", &["a.md", "b.md"]),
            ("@\"my notes.txt\" and @my\\ other.txt", &["my notes.txt", "my other.txt"]),
            ("@a.md @a.md", &["a.md"]),
            ("a lone @ and \\@not", &[]),
            ("mail me@example.com", &["example.com"]),
            ("@.gitignore", &[".gitignore"]),
            ("no mention", &[]),
        ];
        for (prompt, expected) in cases {
            let found: Vec<String> = find(prompt).into_iter().map(|mention| mention.path).collect();
            assert_eq!(found, expected, "{prompt}");
        }
    }
}
