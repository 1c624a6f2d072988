//! Updates the index incrementally, file by file.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_domain::embedding::{EmbedError, EmbedErrorKind, Embedder, Purpose};
use pollux_domain::plural::counted;
use pollux_domain::sync::Locked as _;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::error::IndexError;
use super::reindex;
use super::rows::Prepared;
use super::writer::{Change, Writer};
use crate::lock::OwnedLockError;
use crate::setup::Setup;
use crate::source::{Listed, Source};
use crate::vector;

/// Texts that are embedded at a time; how many depends on how long the last ones took.
const FIRST_TEXTS: usize = 128;
const LEAST_TEXTS: usize = 16;
const MAX_TEXTS: usize = 1024;
const QUICK: Duration = Duration::from_millis(250);
const SLOW: Duration = Duration::from_secs(2);
/// Or so many bytes of them.
const BATCH_BYTES: usize = 2 << 20;
/// After so many new chunks the text index is put together.
const MANY: usize = 2000;
/// Files that are held before they are written.
const BATCH_FILES: usize = 200;
/// Files that are named for the same problem.
const MAX_LINES: usize = 10;

/// What to bring up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    All,
    Notes,
    Sessions,
}

impl Scope {
    fn sources(self) -> &'static [Source] {
        match self {
            Self::All => &[Source::Memory, Source::Sessions],
            Self::Notes => &[Source::Memory],
            Self::Sessions => &[Source::Sessions],
        }
    }
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub files_done: usize,
    pub files_total: usize,
    pub chunks_embedded: usize,
}

/// Is told about every step.
pub type Progress<'a> = dyn Fn(Step) + Send + Sync + 'a;

/// What a sync did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Synced {
    /// Files that were looked at.
    pub files: usize,
    pub changed: usize,
    pub removed: usize,
    pub chunks_written: usize,
    pub chunks_removed: usize,
    pub embedded: usize,
    pub from_cache: usize,
    /// Why everything was indexed again.
    pub reindexed: Option<String>,
    /// Another process is syncing; nothing was done.
    pub busy: bool,
    pub warnings: Vec<String>,
    /// Notes that cannot be indexed, and why.
    pub skipped: Vec<String>,
}

/// Runs work that blocks where it may.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, IndexError> + Send + 'static,
) -> Result<T, IndexError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(IndexError::Ended))
}

/// Updates everything in the scope; `force` rebuilds the index.
pub(crate) async fn run(
    setup: &Arc<Setup>,
    scope: Scope,
    wait: Duration,
    force: bool,
    progress: &Progress<'_>,
) -> Result<Synced, IndexError> {
    match open(setup, wait, force).await? {
        None => Ok(Synced { busy: true, ..Synced::default() }),
        Some(job) => job.run(scope, force, progress).await,
    }
}

/// Opens the index to bring it up to date; `None` while another process does so.
pub(crate) async fn open(setup: &Arc<Setup>, wait: Duration, force: bool) -> Result<Option<Job>, IndexError> {
    let for_open = setup.clone();
    match blocking(move || Writer::open(&for_open, wait, force)).await {
        Err(IndexError::Lock(OwnedLockError::TimedOut { .. })) => Ok(None),
        Err(error) => Err(error),
        Ok((writer, warnings)) => {
            Ok(Some(Job::new(setup.clone(), writer, Synced { warnings, ..Synced::default() })))
        }
    }
}

/// One sync.
pub(crate) struct Job {
    pub(crate) setup: Arc<Setup>,
    pub(crate) writer: Arc<Mutex<Writer>>,
    pub(crate) synced: Synced,
    batch_texts: usize,
    /// The provider failed and is not used again in this sync.
    gave_up: bool,
    /// The length of the vectors in the index.
    width: Option<usize>,
    /// The provider's are of another length now.
    pub(crate) other_width: Option<usize>,
}

impl Job {
    /// Updates everything in the scope; `force` rebuilds the index.
    pub(crate) async fn run(
        mut self,
        scope: Scope,
        force: bool,
        progress: &Progress<'_>,
    ) -> Result<Synced, IndexError> {
        let reason = if force {
            Some("requested".to_owned())
        } else {
            let writer = self.writer.locked();
            writer.outdated(&self.setup)
        };
        let reason = match reason {
            None => {
                self.update(scope, progress).await?;
                self.other_width.map(|now| {
                    let before = self.width.unwrap_or_default();
                    format!("the vectors now have {now} dimensions (had {before})")
                })
            }
            some => some,
        };
        if let Some(reason) = reason {
            let width = self.other_width;
            self = reindex::run(self, width, progress).await?;
            self.synced.reindexed = Some(reason);
        }
        Ok(self.synced)
    }

    pub(crate) fn new(setup: Arc<Setup>, writer: Writer, synced: Synced) -> Self {
        let width = writer.identity.dims;
        let writer = Arc::new(Mutex::new(writer));
        let (batch_texts, gave_up, other_width) = (FIRST_TEXTS, false, None);
        Self { setup, writer, synced, batch_texts, gave_up, width, other_width }
    }

    /// Work with the writer, where it may block.
    pub(crate) async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer, &Setup) -> Result<T, IndexError> + Send + 'static,
    ) -> Result<T, IndexError> {
        let (writer, setup) = (self.writer.clone(), self.setup.clone());
        blocking(move || work(&mut writer.locked(), &setup)).await
    }

    pub(crate) async fn update(&mut self, scope: Scope, progress: &Progress<'_>) -> Result<(), IndexError> {
        let sources = scope.sources();
        let wants_vectors = self.setup.embedder.is_some();
        let (listed, changed, removed, skipped) = self
            .with(move |writer, setup| {
                let (listed, skipped) = writer.list(setup, sources)?;
                let removed = writer.removed(setup, &listed, sources)?;
                let known = writer.known(wants_vectors)?;
                let same =
                    |file: &Listed| known.get(&file.path) == Some(&(file.stamp.modified_ns, file.stamp.size));
                let count = listed.len();
                let changed: Vec<Listed> = listed.into_iter().filter(|file| !same(file)).collect();
                Ok((count, changed, removed, skipped))
            })
            .await?;
        self.synced.skipped = few(skipped);
        self.synced.files += listed;
        self.write_all(changed, progress).await?;
        self.synced.removed += removed.len();
        self.synced.chunks_removed += self.with(move |writer, _| writer.remove(&removed)).await?;
        if self.synced.embedded > 0 {
            self.with(|writer, setup| writer.prune(setup)).await?;
        }
        if self.synced.chunks_written >= MANY {
            self.with(|writer, _| writer.settle()).await?;
        }
        Ok(())
    }

    /// Batch by batch: while the vectors of one are made, the one before is written.
    async fn write_all(&mut self, changed: Vec<Listed>, progress: &Progress<'_>) -> Result<(), IndexError> {
        let total = changed.len();
        let mut rest = changed.into_iter();
        let mut ready = Ready::default();
        loop {
            let wants_vectors = self.setup.embedder.is_some() && !self.gave_up;
            let mut next = std::mem::take(&mut rest);
            let most = self.batch_texts;
            let (batch, left) = self
                .with(move |writer, setup| {
                    let batch = Batch::gather(writer, setup, &mut next, most, wants_vectors)?;
                    Ok((batch, next))
                })
                .await?;
            rest = left;
            self.synced.warnings.extend(batch.warnings);
            let writing = self.start_writing(std::mem::take(&mut ready));
            let files = self.embed(batch.files).await;
            writing.await.unwrap_or(Err(IndexError::Ended))?;
            self.count(&files);
            ready = Ready { files, touched: batch.touched };
            if rest.len() == 0 {
                self.start_writing(std::mem::take(&mut ready)).await.unwrap_or(Err(IndexError::Ended))?;
            }
            progress(Step {
                files_done: total - rest.len(),
                files_total: total,
                chunks_embedded: self.synced.embedded,
            });
            if rest.len() == 0 {
                return Ok(());
            }
        }
    }

    /// Writes files next to what else is done.
    fn start_writing(&self, ready: Ready) -> JoinHandle<Result<(), IndexError>> {
        let (writer, setup) = (self.writer.clone(), self.setup.clone());
        tokio::task::spawn_blocking(move || {
            let mut writer = writer.locked();
            writer.write(&ready.files, &setup)?;
            writer.stamp(&ready.touched, setup.clock.now().millis())
        })
    }

    fn count(&mut self, files: &[Prepared]) {
        self.synced.changed += files.len();
        for file in files {
            self.synced.chunks_written += file.added.len();
            // A chunk that is written again is not removed.
            let again = |id: &String| file.added.iter().any(|added| added.id == *id);
            self.synced.chunks_removed += file.gone.iter().filter(|(_, id)| !again(id)).count();
            self.synced.from_cache +=
                file.added.iter().filter(|added| added.vector.is_some() && !added.is_new).count();
        }
    }

    /// Makes the vectors that no cache had. Without them a chunk is still found by its words.
    async fn embed(&mut self, mut files: Vec<Prepared>) -> Vec<Prepared> {
        let Some(embedder) = self.setup.embedder.clone().filter(|_| !self.gave_up) else { return files };
        let cached = files.iter().flat_map(|file| &file.added).find_map(|added| added.vector.as_ref());
        self.width = self.width.or(cached.map(Vec::len));
        let mode = self.setup.settings.chunking.mode;
        let missing = || files.iter().flat_map(|file| &file.added).filter(|added| added.vector.is_none());
        let texts: Vec<String> = missing().map(|added| added.chunk.embedded(mode)).collect();
        if texts.is_empty() {
            return files;
        }
        let begin = Instant::now();
        let vectors = vectors_of(embedder.as_ref(), &texts).await;
        self.batch_texts = match begin.elapsed() {
            time if time < QUICK => (self.batch_texts * 2).min(MAX_TEXTS),
            time if time > SLOW => (self.batch_texts / 2).max(LEAST_TEXTS),
            _ => self.batch_texts,
        };
        let vectors = match vectors {
            Ok(vectors) => vectors.into_iter().map(Some).collect(),
            Err(error) if error.kind == EmbedErrorKind::Text => {
                self.one_by_one(embedder.as_ref(), &texts).await
            }
            Err(error) => {
                self.gave_up = true;
                self.synced.warnings.push(format!("{error}; using keyword search until it works"));
                return files;
            }
        };
        let vectors = self.of_one_width(vectors);
        let mut useless: Vec<String> = Vec::new();
        let mut vectors = vectors.into_iter();
        for file in &mut files {
            let mut zeros = 0;
            for added in file.added.iter_mut().filter(|added| added.vector.is_none()) {
                let made = vectors.next().flatten();
                zeros += usize::from(made.as_ref().is_some_and(|vector| !vector::has_direction(vector)));
                added.vector = made.filter(|vector| vector::has_direction(vector));
                added.is_new = added.vector.is_some();
                self.synced.embedded += usize::from(added.is_new);
            }
            if zeros > 0 {
                useless.push(format!(
                    "`{}`: the vectors of {} are all zero; only keywords find them",
                    file.listed.file.display(),
                    counted(zeros, "passage")
                ));
            }
        }
        self.synced.warnings.extend(few(useless));
        files
    }

    /// Without vectors that do not fit to those in the index. If the provider changed their length, all are made again.
    fn of_one_width(&mut self, vectors: Vec<Option<Vec<f32>>>) -> Vec<Option<Vec<f32>>> {
        let widths = || vectors.iter().flatten().map(Vec::len);
        self.width = self.width.or_else(|| widths().next());
        let width = self.width.unwrap_or_default();
        let Some(other) = widths().find(|other| *other != width) else { return vectors };
        self.gave_up = true;
        self.other_width = Some(other);
        vectors.into_iter().map(|vector| vector.filter(|vector| vector.len() == width)).collect()
    }

    /// A text that cannot be embedded does not block the others.
    async fn one_by_one(&mut self, embedder: &dyn Embedder, texts: &[String]) -> Vec<Option<Vec<f32>>> {
        let mut vectors = Vec::with_capacity(texts.len());
        let mut failure = None;
        for text in texts {
            match vectors_of(embedder, std::slice::from_ref(text)).await {
                Ok(mut one) => vectors.push(one.pop()),
                Err(error) => {
                    vectors.push(None);
                    failure = Some(error);
                }
            }
        }
        self.synced.warnings.extend(failure.map(|error| error.to_string()));
        vectors
    }
}

/// One vector for each text, checked.
pub(crate) async fn vectors_of(
    embedder: &dyn Embedder,
    texts: &[String],
) -> Result<Vec<Vec<f32>>, EmbedError> {
    let vectors = embedder.embed(texts, Purpose::Document).await?;
    let dims = vectors.first().map_or(0, Vec::len);
    let sound =
        |vector: &Vec<f32>| vector.len() == dims && dims > 0 && vector.iter().all(|value| value.is_finite());
    if vectors.len() == texts.len() && vectors.iter().all(sound) {
        return Ok(vectors);
    }
    let message = format!("{} returned unusable embeddings", embedder.origin().model);
    Err(EmbedError { kind: EmbedErrorKind::Other, message })
}

/// The first of many similar lines, and how many more there are.
pub(crate) fn few(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(MAX_LINES);
    lines.truncate(MAX_LINES);
    lines.extend((more > 0).then(|| format!("{} more have the same problem", counted(more, "file"))));
    lines
}

/// What is to be written.
#[derive(Default)]
struct Ready {
    files: Vec<Prepared>,
    touched: Vec<Listed>,
}

struct Batch {
    files: Vec<Prepared>,
    touched: Vec<Listed>,
    warnings: Vec<String>,
}

impl Batch {
    fn gather(
        writer: &Writer,
        setup: &Setup,
        rest: &mut std::vec::IntoIter<Listed>,
        most_texts: usize,
        wants_vectors: bool,
    ) -> Result<Self, IndexError> {
        let mut batch = Self { files: Vec::new(), touched: Vec::new(), warnings: Vec::new() };
        let (mut texts, mut bytes) = (0, 0);
        while texts < most_texts
            && bytes < BATCH_BYTES
            && batch.files.len() < BATCH_FILES
            && let Some(listed) = rest.next()
        {
            match writer.prepare(setup, listed.clone(), wants_vectors)? {
                Err(warning) => batch.warnings.push(warning),
                Ok(Change::Touched) => batch.touched.push(listed),
                Ok(Change::Write(prepared)) => {
                    texts += prepared.added.iter().filter(|added| added.vector.is_none()).count();
                    bytes += prepared.added.iter().map(|added| added.chunk.text.len()).sum::<usize>();
                    batch.files.push(*prepared);
                }
            }
        }
        Ok(batch)
    }
}
