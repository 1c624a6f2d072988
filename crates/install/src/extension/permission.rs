//! Checks an extension's source against the security settings.

use std::path::Path;

use pollux_extend::extension::{METADATA, Metadata};

/// The security settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// `security.allowedExtensions`: patterns of sources; if there are any, only these are allowed.
    pub allowed: Vec<String>,
    /// `security.blockGitExtensions`
    pub block_remote: bool,
}

/// Why a source is not allowed. The texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    #[error("Invalid regex pattern in allowedExtensions setting: \"{pattern}\". Error: {reason}")]
    Pattern { pattern: String, reason: String },
    #[error(
        "Installing extension from source \"{source_text}\" is not allowed by the \"allowedExtensions\" security setting."
    )]
    Unlisted { source_text: String },
    #[error("Installing extensions from remote sources is disallowed by your current settings.")]
    Remote,
}

impl Sources {
    /// Whether an extension may be installed from there.
    pub fn check(&self, metadata: &Metadata) -> Result<(), NotAllowed> {
        if self.allowed.is_empty() {
            return match self.block_remote && metadata.kind.is_remote() {
                true => Err(NotAllowed::Remote),
                false => Ok(()),
            };
        }
        // A link must not pretend to have another source.
        let real = Path::new(&metadata.source).canonicalize();
        let source = real.map_or_else(|_| metadata.source.clone(), |path| path.display().to_string());
        for pattern in &self.allowed {
            let regex = regress::Regex::new(pattern).map_err(|error| NotAllowed::Pattern {
                pattern: pattern.clone(),
                reason: error.to_string(),
            })?;
            if regex.find(&source).is_some() {
                return Ok(());
            }
        }
        Err(NotAllowed::Unlisted { source_text: metadata.source.clone() })
    }

    /// Why an installed extension must not be loaded.
    pub fn refusal(&self, folder: &Path, metadata: Option<&Metadata>) -> Option<String> {
        let folder = folder.display();
        match metadata {
            None if self.allowed.is_empty() => None,
            None => Some(format!(
                "Failed to load extension {folder}. The {METADATA} file is missing or misconfigured."
            )),
            Some(metadata) => self.check(metadata).err().map(|why| match why {
                NotAllowed::Unlisted { .. } => format!(
                    "Failed to load extension {folder}. This extension is not allowed by the \"allowedExtensions\" security setting."
                ),
                NotAllowed::Remote => format!(
                    "Failed to load extension {folder}. Extensions from remote sources is disallowed by your current settings."
                ),
                NotAllowed::Pattern { .. } => format!("Failed to load extension {folder}. {why}"),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use pollux_extend::extension::Kind;

    use super::*;

    #[test]
    fn an_allow_list_overrides_the_remote_switch() {
        let git = Metadata::new("https://github.com/good/x", Kind::Git);
        let evil = Metadata::new("https://github.com/evil/x", Kind::Git);
        let local = Metadata::new("/src/x", Kind::Local);
        let open = Sources::default();
        assert!(open.check(&git).is_ok());
        let blocked = Sources { block_remote: true, ..Sources::default() };
        assert_eq!(blocked.check(&git), Err(NotAllowed::Remote));
        assert!(blocked.check(&local).is_ok());
        let listed = Sources { allowed: vec!["^https://github\\.com/good/".to_owned()], block_remote: true };
        assert!(listed.check(&git).is_ok());
        assert!(matches!(listed.check(&evil), Err(NotAllowed::Unlisted { .. })));
        assert!(matches!(listed.check(&local), Err(NotAllowed::Unlisted { .. })));
        assert!(listed.refusal(Path::new("/e"), None).is_some());
        assert!(open.refusal(Path::new("/e"), None).is_none());
        let bad = Sources { allowed: vec!["(".to_owned()], block_remote: false };
        assert!(matches!(bad.check(&git), Err(NotAllowed::Pattern { .. })));
    }
}
