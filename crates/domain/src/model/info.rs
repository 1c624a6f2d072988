//! What is known of a model before it is asked.

/// What the program must know of a model before it asks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// The concrete name that is sent.
    pub id: String,
    /// How many tokens a request may hold.
    pub context_window: u64,
    /// Whether media may stand inside a function response.
    pub nested_media: bool,
}
