//! Data types for session lists and for deletions that are confirmed first.

use std::path::PathBuf;

use pollux_domain::JsonObject;
use pollux_domain::failure::Failure;

/// An action to confirm before it runs.
pub struct Proposal<P, R> {
    pub plan: P,
    pub carry_out: Box<dyn FnOnce() -> Result<R, Failure>>,
}

/// A session in a list.
#[derive(Debug, Clone, Default)]
pub struct SessionRow {
    /// The number for `--resume`, for sessions of this project.
    pub number: Option<usize>,
    pub source: &'static str,
    pub id: String,
    pub title: String,
    /// The project's path, or a placeholder.
    pub project: String,
    pub age: String,
    pub messages: Option<u64>,
    /// The id of the session that started it.
    pub parent: Option<String>,
    pub is_subagent: bool,
    pub damaged: bool,
    /// All details, for JSON output.
    pub json: JsonObject,
}

/// The planned deletions.
#[derive(Debug, Clone, Default)]
pub struct Removals {
    pub sessions: Vec<Removal>,
    /// Orphaned files.
    pub leftovers: Vec<PathBuf>,
    pub kept: usize,
    /// The retention rule as text.
    pub rule: Option<String>,
}

/// A session to delete, with its files.
#[derive(Debug, Clone)]
pub struct Removal {
    pub id: String,
    pub title: String,
    pub age: String,
    pub reason: Option<&'static str>,
    /// The session's own files first.
    pub paths: Vec<PathBuf>,
    pub bytes: u64,
}

/// The completed deletions.
#[derive(Debug, Clone, Default)]
pub struct Removed {
    pub sessions: Vec<String>,
    pub leftovers: usize,
    /// Sessions that were kept, and why.
    pub skipped: Vec<(String, String)>,
}
