//! Failures of single attempts.

use reqwest::header::HeaderMap;

use crate::port::StoreErrorKind;

/// Why one attempt failed. Holds no secret: never a server's own text, only its code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: StoreErrorKind,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(crate) fn unusable(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Unusable, message)
    }

    pub(crate) fn later(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Unavailable, message)
    }

    /// From a status that means a failure, and the code that the server gave in its body.
    pub(crate) fn of_status(status: u16, code: Option<&str>) -> Self {
        let code = code.map(tame).filter(|code| !code.is_empty());
        let kind = match (status, code.as_deref()) {
            (_, Some("NoSuchBucket")) => StoreErrorKind::NoBucket,
            (_, Some("RequestTimeTooSkewed")) => {
                return Self::new(
                    StoreErrorKind::Denied,
                    "the clock of this machine is wrong (RequestTimeTooSkewed)",
                );
            }
            // The server had another operation on the same object under way.
            (_, Some("ConditionalRequestConflict" | "OperationAborted" | "SlowDown" | "RequestTimeout")) => {
                StoreErrorKind::Unavailable
            }
            (401 | 403, _) => StoreErrorKind::Denied,
            (408 | 429, _) | (500.., _) => StoreErrorKind::Unavailable,
            _ => StoreErrorKind::Unusable,
        };
        let said = code.map(|code| format!(" ({code})")).unwrap_or_default();
        let redirect =
            if (300..400).contains(&status) { "; redirects to other servers are not followed" } else { "" };
        Self::new(kind, format!("the server responded with status {status}{said}{redirect}"))
    }
}

/// A word of the server, as far as it is one.
pub(crate) fn tame(code: &str) -> String {
    code.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_' || *c == '-').take(60).collect()
}

/// A header as text.
pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
