//! Rights as text, and which of them may be granted for how long.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Component, Path, PathBuf};

use pollux_domain::sandbox::{Right, RightKind};
use pollux_domain::terminal_text;
use pollux_egress::pattern::HostPattern;
use pollux_sandbox::START_UP_FILES;

/// Trees of the system: a change there affects every program.
const SYSTEM: &[&str] =
    &["/bin", "/boot", "/etc", "/lib", "/lib64", "/sbin", "/usr", "/var/lib", "/var/spool"];
/// Folders below a home in which many programs have their files.
const SHARED: &[&str] = &[".cache", ".config", ".local/share", ".local/state", ".ssh"];
/// Not files of a disk; nothing in them is granted for writing.
const VIRTUAL: &[&str] = &["/dev", "/proc", "/run", "/sys"];

/// Why a text is not a right that can be granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RightError {
    #[error("expected KIND:TARGET with one of the kinds write, read, host, port and socket, not `{0}`")]
    Form(String),
    #[error("unknown kind `{0}` (expected write, read, host, port or socket)")]
    Kind(String),
    #[error("`{0}:` has no target")]
    Empty(&'static str),
    #[error("invalid port `{0}` (expected 1 to 65535)")]
    Port(String),
    #[error("invalid host in `{text}`: {reason}")]
    Host { text: String, reason: String },
    #[error("`{0}` is too broad: it contains the home directory")]
    Broad(String),
    #[error("`{0}` does not exist")]
    Missing(String),
    #[error("`{0}` is not a socket")]
    NoSocket(String),
    #[error("`{0}` cannot be granted: it is not a file on disk")]
    Virtual(String),
}

/// Reads `KIND:TARGET`; paths are not looked at yet.
pub fn parse_right(text: &str) -> Result<Right, RightError> {
    let (kind, target) = text.split_once(':').ok_or_else(|| RightError::Form(text.to_owned()))?;
    let kind = RightKind::ALL
        .into_iter()
        .find(|known| known.as_str() == kind)
        .ok_or_else(|| RightError::Kind(kind.to_owned()))?;
    let target = target.trim();
    if target.is_empty() {
        return Err(RightError::Empty(kind.as_str()));
    }
    match kind {
        RightKind::Host => {
            HostPattern::parse(target)
                .map_err(|error| RightError::Host { text: text.to_owned(), reason: error.to_string() })?;
        }
        RightKind::Port => {
            let number = target.parse::<u16>().ok().filter(|number| *number != 0);
            if number.is_none() || target.starts_with(['+', '0']) {
                return Err(RightError::Port(target.to_owned()));
            }
        }
        RightKind::Write | RightKind::Read | RightKind::Socket => {}
    }
    Ok(Right { kind, target: target.to_owned() })
}

/// The right with a real path that can be granted.
pub fn resolve_right(right: &Right, homes: &[PathBuf], directory: &Path) -> Result<Right, RightError> {
    if matches!(right.kind, RightKind::Host | RightKind::Port) {
        return Ok(right.clone());
    }
    let path = absolute(&right.target, homes.first().map(PathBuf::as_path), directory);
    let shown = || right.target.clone();
    let real = fs::canonicalize(&path).map_err(|_| RightError::Missing(shown()))?;
    if is_broad(&real, homes) {
        return Err(RightError::Broad(shown()));
    }
    if right.kind == RightKind::Write && VIRTUAL.iter().any(|tree| real.starts_with(tree)) {
        return Err(RightError::Virtual(shown()));
    }
    if right.kind == RightKind::Socket && !is_socket(&real) {
        return Err(RightError::NoSocket(shown()));
    }
    Ok(Right { kind: right.kind, target: real.to_string_lossy().into_owned() })
}

/// Whether a path is a home, contains one, or is the root.
pub(crate) fn is_broad(path: &Path, homes: &[PathBuf]) -> bool {
    let real = |home: &PathBuf| fs::canonicalize(home).unwrap_or_else(|_| home.clone());
    path.parent().is_none() || homes.iter().any(|home| real(home).starts_with(path) || home.starts_with(path))
}

pub(crate) fn is_socket(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
}

/// Whether nothing below it may be granted for writing.
pub(crate) fn is_virtual(path: &Path) -> bool {
    VIRTUAL.iter().any(|tree| path.starts_with(tree))
}

/// What granting a write could lead to, beyond the files themselves.
pub(crate) fn write_danger(path: &Path, homes: &[PathBuf]) -> Option<String> {
    let starts = |home: &PathBuf| START_UP_FILES.iter().any(|name| path.starts_with(home.join(name)));
    if homes.iter().any(starts) {
        return Some(format!("Programs outside the sandbox run or read {} when they start", shown(path)));
    }
    if SYSTEM.iter().any(|tree| path.starts_with(tree)) {
        return Some(format!("{} belongs to the system and affects every program", shown(path)));
    }
    None
}

/// An absolute path from a text, without looking at the disk.
pub(crate) fn absolute(text: &str, home: Option<&Path>, directory: &Path) -> PathBuf {
    let below_home = text.strip_prefix("~/").or_else(|| text.strip_prefix("$HOME/"));
    match (below_home, home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ if matches!(text, "~" | "$HOME") => home.unwrap_or(directory).to_path_buf(),
        _ => directory.join(text),
    }
}

/// The real path of something that may not exist; `None` if it cannot be known.
pub(crate) fn real(path: &Path) -> Option<PathBuf> {
    if let Ok(real) = fs::canonicalize(path) {
        return Some(real);
    }
    match path.components().next_back()? {
        Component::Normal(name) => Some(real(path.parent()?)?.join(name)),
        _ => None,
    }
}

/// A path in a sentence.
pub(crate) fn shown(path: &Path) -> String {
    terminal_text::name(&path.to_string_lossy()).into_owned()
}

/// The smallest place whose right lets a command write a path: the path itself if it exists, or else the first folder on
/// the way to it that does not, which is created with the grant. A new name in a folder needs that folder, unless other
/// programs have their files in it. `is_folder` if the command wanted to create a folder there.
pub(crate) fn smallest(path: &Path, is_folder: bool, homes: &[PathBuf]) -> Option<PathBuf> {
    let there = existing(path)?;
    if there == path {
        return Some(path.to_owned());
    }
    let missing = path.ancestors().find(|above| above.parent() == Some(there))?;
    if missing != path || is_folder {
        return Some(missing.to_owned());
    }
    let is_start_up = |home: &PathBuf| {
        let mut names = START_UP_FILES.iter().chain(SHARED).map(|name| home.join(name));
        names.any(|name| name.starts_with(there))
    };
    let real = |home: &PathBuf| fs::canonicalize(home).unwrap_or_else(|_| home.clone());
    let is_shared = homes.iter().any(|home| is_start_up(home) || is_start_up(&real(home)));
    (!is_shared).then(|| there.to_owned())
}

/// The path itself or the nearest folder above it that exists.
pub(crate) fn existing(path: &Path) -> Option<&Path> {
    path.ancestors().find(|path| path.symlink_metadata().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_read_or_refused_with_a_reason() {
        for text in
            ["write:/a", "read:~/x y", "host:a.example", "host:*.a.example:22", "port:5432", "socket:/s"]
        {
            assert_eq!(parse_right(text).unwrap().to_string(), text);
        }
        for text in [
            "",
            "write",
            "exec:/a",
            "write:",
            "port:0",
            "port:x",
            "port:70000",
            "port:080",
            "host:*",
            "host:a b",
        ] {
            let error = parse_right(text).unwrap_err().to_string();
            assert!(!error.is_empty(), "{text}: {error}");
        }
    }

    #[test]
    fn paths_are_real_and_never_broad() {
        let folder = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(folder.path()).unwrap();
        let home = base.join("home");
        fs::create_dir_all(home.join("a")).unwrap();
        std::os::unix::fs::symlink(home.join("a"), base.join("link")).unwrap();
        let homes = [home.clone()];
        let resolve = |text: &str| resolve_right(&parse_right(text).unwrap(), &homes, &base);
        assert_eq!(resolve("write:link").unwrap().target, home.join("a").to_str().unwrap());
        assert_eq!(resolve("read:~/a").unwrap().target, home.join("a").to_str().unwrap());
        for text in ["write:/", "write:~", "read:.", "write:home"] {
            assert!(matches!(resolve(text), Err(RightError::Broad(_))), "{text}");
        }
        assert!(matches!(resolve("write:gone"), Err(RightError::Missing(_))));
        assert!(matches!(resolve("socket:link"), Err(RightError::NoSocket(_))));
        assert!(matches!(resolve("write:/proc/self"), Err(RightError::Virtual(_))));
        assert!(write_danger(&home.join(".bashrc"), &homes).is_some());
        assert!(write_danger(&home.join("a"), &homes).is_none());
    }

    #[test]
    fn a_missing_path_leads_to_the_smallest_place() {
        let folder = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(folder.path()).unwrap().join("home");
        for path in ["notes", ".config", ".local/share/tool"] {
            fs::create_dir_all(home.join(path)).unwrap();
        }
        let homes = [home.clone()];
        for (path, expected) in [
            ("notes", Some("notes")),
            ("notes/new", Some("notes")),
            ("notes/a/b/c", Some("notes/a")),
            (".config/tool/settings/x", Some(".config/tool")),
            (".config/tool", None),
            (".local/share/x", None),
            (".local/share/tool/x", Some(".local/share/tool")),
            ("new", None),
            (".ssh/x", Some(".ssh")),
        ] {
            let found = smallest(&home.join(path), false, &homes);
            assert_eq!(found, expected.map(|expected| home.join(expected)), "{path}");
            let folder = smallest(&home.join(path), true, &homes).unwrap();
            assert!(folder.starts_with(expected.map_or(home.join(path), |expected| home.join(expected))));
        }
    }
}
