//! What a recorder is told: a session that begins, replies, calls and their results.

use std::path::PathBuf;
use std::sync::Arc;

use pollux_config::groups::SessionFormat;
use pollux_domain::JsonObject;
use pollux_domain::content::{Part, Seal};
use pollux_domain::event::{CallStatus, Thought};
use pollux_domain::id::{CallId, SessionId};
use pollux_domain::model::{Origin, Usage};
use pollux_domain::time::Timestamp;
use pollux_domain::tool::Display;

use crate::kind::SessionKind;

/// A session that is about to begin.
#[derive(Debug, Clone)]
pub struct NewSession {
    pub id: SessionId,
    pub project_hash: String,
    /// Where the file goes; created if need be.
    pub chats_dir: PathBuf,
    pub format: SessionFormat,
    pub kind: SessionKind,
    pub now: Timestamp,
}

/// A reply of the model, complete and valid.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplyRecord {
    /// What was said; calls are in `calls`, and here as well only where their place among the parts matters.
    pub parts: Vec<Part>,
    pub thoughts: Vec<(Thought, Timestamp)>,
    pub usage: Option<Usage>,
    pub model: String,
    /// Who said it, if its client knows.
    pub origin: Option<Arc<Origin>>,
    pub calls: Vec<CallRecord>,
}

/// A call as the model asked for it.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRecord {
    pub id: CallId,
    pub name: String,
    pub args: JsonObject,
    pub seal: Option<Seal>,
    pub display_name: String,
    pub description: String,
    pub markdown: bool,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub struct CallResult {
    pub id: CallId,
    pub status: CallStatus,
    /// What the model gets.
    pub result: Vec<Part>,
    /// What people see.
    pub display: Display,
}

pub(crate) fn extension(format: SessionFormat) -> &'static str {
    match format {
        SessionFormat::Json => "json",
        SessionFormat::Jsonl => "jsonl",
    }
}
