//! The stages of a tool call: requested, prepared and finished. `calls.rs` runs them.

use std::sync::Arc;
use std::time::Duration;

use pollux_domain::JsonObject;
use pollux_domain::event::{CallDecision, CallRequest, Location, Permit};
use pollux_domain::id::CallId;
use pollux_domain::tool::{
    Effect, FileDiff, Invocation, Tool, ToolErrorKind, ToolFailure, ToolKind, ToolOutcome, ToolSpec,
};

/// A call as requested by the model.
#[derive(Debug, Clone)]
pub(crate) struct RequestedCall {
    pub(crate) id: CallId,
    pub(crate) name: String,
    pub(crate) args: JsonObject,
}

/// A prepared call that may run, or has already failed.
pub(crate) struct Ready {
    pub(crate) call: RequestedCall,
    pub(crate) spec: Option<Arc<ToolSpec>>,
    pub(crate) tool: Option<Arc<dyn Tool>>,
    /// The normalised arguments.
    pub(crate) args: JsonObject,
    pub(crate) description: String,
    pub(crate) effect: Effect,
    /// The affected files and folders.
    pub(crate) paths: Vec<Location>,
    pub(crate) decision: Option<CallDecision>,
    pub(crate) permit: Option<Permit>,
    /// The tool requires approval by itself.
    pub(crate) must_ask: bool,
    /// Whether it certainly changes no files.
    pub(crate) reads_only: bool,
    /// For the user of a headless run: why it was denied, and what would allow it.
    pub(crate) denial: Option<String>,
    /// Why arguments edited by the user are invalid.
    pub(crate) rejected_edit: Option<String>,
    /// What hooks did to it.
    pub(crate) marks: Marks,
    pub(crate) run: Result<Box<dyn Invocation>, Refusal>,
}

/// Why a call does not run.
pub(crate) enum Refusal {
    Failure(ToolFailure),
    /// The user declined; the text goes to the model.
    ByPerson(String),
}

/// What hooks did to a call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Marks {
    /// A hook requires approval regardless of the rules, with its reason.
    pub(crate) asks: Option<String>,
    /// A hook changed the arguments.
    pub(crate) changed: bool,
    /// The tool that the model called, if a hook requested this one instead.
    pub(crate) original: Option<String>,
}

/// A finished call.
pub(crate) struct Finished {
    pub(crate) call: RequestedCall,
    pub(crate) spec: Option<Arc<ToolSpec>>,
    pub(crate) tool: Option<Arc<dyn Tool>>,
    /// The normalised arguments.
    pub(crate) args: JsonObject,
    pub(crate) effect: Effect,
    /// The affected files and folders.
    pub(crate) paths: Vec<Location>,
    pub(crate) decision: Option<CallDecision>,
    pub(crate) permit: Option<Permit>,
    /// Why it was denied, as in [`Ready`].
    pub(crate) denial: Option<String>,
    pub(crate) outcome: ToolOutcome,
    pub(crate) duration: Duration,
    /// The outcome comes from the tool itself.
    pub(crate) ran: bool,
    /// Requested by a hook, on behalf of the model's call.
    pub(crate) is_tail: bool,
    /// Text that hooks add for the model.
    pub(crate) appended: String,
}

impl Ready {
    /// Makes the call fail instead of running.
    pub(crate) fn refuse(&mut self, kind: ToolErrorKind, message: &str) {
        self.fail(ToolFailure { kind, message: message.to_owned(), display: None });
    }

    pub(crate) fn fail(&mut self, failure: ToolFailure) {
        self.run = Err(Refusal::Failure(failure));
    }

    /// Declines the call for the user. An earlier failure is kept.
    pub(crate) fn refuse_by_person(&mut self, message: &str) {
        if self.run.is_ok() {
            self.run = Err(Refusal::ByPerson(message.to_owned()));
        }
    }

    pub(crate) fn may_run(&self) -> bool {
        self.run.is_ok()
    }

    /// The change it would make to a file, or why it would fail.
    pub(crate) async fn preview(&self) -> Result<Option<FileDiff>, ToolFailure> {
        match &self.run {
            Ok(invocation) => invocation.preview().await,
            Err(_) => Ok(None),
        }
    }

    /// The call as reported to front ends.
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

    /// The tool's display name.
    pub(crate) fn display_name(&self) -> &str {
        self.spec.as_ref().map_or(&self.call.name, |spec| &spec.display_name)
    }

    /// Additional information for the approval, if the description is too short.
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
