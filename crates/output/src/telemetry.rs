//! Telemetry to a file, on request only: log records as things happen and metrics at the end.
//!
//! The records are folded from the same events as the output, in the shape that gemini-cli writes.
//! Prompts and other texts are left out unless `telemetry.logPrompts` allows them; keys never appear.
//! [`Console::open_telemetry`](crate::Console::open_telemetry) starts it; nothing is ever sent over a network.

mod metrics;
mod record;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_config::groups::Secret;
use pollux_domain::event::{ActivityKind, CallReport, CompressionStatus, Event, TurnEnd};
use pollux_domain::redact::redact_value;
use pollux_domain::terminal_text;
use pollux_domain::time::{Clock, Timestamp};
use serde_json::Value;

use metrics::Metrics;
pub use record::{Configuration, Identity};
use record::{Record, Texts};

/// What an exporter needs to know.
pub(crate) struct Setup {
    pub(crate) outfile: PathBuf,
    pub(crate) texts_allowed: bool,
    /// Whether answers are also written as the messages of an operation, if texts are allowed.
    pub(crate) traces: bool,
    /// One record a line; gemini-cli's telemetry spreads them.
    pub(crate) in_lines: bool,
    pub(crate) identity: Identity,
    /// Values that must not reach the file, whatever text they are part of.
    pub(crate) secrets: Vec<Secret>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Writes one run's telemetry.
pub(crate) struct Exporter {
    sink: Sink,
    identity: Identity,
    texts: Texts,
    messages: Texts,
    clock: Arc<dyn Clock>,
    started: Timestamp,
    metrics: Metrics,
    /// The model and prompt of the request under way.
    model: String,
    prompt_id: String,
    prompts: u64,
    approval_mode: String,
}

impl Exporter {
    /// Opens the file; without it the run goes on, and the caller says so once.
    pub(crate) fn open(setup: Setup) -> io::Result<Self> {
        let started = setup.clock.now();
        let mut metrics = Metrics::default();
        metrics.session();
        Ok(Self {
            sink: Sink {
                file: open_for_append(&setup.outfile)?,
                secrets: setup.secrets,
                in_lines: setup.in_lines,
            },
            prompt_id: setup.identity.session.clone(),
            identity: setup.identity,
            texts: Texts::when(setup.texts_allowed),
            messages: Texts::when(setup.texts_allowed && setup.traces),
            clock: setup.clock,
            started,
            metrics,
            model: String::new(),
            prompts: 0,
            approval_mode: String::new(),
        })
    }

    /// The settings of this run, written once.
    pub(crate) fn configuration(&mut self, configuration: &Configuration) {
        self.approval_mode.clone_from(&configuration.approval_mode);
        self.log(&record::configuration(configuration, self.texts));
        self.write_metrics_of_open_session();
    }

    /// Takes one event.
    pub(crate) fn event(&mut self, event: &Event) {
        self.metrics.fold(event);
        match event {
            Event::PromptAccepted { typed, prompt_id, .. } => {
                self.prompts += 1;
                self.prompt_id.clone_from(prompt_id);
                self.log(&record::user_prompt(typed, prompt_id, self.texts));
            }
            Event::RequestSent(sent) => {
                self.model.clone_from(&sent.model);
                self.log(&record::api_request(sent, self.texts));
            }
            Event::RequestEnded(ended) => match &ended.error {
                Some(error) => self.log(&record::api_error(ended, error)),
                None => {
                    self.log(&record::api_response(ended, self.texts));
                    self.log(&record::operation_details(ended, self.messages));
                }
            },
            Event::Waiting(wait) => self.log(&record::network_retry(wait, &self.model)),
            Event::AttemptDiscarded(discarded) => self.log(&record::content_retry(discarded, &self.model)),
            Event::CallFinished(report) => self.call_ended(report),
            Event::Compressed(done) if done.status == CompressionStatus::Nothing => {}
            Event::Compressed(done) => {
                self.log(&record::compression(done.tokens_before, done.tokens_after));
            }
            Event::HookRan(report) => self.log(&record::hook_call(report, self.texts)),
            // A sub-agent's calls are calls like any other.
            Event::Activity(activity) => {
                if let ActivityKind::CallEnded(report) = &activity.what {
                    self.call_ended(report);
                }
            }
            Event::TurnEnded(end) => self.turn_ended(end),
            _ => {}
        }
    }

    fn call_ended(&mut self, report: &CallReport) {
        self.log(&record::tool_call(report, self.texts));
        if let Some(operation) = record::file_operation(report) {
            self.log(&operation);
        }
    }

    fn turn_ended(&mut self, end: &TurnEnd) {
        if let TurnEnd::Loop(_) = end {
            self.log(&record::loop_detected(&self.prompt_id));
        }
        self.log(&record::conversation_finished(&self.approval_mode, self.prompts));
        self.write_metrics_of_open_session();
    }

    /// A session that goes on for hours shows its counts before its end; they are cumulative.
    fn write_metrics_of_open_session(&mut self) {
        if self.identity.interactive {
            let record = self.metrics.record(&self.identity, self.started, self.clock.now());
            self.sink.write(record);
        }
    }

    /// Writes the metrics; to be called on every way out.
    pub(crate) fn finish(&mut self) {
        let record = self.metrics.record(&self.identity, self.started, self.clock.now());
        self.sink.write(record);
        let _ = self.sink.file.flush();
    }

    fn log(&mut self, record: &Record) {
        self.sink.write(record.to_json(&self.identity, self.clock.now()));
    }
}

struct Sink {
    file: File,
    secrets: Vec<Secret>,
    in_lines: bool,
}

impl Sink {
    /// One record, one write: several processes may share the file. A disk that fills up must not end
    /// the run, so errors stay here.
    fn write(&mut self, mut record: Value) {
        redact_value(&mut record);
        let text = if self.in_lines { format!("{record}\n") } else { format!("{record:#}\n") };
        let text = without_secrets(terminal_text::json(text), &self.secrets);
        let _ = self.file.write_all(text.as_bytes());
    }
}

fn without_secrets(mut text: String, secrets: &[Secret]) -> String {
    for secret in secrets {
        let escaped = Value::from(secret.reveal()).to_string();
        let escaped = escaped.trim_matches('"');
        // Shorter values are not keys, and replacing them would damage ordinary text.
        if escaped.len() >= 8 && text.contains(escaped) {
            text = text.replace(escaped, "***");
        }
    }
    text
}

fn open_for_append(path: &Path) -> io::Result<File> {
    if let Some(parent) = path.parent()
        && !parent.as_os_str().is_empty()
    {
        std::fs::create_dir_all(parent)?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests;
