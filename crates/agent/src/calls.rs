//! Running the calls of a step: find, check, decide, run, answer.

mod answer;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::join_all;
use pollux_domain::JsonObject;
use pollux_domain::content::Part;
use pollux_domain::event::{CallDecision, CallReport, CallStatus, Event};
use pollux_domain::id::CallId;
use pollux_domain::tool::{
    Display, Effect, Invocation, LineDelta, ToolContext, ToolErrorKind, ToolFailure, ToolKind, ToolOutcome,
    ToolSpec,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::approval::{Approvals, Decision};
use crate::schema;
use crate::toolbox::Toolbox;

pub(crate) use answer::{Answer, Offload, fingerprint};

/// How long a tool may take to end after it was told to; a process group needs a moment.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// A call as the model asked for it.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) id: CallId,
    pub(crate) name: String,
    pub(crate) args: JsonObject,
}

/// A call that has been looked at and may run, or has failed already.
pub(crate) struct Ready {
    pub(crate) call: Call,
    pub(crate) spec: Option<Arc<ToolSpec>>,
    pub(crate) description: String,
    pub(crate) effect: Effect,
    pub(crate) decision: Option<CallDecision>,
    run: Result<Box<dyn Invocation>, ToolFailure>,
}

/// A call that is over.
pub(crate) struct Finished {
    pub(crate) call: Call,
    pub(crate) spec: Option<Arc<ToolSpec>>,
    pub(crate) effect: Effect,
    pub(crate) decision: Option<CallDecision>,
    pub(crate) outcome: ToolOutcome,
    pub(crate) duration: Duration,
}

/// Looks at a call without running it.
pub(crate) fn prepare(call: Call, tools: &Toolbox, approvals: &Approvals) -> Ready {
    let refuse = |call: Call, spec, kind, message: String, decision| Ready {
        description: String::new(),
        effect: Effect::None,
        decision,
        run: Err(ToolFailure { kind, message, display: None }),
        call,
        spec,
    };
    let tool = match tools.find(&call.name) {
        Ok(tool) => tool,
        Err(message) => return refuse(call, None, ToolErrorKind::ToolNotRegistered, message, None),
    };
    let spec = Arc::clone(tool.spec());
    let modernised = tool.modernised(&call.args);
    let args = modernised.as_ref().unwrap_or(&call.args);
    let checked = schema::check(&spec.parameters, args);
    let invocation = match checked.and_then(|()| tool.prepare(args).map_err(|error| error.0)) {
        Ok(invocation) => invocation,
        Err(message) => return refuse(call, Some(spec), ToolErrorKind::InvalidToolParams, message, None),
    };
    let effect = invocation.effect();
    let description = invocation.describe();
    let (decision, run) = match approvals.decide(&spec, args, &effect) {
        Decision::Allow => (Some(CallDecision::Accept), Ok(invocation)),
        Decision::Deny(reason) => {
            let message = format!("Tool execution denied by policy. {reason}").trim_end().to_owned();
            (Some(CallDecision::Reject), Err(failure(ToolErrorKind::PolicyViolation, message)))
        }
        Decision::Ask => {
            let message = format!(
                "Tool execution for \"{}\" requires user confirmation, which is not supported in non-interactive mode.",
                spec.display_name
            );
            (None, Err(failure(ToolErrorKind::UnhandledException, message)))
        }
    };
    Ready { call, spec: Some(spec), description, effect, decision, run }
}

fn failure(kind: ToolErrorKind, message: String) -> ToolFailure {
    ToolFailure { kind, message, display: None }
}

impl Ready {
    /// Makes the call fail instead of running.
    pub(crate) fn refuse(&mut self, kind: ToolErrorKind, message: &str) {
        self.run = Err(failure(kind, message.to_owned()));
    }

    fn runs_beside_others(&self) -> bool {
        let waits =
            self.call.args.get("wait_for_previous").and_then(serde_json::Value::as_bool) == Some(true);
        !waits && self.spec.as_ref().is_none_or(|spec| spec.kind.is_read_only())
    }
}

/// The calls as they run: neighbours that only read together, everything else on its own, in order.
pub(crate) fn groups(ready: Vec<Ready>) -> Vec<Vec<Ready>> {
    let mut groups: Vec<Vec<Ready>> = Vec::new();
    let mut may_join = false;
    for call in ready {
        let beside = call.runs_beside_others();
        match groups.last_mut() {
            Some(group) if beside && may_join => group.push(call),
            _ => groups.push(vec![call]),
        }
        may_join = beside;
    }
    groups
}

/// Runs calls side by side; the results are in the order of the calls.
pub(crate) async fn run_group(
    group: Vec<Ready>,
    events: &mpsc::Sender<Event>,
    cancel: &CancellationToken,
) -> Vec<Finished> {
    join_all(group.into_iter().map(|call| run_one(call, events, cancel))).await
}

async fn run_one(ready: Ready, events: &mpsc::Sender<Event>, cancel: &CancellationToken) -> Finished {
    let Ready { call, spec, effect, decision, run, .. } = ready;
    let started = Instant::now();
    let outcome = match run {
        Err(failure) => ToolOutcome::Failed(failure),
        Ok(_) if cancel.is_cancelled() => ToolOutcome::Cancelled { partial: None },
        Ok(invocation) => {
            let context = context(&call, events, cancel);
            // A tool that panics fails its call, not the session.
            let run = AssertUnwindSafe(async { invocation.run(&context).await }).catch_unwind();
            tokio::select! {
                biased;
                outcome = run => outcome.unwrap_or_else(|_| {
                    ToolOutcome::failed(
                        ToolErrorKind::UnhandledException,
                        format!("{} failed unexpectedly.", call.name),
                    )
                }),
                () = overdue(cancel) => ToolOutcome::Cancelled { partial: None },
            }
        }
    };
    Finished { call, spec, effect, decision, outcome, duration: started.elapsed() }
}

/// Over when a tool has had its time to end in order after a cancel.
async fn overdue(cancel: &CancellationToken) {
    cancel.cancelled().await;
    tokio::time::sleep(CANCEL_GRACE).await;
}

fn context(call: &Call, events: &mpsc::Sender<Event>, cancel: &CancellationToken) -> ToolContext {
    let sender = events.clone();
    let id = call.id.clone();
    ToolContext {
        call: call.id.clone(),
        cancel: cancel.child_token(),
        // Live output is for watching; a reader that lags behind loses some of it, never the result.
        live: Arc::new(move |text: &str| {
            let _ = sender.try_send(Event::CallOutput { call: id.clone(), text: text.to_owned() });
        }),
    }
}

impl Finished {
    /// The report for front ends and telemetry.
    pub(crate) fn report(&self, answer: &[Part], prompt_id: &str) -> CallReport {
        let (status, error, display, lines) = match &self.outcome {
            ToolOutcome::Done(output) => (CallStatus::Success, None, output.display.clone(), output.lines),
            ToolOutcome::Failed(failure) => {
                let shown = failure.display.clone().unwrap_or_else(|| failure.message.clone());
                let error = Some((failure.kind, failure.message.clone()));
                (CallStatus::Error, error, Display::Text(shown), LineDelta::default())
            }
            ToolOutcome::Cancelled { .. } => {
                (CallStatus::Cancelled, None, Display::Text("Cancelled".into()), LineDelta::default())
            }
        };
        CallReport {
            call: self.call.id.clone(),
            name: self.call.name.clone(),
            kind: self.spec.as_ref().map_or(ToolKind::Other, |spec| spec.kind),
            args: self.call.args.clone(),
            status,
            error,
            display,
            lines,
            duration: self.duration,
            decision: self.decision,
            answer: answer.iter().map(answer::text).collect(),
            prompt_id: prompt_id.to_owned(),
        }
    }
}
