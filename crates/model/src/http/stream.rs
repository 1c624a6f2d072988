//! A streamed reply: connecting, waiting, reading.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use pollux_domain::BoxFuture;
use pollux_domain::model::{ModelError, ModelErrorKind, ReplyEvent, ReplyStream, Wait};
use pollux_net::backoff::Schedule;
use pollux_net::sse::{Item, Parser, SseError};
use reqwest::header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderValue};
use reqwest::{Request, Response};
use serde_json::Value;
use tokio::time::Instant;

use super::connection::{Connection, copy};
use super::{Decoder, Failure};

const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
/// How long the end of a stream is awaited once the model has said why it stopped.
const AFTER_FINISH: Duration = Duration::from_secs(3);

/// A reply under way. Dropping it ends the request.
pub(crate) struct HttpStream {
    connection: Arc<Connection>,
    state: State,
    request: Option<Request>,
    schedule: Schedule,
    attempt: u32,
    max_attempts: u32,
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
    Failed(ModelError),
    Done,
}

impl HttpStream {
    pub(crate) fn new(
        connection: Arc<Connection>,
        request: Result<Request, ModelError>,
        max_attempts: u32,
    ) -> Self {
        let schedule = connection.schedule();
        let (request, state) = match request {
            Ok(mut request) => {
                // A compressed stream could sit in some buffer on its way.
                request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
                (Some(request), State::Ready)
            }
            Err(error) => (None, State::Failed(error)),
        };
        Self {
            connection,
            state,
            request,
            schedule,
            attempt: 0,
            max_attempts,
            delivered: false,
            finished: false,
        }
    }

    async fn advance(&mut self) -> Option<Result<ReplyEvent, ModelError>> {
        loop {
            match &mut self.state {
                State::Ready => {
                    self.attempt += 1;
                    self.state = self.connect();
                }
                State::Connecting(sending) => match sending.await {
                    Ok(response) => {
                        let decoder = self.connection.decoder();
                        self.state = State::Reading(Box::new(Reading::new(response, decoder)));
                    }
                    Err(failure) => return Some(self.failed(failure)),
                },
                State::Sleeping(until) => {
                    tokio::time::sleep_until(*until).await;
                    self.state = State::Ready;
                }
                State::Reading(reading) => match reading.next(&self.connection, self.finished).await {
                    Ok(Some(event)) => {
                        if let ReplyEvent::Chunk(chunk) = &event {
                            self.delivered = true;
                            self.finished |= chunk.finish.is_some();
                        }
                        return Some(Ok(event));
                    }
                    // The reply was complete; that its connection ended badly is nobody's concern.
                    Err(failure) if !(self.finished && failure.error.kind == ModelErrorKind::Cut) => {
                        return Some(self.failed(failure));
                    }
                    Ok(None) | Err(_) => self.state = State::Done,
                },
                State::Failed(error) => {
                    let error = error.clone();
                    self.state = State::Done;
                    return Some(Err(error));
                }
                State::Done => return None,
            }
        }
    }

    fn connect(&self) -> State {
        let connection = Arc::clone(&self.connection);
        match self.request.as_ref().map(copy) {
            Some(Ok(request)) => State::Connecting(Box::pin(async move { connection.send(request).await })),
            Some(Err(failure)) => State::Failed(failure.error),
            None => State::Done,
        }
    }

    /// Waits for another attempt, or gives up.
    fn failed(&mut self, failure: Failure) -> Result<ReplyEvent, ModelError> {
        let delay = if self.delivered {
            None
        } else {
            self.connection.pause(&failure, self.attempt, self.max_attempts, &mut self.schedule)
        };
        let error = self.connection.safe(failure.error);
        let Some(delay) = delay else {
            self.state = State::Done;
            return Err(error);
        };
        self.state = State::Sleeping(Instant::now() + delay);
        Ok(ReplyEvent::Waiting(Wait {
            attempt: self.attempt,
            max_attempts: self.max_attempts,
            delay,
            cause: error.message,
            status: error.status,
        }))
    }
}

impl ReplyStream for HttpStream {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<ReplyEvent, ModelError>>> {
        Box::pin(self.advance())
    }
}

/// A body being read.
struct Reading {
    response: Response,
    decoder: Box<dyn Decoder>,
    parser: Parser,
    items: VecDeque<Item>,
    /// What was read and not told yet.
    events: VecDeque<ReplyEvent>,
    /// Objects of a body that came as a whole.
    objects: VecDeque<Value>,
    /// The body is JSON and no stream: some gateways do not know `alt=sse`.
    is_json: bool,
    /// The beginning of what was no event.
    stray: Option<String>,
    any_byte: bool,
    any_event: bool,
    ended: bool,
}

impl Reading {
    fn new(response: Response, decoder: Box<dyn Decoder>) -> Self {
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let is_json = content_type.is_some_and(|kind| kind.starts_with("application/json"));
        Self {
            response,
            decoder,
            parser: Parser::default(),
            items: VecDeque::new(),
            events: VecDeque::new(),
            objects: VecDeque::new(),
            is_json,
            stray: None,
            any_byte: false,
            any_event: false,
            ended: false,
        }
    }

    async fn next(&mut self, connection: &Connection, finished: bool) -> Result<Option<ReplyEvent>, Failure> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if let Some(object) = self.objects.pop_front() {
                self.decoder.object(object, &mut self.events)?;
                continue;
            }
            match self.items.pop_front() {
                Some(Item::Event { name, data }) => {
                    self.any_event = true;
                    if data.trim_ascii() != b"[DONE]" {
                        self.decoder.event(name.as_deref(), &data, &mut self.events)?;
                    }
                }
                Some(Item::Stray(text)) => self.note_stray(&text)?,
                None if self.ended => return self.end(connection),
                None if self.is_json => self.read_whole(connection).await?,
                None => self.read_more(connection, finished).await?,
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
        match connection.chunk(&mut self.response, patience).await? {
            Some(bytes) => {
                self.any_byte = true;
                self.parser.feed(&bytes, &mut self.items).map_err(unreadable)
            }
            None => {
                self.ended = true;
                self.items.extend(self.parser.finish().map_err(unreadable)?);
                Ok(())
            }
        }
    }

    async fn read_whole(&mut self, connection: &Connection) -> Result<(), Failure> {
        let (body, complete) = connection.body(&mut self.response, MAX_BODY_BYTES).await;
        complete?;
        self.ended = true;
        let text = || String::from_utf8_lossy(&body);
        match serde_json::from_slice(&body) {
            Ok(Value::Array(objects)) => self.objects.extend(objects),
            Ok(object @ Value::Object(_)) => self.objects.push_back(object),
            Ok(_) => return Err(connection.not_the_api(&text())),
            // A stream under the wrong name is still a stream.
            Err(_) => {
                self.parser
                    .feed(&body, &mut self.items)
                    .map_err(|error| Failure::malformed(error.to_string()))?;
                let last = self.parser.finish().map_err(|error| connection.cut(error.to_string()))?;
                self.items.extend(last);
            }
        }
        self.any_event = !self.objects.is_empty();
        Ok(())
    }

    fn note_stray(&mut self, text: &[u8]) -> Result<(), Failure> {
        if let Some(failure) = self.decoder.stray(text) {
            return Err(failure);
        }
        if self.stray.is_none() {
            self.stray = Some(String::from_utf8_lossy(text).chars().take(2000).collect());
        }
        Ok(())
    }

    fn end(&mut self, connection: &Connection) -> Result<Option<ReplyEvent>, Failure> {
        match &self.stray {
            Some(text) if !self.any_event => Err(connection.not_the_api(text)),
            _ => Ok(None),
        }
    }
}
