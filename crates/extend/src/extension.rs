//! An installed extension, as the readers of its parts see it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// An extension that is active in this run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    pub name: String,
    pub version: String,
    /// Where its files are; for a linked one, the source.
    pub path: PathBuf,
    /// What `${NAME}` stands for in its texts: `extensionPath`, `workspacePath`, `/`, `pathSeparator`, and its
    /// settings by the name of their variable.
    pub variables: BTreeMap<String, String>,
}

impl Extension {
    /// A folder of contributions: `skills`, `agents`, `commands`, `policies`, `hooks`.
    pub fn part(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The text with `${NAME}` replaced; unknown names stay.
    pub fn hydrate(&self, text: &str) -> String {
        let mut result = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            result.push_str(before);
            let known = after.split_once('}').and_then(|(name, tail)| Some((self.variables.get(name)?, tail)));
            match known {
                Some((value, tail)) => {
                    result.push_str(value);
                    rest = tail;
                }
                None => {
                    result.push_str("${");
                    rest = after;
                }
            }
        }
        result.push_str(rest);
        result
    }
}
