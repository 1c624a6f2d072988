//! Creates the session of a sub-agent.

use std::sync::Arc;

use pollux_config::groups::Model;
use pollux_domain::JsonObject;
use pollux_domain::content::{Content, Part, Role};
use pollux_domain::id::SessionId;
use pollux_domain::tool::{Tool, ToolSource};
use pollux_session::Recorder;

use crate::authority::Authority;
use crate::conversation::Conversation;
use crate::emitter::Emitter;
use crate::history::History;
use crate::prompt::{Profile, PromptInputs};
use crate::services::Services;
use crate::session::{ModelState, Session};
use crate::subagent_host::Host;
use crate::toolbox::Toolbox;

/// Characters of an agent's words that are passed on when it did not come to an end.
const MAX_FINDINGS: usize = 8_000;

/// In what a sub-agent's session differs from the one it works for.
pub(super) struct SubagentSpec {
    pub(super) id: SessionId,
    pub(super) authority: Arc<Authority>,
    pub(super) model: Model,
    pub(super) generation: JsonObject,
    pub(super) tools: Vec<Arc<dyn Tool>>,
    /// Tools of servers that are its own.
    pub(super) late_tools: Option<Arc<dyn ToolSource>>,
    pub(super) prompt: PromptInputs,
    pub(super) recorder: Recorder,
    pub(super) emitter: Emitter,
}

/// A session for a sub-agent of the host's. Rules, answers, hooks and what is kept of changes are shared.
pub(super) fn new_session(host: &Host, spec: SubagentSpec) -> Session {
    let toolbox = Toolbox::of_subagent(spec.tools, spec.late_tools, &spec.authority.approvals);
    let history = History::new(host.briefing.first_turn.clone(), []);
    let profile = Profile::of(&host.services.client.resolve(&spec.model.name));
    let mut conversation = Conversation::new(history, PromptInputs { profile, ..spec.prompt }, &toolbox);
    conversation.prompted = host.prompted();
    Session {
        id: spec.id,
        interactive: false,
        model_settings: spec.model,
        models: ModelState { generation: spec.generation, ..ModelState::default() },
        services: Arc::new(services(host)),
        authority: spec.authority,
        toolbox,
        conversation,
        editor: None,
        stopped_by_person: false,
        context: host.briefing.context.clone(),
        observer: None,
        host: None,
        recorder: spec.recorder,
        emitter: spec.emitter,
    }
}

/// The host's services, with a client that is limited to the sub-agent's share of the budget.
fn services(host: &Host) -> Services {
    let client = match &host.services.budget {
        Some(budget) => budget.for_subagent(&host.services.client),
        None => Arc::clone(&host.services.client),
    };
    Services { client, ..(*host.services).clone() }
}

/// Allows one more request, and in it one tool.
pub(super) fn allow_last_turn(session: &mut Session, tool: &str) {
    session.model_settings.max_session_turns = Some(session.conversation.counters.requests.saturating_add(1));
    session.toolbox.keep_only(tool, &session.authority.approvals);
    session.conversation.instruct(&session.toolbox);
}

/// What the model said so far, after the examples of the agent's definition; of much, the end.
pub(super) fn findings(history: &History, examples: &[Content]) -> String {
    let entries = history.entries().iter().skip(1).map(|entry| &*entry.content);
    // A summary may have replaced the examples.
    let own = entries.enumerate().skip_while(|(index, content)| examples.get(*index) == Some(content));
    let replies = own.map(|(_, content)| content);
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
pub(super) fn last_words(history: &History) -> String {
    let last = history.entries().last().filter(|entry| entry.content.role == Role::Model);
    last.map(|entry| words(&entry.content)).unwrap_or_default()
}

fn words(content: &Content) -> String {
    let text: String = content.parts.iter().filter_map(Part::spoken_text).collect();
    text.trim().to_owned()
}
