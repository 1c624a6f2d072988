//! Runs the tool calls of a step: lookup, validation, execution and response. `permission.rs` decides what may run.

pub(crate) mod answer;

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::join_all;
use pollux_domain::content::Part;
use pollux_domain::event::Event;
use pollux_domain::id::CallId;
use pollux_domain::tool::{Effect, Tool, ToolContext, ToolErrorKind, ToolFailure, ToolKind, ToolOutcome};
use pollux_policy::plan_file::placed;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::call::{Finished, Marks, Ready, Refusal, RequestedCall};
use crate::consoles::Consoles;
use crate::schema;
use crate::toolbox::Toolbox;

/// Grace period after a cancel; a process group needs a moment to end.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// Note for the model about arguments changed by a hook; upstream's words.
const CHANGED: &str = "\n\n[System] Tool input parameters were modified by a hook before execution.";

/// Prepares a call without deciding on it or running it. `plans` is the plan folder, in plan mode.
pub(crate) fn prepare(call: RequestedCall, tools: &Toolbox, plans: Option<&Path>) -> Ready {
    let refuse = |call: RequestedCall, tool: Option<Arc<dyn Tool>>, failure| Ready {
        spec: tool.as_ref().map(|tool| Arc::clone(tool.spec())),
        tool,
        args: call.args.clone(),
        description: String::new(),
        effect: Effect::None,
        paths: Vec::new(),
        decision: None,
        permit: None,
        must_ask: false,
        reads_only: false,
        // Empty: the message already gives the reason.
        denial: tools.hides(&call.name).then(String::new),
        rejected_edit: None,
        marks: Marks::default(),
        run: Err(Refusal::Failure(failure)),
        call,
    };
    match tools.find(&call.name) {
        Err(failure) => refuse(call, None, failure),
        Ok(tool) => accept(call.clone(), tool, plans)
            .unwrap_or_else(|failure| refuse(call, Some(Arc::clone(tool)), failure)),
    }
}

/// Normalises the arguments and lets the tool validate them.
pub(crate) fn accept(
    call: RequestedCall,
    tool: &Arc<dyn Tool>,
    plans: Option<&Path>,
) -> Result<Ready, ToolFailure> {
    let spec = Arc::clone(tool.spec());
    let args = tool.modernised(&call.args).unwrap_or_else(|| call.args.clone());
    let args = plans.and_then(|plans| placed(&spec.name, &args, plans)).unwrap_or(args);
    let fits = if tool.checks_itself() { Ok(()) } else { schema::check(&spec.parameters, &args) };
    let invocation = fits
        .and_then(|()| tool.prepare(&args).map_err(|error| error.0))
        .map_err(|message| failure(ToolErrorKind::InvalidToolParams, message))?;
    Ok(Ready {
        effect: invocation.effect(),
        paths: invocation.locations(),
        description: invocation.describe(),
        call,
        spec: Some(spec),
        tool: Some(Arc::clone(tool)),
        args,
        decision: None,
        permit: None,
        must_ask: false,
        reads_only: false,
        denial: None,
        rejected_edit: None,
        marks: Marks::default(),
        run: Ok(invocation),
    })
}

fn failure(kind: ToolErrorKind, message: String) -> ToolFailure {
    ToolFailure { kind, message, display: None }
}

/// Fails calls whose arguments are not a JSON object and shows the model what it wrote. `ready` are the
/// calls among the parts, in order.
pub(crate) fn refuse_unreadable(parts: &[Part], ready: &mut [Ready]) {
    for (call, ready) in parts.iter().filter_map(Part::as_call).zip(ready) {
        if let Some(bad) = &call.bad_args {
            let message = format!(
                "The arguments are not a valid JSON object ({}); the tool was not run. They were: {}",
                bad.error, bad.raw
            );
            ready.refuse(ToolErrorKind::InvalidToolParams, &message);
        }
    }
}

/// Which calls may run in parallel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Concurrency {
    Alone,
    Readers,
    /// Tasks for several agents in one turn are independent.
    Agents,
}

fn concurrency(ready: &Ready) -> Concurrency {
    let waits = ready.call.args.get("wait_for_previous").and_then(serde_json::Value::as_bool) == Some(true);
    match ready.spec.as_ref().map(|spec| spec.kind) {
        _ if waits => Concurrency::Alone,
        None => Concurrency::Readers,
        Some(ToolKind::Agent) => Concurrency::Agents,
        Some(kind) if kind.is_read_only() => Concurrency::Readers,
        Some(_) => Concurrency::Alone,
    }
}

/// Groups adjacent calls that may run in parallel, in order.
pub(crate) fn groups(ready: Vec<Ready>) -> Vec<Vec<Ready>> {
    let mut groups: Vec<Vec<Ready>> = Vec::new();
    let mut last = Concurrency::Alone;
    for call in ready {
        let concurrency = concurrency(&call);
        match groups.last_mut() {
            Some(group) if concurrency != Concurrency::Alone && concurrency == last => group.push(call),
            _ => groups.push(vec![call]),
        }
        last = concurrency;
    }
    groups
}

/// Whether call starts are reported to front ends; sub-agents have their own events.
#[derive(Clone, Copy)]
pub(crate) enum Starts<'a> {
    /// Their commands get terminals, too.
    Told(&'a Consoles),
    Silent,
}

/// Runs calls in parallel; results are in call order.
pub(crate) async fn run_group(
    group: Vec<Ready>,
    starts: Starts<'_>,
    events: &mpsc::Sender<Event>,
    cancel: &CancellationToken,
) -> Vec<Finished> {
    join_all(group.into_iter().map(|call| run_one(call, starts, events, cancel))).await
}

async fn run_one(
    ready: Ready,
    starts: Starts<'_>,
    events: &mpsc::Sender<Event>,
    cancel: &CancellationToken,
) -> Finished {
    let Ready {
        call, spec, tool, args, effect, paths, decision, permit, must_ask, denial, marks, run, ..
    } = ready;
    let started = Instant::now();
    let mut ran = false;
    let outcome = match run {
        Err(Refusal::Failure(failure)) => ToolOutcome::Failed(failure),
        Err(Refusal::ByPerson(message)) => ToolOutcome::Refused(message),
        Ok(_) if cancel.is_cancelled() => ToolOutcome::Cancelled { partial: None },
        Ok(invocation) => {
            let mut console = None;
            if let Starts::Told(consoles) = starts {
                let _ = events.send(Event::CallStarted { call: call.id.clone() }).await;
                if matches!(effect, Effect::Execute { .. }) {
                    console = consoles.open_for_call(&call.id, events);
                }
            }
            let mut context = context(&call, must_ask, events, cancel);
            context.terminal = console.as_ref().map(|console| console.terminal.clone());
            // A tool that panics fails its call, not the session.
            let run = AssertUnwindSafe(async { invocation.run(&context).await }).catch_unwind();
            tokio::select! {
                biased;
                outcome = run => {
                    ran = matches!(outcome, Ok(ToolOutcome::Done(_) | ToolOutcome::Failed(_)));
                    outcome.unwrap_or_else(|_| {
                        let message = format!("{} failed unexpectedly.", call.name);
                        ToolOutcome::failed(ToolErrorKind::UnhandledException, message)
                    })
                }
                () = overdue(cancel) => ToolOutcome::Cancelled { partial: None },
            }
        }
    };
    let appended = if marks.changed && ran { CHANGED.to_owned() } else { String::new() };
    let (is_tail, duration) = (marks.original.is_some(), started.elapsed());
    // A permit of a call that was refused later allowed nothing.
    let permit = permit.filter(|_| ran);
    Finished {
        call,
        spec,
        tool,
        args,
        effect,
        paths,
        decision,
        permit,
        denial,
        outcome,
        duration,
        ran,
        is_tail,
        appended,
    }
}

/// Completes when the grace period after a cancel is over.
async fn overdue(cancel: &CancellationToken) {
    cancel.cancelled().await;
    tokio::time::sleep(CANCEL_GRACE).await;
}

fn context(
    call: &RequestedCall,
    must_ask: bool,
    events: &mpsc::Sender<Event>,
    cancel: &CancellationToken,
) -> ToolContext {
    ToolContext {
        call: call.id.clone(),
        cancel: cancel.child_token(),
        must_ask,
        live: live(call.id.clone(), events.clone()),
        terminal: None,
    }
}

/// Live output is best effort: a slow reader loses some of it, never the result, and is told how much.
fn live(call: CallId, events: mpsc::Sender<Event>) -> Arc<dyn Fn(&str) + Send + Sync> {
    let lost = AtomicUsize::new(0);
    Arc::new(move |text: &str| {
        let before = lost.swap(0, Ordering::Relaxed);
        let shown = match before {
            0 => text.to_owned(),
            lines => format!("… {lines} lines not shown\n{text}"),
        };
        if events.try_send(Event::CallOutput { call: call.clone(), text: shown }).is_err() {
            lost.fetch_add(before + text.lines().count(), Ordering::Relaxed);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn dropped_output_is_reported() {
        let (sender, mut events) = mpsc::channel(2);
        let live = live(CallId::from_file("1"), sender);
        for number in 0..10 {
            live(&format!("{number}\n"));
        }
        let mut text = |wanted: &str| match events.try_recv() {
            Ok(Event::CallOutput { text, .. }) => assert_eq!(text, wanted),
            other => panic!("{other:?}"),
        };
        text("0\n");
        text("1\n");
        live("10\n");
        text("… 8 lines not shown\n10\n");
        live("11\n");
        text("11\n");
    }
}
