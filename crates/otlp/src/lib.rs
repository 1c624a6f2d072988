//! Sends logs, spans and metrics to an OpenTelemetry collector, by OTLP over HTTP or gRPC.
//!
//! Owns: the messages of the protocol ([`Log`], [`Span`], [`Metric`] and their protobuf form), the variables that every
//! exporter knows ([`Options`]), and delivery in the background ([`Sender`]): batches, a bounded queue, retries and a
//! bounded wait at the end. Does not own: what is recorded, which texts may leave, or whether anything is sent at all.
//! Start at [`Sender::start`]. A collector that is away, slow or hostile costs records, never the program's time.

mod options;
mod record;
mod sender;
mod transport;
mod wire;

pub use options::{Options, Protocol, resource};
pub use record::{Distribution, Log, Metric, MetricSet, Points, Span, SpanContext, SpanKind};
pub use sender::{Closing, Sender};
