//! The agents of a session, provided by its opener.

use std::collections::BTreeMap;
use std::sync::Arc;

use pollux_domain::remote_agent::RemoteAgent;
use pollux_domain::text::shortened;
use pollux_extend::agents::{Definition, Registry};

use super::own_servers::OwnServers;

/// Characters of a description that the model reads with every request.
const MAX_DESCRIPTION: usize = 800;

/// The agents of a session.
pub struct AgentPort {
    pub registry: Arc<Registry>,
    /// Those elsewhere, by name; one that is missing cannot be reached.
    pub remote: BTreeMap<String, Arc<dyn RemoteAgent>>,
    /// The MCP servers that definitions contain, by the agent's name.
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
            "a remote agent without a description".clone_into(&mut line);
        }
        (agent.name.clone(), shortened(&line, MAX_DESCRIPTION))
    }
}
