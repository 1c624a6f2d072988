//! Checks messages against the published JSON schema, as far as that schema goes.

use std::path::Path;
use std::sync::OnceLock;

use serde_json::{Map, Value};

/// The schema with the unstable methods, which contains the stable one; `None`, and a line that says so, where it is not
/// installed.
fn schema() -> Option<&'static Value> {
    static SCHEMA: OnceLock<Option<Value>> = OnceLock::new();
    SCHEMA
        .get_or_init(|| {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../../target/acp-peers/node_modules/@agentclientprotocol/sdk/schema/v1");
            let text = std::fs::read(folder.join("schema.unstable.json")).ok();
            if text.is_none() {
                use std::io::Write as _;
                let _ = writeln!(
                    std::io::stderr(),
                    "not validated: scripts/acp-peers.sh has not installed the schema"
                );
            }
            text.map(|text| serde_json::from_slice(&text).unwrap())
        })
        .as_ref()
}

/// The schema's name for the result of a method.
fn result_of(method: &str) -> Option<&'static str> {
    Some(match method {
        "initialize" => "InitializeResponse",
        "authenticate" => "AuthenticateResponse",
        "logout" => "LogoutResponse",
        "auth/status" => "AuthStatusResponse",
        "session/new" => "NewSessionResponse",
        "session/load" => "LoadSessionResponse",
        "session/resume" => "ResumeSessionResponse",
        "session/fork" => "ForkSessionResponse",
        "session/list" => "ListSessionsResponse",
        "session/delete" => "DeleteSessionResponse",
        "session/close" => "CloseSessionResponse",
        "session/status" => "SessionStatusResponse",
        "session/set_title" => "SetSessionTitleResponse",
        "session/set_mode" => "SetSessionModeResponse",
        "session/set_config_option" => "SetSessionConfigOptionResponse",
        "session/prompt" => "PromptResponse",
        _ => return None,
    })
}

/// The schema's name for the parameters of what the program sends.
fn params_of(method: &str) -> Option<&'static str> {
    Some(match method {
        "session/update" => "SessionNotification",
        "session/request_permission" => "RequestPermissionRequest",
        "elicitation/create" => "CreateElicitationRequest",
        "elicitation/complete" => "CompleteElicitationNotification",
        "fs/read_text_file" => "ReadTextFileRequest",
        "fs/write_text_file" => "WriteTextFileRequest",
        "mcp/message" => "MessageMcpRequest",
        "terminal/create" => "CreateTerminalRequest",
        "terminal/kill" => "KillTerminalRequest",
        "terminal/output" => "TerminalOutputRequest",
        "terminal/release" => "ReleaseTerminalRequest",
        "terminal/wait_for_exit" => "WaitForTerminalExitRequest",
        "$/cancel_request" => "CancelRequestNotification",
        _ => return None,
    })
}

/// Panics if a message of the program is not what the schema says. `asked` is the method that it answers.
pub(crate) fn check(message: &Value, asked: Option<&str>) {
    let Some(schema) = schema() else { return };
    assert_eq!(message["jsonrpc"], "2.0", "{message}");
    let (value, name) = match (message.get("method").and_then(Value::as_str), message.get("error")) {
        (Some(method), _) => (&message["params"], params_of(method).unwrap_or_else(|| panic!("{message}"))),
        (None, Some(error)) => (error, "Error"),
        (None, None) => match asked.and_then(result_of) {
            Some(name) => (&message["result"], name),
            None => return,
        },
    };
    if let Err(why) = fits(value, &schema["$defs"][name], schema) {
        panic!("not a {name}: {why}\n{message}");
    }
}

fn fits(value: &Value, rule: &Value, root: &Value) -> Result<(), String> {
    let Some(rule) = rule.as_object() else { return Ok(()) };
    if let Some(place) = rule.get("$ref").and_then(Value::as_str) {
        let named = root.pointer(place.trim_start_matches('#')).ok_or_else(|| format!("no {place}"))?;
        fits(value, named, root).map_err(|why| format!("{place}: {why}"))?;
    }
    for part in rule.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        fits(value, part, root)?;
    }
    for (key, only) in [("anyOf", false), ("oneOf", true)] {
        let Some(parts) = rule.get(key).and_then(Value::as_array) else { continue };
        let results: Vec<Result<(), String>> = parts.iter().map(|part| fits(value, part, root)).collect();
        let fitting = results.iter().filter(|result| result.is_ok()).count();
        if fitting == 0 || (only && fitting > 1) {
            let why: Vec<String> = results.into_iter().filter_map(Result::err).collect();
            return Err(format!("{fitting} of {key} fit {value}: {}", why.join(" | ")));
        }
    }
    if rule.get("not").is_some_and(|not| fits(value, not, root).is_ok()) {
        return Err(format!("{value} is excluded"));
    }
    if rule.get("const").is_some_and(|constant| constant != value) {
        return Err(format!("{value} is not {}", rule["const"]));
    }
    if let Some(choices) = rule.get("enum").and_then(Value::as_array)
        && !choices.contains(value)
    {
        return Err(format!("{value} is not among {choices:?}"));
    }
    has_type(value, rule)?;
    members(value, rule, root)
}

fn has_type(value: &Value, rule: &Map<String, Value>) -> Result<(), String> {
    let is = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => false,
    };
    let fits = match rule.get("type") {
        Some(Value::String(name)) => is(name),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(is),
        _ => true,
    };
    let smallest = rule.get("minimum").and_then(Value::as_f64);
    if smallest.zip(value.as_f64()).is_some_and(|(smallest, value)| value < smallest) {
        return Err(format!("{value} is too small"));
    }
    if fits { Ok(()) } else { Err(format!("{value} has not the type {}", rule["type"])) }
}

fn members(value: &Value, rule: &Map<String, Value>, root: &Value) -> Result<(), String> {
    if let (Some(items), Some(rule)) = (value.as_array(), rule.get("items")) {
        for (index, item) in items.iter().enumerate() {
            fits(item, rule, root).map_err(|why| format!("[{index}] {why}"))?;
        }
    }
    let Some(fields) = value.as_object() else { return Ok(()) };
    for needed in rule.get("required").and_then(Value::as_array).into_iter().flatten() {
        if !fields.contains_key(needed.as_str().unwrap()) {
            return Err(format!("{needed} is missing"));
        }
    }
    let known = rule.get("properties").and_then(Value::as_object);
    for (name, field) in fields {
        let rule = match known.and_then(|known| known.get(name)) {
            Some(rule) => rule,
            None => match rule.get("additionalProperties") {
                Some(Value::Bool(false)) => return Err(format!("`{name}` is unknown")),
                Some(rule) => rule,
                None => continue,
            },
        };
        fits(field, rule, root).map_err(|why| format!("{name}: {why}"))?;
    }
    Ok(())
}
