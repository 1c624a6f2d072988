//! The port to a language model, free of any provider's vocabulary.

use std::sync::Arc;
use std::time::Duration;

use crate::content::{Content, Part};
use crate::tool::ToolSpec;
use crate::{BoxFuture, JsonObject};

/// A model that can be asked. Implemented in `model`.
pub trait ModelClient: Send + Sync {
    /// What a name or alias means, without any request.
    fn resolve(&self, name: &str) -> ModelInfo;

    /// The generation settings that a request is sent with: the model's own defaults and the request's over them.
    fn settings(&self, request: &ModelRequest) -> JsonObject {
        request.settings.clone()
    }

    /// Starts a streamed reply. Nothing is sent before the first [`ReplyStream::next`].
    fn stream(&self, request: ModelRequest) -> Box<dyn ReplyStream>;

    /// Asks for a whole reply at once; used for work beside the conversation.
    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ReplyChunk, ModelError>>;

    /// Counts the tokens of a request.
    fn count_tokens(&self, request: ModelRequest) -> BoxFuture<'_, Result<u64, ModelError>>;
}

/// A reply as it arrives.
pub trait ReplyStream: Send {
    /// The next event; `None` after the reply ended in order. After an error the stream is over.
    fn next(&mut self) -> BoxFuture<'_, Option<Result<ReplyEvent, ModelError>>>;
}

/// What a reply stream tells.
#[derive(Debug, Clone)]
pub enum ReplyEvent {
    /// The provider could not answer yet; it tries again after the delay.
    Waiting(Wait),
    /// A piece of the reply.
    Chunk(ReplyChunk),
}

/// A pause before the next attempt of the same request.
#[derive(Debug, Clone, PartialEq)]
pub struct Wait {
    /// The attempt that failed, from 1.
    pub attempt: u32,
    pub max_attempts: u32,
    pub delay: Duration,
    /// What went wrong, for people.
    pub cause: String,
    pub status: Option<u16>,
}

/// One request to a model.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// A model's name or an alias, as the user or the program chose it.
    pub model: String,
    pub role: RequestRole,
    pub system: Option<Arc<str>>,
    pub contents: Vec<Arc<Content>>,
    pub tools: Arc<[Arc<ToolSpec>]>,
    /// Generation settings over the model's own defaults, in the provider's words; `null` takes a default away.
    pub settings: JsonObject,
    /// What the model may look up by itself before it answers.
    pub grounding: Grounding,
}

/// A look-up that the provider does for the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Grounding {
    #[default]
    None,
    /// A web search.
    Search,
    /// The pages whose addresses stand in the request.
    UrlContext,
}

/// On whose behalf a request is made; statistics are kept apart by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestRole {
    Main,
    Subagent,
    Compressor,
    Summarizer,
    Router,
    LoopDetector,
    Tool,
}

impl RequestRole {
    /// Upstream's word, as it appears in statistics and telemetry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Subagent => "subagent",
            Self::Compressor => "utility_compressor",
            Self::Summarizer => "utility_summarizer",
            Self::Router => "utility_router",
            Self::LoopDetector => "utility_loop_detector",
            Self::Tool => "utility_tool",
        }
    }
}

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

/// A piece of a reply.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReplyChunk {
    pub parts: Vec<Part>,
    pub finish: Option<Finish>,
    /// Counts so far; the last one of a reply is the one that holds.
    pub usage: Option<Usage>,
    /// The model that answered, if it says so.
    pub model_version: Option<String>,
    /// Why the prompt was refused, if it was.
    pub blocked: Option<String>,
    pub citations: Vec<Citation>,
    /// What the model looked up, if it was allowed to.
    pub grounding: Option<Box<GroundingInfo>>,
}

/// What a grounded reply rests on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroundingInfo {
    /// In the provider's order; [`GroundingSupport::sources`] counts from 0 in it.
    pub sources: Vec<GroundingSource>,
    pub supports: Vec<GroundingSupport>,
    /// Pages that the provider fetched, or tried to.
    pub pages: Vec<RetrievedPage>,
}

/// A page that a grounded reply used. Either text may be missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroundingSource {
    pub title: Option<String>,
    pub uri: Option<String>,
}

/// A stretch of the reply's text and the sources it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroundingSupport {
    /// Where the stretch ends: UTF-8 bytes from the start of the reply's text.
    pub end: u64,
    pub sources: Vec<u64>,
}

/// How fetching one page went, in the provider's word, such as `URL_RETRIEVAL_STATUS_SUCCESS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetrievedPage {
    pub uri: String,
    pub status: Option<String>,
}

/// A source that the reply quotes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Citation {
    pub title: Option<String>,
    pub uri: String,
}

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

/// Tokens of one request and its reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub prompt: u64,
    pub candidates: u64,
    pub cached: u64,
    pub thoughts: u64,
    pub tool: u64,
    pub total: u64,
}

impl Usage {
    /// Adds another request's counts.
    pub fn add(&mut self, other: Usage) {
        self.prompt += other.prompt;
        self.candidates += other.candidates;
        self.cached += other.cached;
        self.thoughts += other.thoughts;
        self.tool += other.tool;
        self.total += other.total;
    }
}

/// A request that failed for good, or a stream that broke.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    pub kind: ModelErrorKind,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// What happened, for people.
    pub message: String,
}

/// What kind of failure it was; decides what may be tried next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// The credentials were refused.
    Auth,
    /// The request was refused as it stands.
    BadRequest,
    /// No such model or endpoint.
    NotFound,
    /// Too many requests; waiting helps, and the provider has waited already.
    RateLimited,
    /// A quota that waiting does not cure.
    QuotaExhausted,
    /// The server failed or is overloaded.
    Server,
    /// The connection could not be made or broke.
    Network,
    /// The stream stopped before its end, or stalled.
    Cut,
    /// What arrived is not what was agreed.
    Malformed,
    /// The scripted replies do not fit or are used up.
    Script,
}

impl ModelError {
    /// Builds an error.
    pub fn new(kind: ModelErrorKind, status: Option<u16>, message: impl Into<String>) -> Self {
        Self { kind, status, message: message.into() }
    }

    /// Whether a broken stream of this kind may be started again.
    pub fn stream_may_restart(&self) -> bool {
        match self.kind {
            ModelErrorKind::Server
            | ModelErrorKind::Network
            | ModelErrorKind::Cut
            | ModelErrorKind::Malformed
            | ModelErrorKind::RateLimited => true,
            ModelErrorKind::Auth
            | ModelErrorKind::BadRequest
            | ModelErrorKind::NotFound
            | ModelErrorKind::QuotaExhausted
            | ModelErrorKind::Script => false,
        }
    }
}
