//! Writes upstream's record log, which is append-only.

use pollux_domain::JsonObject;
use pollux_domain::id::CallId;
use pollux_domain::time::Timestamp;
use serde_json::{Value, json};

use super::change::EndedCall;
use super::medium::{Medium, WriteFailure, replace_end};
use crate::message::encode;
use crate::record::CallRecord;
use crate::summary::{Moved, title_record};

#[derive(Debug)]
pub(crate) struct LogWriter {
    medium: Box<dyn Medium>,
    /// What has to be written before the next line: the metadata of a new file, or a missing line break.
    unwritten: Vec<u8>,
    end: u64,
    open: Option<OpenReply>,
}

/// The last reply, while calls of it wait for their results.
#[derive(Debug, Clone)]
struct OpenReply {
    message: JsonObject,
    calls: Vec<(CallId, JsonObject)>,
}

impl LogWriter {
    /// A writer for an empty file.
    pub(crate) fn begin(medium: Box<dyn Medium>, meta: &JsonObject) -> Self {
        let mut unwritten = Vec::new();
        push_line(&mut unwritten, meta);
        Self { medium, unwritten, end: 0, open: None }
    }

    /// A writer behind what is there. A torn last line gets its line break and is then skipped by readers.
    pub(crate) fn continue_at(medium: Box<dyn Medium>, end: u64, ends_with_newline: bool) -> Self {
        let unwritten = if ends_with_newline { Vec::new() } else { vec![b'\n'] };
        Self { medium, unwritten, end, open: None }
    }

    pub(crate) fn medium(&mut self) -> &mut dyn Medium {
        self.medium.as_mut()
    }

    pub(crate) fn medium_ref(&self) -> &dyn Medium {
        self.medium.as_ref()
    }

    pub(crate) fn set_medium(&mut self, medium: Box<dyn Medium>) {
        self.medium = medium;
    }

    /// The length of the file after the last write.
    pub(crate) fn length(&self) -> u64 {
        self.end
    }

    /// The same writer for a copy of the file.
    pub(crate) fn on_copy(&self, medium: Box<dyn Medium>, moved: Moved) -> Self {
        let mut end = self.end;
        moved.apply(&mut end);
        Self { medium, unwritten: self.unwritten.clone(), end, open: self.open.clone() }
    }

    /// Writes the last reply of another writer again if calls of it wait for their results.
    pub(crate) fn continue_reply(&mut self, other: &Self) -> Result<(), WriteFailure> {
        let Some(open) = other.open.clone() else { return Ok(()) };
        let mut line = Vec::new();
        push_line(&mut line, &open.message);
        self.push(&line)?;
        self.open = Some(open);
        Ok(())
    }

    pub(crate) fn append(&mut self, message: &JsonObject, now: Timestamp) -> Result<(), WriteFailure> {
        let mut lines = Vec::new();
        push_line(&mut lines, message);
        push_stamp(&mut lines, now);
        self.push(&lines)
    }

    pub(crate) fn reply(
        &mut self,
        message: &mut JsonObject,
        calls: &[CallRecord],
        now: Timestamp,
    ) -> Result<(), WriteFailure> {
        if calls.is_empty() {
            return self.append(message, now);
        }
        let calls: Vec<(CallId, JsonObject)> = calls
            .iter()
            .map(|call| {
                let mut fields = encode::call(call, now);
                fields.insert("status".into(), json!("pending"));
                (call.id.clone(), fields)
            })
            .collect();
        message
            .insert("toolCalls".into(), calls.iter().map(|(_, call)| Value::Object(call.clone())).collect());
        self.append(message, now)?;
        self.open = Some(OpenReply { message: std::mem::take(message), calls });
        Ok(())
    }

    /// The reply once more, now with results: readers take the last record of an id.
    pub(crate) fn results(&mut self, results: &[EndedCall<'_>]) -> Result<(), WriteFailure> {
        let Some(mut open) = self.open.clone() else { return Ok(()) };
        let mut changed = false;
        for result in results {
            let waiting = |(id, call): &&mut (CallId, JsonObject)| {
                id == result.id.as_ref() && !call.contains_key("result")
            };
            if let Some((_, call)) = open.calls.iter_mut().find(waiting) {
                call.extend(result.fields.clone());
                call.insert("status".into(), json!(result.status.as_str()));
                changed = true;
            }
        }
        if !changed {
            return Ok(());
        }
        let calls = open.calls.iter().map(|(_, call)| Value::Object(call.clone())).collect();
        open.message.insert("toolCalls".into(), calls);
        let mut line = Vec::new();
        push_line(&mut line, &open.message);
        self.push(&line)?;
        let waiting = open.calls.iter().any(|(_, call)| !call.contains_key("result"));
        self.open = waiting.then_some(open);
        Ok(())
    }

    /// Takes back the message with this id and what follows it.
    pub(crate) fn rewind(&mut self, to: &str, now: Timestamp) -> Result<(), WriteFailure> {
        let mut lines = json!({ "$rewindTo": to }).to_string().into_bytes();
        lines.push(b'\n');
        push_stamp(&mut lines, now);
        self.push(&lines)?;
        self.open = None;
        Ok(())
    }

    /// Gives the session a title; readers take the last one.
    pub(crate) fn set_title(&mut self, title: &str) -> Result<(), WriteFailure> {
        self.push(title_record(title).as_bytes())
    }

    fn push(&mut self, lines: &[u8]) -> Result<(), WriteFailure> {
        let new = [&self.unwritten, lines].concat();
        replace_end(self.medium.as_mut(), self.end, b"", &new)?;
        self.unwritten.clear();
        self.end += new.len() as u64;
        Ok(())
    }
}

fn push_line(bytes: &mut Vec<u8>, record: &JsonObject) {
    bytes.extend_from_slice(&serde_json::to_vec(record).unwrap_or_default());
    bytes.push(b'\n');
}

fn push_stamp(bytes: &mut Vec<u8>, now: Timestamp) {
    bytes.extend_from_slice(json!({"$set": {"lastUpdated": now.to_iso()}}).to_string().as_bytes());
    bytes.push(b'\n');
}
