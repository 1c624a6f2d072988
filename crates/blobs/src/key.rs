//! Names of objects.

use std::fmt;

/// Stores take 1,024 bytes; the rest is left to the prefix of the store's URL.
const MAX_KEY: usize = 800;
/// Limit of one segment: file systems take 255 bytes, and side files add a suffix.
const MAX_SEGMENT: usize = 220;

/// A checked object name: segments of `[A-Za-z0-9._-]` separated by `/`; none is `.` or `..`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

/// What listed keys begin with: nothing, or a key that may end in `/` or in the middle of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(String);

/// Why a text is not a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid object name `{}`: {why}", given.escape_debug())]
pub struct BadKey {
    given: String,
    why: &'static str,
}

impl Key {
    /// Checks a name.
    pub fn parse(text: &str) -> Result<Self, BadKey> {
        check(text)?;
        Ok(Self(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Prefix {
    /// Matches every key.
    pub fn all() -> Self {
        Self(String::new())
    }

    /// Checks a prefix.
    pub fn parse(text: &str) -> Result<Self, BadKey> {
        if !text.is_empty() {
            check(text.strip_suffix('/').unwrap_or(text))?;
        }
        Ok(Self(text.to_owned()))
    }

    /// The prefix.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn check(text: &str) -> Result<(), BadKey> {
    let bad = |why| Err(BadKey { given: text.chars().take(100).collect(), why });
    if text.is_empty() || text.len() > MAX_KEY {
        return bad("it is empty or too long");
    }
    for segment in text.split('/') {
        if segment.is_empty() || segment.len() > MAX_SEGMENT {
            return bad("a segment is empty or too long");
        }
        if matches!(segment, "." | "..") {
            return bad("a segment is `.` or `..`");
        }
        if !segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
            return bad("only letters, digits, `.`, `_`, `-` and `/` are allowed");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_plain_segments_without_dot_dot() {
        let long = "a".repeat(MAX_SEGMENT);
        for good in ["a", "tasks/1/metadata.tar.gz", ".a/..b/c..", "-/_", long.as_str()] {
            assert_eq!(Key::parse(good).unwrap().as_str(), good);
        }
        let long = "a".repeat(MAX_SEGMENT + 1);
        let deep = "a/".repeat(MAX_KEY);
        for bad in [
            "", "/", "/a", "a/", "a//b", "..", "a/../b", "./a", "a b", "a\\b", "é", "a+b", "a\0", &long,
            &deep,
        ] {
            assert!(Key::parse(bad).is_err(), "{bad:?}");
        }
        let error = Key::parse("a\u{1b}[2J").unwrap_err().to_string();
        assert!(!error.contains('\u{1b}'), "{error}");
    }

    #[test]
    fn a_prefix_may_be_empty_or_end_anywhere_in_a_key() {
        for good in ["", "a", "a/", "a/b", "tasks/1/ev"] {
            assert_eq!(Prefix::parse(good).unwrap().as_str(), good);
        }
        for bad in ["/", "a//", "../", "a/..", "a b"] {
            assert!(Prefix::parse(bad).is_err(), "{bad:?}");
        }
    }
}
