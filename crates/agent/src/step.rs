//! One model request, tried until it gives a reply that can be used.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pollux_domain::content::{Body, Content, Part, Role};
use pollux_domain::event::{Discarded, Event, RequestEnded, RequestSent, Severity, Thought};
use pollux_domain::model::{
    Dialect, GenerationSettings, ModelError, ModelErrorKind, ModelRequest, ReplyEvent, RequestRole,
};
use pollux_hooks::Event as Moment;
use tokio_util::sync::CancellationToken;

use crate::hooked::Piece;
use crate::loop_guard::LoopGuard;
use crate::reply::{Fault, Reply};
use crate::session::Session;

/// Pauses before the second, third and fourth attempt; upstream's.
const RETRY_DELAYS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];

const NUDGE: &str =
    "System: the last reply was empty. Continue now, with a tool call or with your answer as text.";

/// How a step ended.
pub(crate) enum StepEnd {
    Reply(Reply),
    /// The model repeated this passage; the reply is what came until then.
    Chanting {
        reply: Reply,
        passage: String,
    },
    Invalid(Fault),
    Failed(ModelError),
    /// Stopped by the user, with the text that had arrived.
    Cancelled(Reply),
    /// A hook keeps the agent from going on; the reply is what counted until then.
    Halted(Reply),
}

/// How one attempt ended.
enum Attempt {
    Complete(Reply),
    Chanting(Reply, String),
    /// The stream broke after it had begun.
    Broken(Reply, ModelError),
    Refused(ModelError),
    Cancelled(Reply),
    Halted(Reply),
}

impl Session {
    /// Asks the model for the next reply to the history.
    pub(crate) async fn step(
        &mut self,
        prompt_id: &str,
        guard: &mut LoopGuard,
        cancel: &CancellationToken,
    ) -> StepEnd {
        let after_tools = self.history.ends_with_responses();
        let attempts = RETRY_DELAYS.len() + 1;
        let mut nudge = false;
        let mut attempt = 0;
        let role = self.role();
        loop {
            let mut request = self.request(nudge);
            if let Some(end) = self.before_model(&mut request, cancel).await {
                return end;
            }
            let started = Instant::now();
            let model = self.announce(&request, prompt_id).await;
            let outcome = self.attempt(request, guard, cancel).await;
            let room = (self.size(), self.window());
            let ended = |reply: &Reply, error: Option<ModelError>, invalid| {
                ended(&model, (role, prompt_id), started, room, reply, error, invalid)
            };
            let (fault, reply) = match outcome {
                Attempt::Cancelled(reply) => return StepEnd::Cancelled(reply),
                Attempt::Refused(error) => {
                    self.emit(ended(&Reply::default(), Some(error.clone()), None)).await;
                    return StepEnd::Failed(error);
                }
                Attempt::Halted(reply) => {
                    self.emit(ended(&reply, None, None)).await;
                    return StepEnd::Halted(reply);
                }
                Attempt::Chanting(reply, passage) => {
                    self.emit(ended(&reply, None, None)).await;
                    return StepEnd::Chanting { reply, passage };
                }
                Attempt::Complete(reply) => match reply.judge(after_tools) {
                    Ok(()) => {
                        self.emit(ended(&reply, None, None)).await;
                        return StepEnd::Reply(reply);
                    }
                    Err(fault) => {
                        self.emit(ended(&reply, None, Some(fault.kind))).await;
                        (Failure::Useless(fault), reply)
                    }
                },
                Attempt::Broken(reply, error) => {
                    self.emit(ended(&reply, Some(error.clone()), None)).await;
                    (Failure::Broken(error), reply)
                }
            };
            let delay = RETRY_DELAYS.get(attempt).copied();
            attempt += 1;
            let discarded = Discarded {
                reason: fault.reason(),
                text_was_shown: !reply.text().is_empty(),
                attempt: attempt as u32,
                max_attempts: attempts as u32,
                retry_in: delay,
            };
            self.note(Severity::Warning, &discarded.sentence()).await;
            self.emit(Event::AttemptDiscarded(discarded)).await;
            let Some(delay) = delay else { return fault.end() };
            nudge |= matches!(&fault, Failure::Useless(fault) if fault.wants_nudge());
            tokio::select! {
                biased;
                () = cancel.cancelled() => return StepEnd::Cancelled(Reply::default()),
                () = tokio::time::sleep(delay) => {}
            }
        }
    }

    fn request(&self, nudge: bool) -> ModelRequest {
        let mut contents = self.history.contents();
        if nudge {
            add_nudge(&mut contents);
        }
        ModelRequest {
            model: self.model_settings.name.clone(),
            role: self.role(),
            system: Some(Arc::clone(&self.system)),
            contents,
            tools: self.toolbox.declared(),
            // What people write in `generateContentConfig`; each client reads it in its own way.
            settings: GenerationSettings::in_words_of(Dialect::GEMINI, self.generation.clone()),
            grounding: Default::default(),
        }
    }

    /// Tells that a request leaves; the concrete model's name.
    pub(crate) async fn announce(&self, request: &ModelRequest, prompt_id: &str) -> String {
        let model = self.client.resolve(&request.model).id;
        let sent = RequestSent {
            model: model.clone(),
            role: request.role,
            prompt_id: prompt_id.to_owned(),
            contents: request.contents.clone(),
        };
        self.emit(Event::RequestSent(Arc::new(sent))).await;
        model
    }

    async fn attempt(
        &mut self,
        request: ModelRequest,
        guard: &mut LoopGuard,
        cancel: &CancellationToken,
    ) -> Attempt {
        guard.reply_begins();
        let asked = self.hooked.listens_to(Moment::AfterModel).then(|| self.as_hooks_see(&request));
        let mut stream = self.client.stream(request);
        let mut reply = Reply::default();
        let mut begun = false;
        loop {
            let next = tokio::select! {
                biased;
                () = cancel.cancelled() => return Attempt::Cancelled(reply),
                next = stream.next() => next,
            };
            match next {
                None => return Attempt::Complete(reply),
                Some(Err(error)) => {
                    let restart = error.stream_may_restart()
                        && (begun || matches!(error.kind, ModelErrorKind::Cut | ModelErrorKind::Malformed));
                    return if restart { Attempt::Broken(reply, error) } else { Attempt::Refused(error) };
                }
                Some(Ok(ReplyEvent::Waiting(wait))) => {
                    if wait.is_worth_a_line() {
                        self.note(Severity::Warning, &wait.sentence()).await;
                    }
                    self.emit(Event::Waiting(wait)).await;
                }
                // A display may want them; the conversation does not.
                Some(Ok(ReplyEvent::CallProgress { .. } | ReplyEvent::Alive)) => {}
                Some(Ok(ReplyEvent::Chunk(chunk))) => {
                    begun = true;
                    let piece = match &asked {
                        Some(asked) => self.after_model(asked, &chunk, cancel).await,
                        None => Piece::Same,
                    };
                    let shown = match piece {
                        Piece::Same => None,
                        Piece::Reworded(words) => Some(words),
                        Piece::Last(_) if cancel.is_cancelled() => return Attempt::Cancelled(reply),
                        Piece::Last(words) => {
                            self.show(Some(&words.concat())).await;
                            return Attempt::Halted(reply);
                        }
                    };
                    reply.absorb(&chunk);
                    for part in chunk.parts {
                        let silent = shown.is_some();
                        if let Some(passage) = self.take_part(part, silent, &mut reply, guard).await {
                            return Attempt::Chanting(reply, passage);
                        }
                    }
                    self.show(shown.map(|words| words.concat()).as_deref()).await;
                }
            }
        }
    }

    /// Shows and keeps a part; the passage if the model is found chanting. The words of a silent one are
    /// shown in another form.
    async fn take_part(
        &self,
        part: Part,
        silent: bool,
        reply: &mut Reply,
        guard: &mut LoopGuard,
    ) -> Option<String> {
        match &part.body {
            Body::Reasoning { text, .. } => {
                // What is sealed may have no text.
                if !text.is_empty() || !part.is_sealed_reasoning() {
                    let thought = Thought::parse(text);
                    reply.thoughts.push((thought.clone(), self.now()));
                    self.emit(Event::Thought(thought)).await;
                }
                if part.is_sealed_reasoning() {
                    reply.push(part);
                }
                None
            }
            Body::Text(text) => {
                let passage = if self.model_settings.loop_detection { guard.chants(text) } else { None };
                self.show(Some(text.as_str()).filter(|_| !silent)).await;
                reply.push(part);
                passage
            }
            _ => {
                reply.push(part);
                None
            }
        }
    }
}

/// Why an attempt is void.
enum Failure {
    Useless(Fault),
    Broken(ModelError),
}

impl Failure {
    fn reason(&self) -> String {
        match self {
            Self::Useless(fault) => fault.message.clone(),
            Self::Broken(error) => error.message.clone(),
        }
    }

    fn end(self) -> StepEnd {
        match self {
            Self::Useless(fault) => StepEnd::Invalid(fault),
            Self::Broken(error) => StepEnd::Failed(error),
        }
    }
}

fn ended(
    model: &str,
    (role, prompt_id): (RequestRole, &str),
    started: Instant,
    (size, window): (u64, u64),
    reply: &Reply,
    error: Option<ModelError>,
    invalid: Option<&'static str>,
) -> Event {
    Event::RequestEnded(Box::new(RequestEnded {
        model: model.to_owned(),
        model_version: reply.model_version.clone(),
        role,
        prompt_id: prompt_id.to_owned(),
        duration: started.elapsed(),
        usage: reply.usage.unwrap_or_default(),
        finish: reply.finish.clone(),
        text: reply.text(),
        error,
        invalid: invalid.map(str::to_owned),
        // What the model counted is better than an estimate; some servers count nothing and say 0.
        context_tokens: reply.usage.map(|usage| usage.input).filter(|tokens| *tokens > 0).unwrap_or(size),
        window,
    }))
}

/// Asks for an answer without disturbing what the model's cache already holds.
fn add_nudge(contents: &mut Vec<Arc<Content>>) {
    let answers_tools = contents.last().is_some_and(|content| content.responses().next().is_some());
    if answers_tools {
        contents.push(Arc::new(Content::model(vec![Part::text("I have the results.")])));
        contents.push(Arc::new(Content::user_text(NUDGE)));
        return;
    }
    if let Some(last) = contents.last_mut()
        && last.role == Role::User
    {
        let mut content = last.as_ref().clone();
        content.parts.push(Part::text(NUDGE));
        *last = Arc::new(content);
    }
}
