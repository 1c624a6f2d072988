//! The model that a user chose for a session.

/// The provider of replies whose record names none: upstream's format knows only this one.
pub(crate) const IMPLIED: &str = "gemini";

/// Whether a provider is Google's, of which the file says as much without a record.
pub(crate) fn is_implied(provider: &str) -> bool {
    matches!(provider, IMPLIED | "vertex")
}

/// The model that a user chose for a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionModel {
    /// The provider's id.
    pub provider: String,
    /// As `-m` takes it.
    pub name: String,
    /// Whether it runs on the user's own machine.
    pub local: bool,
}

impl SessionModel {
    /// Whether prompts are recorded without it.
    pub(crate) fn is_implied(&self) -> bool {
        is_implied(&self.provider)
    }
}
