//! A model that a project names and that is not used.

use pollux_domain::terminal_text::one_line;

/// Where settings change the models of sub-agents.
pub(super) const OVERRIDES: &str = "agents.overrides";

/// A model that the project names but that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectModel {
    pub model: String,
    /// The provider's id and name.
    pub provider: String,
    pub provider_name: String,
    /// The settings key or variable that names it.
    pub key: String,
    /// Whether the user can allow it, and has not decided yet.
    pub is_open: bool,
    pub(super) reason: &'static str,
}

impl ProjectModel {
    /// Whether it is the model of a sub-agent.
    pub fn is_of_agent(&self) -> bool {
        self.key.starts_with(OVERRIDES)
    }

    /// Says that it is ignored, and why.
    pub fn line(&self) -> String {
        let Self { model, key, reason, .. } = self;
        format!("Ignoring this project's `{key}` ({}): {reason}.", one_line(model))
    }
}
