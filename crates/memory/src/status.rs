//! Reports the contents and the health of the memory (`pollux memory status` and `doctor`).

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::index::database;
use crate::index::error::IndexError;
use crate::index::identity::Identity;
use crate::index::sync::{blocking, few};
use crate::lock::{self, Patience};
use crate::memory::Memory;
use crate::setup::Setup;
use crate::source::{Listed, Source};
use crate::workspace::Space;

/// What there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub files: u64,
    pub chunks: u64,
    /// Whether the index is out of date.
    pub dirty: bool,
    /// Why everything has to be indexed again.
    pub outdated: Option<String>,
    pub agent: String,
    pub space: Space,
    pub workspace: String,
    pub index: String,
    pub index_bytes: u64,
    pub requested_provider: String,
    /// The embedding model of the index.
    pub provider: Option<String>,
    pub model: Option<String>,
    pub sources: Vec<Source>,
    /// Files and chunks of each source.
    pub counts: Vec<(Source, u64, u64)>,
    pub cache_entries: u64,
    /// Chunks without embeddings.
    pub pending: u64,
    pub dims: Option<usize>,
    /// Whether vectors have a table of their own.
    pub has_vector_table: bool,
    pub learnings: u64,
    pub sessions: u64,
    cache_enabled: bool,
    cache_max: usize,
    vector_enabled: bool,
}

impl Status {
    /// The documented form.
    pub fn to_json(&self) -> Value {
        let sources: Vec<&str> = self.sources.iter().map(|source| source.as_str()).collect();
        let counts: Vec<Value> = self
            .counts
            .iter()
            .map(|(source, files, chunks)| json!({"source": source.as_str(), "files": files, "chunks": chunks}))
            .collect();
        json!({
            "files": self.files, "chunks": self.chunks, "dirty": self.dirty, "outdated": self.outdated,
            "agentId": self.agent, "workspaceDir": self.workspace, "shared": self.space == Space::Shared,
            "dbPath": self.index, "dbBytes": self.index_bytes, "provider": self.provider, "model": self.model,
            "requestedProvider": self.requested_provider, "sources": sources, "sourceCounts": counts,
            "cache": {"enabled": self.cache_enabled, "entries": self.cache_entries, "maxEntries": self.cache_max},
            "fts": {"enabled": true, "available": true},
            "vector": {"enabled": self.vector_enabled, "available": self.has_vector_table, "dims": self.dims},
            "pending": self.pending, "learnings": self.learnings, "sessions": self.sessions,
        })
    }
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Ok,
    Warning,
    Problem,
}

impl Level {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    pub what: String,
    pub hint: Option<&'static str>,
}

impl Finding {
    fn new(level: Level, what: impl Into<String>, hint: Option<&'static str>) -> Self {
        Self { level, what: what.into(), hint }
    }
}

impl Memory {
    pub async fn status(&self) -> Result<Status, IndexError> {
        self.read(|reader, setup| {
            let mut status = empty(setup);
            let listed = listed(setup)?;
            let filled = reader.with(|connection| fill(connection, setup, &mut status, &listed))?;
            if filled.is_none() {
                status.dirty = !listed.is_empty();
            }
            Ok(status)
        })
        .await
    }

    /// Runs all checks without changing anything.
    pub async fn doctor(&self) -> Vec<Finding> {
        let setup = self.shared_setup();
        let mut findings = blocking(move || Ok(folders(&setup))).await.unwrap_or_default();
        let index = self
            .read(|reader, setup| {
                let checked = reader.with(check);
                let damaged = Some("run `pollux memory index --force` to rebuild it");
                Ok(match checked {
                    Ok(Some(findings)) => findings,
                    Ok(None) => vec![Finding::new(
                        Level::Warning,
                        "no index yet",
                        Some("run `pollux memory index` to build it"),
                    )],
                    Err(error) => {
                        vec![Finding::new(Level::Problem, error.to_string(), error.hint().or(damaged))]
                    }
                }
                .into_iter()
                .chain(provider(setup))
                .chain(skipped(setup))
                .collect::<Vec<_>>())
            })
            .await;
        match index {
            Ok(more) => findings.extend(more),
            Err(error) => findings.push(Finding::new(Level::Problem, error.to_string(), error.hint())),
        }
        findings
    }
}

fn empty(setup: &Setup) -> Status {
    let index = setup.index_file();
    Status {
        files: 0,
        chunks: 0,
        dirty: false,
        outdated: None,
        agent: setup.agent.id().as_str().to_owned(),
        space: setup.space,
        workspace: setup.workspace.display().to_string(),
        index_bytes: std::fs::metadata(&index).map_or(0, |meta| meta.len()),
        index: index.display().to_string(),
        requested_provider: setup.settings.provider.as_str().to_owned(),
        provider: None,
        model: None,
        sources: setup.settings.sources.clone(),
        counts: Vec::new(),
        cache_entries: 0,
        pending: 0,
        dims: None,
        has_vector_table: false,
        learnings: setup.learnings().list().map_or(0, |all| all.len() as u64),
        sessions: setup.transcripts().here.len() as u64,
        cache_enabled: setup.settings.cache.enabled,
        cache_max: setup.settings.cache.max_entries,
        vector_enabled: setup.settings.store.vector,
    }
}

/// What an index should hold.
fn listed(setup: &Setup) -> Result<Vec<Listed>, IndexError> {
    let forgotten = setup.forgotten()?;
    let mut listed = Vec::new();
    for source in &setup.settings.sources {
        match source {
            Source::Memory => listed.extend(setup.places().list()),
            Source::Sessions => listed.extend(setup.transcripts().here),
        }
    }
    listed.retain(|file| !forgotten.has_path(&file.path));
    Ok(listed)
}

fn fill(
    connection: &Connection,
    setup: &Setup,
    status: &mut Status,
    listed: &[Listed],
) -> rusqlite::Result<()> {
    let count = |sql: &str| {
        connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map(|count| count.unsigned_abs())
    };
    if !database::has_table(connection, "chunks")? {
        return Ok(());
    }
    status.files = count("SELECT count(*) FROM files")?;
    status.chunks = count("SELECT count(*) FROM chunks")?;
    status.cache_entries = count("SELECT count(*) FROM embedding_cache")?;
    for source in [Source::Memory, Source::Sessions] {
        let of = |table: &str| {
            count(&format!("SELECT count(*) FROM {table} WHERE source = '{}'", source.as_str()))
        };
        status.counts.push((source, of("files")?, of("chunks")?));
    }
    if let Some(identity) = Identity::read(connection)? {
        status.outdated = identity.outdated(setup);
        status.dirty = status.outdated.is_some();
        status.dims = identity.dims;
        if identity.has_vectors() {
            status.provider = Some(identity.origin.provider);
            status.model = Some(identity.origin.model);
        }
    }
    status.has_vector_table = database::has_table(connection, "chunks_vec")?;
    if database::is_complete(connection)? {
        status.pending = count("SELECT count(*) FROM pollux_chunks WHERE embedded = 0")?;
        let mut statement =
            connection.prepare("SELECT size, modified_ns FROM pollux_files WHERE path = ?1")?;
        for file in listed {
            let same = statement.query_row([&file.path], |row| {
                Ok(row.get::<_, i64>(0)? == file.stamp.size
                    && row.get::<_, i64>(1)? == file.stamp.modified_ns)
            });
            status.dirty |= !same.unwrap_or(false);
        }
    }
    Ok(())
}

fn folders(setup: &Setup) -> Vec<Finding> {
    let mut findings = Vec::new();
    match setup.agent.loose() {
        Ok(loose) if loose.is_empty() => {
            findings.push(Finding::new(Level::Ok, "the state directory is private", None))
        }
        Ok(loose) => findings.extend(loose.iter().map(|path| {
            let what = format!("`{}` is readable by other users", path.display());
            Finding::new(Level::Warning, what, Some("run `pollux memory index` to make it private"))
        })),
        Err(error) => findings.push(Finding::new(Level::Problem, error.to_string(), error.hint())),
    }
    let index = setup.index_file();
    for file in [setup.agent.store_file(), index.clone()] {
        let path = lock::path_of(&file);
        if path.exists() && !lock::is_held(&file, Patience::INDEX_STALE) {
            let what = format!("`{}` is a stale lock: its process has exited", path.display());
            findings.push(Finding::new(Level::Warning, what, Some("the next writer removes it")));
        }
    }
    let folders = [Some(setup.agent.agent_dir()), index.parent().map(std::path::Path::to_owned)];
    let folders: std::collections::BTreeSet<_> = folders.into_iter().flatten().collect();
    let aside = folders.into_iter().flat_map(std::fs::read_dir).flatten().filter_map(Result::ok);
    for entry in aside.filter(|entry| entry.file_name().to_string_lossy().contains(".corrupt-")) {
        let what = format!("`{}` is a damaged index that was set aside", entry.path().display());
        findings.push(Finding::new(Level::Warning, what, Some("delete it once you no longer need it")));
    }
    findings
}

fn provider(setup: &Setup) -> Option<Finding> {
    let hint = Some("set `memory.provider`, or install a local model");
    setup
        .embedder
        .is_none()
        .then(|| Finding::new(Level::Warning, "no embedding provider: keyword search only", hint))
}

/// Notes that are not in the index.
fn skipped(setup: &Setup) -> impl Iterator<Item = Finding> {
    let skipped = few(setup.places().look().skipped).into_iter();
    skipped.map(|what| Finding::new(Level::Warning, what, None))
}

fn check(connection: &Connection) -> rusqlite::Result<Vec<Finding>> {
    let rebuild = Some("run `pollux memory index --force` to rebuild it");
    let mut findings = Vec::new();
    let answer: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if answer != "ok" {
        return Ok(vec![Finding::new(Level::Problem, format!("the index is damaged: {answer}"), rebuild)]);
    }
    if !database::is_complete(connection)? {
        return Ok(vec![Finding::new(
            Level::Warning,
            "the index was created by another program",
            Some("run `pollux memory index` to complete it"),
        )]);
    }
    let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let chunks = count("SELECT count(*) FROM chunks")?;
    for (table, sql) in [
        ("gimli's keyword index", "SELECT count(*) FROM chunks_fts_content"),
        ("the keyword index", "SELECT count(*) FROM pollux_fts_docsize"),
        ("the provenance table", "SELECT count(*) FROM pollux_chunks"),
    ] {
        let rows = count(sql)?;
        if rows != chunks {
            findings.push(Finding::new(
                Level::Problem,
                format!("{table} has {rows} rows for {chunks} chunks"),
                rebuild,
            ));
        }
    }
    let orphans = count("SELECT count(*) FROM chunks WHERE path NOT IN (SELECT path FROM files)")?;
    if orphans > 0 {
        findings.push(Finding::new(Level::Problem, format!("{orphans} chunks belong to no file"), rebuild));
    }
    let pending = count("SELECT count(*) FROM pollux_chunks WHERE embedded = 0")?;
    if pending > 0 {
        findings.push(Finding::new(
            Level::Warning,
            format!("{pending} of {chunks} chunks have no embedding yet"),
            Some("configure an embedding provider, then run `pollux memory index`"),
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::new(Level::Ok, format!("the index is intact: {chunks} chunks"), None));
    }
    Ok(findings)
}
