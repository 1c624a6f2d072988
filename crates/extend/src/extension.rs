//! Installed extensions: which are active, and what they contribute.
//!
//! [`load`] reads one small file per extension: secrets are looked up when a program needs them, and skills,
//! agents, commands, hooks and policies are read by the code that uses them.

mod enablement;
mod load;
mod manifest;
mod metadata;
mod servers;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use enablement::{ENABLEMENT, Enablement, EnablementError, Switch, switch};
pub use load::{LoadError, LoadRequest, Loaded, load};
use manifest::redirections;
pub use manifest::{
    ContextFile, ContextFileError, Defect, MANIFEST, Manifest, ManifestError, Setting, is_name,
};
pub use metadata::{Kind, METADATA, Metadata, github_repository, id};
pub use servers::tuned;
pub use values::{Secrets, SetValue, ValueError, ValuePlaces, ValueScope, no_secrets};

/// An active extension, as seen by the code that uses its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    pub name: String,
    pub version: String,
    /// Where its files are; for a linked one, the source.
    pub path: PathBuf,
    /// Values of `${NAME}` in its texts: `extensionPath`, `workspacePath`, `/`, `pathSeparator`, and its
    /// settings by variable name.
    pub variables: BTreeMap<String, String>,
}

/// Where it is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// In `~/.gemini/extensions`.
    User,
    /// In the project's `.gemini/extensions`; only read.
    Project,
}

/// An extension on this machine, active or not.
#[derive(Debug, Clone)]
pub struct Installed {
    pub extension: Extension,
    /// See [`id`].
    pub id: String,
    /// Its folder below `extensions`; a linked one has its metadata and values there.
    pub folder: PathBuf,
    pub manifest: Manifest,
    pub metadata: Option<Metadata>,
    pub origin: Origin,
    /// Whether it is used in this run.
    pub active: bool,
    pub values: ValuePlaces,
    /// Whether values are read (`experimental.extensionConfig`).
    pub configurable: bool,
}

impl Installed {
    /// A warning about variables of an active extension's file that have no effect. Reads the file.
    pub fn ignored_addresses(&self) -> Option<String> {
        if !self.active {
            return None;
        }
        let found = redirections(&self.values.addresses(&self.manifest.settings))?;
        Some(format!("Extension \"{}\": `.env`: {found}", self.extension.name))
    }

    /// Its existing context files, and warnings about those that are not allowed.
    pub fn context_files(&self) -> (Vec<PathBuf>, Vec<String>) {
        let mut files = Vec::new();
        let mut warnings = Vec::new();
        for named in self.manifest.context_files(&self.extension.path) {
            match named.path {
                Ok(path) if path.is_file() => files.push(path),
                Ok(_) => {}
                Err(error) => warnings.push(format!(
                    "Invalid contextFileName: \"{}\" in extension \"{}\". {error}",
                    named.name, self.extension.name
                )),
            }
        }
        (files, warnings)
    }
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
        servers::replaced(text, |name| self.variables.get(name).cloned())
    }
}
