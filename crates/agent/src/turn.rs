//! Runs one prompt until the model is done.

mod after_agent;
mod after_tool;
mod batch;
mod next;
mod steered;

use std::ops::ControlFlow;
use std::sync::Arc;

use pollux_domain::JsonObject;
use pollux_domain::content::{Body, Content, FunctionCall, Part};
use pollux_domain::event::{Event, FrontId, NoticeCode, Severity, TurnEnd};
use pollux_domain::id::CallId;
use pollux_domain::model::FinishReason;
use pollux_domain::tool::ToolErrorKind;
use pollux_hooks::Event as Moment;
use pollux_session::{CallRecord, ReplyRecord, UserSource, new_message_id};
use tokio_util::sync::CancellationToken;

use self::after_agent::after_agent;
use self::batch::{Caller, run_calls};
use self::next::Next;
use crate::call::{Ready, RequestedCall};
use crate::calls;
use crate::changes;
use crate::conversation::{Dialogue, Prompted};
use crate::emitter::Emitter;
use crate::epoch::tell_of_waiting_tools;
use crate::fallback;
use crate::hooked::conversation::{Gate, MAX_TURNS, before_agent, spoken};
use crate::loop_guard::LoopGuard;
use crate::reply::Reply;
use crate::room::make_room;
use crate::session::Session;
use crate::spending;
use crate::step::step;
use crate::step_end::StepEnd;

const LOOP_FEEDBACK: &str = "Not run: this call, or this cycle of calls, was already made several times with the same \
result. Do not repeat it. Think about what is different from what you expect, try another way, or say what blocks you.";

/// Runs a prompt to its end. Whatever happens, every call that was made has its answer in the history.
pub(crate) async fn run_turn(
    session: &mut Session,
    parts: Vec<Part>,
    typed: String,
    by: FrontId,
    cancel: &CancellationToken,
) -> TurnEnd {
    let prompt_id = session.next_prompt_id();
    fallback::begin_turn(session).await;
    session.conversation.dialogue = Dialogue { prompt: spoken(&parts), replies: Vec::new() };
    let (mut parts, mut typed) = (parts, Some(typed));
    for turn in 0..MAX_TURNS {
        let (gate, halted) = before_agent(&session.services.hooked, &mut parts, cancel).await;
        let mut record = None;
        if gate != Gate::Blocked {
            let now = session.now();
            session.note_chosen_model();
            // A hook that sends the model back begins no turn.
            let source = if turn == 0 { UserSource::Prompt } else { UserSource::DuringTurn };
            let result = session.recorder.user_from(source, &parts, typed.as_deref(), now);
            let message = session.recorded(result).await;
            begin_prompt(session, message.as_deref(), &prompt_id);
            record.clone_from(&message);
            if let Some(observer) = &session.observer {
                observer.prompt(typed.as_deref());
            }
            if let Some(news) = session.editor_news() {
                session.conversation.history.push_prompt(UserSource::Program, None, news);
            }
            session.conversation.history.push_prompt(source, message, parts);
        }
        // A prompt from a hook was not typed by the user.
        if let Some(typed) = typed.take() {
            let (prompt_id, by) = (prompt_id.clone(), by.clone());
            session.emit(Event::PromptAccepted { typed, prompt_id, message: record, by }).await;
        }
        if let Some(halted) = halted {
            session.emit(halted).await;
        }
        match gate {
            Gate::Open => {}
            Gate::Stopped if cancel.is_cancelled() => return TurnEnd::Cancelled,
            Gate::Stopped | Gate::Blocked => return TurnEnd::Finished(None),
        }
        let end = continue_turn(session, &prompt_id, None, cancel).await;
        match after_agent(session, end, turn > 0, cancel).await {
            ControlFlow::Break(end) => return end,
            ControlFlow::Continue(reason) => parts = vec![Part::text(reason)],
        }
    }
    let text = format!("A hook sent the model back {MAX_TURNS} times; stopping.");
    session.notice(Severity::Warning, NoticeCode::Hook, text).await;
    TurnEnd::Finished(None)
}

/// The calls that follow belong to this prompt.
pub(crate) fn begin_prompt(session: &mut Session, message: Option<&str>, prompt_id: &str) {
    let message = message.unwrap_or_default().to_owned();
    changes::began(&session.services, &message);
    session.set_prompted(Prompted { message, id: prompt_id.to_owned(), reply: String::new() });
}

/// Runs a sub-agent's task, which does not trigger prompt hooks.
pub(crate) async fn pursue(session: &mut Session, parts: Vec<Part>, cancel: &CancellationToken) -> TurnEnd {
    let now = session.now();
    let result = session.recorder.user(&parts, None, now);
    let message = session.recorded(result).await;
    session.conversation.history.push_prompt(UserSource::Prompt, message, parts);
    let prompt_id = session.id.to_string();
    continue_turn(session, &prompt_id, None, cancel).await
}

/// Reports a requested call.
async fn tell_call(emitter: &Emitter, ready: &Ready) {
    let event = match &emitter.subagent {
        Some(run) => run.call_started(ready),
        None => Event::CallRequested(Arc::new(ready.request())),
    };
    emitter.emit(event).await;
}

/// Continues as if the model had just made this reply; without one, asks it again.
pub(crate) async fn propose(session: &mut Session, parts: Vec<Part>, cancel: &CancellationToken) -> TurnEnd {
    let prompt_id = session.next_prompt_id();
    fallback::begin_turn(session).await;
    session.note_chosen_model();
    let message = session.conversation.history.last_prompt().unwrap_or_default().to_owned();
    session.set_prompted(Prompted { message, id: prompt_id.clone(), reply: String::new() });
    let given = (!parts.is_empty()).then(|| Reply { parts, ..Reply::default() });
    continue_turn(session, &prompt_id, given, cancel).await
}

/// Runs one tool for a front end, within the rules. The conversation does not contain the call.
pub(crate) async fn run_tool(
    session: &mut Session,
    name: String,
    args: JsonObject,
    cancel: &CancellationToken,
) -> TurnEnd {
    let prompt_id = session.next_prompt_id();
    let message = session.conversation.history.last_prompt().unwrap_or_default().to_owned();
    session.set_prompted(Prompted { message, id: prompt_id.clone(), reply: String::new() });
    begin_step(session).await;
    session.conversation.prompted.reply.clear();
    session.follow_mode();
    let mut parts = [Part::call(FunctionCall { id: None, name, args, bad_args: None })];
    let calls = name_calls(session, &mut parts);
    let ready: Vec<Ready> =
        calls.into_iter().map(|call| calls::prepare(call, &session.toolbox, session.plans_now())).collect();
    for ready in &ready {
        tell_call(&session.emitter, ready).await;
    }
    let length = session.conversation.history.len();
    let next = run_calls(session, Caller::FrontEnd, ready, &prompt_id, None, cancel).await;
    session.conversation.history.truncate(length);
    match next {
        Next::Continue => TurnEnd::Finished(None),
        Next::End(end) => end,
    }
}

/// Alternates requests and calls until done. `given` replaces the first reply.
async fn continue_turn(
    session: &mut Session,
    prompt_id: &str,
    mut given: Option<Reply>,
    cancel: &CancellationToken,
) -> TurnEnd {
    let mut guard = LoopGuard::default();
    let mut warned = false;
    loop {
        let step = match given.take() {
            Some(reply) => {
                begin_step(session).await;
                StepEnd::Reply(reply)
            }
            None => {
                if let Some(end) = before_request(session, prompt_id, cancel).await {
                    return end;
                }
                begin_step(session).await;
                session.conversation.counters.requests += 1;
                step(session, prompt_id, &mut guard, cancel).await
            }
        };
        let next = match step {
            StepEnd::Reply(reply) => commit(session, reply, prompt_id, &mut guard, &mut warned, cancel).await,
            StepEnd::Chanting { reply, passage } => {
                stop_chant(session, reply, &passage, &mut guard, &mut warned).await
            }
            StepEnd::Invalid(fault) => {
                Next::End(TurnEnd::InvalidReply { kind: fault.kind.to_owned(), message: fault.message })
            }
            StepEnd::Failed(error) => Next::End(TurnEnd::Failed(error)),
            StepEnd::Halted(reply) => {
                keep_partial(session, reply).await;
                Next::End(TurnEnd::Finished(None))
            }
            StepEnd::Cancelled(reply) => {
                keep_partial(session, reply).await;
                Next::End(TurnEnd::Cancelled)
            }
        };
        if let Next::End(end) = next {
            return end;
        }
    }
}

/// Gives the next reply its id, so that its pieces can be told apart from those of another.
async fn begin_step(session: &mut Session) {
    session.conversation.prompted.reply = new_message_id();
    session.emit(Event::StepBegan { message: session.conversation.prompted.reply.clone() }).await;
}

/// Checks limits and context size before a request.
async fn before_request(
    session: &mut Session,
    prompt_id: &str,
    cancel: &CancellationToken,
) -> Option<TurnEnd> {
    if cancel.is_cancelled() {
        return Some(TurnEnd::Cancelled);
    }
    if let Some(error) = spending::exceeded(&session.services) {
        return Some(TurnEnd::Failed(error));
    }
    if session
        .model_settings
        .max_session_turns
        .is_some_and(|limit| session.conversation.counters.requests >= limit)
    {
        return Some(TurnEnd::TurnLimit);
    }
    if let Some(end) = steered::deliver(session, prompt_id, cancel).await {
        return Some(end);
    }
    session.follow_mode();
    tell_of_waiting_tools(session).await;
    make_room(session, prompt_id, cancel).await
}

/// Records a reply before acting on it, then runs its calls.
async fn commit(
    session: &mut Session,
    mut reply: Reply,
    prompt_id: &str,
    guard: &mut LoopGuard,
    warned: &mut bool,
    cancel: &CancellationToken,
) -> Next {
    let calls = name_calls(session, &mut reply.parts);
    let unclear: Vec<&RequestedCall> =
        calls.iter().filter(|call| session.toolbox.may_still_come(&call.name)).collect();
    if !unclear.is_empty() {
        for call in unclear {
            session.toolbox.arrival(&call.name, cancel).await;
        }
        session.follow_mode();
    }
    let mut ready: Vec<Ready> = calls
        .iter()
        .map(|call| calls::prepare(call.clone(), &session.toolbox, session.plans_now()))
        .collect();
    calls::refuse_unreadable(&reply.parts, &mut ready);
    // Some servers count nothing and say 0.
    if let Some(usage) = reply.usage.filter(|usage| usage.input > 0) {
        session.conversation.counters.last_request = Some((usage.input, session.conversation.history.len()));
    }
    show_citations(&session.emitter, &reply).await;
    if let Some(note) = reply.finish.as_ref().and_then(|finish| unusual_end(&finish.reason)) {
        session.notice(Severity::Warning, NoticeCode::Model, note).await;
    }
    if session.services.hooked.listens_to(Moment::AfterAgent) {
        session.conversation.dialogue.replies.extend(Some(reply.text()).filter(|text| !text.is_empty()));
    }
    let records = call_records(&reply, &ready);
    record_reply(session, &reply, records).await;
    session.emit(Event::StepCommitted).await;
    for ready in &ready {
        tell_call(&session.emitter, ready).await;
    }
    if calls.is_empty() {
        // What the user said meanwhile wants an answer.
        if !session.conversation.steering.is_empty() && !cancel.is_cancelled() {
            return Next::Continue;
        }
        return Next::End(TurnEnd::Finished(reply.finish));
    }
    let looping = session.model_settings.loop_detection && {
        let mut found = false;
        for call in &calls {
            found |= guard.repeats(&call.name, &call.args);
        }
        found
    };
    if looping {
        for call in &mut ready {
            call.refuse(ToolErrorKind::ExecutionFailed, LOOP_FEEDBACK);
        }
    }
    // A refused call has no result of its own; it must not hide the loop from the next look.
    let watch = if looping { None } else { Some(guard) };
    let end = run_calls(session, Caller::Model, ready, prompt_id, watch, cancel).await;
    if let (Next::Continue, Some(run)) = (&end, &session.emitter.subagent)
        && let Some(end) = run.goal.weigh(&calls)
    {
        return Next::End(end);
    }
    // A limit, a cancellation or a fatal call says more about the end than the loop does.
    if looping && matches!(end, Next::Continue) && std::mem::replace(warned, true) {
        let name = calls.first().map(|call| call.name.clone()).unwrap_or_default();
        return Next::End(
            loop_end(&session.emitter, format!("the same calls to `{name}` with the same results")).await,
        );
    }
    end
}

/// Gives every call its id, on the part itself and in the list that is run.
fn name_calls(session: &mut Session, parts: &mut [Part]) -> Vec<RequestedCall> {
    let mut calls = Vec::new();
    for part in parts {
        let Body::Call(call) = &mut part.body else { continue };
        let raw = call.id.take().filter(|id| !id.is_empty()).unwrap_or_else(|| {
            let number = session.conversation.counters.unnamed_calls;
            session.conversation.counters.unnamed_calls += 1;
            format!("{}_{}_{number}", call.name, session.services.clock.now().millis())
        });
        let mut id = CallId::new(&call.name, &raw);
        // Not every model keeps its ids apart, within a reply or from one to the next.
        let mut copy = 1;
        while !session.services.call_ids.claim(id.as_str()) {
            copy += 1;
            id = CallId::new(&call.name, &format!("{raw}_{copy}"));
        }
        call.id = Some(id.as_str().to_owned());
        calls.push(RequestedCall { id, name: call.name.clone(), args: call.args.clone() });
    }
    calls
}

async fn record_reply(session: &mut Session, reply: &Reply, calls: Vec<CallRecord>) {
    let record = ReplyRecord {
        parts: reply.recorded_parts(),
        thoughts: reply.thoughts.clone(),
        usage: reply.usage,
        origin: reply.origin.clone(),
        model: reply
            .model_version
            .clone()
            .unwrap_or_else(|| session.services.client.resolve(session.model()).id),
        calls,
    };
    let now = session.now();
    let message = std::mem::take(&mut session.conversation.prompted.reply);
    let result = match message.is_empty() {
        true => session.recorder.reply(&record, now),
        false => session.recorder.reply_as(message, &record, now),
    };
    let message = session.recorded(result).await;
    if let Some(observer) = &session.observer {
        observer.reply(&reply.text(), &record.model);
    }
    if !reply.parts.is_empty() {
        let said = Content { origin: reply.origin.clone(), ..Content::model(reply.parts.clone()) };
        session.conversation.history.push(message, said);
    }
}

async fn show_citations(emitter: &Emitter, reply: &Reply) {
    if reply.citations.is_empty() {
        return;
    }
    let mut lines: Vec<String> = reply
        .citations
        .iter()
        .map(|c| c.title.as_ref().map_or_else(|| c.uri.clone(), |title| format!("({title}) {}", c.uri)))
        .collect();
    lines.sort();
    lines.dedup();
    let message = format!("Citations:\n{}", lines.join("\n"));
    emitter.notice(Severity::Info, NoticeCode::Model, message).await;
}

/// The model repeats itself in text: keeps the text and tells the model, once.
async fn stop_chant(
    session: &mut Session,
    reply: Reply,
    passage: &str,
    guard: &mut LoopGuard,
    warned: &mut bool,
) -> Next {
    *guard = LoopGuard::default();
    keep_partial(session, reply).await;
    // Its words stay in the conversation; what follows is another reply.
    session.emit(Event::StepCommitted).await;
    if std::mem::replace(warned, true) {
        return Next::End(
            loop_end(&session.emitter, format!("the same text over and over: \"{passage}\"")).await,
        );
    }
    let note = format!(
        "System: you repeated the same passage many times (\"{passage}\") and were stopped. \
         Do not continue like that; take another approach or finish."
    );
    let parts = vec![Part::text(note)];
    let now = session.now();
    let result = session.recorder.user_from(UserSource::Program, &parts, None, now);
    let message = session.recorded(result).await;
    session.conversation.history.push_prompt(UserSource::Program, message, parts);
    Next::Continue
}

async fn loop_end(emitter: &Emitter, what: String) -> TurnEnd {
    let message = format!("Loop detected, stopping execution: {what}.");
    emitter.notice(Severity::Warning, NoticeCode::LoopDetected, message.clone()).await;
    TurnEnd::Loop(message)
}

/// Keeps the text of a stopped reply; its calls were never made.
async fn keep_partial(session: &mut Session, mut reply: Reply) {
    reply.parts.retain(|part| part.as_call().is_none());
    if reply.text().trim().is_empty() {
        return;
    }
    record_reply(session, &reply, Vec::new()).await;
}

/// The message for an unusual finish reason.
fn unusual_end(reason: &FinishReason) -> Option<String> {
    match reason {
        FinishReason::Stop | FinishReason::ToolCalls | FinishReason::StopSequence => None,
        FinishReason::ContextWindow => {
            Some("The reply was cut because the context window is full; /compress makes room.".to_owned())
        }
        FinishReason::ContentFilter => Some("The reply was cut by the provider's filter.".to_owned()),
        FinishReason::Refusal(refusal) => {
            let why = refusal.text.as_deref().map(|text| format!(" {text}")).unwrap_or_default();
            Some(format!("The model refused.{why}"))
        }
        FinishReason::Paused => Some("The provider paused the reply.".to_owned()),
        FinishReason::MaxTokens => Some("The reply was cut at the model's output limit.".to_owned()),
        FinishReason::Safety => Some("The reply was cut by the safety filter.".to_owned()),
        FinishReason::Recitation => Some("The reply was cut because it recited a source.".to_owned()),
        FinishReason::MalformedFunctionCall
        | FinishReason::UnexpectedToolCall
        | FinishReason::Unspecified => None,
        FinishReason::Named(word) => Some(format!("The reply ended early: {word}.")),
    }
}

/// What the session file keeps of calls that are about to run.
fn call_records(reply: &Reply, ready: &[Ready]) -> Vec<CallRecord> {
    let parts = reply.parts.iter().filter(|part| part.as_call().is_some());
    ready
        .iter()
        .zip(parts)
        .map(|(ready, part)| CallRecord {
            id: ready.call.id.clone(),
            name: ready.call.name.clone(),
            args: ready.call.args.clone(),
            seal: part.seal.clone(),
            display_name: ready
                .spec
                .as_ref()
                .map_or_else(|| ready.call.name.clone(), |spec| spec.display_name.clone()),
            description: ready.description.clone(),
            markdown: ready.spec.as_ref().is_some_and(|spec| spec.output_is_markdown),
        })
        .collect()
}
