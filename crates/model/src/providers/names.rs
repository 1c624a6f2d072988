//! Model names: `provider/model`, a bare name, or one of Gemini's own forms.

use super::Providers;

/// A model name, split into its provider and the name that the provider knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelName {
    /// `None` means the default provider.
    pub provider: Option<String>,
    pub model: String,
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
