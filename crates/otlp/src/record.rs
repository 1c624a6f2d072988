//! Logs, spans and metrics, and their messages.

use pollux_domain::JsonObject;
use pollux_domain::time::Timestamp;
use uuid::Uuid;

use crate::wire::{Message, any};

const CUMULATIVE: u64 = 2;
const SEVERITY_INFO: u64 = 9;
const SEVERITY_ERROR: u64 = 17;
const STATUS_ERROR: u64 = 2;

/// The place of a span: its trace and itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanContext {
    trace: [u8; 16],
    span: [u8; 8],
}

impl SpanContext {
    /// A span that begins a trace.
    pub fn root() -> Self {
        Self { trace: *Uuid::new_v4().as_bytes(), span: span_id() }
    }

    /// Another span of the same trace.
    pub fn sibling(self) -> Self {
        Self { span: span_id(), ..self }
    }

    pub fn same_trace(self, other: Self) -> bool {
        self.trace == other.trace
    }
}

fn span_id() -> [u8; 8] {
    let mut id = [0; 8];
    // The second half has more random bits than the first.
    id.copy_from_slice(&Uuid::new_v4().as_bytes()[8..]);
    id
}

/// An event of the program.
#[derive(Debug, Clone, PartialEq)]
pub struct Log {
    pub at: Timestamp,
    pub name: String,
    pub body: String,
    pub attributes: JsonObject,
    /// The span that it belongs to.
    pub context: Option<SpanContext>,
    pub is_error: bool,
}

impl Log {
    pub(crate) fn message(&self) -> Message {
        let severity = if self.is_error { (SEVERITY_ERROR, "ERROR") } else { (SEVERITY_INFO, "INFO") };
        let message = Message::default()
            .fixed(1, nanos(self.at))
            .fixed(11, nanos(self.at))
            .number(2, severity.0)
            .text(3, severity.1)
            .message(5, &any(&self.body.as_str().into()))
            .attributes(6, &self.attributes)
            .text(12, &self.name);
        match &self.context {
            Some(context) => message.bytes(9, &context.trace).bytes(10, &context.span),
            None => message,
        }
    }
}

/// Whether a span waits for another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    Internal,
    Client,
}

/// Something that took time and is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    pub context: SpanContext,
    pub parent: Option<SpanContext>,
    pub name: String,
    pub kind: SpanKind,
    pub start: Timestamp,
    pub end: Timestamp,
    pub attributes: JsonObject,
    /// Why it failed.
    pub error: Option<String>,
}

impl Span {
    pub(crate) fn message(&self) -> Message {
        let kind = match self.kind {
            SpanKind::Internal => 1,
            SpanKind::Client => 3,
        };
        let mut message = Message::default().bytes(1, &self.context.trace).bytes(2, &self.context.span);
        if let Some(parent) = &self.parent {
            message = message.bytes(4, &parent.span);
        }
        message = message
            .text(5, &self.name)
            .number(6, kind)
            .fixed(7, nanos(self.start))
            .fixed(8, nanos(self.end.max(self.start)))
            .attributes(9, &self.attributes);
        match &self.error {
            Some(error) => message.message(15, &Message::default().text(2, error).number(3, STATUS_ERROR)),
            None => message,
        }
    }
}

/// All metrics of a run, counted from its start.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSet {
    pub started: Timestamp,
    pub at: Timestamp,
    pub metrics: Vec<Metric>,
}

/// A metric with a value for each set of attributes.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    pub name: String,
    pub unit: &'static str,
    pub points: Points,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Points {
    /// Sums that only grow.
    Counts(Vec<(JsonObject, u64)>),
    /// Values by size; `borders` are the upper ends of all buckets but the last.
    Distributions { borders: &'static [u64], points: Vec<(JsonObject, Distribution)> },
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Distribution {
    pub count: u64,
    pub sum: u64,
    pub min: u64,
    pub max: u64,
    /// One more than there are borders.
    pub buckets: Vec<u64>,
}

impl MetricSet {
    pub(crate) fn messages(&self) -> Vec<Message> {
        self.metrics.iter().map(|metric| self.metric(metric)).collect()
    }

    fn metric(&self, metric: &Metric) -> Message {
        let message = Message::default().text(1, &metric.name).text(3, metric.unit);
        match &metric.points {
            Points::Counts(points) => {
                let points =
                    points.iter().map(|(attributes, value)| self.point(7, attributes).fixed(6, *value));
                let sum = Message::default().messages(1, points).number(2, CUMULATIVE).number(3, 1);
                message.message(7, &sum)
            }
            Points::Distributions { borders, points } => {
                let points = points.iter().map(|(attributes, value)| {
                    self.point(9, attributes)
                        .fixed(4, value.count)
                        .double(5, value.sum as f64)
                        .packed(6, value.buckets.iter().copied())
                        .packed(7, borders.iter().map(|border| (*border as f64).to_bits()))
                        .double(11, value.min as f64)
                        .double(12, value.max as f64)
                });
                let histogram = Message::default().messages(1, points).number(2, CUMULATIVE);
                message.message(9, &histogram)
            }
        }
    }

    fn point(&self, field: u32, attributes: &JsonObject) -> Message {
        Message::default()
            .fixed(2, nanos(self.started))
            .fixed(3, nanos(self.at))
            .attributes(field, attributes)
    }
}

fn nanos(at: Timestamp) -> u64 {
    u64::try_from(at.millis()).unwrap_or_default().saturating_mul(1_000_000)
}
