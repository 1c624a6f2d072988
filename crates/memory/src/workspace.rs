//! Assigns memory to workspaces.
//!
//! An agent's index, transcripts and learnings are separated by workspace, so that nothing of one project appears in
//! another. A workspace is the canonical path of its folder; links resolve to the same one, and a folder that was
//! moved is a new one until it adopts the old path.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use pollux_config::files::{self, FileError, Mode};
use pollux_config::paths::sha256_hex;
use serde::{Deserialize, Serialize};

use crate::forgotten::{self, Forgotten};
use crate::index::error::IndexError;
use crate::source::sessions;
use crate::state::AgentDir;

/// Characters of a key: too many for two paths to share one, even on purpose.
const KEY: usize = 32;
const CARD: &str = "workspace.json";

/// The visible part of an agent's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Space {
    /// This workspace only.
    #[default]
    Workspace,
    /// All workspaces of the agent.
    Shared,
    /// Data without a known workspace. Never sent to a model.
    Unassigned,
}

/// A workspace as the state directory names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceId {
    root: PathBuf,
    key: String,
}

impl WorkspaceId {
    pub fn of(folder: &Path) -> Self {
        let root = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let key = sha256_hex(root.as_os_str().as_encoded_bytes()).chars().take(KEY).collect();
        Self { root, key }
    }

    /// The canonical path, or the path as given when nothing is there.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The name of its folder in the state directory.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Where the agent keeps what belongs to this workspace alone.
    pub fn folder(&self, agent: &AgentDir) -> PathBuf {
        agent.workspaces_dir().join(&self.key)
    }
}

/// `workspace.json`: which path a folder of the state directory stands for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Card {
    version: u32,
    path: String,
    /// Paths of the same workspace before it was moved.
    formerly: Vec<String>,
}

impl Card {
    fn read(folder: &Path) -> Option<Self> {
        let text = files::read_text(&folder.join(CARD)).ok().flatten()?;
        serde_json::from_str(&text).ok()
    }

    fn write(&self, folder: &Path) -> Result<(), FileError> {
        files::create_folder(folder, Mode::Private)?;
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        files::replace(&folder.join(CARD), text.as_bytes(), Mode::Private).map(drop)
    }
}

/// Notes which workspace a folder of the state directory is for.
pub(crate) fn register(agent: &AgentDir, id: &WorkspaceId) -> Result<(), FileError> {
    let folder = id.folder(agent);
    if Card::read(&folder).is_some() {
        return Ok(());
    }
    Card { version: 1, path: id.root.to_string_lossy().into_owned(), formerly: Vec::new() }.write(&folder)
}

/// The folders of all workspaces.
pub(crate) fn folders(agent: &AgentDir) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(agent.workspaces_dir()).into_iter().flatten();
    entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_dir())
}

/// Every workspace that the agent has an index for.
pub(crate) fn registered(agent: &AgentDir) -> Vec<PathBuf> {
    let cards = folders(agent).filter_map(|folder| Card::read(&folder));
    let mut paths: Vec<PathBuf> = cards.map(|card| PathBuf::from(card.path)).collect();
    paths.sort();
    paths
}

/// Why a workspace cannot adopt the memory of another path.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    #[error("`{}` still exists, so its memory cannot be adopted", path.display())]
    StillThere { path: PathBuf },
    #[error("no memory found for `{}`", path.display())]
    Unknown { path: PathBuf },
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Forgotten(#[from] IndexError),
}

impl AdoptError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::StillThere { .. } => {
                Some("only the memory of a folder that no longer exists can be adopted")
            }
            Self::Unknown { .. } => Some("use the path the folder had when its sessions ran"),
            Self::File(_) => None,
            Self::Forgotten(error) => error.hint(),
        }
    }
}

/// Adopts the memory recorded under the previous absolute path of the folder; returns how many
/// transcripts were adopted.
pub fn adopt(agent: &AgentDir, workspace: &Path, former: &Path) -> Result<usize, AdoptError> {
    if former.exists() {
        return Err(AdoptError::StillThere { path: former.to_owned() });
    }
    // Paths adopted by the old folder are included.
    let before = Card::read(&WorkspaceId::of(former).folder(agent));
    let was_known = before.is_some();
    let mut paths = before.map(|card| card.formerly).unwrap_or_default();
    paths.push(former.to_string_lossy().into_owned());
    let transcripts = sessions::list(&agent.sessions_dir()).into_iter();
    let transcripts = transcripts.filter_map(|listed| sessions::origin(&listed.file));
    let count = transcripts.filter(|folder| paths.contains(folder)).count();
    if count == 0 && !was_known {
        return Err(AdoptError::Unknown { path: former.to_owned() });
    }
    let id = WorkspaceId::of(workspace);
    register(agent, &id)?;
    let folder = id.folder(agent);
    let mut card = Card::read(&folder).unwrap_or_default();
    for path in paths {
        if !card.formerly.contains(&path) {
            card.formerly.push(path);
        }
    }
    // What was forgotten there stays forgotten; first, because the rest is found only behind the card.
    let former = Forgotten::read(&WorkspaceId::of(former).folder(agent).join(forgotten::FILE))?;
    let list = folder.join(forgotten::FILE);
    let mut forgotten = Forgotten::read(&list)?;
    forgotten.extend(former);
    forgotten.write(&list)?;
    card.write(&folder)?;
    Ok(count)
}

/// What belongs to a workspace: the paths and keys that mean it.
#[derive(Debug, Default)]
pub(crate) struct Belonging {
    paths: Vec<String>,
    keys: Vec<String>,
    /// Paths that were looked at, since many transcripts name the same one.
    seen: RefCell<HashMap<String, bool>>,
}

impl Belonging {
    pub(crate) fn of(agent: &AgentDir, workspace: &Path) -> Self {
        let id = WorkspaceId::of(workspace);
        let formerly = Card::read(&id.folder(agent)).map(|card| card.formerly).unwrap_or_default();
        let mut belonging = Self {
            paths: vec![id.root.to_string_lossy().into_owned()],
            keys: vec![id.key],
            seen: RefCell::default(),
        };
        for path in formerly {
            belonging.keys.push(WorkspaceId::of(Path::new(&path)).key);
            belonging.paths.push(path);
        }
        belonging
    }

    /// Whether a path that a transcript names is this workspace.
    pub(crate) fn has_path(&self, path: &str) -> bool {
        if self.paths.iter().any(|own| own == path) {
            return true;
        }
        *self.seen.borrow_mut().entry(path.to_owned()).or_insert_with(|| {
            let resolved = Path::new(path).canonicalize().map(|path| path.to_string_lossy().into_owned());
            // Only the folder itself counts: a former path leads nowhere any more.
            resolved.is_ok_and(|resolved| self.paths.first() == Some(&resolved))
        })
    }

    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.keys.iter().any(|own| own == key)
    }

    /// The paths that the workspace had before.
    pub(crate) fn former_paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().skip(1).map(String::as_str)
    }

    /// Another one whenever the workspace has other paths.
    pub(crate) fn fingerprint(&self) -> String {
        sha256_hex(self.paths.join("\n").as_bytes())
    }

    /// The key that new things of this workspace get.
    pub(crate) fn key(&self) -> Option<&str> {
        self.keys.first().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::scratch;

    #[cfg(unix)]
    #[test]
    fn every_way_to_a_folder_is_the_same_workspace_and_a_neighbour_is_not() {
        let (folder, agent) = scratch();
        let root = folder.path().canonicalize().unwrap();
        for name in ["a", "a-evil"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("a"), root.join("link")).unwrap();
        let id = WorkspaceId::of(&root.join("a"));
        assert_eq!(WorkspaceId::of(&root.join("link")), id);
        assert_eq!(WorkspaceId::of(&root.join("link/../a/.")), id);
        let belonging = Belonging::of(&agent, &root.join("link"));
        let has = |path: PathBuf| belonging.has_path(&path.to_string_lossy());
        assert!(has(root.join("a")) && has(root.join("link")) && has(root.join("a/../a")));
        for other in ["a-evil", "b", ""] {
            assert!(!has(root.join(other)), "{other}");
        }
        assert!(!belonging.has_path("a") && !belonging.has_path(""));
        assert!(id.key().len() == KEY && belonging.has_key(id.key()) && !belonging.has_key(""));
    }

    #[test]
    fn a_moved_folder_is_another_workspace_until_it_adopts_the_old_path() {
        let (folder, agent) = scratch();
        let root = folder.path().canonicalize().unwrap();
        let (old, new) = (root.join("old"), root.join("new"));
        std::fs::create_dir(&old).unwrap();
        let before = WorkspaceId::of(&old);
        register(&agent, &before).unwrap();
        assert!(matches!(adopt(&agent, &new, &old), Err(AdoptError::StillThere { .. })));
        std::fs::rename(&old, &new).unwrap();
        assert!(!Belonging::of(&agent, &new).has_path(&old.to_string_lossy()));
        assert!(matches!(adopt(&agent, &new, Path::new("/no/such")), Err(AdoptError::Unknown { .. })));
        adopt(&agent, &new, &old).unwrap();
        let belonging = Belonging::of(&agent, &new);
        assert!(belonging.has_path(&old.to_string_lossy()) && belonging.has_key(before.key()));
        let last = root.join("last");
        std::fs::rename(&new, &last).unwrap();
        adopt(&agent, &last, &new).unwrap();
        assert!(Belonging::of(&agent, &last).has_path(&old.to_string_lossy()), "moved twice");
    }
}
