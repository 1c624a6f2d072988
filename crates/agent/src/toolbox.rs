//! The tools of a session: which exist, which the model sees, and the error for a wrong name.

mod offer;

use std::collections::HashSet;
use std::sync::Arc;

use pollux_domain::spelling::distance;
use pollux_domain::tool::{Tool, ToolErrorKind, ToolFailure, ToolKind, ToolSource, ToolSpec};
use pollux_policy::{canonical_tool_name, qualified_tool_name};
use tokio_util::sync::CancellationToken;

use crate::approval::Approvals;

pub(crate) use offer::ToolOffer;

/// Tools that can be called for compatibility but are not declared, as in upstream.
pub(crate) const UNDECLARED: [&str; 2] = ["read_many_files", "get_internal_docs"];

/// The tools of one session.
#[derive(Clone)]
pub(crate) struct Toolbox {
    all: Vec<Arc<dyn Tool>>,
    /// How many of `all` are the session's own; those after them came from `late`.
    own: usize,
    late: Option<Arc<dyn ToolSource>>,
    /// Which of its states `late` was last seen in.
    version: u64,
    /// The tools currently visible to the model.
    tools: Vec<Arc<dyn Tool>>,
    declared: Arc<[Arc<ToolSpec>]>,
    /// Tools hidden because a headless run cannot approve their calls.
    for_approval: HashSet<String>,
    trusted: bool,
    allows_yolo: bool,
    /// Whose tools were chosen for it: what is there is declared, and nothing else exists.
    is_subagents: bool,
    /// How much of it the model is offered.
    offer: ToolOffer,
}

impl Toolbox {
    pub(crate) fn new(
        all: Vec<Arc<dyn Tool>>,
        late: Option<Arc<dyn ToolSource>>,
        approvals: &Approvals,
    ) -> Self {
        let own = all.len();
        let (tools, declared) = (Vec::new(), Arc::new([]) as Arc<[Arc<ToolSpec>]>);
        let mut toolbox = Self {
            all,
            own,
            late,
            version: 0,
            tools,
            declared,
            for_approval: HashSet::new(),
            trusted: approvals.trusted,
            allows_yolo: approvals.engine().allows_yolo(),
            is_subagents: false,
            offer: ToolOffer::default(),
        };
        toolbox.follow();
        toolbox.look_again(approvals);
        toolbox
    }

    /// The tools of a sub-agent, in this order, and those of its own servers.
    pub(crate) fn of_subagent(
        all: Vec<Arc<dyn Tool>>,
        late: Option<Arc<dyn ToolSource>>,
        approvals: &Approvals,
    ) -> Self {
        let mut toolbox = Self::new(all, late, approvals);
        toolbox.is_subagents = true;
        toolbox.look_again(approvals);
        toolbox
    }

    /// Keeps only the tool of this name.
    pub(crate) fn keep_only(&mut self, name: &str, approvals: &Approvals) {
        self.late = None;
        self.all.retain(|tool| tool.spec().name == name);
        self.own = self.all.len();
        self.look_again(approvals);
    }

    /// Updates dynamic tools; returns whether anything changed. What the model
    /// sees follows with [`Self::look_again`].
    pub(crate) fn follow(&mut self) -> bool {
        let Some(late) = &self.late else { return false };
        let version = late.version();
        if version == self.version {
            return false;
        }
        self.version = version;
        self.all.truncate(self.own);
        // A new tool cannot take the name of an existing one.
        let mut names: HashSet<String> = self.all.iter().map(|tool| tool.spec().name.clone()).collect();
        self.all.extend(late.tools().into_iter().filter(|tool| names.insert(tool.spec().name.clone())));
        true
    }

    /// The description of dynamic tools for the model.
    pub(crate) fn context(&self) -> Option<String> {
        self.late.as_ref()?.context()
    }

    /// Whether an unknown name may become available.
    pub(crate) fn may_still_come(&self, name: &str) -> bool {
        self.find(name).is_err() && (self.late.is_some() || self.named(name).is_some())
    }

    /// Waits for a tool that is still being loaded.
    pub(crate) async fn arrival(&self, name: &str, cancel: &CancellationToken) {
        match (self.named(name), &self.late) {
            (Some(tool), _) => tool.available(cancel).await,
            // A tool of the session's own is kept from the model; waiting does not change that.
            (None, Some(late)) if !self.is_own(name) => late.arrival(name, cancel).await,
            (None, _) => {}
        }
    }

    /// Whether a name means a tool of the session's own, seen or not.
    fn is_own(&self, name: &str) -> bool {
        self.all.iter().take(self.own).any(|tool| is_called(&**tool, name))
    }

    /// Offers more or less, as the model can use it; returns whether that changed. What the model sees follows with
    /// [`Self::look_again`].
    pub(crate) fn offer(&mut self, offer: ToolOffer) -> bool {
        std::mem::replace(&mut self.offer, offer) != offer
    }

    /// Keeps what the approvals let the model see; another mode shows other tools.
    pub(crate) fn look_again(&mut self, approvals: &Approvals) {
        let (shown, hidden): (Vec<_>, Vec<_>) =
            self.all.iter().cloned().partition(|tool| approvals.exposes(&**tool));
        // What is not offered cannot be called either, whatever the model makes up.
        self.tools =
            shown.into_iter().filter(|tool| self.offer.includes(tool.spec(), self.is_subagents)).collect();
        let for_approval = hidden.iter().filter(|tool| approvals.lacks_person(&***tool));
        self.for_approval = for_approval.map(|tool| tool.spec().name.clone()).collect();
        let mut names = HashSet::new();
        let specs = self.tools.iter().map(|tool| tool.spec());
        self.declared = specs
            .filter(|spec| self.is_subagents || !UNDECLARED.contains(&spec.name.as_str()))
            // The forms of a tool that older conversations call share its name.
            .filter(|spec| names.insert(spec.name.as_str()))
            .filter_map(|spec| self.offer.of(spec, self.is_subagents))
            .collect();
    }

    /// What is declared to the model.
    pub(crate) fn declared(&self) -> Arc<[Arc<ToolSpec>]> {
        Arc::clone(&self.declared)
    }

    /// The current tool definitions of an MCP server, by name.
    pub(crate) fn definitions(&self, server: &str) -> Vec<(String, String)> {
        let own = self.all.iter().filter(|tool| tool.server() == Some(server));
        own.filter_map(|tool| Some((tool.spec().name.clone(), tool.definition()?.to_owned()))).collect()
    }

    /// System prompt sections of the visible tools.
    pub(crate) fn sections(&self) -> Option<String> {
        let is_declared =
            |tool: &&Arc<dyn Tool>| self.declared.iter().any(|spec| spec.name == tool.spec().name);
        let sections = self.tools.iter().filter(is_declared).filter_map(|tool| tool.prompt_section());
        let texts: Vec<String> = sections.collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }

    /// The tool with this name or alias, or the error for the model.
    pub(crate) fn find(&self, name: &str) -> Result<&Arc<dyn Tool>, ToolFailure> {
        let tool = self.named(name).ok_or_else(|| self.unknown(name))?;
        match tool.unavailable() {
            None => Ok(tool),
            Some(why) => Err(failure(ToolErrorKind::McpToolError, why)),
        }
    }

    /// The tool that the model means, of those it sees.
    fn named(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        // A tool's own name comes before an alias for another.
        let named = |wanted: &str| self.tools.iter().find(|tool| tool.spec().name == wanted);
        named(name)
            .or_else(|| named(canonical_tool_name(name)))
            // No server gets the calls of a tool that is kept from the model.
            .or_else(|| self.formerly(name).filter(|_| !self.is_own(name)))
            .or_else(|| self.tools.iter().find(|tool| tool.answers_to(name)))
    }

    /// The one server's tool that older conversations call by its bare name or as `server__tool`.
    fn formerly(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        let mut meant = self.tools.iter().filter(|tool| {
            let Some(server) = tool.server() else { return false };
            let full = tool.spec().name.as_str();
            let called = name.split_once("__").filter(|(given, _)| *given == server);
            full == qualified_tool_name(server, called.map_or(name, |(_, bare)| bare))
        });
        meant.next().filter(|_| meant.next().is_none())
    }

    /// Whether the tool exists, but rules or settings keep it from the model.
    pub(crate) fn hides(&self, name: &str) -> bool {
        self.named(name).is_none() && self.all.iter().any(|tool| is_called(&**tool, name))
    }

    fn unknown(&self, name: &str) -> ToolFailure {
        if let Some(tool) = self.all.iter().find(|tool| is_called(&***tool, name)) {
            return self.hidden(&**tool, name);
        }
        if self.is_subagents {
            let message = format!("Unauthorized tool call: '{name}' is not available to this agent.");
            return failure(ToolErrorKind::ToolNotRegistered, message);
        }
        if let Some(why) = self.late.as_ref().and_then(|late| late.absence(name)) {
            return failure(ToolErrorKind::ToolNotRegistered, why);
        }
        let mut near: Vec<(usize, &str)> =
            self.declared.iter().map(|spec| (distance(name, &spec.name), spec.name.as_str())).collect();
        near.sort();
        let near: Vec<String> = near.iter().take(3).map(|(_, name)| format!("\"{name}\"")).collect();
        let message = match near.as_slice() {
            [] => format!("Tool \"{name}\" not found."),
            [only] => format!("Tool \"{name}\" not found. Did you mean {only}?"),
            several => format!("Tool \"{name}\" not found. Did you mean one of: {}?", several.join(", ")),
        };
        failure(ToolErrorKind::ToolNotRegistered, message)
    }

    /// The error for a tool that exists but is not available.
    fn hidden(&self, tool: &dyn Tool, name: &str) -> ToolFailure {
        let spec = tool.spec();
        let message = if self.for_approval.contains(&spec.name) {
            let mode = match spec.kind {
                ToolKind::Edit => "--approval-mode auto_edit, ",
                _ if self.allows_yolo => "--approval-mode yolo, ",
                _ => "",
            };
            format!(
                "Tool \"{name}\" not found among the allowed tools: it requires approval, which a headless run \
                 cannot ask for. To allow it, use {mode}--allowed-tools {} or a policy rule{}.",
                spec.name,
                if self.trusted { "" } else { ", in a trusted folder or with --skip-trust" },
            )
        } else if !self.offer.includes(spec, self.is_subagents) {
            format!("Tool \"{name}\" is not available to this model.")
        } else {
            format!(
                "Tool \"{name}\" is not available: settings, a policy rule or the approval mode exclude it."
            )
        };
        failure(ToolErrorKind::ToolNotRegistered, message)
    }
}

fn failure(kind: ToolErrorKind, message: String) -> ToolFailure {
    ToolFailure { kind, message, display: None }
}

/// Whether a name refers to this tool, visible or not.
fn is_called(tool: &dyn Tool, name: &str) -> bool {
    let own = tool.spec().name.as_str();
    own == name || own == canonical_tool_name(name) || tool.answers_to(name)
}

#[cfg(test)]
mod tests;
