//! Runs the calls of one reply: approval, execution and responses.

use std::sync::Arc;

use pollux_domain::content::{Content, Part};
use pollux_domain::event::{CallOutcome, CallReport, Event, NoticeCode, Severity, TurnEnd};
use pollux_domain::model::ModelError;
use pollux_domain::tool::{Display, ToolErrorKind, ToolOutcome};
use pollux_hooks::Verdict;
use pollux_session::CallResult;
use tokio_util::sync::CancellationToken;

use super::after_tool::after_tools;
use super::next::Next;
use crate::call::{Finished, Ready};
use crate::calls::answer::{self, CallAnswer, Offload};
use crate::calls::{self, Starts};
use crate::changes::{keep_after, keep_before};
use crate::loop_guard::LoopGuard;
use crate::permission::permit;
use crate::session::Session;
use crate::spending::{self, INTERRUPTED};

/// Tools that lead to new places, where more context files may lie.
const EXPLORERS: [&str; 5] = ["read_file", "list_directory", "write_file", "replace", "read_many_files"];

const AFTER_FATAL: &str = "Not run: an earlier call failed in a way that ends the run.";

const AFTER_STOP: &str = "Not run: a hook stopped the agent.";

/// Who wants the calls and gets their answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    Model,
    /// A front end; the model does not see the answers.
    FrontEnd,
}

/// Runs calls in their order and keeps every answer.
pub(super) async fn run_calls(
    session: &mut Session,
    caller: Caller,
    ready: Vec<Ready>,
    prompt_id: &str,
    mut guard: Option<&mut LoopGuard>,
    cancel: &CancellationToken,
) -> Next {
    let mut parts = Vec::new();
    let mut deferred = Vec::new();
    let mut fatal = None;
    let mut stopped: Option<String> = None;
    let mut over: Option<ModelError> = None;
    let mut left = ready.len();
    session.stopped_by_person = false;
    for mut group in calls::groups(ready) {
        over = over.or_else(|| spending::exceeded(&session.services));
        let why = match (&fatal, &stopped, &over) {
            (Some(_), ..) => Some(AFTER_FATAL),
            (None, Some(_), _) => Some(AFTER_STOP),
            (None, None, Some(_)) => Some(INTERRUPTED),
            (None, None, None) => None,
        };
        if let Some(why) = why {
            group.iter_mut().for_each(|call| call.refuse(ToolErrorKind::ExecutionFailed, why));
        }
        permit(session, &mut group, cancel).await;
        // What is done is on disk before it is told, and told before the next call begins.
        let mut results = Vec::with_capacity(group.len());
        let mut reports = Vec::with_capacity(group.len());
        keep_before(&session.services, &session.emitter, &session.conversation.prompted, &group, cancel)
            .await;
        let starts = match session.emitter.subagent {
            None => Starts::Told(&session.services.consoles),
            Some(_) => Starts::Silent,
        };
        let finished = calls::run_group(group, starts, &session.emitter.events, cancel).await;
        keep_after(&session.services, &session.emitter, &finished).await;
        for mut done in after_tools(session, finished, cancel).await {
            left -= 1;
            let answer = answer_for(session, caller, &done).await;
            if let Some(guard) = &mut guard {
                guard.result(left, &answer::fingerprint(&answer.parts));
            }
            let mut report = answer::report(&mut done, &answer.parts, prompt_id);
            results.push(call_result(&report, &answer.parts));
            // The record answers the model's call; everybody else is told what ran in its place.
            if let Some(spec) = done.spec.as_ref().filter(|_| done.is_tail) {
                report.name.clone_from(&spec.name);
                report.args.clone_from(&done.args);
            }
            if let Some(run) = &session.emitter.subagent {
                run.goal.answered(&done.call, &done.outcome);
            }
            match done.outcome {
                ToolOutcome::Failed(failure) if failure.kind.is_fatal() => {
                    fatal = Some((failure.kind, failure.message));
                }
                ToolOutcome::Failed(failure) if failure.kind == ToolErrorKind::StopExecution => {
                    stopped.get_or_insert(failure.message);
                }
                ToolOutcome::Refused(_) => {
                    // A person stopped what an agent wanted to do for this turn.
                    session.stopped_by_person |= done.ran_as_agent();
                }
                ToolOutcome::Failed(_) | ToolOutcome::Done(_) | ToolOutcome::Cancelled { .. } => {}
            }
            reports.push(report);
            parts.extend(answer.parts);
            deferred.extend(answer.deferred);
        }
        let now = session.now();
        let recorded = session.recorder.results(&results, now);
        session.recorded(recorded).await;
        for report in reports {
            if let Some(observer) = &session.observer {
                observer.call(&report);
            }
            session.emit(Event::CallFinished(Arc::new(report))).await;
        }
    }
    session.conversation.history.push(None, Content::user(parts));
    if !deferred.is_empty() {
        session
            .conversation
            .history
            .push(None, Content::model(vec![Part::text("I will look at the media now.")]));
        session.conversation.history.push(None, Content::user(deferred));
    }
    match fatal {
        Some((kind, message)) => Next::End(TurnEnd::FatalTool { kind, message }),
        None if session.stopped_by_person => Next::End(TurnEnd::Cancelled),
        None if cancel.is_cancelled() => Next::End(TurnEnd::Cancelled),
        None => match stopped {
            Some(reason) => {
                session.services.hooked.halts(&Verdict::Stop { reason }, None).await;
                Next::End(TurnEnd::Finished(None))
            }
            None => over.map_or(Next::Continue, |error| Next::End(TurnEnd::Failed(error))),
        },
    }
}

async fn answer_for(session: &mut Session, caller: Caller, done: &Finished) -> CallAnswer {
    // Each context file comes once: the model still has to get it.
    let context = match caller {
        Caller::Model => context_near(session, done),
        Caller::FrontEnd => None,
    };
    for warning in session.context.take_warnings() {
        session.notice(Severity::Warning, NoticeCode::ContextFile, warning).await;
    }
    let offload = Offload {
        settings: &session.services.tool_settings,
        temp_dir: &session.services.temp_dir,
        session: &session.id,
        window_left: session.window_left(),
        out_of_time: session.emitter.subagent.as_ref().is_some_and(|run| run.is_out_of_time()),
    };
    let answer = CallAnswer::build(done, context.as_deref(), &offload);
    if let Some(problem) = &answer.problem {
        session.notice(Severity::Warning, NoticeCode::ToolOutput, problem.clone()).await;
    }
    answer
}

fn context_near(session: &mut Session, done: &Finished) -> Option<String> {
    let explores = done.spec.as_ref().is_some_and(|spec| EXPLORERS.contains(&spec.name.as_str()));
    if !explores || !matches!(done.outcome, ToolOutcome::Done(_)) {
        return None;
    }
    let found: Vec<String> =
        done.effect.paths().iter().filter_map(|path| session.context.near(path)).collect();
    (!found.is_empty()).then(|| found.join("\n\n"))
}

/// What the session file keeps of a call that ended.
fn call_result(report: &CallReport, answer: &[Part]) -> CallResult {
    CallResult {
        id: report.call.clone(),
        status: report.outcome.status(),
        result: answer.to_vec(),
        display: match report.outcome {
            CallOutcome::Cancelled => Display::Nothing,
            CallOutcome::Succeeded | CallOutcome::Failed(_) => report.display.clone(),
        },
    }
}
