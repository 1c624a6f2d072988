//! What servers of the dialect refuse, the strictest of them included.

use std::collections::HashSet;

use serde_json::Value;

const FIELDS: &[&str] = &[
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "stream",
    "stream_options",
    "max_completion_tokens",
    "max_tokens",
    "reasoning_effort",
    "reasoning",
    "temperature",
    "top_p",
    "stop",
    "seed",
    "response_format",
    "prompt_cache_key",
    "store",
];

/// Checks a request; all that is wrong with it.
pub fn validate(body: &Value) -> Result<(), Vec<String>> {
    let mut problems = Vec::new();
    if body["model"].as_str().is_none_or(str::is_empty) {
        problems.push("`model` is missing".to_owned());
    }
    if body["stream"] != true {
        problems.push("`stream` is not true".to_owned());
    }
    let fields = body.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
    problems.extend(fields.filter(|key| !FIELDS.contains(key)).map(|key| format!("unknown field `{key}`")));
    if body.to_string().contains("\"pollux\"") {
        problems.push("the program's own bookkeeping is sent".to_owned());
    }
    tools(body, &mut problems);
    match body["messages"].as_array().map(Vec::as_slice) {
        None | Some([]) => problems.push("`messages` is missing or empty".to_owned()),
        Some(all) => messages(all, &mut problems),
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn is_name(text: Option<&str>) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.is_some_and(|text| (1..=64).contains(&text.len()) && text.chars().all(legal))
}

fn tools(body: &Value, problems: &mut Vec<String>) {
    let Some(tools) = body.get("tools") else {
        for key in ["tool_choice", "parallel_tool_calls"] {
            if body.get(key).is_some() {
                problems.push(format!("`{key}` without tools"));
            }
        }
        return;
    };
    let tools = tools.as_array().map(Vec::as_slice).unwrap_or_default();
    if tools.is_empty() {
        problems.push("`tools` is empty".to_owned());
    }
    let mut names = HashSet::new();
    for tool in tools {
        let function = &tool["function"];
        let name = function["name"].as_str();
        if tool["type"] != "function" || !is_name(name) || !names.insert(name) {
            problems.push(format!("bad tool {name:?}"));
        }
        let schema = &function["parameters"];
        if schema["type"] != "object" || !schema["properties"].is_object() {
            problems.push(format!("the schema of {name:?} is no object"));
        }
        if ["$schema", "$id", "title"].iter().any(|key| schema.get(*key).is_some()) {
            problems.push(format!("the schema of {name:?} has words that servers refuse"));
        }
    }
}

fn messages(all: &[Value], problems: &mut Vec<String>) {
    let mut ids = HashSet::new();
    let mut due: Vec<&str> = Vec::new();
    let mut before = "";
    for (index, message) in all.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        let mut problem = |text: &str| problems.push(format!("message {index} ({role}): {text}"));
        if role != "tool" && !std::mem::take(&mut due).is_empty() {
            problem("calls before it are not answered");
        }
        match role {
            "system" if index == 0 && message["content"].as_str().is_some_and(|text| !text.is_empty()) => {}
            "user" if before != "user" => {
                if !is_content(&message["content"]) {
                    problem("bad content");
                }
            }
            "assistant" if before != "assistant" => {
                let calls = message.get("tool_calls").and_then(Value::as_array);
                let calls = calls.map(Vec::as_slice).unwrap_or_default();
                let text = message["content"].as_str().is_some_and(|text| !text.is_empty());
                if !(text || message["content"].is_null() && !calls.is_empty()) {
                    problem("empty");
                }
                for call in calls {
                    let id = call["id"].as_str();
                    let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
                    let object =
                        serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object());
                    if call["type"] != "function" || !is_name(call["function"]["name"].as_str()) || !object {
                        problem("bad call");
                    }
                    if !is_name(id) || !ids.insert(id.unwrap_or_default()) {
                        problem("bad or repeated id of a call");
                    }
                    due.push(id.unwrap_or_default());
                }
            }
            "tool" => {
                let id = message["tool_call_id"].as_str();
                if due.is_empty() || id != Some(due.remove(0)) {
                    problem("answers no call, or in another order");
                }
                if !message["content"].is_string() {
                    problem("content is no text");
                }
            }
            _ => problem("does not fit here"),
        }
        before = role;
    }
    if !due.is_empty() {
        problems.push("the last calls are not answered".to_owned());
    }
}

fn is_content(content: &Value) -> bool {
    let known = |piece: &Value| match piece["type"].as_str() {
        Some("text") => piece["text"].as_str().is_some_and(|text| !text.is_empty()),
        Some("image_url") => piece["image_url"]["url"].is_string(),
        Some("file") => piece["file"]["file_data"].is_string(),
        Some("input_audio") => piece["input_audio"]["data"].is_string(),
        _ => false,
    };
    match content {
        Value::String(text) => !text.is_empty(),
        Value::Array(pieces) => !pieces.is_empty() && pieces.iter().all(known),
        _ => false,
    }
}
