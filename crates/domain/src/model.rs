//! The port to a language model, free of any provider's vocabulary.
//!
//! [`ModelClient`] is what a provider implements; the parts of a request and of its reply each have a file.
//! How a provider spells them belongs to its adapter in `model`.

mod built_in;
mod error;
mod finish;
mod grounding;
mod info;
mod provider;
mod reply;
mod request;
mod settings;
mod usage;

pub use built_in::{BUILT_IN_PROVIDERS, BuiltInProvider};
pub use error::{ErrorDetails, ModelError, ModelErrorKind};
pub use finish::{Finish, FinishReason, Refusal};
pub use grounding::{Citation, GroundingInfo, GroundingSource, GroundingSupport, RetrievedPage};
pub use info::{Capabilities, InfoSource, ModelInfo, Prices};
pub use provider::{Dialect, Origin, ProviderId};
pub use reply::{ReplyChunk, ReplyEvent, ReplyStream, Wait};
pub use request::{Chooser, Grounding, ModelRequest, RequestRole};
pub use settings::{Effort, GenerationSettings, OutputFormat, Sampling, Setting, ToolChoice};
pub use usage::{MicroUsd, Usage};

use crate::BoxFuture;

/// A model that can be asked. Implemented in `model`.
pub trait ModelClient: Send + Sync {
    /// What a name or alias means, without any request.
    fn resolve(&self, name: &str) -> ModelInfo;

    /// The model that a request goes to: background work may go to a smaller one.
    fn recipient(&self, request: &ModelRequest) -> ModelInfo {
        self.resolve(&request.model)
    }

    /// Why a model cannot be asked as things are, such as a missing key. Nothing is sent.
    fn check(&self, name: &str) -> Result<(), ModelError> {
        let _ = name;
        Ok(())
    }

    /// Makes a model the conversation's own, before it is asked; names without a provider belong to its provider from
    /// then on. The error says why the name cannot mean a model.
    fn select(&self, name: &str) -> Result<(), ModelError> {
        let _ = name;
        Ok(())
    }

    /// The generation settings that a request is sent with: those of the model's alias and the request's over them.
    fn settings(&self, request: &ModelRequest) -> GenerationSettings {
        request.settings.clone()
    }

    /// Starts a streamed reply. Nothing is sent before the first [`ReplyStream::next`].
    fn stream(&self, request: ModelRequest) -> Box<dyn ReplyStream>;

    /// Asks for a whole reply at once; used for background work.
    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ReplyChunk, ModelError>>;

    /// Counts the tokens of a request.
    fn count_tokens(&self, request: ModelRequest) -> BoxFuture<'_, Result<u64, ModelError>>;

    /// The models that can be asked for; empty where the provider does not say.
    fn list_models(&self) -> BoxFuture<'_, Result<Vec<ModelInfo>, ModelError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
