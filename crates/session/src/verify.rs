//! Checks session files, and repairs what can be repaired without guessing.

mod repair;

pub use repair::{RepairError, Repaired, repair};

use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};

use pollux_domain::id::SessionId;
use pollux_domain::json::parse_lenient_str;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::blobs::{self, Blobs};
use crate::listing::{session_files, subagent_files};
use crate::load::LoadError;
use crate::lock::{LockState, lock_state};
use crate::stream::Stream;
use crate::view::{Outcome, Speaker, View};

/// Maximum number of ids listed in a report.
const MAX_NAMED: usize = 5;

/// The report on one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileReport {
    pub path: PathBuf,
    /// `None` if the file cannot be read as a session.
    pub session: Option<SessionId>,
    pub messages: usize,
    pub problems: Vec<Problem>,
}

/// A problem in a session file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The file is not a readable session. It is never changed.
    Unreadable(String),
    /// The end was cut while it was written.
    Torn { at: u64 },
    /// Records that are not JSON objects.
    UnreadableRecords(usize),
    /// Messages without an id; readers generate one.
    MissingIds(usize),
    /// Ids that several messages have.
    DuplicateIds(Vec<String>),
    /// Calls without a result. A conversation is sent with an answer in its place.
    UnansweredCalls(usize),
    /// Long texts or media stored apart that are missing or not what they were.
    LostBlobs(usize),
    /// A stale lock.
    StaleLock(PathBuf),
}

impl Problem {
    /// Whether [`repair`] can fix it.
    pub fn is_repairable(&self) -> bool {
        match self {
            Self::Torn { .. } | Self::MissingIds(_) | Self::DuplicateIds(_) | Self::StaleLock(_) => true,
            Self::Unreadable(_)
            | Self::UnreadableRecords(_)
            | Self::UnansweredCalls(_)
            | Self::LostBlobs(_) => false,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => f.write_str(why),
            Self::Torn { at } => write!(f, "the file is cut off at byte {at}"),
            Self::UnreadableRecords(count) => write!(f, "{count} unreadable record(s)"),
            Self::MissingIds(count) => write!(f, "{count} message(s) without an id"),
            Self::DuplicateIds(ids) => {
                let named = ids.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
                write!(f, "{} duplicate id(s): {named}", ids.len())
            }
            Self::UnansweredCalls(count) => write!(f, "{count} tool call(s) without a result"),
            Self::LostBlobs(count) => {
                write!(f, "{count} long text(s) or media file(s) stored separately are missing or damaged")
            }
            Self::StaleLock(path) => {
                write!(f, "`{}` is a stale lock: its process has exited", path.display())
            }
        }
    }
}

/// Checks every session file in these folders, sub-agents' too. Nothing is changed.
pub fn verify(dirs: &[PathBuf]) -> Vec<FileReport> {
    session_files(dirs).iter().chain(&subagent_files(dirs)).map(|path| verify_file(path)).collect()
}

/// Checks one file.
pub fn verify_file(path: &Path) -> FileReport {
    let mut report = FileReport { path: path.to_owned(), session: None, messages: 0, problems: Vec::new() };
    if let Err(error) = check(path, &mut report) {
        let why = match error.source() {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        };
        report.problems.push(Problem::Unreadable(why));
    }
    if let LockState::Stale(lock) = lock_state(path) {
        report.problems.push(Problem::StaleLock(lock));
    }
    report
}

#[derive(Default)]
struct Counts {
    ids: HashSet<String>,
    duplicates: Vec<String>,
    unreadable: usize,
    unnamed: usize,
    unanswered: usize,
    lost: usize,
}

fn check(path: &Path, report: &mut FileReport) -> Result<(), LoadError> {
    let stream = Stream::open(path)?;
    report.session = stream.meta.get("sessionId").and_then(Value::as_str).map(SessionId::from_file);
    report.messages = stream.len();
    let blobs = Blobs::of_file(path);
    let mut counts = Counts::default();
    stream.for_each::<LoadError>(|index, text| {
        counts.check(index, text, &blobs);
        Ok(())
    })?;
    let problems = &mut report.problems;
    if let Some(note) = &stream.damage {
        problems.extend(note.torn_at.map(|at| Problem::Torn { at }));
        counts.unreadable += note.unreadable_lines;
    }
    let found = [
        (counts.unreadable, Problem::UnreadableRecords(counts.unreadable)),
        (counts.unnamed, Problem::MissingIds(counts.unnamed)),
        (counts.duplicates.len(), Problem::DuplicateIds(counts.duplicates)),
        (counts.unanswered, Problem::UnansweredCalls(counts.unanswered)),
        (counts.lost, Problem::LostBlobs(counts.lost)),
    ];
    problems.extend(found.into_iter().filter(|(count, _)| *count > 0).map(|(_, problem)| problem));
    Ok(())
}

impl Counts {
    fn check(&mut self, index: usize, text: &str, blobs: &Blobs) {
        // A view looks only at what it is asked for.
        let parsed = serde_json::from_str::<&RawValue>(text).ok();
        let Some(view) = parsed.and_then(|_| View::of(index, text)) else {
            self.unreadable += 1;
            return;
        };
        match view.string("id") {
            None => self.unnamed += 1,
            Some(id) if !self.ids.insert(id.clone()) => {
                if !self.duplicates.contains(&id) {
                    self.duplicates.push(id);
                }
            }
            Some(_) => {}
        }
        if view.speaker == Speaker::Agent {
            let is_open = |call: &&crate::view::CallView<'_>| {
                call.outcome() == Outcome::Unfinished && !call.has_result()
            };
            self.unanswered += view.calls().iter().filter(is_open).count();
        }
        if text.contains(blobs::FIELD)
            && let Ok(Value::Object(mut fields)) = parse_lenient_str(text)
        {
            self.lost += blobs::resolve(blobs, &mut fields);
        }
    }
}
