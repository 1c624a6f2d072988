//! The index reader: detects a replaced file, and keeps quantised copies of the vectors in memory.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use super::answer::{Hit, Request, SearchAnswer};
use super::focus::{self, Snippet};
use super::fuse::{self, Candidate, Candidates, Dated};
use super::seed::Formula;
use super::{keyword, seed};
use crate::dates;
use crate::index::database::{self, Opened};
use crate::index::error::IndexError;
use crate::index::identity::Identity;
use crate::index::reindex::Opening;
use crate::index::{cache, claim};
use crate::settings::SearchMode;
use crate::setup::Setup;
use crate::source::{self, FileId, Provenance, Source};
use crate::vector::{self, Collection};
use crate::workspace::Space;

/// How many each way finds.
const CANDIDATES: usize = 200;
const MAX_CANDIDATES: usize = 200;
/// So many of the nearest are compared exactly.
const EXACT: usize = 24;
/// So many of the best are looked at for their dates and texts.
const LOOKED_AT: usize = 24;
/// With so many copies of what is gone, all are read again.
const MAX_GONE: usize = 1000;

pub(crate) struct Reader {
    path: PathBuf,
    vectors: bool,
    /// The key of the only workspace whose index may be read.
    owner: Option<String>,
    open: Option<Open>,
}

struct Open {
    opened: Opened,
    file: FileId,
    collection: Collection,
    /// When the copies were read.
    version: Option<i64>,
}

/// Which file a name leads to.
fn file_id(path: &Path) -> Option<FileId> {
    source::file_id(path, &std::fs::metadata(path).ok()?)
}

impl Reader {
    pub(crate) fn new(path: PathBuf, vectors: bool, owner: Option<String>) -> Self {
        Self { path, vectors, owner, open: None }
    }

    pub(crate) fn close(&mut self) {
        self.open = None;
    }

    /// The file as it is now; `None` when there is none.
    fn open(&mut self) -> Result<Option<&mut Open>, IndexError> {
        let file = file_id(&self.path);
        if self.open.as_ref().map(|open| &open.file) != file.as_ref() {
            self.open = None;
        }
        if self.open.is_none() {
            let _apart = Opening::shared(&self.path);
            let mut opened = database::open_to_read(&self.path, self.vectors)?;
            if let (Some(there), Some(owner)) = (&opened, &self.owner)
                && !claim::is_of(&there.connection, owner)
                    .map_err(|source| IndexError::of(&self.path, source))?
            {
                // The index of another workspace; the next sync takes it over.
                opened = None;
            }
            let file = file_id(&self.path);
            self.open = opened.zip(file).map(|(opened, file)| Open {
                opened,
                file,
                collection: Collection::default(),
                version: None,
            });
        }
        Ok(self.open.as_mut())
    }

    /// Work on the index as it is at one moment; `None` when there is none.
    pub(crate) fn with<T>(
        &mut self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, IndexError> {
        let path = self.path.clone();
        let Some(open) = self.open()? else { return Ok(None) };
        work(&open.opened.connection).map(Some).map_err(|source| IndexError::of(&path, source))
    }

    pub(crate) fn search(
        &mut self,
        setup: &Setup,
        request: &Request,
        vector: Option<&[f32]>,
        degraded: Option<String>,
    ) -> Result<SearchAnswer, IndexError> {
        let path = self.path.clone();
        let mut answer = SearchAnswer {
            hits: Vec::new(),
            mode: request.mode.unwrap_or(setup.settings.query.mode),
            provider: None,
            model: None,
            degraded,
            warnings: Vec::new(),
        };
        let Some(open) = self.open()? else {
            answer.warnings.push("nothing has been indexed yet".to_owned());
            return Ok(answer);
        };
        let result = open.search(setup, request, vector, &mut answer);
        if result.is_err() {
            // The next query reopens the file.
            self.open = None;
        }
        result.map_err(|source| IndexError::of(&path, source))?;
        Ok(answer)
    }
}

impl Open {
    fn search(
        &mut self,
        setup: &Setup,
        request: &Request,
        vector: Option<&[f32]>,
        answer: &mut SearchAnswer,
    ) -> rusqlite::Result<()> {
        let version: i64 =
            self.opened.connection.pragma_query_value(None, "data_version", |row| row.get(0))?;
        let Opened { connection, has_vectors } = &mut self.opened;
        let snapshot = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
        if !database::has_table(&snapshot, "chunks")? {
            return Ok(());
        }
        let identity = Identity::read(&snapshot)?;
        let is_complete = database::is_complete(&snapshot)?;
        if let Some(identity) = identity.as_ref().filter(|identity| identity.has_vectors()) {
            answer.provider = Some(identity.origin.provider.clone());
            answer.model = Some(identity.origin.model.clone());
        }
        // Vectors of another origin say nothing about this one's.
        let same_origin = identity.as_ref().is_some_and(|identity| identity.origin == setup.origin());
        let vector = vector.filter(|_| setup.settings.query.hybrid);
        let dims = identity.as_ref().and_then(|identity| identity.dims);
        let usable = vector.filter(|vector| same_origin && dims.is_none_or(|dims| dims == vector.len()));
        if vector.is_some() && usable.is_none() {
            let how = if same_origin {
                "vectors of another length; run `pollux memory index --force`"
            } else {
                "another model; run `pollux memory index`"
            };
            answer.degraded = Some(format!("the index was built with {how} to rebuild it"));
        }
        let question = Question { setup, request, vector: usable, sources: sources(setup, request) };
        if answer.mode == SearchMode::Seed || !is_complete {
            let model = identity.map(|identity| identity.origin.model).unwrap_or_default();
            answer.hits = question.by_formula(&snapshot, &model, *has_vectors)?;
            return Ok(());
        }
        if question.vector.is_some() && self.version != Some(version) {
            load(&snapshot, &mut self.collection)?;
            self.version = Some(version);
        }
        answer.hits = question.by_fusion(&snapshot, &self.collection)?;
        Ok(())
    }
}

/// The sources that are asked: those of the settings, or the one of the request among them.
fn sources(setup: &Setup, request: &Request) -> Vec<Source> {
    setup
        .settings
        .sources
        .iter()
        .copied()
        .filter(|source| request.source.is_none_or(|only| only == *source))
        .collect()
}

/// Reads the copies that are new. Numbers only grow, so what is gone is noticed by its number of rows.
fn load(snapshot: &Transaction<'_>, collection: &mut Collection) -> rusqlite::Result<()> {
    let (count, dims): (i64, Option<i64>) = snapshot.query_row(
        "SELECT count(*), (SELECT length(q8) FROM pollux_q8 LIMIT 1) FROM pollux_q8",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let count = usize::try_from(count).unwrap_or(0);
    let newer: i64 = snapshot.query_row(
        "SELECT count(*) FROM pollux_q8 WHERE number > ?1",
        [collection.last()],
        |row| row.get(0),
    )?;
    let gone = (collection.len() + usize::try_from(newer).unwrap_or(0)).saturating_sub(count);
    if gone > MAX_GONE.min(count / 10) {
        *collection = Collection::default();
    }
    if collection.len() == 0 {
        collection.reserve(count, usize::try_from(dims.unwrap_or(0)).unwrap_or(0));
    }
    let mut statement = snapshot.prepare_cached(
        "SELECT number, source, scale, q8 FROM pollux_q8 WHERE number > ?1 ORDER BY number",
    )?;
    let mut rows = statement.query([collection.last()])?;
    while let Some(row) = rows.next()? {
        let source = u8::try_from(row.get::<_, i64>(1)?).unwrap_or(u8::MAX);
        collection.push(row.get(0)?, source, row.get::<_, f64>(2)? as f32, row.get_ref(3)?.as_blob()?);
    }
    Ok(())
}

/// Whether there is anything that is not of this source.
fn has_others(snapshot: &Transaction<'_>, source: Source) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS(SELECT 1 FROM chunks WHERE source < ?1) OR EXISTS(SELECT 1 FROM chunks WHERE source > ?1)";
    snapshot.prepare_cached(sql)?.query_row([source.as_str()], |row| row.get(0))
}

struct Question<'a> {
    setup: &'a Setup,
    request: &'a Request,
    vector: Option<&'a [f32]>,
    sources: Vec<Source>,
}

impl Question<'_> {
    fn max_results(&self) -> usize {
        self.request.max_results.unwrap_or(self.setup.settings.query.max_results).clamp(1, MAX_CANDIDATES)
    }

    fn min_score(&self) -> f64 {
        self.request.min_score.unwrap_or(self.setup.settings.query.min_score).clamp(0.0, 1.0)
    }

    fn by_formula(
        &self,
        snapshot: &Transaction<'_>,
        model: &str,
        has_vectors: bool,
    ) -> rusqlite::Result<Vec<Hit>> {
        if self.request.query.is_empty() || self.sources.is_empty() {
            return Ok(Vec::new());
        }
        let settings = &self.setup.settings.query;
        let wanted = (self.max_results() as f64 * settings.candidate_multiplier).floor() as usize;
        let formula = Formula {
            question: &self.request.query,
            vector: self.vector,
            model,
            sources: &self.sources,
            weights: settings.weights.unwrap_or((0.7, 0.3)),
            candidates: wanted.clamp(1, MAX_CANDIDATES),
            min_score: self.min_score(),
            max_results: self.max_results(),
            has_vectors,
        };
        let mut hits = Vec::new();
        let has_side = database::has_table(snapshot, "pollux_chunks")?;
        for (id, explain) in seed::search(snapshot, &formula)? {
            let number = if has_side {
                snapshot
                    .query_row("SELECT number FROM pollux_chunks WHERE id = ?1", [&id], |row| row.get(0))
                    .optional()?
            } else {
                None
            };
            let row = Row::by_id(snapshot, &id, number)?;
            let row = row.filter(|row| self.setup.admits(&row.path, row.source));
            hits.extend(row.map(|row| row.hit(explain, focus::beginning)));
        }
        Ok(hits)
    }

    fn by_fusion(&self, snapshot: &Transaction<'_>, collection: &Collection) -> rusqlite::Result<Vec<Hit>> {
        let question = self.request.query.as_str();
        if question.is_empty() || self.sources.is_empty() {
            return Ok(Vec::new());
        }
        let count = CANDIDATES.max(self.max_results());
        let only = match self.sources.as_slice() {
            [one] if has_others(snapshot, *one)? => Some(*one),
            _ => None,
        };
        let now = self.setup.clock.now();
        let chunks: i64 = snapshot
            .prepare_cached("SELECT coalesce(max(number), 0) FROM pollux_chunks")?
            .query_row([], |row| row.get(0))?;
        let meant = dates::meant(question, now);
        let by_words = || -> rusqlite::Result<_> {
            let mut named = keyword::named(snapshot, question, count)?;
            named.extend(keyword::of_file(snapshot, question)?);
            Ok((keyword::search(snapshot, question, &meant, count, only, chunks)?, named))
        };
        // The vectors are in memory, so they are compared while the words are looked up.
        let ((words, named), nearest) = match self.vector {
            None => (by_words()?, Vec::new()),
            Some(query) => std::thread::scope(|scope| -> rusqlite::Result<_> {
                let nearest =
                    scope.spawn(|| collection.nearest(query, count, only.map(|source| source as u8)));
                // A panicked thread contributes no results.
                Ok((by_words()?, nearest.join().unwrap_or_default()))
            })?,
        };
        let found = Candidates { words, near: self.exactly(snapshot, nearest)?, named };
        let mut candidates = fuse::fuse(&found, self.weights(), self.min_score());
        if self.setup.space != Space::Unassigned {
            candidates.truncate(LOOKED_AT.max(3 * self.max_results()));
        }
        let (mut candidates, rows) = self.rows(snapshot, candidates)?;
        for (candidate, row) in candidates.iter_mut().zip(&rows) {
            fuse::age(candidate, row.date.as_deref(), dates::day_of(now));
        }
        let texts: Vec<Dated<'_>> =
            rows.iter().map(|row| Dated { date: row.date.as_deref(), text: &row.text }).collect();
        fuse::supersede(&mut candidates, &texts, question);
        let mut best: Vec<(Candidate, Row)> = candidates.into_iter().zip(rows).collect();
        best.sort_by(|(a, _), (b, _)| fuse::order(a, b));
        best.truncate(self.max_results());
        let hit = |(candidate, row): (Candidate, Row)| {
            row.hit(candidate.explain, |text| focus::around(text, question))
        };
        Ok(best.into_iter().map(hit).collect())
    }

    /// What is in the wanted sources, with the rows.
    fn rows(
        &self,
        snapshot: &Transaction<'_>,
        candidates: Vec<Candidate>,
    ) -> rusqlite::Result<(Vec<Candidate>, Vec<Row>)> {
        let mut kept = (Vec::new(), Vec::new());
        for candidate in candidates {
            if let Some(row) = Row::by_number(snapshot, candidate.number)?
                .filter(|row| self.sources.contains(&row.source) && self.setup.admits(&row.path, row.source))
            {
                kept.0.push(candidate);
                kept.1.push(row);
            }
        }
        Ok(kept)
    }

    fn weights(&self) -> (f64, f64) {
        let is_local = self.setup.origin().provider == "local";
        let settings = &self.setup.settings.query;
        // Small models know less than the words do; measured with the bench `retrieval`.
        settings.weights.unwrap_or(if is_local { (0.4, 0.6) } else { (0.7, 0.3) })
    }

    /// The nearest by their copies, the best of them exactly.
    fn exactly(
        &self,
        snapshot: &Transaction<'_>,
        nearest: Vec<(i64, f64)>,
    ) -> rusqlite::Result<Vec<(i64, f64)>> {
        let Some(query) = self.vector else { return Ok(Vec::new()) };
        let sql = "SELECT c.embedding FROM pollux_chunks p JOIN chunks c ON c.id = p.id WHERE p.number = ?1";
        let mut statement = snapshot.prepare_cached(sql)?;
        let mut near = Vec::with_capacity(nearest.len());
        for (place, (number, cosine)) in nearest.into_iter().enumerate() {
            if place >= EXACT {
                near.push((number, cosine));
                continue;
            }
            let exact = statement
                .query_row([number], |row| {
                    Ok(vector::cosine(query, &cache::parse(row.get_ref(0)?.as_str()?)))
                })
                .optional()?;
            // Without a row it is gone.
            near.extend(exact.map(|exact| (number, exact)));
        }
        Ok(near)
    }
}

/// A chunk as it is shown.
struct Row {
    path: String,
    source: Source,
    start_line: usize,
    end_line: usize,
    text: String,
    provenance: Provenance,
    date: Option<String>,
}

impl Row {
    fn by_number(connection: &Connection, number: i64) -> rusqlite::Result<Option<Self>> {
        let sql = "SELECT c.path, c.source, c.start_line, c.end_line, c.text, p.provenance, p.date
                   FROM pollux_chunks p JOIN chunks c ON c.id = p.id WHERE p.number = ?1";
        connection.prepare_cached(sql)?.query_row([number], Self::read).optional()
    }

    fn by_id(connection: &Connection, id: &str, number: Option<i64>) -> rusqlite::Result<Option<Self>> {
        if let Some(number) = number {
            return Self::by_number(connection, number);
        }
        let sql =
            "SELECT path, source, start_line, end_line, text, 'untrusted', NULL FROM chunks WHERE id = ?1";
        connection.prepare_cached(sql)?.query_row([id], Self::read).optional()
    }

    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            path: row.get(0)?,
            source: Source::parse(row.get_ref(1)?.as_str()?).unwrap_or(Source::Memory),
            start_line: row.get::<_, f64>(2)? as usize,
            end_line: row.get::<_, f64>(3)? as usize,
            text: row.get(4)?,
            provenance: Provenance::parse(row.get_ref(5)?.as_str()?),
            date: row.get(6)?,
        })
    }

    fn hit(self, explain: super::answer::Explain, cut: impl FnOnce(&str) -> Snippet) -> Hit {
        let Snippet { text, focus } = cut(&self.text);
        Hit {
            snippet: text,
            focus,
            path: self.path,
            source: self.source,
            start_line: self.start_line,
            end_line: self.end_line,
            score: explain.sum(),
            provenance: self.provenance,
            date: self.date,
            explain,
        }
    }
}
