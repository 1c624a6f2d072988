//! The rules a request must keep, checked more strictly than the API does.

use std::collections::HashSet;

use serde_json::Value;

const TOP_LEVEL: &[&str] = &[
    "model",
    "instructions",
    "input",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "stream",
    "store",
    "include",
    "reasoning",
    "text",
    "max_output_tokens",
    "prompt_cache_key",
    "truncation",
    "temperature",
    "top_p",
    "metadata",
    "service_tier",
];
const COUNTED: &[&str] = &["model", "instructions", "input", "tools"];
const EFFORTS: &[&str] = &["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// Checks a request for a reply; on failure every broken rule is named.
pub fn validate_responses_request(body: &Value) -> Result<(), Vec<String>> {
    let mut problems = Vec::new();
    check_keys(body, TOP_LEVEL, &mut problems);
    for (key, wanted) in [("stream", true), ("store", false)] {
        if body[key] != wanted {
            problems.push(format!("`{key}` must be {wanted}, is {}", body[key]));
        }
    }
    check_common(body, &mut problems);
    check_choice(body, &mut problems);
    if let Some(effort) = body["reasoning"]["effort"].as_str()
        && !EFFORTS.contains(&effort)
    {
        problems.push(format!("unknown effort `{effort}`"));
    }
    if body["max_output_tokens"].as_u64().is_some_and(|limit| limit < 16) {
        problems.push("`max_output_tokens` is below 16".into());
    }
    if !body["text"].is_null() && !body["text"]["format"]["type"].is_string() {
        problems.push("`text` has no format".into());
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Checks a request to count tokens.
pub(super) fn validate_count(body: &Value) -> Result<(), Vec<String>> {
    let mut problems = Vec::new();
    check_keys(body, COUNTED, &mut problems);
    check_common(body, &mut problems);
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn check_keys(body: &Value, known: &[&str], problems: &mut Vec<String>) {
    let Some(fields) = body.as_object() else {
        problems.push("the body is not an object".into());
        return;
    };
    for (key, value) in fields {
        if !known.contains(&key.as_str()) {
            problems.push(format!("unknown field `{key}`"));
        }
        if value.is_null() {
            problems.push(format!("`{key}` is null"));
        }
    }
}

fn check_common(body: &Value, problems: &mut Vec<String>) {
    if body["model"].as_str().is_none_or(str::is_empty) {
        problems.push("no model".into());
    }
    let items = body["input"].as_array().map(Vec::as_slice).unwrap_or_default();
    if items.is_empty() {
        problems.push("no input".into());
    }
    for (index, item) in items.iter().enumerate() {
        let before = problems.len();
        check_item(item, items.get(index + 1), problems);
        for problem in problems.iter_mut().skip(before) {
            *problem = format!("input[{index}]: {problem}");
        }
    }
    check_pairs(items, problems);
    check_tools(body, problems);
}

fn check_item(item: &Value, next: Option<&Value>, problems: &mut Vec<String>) {
    match item["type"].as_str().unwrap_or_default() {
        "message" => check_message(item, problems),
        "function_call" => {
            check_id(&item["call_id"], problems);
            check_name(&item["name"], problems);
            let arguments = item["arguments"].as_str().unwrap_or_default();
            if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
                problems.push(format!("arguments are no JSON object: {arguments:?}"));
            }
        }
        "function_call_output" => {
            check_id(&item["call_id"], problems);
            match &item["output"] {
                Value::String(_) => {}
                Value::Array(pieces) if !pieces.is_empty() => {
                    pieces.iter().for_each(|piece| check_piece(piece, problems));
                }
                other => problems.push(format!("an output that is neither text nor a list: {other}")),
            }
        }
        "reasoning" => {
            if item["id"].as_str().is_none_or(str::is_empty) || !item["summary"].is_array() {
                problems.push("reasoning without id or summary".into());
            }
            if item["encrypted_content"].as_str().is_none_or(str::is_empty) {
                problems.push("reasoning without encrypted content would be looked for on the server".into());
            }
            let led_to = next.map(|next| (&next["type"], &next["role"]));
            let own = led_to.is_some_and(|(kind, role)| {
                kind == "function_call" || kind == "reasoning" || kind == "message" && role == "assistant"
            });
            if !own {
                problems.push("reasoning without the item it led to".into());
            }
        }
        "compaction" => {}
        other => problems.push(format!("unknown type `{other}`")),
    }
}

fn check_message(item: &Value, problems: &mut Vec<String>) {
    let role = item["role"].as_str().unwrap_or_default();
    match (&item["content"], role) {
        (Value::String(text), "user" | "assistant" | "system" | "developer") if !text.is_empty() => {}
        (Value::Array(pieces), "user" | "system" | "developer") if !pieces.is_empty() => {
            pieces.iter().for_each(|piece| check_piece(piece, problems));
        }
        (content, role) => problems.push(format!("message of `{role}` with content {content}")),
    }
    let phase = &item["phase"];
    if !phase.is_null() && (role != "assistant" || phase != "commentary" && phase != "final_answer") {
        problems.push(format!("phase {phase} of a message of `{role}`"));
    }
}

fn check_piece(piece: &Value, problems: &mut Vec<String>) {
    match piece["type"].as_str().unwrap_or_default() {
        "input_text" if piece["text"].as_str().is_some_and(|text| !text.is_empty()) => {}
        "input_image" if piece["image_url"].is_string() && piece["detail"].is_string() => {}
        "input_file" if piece["file_url"].is_string() => {}
        "input_file" if piece["file_data"].is_string() && piece["filename"].is_string() => {}
        _ => problems.push(format!("not a valid piece: {piece}")),
    }
}

fn check_id(id: &Value, problems: &mut Vec<String>) {
    let id = id.as_str().unwrap_or_default();
    if id.is_empty() || id.len() > 64 || id.contains("__") {
        problems.push(format!("call id `{id}` is empty, too long or internal"));
    }
}

fn check_name(name: &Value, problems: &mut Vec<String>) {
    let name = name.as_str().unwrap_or_default();
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > 64 || !name.chars().all(legal) {
        problems.push(format!("tool name `{name}` is not legal"));
    }
}

/// Every call has one answer after it, and every answer a call before it.
fn check_pairs(items: &[Value], problems: &mut Vec<String>) {
    let mut open = HashSet::new();
    let mut seen = HashSet::new();
    for item in items {
        let id = item["call_id"].as_str().unwrap_or_default();
        match item["type"].as_str().unwrap_or_default() {
            "function_call" if !seen.insert(id) => problems.push(format!("two calls have the id `{id}`")),
            "function_call" => {
                open.insert(id);
            }
            "function_call_output" if !open.remove(id) => {
                problems.push(format!("no tool call found for the output of `{id}`"));
            }
            _ => {}
        }
    }
    problems.extend(open.into_iter().map(|id| format!("no tool output found for the call `{id}`")));
}

fn check_tools(body: &Value, problems: &mut Vec<String>) {
    let mut names = HashSet::new();
    for tool in body["tools"].as_array().map(Vec::as_slice).unwrap_or_default() {
        match tool["type"].as_str().unwrap_or_default() {
            "web_search" => continue,
            "function" => {}
            other => problems.push(format!("unknown type of tool `{other}`")),
        }
        check_name(&tool["name"], problems);
        if !names.insert(tool["name"].as_str().unwrap_or_default()) {
            problems.push(format!("tool {} is declared twice", tool["name"]));
        }
        if !tool["strict"].is_boolean() {
            problems.push(format!("tool {} does not say whether it is strict", tool["name"]));
        }
        if tool["parameters"]["type"] != "object" || !tool["parameters"]["properties"].is_object() {
            problems.push(format!("the schema of tool {} is not one of an object", tool["name"]));
        }
    }
}

fn check_choice(body: &Value, problems: &mut Vec<String>) {
    let has_tools = body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
    let choice = &body["tool_choice"];
    let sound = match choice {
        Value::Null => true,
        Value::String(word) => matches!(word.as_str(), "auto" | "none" | "required"),
        other => match other["type"].as_str() {
            Some("function") => other["name"].is_string(),
            Some("allowed_tools") => other["tools"].is_array() && other["mode"].is_string(),
            _ => false,
        },
    };
    if !sound {
        problems.push(format!("not a valid tool choice: {choice}"));
    }
    if !has_tools && (!choice.is_null() || !body["parallel_tool_calls"].is_null()) {
        problems.push("a choice of tools without tools".into());
    }
}
