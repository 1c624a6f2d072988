//! Tools for models that have none, or whose server does not pass them on: a client around another one.
//!
//! Four levels: the wire's own tools; tools that are explained in the system prompt, with calls read out of the text;
//! the same with a second request that a grammar holds to the schema of a call; and none. The user's settings choose
//! the level ([`ToolPlan`]). Where they do not, a local server is asked what it can do before the first request, and a
//! model that twice only describes a call is moved to the prompt.

mod calls;
mod described;
mod extract;
mod grammar;
mod lenient;
mod levels;
mod reading;
mod rewrite;
mod stream;

use std::sync::Arc;

use pollux_domain::BoxFuture;
use pollux_domain::model::{
    GenerationSettings, ModelClient, ModelError, ModelInfo, ModelRequest, ReplyChunk, ReplyStream,
};

pub use levels::{LocalFacts, LocalProbe, ModeOf, ToolPlan};
pub use rewrite::explained;

use levels::Levels;
use reading::Reading;
use stream::PromptStream;

/// Errors of servers that take no tools, or none without another setting of theirs.
const NO_TOOLS: &[&str] = &["--enable-auto-tool-choice", "does not support tools", "tools are not supported"];

/// A client whose models can call tools.
pub struct PromptTools {
    inner: Arc<dyn ModelClient>,
    levels: Arc<Levels>,
}

impl PromptTools {
    pub fn new(inner: Arc<dyn ModelClient>, plan: ToolPlan) -> Self {
        Self { inner, levels: Arc::new(Levels::new(plan, None)) }
    }

    /// The same, with a server that is asked what its models can do.
    pub fn probing(inner: Arc<dyn ModelClient>, plan: ToolPlan, probe: Arc<dyn LocalProbe>) -> Self {
        Self { inner, levels: Arc::new(Levels::new(plan, Some(probe))) }
    }
}

impl ModelClient for PromptTools {
    fn resolve(&self, name: &str) -> ModelInfo {
        let mut info = self.inner.resolve(name);
        self.levels.describe(&mut info);
        info
    }

    fn settings(&self, request: &ModelRequest) -> GenerationSettings {
        self.inner.settings(request)
    }

    fn stream(&self, request: ModelRequest) -> Box<dyn ReplyStream> {
        if request.tools.is_empty() {
            return self.inner.stream(request);
        }
        Box::new(PromptStream::new(Arc::clone(&self.inner), Arc::clone(&self.levels), request))
    }

    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ReplyChunk, ModelError>> {
        Box::pin(async move {
            if request.tools.is_empty() {
                return self.inner.generate(request).await;
            }
            let mut reading = Reading::new(&request, self.levels.level(&request.model));
            let chunk = match self.inner.generate(reading.request(request.clone())).await {
                Err(error) if !reading.prompted && refuses_tools(&error) => {
                    self.levels.move_to_prompt(&request.model);
                    reading = Reading::new(&request, self.levels.level(&request.model));
                    self.inner.generate(reading.request(request)).await?
                }
                answer => answer?,
            };
            let finished = chunk.finish.is_some();
            let mut whole = reading.chunk(chunk);
            if !finished {
                whole.parts.extend(reading.rest());
            }
            Ok(whole)
        })
    }

    fn count_tokens(&self, request: ModelRequest) -> BoxFuture<'_, Result<u64, ModelError>> {
        let request = Reading::new(&request, self.levels.level(&request.model)).request(request);
        self.inner.count_tokens(request)
    }

    fn list_models(&self) -> BoxFuture<'_, Result<Vec<ModelInfo>, ModelError>> {
        self.inner.list_models()
    }
}

fn refuses_tools(error: &ModelError) -> bool {
    NO_TOOLS.iter().any(|text| error.message.contains(text))
}
