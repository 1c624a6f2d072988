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
    /// It had said all.
    Stop,
    /// It waits for the results of its calls, where the provider tells that apart.
    ToolCalls,
    /// A text came at which the request wanted it to stop.
    StopSequence,
    /// The limit of the output.
    MaxTokens,
    /// The context window was full.
    ContextWindow,
    /// A safety filter of the provider's withheld the reply.
    Safety,
    /// Another filter of the provider's withheld the reply.
    ContentFilter,
    /// The model itself refused.
    Refusal(Box<Refusal>),
    Recitation,
    MalformedFunctionCall,
    UnexpectedToolCall,
    /// The provider paused a long turn; it goes on when the same turn is sent back.
    Paused,
    /// The provider says "other".
    Unspecified,
    /// A reason this program gives no meaning of its own, in the provider's word.
    Named(String),
}

/// What a model says when it refuses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refusal {
    /// The provider's word for what was asked.
    pub category: Option<String>,
    /// The display.
    pub text: Option<String>,
}

impl FinishReason {
    /// The word for events, hooks and files: one of upstream's, so that readers of them need not know providers.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stop | Self::ToolCalls | Self::StopSequence => "STOP",
            Self::MaxTokens | Self::ContextWindow => "MAX_TOKENS",
            Self::Safety | Self::ContentFilter | Self::Refusal(_) => "SAFETY",
            Self::Recitation => "RECITATION",
            Self::MalformedFunctionCall => "MALFORMED_FUNCTION_CALL",
            Self::UnexpectedToolCall => "UNEXPECTED_TOOL_CALL",
            Self::Paused | Self::Unspecified => "OTHER",
            Self::Named(word) => word,
        }
    }
}
