//! Requests that failed.

use std::borrow::Cow;
use std::time::Duration;

use super::ProviderId;
use crate::budget::Exceeded;

/// A request that failed for good, or a stream that broke.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    pub kind: ModelErrorKind,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// What happened, for people.
    pub message: String,
    /// What helps to look into it; apart, so that results stay small.
    pub details: Box<ErrorDetails>,
}

/// What a provider says about a failure next to its message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorDetails {
    /// The provider that failed.
    pub provider: Option<ProviderId>,
    /// The provider's own word for the failure.
    pub code: Option<String>,
    /// What support asks for.
    pub request_id: Option<String>,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
    /// The limit, for [`ModelErrorKind::BudgetExceeded`].
    pub exceeded: Option<Exceeded>,
    /// What the user can do, where more is known than the kind of failure.
    pub advice: Option<String>,
}

/// What kind of failure it was; decides what may be tried next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// The credentials were refused.
    Auth,
    /// The request was refused as it stands.
    BadRequest,
    /// The request does not fit the context window; in tokens, where the provider names them.
    ContextOverflow { asked: Option<u64>, limit: Option<u64> },
    /// The provider or the model does not know this parameter.
    Unsupported { param: String },
    /// A rule of the provider's forbids the request.
    PolicyBlocked,
    /// No such model or endpoint.
    NotFound,
    /// Too many requests; waiting helps, and the provider has waited already.
    RateLimited,
    /// A quota that waiting does not cure.
    QuotaExhausted,
    /// The account has to be paid for.
    Billing,
    /// The user's own limits allow no further request.
    BudgetExceeded,
    /// The server failed.
    Server,
    /// The server has too much to do.
    Overloaded,
    /// A local server still loads the model.
    Loading,
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
        Self { kind, status, message: message.into(), details: Box::default() }
    }

    /// A request that a limit does not allow.
    pub fn over_budget(exceeded: Exceeded) -> Self {
        let mut error = Self::new(ModelErrorKind::BudgetExceeded, None, exceeded.to_string());
        error.details.exceeded = Some(exceeded);
        error
    }

    /// The message with the provider and the HTTP status, unless it names them itself.
    pub fn described(&self) -> String {
        let lower = self.message.to_lowercase();
        let provider = self.details.provider.as_ref().map(ProviderId::as_str);
        let provider = provider.filter(|name| !lower.contains(&name.to_lowercase())).unwrap_or_default();
        let status = self.status.map(|status| status.to_string());
        let status = status.filter(|status| !self.message.contains(status));
        match (provider, status) {
            ("", None) => self.message.clone(),
            ("", Some(status)) => format!("HTTP {status}: {}", self.message),
            (provider, None) => format!("{provider}: {}", self.message),
            (provider, Some(status)) => format!("{provider} (HTTP {status}): {}", self.message),
        }
    }

    /// What the user can do about the settings, wherever the error is shown.
    pub fn advice(&self) -> Option<Cow<'_, str>> {
        if let Some(advice) = &self.details.advice {
            return Some(Cow::Borrowed(advice));
        }
        let is_google = |provider: &&ProviderId| matches!(provider.as_str(), "gemini" | "vertex");
        let provider = self.details.provider.as_ref().filter(|provider| !is_google(provider));
        match (&self.kind, provider) {
            (ModelErrorKind::Auth, None) => Some(Cow::Borrowed(
                "check the API key in `GEMINI_API_KEY`; run `pollux auth status` to see the key in use",
            )),
            (ModelErrorKind::NotFound, provider) => {
                let id = provider.map_or(ProviderId::GEMINI.as_str(), ProviderId::as_str);
                Some(Cow::Owned(format!("run `pollux models --provider {id}` to list available models")))
            }
            _ => None,
        }
    }

    /// Whether a broken stream of this kind may be started again.
    pub fn stream_may_restart(&self) -> bool {
        match self.kind {
            ModelErrorKind::Server
            | ModelErrorKind::Overloaded
            | ModelErrorKind::Loading
            | ModelErrorKind::Network
            | ModelErrorKind::Cut
            | ModelErrorKind::Malformed
            | ModelErrorKind::RateLimited => true,
            ModelErrorKind::Auth
            | ModelErrorKind::BadRequest
            | ModelErrorKind::ContextOverflow { .. }
            | ModelErrorKind::Unsupported { .. }
            | ModelErrorKind::PolicyBlocked
            | ModelErrorKind::NotFound
            | ModelErrorKind::QuotaExhausted
            | ModelErrorKind::Billing
            | ModelErrorKind::BudgetExceeded
            | ModelErrorKind::Script => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(provider: Option<&'static str>, status: Option<u16>, message: &str) -> String {
        let mut error = ModelError::new(ModelErrorKind::Server, status, message);
        error.details.provider = provider.map(ProviderId::known);
        error.described()
    }

    #[test]
    fn provider_and_status_are_named_once() {
        assert_eq!(described(Some("acme"), Some(503), "overloaded"), "acme (HTTP 503): overloaded");
        assert_eq!(described(Some("acme"), None, "no route"), "acme: no route");
        assert_eq!(described(None, Some(503), "overloaded"), "HTTP 503: overloaded");
        assert_eq!(described(None, None, "no route"), "no route");
        let message = "ACME answered with status 503";
        assert_eq!(described(Some("acme"), Some(503), message), message);
    }
}
