//! A reply whose text may hold calls.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use pollux_domain::BoxFuture;
use pollux_domain::model::{
    Finish, FinishReason, ModelClient, ModelError, ModelErrorKind, ModelRequest, ReplyChunk, ReplyEvent,
    ReplyStream, Usage, Wait,
};
use tokio::time::Instant;

use super::levels::{Level, Levels, LocalFacts};
use super::reading::Reading;
use super::{described, grammar, refuses_tools};
use crate::http::{LOADING_LIMIT, LOADING_PACE, loading_notice};

pub(super) struct PromptStream {
    client: Arc<dyn ModelClient>,
    levels: Arc<Levels>,
    request: ModelRequest,
    reading: Reading,
    events: VecDeque<ReplyEvent>,
    state: State,
    begun: bool,
    /// What the model wrote for people.
    said: String,
    /// How long was waited for the server to load the model.
    waited: Duration,
}

/// Every wait is part of the state, so that a caller may drop the future of `next` and ask again.
enum State {
    Asking(BoxFuture<'static, Result<LocalFacts, ModelError>>),
    Sleeping(Instant),
    Ready,
    Reading(Box<dyn ReplyStream>),
    /// The call is written under a grammar, or after a refused one without.
    Calling {
        reply: Box<dyn ReplyStream>,
        text: String,
        usage: Option<Usage>,
        constrained: bool,
    },
    Done,
}

impl PromptStream {
    pub(super) fn new(client: Arc<dyn ModelClient>, levels: Arc<Levels>, request: ModelRequest) -> Self {
        let state = levels.ask(&request.model).map_or(State::Ready, State::Asking);
        Self {
            reading: Reading::new(&request, levels.level(&request.model)),
            client,
            levels,
            request,
            events: VecDeque::new(),
            state,
            begun: false,
            said: String::new(),
            waited: Duration::ZERO,
        }
    }

    async fn advance(&mut self) -> Option<Result<ReplyEvent, ModelError>> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(Ok(event));
            }
            match &mut self.state {
                State::Asking(asking) => {
                    let answer = asking.await;
                    self.heard(answer);
                }
                State::Sleeping(until) => {
                    tokio::time::sleep_until(*until).await;
                    self.state = self.levels.ask(&self.request.model).map_or(State::Ready, State::Asking);
                }
                State::Ready => self.send(),
                State::Reading(stream) => {
                    let next = stream.next().await;
                    if let Some(told) = self.read(next) {
                        return Some(told);
                    }
                }
                State::Calling { reply, .. } => {
                    let next = reply.next().await;
                    if let Some(told) = self.read_call(next) {
                        return Some(told);
                    }
                }
                State::Done => return None,
            }
        }
    }

    /// Takes what the server says of the model. One that loads it is asked again; any other failure is left to the
    /// request itself, which reports it.
    fn heard(&mut self, answer: Result<LocalFacts, ModelError>) {
        match answer {
            Ok(facts) => {
                let lines = self.levels.learn(&self.request.model, facts);
                lines.into_iter().for_each(|line| self.notify(line));
                self.state = State::Ready;
            }
            Err(error) if error.kind == ModelErrorKind::Loading && self.waited < LOADING_LIMIT => {
                if self.waited.is_zero() {
                    self.notify(loading_notice());
                }
                self.waited += LOADING_PACE;
                self.state = State::Sleeping(Instant::now() + LOADING_PACE);
            }
            Err(_) => self.state = State::Ready,
        }
    }

    fn notify(&mut self, line: String) {
        let wait = Wait {
            attempt: 1,
            max_attempts: 1,
            delay: Duration::ZERO,
            cause: line,
            status: None,
            kind: None,
        };
        self.events.push_back(ReplyEvent::Waiting(wait));
    }

    fn send(&mut self) {
        let model = &self.request.model;
        if self.levels.level(model) == Level::Native
            && described::only_describes(&self.request.contents, &self.request.tools)
            && self.levels.move_to_prompt(model)
        {
            let line = format!(
                "{model} described two tool calls without making them; tools are described in the prompt from now on."
            );
            self.notify(line);
        }
        self.reading = Reading::new(&self.request, self.levels.level(&self.request.model));
        self.state = State::Reading(self.client.stream(self.reading.request(self.request.clone())));
    }

    fn read(
        &mut self,
        next: Option<Result<ReplyEvent, ModelError>>,
    ) -> Option<Result<ReplyEvent, ModelError>> {
        match next {
            Some(Ok(ReplyEvent::Chunk(chunk))) => {
                self.begun = true;
                let ended = chunk.finish.is_some();
                let chunk = self.reading.chunk(chunk);
                self.said.extend(chunk.parts.iter().filter_map(|part| part.spoken_text()));
                if !ended && self.reading.wants_grammar() {
                    self.call(true);
                }
                let is_empty = chunk.parts.is_empty()
                    && chunk.finish.is_none()
                    && chunk.usage.is_none()
                    && chunk.blocked.is_none()
                    && chunk.grounding.is_none()
                    && chunk.citations.is_empty();
                // Text that is held back still shows that the model writes.
                Some(Ok(if is_empty { ReplyEvent::Alive } else { ReplyEvent::Chunk(chunk) }))
            }
            Some(Err(error)) if !self.begun && !self.reading.prompted && refuses_tools(&error) => {
                if self.levels.move_to_prompt(&self.request.model) {
                    let line = format!("{}; tools are described in the prompt instead.", error.message);
                    self.notify(line);
                }
                self.state = State::Ready;
                None
            }
            None => {
                self.state = State::Done;
                let parts = self.reading.rest();
                let chunk = ReplyChunk { parts, ..ReplyChunk::default() };
                (!chunk.parts.is_empty()).then_some(Ok(ReplyEvent::Chunk(chunk)))
            }
            other => other,
        }
    }

    /// Leaves the reply where a call begins, and asks for the call alone.
    fn call(&mut self, constrained: bool) {
        let request = self.reading.request(self.request.clone());
        let request = grammar::request(request, &self.said, &self.request.tools, constrained);
        let reply = self.client.stream(request);
        self.state = State::Calling { reply, text: String::new(), usage: None, constrained };
    }

    fn read_call(
        &mut self,
        next: Option<Result<ReplyEvent, ModelError>>,
    ) -> Option<Result<ReplyEvent, ModelError>> {
        let State::Calling { text, usage, constrained, .. } = &mut self.state else { return None };
        match next {
            Some(Ok(ReplyEvent::Chunk(chunk))) => {
                text.extend(chunk.parts.iter().filter_map(|part| part.spoken_text()));
                *usage = chunk.usage.or(*usage);
                Some(Ok(ReplyEvent::Alive))
            }
            Some(Err(error)) if *constrained && error.kind == ModelErrorKind::BadRequest => {
                self.levels.give_up_grammar(&self.request.model);
                self.call(false);
                None
            }
            None => {
                let (text, usage) = (std::mem::take(text), *usage);
                // The first request was left before the server counted it.
                let usage = usage.map(|usage| Usage { estimated: true, ..usage });
                let parts = self.reading.finish_with(unfenced(&text));
                let mut finish = Finish { reason: FinishReason::Stop, message: None };
                self.reading.name_end(&mut finish);
                self.state = State::Done;
                let chunk = ReplyChunk { parts, usage, finish: Some(finish), ..ReplyChunk::default() };
                Some(Ok(ReplyEvent::Chunk(chunk)))
            }
            other => other,
        }
    }
}

/// A call without the marks that a model may write around it although it should not.
fn unfenced(text: &str) -> &str {
    match (text.find(['{', '[']), text.rfind(['}', ']'])) {
        (Some(start), Some(end)) if start < end => text.get(start..=end).unwrap_or(text),
        _ => text,
    }
}

impl ReplyStream for PromptStream {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<ReplyEvent, ModelError>>> {
        Box::pin(self.advance())
    }
}
