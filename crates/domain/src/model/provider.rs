//! Who serves a model, and in which wire language.

use std::borrow::Cow;

/// The name of a provider, as settings and `provider/model` have it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProviderId(Cow<'static, str>);

/// The wire language of a provider; several providers may speak the same one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dialect(Cow<'static, str>);

impl ProviderId {
    /// Google's API, and Vertex AI.
    pub const GEMINI: Self = Self(Cow::Borrowed("gemini"));

    /// A provider by its name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(Cow::Owned(name.into()))
    }

    /// A provider that the program knows when it is built.
    pub const fn known(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Dialect {
    /// Google's `generateContent`.
    pub const GEMINI: Self = Self(Cow::Borrowed("gemini"));
    /// OpenAI's Chat Completions, which most other servers speak, too.
    pub const CHAT: Self = Self(Cow::Borrowed("chat"));
    /// OpenAI's Responses.
    pub const RESPONSES: Self = Self(Cow::Borrowed("responses"));
    /// Anthropic's Messages.
    pub const MESSAGES: Self = Self(Cow::Borrowed("messages"));

    /// A dialect by its name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(Cow::Owned(name.into()))
    }

    /// A dialect that the program knows when it is built.
    pub const fn known(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where a turn of the model's came from. Decides which of its seals another request may carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub provider: ProviderId,
    pub dialect: Dialect,
    /// The server, such as `https://host`.
    pub host: String,
    /// The concrete model.
    pub model: String,
    pub response_id: Option<String>,
    /// What the turn was, for providers that tell comments from answers.
    pub phase: Option<String>,
}

impl Origin {
    /// Whether a session file says as much without it: upstream's format knows one provider.
    pub fn is_implied(&self) -> bool {
        self.provider == ProviderId::GEMINI && self.dialect == Dialect::GEMINI && self.phase.is_none()
    }
}
