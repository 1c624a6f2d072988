//! Requests that failed.

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
