//! Resolves a path written by the model to a real path.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use pollux_domain::closed_names::closed_part;
use pollux_domain::percent;

use super::PathRefusal;

/// How many links may be followed; the kernel's own limit.
const MAX_LINKS: usize = 40;
/// No system opens a longer path.
const MAX_BYTES: usize = 4096;
/// Upstream's length of a path in a title.
const TITLE_CHARS: usize = 35;

/// An absolute path from the model's text; symlinks are not resolved yet.
pub(super) fn from_model(root: &Path, given: &str) -> Result<PathBuf, PathRefusal> {
    if given.trim().is_empty() {
        return Err(PathRefusal::Invalid("Path is empty.".to_owned()));
    }
    if given.contains(['\n', '\r', '\t', '\0']) {
        return Err(PathRefusal::Invalid(
            "Path contains invalid characters (newlines or control characters).".to_owned(),
        ));
    }
    if given.len() > MAX_BYTES {
        return Err(PathRefusal::Invalid("Path is too long.".to_owned()));
    }
    let text = match given.strip_prefix("file://") {
        Some(rest) => String::from_utf8_lossy(&percent::decode(rest)).into_owned(),
        None => without_mention(root, given),
    };
    if text.contains('\0') {
        return Err(PathRefusal::Invalid(
            "Path contains invalid characters (newlines or control characters).".to_owned(),
        ));
    }
    Ok(absolute(root, Path::new(&text)))
}

/// Takes the `@` of a mention away, unless something is really called that.
fn without_mention(root: &Path, given: &str) -> String {
    let Some(rest) = given.strip_prefix('@') else { return given.to_owned() };
    let first = given.split('/').next().unwrap_or(given);
    let exists = |name: &str| root.join(name).symlink_metadata().is_ok();
    if exists(given) || (first.len() > 1 && exists(first)) {
        return given.to_owned();
    }
    rest.trim_start_matches('/').to_owned()
}

/// Joins and takes out `.` and `..`.
pub(super) fn absolute(root: &Path, path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for part in root.join(path).components() {
        match part {
            Component::ParentDir => {
                result.pop();
            }
            Component::CurDir => {}
            other => result.push(other),
        }
    }
    result
}

/// Resolves symlinks also where the end of the path does not exist, and behind dangling links.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    let mut current = path.to_owned();
    // Names below the existing part; the next one is last.
    let mut missing: Vec<OsString> = Vec::new();
    let mut links = 0;
    'resolve: loop {
        let mut real = match std::fs::canonicalize(&current) {
            Ok(real) => real,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                let Some(name) = current.file_name().map(OsStr::to_owned) else { return Err(error) };
                missing.push(name);
                current.pop();
                continue;
            }
            Err(error) => return Err(error),
        };
        while let Some(name) = missing.pop() {
            let next = real.join(name);
            if let Ok(target) = std::fs::read_link(&next) {
                links += 1;
                if links > MAX_LINKS {
                    return Err(io::Error::from_raw_os_error(libc::ELOOP));
                }
                current = absolute(&real, &target);
                continue 'resolve;
            }
            real = next;
        }
        return Ok(real);
    }
}

/// Whether a path below a workspace directory passes through something that stays closed.
pub(super) fn blocked_below(below: &Path) -> bool {
    closed_part(below).is_some()
}

/// A path in at most 35 characters: its middle is left out.
pub(crate) fn short_path(path: &str) -> String {
    if path.chars().count() <= TITLE_CHARS {
        return path.to_owned();
    }
    let parts: Vec<&str> = path.split('/').collect();
    let first = if path.starts_with('/') {
        parts.iter().take(2).copied().collect::<Vec<_>>()
    } else {
        vec![parts[0]]
    };
    let start = first.join("/");
    let mut end = String::new();
    for part in parts.iter().skip(first.len()).rev() {
        let longer = if end.is_empty() { (*part).to_owned() } else { format!("{part}/{end}") };
        if start.chars().count() + "/.../".len() + longer.chars().count() > TITLE_CHARS {
            break;
        }
        end = longer;
    }
    if end.is_empty() {
        let keep = (TITLE_CHARS - 3) / 2;
        let chars: Vec<char> = path.chars().collect();
        let head: String = chars.iter().take(keep).collect();
        let tail: String = chars.iter().skip(chars.len() - keep).collect();
        return format!("{head}...{tail}");
    }
    format!("{start}/.../{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protected_names_are_recognised_in_every_spelling() {
        for name in [
            ".git",
            ".GIT",
            ".env",
            ".env.",
            ".env ",
            ".git::$INDEX",
            "Node_Modules",
            "gha-creds-1.json",
            "GIT~1",
            ".g\u{200c}it",
            "\u{feff}.env",
            "node_moduleſ",
        ] {
            assert!(blocked_below(Path::new(name)), "{name}");
        }
        for name in [".gitignore", ".env.example", "git", "node_modules2", "a~1"] {
            assert!(!blocked_below(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn long_paths_lose_their_middle() {
        assert_eq!(short_path("src/main.rs"), "src/main.rs");
        let long = short_path("packages/core/src/services/environment/handler.rs");
        assert_eq!(long, "packages/.../environment/handler.rs");
        assert!(short_path(&"x".repeat(90)).chars().count() <= TITLE_CHARS);
        assert!(short_path(&format!("/{}", "ä".repeat(90))).chars().count() <= TITLE_CHARS);
    }

    #[test]
    fn file_addresses_are_decoded_and_plain_names_are_not() {
        let root = Path::new("/w");
        let path = |given| from_model(root, given).unwrap();
        assert_eq!(path("file:///w/a%20b"), Path::new("/w/a b"));
        assert_eq!(path("a%20b"), Path::new("/w/a%20b"));
        assert_eq!(path("file:///w/100%"), Path::new("/w/100%"));
        assert_eq!(path("@src/x"), Path::new("/w/src/x"));
        assert_eq!(path("a/../../b"), Path::new("/b"));
        assert!(from_model(root, "a\tb").is_err());
        assert!(from_model(root, " ").is_err());
        assert!(from_model(root, "file:///w/%00").is_err());
    }
}
