//! Model names: `provider/model`, a bare name, or one of Gemini's own forms.

use pollux_domain::model::{ModelError, ModelErrorKind};
use pollux_domain::spelling::distance;

use super::Providers;

/// A model name, split into its provider and the name that the provider knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelName {
    /// `None` means the default provider.
    pub provider: Option<String>,
    pub model: String,
}

/// Longer than any name of a model.
const MAX_NAME: usize = 256;

/// Refuses names that could mean something else than a model where they are sent: in a path, a header or a log.
pub(crate) fn check_model_name(name: &str) -> Result<(), ModelError> {
    let bad_segment = |segment: &str| matches!(segment, "" | "." | "..");
    let is_bad = name.len() > MAX_NAME
        || name.chars().any(|c| c.is_control() || c == '\\')
        || name.trim() != name
        || name.split('/').any(bad_segment);
    if !is_bad {
        return Ok(());
    }
    let shown: String = name.chars().take(60).flat_map(char::escape_debug).collect();
    Err(ModelError::new(ModelErrorKind::BadRequest, None, format!("invalid model name `{shown}`")))
}

impl Providers<'_> {
    /// Splits a name at its first `/`, if a known provider stands before it.
    ///
    /// A bare name of a well-known family goes to that family's provider, if `has_key` says that it can be used.
    pub fn split(&self, name: &str, has_key: impl Fn(&str) -> bool) -> ModelName {
        let whole = |provider: Option<&str>| ModelName {
            provider: provider.map(str::to_owned),
            model: name.to_owned(),
        };
        if name.starts_with("models/") || name.starts_with("tunedModels/") {
            return whole(Some("gemini"));
        }
        if let Some((provider, model)) = name.split_once('/')
            && !model.is_empty()
            && self.find(provider).is_some()
        {
            return ModelName { provider: Some(provider.to_owned()), model: model.to_owned() };
        }
        let family = family(name).filter(|provider| has_key(provider));
        whole(family)
    }
}

impl Providers<'_> {
    /// The name that a mistyped provider may have meant. An unknown one stays valid, as part of a model's name.
    pub fn similar(&self, name: &str) -> Option<String> {
        let (given, model) = name.split_once('/').filter(|(_, model)| !model.is_empty())?;
        if matches!(given, "models" | "tunedModels") || self.find(given).is_some() {
            return None;
        }
        let lower = given.to_ascii_lowercase();
        // Vendors on a router have such names: `mistralai/…`, `x-ai/…`.
        let is_vendor = |id: &str| lower.starts_with(id) || lower.replace('-', "") == id;
        let limit = if lower.len() < 5 { 1 } else { 2 };
        let near = self.all().map(|provider| (distance(&lower, provider.id), provider.id));
        let (far, id) = near.filter(|(_, id)| !is_vendor(id)).min()?;
        let id = if lower != given && self.find(&lower).is_some() { lower.as_str() } else { id };
        (far <= limit || id == lower).then(|| format!("{id}/{model}"))
    }
}

/// The provider whose models have names like this one.
fn family(name: &str) -> Option<&'static str> {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let reasoning_series = || {
        let mut letters = name.chars();
        letters.next() == Some('o') && letters.next().is_some_and(|digit| ('1'..='9').contains(&digit))
    };
    match name {
        _ if starts(&["gemini-", "gemma-"]) => Some("gemini"),
        _ if starts(&["claude-"]) => Some("anthropic"),
        _ if starts(&["gpt-"]) || reasoning_series() => Some("openai"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_their_place_are_refused() {
        for good in
            ["gemini-2.5-pro", "models/x", "qwen3:8b", "anthropic/claude-x@2026", "My Model?v=1#2", "a..b"]
        {
            assert!(check_model_name(good).is_ok(), "{good}");
        }
        let long = "x".repeat(MAX_NAME + 1);
        for bad in [
            "",
            "..",
            "../x",
            "models/../../files",
            "a//b",
            "/a",
            "a/",
            "a\\..\\b",
            "a\r\nX-Key: 1",
            " a",
            "./a",
            &long,
        ] {
            let error = check_model_name(bad).unwrap_err();
            assert!(error.message.starts_with("invalid model name") && error.message.len() < 200, "{bad}");
            assert!(!error.message.contains('\n'));
        }
    }
}
