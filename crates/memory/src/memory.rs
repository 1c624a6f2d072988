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

use crate::index::error::IndexError;
use crate::index::identity::Identity;
use crate::index::sync::{self, Progress, Scope, Synced, blocking};
use crate::redaction;
use crate::search::answer::{Answer, Request};
use crate::search::reader::Reader;
use crate::session_key::SessionKey;
use crate::settings::Settings;
use crate::source::Source;
use crate::source::notes::Places;
use crate::state::AgentDir;

/// How long a question may wait for its vector.
const QUERY_BUDGET: Duration = Duration::from_secs(2);

/// What a memory is made of.
pub struct Setup {
    pub agent: AgentDir,
    pub workspace: PathBuf,
    /// Whether the user trusts the workspace; if not, its notes are other people's.
    pub trusted: bool,
    pub settings: Settings,
    pub embedder: Option<Arc<dyn Embedder>>,
    pub clock: Arc<dyn Clock>,
}

impl Setup {
    /// The place of the index: the agent's folder, unless the settings name another.
    pub(crate) fn index_file(&self) -> PathBuf {
        let Some(path) = &self.settings.store.path else { return self.agent.index_file() };
        let path = path.replace("{agentId}", self.agent.id().as_str());
        let home = self.agent.root().ancestors().nth(3);
        match (path.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => self.workspace.join(path),
        }
    }

    pub(crate) fn forgotten_file(&self) -> PathBuf {
        self.agent.agent_dir().join("forgotten.json")
    }

    pub(crate) fn origin(&self) -> Origin {
        self.embedder.as_ref().map_or_else(Identity::nobody, |embedder| embedder.origin().clone())
    }

    pub(crate) fn places(&self) -> Places {
        Places {
            workspace: self.workspace.clone(),
            extra: self.settings.extra_paths.clone(),
            learnings: self.agent.learnings_file(),
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
        let reader = Reader::new(setup.index_file(), setup.settings.store.vector);
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
        sync::run(&self.setup, scope, wait, false, progress).await
    }

    /// Makes the index anew; searches go on with the old one.
    pub async fn reindex(&self, wait: Duration, progress: &Progress<'_>) -> Result<Synced, IndexError> {
        sync::run(&self.setup, Scope::All, wait, true, progress).await
    }

    /// Before a search: brings the index up to date if that is quickly done. What it cannot do does not
    /// matter to the search, which answers with what there is.
    pub async fn refresh(&self, budget: Duration) -> Option<Synced> {
        let sync = self.sync(Scope::All, Duration::ZERO, &|_| {});
        tokio::time::timeout(budget, sync).await.ok().and_then(Result::ok)
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
