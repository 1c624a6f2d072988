//! What a block means: a call of a tool that there is, with arguments that fit, or what is wrong with it.

use std::sync::Arc;

use pollux_domain::JsonObject;
use pollux_domain::content::{BadArgs, Body, Content, FunctionCall, Role};
use pollux_domain::tool::ToolSpec;
use serde_json::Value;

use super::lenient;

/// Begins every error about a call that could not be read, so that they can be counted later.
const INVALID: &str = "invalid tool call";
/// How many of them in a row end the turn.
pub(super) const MAX_INVALID: usize = 3;

pub(super) const ADVICE: &str = "The model wrote three invalid tool calls in a row, so the turn ends here. \
    Try a larger model, or one whose server supports tool calls.";

/// Whether a text could be a call.
pub(super) fn is_call(text: &str) -> bool {
    lenient::parse(text).is_some_and(|value| value.is_object() || value.is_array())
}

/// Reads a block. A call that cannot be run says why.
pub(super) fn read(text: &str, tools: &[Arc<ToolSpec>]) -> Vec<FunctionCall> {
    match lenient::parse(text) {
        Some(Value::Array(items)) => items.iter().map(|item| one(item, text, tools)).collect(),
        Some(value) => vec![one(&value, text, tools)],
        None => vec![bad("generic_tool", text, format!("{INVALID}: not a JSON object"))],
    }
}

fn one(value: &Value, text: &str, tools: &[Arc<ToolSpec>]) -> FunctionCall {
    let function = value.get("function").filter(|function| function.is_object()).unwrap_or(value);
    let name = ["name", "tool", "function", "tool_name"].iter().find_map(|key| function.get(*key)?.as_str());
    let Some(name) = name else {
        return bad("generic_tool", text, format!("{INVALID}: `name` is missing"));
    };
    let Some(tool) = find(name, tools) else {
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let error = format!("{INVALID}: unknown tool `{name}`; the tools are {}", names.join(", "));
        return bad(name, text, error);
    };
    let given = ["arguments", "parameters", "input", "args"].iter().find_map(|key| function.get(*key));
    let args = match given {
        None | Some(Value::Null) => Some(JsonObject::new()),
        Some(Value::Object(args)) => Some(args.clone()),
        Some(Value::String(text)) => lenient::parse(text).and_then(|value| value.as_object().cloned()),
        Some(_) => None,
    };
    let problem = match &args {
        None => Some("the arguments are not an object".to_owned()),
        Some(args) => misfit(args, &tool.parameters),
    };
    match (args, problem) {
        (Some(args), None) => FunctionCall::new(None, &*tool.name, args),
        (_, problem) => {
            let problem = problem.unwrap_or_default();
            bad(&tool.name, text, format!("{INVALID}: {problem}; the schema is {}", tool.parameters))
        }
    }
}

fn bad(name: &str, raw: &str, error: String) -> FunctionCall {
    let call = FunctionCall::new(None, name, JsonObject::new());
    FunctionCall { bad_args: Some(Box::new(BadArgs { raw: raw.to_owned(), error })), ..call }
}

/// A tool by its name, with or without a namespace that the model invented.
fn find<'a>(name: &str, tools: &'a [Arc<ToolSpec>]) -> Option<&'a Arc<ToolSpec>> {
    let bare = name.rsplit(['.', ':', '/']).next().unwrap_or(name);
    let known = |name: &str| tools.iter().find(|tool| tool.name == name);
    known(name).or_else(|| known(bare))
}

/// What a missing or wrong argument is; anything deeper is for the tool to check.
fn misfit(args: &JsonObject, schema: &Value) -> Option<String> {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let missing = required.filter_map(Value::as_str).find(|name| !args.contains_key(*name));
    if let Some(name) = missing {
        return Some(format!("`{name}` is missing"));
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    args.iter().find_map(|(name, value)| {
        let kind = properties?.get(name)?.get("type")?.as_str()?;
        let fits = match kind {
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" | "number" => value.is_number(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            _ => true,
        };
        (!fits).then(|| format!("`{name}` must be of type {kind}"))
    })
}

/// How many replies at the end of a conversation had only calls that could not be read.
pub(super) fn invalid_in_a_row(contents: &[Arc<Content>]) -> usize {
    let is_invalid = |content: &Content| {
        let mut results = content.parts.iter().filter_map(|part| match &part.body {
            Body::Response(response) => response.response.get("error").map(|error| error.to_string()),
            _ => None,
        });
        let first = results.next();
        first.into_iter().chain(results).all(|error| error.contains(INVALID))
            && content.responses().next().is_some()
            && content.responses().all(|response| response.response.contains_key("error"))
    };
    let turns = contents.iter().rev().filter(|content| content.role == Role::User);
    turns.take_while(|content| is_invalid(content)).count()
}
