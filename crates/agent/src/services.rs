//! The ports and settings that a session shares with its sub-agents.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use pollux_config::groups::Tools;
use pollux_domain::budget::SessionBudget;
use pollux_domain::changes::Changes;
use pollux_domain::model::ModelClient;
use pollux_domain::sync::Locked;
use pollux_domain::terminals::Terminals;
use pollux_domain::time::Clock;

use crate::consoles::Consoles;
use crate::hooked::Hooked;

/// Ports and settings that do not change during the session.
#[derive(Clone)]
pub(crate) struct Services {
    pub(crate) client: Arc<dyn ModelClient>,
    /// Counts what the client's requests cost; without it, nothing is limited.
    pub(crate) budget: Option<Arc<dyn SessionBudget>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tool_settings: Tools,
    /// The project's state folder, for saved outputs.
    pub(crate) temp_dir: PathBuf,
    /// Records file changes; without it, nothing can be rewound.
    pub(crate) changes: Option<Arc<dyn Changes>>,
    /// Runs user shell commands.
    pub(crate) terminals: Option<Arc<dyn Terminals>>,
    /// The terminals of running commands.
    pub(crate) consoles: Arc<Consoles>,
    pub(crate) hooked: Arc<Hooked>,
    pub(crate) call_ids: CallIds,
}

/// Every call's id so far, sub-agents' included: an id names one call and one file of saved output.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallIds(Arc<Mutex<HashSet<String>>>);

impl CallIds {
    /// Claims an id; false if it is in use.
    pub(crate) fn claim(&self, id: &str) -> bool {
        self.0.locked().insert(id.to_owned())
    }
}
