//! Agents that this one asks for help.
//!
//! A sub-agent is a [`Session`](crate::session::Session) of its own: the same loop with another prompt, other tools,
//! another record and another end. `executor.rs` runs one, `errand.rs` is what makes a session a sub-agent's, and
//! `invoke_agent.rs` is the tool that the model calls.

mod complete_task;
mod errand;
mod executor;
mod goal;
mod invoke_agent;
mod own_servers;
mod remote;
mod toolset;
mod words;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use pollux_config::groups::{Model, Tools};
use pollux_domain::changes::Changes;
use pollux_domain::content::Content;
use pollux_domain::event::Event;
use pollux_domain::model::ModelClient;
use pollux_domain::remote_agent::RemoteAgent;
use pollux_domain::sync::Locked;
use pollux_domain::text::shortened;
use pollux_domain::time::Clock;
use pollux_domain::tool::{Tool, ToolSource};
use pollux_extend::agents::{Definition, Registry};
use pollux_extend::context::ContextFiles;
use pollux_policy::checker::CheckerPort;
use tokio::sync::mpsc;

use crate::approval::Approvals;
use crate::desk::Desk;
use crate::hooked::Hooked;
use crate::permission::GrantReach;
use crate::prompt::PromptInputs;
use crate::session::{CallIds, Prompted};

pub(crate) use errand::Errand;
pub use own_servers::{OwnServers, StartedServers};

/// Characters of a description that the model reads with every request.
const MAX_DESCRIPTION: usize = 800;

/// The agents of a session.
pub struct AgentPort {
    pub registry: Arc<Registry>,
    /// Those elsewhere, by name; one that is missing cannot be reached.
    pub remote: BTreeMap<String, Arc<dyn RemoteAgent>>,
    /// The MCP servers that definitions bring along, by the agent's name.
    pub servers: BTreeMap<String, Arc<dyn OwnServers>>,
    /// What agents elsewhere say of themselves, by name, as far as it is known.
    pub about: BTreeMap<String, String>,
    /// The program's version, for prompts that name it.
    pub version: String,
    /// The project, for the records of sub-agents.
    pub project_hash: String,
}

impl AgentPort {
    /// An agent's name and what it is for, in one line.
    pub(crate) fn introduction(&self, agent: &Definition) -> (String, String) {
        let about = self.about.get(&agent.name).map_or("", String::as_str);
        let whole = format!("{} {about}", agent.description);
        let mut line = whole.split_whitespace().collect::<Vec<_>>().join(" ");
        if line.is_empty() {
            "an agent elsewhere that says nothing about itself".clone_into(&mut line);
        }
        (agent.name.clone(), shortened(&line, MAX_DESCRIPTION))
    }
}

/// Why an agent ended; the words are upstream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminateMode {
    Goal,
    Timeout,
    MaxTurns,
    Aborted,
    Error,
    NoCompleteTaskCall,
}

impl TerminateMode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Goal => "GOAL",
            Self::Timeout => "TIMEOUT",
            Self::MaxTurns => "MAX_TURNS",
            Self::Aborted => "ABORTED",
            Self::Error => "ERROR",
            Self::NoCompleteTaskCall => "ERROR_NO_COMPLETE_TASK_CALL",
        }
    }
}

/// What a session shares with the agents that it asks.
pub(crate) struct Host {
    pub(crate) port: AgentPort,
    /// Where their records go.
    pub(crate) records: Option<PathBuf>,
    pub(crate) client: Arc<dyn ModelClient>,
    /// The model of the conversation; a person may change it.
    pub(crate) model: Mutex<Model>,
    pub(crate) tool_settings: Tools,
    pub(crate) temp_dir: PathBuf,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) reach: GrantReach,
    pub(crate) checkers: Option<Arc<dyn CheckerPort>>,
    pub(crate) changes: Option<Arc<dyn Changes>>,
    pub(crate) desk: Arc<Desk>,
    pub(crate) hooked: Arc<Hooked>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) late: Option<Arc<dyn ToolSource>>,
    pub(crate) prompt: PromptInputs,
    pub(crate) first_turn: Content,
    pub(crate) context: ContextFiles,
    pub(crate) events: mpsc::WeakSender<Event>,
    pub(crate) call_ids: CallIds,
    /// The prompt that is worked on.
    pub(crate) prompted: Mutex<Prompted>,
}

impl Host {
    pub(crate) fn set_prompted(&self, prompted: Prompted) {
        *self.prompted.locked() = prompted;
    }

    /// How the conversation's model is asked now.
    pub(crate) fn model(&self) -> Model {
        self.model.locked().clone()
    }

    /// Another model from now on.
    pub(crate) fn set_model(&self, name: &str) {
        self.model.locked().name = name.to_owned();
    }

    fn prompted(&self) -> Prompted {
        self.prompted.locked().clone()
    }
}

/// The tool that asks agents, first in its present form, then as older conversations call it. None without agents.
pub(crate) fn tools(host: &Arc<Host>) -> Vec<Arc<dyn Tool>> {
    invoke_agent::forms(host)
}
