//! `pollux agents …` as it was typed.

use super::Scope;

/// What to do with agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AgentsCommand {
    List {
        json: bool,
    },
    Show {
        name: String,
        json: bool,
    },
    Enable {
        name: String,
        scope: Scope,
    },
    Disable {
        name: String,
        scope: Scope,
    },
    /// Agree to an agent of the project.
    Acknowledge {
        name: String,
    },
}
