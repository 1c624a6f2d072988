//! A streamed reply: connecting, waiting, reading.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use pollux_domain::BoxFuture;
use pollux_domain::model::{ModelError, ModelErrorKind, ReplyChunk, ReplyEvent, ReplyStream, Wait};
use pollux_net::backoff::Schedule;
use pollux_net::sse::{Item, Parser, SseError};
use reqwest::header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderValue};
use reqwest::{Request, Response};
use serde_json::Value;
use tokio::time::Instant;

use super::attempt::{Connection, copy, not_the_api};
use super::error::{ApiError, Retry};
use super::reply;

const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
/// How long the end of a stream is awaited once the model has said why it stopped.
const AFTER_FINISH: Duration = Duration::from_secs(3);

/// A reply under way. Dropping it ends the request.
pub(super) struct GeminiStream {
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
    Connecting(BoxFuture<'static, Result<Response, ApiError>>),
    Sleeping(Instant),
    Reading(Box<Reading>),
    Failed(ModelError),
    Done,
}

impl GeminiStream {
    pub(super) fn new(
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
                    Ok(response) => self.state = State::Reading(Box::new(Reading::new(response))),
                    Err(failure) => return Some(self.failed(failure)),
                },
                State::Sleeping(until) => {
                    tokio::time::sleep_until(*until).await;
                    self.state = State::Ready;
                }
                State::Reading(reading) => match reading.next(&self.connection, self.finished).await {
                    Ok(Some(chunk)) => {
                        self.delivered = true;
                        self.finished |= chunk.finish.is_some();
                        return Some(Ok(ReplyEvent::Chunk(chunk)));
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
    fn failed(&mut self, failure: ApiError) -> Result<ReplyEvent, ModelError> {
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

impl ReplyStream for GeminiStream {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<ReplyEvent, ModelError>>> {
        Box::pin(self.advance())
    }
}

/// A body being read.
struct Reading {
    response: Response,
    parser: Parser,
    items: VecDeque<Item>,
    /// Chunks of a body that came as a whole.
    chunks: VecDeque<Value>,
    /// The body is JSON and no stream: some gateways do not know `alt=sse`.
    is_json: bool,
    /// The beginning of what was no event.
    stray: Option<String>,
    any_byte: bool,
    any_event: bool,
    ended: bool,
}

impl Reading {
    fn new(response: Response) -> Self {
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let is_json = content_type.is_some_and(|kind| kind.starts_with("application/json"));
        Self {
            response,
            parser: Parser::default(),
            items: VecDeque::new(),
            chunks: VecDeque::new(),
            is_json,
            stray: None,
            any_byte: false,
            any_event: false,
            ended: false,
        }
    }

    async fn next(
        &mut self,
        connection: &Connection,
        finished: bool,
    ) -> Result<Option<ReplyChunk>, ApiError> {
        loop {
            if let Some(chunk) = self.chunks.pop_front() {
                return reply::read(chunk).map(Some);
            }
            match self.items.pop_front() {
                Some(Item::Data(data)) => {
                    self.any_event = true;
                    if data.trim_ascii() != b"[DONE]" {
                        return read_event(&data).map(Some);
                    }
                }
                Some(Item::Stray(text)) => self.note_stray(&text)?,
                None if self.ended => return self.end(),
                None if self.is_json => self.read_whole(connection).await?,
                None => self.read_more(connection, finished).await?,
            }
        }
    }

    async fn read_more(&mut self, connection: &Connection, finished: bool) -> Result<(), ApiError> {
        let patience = match (self.any_byte, finished) {
            (false, _) => connection.first_byte(),
            (true, false) => connection.stall(),
            // The reply is complete; its connection may be, too, without saying so.
            (true, true) => connection.stall().min(AFTER_FINISH),
        };
        let unreadable = |error: SseError| match error {
            SseError::Incomplete => connection.cut(error.to_string()),
            SseError::TooLong => malformed(error.to_string()),
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

    async fn read_whole(&mut self, connection: &Connection) -> Result<(), ApiError> {
        let (body, complete) = connection.body(&mut self.response, MAX_BODY_BYTES).await;
        complete?;
        self.ended = true;
        let text = || String::from_utf8_lossy(&body);
        match serde_json::from_slice(&body) {
            Ok(Value::Array(chunks)) => self.chunks.extend(chunks),
            Ok(chunk @ Value::Object(_)) => self.chunks.push_back(chunk),
            Ok(_) => return Err(not_the_api(&text())),
            // A stream under the wrong name is still a stream.
            Err(_) => {
                self.parser.feed(&body, &mut self.items).map_err(|error| malformed(error.to_string()))?;
                let last = self.parser.finish().map_err(|error| connection.cut(error.to_string()))?;
                self.items.extend(last);
            }
        }
        self.any_event = !self.chunks.is_empty();
        Ok(())
    }

    /// Lines outside of events: an error of the API, or somebody else's words.
    fn note_stray(&mut self, text: &[u8]) -> Result<(), ApiError> {
        if let Some(error) = serde_json::from_slice(text).ok().as_ref().and_then(ApiError::in_body) {
            return Err(error);
        }
        if self.stray.is_none() {
            self.stray = Some(String::from_utf8_lossy(text).chars().take(2000).collect());
        }
        Ok(())
    }

    fn end(&mut self) -> Result<Option<ReplyChunk>, ApiError> {
        match &self.stray {
            Some(text) if !self.any_event => Err(not_the_api(text)),
            _ => Ok(None),
        }
    }
}

fn read_event(data: &[u8]) -> Result<ReplyChunk, ApiError> {
    let value = serde_json::from_slice(data)
        .map_err(|error| malformed(format!("an event of the reply is not valid JSON: {error}")))?;
    reply::read(value)
}

fn malformed(message: String) -> ApiError {
    ApiError { error: ModelError::new(ModelErrorKind::Malformed, Some(200), message), retry: Retry::Never }
}
