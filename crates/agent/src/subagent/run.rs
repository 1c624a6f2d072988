//! A sub-agent run: its goal, and the reduced events that others see.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pollux_domain::event::{
    Activity, ActivityError, ActivityKind, CallDecision, CallOutcome, Event, NoticeCode,
};
use pollux_domain::id::CallId;

use super::goal::Goal;
use crate::call::Ready;

/// A task that another agent gave.
pub(crate) struct SubagentRun {
    /// The call that gave it.
    pub(crate) call: CallId,
    pub(crate) agent: String,
    pub(crate) goal: Goal,
    /// Its time limit, not the user, cancels its calls.
    pub(crate) out_of_time: AtomicBool,
    /// Receives lines about what happens.
    pub(crate) live: Arc<dyn Fn(&str) + Send + Sync>,
}

impl SubagentRun {
    pub(crate) fn set_out_of_time(&self, is_over: bool) {
        self.out_of_time.store(is_over, Ordering::Relaxed);
    }

    pub(crate) fn is_out_of_time(&self) -> bool {
        self.out_of_time.load(Ordering::Relaxed)
    }

    fn activity(&self, what: ActivityKind) -> Event {
        let activity = Activity { call: self.call.clone(), agent: self.agent.clone(), what };
        if let Some(line) = activity.line() {
            (self.live)(&format!("{line}\n"));
        }
        Event::Activity(Arc::new(activity))
    }

    pub(crate) fn error(&self, message: String, cause: ActivityError) -> Event {
        self.activity(ActivityKind::Error { message, call: None, cause })
    }

    /// A call that the agent makes.
    pub(crate) fn call_started(&self, ready: &Ready) -> Event {
        let name = ready.call.name.clone();
        self.activity(ActivityKind::CallStarted {
            call: ready.call.id.clone(),
            display_name: ready.display_name().to_owned(),
            name,
            description: ready.description.clone(),
            args: ready.call.args.clone(),
        })
    }

    /// The events visible to others: requests are counted, text stays private.
    pub(crate) fn outward(&self, event: Event) -> Vec<Event> {
        match event {
            Event::RequestSent(_)
            | Event::RequestEnded(_)
            | Event::Waiting(_)
            | Event::HookRan(_)
            | Event::Activity(_)
            | Event::Budget(_)
            | Event::ApprovalWanted(_)
            | Event::ApprovalSettled { .. }
            | Event::ModeChanged { .. } => vec![event],
            // The footer shows the model of the conversation.
            Event::ModelFallback(fallback) => {
                vec![self.error(fallback.sentence(), ActivityError::Generic)]
            }
            Event::Thought(thought) if thought.subject.is_empty() => Vec::new(),
            Event::Thought(thought) => vec![self.activity(ActivityKind::Thought(thought.subject))],
            Event::AttemptDiscarded(discarded) => {
                vec![self.error(discarded.reason, ActivityError::Generic)]
            }
            Event::CallFinished(report) => {
                let cause = match (&report.outcome, report.decision) {
                    (CallOutcome::Succeeded, _) => None,
                    // A command that fails is an ordinary result, told with the end of its call.
                    (CallOutcome::Failed(failure), _) if failure.run.is_some() => None,
                    (CallOutcome::Failed(_), _) => Some(ActivityError::Generic),
                    (CallOutcome::Cancelled, Some(CallDecision::Reject)) => Some(ActivityError::Rejected),
                    (CallOutcome::Cancelled, _) => Some(ActivityError::Cancelled),
                };
                let mut events = vec![self.activity(ActivityKind::CallEnded(Arc::clone(&report)))];
                events.extend(cause.map(|cause| {
                    let call = Some((report.call.clone(), report.name.clone()));
                    self.activity(ActivityKind::Error { message: report.answer.clone(), call, cause })
                }));
                events
            }
            // These concern the caller's turn, which continues.
            Event::Notice { code: NoticeCode::LoopDetected | NoticeCode::Halted, message, .. } => {
                vec![self.error(message, ActivityError::Generic)]
            }
            Event::Notice { severity, code, message } => {
                vec![Event::Notice { severity, code, message: format!("{}: {message}", self.agent) }]
            }
            Event::SessionReady { .. }
            | Event::ModelChanged(_)
            | Event::Acknowledged { .. }
            | Event::QueueChanged(_)
            | Event::FrontsChanged(_)
            | Event::PromptAccepted { .. }
            | Event::Steered { .. }
            | Event::StepBegan { .. }
            | Event::CallProgress { .. }
            | Event::Text(_)
            | Event::StepCommitted
            | Event::Titled(_)
            | Event::CallRequested(_)
            | Event::CallStarted { .. }
            | Event::CallOutput { .. }
            | Event::CallScreen { .. }
            | Event::ShellStarted { .. }
            | Event::ShellEnded(_)
            | Event::BackgroundChanged(_)
            | Event::EditorChanged(_)
            | Event::Compressing { .. }
            | Event::Compressed(_)
            | Event::Rewound { .. }
            | Event::TurnEnded(_) => Vec::new(),
        }
    }
}
