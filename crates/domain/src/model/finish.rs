//! Why a reply ended.

/// The end of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finish {
    pub reason: FinishReason,
    pub message: Option<String>,
}

/// Why the model stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishReason {
    Stop,
    MaxTokens,
    Safety,
    Recitation,
    MalformedFunctionCall,
    UnexpectedToolCall,
    /// The provider says "other".
    Unspecified,
    /// A reason this program gives no meaning of its own, in the provider's word.
    Named(String),
}

impl FinishReason {
    /// Reads the provider's word.
    pub fn parse(word: &str) -> Self {
        match word {
            "STOP" => Self::Stop,
            "MAX_TOKENS" => Self::MaxTokens,
            "SAFETY" => Self::Safety,
            "RECITATION" => Self::Recitation,
            "MALFORMED_FUNCTION_CALL" => Self::MalformedFunctionCall,
            "UNEXPECTED_TOOL_CALL" => Self::UnexpectedToolCall,
            "OTHER" => Self::Unspecified,
            other => Self::Named(other.to_owned()),
        }
    }

    /// The word for logs and events.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stop => "STOP",
            Self::MaxTokens => "MAX_TOKENS",
            Self::Safety => "SAFETY",
            Self::Recitation => "RECITATION",
            Self::MalformedFunctionCall => "MALFORMED_FUNCTION_CALL",
            Self::UnexpectedToolCall => "UNEXPECTED_TOOL_CALL",
            Self::Unspecified => "OTHER",
            Self::Named(word) => word,
        }
    }
}
