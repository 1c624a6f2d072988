//! What a run is asked to be: plain values, wherever they come from.
//!
//! A command line, an editor or a server fills a [`Request`]; the host reads it and nothing else of theirs.

use std::path::PathBuf;

use pollux_domain::approval::ApprovalMode;
use pollux_domain::id::SessionId;
use serde_json::Value;

/// Everything a run is told on the command line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// `--prompt`, `--prompt-interactive` or the words without a flag.
    pub prompt: Option<String>,
    pub session: SessionChoice,
    /// `--approval-mode` or `--yolo`. Not a settings override: `yolo` may not come from settings.
    pub approval: Option<ApprovalMode>,
    /// Dotted settings keys with the values that beat every file.
    pub overrides: Vec<(String, Value)>,
    /// `--allowed-tools`
    pub allowed_tools: Vec<String>,
    /// `--extensions`: only these; `none` for none.
    pub extensions: Vec<String>,
    /// `--include-directories`
    pub include_directories: Vec<String>,
    /// `--sandbox` or `--sandbox=false`.
    pub sandbox: Option<bool>,
    pub skip_trust: bool,
    pub raw_output: RawOutput,
    /// `--debug`, `DEBUG` or `DEBUG_MODE`.
    pub debug: bool,
    /// `--ignore-env`: plain `.env` files of the project are not read.
    pub ignore_env: bool,
    pub script: ScriptedModel,
    /// The run is the tour: what tools do is told, too.
    pub tour: bool,
    /// Words that a front end's own slash commands take.
    pub reserved: Reserved,
    /// Lines for stderr about flags that have no effect yet.
    pub remarks: Vec<String>,
}

/// Which conversation a run belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SessionChoice {
    #[default]
    New,
    /// `--session-id`: new, under this id.
    NewWithId(SessionId),
    /// `--resume`
    Resume(Resumed),
    /// `--session-file`: a copy of this file under a fresh id.
    Import(PathBuf),
}

/// The conversation that a run goes on with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resumed {
    /// `latest`, an index, an id or its beginning, trimmed.
    pub which: String,
    /// Not only this project's sessions.
    pub all_projects: bool,
    /// In a copy under an id of its own.
    pub fork: bool,
}

/// What may reach the terminal from the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RawOutput {
    /// Control sequences are removed.
    #[default]
    Stripped,
    /// They pass, and a warning says so.
    Raw,
    /// They pass without a word.
    RawAccepted,
}

/// The hidden test hooks that replace or record the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScriptedModel {
    /// `--fake-responses` or `--fake-responses-non-strict`.
    pub replies: Option<Replies>,
    /// `--record-responses`
    pub record: Option<PathBuf>,
}

/// A file of scripted replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replies {
    pub file: PathBuf,
    pub order: ReplyOrder,
}

/// How scripted replies are handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyOrder {
    /// Line by line, whatever is asked for.
    Strict,
    /// The first line left that fits.
    FirstFitting,
}

/// Which settings file is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    User,
    Project,
}

/// Names of slash commands that no file or server can take, without the slash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reserved(pub &'static [&'static str]);

impl Reserved {
    pub fn contains(self, word: &str) -> bool {
        self.0.contains(&word)
    }
}
