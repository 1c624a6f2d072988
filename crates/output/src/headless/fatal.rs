//! The object that gemini-cli prints on stderr when `json` output was asked for.

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use serde_json::{Value, json};

/// Upstream's name for the class of error.
pub(crate) fn upstream_class(exit: ExitKind) -> &'static str {
    match exit {
        ExitKind::Input => "FatalInputError",
        ExitKind::Sandbox => "FatalSandboxError",
        ExitKind::Config => "FatalConfigError",
        ExitKind::TurnLimit => "FatalTurnLimitedError",
        ExitKind::Tool => "FatalToolExecutionError",
        ExitKind::Untrusted => "FatalUntrustedWorkspaceError",
        ExitKind::Cancelled | ExitKind::Signal(_) => "FatalCancellationError",
        ExitKind::Success | ExitKind::Failure | ExitKind::Auth => "Error",
    }
}

/// A failure as that object.
pub(crate) fn upstream_object(failure: &Failure, session: Option<&str>) -> Value {
    fatal_object(session, upstream_class(failure.exit), &failure.message(), failure.exit.code().into())
}

/// `{"session_id", "error": {type, message, code}}`; the session is left out while there is none.
pub(crate) fn fatal_object(session: Option<&str>, class: &str, message: &str, code: u16) -> Value {
    let mut object = serde_json::Map::new();
    if let Some(session) = session {
        object.insert("session_id".into(), session.into());
    }
    object.insert("error".into(), json!({"type": class, "message": message, "code": code}));
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upstream_object_names_class_and_code() {
        let object = upstream_object(&Failure::new(ExitKind::Input, "bad"), Some("s1"));
        assert_eq!(
            object.to_string(),
            r#"{"session_id":"s1","error":{"type":"FatalInputError","message":"bad","code":42}}"#
        );
        let early = upstream_object(&Failure::new(ExitKind::Auth, "no key"), None);
        assert_eq!(early.to_string(), r#"{"error":{"type":"Error","message":"no key","code":41}}"#);
    }
}
