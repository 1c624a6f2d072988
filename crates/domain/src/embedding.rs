//! The port to embedding providers.

use std::fmt;
use std::time::Duration;

use crate::BoxFuture;

/// Turns texts into vectors that can be compared. Implemented in `embed`.
pub trait Embedder: Send + Sync {
    /// The provider and model. Vectors of different origins are never compared.
    fn origin(&self) -> &Origin;

    /// One vector for each text, in order, each of length 1. All of them or an error; an implementation cuts the
    /// list into requests, waits and tries again as its provider asks.
    fn embed<'a>(
        &'a self,
        texts: &'a [String],
        purpose: Purpose,
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, EmbedError>>;
}

/// Which provider and model made a vector.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    /// `gemini`, `openai`, `local`.
    pub provider: String,
    pub model: String,
    /// Tells apart what else changes vectors (a base address, a file's hash); never a secret.
    pub key: String,
}

/// What a text is embedded for; some models treat the two differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Document,
    Query,
}

/// Why embedding failed.
#[derive(Debug, Clone)]
pub struct EmbedError {
    pub kind: EmbedErrorKind,
    /// For people: what failed, on which model, why, and what to do.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbedErrorKind {
    /// A configuration error, such as a missing key: it will fail again until something is changed.
    Setup,
    /// The provider asked to retry later, or is not reachable.
    Later { after: Option<Duration> },
    /// One of the texts cannot be embedded.
    Text,
    /// Anything else.
    Other,
}

impl fmt::Display for EmbedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for EmbedError {}
