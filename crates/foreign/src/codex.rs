//! Codex: `sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl`, archived ones in `archived_sessions/`.
//!
//! There are three formats: records `{timestamp, type, payload}`; before them bare payloads, with the facts of
//! the session on the first line; and originally one JSON document `{session, items}` in `rollout-*.json`.
//! Newer releases compress old files (`.jsonl.zst`), which is not supported.

mod item;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::entry::{ForeignEntry, ReadError};
use crate::folder;
use crate::json::{self, Field};
use crate::lines;
use crate::session::{Facts, Record, RecordKind, RecordSink};

/// `sessions/YYYY/MM/DD`.
const MAX_DEPTH: usize = 4;
/// Size limit of the oldest format, which must be read completely.
const MAX_DOCUMENT: u64 = 256 * 1024 * 1024;

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    timestamp: Field<'a>,
    #[serde(rename = "type", borrow)]
    kind: Field<'a>,
    #[serde(borrow)]
    payload: Field<'a>,
    #[serde(borrow)]
    id: Field<'a>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow)]
    id: Field<'a>,
    #[serde(borrow)]
    timestamp: Field<'a>,
    #[serde(borrow)]
    cwd: Field<'a>,
    #[serde(borrow)]
    source: Field<'a>,
    #[serde(borrow)]
    thread_source: Field<'a>,
    #[serde(borrow)]
    parent_thread_id: Field<'a>,
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    thread_name: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Field<'a>,
    #[serde(borrow)]
    message: Field<'a>,
    #[serde(borrow)]
    num_turns: Field<'a>,
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    session: Field<'a>,
    #[serde(borrow)]
    items: Field<'a>,
}

pub(crate) fn entries(root: &Path) -> Vec<ForeignEntry> {
    let names = names(root);
    let mut files = Vec::new();
    for place in ["sessions", "archived_sessions"] {
        collect(&root.join(place), MAX_DEPTH, &mut files);
    }
    let entries = files.into_iter().filter_map(|path| {
        let mut stamp = folder::stamp(&path)?;
        let name = names.get(id_in_name(folder::name(&path))).cloned();
        if let Some(name) = &name {
            let mut hasher = DefaultHasher::new();
            (stamp.mark, name).hash(&mut hasher);
            stamp.mark = hasher.finish();
        }
        Some(ForeignEntry { path, within: None, stamp, name })
    });
    entries.collect()
}

fn collect(path: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    let folder = folder::read(path);
    let is_rollout = |path: &PathBuf| {
        let name = folder::name(path);
        name.starts_with("rollout-")
            && [".jsonl", ".json", ".jsonl.zst"].iter().any(|end| name.ends_with(end))
    };
    files.extend(folder.files.into_iter().filter(is_rollout));
    if depth > 1 {
        folder.folders.iter().for_each(|below| collect(below, depth - 1, files));
    }
}

/// `rollout-<time>-<id>[_<revision>].jsonl`: the id is the last 36 characters.
fn id_in_name(name: &str) -> &str {
    let stem = name.split('.').next().unwrap_or_default();
    let stem = stem.split('_').next().unwrap_or_default();
    stem.len().checked_sub(36).and_then(|start| stem.get(start..)).unwrap_or_default()
}

/// User-given names of sessions; the last line of each wins.
fn names(root: &Path) -> HashMap<String, String> {
    let mut names = HashMap::new();
    let index = root.join("session_index.jsonl");
    if folder::stamp(&index).is_some() {
        // Names are an extra: without them the sessions are still there.
        let _ = lines::each(&index, &mut |text| {
            if let Ok(named) = serde_json::from_str::<Named<'_>>(text) {
                names.insert(named.id.into_owned(), named.thread_name.into_owned());
            }
        });
    }
    names
}

pub(crate) fn replay(entry: &ForeignEntry, visit: &mut dyn FnMut(&Record<'_>)) -> Result<Facts, ReadError> {
    let path = &entry.path;
    let unreadable = |source| ReadError::File { path: path.clone(), source };
    let mut reader = Reader::default();
    match folder::name(path) {
        name if name.ends_with(".zst") => return Err(ReadError::Compressed { path: path.clone() }),
        name if name.ends_with(".json") => {
            if entry.stamp.size > MAX_DOCUMENT {
                return Err(unreadable(std::io::Error::other("it is too large")));
            }
            let bytes = fs::read(path).map_err(unreadable)?;
            reader.take_document(&lines::readable(&bytes), visit);
        }
        _ => lines::each(path, &mut |text| reader.take(text, visit)).map_err(unreadable)?,
    }
    let mut facts = reader.facts;
    if facts.id.is_none() {
        let id = id_in_name(folder::name(path));
        facts.id = (!id.is_empty()).then(|| id.to_owned());
    }
    Ok(facts)
}

#[derive(Default)]
struct Reader {
    facts: Facts,
    has_meta: bool,
    /// Bare records have no id.
    count: usize,
}

impl Reader {
    fn take(&mut self, text: &str, visit: &mut dyn FnMut(&Record<'_>)) {
        let Ok(line) = serde_json::from_str::<Line<'_>>(text) else { return };
        self.count += 1;
        let time = json::time(line.timestamp);
        let id = self.count.to_string();
        let mut sink = RecordSink { id: &id, time, visit };
        match (json::text(line.kind).as_deref(), line.payload) {
            // A fork starts with its own facts; those of its origin come later.
            (Some("session_meta"), payload) => self.take_meta(payload),
            (Some("response_item"), Some(payload)) => self.take_item(payload, &mut sink),
            (Some("event_msg"), payload) => take_event(payload, &mut sink),
            (Some("turn_context"), payload) => {
                self.take_cwd(payload);
                item::model(payload, &mut sink);
            }
            (Some(_), None) => {
                if let Ok(raw) = serde_json::from_str::<&RawValue>(text) {
                    self.take_item(raw, &mut sink);
                }
            }
            (None, None) if line.id.is_some() => {
                let raw = serde_json::from_str::<&RawValue>(text).ok();
                self.take_meta(raw);
            }
            (Some(_) | None, _) => {}
        }
    }

    fn take_document(&mut self, text: &str, visit: &mut dyn FnMut(&Record<'_>)) {
        let Ok(document) = serde_json::from_str::<Document<'_>>(text) else { return };
        self.take_meta(document.session);
        for item in json::items(document.items) {
            self.count += 1;
            let id = self.count.to_string();
            self.take_item(item, &mut RecordSink { id: &id, time: None, visit });
        }
    }

    fn take_meta(&mut self, payload: Field<'_>) {
        let Some(meta) = json::parse::<Meta<'_>>(payload).filter(|_| !self.has_meta) else { return };
        self.has_meta = true;
        self.facts.id = json::text(meta.id).map(Into::into);
        self.facts.start = json::time(meta.timestamp);
        self.take_cwd(payload);
        if self.facts.project.is_none() {
            self.facts.project = json::text(meta.cwd).map(|cwd| PathBuf::from(&*cwd));
        }
        self.facts.parent = json::text(meta.parent_thread_id).map(Into::into);
        let is_subagent_source = meta.source.is_some_and(|source| source.get().contains("\"subagent\""));
        self.facts.is_subagent = is_subagent_source
            || self.facts.parent.is_some()
            || json::text(meta.thread_source).as_deref() == Some("subagent");
    }

    fn take_cwd(&mut self, payload: Field<'_>) {
        if self.facts.project.is_none() {
            let cwd =
                json::parse::<Meta<'_>>(payload).and_then(|meta| json::text(meta.cwd).map(Cow::into_owned));
            self.facts.project = cwd.filter(|cwd| !cwd.is_empty()).map(PathBuf::from);
        }
    }

    fn take_item(&mut self, raw: &RawValue, sink: &mut RecordSink<'_>) {
        if let Some(context) = item::record(raw, sink)
            && self.facts.project.is_none()
        {
            self.facts.project = item::cwd_in_context(&context).map(PathBuf::from);
        }
    }
}

fn take_event(payload: Field<'_>, sink: &mut RecordSink<'_>) {
    let Some(event) = json::parse::<Event<'_>>(payload) else { return };
    match json::text(event.kind).as_deref() {
        // The messages are in the response items as well.
        Some("error" | "stream_error") => {
            let text = json::text(event.message).unwrap_or_default();
            sink.record(RecordKind::Error(text.trim()));
        }
        Some("thread_rolled_back") => {
            let turns = json::parse(event.num_turns).unwrap_or(0);
            sink.record(RecordKind::TurnsDropped(turns));
        }
        _ => {}
    }
}
