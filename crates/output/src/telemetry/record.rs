//! Log records: functions from an event's values to the JSON that upstream writes for it.
//!
//! Texts pass through [`Texts`], so that a record cannot contain a prompt that the settings leave out. Nothing here
//! touches a file or a clock.

use pollux_domain::JsonObject;
use pollux_domain::event::{CallReport, Discarded, HookReport, RequestEnded, RequestSent};
use pollux_domain::model::{ModelError, Wait};
use pollux_domain::time::Timestamp;
use pollux_domain::tool::Display;
use serde_json::{Map, Value, json};

use crate::stats::millis;

const PREFIX: &str = "gemini_cli.";

/// Whose records these are.
#[derive(Debug, Clone)]
pub struct Identity {
    pub session: String,
    /// The provider that the session starts with.
    pub provider: String,
    pub installation: Option<String>,
    pub version: String,
    pub interactive: bool,
    pub auth_type: Option<String>,
}

/// Whether prompts, arguments and answers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Texts {
    Written,
    LeftOut,
}

impl Texts {
    pub(super) fn when(allowed: bool) -> Self {
        if allowed { Self::Written } else { Self::LeftOut }
    }
}

/// The settings worth recording; no secrets among them.
#[derive(Debug, Clone, Default)]
pub struct Configuration {
    pub model: String,
    pub sandbox: bool,
    pub core_tools: Vec<String>,
    pub approval_mode: String,
    pub api_key: bool,
    pub vertex: bool,
    pub respect_git_ignore: bool,
    pub debug: bool,
    pub output_format: String,
}

/// One log record before it gets its time and place.
pub(super) struct Record {
    pub(super) name: String,
    pub(super) body: String,
    own: JsonObject,
    pub(super) is_error: bool,
}

impl Record {
    fn new(name: &str, body: impl Into<String>, attributes: Value) -> Self {
        let attributes = match attributes {
            Value::Object(attributes) => attributes,
            _ => Map::new(),
        };
        Self { name: format!("{PREFIX}{name}"), body: body.into(), own: attributes, is_error: false }
    }

    /// Adds an attribute if there is a value.
    fn with(mut self, name: &str, value: Option<impl Into<Value>>) -> Self {
        if let Some(value) = value {
            self.own.insert(name.to_owned(), value.into());
        }
        self
    }

    /// Adds a text that may only be written on request.
    fn with_text(self, name: &str, texts: Texts, text: impl FnOnce() -> String) -> Self {
        let text = (texts == Texts::Written).then(text);
        self.with(name, text)
    }

    /// What it tells, and whose it is.
    pub(super) fn attributes(&self, identity: &Identity, at: Timestamp) -> JsonObject {
        let mut attributes = Map::new();
        attributes.insert("session.id".into(), identity.session.as_str().into());
        if let Some(installation) = &identity.installation {
            attributes.insert("installation.id".into(), installation.as_str().into());
        }
        attributes.insert("interactive".into(), identity.interactive.into());
        if let Some(auth_type) = &identity.auth_type {
            attributes.insert("auth_type".into(), auth_type.as_str().into());
        }
        attributes.insert("event.name".into(), self.name.as_str().into());
        attributes.insert("event.timestamp".into(), at.to_iso().into());
        attributes.extend(self.own.clone());
        attributes
    }

    pub(super) fn to_json(&self, identity: &Identity, at: Timestamp) -> Value {
        json!({
            "hrTime": high_resolution(at),
            "hrTimeObserved": high_resolution(at),
            "resource": resource(identity),
            "instrumentationScope": {"name": "gemini-cli"},
            "attributes": self.attributes(identity, at),
            "_body": self.body,
        })
    }
}

/// Seconds and nanoseconds.
pub(super) fn high_resolution(at: Timestamp) -> Value {
    json!([at.millis().div_euclid(1000), at.millis().rem_euclid(1000) * 1_000_000])
}

pub(super) fn resource(identity: &Identity) -> Value {
    json!({"attributes": {
        "service.name": "gemini-cli",
        "service.version": identity.version,
        "session.id": identity.session,
    }})
}

pub(super) fn configuration(given: &Configuration, texts: Texts) -> Record {
    let attributes = json!({
        "model": given.model,
        "sandbox_enabled": given.sandbox,
        "core_tools_enabled": given.core_tools.join(","),
        "approval_mode": given.approval_mode,
        "api_key_enabled": given.api_key,
        "vertex_ai_enabled": given.vertex,
        "log_user_prompts_enabled": texts == Texts::Written,
        "file_filtering_respect_git_ignore": given.respect_git_ignore,
        "debug_mode": given.debug,
        "mcp_servers": "",
        "mcp_servers_count": 0,
        "mcp_tools": "",
        "mcp_tools_count": 0,
        "output_format": given.output_format,
        "extensions": "",
        "extensions_count": 0,
        "extension_ids": "",
        "worktree_active": false,
    });
    Record::new("config", "CLI configuration loaded.", attributes)
}

pub(super) fn user_prompt(typed: &str, prompt_id: &str, texts: Texts) -> Record {
    let length = typed.chars().count();
    let attributes = json!({"prompt_length": length, "prompt_id": prompt_id});
    Record::new("user_prompt", format!("User prompt. Length: {length}."), attributes).with_text(
        "prompt",
        texts,
        || typed.to_owned(),
    )
}

pub(super) fn api_request(sent: &RequestSent, texts: Texts) -> Record {
    let attributes = json!({"model": sent.model, "prompt_id": sent.prompt_id, "role": sent.role.as_str()});
    Record::new("api_request", format!("API request to {}.", sent.model), attributes).with_text(
        "request_text",
        texts,
        || Value::Array(sent.contents.iter().map(|content| content.to_json()).collect()).to_string(),
    )
}

pub(super) fn api_response(ended: &RequestEnded, texts: Texts) -> Record {
    let model = ended.model_version.as_deref().unwrap_or(&ended.model);
    let took = millis(ended.duration);
    let reasons: Vec<&str> = ended.finish.iter().map(|finish| finish.reason.as_str()).collect();
    let attributes = json!({
        "model": model,
        "duration_ms": took,
        "status_code": 200,
        "http.status_code": 200,
        "input_token_count": ended.usage.input,
        "output_token_count": ended.usage.output,
        "cached_content_token_count": ended.usage.cached,
        "thoughts_token_count": ended.usage.reasoning,
        "tool_token_count": ended.usage.tool_input,
        "total_token_count": ended.usage.total,
        "prompt_id": ended.prompt_id,
        "finish_reasons": reasons,
        "role": ended.role.as_str(),
    });
    Record::new("api_response", format!("API response from {model}. Duration: {took}ms."), attributes)
        .with_text("response_text", texts, || ended.text.clone())
}

/// The same by OpenTelemetry's conventions for generative models, whose names have no prefix of ours.
pub(super) fn operation_details(ended: &RequestEnded, texts: Texts) -> Record {
    let model = ended.model_version.as_deref().unwrap_or(&ended.model);
    let took = millis(ended.duration);
    let reason = ended.finish.as_ref().map(|finish| finish.reason.as_str().to_lowercase());
    let attributes = json!({
        "gen_ai.operation.name": "generate_content",
        "gen_ai.request.model": ended.model,
        "gen_ai.response.model": model,
        "gen_ai.response.finish_reasons": reason.iter().collect::<Vec<_>>(),
        "gen_ai.usage.input_tokens": ended.usage.input,
        "gen_ai.usage.output_tokens": ended.usage.output,
    });
    let body = format!("GenAI operation details from {model}. Status: 200. Duration: {took}ms.");
    let record = Record::new("", body, attributes).with_text("gen_ai.output.messages", texts, || {
        let parts = [json!({"type": "text", "content": ended.text})];
        json!([{"finish_reason": reason, "role": "system", "parts": parts}]).to_string()
    });
    Record { name: "gen_ai.client.inference.operation.details".to_owned(), ..record }
}

pub(super) fn api_error(ended: &RequestEnded, error: &ModelError) -> Record {
    let took = millis(ended.duration);
    let attributes = json!({
        "model": ended.model,
        "model_name": ended.model,
        "error": error.message,
        "error.message": error.message,
        "error.type": format!("{:?}", error.kind),
        "duration": took,
        "duration_ms": took,
        "prompt_id": ended.prompt_id,
        "role": ended.role.as_str(),
    });
    let body = format!("API error for {}. Error: {}. Duration: {took}ms.", ended.model, error.message);
    let record = Record::new("api_error", body, attributes)
        .with("status_code", error.status)
        .with("http.status_code", error.status);
    Record { is_error: true, ..record }
}

pub(super) fn network_retry(wait: &Wait, model: &str) -> Record {
    let attributes = json!({
        "attempt": wait.attempt,
        "max_attempts": wait.max_attempts,
        "error_type": wait.status.map_or_else(|| "network".to_owned(), |status| status.to_string()),
        "delay_ms": millis(wait.delay),
        "model": model,
    });
    let body = format!("Network retry attempt {}/{} for {model}.", wait.attempt, wait.max_attempts);
    Record::new("network_retry_attempt", body, attributes)
}

pub(super) fn content_retry(discarded: &Discarded, model: &str) -> Record {
    match discarded.retry_in {
        Some(delay) => {
            let attributes = json!({
                "attempt_number": discarded.attempt,
                "error_type": discarded.reason,
                "retry_delay_ms": millis(delay),
                "model": model,
            });
            let body = format!("Content retry attempt {} due to {}.", discarded.attempt, discarded.reason);
            Record::new("chat.content_retry", body, attributes)
        }
        None => {
            let attributes = json!({
                "total_attempts": discarded.attempt,
                "final_error_type": discarded.reason,
                "model": model,
            });
            let body = format!("All content retries failed after {} attempts.", discarded.attempt);
            Record::new("chat.content_retry_failure", body, attributes)
        }
    }
}

pub(super) fn tool_call(report: &CallReport, texts: Texts) -> Record {
    let success = report.outcome.succeeded();
    let took = millis(report.duration);
    let decision = report.decision.map(|decision| decision.as_str());
    let attributes = json!({
        "function_name": report.name,
        "duration_ms": took,
        "success": success,
        "prompt_id": report.prompt_id,
        "tool_type": "native",
        "content_length": report.answer.chars().count(),
    });
    let decided = decision.map(|word| format!(" Decision: {word}.")).unwrap_or_default();
    let body = format!("Tool call: {}.{decided} Success: {success}. Duration: {took}ms.", report.name);
    let (kind, message) = match report.outcome.failure() {
        Some(failure) => (Some(failure.kind.as_str()), Some(failure.message.as_str())),
        None => (None, None),
    };
    Record::new("tool_call", body, attributes)
        .with("decision", decision)
        .with("error", message)
        .with("error.message", message)
        .with("error_type", kind)
        .with("error.type", kind)
        .with("metadata", change(&report.display))
        .with_text("function_args", texts, || format!("{:#}", Value::Object(report.args.clone())))
}

/// How much the model changed in a file, as a JSON text.
fn change(display: &Display) -> Option<String> {
    let Display::Diff(diff) = display else { return None };
    let stat = diff.stat;
    let object = json!({
        "model_added_lines": stat.added_lines,
        "model_removed_lines": stat.removed_lines,
        "model_added_chars": stat.added_chars,
        "model_removed_chars": stat.removed_chars,
        "user_added_lines": 0,
        "user_removed_lines": 0,
        "user_added_chars": 0,
        "user_removed_chars": 0,
    });
    Some(object.to_string())
}

/// A file that was created, changed or read, as far as the call tells.
pub(super) fn file_operation(report: &CallReport) -> Option<Record> {
    if !report.outcome.succeeded() {
        return None;
    }
    let (operation, lines, path) = match &report.display {
        Display::Diff(diff) => {
            let operation = if diff.before.is_none() { "create" } else { "update" };
            (operation, Some(diff.after.lines().count()), diff.path.clone())
        }
        Display::Nothing | Display::Text(_) if report.name == "read_file" => {
            ("read", None, report.args.get("file_path")?.as_str()?.into())
        }
        Display::Nothing
        | Display::Text(_)
        | Display::List { .. }
        | Display::Agent(_)
        | Display::Todos(_) => {
            return None;
        }
    };
    let extension = path.extension().map(|extension| format!(".{}", extension.to_string_lossy()));
    let attributes = json!({"tool_name": report.name, "operation": operation});
    let record = Record::new("file_operation", format!("File operation: {operation}."), attributes);
    Some(record.with("lines", lines).with("extension", extension))
}

pub(super) fn compression(before: u64, after: u64) -> Record {
    let body = format!("Chat compression (Saved {} tokens)", before.saturating_sub(after));
    Record::new("chat_compression", body, json!({"tokens_before": before, "tokens_after": after}))
}

pub(super) fn hook_call(report: &HookReport, texts: Texts) -> Record {
    // A command line may hold anything, also a key.
    let name = match texts {
        Texts::Written => report.hook.as_str(),
        Texts::LeftOut => short_hook_name(&report.hook),
    };
    let took = millis(report.duration);
    let success = report.error.is_none();
    let attributes = json!({
        "hook_event_name": report.event,
        "hook_type": "command",
        "hook_name": name,
        "duration_ms": took,
        "success": success,
        "exit_code": report.exit_code.unwrap_or_default(),
    });
    let how = if success { "succeeded" } else { "failed" };
    let pretty = |object: &JsonObject| format!("{:#}", Value::Object(object.clone()));
    Record::new("hook_call", format!("Hook call {}.{name} {how} in {took}ms", report.event), attributes)
        .with("error", report.error.as_deref())
        .with_text("hook_input", texts, || pretty(&report.input))
        .with_text("hook_output", texts, || pretty(&report.output))
        .with_text("stdout", texts, || report.stdout.clone())
        .with_text("stderr", texts, || report.stderr.clone())
}

/// The last part of the path of the first word: what runs, without its arguments.
pub(super) fn short_hook_name(name: &str) -> &str {
    let word = name.split_whitespace().next().unwrap_or_default();
    match word.rsplit(['/', '\\']).next() {
        Some(last) if !last.is_empty() => last,
        Some(_) | None => "unknown-command",
    }
}

/// Upstream writes this one without its prefix.
pub(super) fn loop_detected(prompt_id: &str) -> Record {
    let record = Record::new("", "Loop detected.", json!({"prompt_id": prompt_id}));
    Record { name: "loop_detected".to_owned(), ..record }
}

pub(super) fn conversation_finished(approval_mode: &str, prompts: u64) -> Record {
    let attributes = json!({"approvalMode": approval_mode, "turnCount": prompts});
    Record::new("conversation_finished", "Conversation finished.", attributes)
}
