//! What has to be true of the files, whatever happened.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use pollux_domain::content::{Body, Content, Part};
use pollux_domain::event::CallStatus;
use pollux_domain::tool::Display;
use pollux_session::{Message, ReplyMessage, StoredCall, StoredStatus};
use serde_json::Value;

use super::script::{Script, Scripted, Told};
use crate::scene::all_files;

/// Something that must never be.
#[derive(Debug)]
pub(super) struct Violation {
    pub(super) kind: Kind,
    pub(super) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Something complete is no longer there, or another.
    Lost,
    /// A file is no session any more.
    Unreadable,
    /// A file is gone.
    Deleted,
    /// A command did not do what it should.
    Conduct,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String = self.text.chars().take(1_000).collect();
        write!(f, "{:?}: {text}", self.kind)
    }
}

pub(super) type Verdict<T = ()> = Result<T, Violation>;

pub(super) fn violation(kind: Kind, text: impl Into<String>) -> Violation {
    Violation { kind, text: text.into() }
}

pub(super) fn demand(holds: bool, kind: Kind, text: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(violation(kind, text())) }
}

/// Every file below a folder with its bytes.
pub(super) type Census = BTreeMap<PathBuf, Vec<u8>>;

pub(super) fn census(folder: &Path) -> Census {
    all_files(folder).into_iter().map(|path| (path.clone(), fs::read(path).unwrap_or_default())).collect()
}

/// Whether this is a session or something that belongs to one, and not a lock or a draft.
pub(super) fn is_kept(path: &Path) -> bool {
    path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.'))
}

/// A run of the program with a script, as far as it got.
pub(super) struct Ran<'a> {
    pub(super) script: &'a Script,
    pub(super) told: Told,
    /// Whether it may have recorded something.
    pub(super) admitted: bool,
}

impl Ran<'_> {
    fn all(&self) -> usize {
        if self.admitted { 1 + self.script.replies.len() } else { 0 }
    }

    /// So many messages were complete before the run ended.
    fn required(&self) -> usize {
        let told = &self.told;
        if !told.prompt {
            return 0;
        }
        let committed = |reply: &Scripted| match reply.calls.first() {
            Some(first) => told.asked.contains(&first.id),
            None => told.finished,
        };
        1 + self.script.replies.iter().take_while(|reply| committed(reply)).count()
    }
}

/// Checks what is new in a session against the runs that wrote it, in whatever order they came.
pub(super) fn check_new(new: &[Message], runs: &[Ran<'_>]) -> Verdict {
    // Lines for people may stand anywhere; no model said them.
    let spoken: Vec<Message> =
        new.iter().filter(|message| !matches!(message, Message::Notice(_))).cloned().collect();
    let new = spoken.as_slice();
    let forward = check_in_order(new, runs.iter());
    match runs.len() {
        0 | 1 => forward,
        _ => forward.or_else(|_| check_in_order(new, runs.iter().rev())),
    }
}

fn check_in_order<'a>(mut new: &[Message], runs: impl Iterator<Item = &'a Ran<'a>>) -> Verdict {
    let mut doubt = String::new();
    for run in runs {
        let mut taken = 0;
        while taken < run.all() {
            let Some(message) = new.get(taken) else { break };
            let is_required = taken < run.required();
            match (check_message(message, taken, run, is_required), is_required) {
                (Ok(()), _) => taken += 1,
                (Err(violation), true) => return Err(violation),
                (Err(violation), false) => {
                    doubt = violation.text;
                    break;
                }
            }
        }
        demand(taken >= run.required(), Kind::Lost, || {
            format!("{taken} of {} complete messages are there: {new:#?}", run.required())
        })?;
        new = new.get(taken..).unwrap_or_default();
    }
    demand(new.is_empty(), Kind::Lost, || format!("messages that nobody sent: {doubt}; {new:#?}"))
}

fn check_message(message: &Message, index: usize, run: &Ran<'_>, is_complete: bool) -> Verdict {
    match (message, index.checked_sub(1).and_then(|index| run.script.replies.get(index))) {
        (Message::User(user), None) => {
            let text = text_of(&user.parts);
            demand(text == run.script.prompt, Kind::Lost, || {
                format!("a prompt is {text:?} and was {:?}", run.script.prompt)
            })
        }
        (Message::Reply(reply), Some(scripted)) => check_reply(reply, scripted, &run.told, is_complete),
        _ => Err(violation(Kind::Lost, format!("message {index} is of another kind: {message:?}"))),
    }
}

fn check_reply(reply: &ReplyMessage, scripted: &Scripted, told: &Told, is_complete: bool) -> Verdict {
    let text = text_of(&reply.parts);
    demand(text == scripted.text, Kind::Lost, || format!("a reply is {text:?} and was {:?}", scripted.text))?;
    // A reply nobody was told of may have been cut while it was written.
    if is_complete || reply.calls.len() > scripted.calls.len() {
        let (found, said) = (reply.calls.len(), scripted.calls.len());
        demand(found == said, Kind::Lost, || format!("a reply has {found} of {said} calls: {reply:#?}"))?;
    }
    for (call, said) in reply.calls.iter().zip(&scripted.calls) {
        let same = call.id.as_str() == said.id
            && call.name == said.name
            && Value::Object(call.args.clone()) == said.args;
        demand(same, Kind::Lost, || format!("a call is {call:?} and was {} {}", said.id, said.args))?;
        if let Some((status, result)) = told.ended.get(&said.id) {
            check_result(call, status, result)?;
        }
    }
    Ok(())
}

fn check_result(call: &StoredCall, status: &str, told: &str) -> Verdict {
    let ended = match call.status {
        StoredStatus::Ended(CallStatus::Success) => "success",
        StoredStatus::Ended(CallStatus::Error | CallStatus::Cancelled) => "error",
        StoredStatus::Pending => "pending",
    };
    demand(ended == status, Kind::Lost, || {
        format!("call {} ended as {status} and is stored as {ended}", call.id.as_str())
    })?;
    let shown = match call.display() {
        Display::Nothing | Display::Todos(_) => String::new(),
        Display::Text(text) => text,
        Display::Diff(diff) => diff.unified,
        Display::Agent(end) => end.result,
        Display::List { summary, items } => {
            std::iter::once(summary).chain(items).collect::<Vec<_>>().join("\n")
        }
    };
    let answered = answer_of(&call.result);
    let same = shown == told || answered.contains(told);
    demand(same && !answered.is_empty(), Kind::Lost, || {
        format!("call {} gave {told:?}, stored are {shown:?} and {answered:?}", call.id.as_str())
    })
}

pub(super) fn text_of(parts: &[Part]) -> String {
    Content::user(parts.to_vec()).text()
}

/// What the model got.
fn answer_of(result: &[Part]) -> String {
    let texts = result.iter().filter_map(|part| match &part.body {
        Body::Response(response) => {
            let found = response.response.get("output").or_else(|| response.response.get("error"))?;
            Some(found.as_str().map_or_else(|| found.to_string(), str::to_owned))
        }
        _ => None,
    });
    texts.collect()
}

/// Reads a session as anyone would who knows only what is documented: one JSON object, or a log of records.
/// Returns the ids of its messages.
pub(super) fn read_plainly(bytes: &[u8]) -> Verdict<Vec<String>> {
    let unreadable = |why: String| violation(Kind::Unreadable, why);
    let id_of = |message: &Value| message["id"].as_str().unwrap_or_default().to_owned();
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_log = serde_json::from_slice::<Value>(first).is_ok_and(|value| value.is_object());
    if !is_log {
        let session: Value =
            serde_json::from_slice(bytes).map_err(|error| unreadable(format!("no JSON: {error}")))?;
        let messages = session["messages"].as_array().ok_or_else(|| unreadable("no messages".into()))?;
        return Ok(messages.iter().map(id_of).collect());
    }
    let mut ids: Vec<String> = Vec::new();
    let records = bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    for record in records {
        let record: Value = record;
        if let Some(gone) = record["$rewindTo"].as_str() {
            let at = ids.iter().position(|id| id == gone).unwrap_or(ids.len());
            ids.truncate(at);
            continue;
        }
        if let Some(messages) = record["$set"]["messages"].as_array() {
            ids = messages.iter().map(id_of).collect();
        }
        let id = id_of(&record);
        if !id.is_empty() && !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}
