//! The memory of one agent in one workspace.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_domain::embedding::Purpose;
use pollux_domain::sync::Locked as _;

use crate::index::error::IndexError;
use crate::index::sync::{self, Progress, Scope, Synced, blocking};
use crate::lock::{self, Patience};
use crate::redaction;
use crate::search::answer::{Request, SearchAnswer};
use crate::search::reader::Reader;
use crate::setup::Setup;
use crate::source::Source;
use crate::vector;
use crate::workspace::Space;

/// Time limit for embedding a query.
const QUERY_BUDGET: Duration = Duration::from_secs(2);

/// What an update before a search did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// For the user.
    pub warnings: Vec<String>,
    /// There was no time for everything, or another process is at it.
    pub is_partial: bool,
}

/// Opens nothing until first use.
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

    /// Updates the index, waiting up to this time for another process that is doing so.
    pub async fn sync(
        &self,
        scope: Scope,
        wait: Duration,
        progress: &Progress<'_>,
    ) -> Result<Synced, IndexError> {
        if self.setup.space == Space::Unassigned {
            // Its origin is unknown, so there is nothing to compare.
            return Ok(Synced::default());
        }
        sync::run(&self.setup, scope, wait, false, progress).await
    }

    /// Rebuilds the index; searches use the old one meanwhile.
    pub async fn reindex(&self, wait: Duration, progress: &Progress<'_>) -> Result<Synced, IndexError> {
        if self.setup.space == Space::Unassigned {
            return Ok(Synced::default());
        }
        sync::run(&self.setup, Scope::All, wait, true, progress).await
    }

    /// Updates the index before a search, if that is quick. Failures do not
    /// affect the search, which uses the existing index.
    pub async fn refresh(&self, budget: Duration) -> Refreshed {
        if self.setup.space == Space::Unassigned {
            return Refreshed::default();
        }
        let job = match sync::open(&self.setup, Duration::ZERO, false).await {
            Ok(Some(job)) => job,
            Ok(None) => return Refreshed { is_partial: true, ..Refreshed::default() },
            Err(_) => return Refreshed::default(),
        };
        // What was put aside is said even if there is no time for the rest.
        let warnings = job.synced.warnings.clone();
        match tokio::time::timeout(budget, job.run(Scope::All, false, &|_| {})).await {
            Ok(Ok(synced)) => Refreshed { warnings: synced.warnings, is_partial: false },
            Ok(Err(_)) => Refreshed { warnings, is_partial: false },
            Err(_) => Refreshed { warnings, is_partial: true },
        }
    }

    /// Whether a process is updating the index.
    pub fn is_indexing(&self) -> bool {
        lock::is_held(&self.setup.index_file(), Patience::INDEX_STALE)
    }

    /// Searches the memory.
    pub async fn search(&self, request: &Request) -> Result<SearchAnswer, IndexError> {
        let request =
            Request { query: redaction::clean(request.query.trim(), &[]).into_owned(), ..request.clone() };
        let (vector, degraded) = self.vector_of(&request.query).await;
        let (reader, setup) = (self.reader.clone(), self.setup.clone());
        blocking(move || {
            let mut reader = reader.locked();
            reader.search(&setup, &request, vector.as_deref(), degraded)
        })
        .await
    }

    /// The embedding of a query, or why there is none.
    async fn vector_of(&self, query: &str) -> (Option<Vec<f32>>, Option<String>) {
        let Some(embedder) = &self.setup.embedder else {
            return (None, Some("no embedding provider configured".to_owned()));
        };
        if query.is_empty() {
            return (None, None);
        }
        let texts = [query.to_owned()];
        match tokio::time::timeout(QUERY_BUDGET, embedder.embed(&texts, Purpose::Query)).await {
            Ok(Ok(mut vectors)) => (vectors.pop().filter(|vector| vector::has_direction(vector)), None),
            Ok(Err(error)) => (None, Some(error.to_string())),
            Err(_) => (None, Some(format!("no embedding after {} s", QUERY_BUDGET.as_secs()))),
        }
    }

    /// Runs work with the reader on a blocking thread.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Reader, &Setup) -> Result<T, IndexError> + Send + 'static,
    ) -> Result<T, IndexError> {
        let (reader, setup) = (self.reader.clone(), self.setup.clone());
        blocking(move || work(&mut reader.locked(), &setup)).await
    }

    /// Closes the file.
    pub async fn close(&self) {
        let _ = self
            .read(|reader, _| {
                reader.close();
                Ok(())
            })
            .await;
    }

    /// Whether a transcript belongs to this agent.
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
