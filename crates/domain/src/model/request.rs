//! What a model is asked.

use std::sync::Arc;

use super::GenerationSettings;
use crate::content::Content;
use crate::tool::ToolSpec;

/// One request to a model.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// A model's name or an alias, as the user or the program chose it.
    pub model: String,
    pub chosen_by: Chooser,
    pub role: RequestRole,
    pub system: Option<Arc<str>>,
    pub contents: Vec<Arc<Content>>,
    pub tools: Arc<[Arc<ToolSpec>]>,
    /// Generation settings over those of the model's alias.
    pub settings: GenerationSettings,
    /// What the model may look up by itself before it answers.
    pub grounding: Grounding,
}

/// Who chose the name of a model, and so which providers it may lead to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Chooser {
    /// The user, or the program on the user's behalf: any provider that exists.
    #[default]
    User,
    /// Something that the user set up, such as a sub-agent or a hook: providers that the user named.
    Anyone,
    /// A project or an extension: the user's own provider and what runs on the user's machine.
    Project,
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
