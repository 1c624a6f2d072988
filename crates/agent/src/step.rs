//! One model request, retried until the reply is usable.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pollux_domain::content::{Body, Content, Part, Role};
use pollux_domain::event::{Discarded, Event, NoticeCode, RequestEnded, RequestSent, Severity, Thought};
use pollux_domain::model::{
    Dialect, GenerationSettings, ModelError, ModelErrorKind, ModelRequest, ReplyEvent, RequestRole,
};
use pollux_hooks::Event as Moment;
use tokio_util::sync::CancellationToken;

use crate::effort;
use crate::emitter::Emitter;
use crate::epoch;
use crate::fallback::{self, Fallback};
use crate::hooked::request::{Piece, after_model, as_hooks_see, before_model};
use crate::loop_guard::LoopGuard;
use crate::reply::{Fault, Reply};
use crate::room::recover;
use crate::services::Services;
use crate::session::Session;
use crate::session::notes::note;
use crate::spending;
use crate::step_end::StepEnd;

/// Pauses before the second, third and fourth attempt; upstream's.
const RETRY_DELAYS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];

/// How much more of a call must have come before that is told again.
const PROGRESS_STEP: u64 = 1_024;

const NUDGE: &str =
    "System: the last reply was empty. Continue now, with a tool call or with your answer as text.";

/// How one attempt ended.
enum Attempt {
    Complete(Reply),
    Chanting(Reply, String),
    /// The stream failed midway.
    Broken(Reply, ModelError),
    Refused(ModelError),
    Cancelled(Reply),
    Halted(Reply),
}

/// Asks for the next reply to the history: the model in use, and those that may stand in for it.
pub(crate) async fn step(
    session: &mut Session,
    prompt_id: &str,
    guard: &mut LoopGuard,
    cancel: &CancellationToken,
) -> StepEnd {
    effort::tell_nearest(session).await;
    let mut decided = fallback::before_request(session, cancel).await;
    loop {
        let (fallback, error) = match decided.take() {
            Some(decided) => decided,
            None => match ask_model(session, prompt_id, guard, cancel).await {
                StepEnd::Failed(error) => (fallback::find(session, &error, cancel).await, error),
                end => return end,
            },
        };
        match fallback {
            Fallback::Found => effort::tell_nearest(session).await,
            Fallback::Wait(delay) => tokio::select! {
                biased;
                () = cancel.cancelled() => return StepEnd::Cancelled(Reply::default()),
                () = tokio::time::sleep(delay) => {}
            },
            Fallback::None => return StepEnd::refused(error, cancel),
        }
    }
}

/// Asks one model for the next reply to the history.
async fn ask_model(
    session: &mut Session,
    prompt_id: &str,
    guard: &mut LoopGuard,
    cancel: &CancellationToken,
) -> StepEnd {
    let after_tools = session.conversation.history.ends_with_responses();
    let attempts = RETRY_DELAYS.len() + 1;
    let mut nudge = false;
    let mut attempt = 0;
    let mut made_room = false;
    let role = session.role();
    loop {
        let mut request = request(session, nudge);
        let halted = {
            let (hooked, client) = (&session.services.hooked, &*session.services.client);
            before_model(hooked, client, &session.emitter, &mut request, cancel).await
        };
        if let Some(end) = halted {
            return end;
        }
        let started = Instant::now();
        let model = announce(&session.services, &session.emitter, &request, prompt_id).await;
        let outcome = try_once(session, request, guard, cancel).await;
        let room = (session.size(), session.window());
        let ended = |reply: &Reply, error: Option<ModelError>, invalid| {
            ended(&model, (role, prompt_id), started, room, reply, error, invalid)
        };
        spending::tell(session).await;
        let (fault, reply) = match outcome {
            Attempt::Cancelled(reply) => return StepEnd::Cancelled(reply),
            Attempt::Refused(error) => {
                session.emit(ended(&Reply::default(), Some(error.clone()), None)).await;
                let limit = match error.kind {
                    ModelErrorKind::ContextOverflow { limit, .. } if !made_room => limit,
                    _ => return StepEnd::Failed(error),
                };
                if recover(session, limit, prompt_id, cancel).await {
                    made_room = true;
                    continue;
                }
                return StepEnd::refused(error, cancel);
            }
            Attempt::Halted(reply) => {
                session.emit(ended(&reply, None, None)).await;
                return StepEnd::Halted(reply);
            }
            Attempt::Chanting(reply, passage) => {
                session.emit(ended(&reply, None, None)).await;
                return StepEnd::Chanting { reply, passage };
            }
            Attempt::Complete(reply) => match reply.judge(after_tools) {
                Ok(()) => {
                    session.emit(ended(&reply, None, None)).await;
                    return StepEnd::Reply(reply);
                }
                Err(fault) => {
                    if let (Some(budget), Some(usage)) = (&session.services.budget, &reply.usage) {
                        budget.discard(&model, usage);
                    }
                    session.emit(ended(&reply, None, Some(fault.kind))).await;
                    if reply.met_full_window() && !std::mem::replace(&mut made_room, true) {
                        if recover(session, None, prompt_id, cancel).await {
                            continue;
                        }
                        return StepEnd::Invalid(fault);
                    }
                    (Failure::Useless(fault), reply)
                }
            },
            Attempt::Broken(reply, error) => {
                session.emit(ended(&reply, Some(error.clone()), None)).await;
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
        note(session, Severity::Warning, &discarded.sentence()).await;
        session.emit(Event::AttemptDiscarded(discarded)).await;
        let Some(delay) = delay else { return fault.end() };
        nudge |= matches!(&fault, Failure::Useless(fault) if fault.wants_nudge());
        tokio::select! {
            biased;
            () = cancel.cancelled() => return StepEnd::Cancelled(Reply::default()),
            () = tokio::time::sleep(delay) => {}
        }
    }
}

fn request(session: &mut Session, nudge: bool) -> ModelRequest {
    epoch::follow(session);
    let mut contents = session.conversation.history.contents();
    let (mut system, mut tools) = (Arc::clone(&session.conversation.system), session.toolbox.declared());
    if let Some(epoch) = &session.conversation.epoch {
        (system, tools) = (Arc::clone(&epoch.system), Arc::clone(&epoch.tools));
        if let (Some(first), Some(environment)) = (contents.first_mut(), &epoch.environment) {
            *first = Arc::clone(environment);
        }
    }
    if nudge {
        add_nudge(&mut contents);
    }
    ModelRequest {
        model: session.model().to_owned(),
        chosen_by: Default::default(),
        role: session.role(),
        system: Some(system),
        contents,
        tools,
        settings: settings(session),
        grounding: Default::default(),
    }
}

fn settings(session: &Session) -> GenerationSettings {
    // What people write in `generateContentConfig`; each client reads it in its own way.
    let words = GenerationSettings::in_words_of(Dialect::GEMINI, session.models.generation.clone());
    GenerationSettings { effort: effort::setting(session), ..words }
}

/// Reports a request; returns the resolved model name.
pub(crate) async fn announce(
    services: &Services,
    emitter: &Emitter,
    request: &ModelRequest,
    prompt_id: &str,
) -> String {
    let model = services.client.recipient(request).id;
    let sent = RequestSent {
        model: model.clone(),
        role: request.role,
        prompt_id: prompt_id.to_owned(),
        contents: request.contents.clone(),
        subagent: emitter.subagent.as_ref().map(|run| run.call.clone()),
    };
    emitter.emit(Event::RequestSent(Arc::new(sent))).await;
    model
}

async fn try_once(
    session: &mut Session,
    request: ModelRequest,
    guard: &mut LoopGuard,
    cancel: &CancellationToken,
) -> Attempt {
    guard.reply_begins();
    let wants_pieces = session.services.hooked.listens_to(Moment::AfterModel);
    let asked = wants_pieces.then(|| as_hooks_see(&*session.services.client, &request));
    let mut stream = session.services.client.stream(request);
    let mut reply = Reply::default();
    let mut begun = false;
    let mut progress: Option<(usize, u64)> = None;
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
                // The client changed the request; nobody waits.
                if wait.delay.is_zero() {
                    session.notice(Severity::Warning, NoticeCode::Model, wait.cause).await;
                    continue;
                }
                if let Some(error) = fallback::instead_of_waiting(session, &wait) {
                    return Attempt::Refused(error);
                }
                if wait.is_worth_a_line() {
                    note(session, Severity::Warning, &wait.sentence()).await;
                }
                session.emit(Event::Waiting(wait)).await;
            }
            // That bytes come is all that there is to know, and the client watches it.
            Some(Ok(ReplyEvent::Alive)) => {}
            Some(Ok(ReplyEvent::CallProgress { index, name, bytes })) => {
                if progress.is_none_or(|(last, told)| last != index || bytes >= told + PROGRESS_STEP) {
                    progress = Some((index, bytes));
                    session.emit(Event::CallProgress { name, bytes }).await;
                }
            }
            Some(Ok(ReplyEvent::Chunk(chunk))) => {
                begun = true;
                let piece = match &asked {
                    Some(asked) => after_model(&session.services.hooked, asked, &chunk, cancel).await,
                    None => Piece::Same,
                };
                let shown = match piece {
                    Piece::Same => None,
                    Piece::Reworded(words) => Some(words),
                    Piece::Last(_) if cancel.is_cancelled() => return Attempt::Cancelled(reply),
                    Piece::Last(words) => {
                        session.emitter.show(Some(&words.concat())).await;
                        return Attempt::Halted(reply);
                    }
                };
                reply.absorb(&chunk);
                for part in chunk.parts {
                    let silent = shown.is_some();
                    if let Some(passage) = take_part(session, part, silent, &mut reply, guard).await {
                        return Attempt::Chanting(reply, passage);
                    }
                }
                session.emitter.show(shown.map(|words| words.concat()).as_deref()).await;
            }
        }
    }
}

/// Shows and stores a part; returns the passage if the model loops. The text of a silent one is
/// shown in another form.
async fn take_part(
    session: &Session,
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
                reply.thoughts.push((thought.clone(), session.now()));
                session.emit(Event::Thought(thought)).await;
            }
            if part.is_sealed_reasoning() {
                reply.push(part);
            }
            None
        }
        Body::Text(text) => {
            let passage = if session.model_settings.loop_detection { guard.chants(text) } else { None };
            session.emitter.show(Some(text.as_str()).filter(|_| !silent)).await;
            reply.push(part);
            passage
        }
        _ => {
            reply.push(part);
            None
        }
    }
}

/// Why an attempt is discarded.
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

/// Adds a nudge at the end, so that the model's prompt cache stays valid.
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
