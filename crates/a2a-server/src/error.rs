//! Errors of the protocol, with their codes on both transports.

use std::num::NonZeroU32;

use pollux_a2a::protocol::Version;
use pollux_blobs::{PutError, StoreError};
use pollux_serve::{Response, StatusCode, header};
use serde_json::{Value, json};

/// What an error is, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    Parse,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    Internal,
    /// The store does not answer at the moment.
    Unavailable,
    /// The caller has as much as it may have.
    TooMany,
    TaskNotFound,
    NotCancelable,
    NoPush,
    Unsupported,
    Version,
}

/// An error of the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct A2aError {
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
    /// Seconds after which a client may try again, if that is known.
    retry_after: Option<NonZeroU32>,
}

/// Seconds after which a client may try again, if nothing else is known.
const RETRY_AFTER: u32 = 5;

impl ErrorKind {
    /// The code of JSON-RPC.
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Parse => -32700,
            Self::InvalidRequest => -32600,
            Self::MethodNotFound => -32601,
            Self::InvalidParams => -32602,
            Self::Internal | Self::Unavailable => -32603,
            Self::TaskNotFound => -32001,
            Self::NotCancelable => -32002,
            Self::NoPush => -32003,
            Self::Unsupported | Self::TooMany => -32004,
            Self::Version => -32009,
        }
    }

    /// The status of HTTP+JSON.
    fn status(self) -> StatusCode {
        match self {
            Self::TaskNotFound | Self::MethodNotFound => StatusCode::NOT_FOUND,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::TooMany => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    /// The status word of `google.rpc.Status`, and the reason of its details.
    fn words(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Parse | Self::InvalidRequest => ("INVALID_ARGUMENT", Some("INVALID_REQUEST")),
            Self::InvalidParams => ("INVALID_ARGUMENT", Some("INVALID_PARAMS")),
            Self::MethodNotFound => ("NOT_FOUND", Some("METHOD_NOT_FOUND")),
            Self::Internal => ("INTERNAL", Some("INTERNAL_ERROR")),
            Self::Unavailable => ("UNAVAILABLE", None),
            Self::TooMany => ("RESOURCE_EXHAUSTED", None),
            Self::TaskNotFound => ("NOT_FOUND", Some("TASK_NOT_FOUND")),
            Self::NotCancelable => ("FAILED_PRECONDITION", Some("TASK_NOT_CANCELABLE")),
            Self::NoPush => ("FAILED_PRECONDITION", Some("PUSH_NOTIFICATION_NOT_SUPPORTED")),
            Self::Unsupported => ("FAILED_PRECONDITION", Some("UNSUPPORTED_OPERATION")),
            Self::Version => ("FAILED_PRECONDITION", Some("VERSION_NOT_SUPPORTED")),
        }
    }

    /// The name that clients of 0.3 know the error by over HTTP.
    fn old_name(self) -> &'static str {
        match self {
            Self::Parse => "JSONParseError",
            Self::InvalidRequest => "InvalidRequestError",
            Self::MethodNotFound => "MethodNotFoundError",
            Self::InvalidParams => "InvalidParamsError",
            Self::Internal | Self::Unavailable => "InternalError",
            Self::TaskNotFound => "TaskNotFoundError",
            Self::NotCancelable => "TaskNotCancelableError",
            Self::NoPush => "PushNotificationNotSupportedError",
            Self::Unsupported | Self::TooMany => "UnsupportedOperationError",
            Self::Version => "VersionNotSupportedError",
        }
    }
}

impl A2aError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }

    /// Says when the client may try again.
    #[must_use]
    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = NonZeroU32::new(seconds);
        self
    }

    pub(crate) fn params(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidParams, message)
    }

    /// The same for a task that does not exist and for one of another owner.
    pub(crate) fn no_task(id: &str) -> Self {
        let id: String = id.chars().filter(|c| !c.is_control()).take(100).collect();
        Self::new(ErrorKind::TaskNotFound, format!("Task not found: {id}"))
    }

    /// The error object of JSON-RPC.
    pub(crate) fn to_rpc(&self, version: Version) -> Value {
        let mut error = json!({"code": self.kind.code(), "message": self.message});
        if let (Version::One, Some(info), Some(fields)) = (version, self.info(), error.as_object_mut()) {
            fields.insert("data".to_owned(), json!([info]));
        }
        error
    }

    /// The response of HTTP+JSON.
    pub(crate) fn to_http(&self, version: Version) -> Response {
        let status = self.kind.status();
        let error = match version {
            Version::Old => {
                json!({"code": self.kind.code(), "type": self.kind.old_name(), "message": self.message})
            }
            Version::One => json!({"error": {
                "code": status.as_u16(),
                "status": self.kind.words().0,
                "message": self.message,
                "details": self.info().into_iter().collect::<Vec<Value>>(),
            }}),
        };
        let response = Response::json(status, &error);
        match self.kind {
            ErrorKind::Unavailable | ErrorKind::TooMany => {
                let seconds = self.retry_after.map_or(RETRY_AFTER, NonZeroU32::get);
                response.header(header::RETRY_AFTER, &seconds.to_string())
            }
            _ => response,
        }
    }

    fn info(&self) -> Option<Value> {
        let reason = self.kind.words().1?;
        Some(json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": reason,
            "domain": "a2a-protocol.org",
        }))
    }
}

impl From<StoreError> for A2aError {
    fn from(error: StoreError) -> Self {
        let kind = if error.may_pass() { ErrorKind::Unavailable } else { ErrorKind::Internal };
        Self::new(kind, "the task store is not available")
    }
}

impl From<PutError> for A2aError {
    fn from(error: PutError) -> Self {
        match error {
            PutError::Store(error) => error.into(),
            PutError::Conflict(_) => Self::new(ErrorKind::Unavailable, "another server is running this task"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_reasons_are_those_of_the_protocol() {
        for (kind, code, status, reason) in [
            (ErrorKind::TaskNotFound, -32001, 404, Some("TASK_NOT_FOUND")),
            (ErrorKind::NotCancelable, -32002, 400, Some("TASK_NOT_CANCELABLE")),
            (ErrorKind::NoPush, -32003, 400, Some("PUSH_NOTIFICATION_NOT_SUPPORTED")),
            (ErrorKind::Unsupported, -32004, 400, Some("UNSUPPORTED_OPERATION")),
            (ErrorKind::Version, -32009, 400, Some("VERSION_NOT_SUPPORTED")),
            (ErrorKind::Unavailable, -32603, 503, None),
            (ErrorKind::InvalidParams, -32602, 400, Some("INVALID_PARAMS")),
        ] {
            assert_eq!((kind.code(), kind.status().as_u16(), kind.words().1), (code, status, reason));
        }
        let old = A2aError::no_task("x").to_rpc(Version::Old);
        assert_eq!(old, json!({"code": -32001, "message": "Task not found: x"}));
        let one = A2aError::no_task("x").to_rpc(Version::One);
        assert_eq!(one["data"][0]["domain"], "a2a-protocol.org");
    }
}
