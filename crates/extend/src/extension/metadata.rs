//! The installation source and the identity of an extension.

use std::path::Path;

use pollux_config::files;
use pollux_config::paths::sha256_hex;
use pollux_domain::JsonObject;
use serde_json::Value;

/// The file that remembers it, in the extension's folder.
pub const METADATA: &str = ".gemini-extension-install.json";

/// How an extension was installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    pub source: String,
    pub kind: Kind,
    pub release_tag: Option<String>,
    /// The requested branch, tag or commit.
    pub reference: Option<String>,
    pub auto_update: Option<bool>,
    pub allow_pre_release: Option<bool>,
    /// Other keys in the file.
    other: JsonObject,
}

/// The kinds of sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Git,
    GithubRelease,
    Local,
    /// Used in place.
    Link,
}

impl Kind {
    /// The name in files and messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Git => "git",
            Self::GithubRelease => "github-release",
            Self::Local => "local",
            Self::Link => "link",
        }
    }

    /// Whether it came over a network.
    pub fn is_remote(self) -> bool {
        matches!(self, Self::Git | Self::GithubRelease)
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Git, Self::GithubRelease, Self::Local, Self::Link].into_iter().find(|kind| kind.word() == word)
    }
}

const KNOWN: [&str; 6] = ["source", "type", "releaseTag", "ref", "autoUpdate", "allowPreRelease"];

impl Metadata {
    pub fn new(source: impl Into<String>, kind: Kind) -> Self {
        Self {
            source: source.into(),
            kind,
            release_tag: None,
            reference: None,
            auto_update: None,
            allow_pre_release: None,
            other: JsonObject::new(),
        }
    }

    /// The metadata of a folder; `None` if missing or invalid.
    pub fn read(folder: &Path) -> Option<Self> {
        let text = files::read_text(&folder.join(METADATA)).ok()??;
        let Ok(Value::Object(mut object)) = serde_json::from_str(&text) else { return None };
        let text = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
        let flag = |key: &str| object.get(key).and_then(Value::as_bool);
        let mut found = Self {
            release_tag: text("releaseTag"),
            reference: text("ref"),
            auto_update: flag("autoUpdate"),
            allow_pre_release: flag("allowPreRelease"),
            ..Self::new(text("source")?, Kind::parse(&text("type")?)?)
        };
        object.retain(|key, _| !KNOWN.contains(&key.as_str()));
        found.other = object;
        Some(found)
    }

    /// As it is written to its file.
    pub fn to_json(&self) -> JsonObject {
        let text = |value: &Option<String>| value.clone().map(Value::from);
        let pairs = [
            ("source", Some(Value::from(self.source.as_str()))),
            ("type", Some(Value::from(self.kind.word()))),
            ("ref", text(&self.reference)),
            ("autoUpdate", self.auto_update.map(Value::from)),
            ("allowPreRelease", self.allow_pre_release.map(Value::from)),
            ("releaseTag", text(&self.release_tag)),
        ];
        let known = pairs.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        known.chain(self.other.clone()).collect()
    }
}

/// An extension's id, derived from its source or else from its name, as in upstream.
pub fn id(name: &str, metadata: Option<&Metadata>) -> String {
    let of = match metadata {
        None => name.to_owned(),
        Some(metadata) => match github_repository(&metadata.source).filter(|_| metadata.kind.is_remote()) {
            Some((owner, repository)) => format!("https://github.com/{owner}/{repository}"),
            None => metadata.source.clone(),
        },
    };
    sha256_hex(of.as_bytes())
}

/// Owner and repository of a source on GitHub: `owner/repo`, an address, or `git@github.com:owner/repo`.
pub fn github_repository(source: &str) -> Option<(String, String)> {
    let path = if let Some(rest) = source.strip_prefix("git@") {
        rest.strip_prefix("github.com:")?
    } else if let Some((scheme, rest)) = source.split_once("://") {
        let (host, path) = rest.split_once('/')?;
        let host = host.rsplit('@').next().unwrap_or(host);
        let web = ["http", "https", "ssh", "git"].contains(&scheme.to_ascii_lowercase().as_str());
        (web && host.eq_ignore_ascii_case("github.com")).then_some(path)?
    } else if source.contains(':') || source.starts_with(['.', '/', '~']) {
        return None;
    } else {
        source
    };
    let path = path.split(['?', '#']).next().unwrap_or(path);
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let (owner, repository) = (parts.next()?, parts.next()?.replacen(".git", "", 1));
    let plain = |part: &str| {
        part != ".."
            && !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    (parts.next().is_none() && plain(owner) && plain(&repository)).then(|| (owner.to_owned(), repository))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn github_sources_are_normalised() {
        let wanted = Some(("o-1".to_owned(), "r.x".to_owned()));
        for source in [
            "o-1/r.x",
            "https://github.com/o-1/r.x",
            "https://github.com/o-1/r.x.git",
            "https://me@github.com/o-1/r.x/",
            "git@github.com:o-1/r.x.git",
            "ssh://git@github.com/o-1/r.x",
        ] {
            assert_eq!(github_repository(source), wanted, "{source}");
        }
        for source in [
            "https://gitlab.com/o/r",
            "git@gitlab.com:o/r",
            "github:o/r",
            "https://github.com/o",
            "https://github.com/o/r/tree/main",
            "https://github.com/../r",
            "./o/r",
            "https://github.com.evil.example/o/r",
        ] {
            assert_eq!(github_repository(source), None, "{source}");
        }
    }

    #[test]
    fn the_id_is_derived_from_the_repository_or_the_name() {
        let address = "https://github.com/o/r";
        let git = Metadata::new("git@github.com:o/r.git", Kind::Git);
        assert_eq!(id("x", Some(&git)), sha256_hex(address.as_bytes()));
        let local = Metadata::new("/src/o/r", Kind::Local);
        assert_eq!(id("x", Some(&local)), sha256_hex(b"/src/o/r"));
        assert_eq!(id("x", None), sha256_hex(b"x"));
    }

    #[test]
    fn metadata_survive_a_round_trip_with_what_others_added() {
        let dir = tempfile::tempdir().unwrap();
        let text =
            r#"{"source":"o/r","type":"github-release","releaseTag":"v1","autoUpdate":true,"later":[1]}"#;
        files::replace(&dir.path().join(METADATA), text.as_bytes(), files::Mode::Shared).unwrap();
        let read = Metadata::read(dir.path()).unwrap();
        assert_eq!((read.kind, read.release_tag.as_deref()), (Kind::GithubRelease, Some("v1")));
        let again: Value = serde_json::from_str(text).unwrap();
        assert_eq!(Value::Object(read.to_json()), again);
    }
}
