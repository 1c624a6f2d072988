//! Extracts what an index stores of one session, in one pass.

use std::path::{Path, PathBuf};

use pollux_config::groups::SessionFormat;
use pollux_domain::JsonObject;
use pollux_domain::id::SessionId;
use pollux_domain::model::Usage;
use pollux_domain::time::Timestamp;
use serde_json::{Value, json};

use crate::kind::{SessionKind, kind_of};
use crate::load::{self, FileStamp, LoadError, time_of};
use crate::raw;
use crate::stream::Stream;
use crate::title::clean;
use crate::view::{Outcome, Speaker, View};

/// One session in an index.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexRecord {
    pub session_id: SessionId,
    pub project_hash: Option<String>,
    /// Not in the file; filled in by the caller.
    pub project_path: Option<PathBuf>,
    /// Whether the path is a guess.
    pub inferred: bool,
    pub file: PathBuf,
    pub format: SessionFormat,
    pub kind: SessionKind,
    /// For a sub-agent's session, the name of its parent's folder.
    pub parent: Option<String>,
    pub start: Timestamp,
    pub last_updated: Timestamp,
    pub summary: Option<String>,
    /// One line each, without control characters; empty without messages.
    pub first_user: String,
    pub last_user: String,
    pub user_messages: u64,
    pub messages: u64,
    pub tool_calls: u64,
    /// Calls that failed, and messages of errors.
    pub errors: u64,
    /// The sum over all replies.
    pub usage: Usage,
    /// In order of first appearance.
    pub models: Vec<String>,
    /// Whether there is something to resume.
    pub resumable: bool,
    /// Whether part of the file is unreadable.
    pub damaged: bool,
    /// With `modified_ms`, detects changes to the file.
    pub size: u64,
    pub modified_ms: i64,
}

/// Reads the index data of a session. Needs memory for the largest record, not for the whole file.
pub fn summarise(path: &Path) -> Result<IndexRecord, LoadError> {
    if let Some(record) = summarised_at_once(path)? {
        return Ok(record);
    }
    summarised(path, |_| false)
}

/// Reads what a list shows: the beginning and the message count. After the first
/// prompt, only messages are counted.
pub(crate) fn glimpse(path: &Path) -> Result<IndexRecord, LoadError> {
    summarised(path, |tally| tally.prompts.count > 0)
}

/// Why reading stopped.
enum Stop {
    Enough,
    Failed(LoadError),
}

impl From<LoadError> for Stop {
    fn from(error: LoadError) -> Self {
        Self::Failed(error)
    }
}

fn summarised(path: &Path, is_enough: impl Fn(&Tally) -> bool) -> Result<IndexRecord, LoadError> {
    let stream = Stream::open(path)?;
    let mut tally = Tally::default();
    let seen = stream.for_each(|index, text| {
        match View::of(index, text) {
            Some(view) => tally.count(&view),
            None => tally.unreadable += 1,
        }
        if is_enough(&tally) { Err(Stop::Enough) } else { Ok(()) }
    });
    if let Err(Stop::Failed(error)) = seen {
        return Err(error);
    }
    let damaged = stream.damage.is_some() || tally.unreadable > 0;
    let messages = stream.len() as u64;
    Ok(tally.record(
        path,
        Origin { meta: &stream.meta, format: stream.format, stamp: stream.stamp, messages, damaged },
    ))
}

/// A fast path for documents exactly as our writer leaves them; `None` for anything else.
fn summarised_at_once(path: &Path) -> Result<Option<IndexRecord>, LoadError> {
    let (file, stamp) = match load::open(path) {
        // The size limit for loading does not apply here.
        Err(LoadError::TooLarge { .. }) => return Ok(None),
        opened => opened?,
    };
    let Some(frame) = load::frame(&file, stamp) else { return Ok(None) };
    let mut tally = Tally::default();
    let mut messages = 0;
    let read = frame.for_each(&file, |line| {
        // JSON lines contain no control characters. Checking everything without an early exit is faster.
        if line.iter().fold(false, |found, byte| found | (*byte < 0x20)) {
            return None;
        }
        let text = std::str::from_utf8(line).ok()?;
        tally.count(&View::of(messages, text)?);
        messages += 1;
        Some(())
    });
    let origin = Origin {
        meta: &frame.meta,
        format: SessionFormat::Json,
        stamp,
        messages: messages as u64,
        damaged: false,
    };
    Ok(read.map(|()| tally.record(path, origin)))
}

/// The metadata of a session.
struct Origin<'a> {
    meta: &'a JsonObject,
    format: SessionFormat,
    stamp: FileStamp,
    messages: u64,
    damaged: bool,
}

/// The first and last of a series of texts, and their count.
#[derive(Default)]
struct Ends {
    first: String,
    last: String,
    count: u64,
}

impl Ends {
    fn add(&mut self, words: &str) {
        let line = clean(words);
        if self.count == 0 {
            self.first.clone_from(&line);
        }
        self.last = line;
        self.count += 1;
    }
}

#[derive(Default)]
struct Tally {
    prompts: Ends,
    /// Commands and context, used only as a fallback.
    internal: Ends,
    tool_calls: u64,
    errors: u64,
    usage: Usage,
    models: Vec<String>,
    resumable: bool,
    unreadable: u64,
}

impl Tally {
    fn count(&mut self, view: &View<'_>) {
        match view.speaker {
            Speaker::User => {
                let words = view.words();
                if View::is_prompt(&words) {
                    self.resumable = true;
                    self.prompts.add(&words);
                } else if !words.trim().is_empty() {
                    self.internal.add(&words);
                }
            }
            Speaker::Agent => self.count_reply(view),
            Speaker::Error => self.errors += 1,
            Speaker::Nobody => {}
        }
    }

    fn count_reply(&mut self, view: &View<'_>) {
        let calls = view.calls();
        self.tool_calls += calls.len() as u64;
        self.errors += calls.iter().filter(|call| call.outcome() == Outcome::Error).count() as u64;
        self.resumable |= !calls.is_empty() || view.has_items("thoughts") || !view.words().trim().is_empty();
        if let Some(tokens) = view.field("tokens").and_then(|tokens| raw::fields(tokens.get())) {
            let count = |key: &str| tokens.get(key).and_then(|count| count.get().parse().ok()).unwrap_or(0);
            self.usage.add(Usage {
                input: count("input"),
                output: count("output"),
                cached: count("cached"),
                reasoning: count("thoughts"),
                tool_input: count("tool"),
                total: count("total"),
                ..Usage::default()
            });
        }
        if let Some(model) = view.string("model").filter(|model| !self.models.contains(model)) {
            self.models.push(model);
        }
    }

    fn record(self, path: &Path, origin: Origin<'_>) -> IndexRecord {
        let Origin { meta, format, stamp, messages, damaged } = origin;
        let text = |key: &str| meta.get(key).and_then(Value::as_str).map(str::to_owned);
        let users = if self.prompts.count > 0 { self.prompts } else { self.internal };
        let modified = Timestamp::from_millis(stamp.modified_ms);
        let (start, last_updated) = (time_of(meta, "startTime"), time_of(meta, "lastUpdated"));
        IndexRecord {
            session_id: SessionId::from_file(text("sessionId").unwrap_or_default()),
            project_hash: text("projectHash"),
            project_path: None,
            inferred: false,
            file: path.to_owned(),
            format,
            kind: kind_of(meta),
            parent: parent_folder(path),
            start: start.or(last_updated).unwrap_or(modified),
            last_updated: last_updated.or(start).unwrap_or(modified),
            summary: text("summary").map(|summary| clean(&summary)).filter(|summary| !summary.is_empty()),
            first_user: users.first,
            last_user: users.last,
            user_messages: users.count,
            messages,
            tool_calls: self.tool_calls,
            errors: self.errors,
            usage: self.usage,
            models: self.models,
            resumable: self.resumable,
            damaged,
            size: stamp.length,
            modified_ms: stamp.modified_ms,
        }
    }
}

/// The folder of a session in a subfolder of `chats`.
fn parent_folder(path: &Path) -> Option<String> {
    let folder = path.parent()?;
    let above = folder.parent()?.file_name()?;
    (above == "chats").then(|| folder.file_name().map(|name| name.to_string_lossy().into_owned()))?
}

impl IndexRecord {
    /// The record as JSON; unknown values are omitted.
    pub fn to_json(&self) -> JsonObject {
        let kind = match self.format {
            SessionFormat::Json => "json",
            SessionFormat::Jsonl => "jsonl",
        };
        let value = json!({
            "sessionId": self.session_id.as_str(),
            "projectHash": self.project_hash,
            "projectPath": self.project_path,
            "inferred": self.inferred.then_some(true),
            "file": self.file,
            "format": kind,
            "kind": self.kind.as_str(),
            "parent": self.parent,
            "startTime": self.start.to_iso(),
            "lastUpdated": self.last_updated.to_iso(),
            "summary": self.summary,
            "firstUser": self.first_user,
            "lastUser": self.last_user,
            "userMessages": self.user_messages,
            "messages": self.messages,
            "toolCalls": self.tool_calls,
            "errors": self.errors,
            "tokens": self.usage.total,
            "models": self.models,
            "size": self.size,
        });
        let fields = value.as_object().cloned().unwrap_or_default();
        fields.into_iter().filter(|(_, value)| !value.is_null()).collect()
    }
}
