//! What Gemini's models can do, by their names.

/// Whether media may stand inside a function response.
pub(crate) fn has_nested_media(model: &str) -> bool {
    model.starts_with("gemini-3-")
}

/// Whether reasoning is limited by a number of tokens and not by a level.
pub(crate) fn has_thinking_budget(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    name.starts_with("gemini-2") || name.starts_with("gemini-1")
}
