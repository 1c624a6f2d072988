//! The memory of one agent in one workspace.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pollux_config::files;
use pollux_domain::JsonObject;
use pollux_domain::embedding::{Embedder, Origin, Purpose};
use pollux_domain::time::Clock;
use serde_json::Value;

use crate::forgotten::Forgotten;
use crate::index::error::IndexError;
use crate::index::identity::Identity;
use crate::index::sync::{self, Progress, Scope, Synced, blocking};
use crate::learnings::Learnings;
use crate::redaction;
use crate::search::answer::{Answer, Request};
use crate::search::reader::Reader;
use crate::session_key::SessionKey;
use crate::settings::Settings;
use crate::source::Source;
use crate::source::notes::{self, Places};
use crate::source::sessions::{self, Sorted};
use crate::state::{self, AgentDir};
use crate::workspace::{Belonging, Space, WorkspaceId};

/// How long a question may wait for its vector.
const QUERY_BUDGET: Duration = Duration::from_secs(2);
/// Stands for the workspace in the place of an index.
const WORKSPACE: &str = "{workspace}";
const FORGOTTEN: &str = "forgotten.json";

/// What a memory is made of.
pub struct Setup {
    pub agent: AgentDir,
    pub workspace: PathBuf,
    pub space: Space,
    /// Whether the user trusts the workspace; if not, its notes are other people's.
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

    /// The place of the index: one for each workspace, below the agent's folder unless the settings name another.
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

    /// The index of every workspace, as it was before they were kept apart.
    pub(crate) fn shared_index_file(&self) -> PathBuf {
        match &self.settings.store.path {
            None => self.agent.index_file(),
            Some(path) => self.place(&path.replace(WORKSPACE, "shared")),
        }
    }

    /// A place that the settings name, made this workspace's own.
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
        let home = self.agent.root().ancestors().nth(3);
        match (path.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => self.workspace.join(path),
        }
    }

    /// What is forgotten in every workspace.
    pub(crate) fn agent_forgotten_file(&self) -> PathBuf {
        self.agent.agent_dir().join(FORGOTTEN)
    }

    /// What is forgotten in this one.
    pub(crate) fn own_forgotten_file(&self) -> PathBuf {
        match self.space {
            Space::Workspace => self.id().folder(&self.agent).join(FORGOTTEN),
            Space::Shared | Space::Unassigned => self.agent_forgotten_file(),
        }
    }

    pub(crate) fn forgotten(&self) -> Result<Forgotten, IndexError> {
        let mut forgotten = Forgotten::read(&self.agent_forgotten_file())?;
        if self.space == Space::Workspace {
            forgotten.extend(Forgotten::read(&self.own_forgotten_file())?);
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

    /// The same memory with other eyes.
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

    pub(crate) fn places(&self) -> Places {
        Places {
            workspace: self.workspace.clone(),
            extra: self.settings.extra_paths.clone(),
            learnings: self.agent.learnings_file(),
            has_notes: self.space != Space::Unassigned,
        }
    }

    /// The ids of sessions in which other people write. Without a store there are none.
    pub(crate) fn shared_sessions(&self) -> HashSet<String> {
        let text = files::read_text(&self.agent.store_file()).ok().flatten().unwrap_or_default();
        let store: JsonObject = serde_json::from_str(&text).unwrap_or_default();
        let shared = store.iter().filter(|(key, _)| SessionKey::parse(key, self.agent.id()).is_shared());
        shared
            .filter_map(|(_, entry)| entry.get("sessionId").and_then(Value::as_str).map(str::to_owned))
            .collect()
    }
}

/// Opens nothing until it is asked something.
#[derive(Clone)]
pub struct Memory {
    setup: Arc<Setup>,
    reader: Arc<Mutex<Reader>>,
}

impl Memory {
    pub fn new(setup: Setup) -> Self {
        let owner = (setup.space == Space::Workspace).then(|| setup.id().key().to_owned());
        let reader = Reader::new(setup.index_file(), setup.settings.store.vector, owner);
        Self { setup: Arc::new(setup), reader: Arc::new(Mutex::new(reader)) }
    }

    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    pub(crate) fn shared_setup(&self) -> Arc<Setup> {
        self.setup.clone()
    }

    /// Brings the index up to date, waiting so long for another process that does so.
    pub async fn sync(
        &self,
        scope: Scope,
        wait: Duration,
        progress: &Progress<'_>,
    ) -> Result<Synced, IndexError> {
        if self.setup.space == Space::Unassigned {
            // Nobody knows where it came from, so there is nothing to compare it with.
            return Ok(Synced::default());
        }
        sync::run(&self.setup, scope, wait, false, progress).await
    }

    /// Makes the index anew; searches go on with the old one.
    pub async fn reindex(&self, wait: Duration, progress: &Progress<'_>) -> Result<Synced, IndexError> {
        if self.setup.space == Space::Unassigned {
            return Ok(Synced::default());
        }
        sync::run(&self.setup, Scope::All, wait, true, progress).await
    }

    /// Before a search: brings the index up to date if that is quickly done. What it cannot do does not
    /// matter to the search, which answers with what there is. Lines about what a person should know.
    pub async fn refresh(&self, budget: Duration) -> Vec<String> {
        if self.setup.space == Space::Unassigned {
            return Vec::new();
        }
        let Ok(Some(job)) = sync::open(&self.setup, Duration::ZERO).await else { return Vec::new() };
        // What was put aside is said even if there is no time for the rest.
        let warnings = job.synced.warnings.clone();
        let synced = tokio::time::timeout(budget, job.run(Scope::All, false, &|_| {})).await;
        synced.ok().and_then(Result::ok).map_or(warnings, |synced| synced.warnings)
    }

    /// Finds what fits a question.
    pub async fn search(&self, request: &Request) -> Result<Answer, IndexError> {
        let request =
            Request { query: redaction::clean(request.query.trim(), &[]).into_owned(), ..request.clone() };
        let (vector, degraded) = self.vector_of(&request.query).await;
        let (reader, setup) = (self.reader.clone(), self.setup.clone());
        blocking(move || {
            let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
            reader.search(&setup, &request, vector.as_deref(), degraded)
        })
        .await
    }

    /// The vector of a question, or why there is none.
    async fn vector_of(&self, query: &str) -> (Option<Vec<f32>>, Option<String>) {
        let Some(embedder) = &self.setup.embedder else {
            return (None, Some("no embedding provider is set up; words only".to_owned()));
        };
        if query.is_empty() {
            return (None, None);
        }
        let texts = [query.to_owned()];
        match tokio::time::timeout(QUERY_BUDGET, embedder.embed(&texts, Purpose::Query)).await {
            Ok(Ok(mut vectors)) => {
                let vector = vectors.pop().filter(|vector| vector.iter().any(|value| *value != 0.0));
                (vector.filter(|vector| vector.iter().all(|value| value.is_finite())), None)
            }
            Ok(Err(error)) => (None, Some(error.to_string())),
            Err(_) => (None, Some(format!("no vector after {} s", QUERY_BUDGET.as_secs()))),
        }
    }

    /// Work with the reader, where it may block.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Reader, &Setup) -> Result<T, IndexError> + Send + 'static,
    ) -> Result<T, IndexError> {
        let (reader, setup) = (self.reader.clone(), self.setup.clone());
        blocking(move || work(&mut reader.lock().unwrap_or_else(PoisonError::into_inner), &setup)).await
    }

    /// Lets go of the file.
    pub async fn close(&self) {
        let _ = self
            .read(|reader, _| {
                reader.close();
                Ok(())
            })
            .await;
    }

    /// Whether a transcript is one of this agent's.
    pub(crate) fn owns(&self, transcript: &Path) -> bool {
        let folder = self.setup.agent.sessions_dir();
        match (transcript.canonicalize(), folder.canonicalize()) {
            (Ok(file), Ok(folder)) => {
                file.starts_with(folder) && self.setup.settings.sources.contains(&Source::Sessions)
            }
            (Err(_), _) | (_, Err(_)) => false,
        }
    }
}
