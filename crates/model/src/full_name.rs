//! Names of models outside their providers.

/// A model with its provider: bare for Gemini, `provider/model` for all others.
pub fn full_name(provider: &str, model: &str) -> String {
    if matches!(provider, "gemini" | "vertex") { model.to_owned() } else { format!("{provider}/{model}") }
}
