//! Delivery in the background: a queue, batches, retries, and a bounded wait at the end.
//!
//! One thread with its own runtime, because the runtime of a headless run ends before its last records are sent, and
//! because nothing that waits for a collector may delay a turn.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc as std_mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use pollux_domain::JsonObject;
use pollux_domain::plural::counted;
use pollux_net::backoff::{Backoff, Cause, Schedule};
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;

use crate::options::Options;
use crate::record::{Log, MetricSet, Span};
use crate::transport::{Outcome, Signal, Transport};
use crate::wire::Message;

const METRICS_EVERY: Duration = Duration::from_secs(10);
const BATCH_EVERY: Duration = Duration::from_secs(2);
/// Below the 4 MiB that gRPC servers accept.
const MAX_BATCH_BYTES: usize = 1024 * 1024;
const MAX_BATCH: usize = 512;
const MAX_QUEUED: usize = 2048;
const MAX_QUEUED_BYTES: usize = 8 * 1024 * 1024;

const MAX_ATTEMPTS: u32 = 5;
/// The same when the program is about to end.
const MAX_LAST_ATTEMPTS: u32 = 3;
const BACKOFF: Backoff = Backoff {
    quick: Duration::from_millis(200),
    start: Duration::from_secs(1),
    cap: Duration::from_secs(5),
    shortest: Duration::from_millis(100),
    longest: Duration::from_secs(30),
    scale: 1.0,
};

/// The present values of all metrics.
type Measure = Box<dyn Fn() -> MetricSet + Send>;

enum Item {
    Record(Signal, Vec<u8>),
    /// What the records that follow are about.
    Resource(JsonObject),
}

/// What both sides of the queue know.
#[derive(Debug, Default)]
struct Shared {
    queued_bytes: AtomicUsize,
    /// Records that are neither delivered nor lost.
    pending: AtomicUsize,
    lost: AtomicUsize,
    /// The first reason.
    reason: Mutex<Option<String>>,
}

impl Shared {
    fn lose(&self, records: usize, reason: &str) {
        self.lost.fetch_add(records, Ordering::Relaxed);
        let mut first = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| reason.to_owned());
    }

    fn problem(&self, place: &str) -> Option<String> {
        let lost = self.lost.load(Ordering::Relaxed);
        let reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let reason = reason.filter(|_| lost > 0)?;
        Some(format!("telemetry: {} not delivered to {place}: {reason}", counted(lost, "record")))
    }
}

/// Takes records and sends them in the background. Never waits.
#[derive(Debug)]
pub struct Sender {
    queue: mpsc::Sender<Item>,
    closed: watch::Sender<bool>,
    shared: Arc<Shared>,
    done: std_mpsc::Receiver<Option<String>>,
    flush_limit: Duration,
}

impl Sender {
    /// Starts the thread. `measure` is called there, every ten seconds and at the end.
    pub fn start(
        options: Options,
        resource: JsonObject,
        measure: impl Fn() -> MetricSet + Send + 'static,
    ) -> io::Result<Self> {
        let (queue, items) = mpsc::channel(MAX_QUEUED);
        let (closed, closing) = watch::channel(false);
        let (tell_done, done) = std_mpsc::channel();
        let shared = Arc::<Shared>::default();
        let measure: Measure = Box::new(measure);
        let worker_shared = Arc::clone(&shared);
        let flush_limit = options.flush_limit;
        thread::Builder::new().name("telemetry".to_owned()).spawn(move || {
            let place = options.place();
            work(options, resource, measure, items, closing, &worker_shared);
            // Nobody may be waiting.
            let _ = tell_done.send(worker_shared.problem(&place));
        })?;
        Ok(Self { queue, closed, shared, done, flush_limit })
    }

    pub fn log(&self, log: &Log) {
        self.push(Signal::Logs, log.message());
    }

    pub fn span(&self, span: &Span) {
        self.push(Signal::Spans, span.message());
    }

    /// The records that follow are about something else, such as another session.
    pub fn set_resource(&self, resource: JsonObject) {
        // A queue that is full loses it: the records keep the old one, and say themselves whose they are.
        let _ = self.queue.try_send(Item::Resource(resource));
    }

    fn push(&self, signal: Signal, message: Message) {
        const FULL: &str = "the queue is full";
        let bytes = message.into_bytes();
        let length = bytes.len();
        self.shared.pending.fetch_add(1, Ordering::Relaxed);
        if self.shared.queued_bytes.fetch_add(length, Ordering::Relaxed) + length > MAX_QUEUED_BYTES
            || self.queue.try_send(Item::Record(signal, bytes)).is_err()
        {
            self.shared.queued_bytes.fetch_sub(length, Ordering::Relaxed);
            self.shared.pending.fetch_sub(1, Ordering::Relaxed);
            self.shared.lose(1, FULL);
        }
    }

    /// Ends it: the rest is sent in the background, for a limited time.
    pub fn close(self) -> Closing {
        self.closed.send_replace(true);
        Closing { until: Instant::now() + self.flush_limit, done: self.done }
    }
}

/// A sender that delivers its last records.
#[derive(Debug)]
pub struct Closing {
    until: Instant,
    done: std_mpsc::Receiver<Option<String>>,
}

impl Closing {
    /// Waits until it is done or its time is over. Returns what went wrong.
    pub fn wait(self) -> Option<String> {
        // The thread notices the limit itself; a little longer, it can say what was lost.
        let until = self.until + Duration::from_millis(250);
        self.done.recv_timeout(until.saturating_duration_since(Instant::now())).ok().flatten()
    }
}

fn work(
    options: Options,
    resource: JsonObject,
    measure: Measure,
    items: mpsc::Receiver<Item>,
    mut closing: watch::Receiver<bool>,
    shared: &Shared,
) {
    let flush_limit = options.flush_limit;
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return shared.lose(1, &error.to_string()),
    };
    let transport = match Transport::new(options) {
        Ok(transport) => transport,
        Err(error) => return shared.lose(1, &error.to_string()),
    };
    let mut worker = Worker {
        transport,
        resource: Message::default().attributes(1, &resource),
        measure,
        closing: closing.clone(),
        shared,
        logs: Batch::default(),
        spans: Batch::default(),
    };
    runtime.block_on(async {
        let over = async {
            // An error means that the sender is gone, which is an end as well.
            let _ = closing.wait_for(|closed| *closed).await;
            tokio::time::sleep(flush_limit).await;
        };
        tokio::select! {
            () = worker.run(items) => {}
            () = over => {
                let pending = shared.pending.load(Ordering::Relaxed);
                shared.lose(pending, "the collector did not answer in time");
            }
        }
    });
    // Whatever still resolves a name has nothing left to do.
    runtime.shutdown_background();
}

/// Records of one kind.
#[derive(Debug, Default)]
struct Batch {
    records: Vec<Vec<u8>>,
    bytes: usize,
}

impl Batch {
    fn push(&mut self, record: Vec<u8>) {
        self.bytes += record.len();
        self.records.push(record);
    }

    fn is_full(&self) -> bool {
        self.bytes >= MAX_BATCH_BYTES || self.records.len() >= MAX_BATCH
    }
}

struct Worker<'a> {
    transport: Transport,
    resource: Message,
    measure: Measure,
    closing: watch::Receiver<bool>,
    shared: &'a Shared,
    logs: Batch,
    spans: Batch,
}

impl Worker<'_> {
    /// Sends what comes until the sender is closed.
    async fn run(&mut self, mut items: mpsc::Receiver<Item>) {
        let mut batches = tokio::time::interval(BATCH_EVERY);
        let mut metrics =
            tokio::time::interval_at(tokio::time::Instant::now() + METRICS_EVERY, METRICS_EVERY);
        for ticks in [&mut batches, &mut metrics] {
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        loop {
            tokio::select! {
                item = items.recv() => match item {
                    Some(item) => self.take(item).await,
                    None => break,
                },
                _ = batches.tick() => self.send_batches().await,
                _ = metrics.tick() => self.send_metrics().await,
            }
        }
        let (logs, spans) = (std::mem::take(&mut self.logs), std::mem::take(&mut self.spans));
        let worker = &*self;
        tokio::join!(
            worker.deliver(Signal::Logs, logs),
            worker.deliver(Signal::Spans, spans),
            worker.send_metrics()
        );
    }

    async fn take(&mut self, item: Item) {
        match item {
            Item::Record(signal, record) => {
                self.shared.queued_bytes.fetch_sub(record.len(), Ordering::Relaxed);
                let batch = match signal {
                    Signal::Spans => &mut self.spans,
                    Signal::Logs | Signal::Metrics => &mut self.logs,
                };
                batch.push(record);
                if batch.is_full() {
                    self.send_batches().await;
                }
            }
            Item::Resource(resource) => {
                self.send_batches().await;
                self.resource = Message::default().attributes(1, &resource);
            }
        }
    }

    async fn send_batches(&mut self) {
        let (logs, spans) = (std::mem::take(&mut self.logs), std::mem::take(&mut self.spans));
        let worker = &*self;
        tokio::join!(worker.deliver(Signal::Logs, logs), worker.deliver(Signal::Spans, spans));
    }

    async fn send_metrics(&self) {
        let mut batch = Batch::default();
        (self.measure)().messages().into_iter().for_each(|metric| batch.push(metric.into_bytes()));
        self.deliver(Signal::Metrics, batch).await;
    }

    async fn deliver(&self, signal: Signal, batch: Batch) {
        if batch.records.is_empty() {
            return;
        }
        let count = batch.records.len();
        let message = request(&self.resource, &batch.records);
        let lost = self.attempts(signal, &message).await.err();
        // Metrics are not queued: the next ones have the same counts.
        if signal != Signal::Metrics {
            self.shared.pending.fetch_sub(count, Ordering::Relaxed);
        }
        if let Some(reason) = lost {
            self.shared.lose(count, &reason);
        }
    }

    /// Sends a message until it is taken, refused, or tried often enough. The error is the reason of the last failure.
    async fn attempts(&self, signal: Signal, message: &[u8]) -> Result<(), String> {
        let mut closing = self.closing.clone();
        let mut schedule = Schedule::new(BACKOFF);
        let mut attempt = 1;
        loop {
            let (reason, after, absent) = match self.transport.send(signal, message).await {
                Outcome::Delivered => return Ok(()),
                Outcome::Refused(reason) => return Err(reason),
                Outcome::Later { reason, after, absent } => (reason, after, absent),
            };
            let is_last = *closing.borrow();
            let most = if is_last { MAX_LAST_ATTEMPTS } else { MAX_ATTEMPTS };
            // Nothing will begin to listen in the last moments of a run.
            let gives_up = attempt >= most || is_last && absent;
            // No jitter: runs do not begin at the same time.
            let delay = schedule.next(Cause::Transient, after, 0.5);
            let Some(delay) = delay.ok().filter(|_| !gives_up) else { return Err(reason) };
            attempt += 1;
            if is_last {
                tokio::time::sleep(delay.min(BACKOFF.quick)).await;
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                _ = closing.wait_for(|closed| *closed) => {}
            }
        }
    }
}

/// The message of an export. The three kinds differ in their records alone.
fn request(resource: &Message, records: &[Vec<u8>]) -> Vec<u8> {
    let scope = Message::default().message(1, &Message::default().text(1, "gemini-cli"));
    let records = records.iter().fold(scope, |scope, record| scope.bytes(2, record));
    let of_resource = Message::default().message(1, resource).message(2, &records);
    Message::default().message(1, &of_resource).into_bytes()
}
