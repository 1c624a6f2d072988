//! A session that is a sub-agent's.

use std::sync::Arc;

use pollux_config::groups::Model;
use pollux_domain::JsonObject;
use pollux_domain::content::{Content, Part, Role};
use pollux_domain::event::Event;
use pollux_domain::id::SessionId;
use pollux_domain::tool::{Tool, ToolSource};
use pollux_session::Recorder;
use tokio::sync::mpsc;

use super::{Counters, Prompted, Session, instructions};
use crate::desk::Desk;
use crate::history::History;
use crate::hooked::Dialogue;
use crate::prompt::PromptInputs;
use crate::subagent::{Errand, Host};
use crate::toolbox::Toolbox;

/// Characters of an agent's words that are passed on when it did not come to an end.
const MAX_FINDINGS: usize = 8_000;

/// In what a sub-agent's session differs from the one it works for.
pub(crate) struct ErrandSpec {
    pub(crate) id: SessionId,
    pub(crate) errand: Arc<Errand>,
    /// The agent's name, for policies.
    pub(crate) agent: String,
    pub(crate) model: Model,
    pub(crate) generation: JsonObject,
    pub(crate) desk: Arc<Desk>,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    /// Tools of servers that are its own.
    pub(crate) late_tools: Option<Arc<dyn ToolSource>>,
    pub(crate) prompt: PromptInputs,
    pub(crate) recorder: Recorder,
    pub(crate) prompted: Prompted,
    pub(crate) events: mpsc::Sender<Event>,
}

impl Session {
    /// A session for a sub-agent of the host's. Rules, answers, hooks and what is kept of changes are shared.
    pub(crate) fn for_errand(host: &Host, spec: ErrandSpec) -> Self {
        let approvals = Arc::new(host.approvals.for_subagent(&spec.agent));
        let toolbox = Toolbox::of_subagent(spec.tools, spec.late_tools, &approvals);
        let (system, overhead) = instructions(&spec.prompt, &toolbox);
        let mut history = History::new(host.first_turn.clone(), []);
        history.describe_tools(toolbox.context());
        Self {
            id: spec.id,
            interactive: false,
            model_settings: spec.model,
            tool_settings: host.tool_settings.clone(),
            temp_dir: host.temp_dir.clone(),
            approvals,
            reach: host.reach.clone(),
            checkers: host.checkers.clone(),
            changes: host.changes.clone(),
            witness: None,
            prompted: spec.prompted,
            host: None,
            errand: Some(spec.errand),
            generation: spec.generation,
            desk: spec.desk,
            hooked: Arc::clone(&host.hooked),
            dialogue: Dialogue::default(),
            stopped_by_person: false,
            toolbox,
            prompt: spec.prompt,
            system,
            overhead,
            history,
            client: Arc::clone(&host.client),
            clock: Arc::clone(&host.clock),
            recorder: spec.recorder,
            context: host.context.clone(),
            events: spec.events,
            counters: Counters::default(),
            call_ids: host.call_ids.clone(),
            terminals: None,
            roots: Vec::new(),
        }
    }

    /// Allows one more request, and in it one tool.
    pub(crate) fn allow_last_turn(&mut self, tool: &str) {
        self.model_settings.max_session_turns = Some(self.counters.requests.saturating_add(1));
        self.toolbox.keep_only(tool, &self.approvals);
        (self.system, self.overhead) = instructions(&self.prompt, &self.toolbox);
    }

    /// What the model said so far; of much, the end.
    pub(crate) fn findings(&self) -> String {
        let replies = self.history.entries().iter().skip(1).map(|entry| &*entry.content);
        let texts: Vec<String> = replies
            .filter(|content| content.role == Role::Model)
            .map(words)
            .filter(|text| !text.is_empty())
            .collect();
        let whole = texts.join("\n\n");
        let length = whole.chars().count();
        if length <= MAX_FINDINGS {
            return whole;
        }
        let end: String = whole.chars().skip(length - MAX_FINDINGS).collect();
        format!("… {end}")
    }

    /// What the model said last, if the conversation ends with that.
    pub(crate) fn last_words(&self) -> String {
        let last = self.history.entries().last().filter(|entry| entry.content.role == Role::Model);
        last.map(|entry| words(&entry.content)).unwrap_or_default()
    }

    pub(crate) fn requests(&self) -> u32 {
        self.counters.requests
    }
}

fn words(content: &Content) -> String {
    let text: String = content.parts.iter().filter_map(Part::spoken_text).collect();
    text.trim().to_owned()
}
