//! The memory of one agent in one workspace.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_domain::embedding::Purpose;
use pollux_domain::sync::Locked as _;

use crate::index::error::IndexError;
use crate::index::sync::{self, Progress, Scope, Synced, blocking};
use crate::redaction;
use crate::search::answer::{Request, SearchAnswer};
use crate::search::reader::Reader;
use crate::setup::Setup;
use crate::source::Source;
use crate::workspace::Space;

/// Time limit for embedding a query.
const QUERY_BUDGET: Duration = Duration::from_secs(2);

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
    /// affect the search, which uses the existing index. Returns notes for the user.
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
            Ok(Ok(mut vectors)) => {
                let vector = vectors.pop().filter(|vector| vector.iter().any(|value| *value != 0.0));
                (vector.filter(|vector| vector.iter().all(|value| value.is_finite())), None)
            }
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
