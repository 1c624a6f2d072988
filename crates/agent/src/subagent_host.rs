//! What a session shares with its sub-agents.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use pollux_config::groups::{Durability, Model};
use pollux_domain::content::Content;
use pollux_domain::event::Event;
use pollux_domain::sync::Locked;
use pollux_domain::tool::{Tool, ToolSource};
use pollux_extend::context::ContextFiles;
use tokio::sync::mpsc;

use crate::authority::Authority;
use crate::conversation::Prompted;
use crate::prompt::PromptInputs;
use crate::services::Services;
use crate::subagent::port::AgentPort;

/// The session that sub-agents work for.
pub(crate) struct Host {
    pub(crate) port: AgentPort,
    /// Where their records go.
    pub(crate) records: Option<PathBuf>,
    /// What those records survive.
    pub(crate) durability: Durability,
    pub(crate) services: Arc<Services>,
    pub(crate) authority: Arc<Authority>,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) late: Option<Arc<dyn ToolSource>>,
    pub(crate) briefing: Briefing,
    pub(crate) events: mpsc::WeakSender<Event>,
    pub(crate) current: Mutex<Current>,
}

/// The initial context of every sub-agent.
pub(crate) struct Briefing {
    pub(crate) prompt: PromptInputs,
    pub(crate) first_turn: Content,
    pub(crate) context: ContextFiles,
}

/// State that changes during the session.
pub(crate) struct Current {
    /// The model of the conversation; a person may change it.
    model: Model,
    /// The prompt that is worked on.
    prompted: Prompted,
}

impl Host {
    /// The state of a session that begins.
    pub(crate) fn current(model: Model) -> Mutex<Current> {
        Mutex::new(Current { model, prompted: Prompted::default() })
    }

    pub(crate) fn set_prompted(&self, prompted: Prompted) {
        self.current.locked().prompted = prompted;
    }

    /// How the conversation's model is asked now.
    pub(crate) fn model(&self) -> Model {
        self.current.locked().model.clone()
    }

    /// Another model from now on.
    pub(crate) fn set_model(&self, name: &str) {
        self.current.locked().model.name = name.to_owned();
    }

    pub(crate) fn prompted(&self) -> Prompted {
        self.current.locked().prompted.clone()
    }
}
