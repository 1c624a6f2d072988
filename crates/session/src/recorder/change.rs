//! One record on its way into the file.

use std::borrow::Cow;
use std::collections::VecDeque;

use pollux_domain::JsonObject;
use pollux_domain::event::CallStatus;
use pollux_domain::id::CallId;
use pollux_domain::json::{MAX_DEPTH, limit_depth};
use pollux_domain::time::Timestamp;

use super::Form;
use super::medium::WriteFailure;
use crate::blobs::{self, Blobs, Guard, Record};
use crate::record::CallRecord;

/// Maximum size of the records that wait in memory.
const MAX_PENDING: usize = 64 << 20;
/// How deeply a field may be nested: what is accepted from a model stands some levels down in it.
const DEPTH: usize = MAX_DEPTH + 10;

/// How a call ended, as it goes into the file.
#[derive(Debug)]
pub(super) struct EndedCall<'a> {
    pub(super) id: Cow<'a, CallId>,
    pub(super) status: CallStatus,
    /// Its result and what people see of it.
    pub(super) fields: JsonObject,
}

#[derive(Debug)]
pub(super) struct Change<'a> {
    pub(super) now: Timestamp,
    pub(super) kind: ChangeKind<'a>,
}

#[derive(Debug)]
pub(super) enum ChangeKind<'a> {
    Message {
        message: JsonObject,
        is_prompt: bool,
    },
    Reply {
        message: JsonObject,
        calls: Cow<'a, [CallRecord]>,
    },
    /// How calls of the last reply ended.
    Results(Vec<EndedCall<'a>>),
}

impl Change<'_> {
    /// Writes the record; after a failure, this can be repeated.
    pub(super) fn apply(&mut self, form: &mut Form) -> Result<(), WriteFailure> {
        let now = self.now;
        match (&mut self.kind, form) {
            (ChangeKind::Message { message, .. }, form) => form.append(message, now),
            (ChangeKind::Reply { message, calls }, Form::Document(writer)) => {
                writer.reply(message, calls, now)
            }
            (ChangeKind::Reply { message, calls }, Form::Log(writer)) => writer.reply(message, calls, now),
            (ChangeKind::Results(ended), Form::Document(writer)) => writer.results(ended, now),
            (ChangeKind::Results(ended), Form::Log(writer)) => writer.results(ended),
        }
    }

    /// Keeps the record readable: parsers refuse what is nested too deeply.
    pub(super) fn limit_depth(&mut self) {
        let limit = |fields: &mut JsonObject| fields.values_mut().for_each(|value| limit_depth(value, DEPTH));
        match &mut self.kind {
            ChangeKind::Message { message, .. } | ChangeKind::Reply { message, .. } => limit(message),
            ChangeKind::Results(ended) => ended.iter_mut().for_each(|call| limit(&mut call.fields)),
        }
    }

    /// Stores long values separately; the record must be written before the guard is dropped.
    pub(super) fn extract(&mut self, blobs: &Blobs, guard: &mut Guard) {
        match &mut self.kind {
            ChangeKind::Message { message, is_prompt: true } => {
                blobs.extract(message, Record::Prompt, guard);
            }
            ChangeKind::Results(ended) => {
                for call in ended {
                    blobs.extract(&mut call.fields, Record::Call, guard);
                }
            }
            ChangeKind::Message { .. } | ChangeKind::Reply { .. } => {}
        }
    }

    /// Takes long values back, because they may be removed while no file mentions them.
    fn restore(&mut self, blobs: &Blobs) {
        match &mut self.kind {
            ChangeKind::Message { message, .. } => drop(blobs::resolve(blobs, message)),
            ChangeKind::Results(ended) => {
                for call in ended {
                    blobs::resolve(blobs, &mut call.fields);
                }
            }
            ChangeKind::Reply { .. } => {}
        }
    }

    /// About how much memory the record takes.
    fn size(&self) -> usize {
        let of = |fields: &JsonObject| serde_json::to_vec(fields).map_or(0, |bytes| bytes.len());
        match &self.kind {
            ChangeKind::Message { message, .. } => of(message),
            ChangeKind::Reply { message, calls } => {
                of(message) + calls.iter().map(|call| of(&call.args)).sum::<usize>()
            }
            ChangeKind::Results(ended) => ended.iter().map(|call| of(&call.fields)).sum(),
        }
    }

    fn into_owned(self) -> Change<'static> {
        let kind = match self.kind {
            ChangeKind::Message { message, is_prompt } => ChangeKind::Message { message, is_prompt },
            ChangeKind::Reply { message, calls } => {
                ChangeKind::Reply { message, calls: Cow::Owned(calls.into_owned()) }
            }
            ChangeKind::Results(ended) => {
                let owned = |call: EndedCall<'_>| EndedCall {
                    id: Cow::Owned(call.id.into_owned()),
                    status: call.status,
                    fields: call.fields,
                };
                ChangeKind::Results(ended.into_iter().map(owned).collect())
            }
        };
        Change { now: self.now, kind }
    }
}

/// Records that could not be written, in their order.
#[derive(Debug)]
pub(super) struct Pending {
    changes: VecDeque<(Change<'static>, usize)>,
    bytes: usize,
    max: usize,
    /// Number of records that did not fit. Nothing is kept after the first: a result needs its call.
    dropped: usize,
    /// Whether the failure was reported.
    is_reported: bool,
}

impl Default for Pending {
    fn default() -> Self {
        Self::at_most(MAX_PENDING)
    }
}

impl Pending {
    /// Keeps at most so many bytes.
    pub(super) fn at_most(max: usize) -> Self {
        Self { changes: VecDeque::new(), bytes: 0, max, dropped: 0, is_reported: false }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.dropped == 0
    }

    pub(super) fn add(&mut self, mut change: Change<'_>, blobs: Option<&Blobs>) {
        if let Some(blobs) = blobs {
            change.restore(blobs);
        }
        let size = change.size();
        if self.dropped > 0 || self.bytes + size > self.max {
            self.dropped += 1;
            return;
        }
        self.bytes += size;
        self.changes.push_back((change.into_owned(), size));
    }

    pub(super) fn take_first(&mut self) -> Option<Change<'static>> {
        let (change, size) = self.changes.pop_front()?;
        self.bytes -= size;
        Some(change)
    }

    /// Puts the first one back.
    pub(super) fn put_back(&mut self, mut change: Change<'static>, blobs: Option<&Blobs>) {
        if let Some(blobs) = blobs {
            change.restore(blobs);
        }
        let size = change.size();
        self.bytes += size;
        self.changes.push_front((change, size));
    }

    /// Notes that the failure is reported. False if it was before.
    pub(super) fn report(&mut self) -> bool {
        !std::mem::replace(&mut self.is_reported, true)
    }

    /// The number of lost records, after a failure that was reported and once everything else is written.
    pub(super) fn take_recovery(&mut self) -> Option<usize> {
        let was_reported = self.changes.is_empty() && std::mem::take(&mut self.is_reported);
        was_reported.then(|| std::mem::take(&mut self.dropped))
    }
}
