//! Errors as JSON-RPC sends them.

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::model::{ModelError, ModelErrorKind};
use pollux_domain::redact::redacted;
use serde_json::{Value, json};

/// An error answer.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    pub code: i32,
    pub message: String,
    pub data: Option<Value>,
}

impl RpcError {
    pub fn new(code: i32, message: impl Into<String>, data: Option<Value>) -> Self {
        Self { code, message: redacted(&message.into()).into_owned(), data }
    }

    /// The line is not JSON.
    pub fn parse(why: impl Into<String>) -> Self {
        Self::new(-32700, why, None)
    }

    /// It is JSON, but not a request that can be served now.
    pub fn invalid_request(why: impl Into<String>) -> Self {
        Self::new(-32600, why, None)
    }

    pub fn no_such_method(method: &str) -> Self {
        Self::new(-32601, format!("Method not found: {method}"), Some(json!({"method": method})))
    }

    pub fn invalid_params(field: &str, why: impl Into<String>) -> Self {
        Self::new(-32602, why, Some(json!({"field": field})))
    }

    pub fn internal(why: impl Into<String>) -> Self {
        Self::new(-32603, why, None)
    }

    pub fn cancelled() -> Self {
        Self::new(-32800, "Request cancelled", None)
    }

    /// Clients look for these words.
    pub fn no_such_session(session: &str) -> Self {
        Self::new(-32002, format!("Session not found: {session}"), Some(json!({"sessionId": session})))
    }

    pub fn auth_required(message: impl Into<String>, data: Option<Value>) -> Self {
        Self::new(-32000, message, data)
    }

    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// What was received as the error of an answer.
    pub fn from_json(error: &Value) -> Self {
        let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
        let message = error.get("message").and_then(Value::as_str).unwrap_or("no message");
        Self::new(code.unwrap_or(-32603), message, error.get("data").cloned())
    }

    pub fn to_json(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let (Some(data), Some(fields)) = (&self.data, error.as_object_mut()) {
            fields.insert("data".to_owned(), data.clone());
        }
        error
    }
}

impl From<&Failure> for RpcError {
    fn from(failure: &Failure) -> Self {
        let hint = failure.hint.as_ref().map(|hint| json!({"hint": redacted(hint)}));
        match failure.exit {
            ExitKind::Auth => Self::auth_required(failure.message(), hint),
            ExitKind::Input => Self::new(-32602, failure.message(), hint),
            _ => Self::new(-32603, failure.message(), hint),
        }
    }
}

impl From<&ModelError> for RpcError {
    fn from(error: &ModelError) -> Self {
        let details = &error.details;
        let data = json!({
            "kind": format!("{:?}", error.kind).split([' ', '{']).next().unwrap_or_default(),
            "status": error.status,
            "retryAfter": details.retry_after.map(|wait| wait.as_secs_f64()),
            "details": {
                "provider": details.provider.as_ref().map(|provider| provider.as_str().to_owned()),
                "code": details.code,
                "requestId": details.request_id,
            },
        });
        match error.kind {
            ModelErrorKind::Auth => Self::auth_required(error.message.clone(), Some(data)),
            _ => Self::new(-32603, error.message.clone(), Some(data)),
        }
    }
}
