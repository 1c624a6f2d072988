//! Sessions in lists, and what is shown before it is done.

use std::path::PathBuf;

use pollux_domain::JsonObject;
use pollux_domain::failure::Failure;

/// Something that is shown before it is done.
pub struct Proposal<P, R> {
    pub plan: P,
    pub carry_out: Box<dyn FnOnce() -> Result<R, Failure>>,
}

/// A session in a list.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// What `--resume` takes, where it is one of this project's.
    pub number: Option<usize>,
    pub source: &'static str,
    pub id: String,
    pub title: String,
    /// The project's path, or what is known of it.
    pub project: String,
    pub age: String,
    pub messages: Option<u64>,
    /// The id of the session that started it.
    pub parent: Option<String>,
    pub is_subagent: bool,
    pub damaged: bool,
    /// Everything, for programs.
    pub json: JsonObject,
}

/// What is to go.
#[derive(Debug, Clone, Default)]
pub struct Removals {
    pub sessions: Vec<Removal>,
    /// Files that belong to no session any more.
    pub leftovers: Vec<PathBuf>,
    pub kept: usize,
    /// What the settings say, in words.
    pub rule: Option<String>,
}

/// A session that is to go, with its files.
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

/// What went.
#[derive(Debug, Clone, Default)]
pub struct Removed {
    pub sessions: Vec<String>,
    pub leftovers: usize,
    /// Sessions that stayed, and why.
    pub skipped: Vec<(String, String)>,
}
