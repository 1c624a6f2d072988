//! The provider of a user who named none.

use super::{Provider, Providers};

/// The provider to start with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultChoice {
    pub provider: String,
    pub reason: DefaultReason,
}

/// Why a provider was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefaultReason {
    /// A Gemini credential is there, or nothing is.
    Gemini,
    /// It is the only one with a key.
    OnlyKey,
    /// It is the first of several with a key; these are the others.
    FirstOf(Vec<String>),
}

/// Who comes first among several; the others follow in the order of the alphabet.
const ORDER: &[&str] = &["anthropic", "openai", "openrouter"];

impl Providers<'_> {
    /// Chooses by the keys that exist. `has_key` is asked for remote providers only: whether a local one runs can
    /// only be found out by a connection, and a headless run makes none that nobody asked for.
    pub fn default_choice(&self, gemini: bool, has_key: impl Fn(&Provider<'_>) -> bool) -> DefaultChoice {
        let choice = |provider: &str, reason| DefaultChoice { provider: provider.to_owned(), reason };
        if gemini {
            return choice("gemini", DefaultReason::Gemini);
        }
        let remote = self.all().filter(|provider| !matches!(provider.id, "gemini" | "vertex"));
        let mut found: Vec<String> = remote
            .filter(|provider| !provider.is_local() && has_key(provider))
            .map(|provider| provider.id.to_owned())
            .collect();
        let rank = |id: &str| ORDER.iter().position(|first| *first == id).unwrap_or(ORDER.len());
        found.sort_by(|one, other| (rank(one), one).cmp(&(rank(other), other)));
        match found.split_first() {
            None => choice("gemini", DefaultReason::Gemini),
            Some((only, [])) => choice(only, DefaultReason::OnlyKey),
            Some((first, others)) => choice(first, DefaultReason::FirstOf(others.to_vec())),
        }
    }
}
