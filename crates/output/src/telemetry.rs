//! Telemetry on request only: to a file, or to a collector.
//!
//! Records, metrics and spans are folded from the same events as the output. The file has the shape that gemini-cli
//! writes; a collector gets the same records, and spans in addition (`pollux-otlp` sends them). Prompts and other texts
//! are left out unless `telemetry.logPrompts` allows them; keys never appear.
//! [`Console::open_telemetry`](crate::Console::open_telemetry) starts it, [`flush`] waits for its end.

mod clean;
mod destination;
mod metrics;
mod record;
mod sink;
mod spans;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pollux_config::groups::Secret;
use pollux_domain::JsonObject;
use pollux_domain::event::{ActivityKind, CallReport, CompressionStatus, Event, TurnEnd};
use pollux_domain::time::{Clock, Timestamp};
use pollux_otlp::{MetricSet, Options, Sender, SpanContext};

use clean::Cleaner;
pub(crate) use destination::{Choice, choose};
use metrics::Metrics;
pub use record::{Configuration, Identity};
use record::{Record, Texts};
pub use sink::flush;
use sink::{CollectorSink, FileSink, Sink};
use spans::Spans;

/// What an exporter needs to know.
pub(crate) struct Setup {
    pub(crate) destination: Destination,
    pub(crate) texts_allowed: bool,
    /// Whether answers are also written as the messages of an operation, if texts are allowed.
    pub(crate) traces: bool,
    pub(crate) identity: Identity,
    /// Values that must not reach a record, whatever text they are part of.
    pub(crate) secrets: Vec<Secret>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Where records go.
pub(crate) enum Destination {
    File {
        path: PathBuf,
        /// One record a line; gemini-cli's telemetry spreads them.
        in_lines: bool,
    },
    Collector {
        options: Box<Options>,
        /// What the records are about.
        resource: JsonObject,
        /// Whether [`flush`] tells what was lost.
        tells_problems: bool,
    },
}

/// Writes or sends one run's telemetry.
pub(crate) struct Exporter {
    sink: Sink,
    identity: Identity,
    texts: Texts,
    messages: Texts,
    clock: Arc<dyn Clock>,
    started: Timestamp,
    metrics: Arc<Mutex<Metrics>>,
    /// The turn that the event under way belongs to.
    context: Option<SpanContext>,
    /// The model and prompt of the request under way.
    model: String,
    prompt_id: String,
    prompts: u64,
    approval_mode: String,
}

impl Exporter {
    /// Opens the file or starts the sender; without it the run goes on, and the caller says so once.
    pub(crate) fn open(setup: Setup) -> io::Result<Self> {
        let started = setup.clock.now();
        let metrics = Arc::<Mutex<Metrics>>::default();
        locked(&metrics).session();
        let messages = Texts::when(setup.texts_allowed && setup.traces);
        let sink = match setup.destination {
            Destination::File { path, in_lines } => {
                Sink::File(FileSink::open(&path, in_lines, Cleaner::new(&setup.secrets))?)
            }
            Destination::Collector { options, resource, tells_problems } => {
                let secrets: Vec<Secret> = setup.secrets.iter().cloned().chain(options.secrets()).collect();
                let cleaner = Cleaner::new(&secrets);
                let mut clean = resource.clone();
                cleaner.attributes(&mut clean);
                let (metrics, clock) = (Arc::clone(&metrics), Arc::clone(&setup.clock));
                // Counts go on from the first session, so they keep its name.
                let (session, cleaning) = (setup.identity.session.clone(), cleaner.clone());
                let measure = move || MetricSet {
                    started,
                    at: clock.now(),
                    metrics: locked(&metrics).measure(&session, &cleaning),
                };
                let sender = Sender::start(*options, clean, measure)?;
                let Identity { provider, session, .. } = setup.identity.clone();
                let spans = Spans::new(messages, provider, session);
                let sink = CollectorSink::new(sender, spans, cleaner, resource, tells_problems);
                Sink::Collector(Box::new(sink))
            }
        };
        Ok(Self {
            sink,
            prompt_id: setup.identity.session.clone(),
            identity: setup.identity,
            texts: Texts::when(setup.texts_allowed),
            messages,
            clock: setup.clock,
            started,
            metrics,
            context: None,
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
        locked(&self.metrics).fold(event);
        if let Sink::Collector(sink) = &mut self.sink {
            self.context = sink.event(event, self.clock.now());
        }
        match event {
            // Another session may have taken the place of the first one.
            Event::SessionReady { session, .. } => session.as_str().clone_into(&mut self.identity.session),
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
            self.write_metrics();
        }
    }

    /// A collector asks for them itself.
    fn write_metrics(&mut self) {
        if let Sink::File(file) = &mut self.sink {
            let now = self.clock.now();
            file.write(locked(&self.metrics).record(&self.identity, self.started, now));
        }
    }

    /// Writes the metrics and ends the export; to be called on every way out.
    pub(crate) fn finish(&mut self) {
        self.write_metrics();
        match &mut self.sink {
            Sink::File(file) => file.flush(),
            Sink::Collector(sink) => sink.close(self.clock.now()),
        }
    }

    fn log(&mut self, record: &Record) {
        let now = self.clock.now();
        match &mut self.sink {
            Sink::File(file) => file.write(record.to_json(&self.identity, now)),
            Sink::Collector(sink) => sink.log(record, &self.identity, self.context, now),
        }
    }
}

impl Drop for Exporter {
    /// Front ends may just go away. Closing does not wait, and nothing is sent twice.
    fn drop(&mut self) {
        if let Sink::Collector(sink) = &mut self.sink {
            sink.close(self.clock.now());
        }
    }
}

fn locked(metrics: &Mutex<Metrics>) -> MutexGuard<'_, Metrics> {
    metrics.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
