//! The input types of the recorder: new sessions, replies, calls and results.

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

/// A new session.
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

#[cfg(test)]
impl NewSession {
    /// A session for tests, in this folder.
    pub(crate) fn of_test(folder: &std::path::Path, format: SessionFormat, now: Timestamp) -> Self {
        Self {
            id: SessionId::from_file("11111111-2222-3333-4444-555555555555"),
            project_hash: "abc".into(),
            chats_dir: folder.to_path_buf(),
            format,
            kind: SessionKind::Main,
            now,
        }
    }
}

/// A reply of the model, complete and valid.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplyRecord {
    /// The content; calls are in `calls`, and also here if their position among the parts matters.
    pub parts: Vec<Part>,
    pub thoughts: Vec<(Thought, Timestamp)>,
    pub usage: Option<Usage>,
    pub model: String,
    /// The model that replied, if known.
    pub origin: Option<Arc<Origin>>,
    pub calls: Vec<CallRecord>,
}

/// A call as requested by the model.
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
    /// The response for the model.
    pub result: Vec<Part>,
    /// The display for the user.
    pub display: Display,
}

pub(crate) fn extension(format: SessionFormat) -> &'static str {
    match format {
        SessionFormat::Json => "json",
        SessionFormat::Jsonl => "jsonl",
    }
}
