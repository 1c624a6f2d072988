//! What a model answers, piece by piece.

use std::sync::Arc;
use std::time::Duration;

use super::{Citation, Finish, GroundingInfo, ModelError, ModelErrorKind, Origin, ProviderId, Usage};
use crate::BoxFuture;
use crate::content::Part;

/// A reply as it arrives.
pub trait ReplyStream: Send {
    /// The next event; `None` after the reply ended in order. After an error the stream is over.
    fn next(&mut self) -> BoxFuture<'_, Option<Result<ReplyEvent, ModelError>>>;
}

/// What a reply stream tells.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplyEvent {
    /// The provider could not answer yet; it tries again after the delay.
    Waiting(Wait),
    /// A piece of the reply.
    Chunk(ReplyChunk),
    /// A call is being written; it is told as a whole when it is complete. For display only.
    CallProgress {
        /// Its place among the calls of the reply.
        index: usize,
        name: String,
        /// How much of its arguments has come.
        bytes: u64,
    },
    /// The provider says that it still works on the reply.
    Alive,
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
    /// What kind of failure it was, if there was one.
    pub kind: Option<ModelErrorKind>,
}

/// A piece of a reply.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReplyChunk {
    pub parts: Vec<Part>,
    pub finish: Option<Finish>,
    /// Who answers, if the client says so.
    pub origin: Option<Arc<Origin>>,
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

impl ReplyChunk {
    /// The version of the model that answered, as upstream's statistics name it. Other providers are named by the
    /// model that was asked.
    pub fn gemini_version(&self) -> Option<&str> {
        let is_gemini = self.origin.as_ref().is_none_or(|origin| origin.provider == ProviderId::GEMINI);
        self.model_version.as_deref().filter(|_| is_gemini)
    }
}
