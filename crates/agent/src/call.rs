//! A call on its way: as the model asked for it, looked at, and over. Running calls is the matter of `calls.rs`.

use std::sync::Arc;
use std::time::Duration;

use pollux_domain::JsonObject;
use pollux_domain::event::{CallDecision, CallRequest, Location};
use pollux_domain::id::CallId;
use pollux_domain::tool::{
    Effect, FileDiff, Invocation, Tool, ToolErrorKind, ToolFailure, ToolKind, ToolOutcome, ToolSpec,
};

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
    pub(crate) tool: Option<Arc<dyn Tool>>,
    /// The arguments as the tool takes them.
    pub(crate) args: JsonObject,
    pub(crate) description: String,
    pub(crate) effect: Effect,
    /// The files and folders that it is about.
    pub(crate) paths: Vec<Location>,
    pub(crate) decision: Option<CallDecision>,
    /// The tool itself has to ask the person.
    pub(crate) must_ask: bool,
    /// Whether it is certain that it changes no file.
    pub(crate) reads_only: bool,
    /// Why arguments that a person changed could not be used.
    pub(crate) rejected_edit: Option<String>,
    /// What hooks did to it.
    pub(crate) marks: Marks,
    pub(crate) run: Result<Box<dyn Invocation>, Refusal>,
}

/// Why a call does not run.
pub(crate) enum Refusal {
    Failure(ToolFailure),
    /// A person does not want it; the text goes to the model.
    ByPerson(String),
}

/// What hooks did to a call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Marks {
    /// Somebody must be asked, whatever the rules say; why, as far as the hook says.
    pub(crate) asks: Option<String>,
    /// The arguments are a hook's.
    pub(crate) changed: bool,
    /// The tool that the model called, when a hook asked for this one.
    pub(crate) original: Option<String>,
}

/// A call that is over.
pub(crate) struct Finished {
    pub(crate) call: Call,
    pub(crate) spec: Option<Arc<ToolSpec>>,
    pub(crate) tool: Option<Arc<dyn Tool>>,
    /// The arguments as the tool took them.
    pub(crate) args: JsonObject,
    pub(crate) effect: Effect,
    /// The files and folders that it is about.
    pub(crate) paths: Vec<Location>,
    pub(crate) decision: Option<CallDecision>,
    pub(crate) outcome: ToolOutcome,
    pub(crate) duration: Duration,
    /// The tool itself said how it ended.
    pub(crate) ran: bool,
    /// A hook asked for it; the call is the one that the model made.
    pub(crate) is_tail: bool,
    /// What hooks add to what the model reads.
    pub(crate) appended: String,
}

impl Ready {
    /// Makes the call fail instead of running.
    pub(crate) fn refuse(&mut self, kind: ToolErrorKind, message: &str) {
        self.run = Err(Refusal::Failure(ToolFailure { kind, message: message.to_owned(), display: None }));
    }

    /// Keeps the call from running because a person does not want it. What has failed already stays so.
    pub(crate) fn refuse_by_person(&mut self, message: &str) {
        if self.run.is_ok() {
            self.run = Err(Refusal::ByPerson(message.to_owned()));
        }
    }

    pub(crate) fn may_run(&self) -> bool {
        self.run.is_ok()
    }

    /// The change it would make to a file.
    pub(crate) async fn preview(&self) -> Option<FileDiff> {
        self.run.as_ref().ok()?.preview().await
    }

    /// The call as front ends learn of it.
    pub(crate) fn request(&self) -> CallRequest {
        CallRequest {
            call: self.call.id.clone(),
            name: self.call.name.clone(),
            args: self.call.args.clone(),
            title: self.description.clone(),
            display_name: self.display_name().to_owned(),
            kind: self.spec.as_ref().map_or(ToolKind::Other, |spec| spec.kind),
            server: self.tool.as_ref().and_then(|tool| tool.server()).map(str::to_owned),
            paths: self.paths.clone(),
        }
    }

    /// The tool's name for people.
    pub(crate) fn display_name(&self) -> &str {
        self.spec.as_ref().map_or(&self.call.name, |spec| &spec.display_name)
    }

    /// What a person should know before agreeing to it, if its description is too short for that.
    pub(crate) fn consent(&self) -> Option<String> {
        self.run.as_ref().ok()?.consent()
    }
}

impl Finished {
    /// Whether it ran, and was a sub-agent.
    pub(crate) fn ran_as_agent(&self) -> bool {
        self.decision == Some(CallDecision::Accept)
            && self.spec.as_ref().is_some_and(|spec| spec.kind == ToolKind::Agent)
    }
}
