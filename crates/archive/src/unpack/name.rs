//! Whether the name of an entry stays inside the folder.

use std::path::PathBuf;

use super::Refusal;

const MAX_NAME: usize = 1024;

/// The path an entry names, relative to the folder; empty for the folder itself.
pub(crate) fn safe_path(entry: &[u8]) -> Result<PathBuf, Refusal> {
    let text = std::str::from_utf8(entry).map_err(|_| Refusal::NotUtf8)?;
    if text.is_empty() || text.len() > MAX_NAME {
        return Err(Refusal::Length);
    }
    if text.chars().any(char::is_control) {
        return Err(Refusal::ControlCharacters);
    }
    let drive =
        text.chars().next().is_some_and(|c| c.is_ascii_alphabetic()) && text.chars().nth(1) == Some(':');
    if text.starts_with(['/', '\\']) || drive {
        return Err(Refusal::Absolute);
    }
    if text.split(['/', '\\']).any(|part| part == "..") {
        return Err(Refusal::Traversal);
    }
    if text.contains('\\') {
        return Err(Refusal::Backslash);
    }
    Ok(text.split('/').filter(|part| !matches!(*part, "" | ".")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_stay_inside_are_taken() {
        let good = [
            ("a", "a"),
            ("./a/b.md", "a/b.md"),
            ("a//b/", "a/b"),
            ("./", ""),
            ("a..b/..c", "a..b/..c"),
            ("ä", "ä"),
        ];
        for (name, wanted) in good {
            assert_eq!(safe_path(name.as_bytes()), Ok(PathBuf::from(wanted)), "{name}");
        }
        let bad: [(&[u8], Refusal); 10] = [
            (b"../a", Refusal::Traversal),
            (b"a/../../b", Refusal::Traversal),
            (b"a\\..\\b", Refusal::Traversal),
            (b"/etc/passwd", Refusal::Absolute),
            (b"C:\\x", Refusal::Absolute),
            (b"\\\\host\\x", Refusal::Absolute),
            (b"a\\b", Refusal::Backslash),
            (b"a\x1b[2Jb", Refusal::ControlCharacters),
            (b"a\xff", Refusal::NotUtf8),
            (b"", Refusal::Length),
        ];
        for (name, wanted) in bad {
            assert_eq!(safe_path(name), Err(wanted), "{name:?}");
        }
        assert_eq!(safe_path(&[b'a'; MAX_NAME + 1]), Err(Refusal::Length));
    }
}
