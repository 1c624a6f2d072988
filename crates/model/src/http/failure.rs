//! What a failed request means: which kind of error it is, and whether the same request may be tried again.

use std::time::Duration;

use pollux_domain::model::{ModelError, ModelErrorKind};
use pollux_net::backoff::Cause;

/// Nobody waits longer than this for a server; the number is upstream's.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// An attempt that failed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failure {
    pub(crate) error: ModelError,
    pub(crate) retry: Retry,
    /// What the model wrote and its own server refused, where it says so.
    pub(crate) rejected: Option<Box<str>>,
}

/// Whether the same request may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    Never,
    After {
        cause: Cause,
        /// What the server asked for.
        hint: Option<Duration>,
    },
    /// So many attempts in all, even where the settings allow more.
    AtMost {
        cause: Cause,
        attempts: u32,
    },
    /// Every second for two minutes, without counting as attempts: a local server loads its model.
    WhileLoading,
}

impl Failure {
    pub(crate) fn new(error: ModelError, retry: Retry) -> Self {
        Self { error, retry, rejected: None }
    }

    /// One that another attempt would not cure.
    pub(crate) fn for_good(kind: ModelErrorKind, status: Option<u16>, message: impl Into<String>) -> Self {
        Self::new(ModelError::new(kind, status, message), Retry::Never)
    }

    /// One that may pass by itself.
    pub(crate) fn passing(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        let retry = Retry::After { cause: Cause::Transient, hint: None };
        Self::new(ModelError::new(kind, None, message), retry)
    }

    /// A reply that is not what was agreed.
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::for_good(ModelErrorKind::Malformed, Some(200), message)
    }
}

/// What is made of an error before the server's wishes are looked at.
pub(crate) struct Verdict {
    pub(crate) kind: ModelErrorKind,
    pub(crate) retry: Option<Cause>,
    /// Taken when the server names no delay.
    pub(crate) default_delay: Option<Duration>,
    pub(crate) advice: Option<&'static str>,
}

impl Verdict {
    pub(crate) fn never(kind: ModelErrorKind) -> Self {
        Self { kind, retry: None, default_delay: None, advice: None }
    }

    pub(crate) fn retry(kind: ModelErrorKind, cause: Cause) -> Self {
        Self { kind, retry: Some(cause), default_delay: None, advice: None }
    }

    /// What a status means where the body says nothing better.
    pub(crate) fn of_status(status: u16) -> Self {
        match status {
            401 | 403 => Self::never(ModelErrorKind::Auth),
            402 => Self::never(ModelErrorKind::Billing),
            404 => Self::never(ModelErrorKind::NotFound),
            429 => Self::retry(ModelErrorKind::RateLimited, Cause::Throttled),
            529 => Self::retry(ModelErrorKind::Overloaded, Cause::Throttled),
            408 | 409 | 500.. => Self::retry(ModelErrorKind::Server, Cause::Transient),
            _ => Self::never(ModelErrorKind::BadRequest),
        }
    }

    /// The failure, with the delay that the server asks for. One that would be too long is not waited for.
    pub(crate) fn into_failure(self, status: u16, mut message: String, hint: Option<Duration>) -> Failure {
        let retry = match (self.retry, hint) {
            (Some(_), Some(asked)) if asked > LONGEST_WAIT => {
                message.push_str(&format!(" (the server asks to wait {})", in_words(asked)));
                Retry::Never
            }
            (Some(cause), asked) => Retry::After { cause, hint: asked.or(self.default_delay) },
            (None, _) => Retry::Never,
        };
        let waits_too_long = retry == Retry::Never && self.retry.is_some();
        let kind = match self.kind {
            ModelErrorKind::RateLimited if waits_too_long => ModelErrorKind::QuotaExhausted,
            kind => kind,
        };
        if let Some(advice) = self.advice {
            message.push_str(advice);
        }
        let mut error = ModelError::new(kind, Some(status), message);
        error.details.retry_after = hint;
        Failure::new(error, retry)
    }
}

fn in_words(delay: Duration) -> String {
    let minutes = delay.as_secs().div_ceil(60);
    if minutes < 120 { format!("{minutes} minutes") } else { format!("{} hours", minutes.div_ceil(60)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_alone_says_what_kind_it_is_and_whether_to_try_again() {
        let cases = [
            (400, ModelErrorKind::BadRequest, false),
            (401, ModelErrorKind::Auth, false),
            (402, ModelErrorKind::Billing, false),
            (403, ModelErrorKind::Auth, false),
            (404, ModelErrorKind::NotFound, false),
            (408, ModelErrorKind::Server, true),
            (409, ModelErrorKind::Server, true),
            (422, ModelErrorKind::BadRequest, false),
            (429, ModelErrorKind::RateLimited, true),
            (500, ModelErrorKind::Server, true),
            (529, ModelErrorKind::Overloaded, true),
        ];
        for (status, kind, again) in cases {
            let failure = Verdict::of_status(status).into_failure(status, "x".into(), None);
            assert_eq!((failure.error.kind, failure.retry != Retry::Never), (kind, again), "{status}");
        }
    }

    #[test]
    fn a_wait_that_is_too_long_is_a_quota() {
        let hint = Some(Duration::from_secs(301));
        let failure = Verdict::of_status(429).into_failure(429, "slow".into(), hint);
        assert_eq!((failure.error.kind, failure.retry), (ModelErrorKind::QuotaExhausted, Retry::Never));
        assert_eq!(failure.error.message, "slow (the server asks to wait 6 minutes)");
        assert_eq!(failure.error.details.retry_after, hint);
    }
}
