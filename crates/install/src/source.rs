//! Parses an install source from what the user typed.

use std::path::{Path, PathBuf};

/// Prefixes of git repository URLs.
const GIT_PREFIXES: &[&str] =
    &["http://", "https://", "git@", "ssh://", "sso://", "github:", "gitlab:", "file://"];

const ARCHIVE_ENDINGS: &[&str] = &[".skill", ".zip", ".tar.gz", ".tgz"];

/// An install source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A folder on this machine.
    Folder(PathBuf),
    /// A zip or tar.gz file on this machine.
    Archive(PathBuf),
    /// An address that git understands.
    Git(String),
    /// `owner/repo`.
    GitHub(GitHubRepo),
}

/// A repository on GitHub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitHubRepo {
    pub owner: String,
    pub repo: String,
}

/// Why a text names no source.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SourceError {
    // Upstream's text.
    #[error("Install source not found.")]
    NotFound { path: PathBuf },
    #[error("`{}` is neither a folder nor an archive ({})", path.display(), ARCHIVE_ENDINGS.join(", "))]
    NotInstallable { path: PathBuf },
    #[error("`{}` is not a repository URL", text.escape_debug())]
    BadAddress { text: String },
}

impl GitHubRepo {
    /// Where it is cloned from.
    pub fn url(&self) -> String {
        format!("https://github.com/{}/{}.git", self.owner, self.repo)
    }
}

impl Source {
    /// Parses a source. Reads the disk; an existing file or folder takes precedence over `owner/repo`.
    pub fn parse(text: &str, cwd: &Path) -> Result<Self, SourceError> {
        let text = text.trim();
        if GIT_PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
            return git_address(text).ok_or_else(|| SourceError::BadAddress { text: text.to_owned() });
        }
        // Without the `.` of `./name`.
        let path: PathBuf = cwd.join(text).components().collect();
        match std::fs::metadata(&path) {
            Ok(meta) if meta.is_dir() => Ok(Self::Folder(path)),
            Ok(_) if is_archive(text) => Ok(Self::Archive(path)),
            Ok(_) => Err(SourceError::NotInstallable { path }),
            Err(_) => short_form(text).map(Self::GitHub).ok_or(SourceError::NotFound { path }),
        }
    }
}

/// The repository that an address on GitHub names, in any of its forms, or a bare `owner/repo`.
pub fn github_repo(text: &str) -> Option<GitHubRepo> {
    const HOSTS: &[&str] = &[
        "https://github.com/",
        "http://github.com/",
        "https://www.github.com/",
        "git@github.com:",
        "ssh://git@github.com/",
        "github:",
    ];
    let path = HOSTS.iter().find_map(|host| text.strip_prefix(host)).unwrap_or(text);
    let path = path.trim_end_matches('/');
    short_form(path.strip_suffix(".git").unwrap_or(path))
}

fn short_form(text: &str) -> Option<GitHubRepo> {
    let (owner, repo) = text.split_once('/')?;
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(['.', '-'])
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    (is_name(owner) && is_name(repo)).then(|| GitHubRepo { owner: owner.to_owned(), repo: repo.to_owned() })
}

/// The URL without the short forms that git does not support.
fn git_address(text: &str) -> Option<Source> {
    let clean = !text.chars().any(|c| c.is_control() || c.is_whitespace());
    let expanded = match text.split_once(':') {
        Some(("github", path)) => short_form(path)?.url(),
        Some(("gitlab", path)) => format!("https://gitlab.com/{}.git", path.trim_end_matches(".git")),
        _ => text.to_owned(),
    };
    // `ssh://-oProxyCommand=…` would be an option to ssh.
    let host = expanded.split_once("://").map_or(expanded.as_str(), |(_, rest)| rest);
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    (clean && !host.is_empty() && !host.starts_with('-')).then_some(Source::Git(expanded))
}

fn is_archive(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    ARCHIVE_ENDINGS.iter().any(|ending| lower.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_source_text_is_classified() {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path();
        fs::create_dir_all(cwd.join("mine/here")).unwrap();
        for file in ["a.SKILL", "b.tar.gz", "c.txt"] {
            fs::File::create(cwd.join(file)).unwrap();
        }
        let git = |text: &str| Ok(Source::Git(text.to_owned()));
        let repo = |owner: &str, repo: &str| GitHubRepo { owner: owner.into(), repo: repo.into() };
        let cases = [
            ("mine/here", Ok(Source::Folder(cwd.join("mine/here")))),
            ("a.SKILL", Ok(Source::Archive(cwd.join("a.SKILL")))),
            ("b.tar.gz", Ok(Source::Archive(cwd.join("b.tar.gz")))),
            ("c.txt", Err(SourceError::NotInstallable { path: cwd.join("c.txt") })),
            ("some/where", Ok(Source::GitHub(repo("some", "where")))),
            ("./some/where", Err(SourceError::NotFound { path: cwd.join("./some/where") })),
            ("missing", Err(SourceError::NotFound { path: cwd.join("missing") })),
            ("https://example.com/x", git("https://example.com/x")),
            ("git@example.com:x/y.git", git("git@example.com:x/y.git")),
            ("github:o/r", git("https://github.com/o/r.git")),
            ("gitlab:o/p/r", git("https://gitlab.com/o/p/r.git")),
        ];
        for (text, wanted) in cases {
            assert_eq!(Source::parse(text, cwd), wanted, "{text}");
        }
    }

    #[test]
    fn addresses_that_are_options_or_hold_control_characters_are_refused() {
        for text in [
            "ssh://-oProxyCommand=x/y",
            "ssh://u@-oX/y",
            "https://a b",
            "https://x\u{1b}[2J",
            "https://",
            "github:../x",
        ] {
            assert!(
                matches!(Source::parse(text, Path::new("/")), Err(SourceError::BadAddress { .. })),
                "{text}"
            );
        }
    }

    #[test]
    fn repositories_on_github_are_recognised() {
        let wanted = Some(GitHubRepo { owner: "o".into(), repo: "r.x".into() });
        for text in [
            "o/r.x",
            "github:o/r.x",
            "https://github.com/o/r.x",
            "https://github.com/o/r.x.git",
            "https://github.com/o/r.x/",
            "git@github.com:o/r.x.git",
        ] {
            assert_eq!(github_repo(text), wanted, "{text}");
        }
        for text in ["https://example.com/o/r", "o", "o/r/s", "../r", "https://github.com/o"] {
            assert_eq!(github_repo(text), None, "{text}");
        }
    }
}
