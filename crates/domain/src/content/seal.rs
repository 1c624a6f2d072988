//! What a model's own words carry back to it, unread.

use serde_json::{Value, json};

/// An opaque token of one provider's. It goes back with the part it came with, or not at all.
#[derive(Debug, Clone, PartialEq)]
pub struct Seal {
    pub kind: SealKind,
    pub data: Value,
}

/// Whose token it is, and in which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SealKind {
    /// `thoughtSignature`: a text.
    GeminiSignature,
    /// The signature of a `thinking` block.
    AnthropicThinking,
    /// The data of a `redacted_thinking` block.
    AnthropicRedacted,
    /// A `reasoning` item.
    OpenAiReasoning,
    /// A `compaction` item.
    OpenAiCompaction,
    /// The reasoning's own text, as `reasoning_content`.
    ReasoningContent,
    /// `reasoning_details`.
    ReasoningDetails,
}

impl SealKind {
    const ALL: [Self; 7] = [
        Self::GeminiSignature,
        Self::AnthropicThinking,
        Self::AnthropicRedacted,
        Self::OpenAiReasoning,
        Self::OpenAiCompaction,
        Self::ReasoningContent,
        Self::ReasoningDetails,
    ];

    /// The word in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::GeminiSignature => "gemini-signature",
            Self::AnthropicThinking => "anthropic-thinking",
            Self::AnthropicRedacted => "anthropic-redacted",
            Self::OpenAiReasoning => "openai-reasoning",
            Self::OpenAiCompaction => "openai-compaction",
            Self::ReasoningContent => "reasoning-content",
            Self::ReasoningDetails => "reasoning-details",
        }
    }

    /// Reads the word in files.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

impl Seal {
    /// A signature of Gemini's.
    pub fn gemini(signature: impl Into<String>) -> Self {
        Self { kind: SealKind::GeminiSignature, data: Value::String(signature.into()) }
    }

    /// The text of a signature of Gemini's; `None` for any other seal.
    pub fn signature(&self) -> Option<&str> {
        (self.kind == SealKind::GeminiSignature).then(|| self.data.as_str()).flatten()
    }

    /// The form in files.
    pub fn to_json(&self) -> Value {
        json!({"kind": self.kind.as_str(), "data": self.data})
    }

    /// Reads the form in files; a seal of a kind that is not known cannot be used.
    pub fn from_json(value: &Value) -> Option<Self> {
        let kind = SealKind::parse(value.get("kind")?.as_str()?)?;
        Some(Self { kind, data: value.get("data")?.clone() })
    }
}
