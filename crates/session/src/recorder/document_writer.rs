//! Writes our document layout: appends at the tail and patches two fields in place.

use std::io;
use std::path::Path;

use pollux_domain::JsonObject;
use pollux_domain::event::CallStatus;
use pollux_domain::id::CallId;
use pollux_domain::time::Timestamp;
use serde_json::Value;

use super::change::EndedCall;
use super::medium::{Medium, SessionFile, WriteFailure, replace_end, undo};
use crate::document::{INDENT, TAIL, encode_head};
use crate::message::encode;
use crate::record::CallRecord;
use crate::redo;
use crate::summary::{self, Moved, Retitled};

const STATUS_KEY: &[u8] = b",\"status\":";
/// Room for the longest word with its quotes, `"cancelled"`, so that any of them fits in place.
const STATUS_WIDTH: usize = 11;

#[derive(Debug)]
pub(crate) struct DocumentWriter {
    medium: Box<dyn Medium>,
    /// The head, until it is written together with the first message.
    unwritten_head: Vec<u8>,
    /// Where `lastUpdated` is.
    stamp_at: u64,
    /// Where the tail is.
    end: u64,
    has_messages: bool,
    /// The last reply, while calls of it wait for their results.
    open: Option<OpenReply>,
}

/// A reply near the end of the file: everything after the first pending call can be rewritten.
#[derive(Debug, Clone)]
struct OpenReply {
    id: String,
    /// The record up to its calls.
    head: Vec<u8>,
    calls: Vec<OpenCall>,
    /// The bytes between this reply and the tail.
    after: Vec<u8>,
}

#[derive(Debug, Clone)]
struct OpenCall {
    id: CallId,
    /// The record up to its status.
    opening: Vec<u8>,
    /// Where the status is in the file.
    status_at: u64,
    status: &'static str,
    /// `,"result":…,"resultDisplay":…`; empty while the call is pending.
    result: Vec<u8>,
}

impl OpenCall {
    fn new(call: &CallRecord, now: Timestamp) -> Self {
        let mut opening = Value::Object(encode::call(call, now)).to_string().into_bytes();
        opening.pop();
        opening.extend_from_slice(STATUS_KEY);
        Self { id: call.id.clone(), opening, status_at: 0, status: "pending", result: Vec::new() }
    }

    fn end(&mut self, result: &EndedCall<'_>) {
        let mut fields = serde_json::to_vec(&result.fields).unwrap_or_default();
        fields.pop();
        if let Some(first) = fields.first_mut() {
            *first = b',';
        }
        self.result = fields;
        self.status = match result.status {
            CallStatus::Success | CallStatus::Error | CallStatus::Cancelled => result.status.as_str(),
        };
    }

    fn padded_status(&self) -> Vec<u8> {
        format!("{:<STATUS_WIDTH$}", format!("\"{}\"", self.status)).into_bytes()
    }
}

impl OpenReply {
    /// The record, which comes to stand at `start` in the file. Notes where the statuses of its calls are.
    fn record(&mut self, start: u64) -> Vec<u8> {
        let mut bytes = self.head.clone();
        for (index, call) in self.calls.iter_mut().enumerate() {
            if index > 0 {
                bytes.push(b',');
            }
            push_call(&mut bytes, call, start);
            bytes.extend_from_slice(&call.result);
            bytes.push(b'}');
        }
        bytes.extend_from_slice(b"]}");
        bytes
    }

    /// Everything of these calls and behind them, from the end of the status of call `first` to the tail;
    /// `at` is that place in the file. Notes where the statuses of the later calls come to stand.
    fn end_from(&mut self, first: usize, at: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (index, call) in self.calls.iter_mut().enumerate().skip(first) {
            if index > first {
                bytes.push(b',');
                push_call(&mut bytes, call, at);
            }
            bytes.extend_from_slice(&call.result);
            bytes.push(b'}');
        }
        bytes.extend_from_slice(b"]}");
        bytes.extend_from_slice(&self.after);
        bytes.extend_from_slice(TAIL);
        bytes
    }
}

/// Whether a part of this change alone could make the file unreadable. A kill comes between two pages, which a system
/// copies one by one; a power failure between any two bytes.
fn may_tear(at: u64, old: &[u8], new: &[u8]) -> bool {
    const PAGE: u64 = 4096;
    let quotes = |text: &[u8]| text.iter().rposition(|byte| *byte == b'"');
    at % PAGE + new.len() as u64 > PAGE || quotes(old) != quotes(new)
}

/// Adds a call up to the end of its status; the buffer stands at `at` in the file.
fn push_call(bytes: &mut Vec<u8>, call: &mut OpenCall, at: u64) {
    bytes.extend_from_slice(&call.opening);
    call.status_at = at + bytes.len() as u64;
    bytes.extend_from_slice(&call.padded_status());
}

impl DocumentWriter {
    /// A writer for an empty file.
    pub(crate) fn begin(medium: Box<dyn Medium>, meta: &JsonObject, now: Timestamp) -> Self {
        let (unwritten_head, stamp_at) = encode_head(meta, now);
        Self { medium, unwritten_head, stamp_at, end: 0, has_messages: false, open: None }
    }

    /// A writer for a document whose tail is at `end`.
    pub(crate) fn continue_at(medium: Box<dyn Medium>, stamp_at: u64, end: u64, has_messages: bool) -> Self {
        Self { medium, unwritten_head: Vec::new(), stamp_at, end, has_messages, open: None }
    }

    /// Where `lastUpdated` is.
    pub(crate) fn stamp_at(&self) -> u64 {
        self.stamp_at
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

    pub(crate) fn append(&mut self, message: &JsonObject, now: Timestamp) -> Result<(), WriteFailure> {
        let body = serde_json::to_vec(message).unwrap_or_default();
        let added = self.push(&body)?;
        if let Some(open) = &mut self.open {
            open.after.extend_from_slice(&added);
        }
        self.stamp(now);
        Ok(())
    }

    pub(crate) fn reply(
        &mut self,
        message: &JsonObject,
        calls: &[CallRecord],
        now: Timestamp,
    ) -> Result<(), WriteFailure> {
        if calls.is_empty() {
            return self.append(message, now);
        }
        let calls = calls.iter().map(|call| OpenCall::new(call, now)).collect();
        let id = message.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut head = serde_json::to_vec(message).unwrap_or_default();
        head.pop();
        head.extend_from_slice(b",\"toolCalls\":[");
        self.push_open(OpenReply { id, head, calls, after: Vec::new() })?;
        self.stamp(now);
        Ok(())
    }

    fn push_open(&mut self, mut open: OpenReply) -> Result<(), WriteFailure> {
        let start = self.end + (self.unwritten_head.len() + self.separator().len()) as u64;
        let body = open.record(start);
        self.push(&body)?;
        self.open = Some(open);
        Ok(())
    }

    /// The id of the last reply, if calls of it wait for their results.
    pub(crate) fn open_reply_id(&self) -> Option<&str> {
        self.open.as_ref().map(|open| open.id.as_str())
    }

    /// Writes the last reply of another writer, and what followed it, if calls of it wait for their results.
    pub(crate) fn continue_reply(&mut self, other: &Self) -> Result<(), WriteFailure> {
        let Some(open) = other.open.clone() else { return Ok(()) };
        let after = open.after.clone();
        self.push_open(open)?;
        replace_end(self.medium.as_mut(), self.end, TAIL, &[&after, TAIL].concat())?;
        self.end += after.len() as u64;
        Ok(())
    }

    /// Only the tail changes if the last call is the one that ended. In a batch, what is behind the first
    /// call that ended moves, so the arguments of the later calls are written once more; a copy next to the
    /// file sees to it that a kill in that moment costs nothing.
    pub(crate) fn results(&mut self, results: &[EndedCall<'_>], now: Timestamp) -> Result<(), WriteFailure> {
        let Some(before) = &self.open else { return Ok(()) };
        let mut after = before.clone();
        let mut first = None;
        for result in results {
            let waiting = |call: &OpenCall| call.id == *result.id.as_ref() && call.result.is_empty();
            if let Some(index) = after.calls.iter().position(waiting)
                && let Some(call) = after.calls.get_mut(index)
            {
                call.end(result);
                first = Some(first.map_or(index, |known: usize| known.min(index)));
            }
        }
        let Some((first, call)) = first.and_then(|first| Some((first, before.calls.get(first)?))) else {
            return Ok(());
        };
        let status_at = call.status_at;
        let at = status_at + STATUS_WIDTH as u64;
        let old = before.clone().end_from(first, at);
        let new = after.end_from(first, at);
        let status = after.calls.get(first).map(OpenCall::padded_status).unwrap_or_default();
        let moves_others = first + 1 < before.calls.len() || !before.after.is_empty();
        if moves_others || may_tear(status_at, &call.padded_status(), &status) {
            let old = [call.padded_status(), old].concat();
            let new = [&status[..], &new].concat();
            self.medium.keep_aside(status_at, &redo::encode(status_at, &old, &new));
            let replaced = replace_end(self.medium.as_mut(), status_at, &old, &new);
            self.medium.drop_aside();
            replaced?;
        } else {
            // The result comes first: a record that says `pending` and has one is still understood.
            replace_end(self.medium.as_mut(), at, &old, &new)?;
            if let Err(source) = self.medium.write_at(status_at, &status) {
                let old = [call.padded_status(), old].concat();
                return Err(undo(self.medium.as_mut(), status_at, &old, source));
            }
        }
        self.end = at + (new.len() - TAIL.len()) as u64;
        self.open = after.calls.iter().any(|call| call.result.is_empty()).then_some(after);
        self.stamp(now);
        Ok(())
    }

    /// Gives the session a title. It stands before the messages, so the file is replaced and every place moves.
    pub(crate) fn set_title(&mut self, path: &Path, title: &str) -> Result<(), WriteFailure> {
        if self.medium.is_displaced() || self.medium.len().map_err(WriteFailure::Failed)? != self.length() {
            return Err(WriteFailure::Changed);
        }
        let retitled = summary::retitle(path, title).map_err(WriteFailure::Failed)?;
        let Some(Retitled { file, moved }) = retitled else {
            return Err(WriteFailure::Failed(io::Error::other("no place for a title")));
        };
        self.move_by(moved);
        self.medium = SessionFile::boxed(file, path);
        Ok(())
    }

    fn move_by(&mut self, moved: Moved) {
        moved.apply(&mut self.stamp_at);
        moved.apply(&mut self.end);
        let calls = self.open.iter_mut().flat_map(|open| open.calls.iter_mut());
        calls.for_each(|call| moved.apply(&mut call.status_at));
    }

    /// The same writer for a copy of the file.
    pub(crate) fn on_copy(&self, medium: Box<dyn Medium>, moved: Moved) -> Self {
        let mut copy = Self {
            medium,
            unwritten_head: self.unwritten_head.clone(),
            stamp_at: self.stamp_at,
            end: self.end,
            has_messages: self.has_messages,
            open: self.open.clone(),
        };
        copy.move_by(moved);
        copy
    }

    /// The length of the file after the last write.
    pub(crate) fn length(&self) -> u64 {
        if self.unwritten_head.is_empty() { self.end + TAIL.len() as u64 } else { 0 }
    }

    fn separator(&self) -> Vec<u8> {
        let comma: &[u8] = if self.has_messages { b"," } else { b"" };
        [comma, INDENT].concat()
    }

    /// Puts a message where the tail is, and the tail behind it. Returns what is now in front of the tail.
    fn push(&mut self, body: &[u8]) -> Result<Vec<u8>, WriteFailure> {
        let added = [&self.unwritten_head, &self.separator(), body].concat();
        let new = [&added, TAIL].concat();
        let old = if self.unwritten_head.is_empty() { TAIL } else { b"" };
        replace_end(self.medium.as_mut(), self.end, old, &new)?;
        self.unwritten_head.clear();
        self.has_messages = true;
        self.end += added.len() as u64;
        Ok(added)
    }

    /// Patches `lastUpdated`. A failure is no loss worth reporting: the message itself is in the file.
    fn stamp(&mut self, now: Timestamp) {
        let text = now.to_iso();
        // A year with five digits does not fit; the old time then stays.
        if text.len() == Timestamp::ISO_LEN {
            let _ = self.medium.write_at(self.stamp_at, text.as_bytes());
        }
    }
}
