//! A scripted model for tests that drive the program over pipes.

use std::path::Path;

use pollux_test_support::TestHome;
use serde_json::{Value, json};

/// A home whose project is trusted, where only the script decides what the model says.
pub(crate) fn home() -> TestHome {
    TestHome::new()
        .env("GEMINI_CLI_TRUST_WORKSPACE", "true")
        .settings(json!({"general": {"sessionSummaries": false}}))
}

pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_pollux"))
}

/// A reply of the scripted model.
pub(crate) fn reply(parts: &[Value]) -> String {
    let chunk = json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
    });
    json!({"method": "generateContentStream", "response": [chunk]}).to_string() + "\n"
}

pub(crate) fn says(text: &str) -> String {
    reply(&[json!({"text": text})])
}

pub(crate) fn calls(name: &str, args: Value) -> String {
    reply(&[json!({"functionCall": {"name": name, "args": args}})])
}
