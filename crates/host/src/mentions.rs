//! Finds `@path` mentions in a prompt. Does not read files.

use std::path::Path;

/// One `@path` of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// As written, with the `@`.
    pub written: String,
    /// The path, without quotes and escapes.
    pub path: String,
}

impl Mention {
    /// Whether it names a file beyond doubt: `@name` alone may mean a person or an annotation.
    pub fn names_file(&self) -> bool {
        self.written.contains(['"', '\\']) || Path::new(&self.path).extension().is_some()
    }
}

/// A piece of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Words(String),
    Mention(Mention),
}

/// Splits a prompt; the pieces as written concatenate to the prompt.
pub fn pieces(prompt: &str) -> Vec<Piece> {
    let chars: Vec<char> = prompt.chars().collect();
    let mut pieces = Vec::new();
    let mut words = String::new();
    let mut at = 0;
    while let Some(c) = chars.get(at) {
        let escaped = at > 0 && chars.get(at - 1) == Some(&'\\');
        let (path, end) =
            if *c == '@' && !escaped { read_path(&chars, at + 1) } else { (String::new(), at + 1) };
        if path.is_empty() {
            words.push(*c);
            at += 1;
            continue;
        }
        if !words.is_empty() {
            pieces.push(Piece::Words(std::mem::take(&mut words)));
        }
        let written = chars.get(at..end).unwrap_or_default().iter().collect();
        pieces.push(Piece::Mention(Mention { written, path }));
        at = end;
    }
    if !words.is_empty() {
        pieces.push(Piece::Words(words));
    }
    pieces
}

/// Reads a path from `start`; returns the path and its end.
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
            // Punctuation that ends a sentence is not part of a path.
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
            ("@a.md @a.md", &["a.md", "a.md"]),
            ("a lone @ and \\@not", &[]),
            ("mail me@example.com", &["example.com"]),
            ("@.gitignore", &[".gitignore"]),
            ("no mention", &[]),
        ];
        for (prompt, expected) in cases {
            let pieces = pieces(prompt);
            let mut whole = String::new();
            let mut found = Vec::new();
            for piece in pieces {
                match piece {
                    Piece::Words(words) => whole.push_str(&words),
                    Piece::Mention(mention) => {
                        whole.push_str(&mention.written);
                        found.push(mention.path);
                    }
                }
            }
            assert_eq!(found, expected, "{prompt}");
            assert_eq!(whole, prompt);
        }
    }
}
