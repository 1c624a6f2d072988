//! A streamed reply: connecting, waiting, reading.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use pollux_domain::BoxFuture;
use pollux_domain::content::{Body, Part};
use pollux_domain::json::parse_wire;
use pollux_domain::model::{ModelError, ModelErrorKind, Origin, ReplyChunk, ReplyEvent, ReplyStream, Wait};
use pollux_net::backoff::Cause;
use pollux_net::sse::SseError;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderValue};
use reqwest::{Request, Response};
use serde_json::Value;
use tokio::time::Instant;

use super::attempts::{Attempts, loading_notice};
use super::connection::Connection;
use super::events::BodyEvents;
use super::{Decoder, Exchange, Failure, Mend, Retry};
use crate::budget::received;

const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
/// How long the end of a stream is awaited once the model has said why it stopped.
const AFTER_FINISH: Duration = Duration::from_secs(3);

/// How long the end of a connection is awaited once its reply is complete.
const HANG_UP: Duration = Duration::from_millis(50);
/// How often one request may be changed and sent again.
const MAX_MENDS: u32 = 8;

/// A reply under way. Dropping it ends the request.
pub(crate) struct HttpStream {
    connection: Arc<Connection>,
    exchange: Box<dyn Exchange>,
    state: State,
    attempts: Attempts,
    mends: u32,
    /// The reply is wanted as a whole: one that breaks off is asked for again here and not by the agent.
    whole: bool,
    /// From the first chunk on the agent decides about another attempt.
    delivered: bool,
    /// The model has said why it stopped; nothing of worth can follow.
    finished: bool,
}

/// Every wait is part of the state, so that a caller may drop the future of `next` and ask again.
enum State {
    Ready,
    Connecting(BoxFuture<'static, Result<Response, Failure>>),
    Sleeping(Instant),
    Reading(Box<Reading>),
    /// A reply of our own.
    Telling(VecDeque<ReplyEvent>),
    Done,
}

impl HttpStream {
    pub(crate) fn new(
        connection: Arc<Connection>,
        exchange: impl Exchange + 'static,
        max_attempts: u32,
    ) -> Self {
        Self {
            attempts: connection.attempts(max_attempts),
            connection,
            exchange: Box::new(exchange),
            state: State::Ready,
            mends: 0,
            whole: false,
            delivered: false,
            finished: false,
        }
    }

    /// Reads the reply to its end, as often as it takes, and joins its chunks.
    pub(crate) async fn collect(mut self) -> Result<ReplyChunk, ModelError> {
        self.whole = true;
        let mut reply = ReplyChunk::default();
        while let Some(event) = self.advance().await {
            match event? {
                ReplyEvent::Chunk(chunk) => join(&mut reply, chunk),
                ReplyEvent::Waiting(_) => reply = ReplyChunk::default(),
                ReplyEvent::CallProgress { .. } | ReplyEvent::Alive => {}
            }
        }
        Ok(reply)
    }

    async fn advance(&mut self) -> Option<Result<ReplyEvent, ModelError>> {
        loop {
            match &mut self.state {
                State::Ready => {
                    if let Some(delay) = self.connection.rate_limit_delay() {
                        self.state = State::Sleeping(Instant::now() + delay);
                        let cause = "rate limit reached".to_owned();
                        return Some(Ok(ReplyEvent::Waiting(self.wait(delay, cause, None))));
                    }
                    match self.exchange.request() {
                        Ok(request) => self.state = self.connect(request),
                        Err(error) => {
                            self.state = State::Done;
                            return Some(Err(error));
                        }
                    }
                }
                State::Connecting(sending) => match sending.await {
                    Ok(response) => {
                        let decoder = self.exchange.decoder();
                        self.state = State::Reading(Box::new(Reading::new(response, decoder)));
                    }
                    Err(failure) => {
                        if let Some(told) = self.failed(failure) {
                            return Some(told);
                        }
                    }
                },
                State::Sleeping(until) => {
                    tokio::time::sleep_until(*until).await;
                    self.state = State::Ready;
                }
                State::Reading(reading) => match reading.next(&self.connection, self.finished).await {
                    Ok(Some(mut event)) => {
                        if let ReplyEvent::Chunk(chunk) = &mut event {
                            self.connection.mask(chunk);
                            self.delivered = true;
                            self.finished |= chunk.finish.is_some();
                        }
                        return Some(Ok(event));
                    }
                    // The reply was complete, so a connection that ends badly does not matter.
                    Err(failure) if !(self.finished && failure.error.kind == ModelErrorKind::Cut) => {
                        if let Some(told) = self.failed(failure) {
                            return Some(told);
                        }
                    }
                    Ok(None) | Err(_) => self.state = State::Done,
                },
                State::Telling(events) => match events.pop_front() {
                    Some(event) => return Some(Ok(event)),
                    None => self.state = State::Done,
                },
                State::Done => return None,
            }
        }
    }

    fn connect(&self, mut request: Request) -> State {
        // A compressed stream could sit in some buffer on its way.
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let connection = Arc::clone(&self.connection);
        State::Connecting(Box::pin(async move { connection.send(request).await }))
    }

    /// Changes the request, waits for another attempt, or gives up. `None` if there is nothing to tell.
    fn failed(&mut self, mut failure: Failure) -> Option<Result<ReplyEvent, ModelError>> {
        if !self.delivered && self.mends < MAX_MENDS {
            match self.exchange.mend(&failure) {
                Mend::No => {}
                Mend::Again(notice) => {
                    self.mends += 1;
                    self.state = State::Ready;
                    let wait = self.wait(Duration::ZERO, notice?, failure.error.status);
                    return Some(Ok(ReplyEvent::Waiting(wait)));
                }
                Mend::Instead(events) => {
                    self.state = State::Telling(events.into());
                    return None;
                }
            }
        }
        if self.whole && failure.retry == Retry::Never && failure.error.kind == ModelErrorKind::Cut {
            failure.retry = Retry::After { cause: Cause::Transient, hint: None };
        }
        let attempt = self.attempts.number;
        let pausing = self.whole || !self.delivered;
        let delay = if pausing { self.attempts.pause(&failure) } else { None };
        let begins_to_load = self.attempts.begins_to_load(&failure);
        let error = self.connection.safe(failure.error);
        let Some(delay) = delay else {
            self.state = State::Done;
            return Some(Err(error));
        };
        self.state = State::Sleeping(Instant::now() + delay);
        self.finished = false;
        if begins_to_load {
            return Some(Ok(ReplyEvent::Waiting(self.wait(Duration::ZERO, loading_notice(), None))));
        }
        let wait = Wait { attempt, kind: Some(error.kind), ..self.wait(delay, error.message, error.status) };
        Some(Ok(ReplyEvent::Waiting(wait)))
    }

    fn wait(&self, delay: Duration, cause: String, status: Option<u16>) -> Wait {
        let Attempts { number, max, .. } = self.attempts;
        Wait { attempt: number, max_attempts: max, delay, cause, status, kind: None }
    }
}

/// Puts a chunk behind a reply. Texts side by side become one.
fn join(reply: &mut ReplyChunk, chunk: ReplyChunk) {
    for part in chunk.parts {
        match (reply.parts.last_mut(), part) {
            (
                Some(Part { body: Body::Text(text), seal: None, extra }),
                Part { body: Body::Text(more), seal: None, extra: none },
            ) if extra.is_empty() && none.is_empty() => text.push_str(&more),
            (_, part) => reply.parts.push(part),
        }
    }
    reply.finish = chunk.finish.or_else(|| reply.finish.take());
    reply.origin = chunk.origin.or_else(|| reply.origin.take());
    reply.usage = chunk.usage.or(reply.usage);
    reply.model_version = chunk.model_version.or_else(|| reply.model_version.take());
    reply.blocked = chunk.blocked.or_else(|| reply.blocked.take());
    reply.citations.extend(chunk.citations);
    reply.grounding = chunk.grounding.or_else(|| reply.grounding.take());
}

impl ReplyStream for HttpStream {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<ReplyEvent, ModelError>>> {
        Box::pin(self.advance())
    }
}

/// A reply whose chunks say who gave them.
pub(crate) struct SignedStream {
    inner: HttpStream,
    origin: Arc<Origin>,
}

impl SignedStream {
    pub(crate) fn new(inner: HttpStream, origin: Origin) -> Self {
        Self { inner, origin: Arc::new(origin) }
    }
}

impl ReplyStream for SignedStream {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<ReplyEvent, ModelError>>> {
        Box::pin(async {
            let mut event = self.inner.next().await;
            if let Some(Ok(ReplyEvent::Chunk(chunk))) = &mut event {
                // A wire that knows more of its reply has said so.
                chunk.origin.get_or_insert_with(|| Arc::clone(&self.origin));
            }
            event
        })
    }
}

/// A body being read.
struct Reading {
    response: Response,
    body: BodyEvents,
    /// What was read and not told yet.
    events: VecDeque<ReplyEvent>,
    /// Objects of a body that came as a whole.
    objects: VecDeque<Value>,
    /// The body is JSON and no stream: some gateways do not stream.
    is_json: bool,
    /// What of such a body has come already.
    head: Vec<u8>,
    any_byte: bool,
    ended: bool,
    /// The decoder was told that nothing follows.
    closed: bool,
}

impl Reading {
    fn new(response: Response, decoder: Box<dyn Decoder>) -> Self {
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let is_json = content_type.is_some_and(|kind| kind.starts_with("application/json"));
        Self {
            response,
            body: BodyEvents::new(decoder),
            events: VecDeque::new(),
            objects: VecDeque::new(),
            is_json,
            head: Vec::new(),
            any_byte: false,
            ended: false,
            closed: false,
        }
    }

    async fn next(&mut self, connection: &Connection, finished: bool) -> Result<Option<ReplyEvent>, Failure> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if let Some(object) = self.objects.pop_front() {
                self.body.decoder().object(object, &mut self.events)?;
            } else if self.body.step(&mut self.events)? {
                continue;
            } else if self.closed {
                return Ok(None);
            } else if self.ended {
                self.close(connection)?;
            } else if self.body.is_over() {
                self.hang_up().await;
            } else if self.is_json {
                self.read_whole(connection).await?;
            } else {
                self.read_more(connection, finished).await?;
            }
        }
    }

    async fn read_more(&mut self, connection: &Connection, finished: bool) -> Result<(), Failure> {
        let patience = match (self.any_byte, finished) {
            (false, _) => connection.first_byte(),
            (true, false) => connection.stall(),
            // The reply is complete; its connection may be, too, without saying so.
            (true, true) => connection.stall().min(AFTER_FINISH),
        };
        let unreadable = |error: SseError| match error {
            SseError::Incomplete => connection.cut(error.to_string()),
            SseError::TooLong => Failure::malformed(error.to_string()),
        };
        let next = match connection.chunk(&mut self.response, patience).await {
            // The reply was complete, so a connection that ends badly does not matter.
            Err(failure) if finished && failure.error.kind == ModelErrorKind::Cut => {
                self.ended = true;
                return Ok(());
            }
            next => next?,
        };
        match next {
            Some(bytes) => {
                received(bytes.len()).map_err(|error| Failure::new(error, Retry::Never))?;
                if !std::mem::replace(&mut self.any_byte, true) && is_json(&bytes) {
                    self.is_json = true;
                    self.head = bytes.to_vec();
                    return Ok(());
                }
                self.body.feed(&bytes).map_err(unreadable)?;
                if self.body.is_alive() {
                    self.events.push_back(ReplyEvent::Alive);
                }
                Ok(())
            }
            None => {
                self.ended = true;
                self.body.finish().map_err(unreadable)
            }
        }
    }

    async fn read_whole(&mut self, connection: &Connection) -> Result<(), Failure> {
        // One piece at a time, so that nothing is lost when the caller drops the future.
        if let Some(bytes) = connection.chunk(&mut self.response, connection.stall()).await? {
            if self.head.len() + bytes.len() > MAX_BODY_BYTES {
                return Err(Failure::malformed("the reply is longer than 64 MiB"));
            }
            self.head.extend_from_slice(&bytes);
            return Ok(());
        }
        self.ended = true;
        let body = std::mem::take(&mut self.head);
        let text = || String::from_utf8_lossy(&body);
        match parse_wire(&body) {
            Ok(Value::Array(objects)) => self.objects.extend(objects),
            Ok(object @ Value::Object(_)) => self.objects.push_back(object),
            Ok(_) => return Err(connection.not_the_api(&text())),
            // A stream under the wrong name is still a stream.
            Err(_) => {
                self.body.feed(&body).map_err(|error| Failure::malformed(error.to_string()))?;
                self.body.finish().map_err(|error| connection.cut(error.to_string()))?;
            }
        }
        if !self.objects.is_empty() {
            self.body.note_object();
        }
        Ok(())
    }

    fn close(&mut self, connection: &Connection) -> Result<(), Failure> {
        self.closed = true;
        if let Some(text) = self.body.only_stray() {
            return Err(connection.not_the_api(text));
        }
        self.body.decoder().end(&mut self.events)
    }

    /// The reply is complete. Its connection can serve the next request if its end is seen, too.
    async fn hang_up(&mut self) {
        self.ended = true;
        let rest = async { while let Ok(Some(_)) = self.response.chunk().await {} };
        let _ = tokio::time::timeout(HANG_UP, rest).await;
    }
}

/// Whether a body is JSON although it does not say so.
fn is_json(bytes: &[u8]) -> bool {
    let start = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    start.starts_with(b"{") || start.starts_with(b"[")
}
