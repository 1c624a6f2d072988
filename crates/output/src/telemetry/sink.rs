//! Where records go: a file, or a collector.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use pollux_config::files::{self, FileError, Mode};
use pollux_domain::JsonObject;
use pollux_domain::event::Event;
use pollux_domain::time::Timestamp;
use pollux_otlp::{Closing, Log, Sender, Span, SpanContext};
use serde_json::Value;

use super::clean::Cleaner;
use super::record::{Identity, Record};
use super::spans::Spans;

/// Senders that deliver their last records. A session that ends waits for none of them; the program does, once.
static CLOSING: Mutex<Vec<(Closing, bool)>> = Mutex::new(Vec::new());

const MAX_CLOSING: usize = 32;

/// Waits for records on their way to a collector, for a limited time. Returns a line about those that were lost, for
/// runs with `--debug`.
pub fn flush() -> Vec<String> {
    let closing = std::mem::take(&mut *CLOSING.lock().unwrap_or_else(PoisonError::into_inner));
    let problems = closing.into_iter().map(|(closing, tells)| (closing.wait(), tells));
    problems.filter_map(|(problem, tells)| problem.filter(|_| tells)).collect()
}

pub(super) enum Sink {
    File(FileSink),
    Collector(Box<CollectorSink>),
}

pub(super) struct FileSink {
    file: File,
    cleaner: Cleaner,
    /// One record a line; gemini-cli's telemetry spreads them.
    in_lines: bool,
}

impl FileSink {
    pub(super) fn open(path: &Path, in_lines: bool, cleaner: Cleaner) -> io::Result<Self> {
        if let Some(parent) = path.parent()
            && !parent.as_os_str().is_empty()
        {
            std::fs::create_dir_all(parent)?;
        }
        let file = files::open_append(path, Mode::Private).map_err(FileError::into_source)?;
        Ok(Self { file, cleaner, in_lines })
    }

    /// One record, one write: several processes may share the file. A disk that fills up must not end
    /// the run, so errors stay here.
    pub(super) fn write(&mut self, record: Value) {
        let text = self.cleaner.document(record, self.in_lines);
        let _ = self.file.write_all(text.as_bytes());
    }

    pub(super) fn flush(&mut self) {
        let _ = self.file.flush();
    }
}

pub(super) struct CollectorSink {
    /// There until it is closed.
    sender: Option<Sender>,
    spans: Spans,
    cleaner: Cleaner,
    resource: JsonObject,
    tells_problems: bool,
}

impl CollectorSink {
    pub(super) fn new(
        sender: Sender,
        spans: Spans,
        cleaner: Cleaner,
        resource: JsonObject,
        tells_problems: bool,
    ) -> Self {
        Self { sender: Some(sender), spans, cleaner, resource, tells_problems }
    }

    /// Takes an event before it is logged, and returns the turn that it belongs to.
    pub(super) fn event(&mut self, event: &Event, now: Timestamp) -> Option<SpanContext> {
        if let Event::SessionReady { session, .. } = event {
            self.set_session(session.as_str());
        }
        let before = self.spans.context();
        let ended = self.spans.event(event, now);
        self.send(ended);
        // The end of a turn belongs to it.
        self.spans.context().or(before)
    }

    fn set_session(&mut self, session: &str) {
        let known = self.resource.insert("session.id".to_owned(), session.into());
        if known.as_ref().and_then(Value::as_str) != Some(session)
            && let Some(sender) = &self.sender
        {
            let mut resource = self.resource.clone();
            self.cleaner.attributes(&mut resource);
            sender.set_resource(resource);
        }
    }

    pub(super) fn log(
        &self,
        record: &Record,
        identity: &Identity,
        context: Option<SpanContext>,
        now: Timestamp,
    ) {
        let Some(sender) = &self.sender else { return };
        let mut attributes = record.attributes(identity, now);
        self.cleaner.attributes(&mut attributes);
        let mut body = record.body.clone();
        self.cleaner.text(&mut body);
        let (name, is_error) = (record.name.clone(), record.is_error);
        sender.log(&Log { at: now, name, body, attributes, context, is_error });
    }

    fn send(&self, spans: Vec<Span>) {
        let Some(sender) = &self.sender else { return };
        for mut span in spans {
            self.cleaner.text(&mut span.name);
            self.cleaner.attributes(&mut span.attributes);
            if let Some(error) = &mut span.error {
                self.cleaner.text(error);
            }
            sender.span(&span);
        }
    }

    /// Ends what is open and lets the rest be delivered; [`flush`] waits for it.
    pub(super) fn close(&mut self, now: Timestamp) {
        let ended = self.spans.finish(now);
        self.send(ended);
        if let Some(sender) = self.sender.take() {
            let mut closing = CLOSING.lock().unwrap_or_else(PoisonError::into_inner);
            // In a process with many sessions the first ones are done long since.
            if closing.len() >= MAX_CLOSING {
                closing.remove(0);
            }
            closing.push((sender.close(), self.tells_problems));
        }
    }
}
