//! Counters and histograms of a run, cumulative: one record at the end of a file, or what a collector gets.
//!
//! Names and attributes are upstream's. The statistics that people see are counted in `stats.rs`.

use std::time::Duration;

use pollux_domain::JsonObject;
use pollux_domain::event::{ActivityKind, CallReport, CompressionStatus, Event, HookReport, RequestEnded};
use pollux_domain::time::Timestamp;
use pollux_otlp::{Distribution, Metric, Points};
use serde_json::{Value, json};

use super::clean::Cleaner;
use super::record::{Identity, high_resolution, resource, short_hook_name};
use crate::stats::millis;

/// The usual bucket borders of OpenTelemetry.
const BORDERS: [u64; 15] = [0, 5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10_000];

/// Sets of attributes of one metric; a model can invent names of tools without end.
const MAX_POINTS: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Metrics {
    counters: Vec<Series<u64>>,
    histograms: Vec<Series<Histogram>>,
}

/// One metric with a value for each set of attributes.
#[derive(Debug)]
struct Series<T> {
    name: &'static str,
    points: Vec<(JsonObject, T)>,
}

#[derive(Debug, Default)]
struct Histogram {
    min: u64,
    max: u64,
    sum: u64,
    count: u64,
    buckets: [u64; BORDERS.len() + 1],
}

impl Metrics {
    pub(super) fn session(&mut self) {
        self.count("session.count", json!({}), 1);
    }

    pub(super) fn fold(&mut self, event: &Event) {
        match event {
            Event::RequestEnded(ended) => self.request(ended),
            Event::CallFinished(report) => self.call(report),
            Event::Activity(activity) => {
                if let ActivityKind::CallEnded(report) = &activity.what {
                    self.call(report);
                }
            }
            Event::Waiting(_) => self.count("network_retry.count", json!({}), 1),
            Event::AttemptDiscarded(discarded) => {
                let failed = discarded.retry_in.is_none();
                let name =
                    if failed { "chat.content_retry_failure.count" } else { "chat.content_retry.count" };
                self.count(name, json!({}), 1);
            }
            Event::Compressed(done) if done.status == CompressionStatus::Nothing => {}
            Event::Compressed(done) => {
                let (before, after) = (done.tokens_before, done.tokens_after);
                let attributes = json!({"tokens_before": before, "tokens_after": after});
                self.count("chat_compression", attributes, 1);
            }
            Event::HookRan(report) => self.hook(report),
            _ => {}
        }
    }

    fn request(&mut self, ended: &RequestEnded) {
        let model = ended.model_version.as_deref().unwrap_or(&ended.model);
        let mut attributes = json!({"model": model, "status_code": 200});
        if let Some(error) = &ended.error {
            attributes = json!({
                "model": ended.model,
                "status_code": error.status.map_or(Value::from("error"), Value::from),
                "error_type": format!("{:?}", error.kind),
            });
        }
        self.count("api.request.count", attributes, 1);
        self.observe("api.request.latency", json!({"model": model}), ended.duration);
        if ended.error.is_none() {
            for (kind, tokens) in [
                ("input", ended.usage.input),
                ("output", ended.usage.output),
                ("thought", ended.usage.reasoning),
                ("cache", ended.usage.cached),
                ("tool", ended.usage.tool_input),
            ] {
                self.count("token.usage", json!({"model": model, "type": kind}), tokens);
            }
        }
    }

    fn call(&mut self, report: &CallReport) {
        let success = report.outcome.succeeded();
        let mut attributes = json!({"function_name": report.name, "success": success, "tool_type": "native"});
        if let (Some(decision), Some(object)) = (report.decision, attributes.as_object_mut()) {
            object.insert("decision".into(), decision.as_str().into());
        }
        self.count("tool.call.count", attributes, 1);
        self.observe("tool.call.latency", json!({"function_name": report.name}), report.duration);
        for (kind, lines) in [("added", report.lines.added), ("removed", report.lines.removed)] {
            if lines > 0 {
                let attributes = json!({"type": kind, "function_name": report.name});
                self.count("lines.changed", attributes, lines);
            }
        }
    }

    fn hook(&mut self, report: &HookReport) {
        let attributes = json!({
            "hook_event_name": report.event,
            "hook_name": short_hook_name(&report.hook),
            "success": report.error.is_none(),
        });
        self.count("hook_call.count", attributes.clone(), 1);
        self.observe("hook_call.latency", attributes, report.duration);
    }

    fn count(&mut self, name: &'static str, attributes: Value, by: u64) {
        *point(&mut self.counters, name, attributes) += by;
    }

    fn observe(&mut self, name: &'static str, attributes: Value, duration: Duration) {
        point(&mut self.histograms, name, attributes).observe(millis(duration));
    }

    /// The record of all metrics; every point carries the session's id, as upstream's do.
    pub(super) fn record(&self, identity: &Identity, started: Timestamp, now: Timestamp) -> Value {
        let times = (high_resolution(started), high_resolution(now));
        let counters = self.counters.iter().map(|series| {
            let points = series
                .points
                .iter()
                .map(|(attributes, value)| data_point(identity, attributes, &times, Value::from(*value)));
            json!({
                "descriptor": descriptor(series.name, "COUNTER", ""),
                "aggregationTemporality": 1,
                "dataPointType": 3,
                "dataPoints": points.collect::<Vec<_>>(),
                "isMonotonic": true,
            })
        });
        let histograms = self.histograms.iter().map(|series| {
            let points = series
                .points
                .iter()
                .map(|(attributes, value)| data_point(identity, attributes, &times, value.to_json()));
            json!({
                "descriptor": descriptor(series.name, "HISTOGRAM", "ms"),
                "aggregationTemporality": 1,
                "dataPointType": 0,
                "dataPoints": points.collect::<Vec<_>>(),
            })
        });
        let metrics: Vec<Value> = counters.chain(histograms).collect();
        json!({
            "resource": resource(identity),
            "scopeMetrics": [{"scope": {"name": "gemini-cli"}, "metrics": metrics}],
        })
    }

    /// The same for a collector, without secrets.
    pub(super) fn measure(&self, session: &str, cleaner: &Cleaner) -> Vec<Metric> {
        let clean = |own: &JsonObject| {
            let mut all = with_session(session, own);
            cleaner.attributes(&mut all);
            all
        };
        let name = |name: &str| format!("gemini_cli.{name}");
        let counters = self.counters.iter().map(|series| {
            let points = series.points.iter().map(|(own, value)| (clean(own), *value));
            Metric { name: name(series.name), unit: "", points: Points::Counts(points.collect()) }
        });
        let histograms = self.histograms.iter().map(|series| {
            let points = series.points.iter().map(|(own, value)| (clean(own), value.distribution()));
            let points = Points::Distributions { borders: &BORDERS, points: points.collect() };
            Metric { name: name(series.name), unit: "ms", points }
        });
        counters.chain(histograms).collect()
    }
}

impl Histogram {
    fn observe(&mut self, value: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.sum = self.sum.saturating_add(value);
        self.count += 1;
        let bucket = BORDERS.iter().position(|border| value <= *border).unwrap_or(BORDERS.len());
        self.buckets[bucket] += 1;
    }

    fn distribution(&self) -> Distribution {
        let Self { min, max, sum, count, buckets } = self;
        Distribution { count: *count, sum: *sum, min: *min, max: *max, buckets: buckets.to_vec() }
    }

    fn to_json(&self) -> Value {
        json!({
            "min": self.min,
            "max": self.max,
            "sum": self.sum,
            "buckets": {"boundaries": BORDERS, "counts": self.buckets},
            "count": self.count,
        })
    }
}

fn descriptor(name: &str, kind: &str, unit: &str) -> Value {
    json!({"name": format!("gemini_cli.{name}"), "type": kind, "description": "", "unit": unit, "valueType": 0})
}

fn data_point(identity: &Identity, attributes: &JsonObject, times: &(Value, Value), value: Value) -> Value {
    let all = with_session(&identity.session, attributes);
    json!({"attributes": all, "startTime": times.0, "endTime": times.1, "value": value})
}

fn with_session(session: &str, attributes: &JsonObject) -> JsonObject {
    let mut all = JsonObject::new();
    all.insert("session.id".into(), session.into());
    all.extend(attributes.clone());
    all
}

/// The value for this metric and these attributes, made if it is missing.
fn point<'a, T: Default>(list: &'a mut Vec<Series<T>>, name: &'static str, attributes: Value) -> &'a mut T {
    let attributes = match attributes {
        Value::Object(attributes) => attributes,
        _ => JsonObject::new(),
    };
    let at = list.iter().position(|series| series.name == name).unwrap_or_else(|| {
        list.push(Series { name, points: Vec::new() });
        list.len() - 1
    });
    let points = &mut list[at].points;
    let at = points.iter().position(|(known, _)| *known == attributes).unwrap_or_else(|| {
        match points.len() {
            // The last one counts all that have no place, as OpenTelemetry does it.
            MAX_POINTS => return MAX_POINTS - 1,
            last if last == MAX_POINTS - 1 => points.push((overflow(), T::default())),
            _ => points.push((attributes, T::default())),
        }
        points.len() - 1
    });
    &mut points[at].1
}

fn overflow() -> JsonObject {
    JsonObject::from_iter([("otel.metric.overflow".to_owned(), true.into())])
}
