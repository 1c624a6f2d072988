//! Hooks after a tool call: they can extend its result or request another call.

use futures_util::future::join_all;
use pollux_domain::content::Part;
use pollux_domain::event::{NoticeCode, Severity};
use pollux_domain::tool::{self, Display, ToolErrorKind, ToolOutcome};
use pollux_hooks::{
    AfterTool, AfterToolOutcome, BeforeTool, Event as Moment, MAX_TAIL_CALLS, TailCall, ToolFailure,
    ToolResponse, Verdict, hook_context,
};
use pollux_session::display_json;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::call::{Finished, RequestedCall};
use crate::calls::{self, Starts};
use crate::changes::{keep_after, keep_before};
use crate::hooked::Hooked;
use crate::hooked::before_tool::mcp_context;
use crate::permission::permit;
use crate::session::Session;

/// Calls were made: hooks may add to their results, replace them, or ask for other calls.
pub(crate) async fn after_tools(
    session: &mut Session,
    finished: Vec<Finished>,
    cancel: &CancellationToken,
) -> Vec<Finished> {
    if !session.services.hooked.listens_to(Moment::AfterTool) {
        return finished;
    }
    let looks =
        join_all(finished.iter().map(|done| after_tool(&session.services.hooked, done, cancel))).await;
    let mut all = Vec::with_capacity(finished.len());
    for (mut done, look) in finished.into_iter().zip(looks) {
        let mut tail = apply_result(&mut done, look);
        for _ in 0..MAX_TAIL_CALLS {
            let Some(wanted) = tail.take().filter(|_| !cancel.is_cancelled()) else { break };
            done = tail_call(session, done, wanted, cancel).await;
            let look = after_tool(&session.services.hooked, &done, cancel).await;
            tail = apply_result(&mut done, look);
        }
        if tail.is_some() && !cancel.is_cancelled() {
            let text = format!(
                "A hook requested more than {MAX_TAIL_CALLS} calls in a row; keeping the last result."
            );
            session.notice(Severity::Warning, NoticeCode::Hook, text).await;
        }
        all.push(done);
    }
    all
}

async fn after_tool(hooked: &Hooked, done: &Finished, cancel: &CancellationToken) -> AfterToolOutcome {
    let Some(call) = of_finished(done) else { return AfterToolOutcome::default() };
    let heard = hooked.fire(|| AfterTool { call, tool_response: response(done) }, cancel).await;
    // What is done is done; a cancel ends the turn by itself.
    if cancel.is_cancelled() { AfterToolOutcome::default() } else { heard.outcome }
}

/// Makes the call that a hook wants; it is decided on like any other, and its result takes the place of
/// the one before.
async fn tail_call(
    session: &mut Session,
    done: Finished,
    wanted: TailCall,
    cancel: &CancellationToken,
) -> Finished {
    let text = format!("A hook runs {} after {}.", wanted.name, done.call.name);
    session.notice(Severity::Info, NoticeCode::Hook, text).await;
    let call = RequestedCall { id: done.call.id.clone(), name: wanted.name, args: wanted.args };
    let mut ready = calls::prepare(call, &session.toolbox, session.plans_now());
    ready.marks.original = Some(done.call.name.clone());
    let mut group = vec![ready];
    permit(session, &mut group, cancel).await;
    keep_before(&session.services, &session.emitter, &session.conversation.prompted, &group, cancel).await;
    let mut results = calls::run_group(group, Starts::Silent, &session.emitter.events, cancel).await;
    keep_after(&session.services, &session.emitter, &results).await;
    let Some(next) = results.pop() else { return done };
    Finished {
        duration: done.duration + next.duration,
        // Context added to the first result is kept.
        appended: done.appended + &next.appended,
        call: done.call,
        ..next
    }
}

/// Applies the results of hooks to a result; returns the requested call. The order is upstream's.
fn apply_result(done: &mut Finished, wanted: AfterToolOutcome) -> Option<TailCall> {
    let failed =
        |kind, message: String, display| ToolOutcome::Failed(tool::ToolFailure { kind, message, display });
    match wanted.verdict {
        Verdict::Stop { reason } => {
            done.outcome = failed(ToolErrorKind::StopExecution, reason, None);
            return None;
        }
        Verdict::Block { reason } => {
            let display = Some(format!("Tool result blocked: {reason}"));
            done.outcome = failed(ToolErrorKind::ExecutionFailed, reason, display);
            return None;
        }
        Verdict::Proceed => {}
    }
    if let Some(context) = wanted.context {
        done.appended.push_str(&format!("\n\n{}", hook_context(&context)));
    }
    wanted.tail_call
}

/// A call that was made; `None` for one that never ran, or ended without a word.
fn of_finished(done: &Finished) -> Option<BeforeTool> {
    let spec = done.spec.as_ref().filter(|_| done.ran)?;
    Some(BeforeTool {
        tool_name: spec.name.clone(),
        tool_input: done.args.clone(),
        mcp_context: done.tool.as_deref().and_then(mcp_context),
        original_request_name: done.is_tail.then(|| done.call.name.clone()),
        call: Some(done.call.id.as_str().to_owned()),
    })
}

fn response(done: &Finished) -> ToolResponse {
    match &done.outcome {
        ToolOutcome::Done(output) => {
            let texts: Option<Vec<&str>> = output.parts.iter().map(Part::spoken_text).collect();
            let llm_content = match texts {
                Some(texts) => Value::from(texts.join("\n") + &done.appended),
                None => output.parts.iter().map(Part::to_json).collect(),
            };
            let sandbox = output.sandbox.as_ref().map(|report| report.to_json());
            let return_display = display_json(&output.display);
            ToolResponse { llm_content, return_display, error: None, sandbox }
        }
        ToolOutcome::Failed(failure) => ToolResponse {
            llm_content: failure.message.as_str().into(),
            return_display: failure.display.as_deref().unwrap_or(&failure.message).into(),
            error: Some(ToolFailure {
                message: failure.message.clone(),
                kind: failure.kind.as_str().to_owned(),
            }),
            sandbox: None,
        },
        ToolOutcome::Cancelled { .. } | ToolOutcome::Refused(_) => {
            ToolResponse { return_display: display_json(&Display::Nothing), ..ToolResponse::default() }
        }
    }
}
