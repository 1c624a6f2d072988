//! Folder trust: decides whether a folder's files may be used.
//!
//! The register, in upstream's format, lists trusted folders. The content of a folder when it was
//! trusted is stored next to it ([`Record`]), and a folder whose content changed is not trusted until it
//! is approved again. Start at [`standing`].

mod announcement;
mod inventory;
mod named;
mod record;
pub mod scripts;
mod shown;

use std::path::{Path, PathBuf};

use pollux_domain::time::Timestamp;
use serde_json::Value;

pub use announcement::{Announcement, Role};
pub use inventory::{Inventory, Item, ItemKind};
pub use record::{Change, Kept, Record, RecordError};

use crate::dotenv;
use crate::env::{Env, name};
use crate::files::{self, FileError};
use crate::jsonc;
use crate::paths::{self, Home};
use crate::settings::{self, BadFile, EditError, ProjectTrust};

/// The trust state of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderTrust {
    Trusted,
    Untrusted,
    /// Not decided yet.
    Undecided,
    /// It was trusted with different content, or its content cannot be compared.
    Changed,
}

/// How a folder's content compares with its trust record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Binding {
    /// The content does not matter: trust does not come from the register, or the folder is the home.
    Unbound,
    /// Unchanged.
    Same,
    /// Trusted without a record yet; the current content will be recorded.
    FirstUse(Inventory),
    /// What changed, by path; never empty.
    Changed(Vec<String>),
    /// Why it cannot be compared.
    Unclear(String),
}

/// A folder's trust state and its reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub trust: FolderTrust,
    pub reason: TrustReason,
    pub binding: Binding,
}

/// What decided it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustReason {
    /// `GEMINI_RESTRICTED_MODE`
    Restricted,
    /// `--skip-trust`
    SkipFlag,
    /// `GEMINI_CLI_TRUST_WORKSPACE`
    Environment,
    /// `security.folderTrust.enabled` is off.
    FeatureOff,
    /// An entry of the register, for this path.
    Rule(String),
    NoRule,
}

/// An entry of the register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustRule {
    Folder,
    /// The folder above the named one.
    Parent,
    Never,
}

/// What a decision depends on.
#[derive(Debug)]
pub struct TrustRequest<'a> {
    pub env: &'a Env,
    pub home: &'a Home,
    pub folder: &'a Path,
    /// `--skip-trust`
    pub skip_trust: bool,
    /// `security.folderTrust.enabled` of the user's or the machine's files; see [`settings::early`].
    pub feature_enabled: bool,
}

/// The register cannot be used. The program ends with exit code 52.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TrustError(pub BadFile);

impl FolderTrust {
    /// Whether the folder's files may be used.
    pub fn uses_project(self) -> bool {
        self.for_project() == ProjectTrust::Trusted
    }

    /// Whether to ask the user.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Undecided | Self::Changed)
    }

    /// An undecided folder counts as untrusted.
    pub fn for_project(self) -> ProjectTrust {
        match self {
            Self::Trusted => ProjectTrust::Trusted,
            Self::Untrusted | Self::Undecided | Self::Changed => ProjectTrust::Untrusted,
        }
    }
}

impl TrustRule {
    fn word(self) -> &'static str {
        match self {
            Self::Folder => "TRUST_FOLDER",
            Self::Parent => "TRUST_PARENT",
            Self::Never => "DO_NOT_TRUST",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        [Self::Folder, Self::Parent, Self::Never].into_iter().find(|rule| rule.word() == word)
    }
}

/// The standing of a folder, its content compared with what was agreed to. Writes nothing.
pub fn standing(request: &TrustRequest<'_>) -> Result<Standing, TrustError> {
    let (trust, reason) = decide(request)?;
    let by_register = trust == FolderTrust::Trusted && matches!(reason, TrustReason::Rule(_));
    // What is in the home's own `.gemini` is the user's.
    if !by_register || paths::same_place(request.folder, request.home.user_home()) {
        return Ok(Standing { trust, reason, binding: Binding::Unbound });
    }
    let binding = compare(request.home, request.folder);
    let trust = match binding {
        Binding::Unbound | Binding::Same | Binding::FirstUse(_) => trust,
        Binding::Changed(_) | Binding::Unclear(_) => FolderTrust::Changed,
    };
    Ok(Standing { trust, reason, binding })
}

fn compare(home: &Home, folder: &Path) -> Binding {
    let inventory = take_inventory(home, folder);
    if let Some(excess) = &inventory.excess {
        return Binding::Unclear(excess.clone());
    }
    match Record::read(home, folder) {
        Ok(Some(record)) if record.digest == inventory.digest => Binding::Same,
        Ok(Some(record)) => {
            let changed: Vec<String> =
                record.changes(&inventory).into_iter().map(|change| change.path).collect();
            // The digest decides; the paths are only for display.
            if changed.is_empty() {
                Binding::Unclear("its record is damaged".to_owned())
            } else {
                Binding::Changed(changed)
            }
        }
        Ok(None) => match inventory.unread() {
            Some(item) => {
                Binding::Unclear(format!("`{}` points outside the folder or cannot be read", item.path))
            }
            None => Binding::FirstUse(inventory),
        },
        Err(error) => Binding::Unclear(error.to_string()),
    }
}

/// What a folder would run and apply, with the `.env` files above it that a run would read.
pub fn take_inventory(home: &Home, folder: &Path) -> Inventory {
    let env_files = dotenv::project_files(home, folder);
    Inventory::take(folder, &env_files)
}

/// Keeps a folder's content again after the user changed it through this program. `before` is how it compared
/// until then: a folder that is not bound, or that had changed already, is left alone.
pub fn rebind(
    home: &Home,
    folder: &Path,
    before: &Binding,
    now: Option<Timestamp>,
) -> Result<(), RecordError> {
    match before {
        Binding::Same | Binding::FirstUse(_) => Record::write(home, &take_inventory(home, folder), now),
        Binding::Unbound | Binding::Changed(_) | Binding::Unclear(_) => Ok(()),
    }
}

/// The standing of a folder and why. The register is read only when nothing stronger decides.
pub fn decide(request: &TrustRequest<'_>) -> Result<(FolderTrust, TrustReason), TrustError> {
    let TrustRequest { env, home, folder, skip_trust, feature_enabled } = *request;
    if env.is_true(name::RESTRICTED_MODE) {
        return Ok((FolderTrust::Untrusted, TrustReason::Restricted));
    }
    if skip_trust {
        return Ok((FolderTrust::Trusted, TrustReason::SkipFlag));
    }
    match env.get(name::TRUST_WORKSPACE).map(|text| text.trim().to_lowercase()).as_deref() {
        Some("true" | "1") => return Ok((FolderTrust::Trusted, TrustReason::Environment)),
        Some("false" | "0") => return Ok((FolderTrust::Untrusted, TrustReason::Environment)),
        Some(_) | None => {}
    }
    if !feature_enabled {
        return Ok((FolderTrust::Trusted, TrustReason::FeatureOff));
    }
    let rules = read_rules(&home.trusted_folders_file(env))?;
    Ok(match strongest(&rules, folder) {
        Some((path, TrustRule::Folder | TrustRule::Parent)) => {
            (FolderTrust::Trusted, TrustReason::Rule(path.to_owned()))
        }
        Some((path, TrustRule::Never)) => (FolderTrust::Untrusted, TrustReason::Rule(path.to_owned())),
        None => (FolderTrust::Undecided, TrustReason::NoRule),
    })
}

/// The nearest folder above that the register says never to trust. It matters, too, where the folder itself is trusted
/// without the register.
pub(crate) fn refused_above(env: &Env, home: &Home, folder: &Path) -> Result<Option<PathBuf>, TrustError> {
    let rules = read_rules(&home.trusted_folders_file(env))?;
    if !rules.iter().any(|(_, rule)| *rule == TrustRule::Never) {
        return Ok(None);
    }
    let refused = |dir: &&Path| matches!(strongest(&rules, dir), Some((_, TrustRule::Never)));
    Ok(folder.ancestors().skip(1).find(refused).map(Path::to_owned))
}

/// Writes a line into the register; all other lines and comments stay.
pub fn remember(env: &Env, home: &Home, folder: &Path, rule: TrustRule) -> Result<(), EditError> {
    let path = real(folder);
    let key = path.to_string_lossy();
    settings::change(&home.trusted_folders_file(env), true, |register| {
        register.set(&[key.as_ref()], &Value::from(rule.word()))
    })
}

fn read_rules(file: &Path) -> Result<Vec<(String, TrustRule)>, TrustError> {
    let text = match files::read_text(file) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(file, &error)),
    };
    let document = jsonc::parse(&text).map_err(|defect| TrustError(BadFile::parse(file, defect)))?;
    let Value::Object(map) = document.value else { return Ok(Vec::new()) };
    map.into_iter()
        .map(|(path, word)| match word.as_str().and_then(TrustRule::from_word) {
            Some(rule) => Ok((path, rule)),
            None => Err(TrustError(BadFile {
                path: file.to_owned(),
                line: document.lines.get(&path),
                column: None,
                reason: format!("invalid trust level {word} for `{path}`"),
                fix: "use TRUST_FOLDER, TRUST_PARENT or DO_NOT_TRUST".to_owned(),
            })),
        })
        .collect()
}

fn unreadable(file: &Path, error: &FileError) -> TrustError {
    TrustError(BadFile::read(file, error))
}

/// The rule with the longest path that covers the folder.
fn strongest<'r>(rules: &'r [(String, TrustRule)], folder: &Path) -> Option<(&'r str, TrustRule)> {
    let folder = real(folder);
    let covering = rules.iter().filter(|(path, rule)| {
        let named = Path::new(path);
        let top = match rule {
            TrustRule::Parent => named.parent().unwrap_or(named),
            TrustRule::Folder | TrustRule::Never => named,
        };
        !path.is_empty() && folder.starts_with(real(top))
    });
    covering.max_by_key(|(path, _)| path.len()).map(|(path, rule)| (path.as_str(), *rule))
}

/// The path without links; as it is when it does not exist.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests;
