//! The configuration of a memory and the location of its files.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use pollux_config::files;
use pollux_domain::JsonObject;
use pollux_domain::embedding::{Embedder, Origin};
use pollux_domain::time::Clock;
use serde_json::Value;

use crate::forgotten::{self, Forgotten};
use crate::index::error::IndexError;
use crate::index::identity::Identity;
use crate::learnings::Learnings;
use crate::session_key::SessionKey;
use crate::settings::Settings;
use crate::source::Source;
use crate::source::notes::{self, NotePlaces};
use crate::source::sessions::{self, Sorted};
use crate::state::{self, AgentDir};
use crate::workspace::{Belonging, Space, WorkspaceId, folders};

/// Stands for the workspace in the place of an index.
const WORKSPACE: &str = "{workspace}";

/// The configuration of a memory.
pub struct Setup {
    pub agent: AgentDir,
    pub workspace: PathBuf,
    pub space: Space,
    /// Whether the workspace is trusted; otherwise its notes count as untrusted.
    pub trusted: bool,
    pub settings: Settings,
    pub embedder: Option<Arc<dyn Embedder>>,
    pub clock: Arc<dyn Clock>,
}

impl Setup {
    /// The workspace, and where things are that belong to it alone.
    pub(crate) fn id(&self) -> WorkspaceId {
        WorkspaceId::of(&self.workspace)
    }

    /// The index file: one per workspace, in the agent's folder unless configured otherwise.
    pub(crate) fn index_file(&self) -> PathBuf {
        match self.space {
            Space::Shared | Space::Unassigned => self.shared_index_file(),
            Space::Workspace => {
                let id = self.id();
                match &self.settings.store.path {
                    None => id.folder(&self.agent).join(state::INDEX),
                    Some(path) => self.own_place(path, &id),
                }
            }
        }
    }

    /// The legacy index shared by all workspaces.
    pub(crate) fn shared_index_file(&self) -> PathBuf {
        match &self.settings.store.path {
            None => self.agent.index_file(),
            Some(path) => self.place(&path.replace(WORKSPACE, "shared")),
        }
    }

    /// A configured path, made specific to this workspace.
    fn own_place(&self, path: &str, id: &WorkspaceId) -> PathBuf {
        if path.contains(WORKSPACE) {
            return self.place(&path.replace(WORKSPACE, id.key()));
        }
        let place = self.place(path);
        let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let (stem, ending) = (part(place.file_stem()), part(place.extension()));
        let dot = if ending.is_empty() { "" } else { "." };
        place.with_file_name(format!("{stem}-{}{dot}{ending}", id.key()))
    }

    fn place(&self, path: &str) -> PathBuf {
        let path = path.replace("{agentId}", self.agent.id().as_str());
        self.agent.expanded(&path, &self.workspace)
    }

    /// What is forgotten in every workspace.
    pub(crate) fn agent_forgotten_file(&self) -> PathBuf {
        self.agent.agent_dir().join(forgotten::FILE)
    }

    /// What is forgotten in this one.
    pub(crate) fn own_forgotten_file(&self) -> PathBuf {
        match self.space {
            Space::Workspace => self.id().folder(&self.agent).join(forgotten::FILE),
            Space::Shared | Space::Unassigned => self.agent_forgotten_file(),
        }
    }

    pub(crate) fn forgotten(&self) -> Result<Forgotten, IndexError> {
        let mut forgotten = Forgotten::read(&self.agent_forgotten_file())?;
        match self.space {
            Space::Workspace => forgotten.extend(Forgotten::read(&self.own_forgotten_file())?),
            // What was forgotten in one of them must not come back where all are searched.
            Space::Shared => {
                let own = self.id().folder(&self.agent);
                forgotten.extend(Forgotten::read(&own.join(forgotten::FILE))?);
                for folder in folders(&self.agent).filter(|folder| *folder != own) {
                    forgotten.extend(Forgotten::read(&folder.join(forgotten::FILE))?.without_notes());
                }
            }
            Space::Unassigned => {}
        }
        Ok(forgotten)
    }

    /// The learnings that may be seen here.
    pub(crate) fn learnings(&self) -> Learnings {
        Learnings::of(&self.agent, &self.workspace, self.space, self.clock.clone())
    }

    /// The transcripts that may be seen here.
    pub(crate) fn transcripts(&self) -> Sorted {
        let belonging = Belonging::of(&self.agent, &self.workspace);
        let all = sessions::list(&self.agent.sessions_dir());
        sessions::sorted(all, &sessions::Known::default(), self.space, &belonging)
    }

    /// Whether a row of the index may be seen. The index of all workspaces also holds what is known to be of one.
    pub(crate) fn admits(&self, path: &str, source: Source) -> bool {
        match (self.space, source) {
            (Space::Workspace | Space::Shared, _) => true,
            (Space::Unassigned, Source::Memory) => path != notes::LEARNINGS,
            (Space::Unassigned, Source::Sessions) => {
                sessions::origin(&self.agent.root().join(path)).is_none()
            }
        }
    }

    /// The same memory with a different visibility.
    pub(crate) fn elsewhere(&self, workspace: PathBuf, space: Space) -> Self {
        Self {
            agent: self.agent.clone(),
            workspace,
            space,
            trusted: self.trusted,
            settings: self.settings.clone(),
            embedder: self.embedder.clone(),
            clock: self.clock.clone(),
        }
    }

    pub(crate) fn origin(&self) -> Origin {
        self.embedder.as_ref().map_or_else(Identity::nobody, |embedder| embedder.origin().clone())
    }

    pub(crate) fn places(&self) -> NotePlaces {
        // A path below the workspace stays as it is, since it must not lead out of it.
        let expanded = |path: &String| match path.starts_with("~/") {
            true => self.agent.expanded(path, &self.workspace).to_string_lossy().into_owned(),
            false => path.clone(),
        };
        NotePlaces {
            workspace: self.workspace.clone(),
            extra: self.settings.extra_paths.iter().map(expanded).collect(),
            learnings: self.agent.learnings_file(),
            has_notes: self.space != Space::Unassigned,
        }
    }

    /// The entries of the session store, as far as it can be read.
    pub(crate) fn store_entries(&self) -> JsonObject {
        let text = files::read_text(&self.agent.store_file()).ok().flatten().unwrap_or_default();
        crate::store::parse(&text).unwrap_or_default()
    }

    /// The ids of sessions shared with other people.
    pub(crate) fn shared_sessions(&self) -> HashSet<String> {
        let store = self.store_entries();
        let shared = store.iter().filter(|(key, _)| SessionKey::parse(key, self.agent.id()).is_shared());
        shared
            .filter_map(|(_, entry)| entry.get("sessionId").and_then(Value::as_str).map(str::to_owned))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pollux_config::env::Env;
    use pollux_domain::time::SystemClock;

    use super::*;
    use crate::settings::StoreSettings;
    use crate::state::{AgentId, StateDir};

    #[test]
    fn the_home_directory_in_a_path_is_the_users_wherever_the_state_is() {
        for state in [None, Some(("GIMLI_STATE_DIR", "/far/away"))] {
            let vars = [("HOME", "/home/ada")].into_iter().chain(state);
            let env = Env::new(vars.map(|(k, v)| (k.to_owned(), v.to_owned())), PathBuf::from("/w"));
            let store = StoreSettings { path: Some("~/{agentId}/{workspace}.db".to_owned()), vector: true };
            let extra_paths = vec!["~/notes".to_owned(), "docs".to_owned()];
            let setup = Setup {
                agent: StateDir::locate(&env).unwrap().agent(&AgentId::default()),
                workspace: PathBuf::from("/w"),
                space: Space::Shared,
                trusted: true,
                settings: Settings { store, extra_paths, ..Settings::default() },
                embedder: None,
                clock: Arc::new(SystemClock),
            };
            assert_eq!(setup.index_file(), Path::new("/home/ada/main/shared.db"), "{state:?}");
            assert_eq!(setup.places().extra, ["/home/ada/notes", "docs"]);
        }
    }
}
