//! The body of a request.

use std::collections::BTreeSet;

use pollux_domain::JsonObject;
use pollux_domain::model::{
    Capabilities, Dialect, Effort, GenerationSettings, Grounding, ModelError, ModelRequest, OutputFormat,
    ToolChoice,
};
use pollux_domain::tool::ToolSpec;
use serde_json::{Number, Value, json};

use super::input::Writer;
use crate::shared::body::{Field, RequestBody};
use crate::shared::declarations::{Declaration, Declarations, Form};
use crate::shared::{schema, settings};

/// The name of a schema that has none.
const SCHEMA_NAME: &str = "reply";

/// Fields that are not the user's to change: they would lose the conversation, keep it on the server, or end the
/// stream.
const FIXED: &[&str] =
    &["model", "input", "instructions", "tools", "stream", "store", "previous_response_id", "conversation"];

/// Fields that a server may not know and that a request can do without. `store` is not among them: without it the
/// server would keep the conversation.
const DISPENSABLE: &[&str] = &[
    "temperature",
    "top_p",
    "parallel_tool_calls",
    "tool_choice",
    "include",
    "reasoning",
    "text",
    "max_output_tokens",
    "prompt_cache_key",
    "truncation",
];

/// What a request is written with.
pub(super) struct Plan<'a> {
    /// The concrete model.
    pub(super) model: &'a str,
    pub(super) caps: &'a Capabilities,
    pub(super) writer: Writer<'a>,
    /// Fields that this server refused for this model.
    pub(super) refused: &'a BTreeSet<String>,
    pub(super) declarations: &'a Declarations,
}

/// A request for a reply.
pub(super) fn reply(request: &ModelRequest, plan: &Plan<'_>) -> Result<RequestBody, ModelError> {
    let tools = tools(request, plan);
    let settings = settings::neutral(request);
    let mut rest = fields(&settings, plan, !tools.is_empty());
    if let Some(words) = settings.words_of(&Dialect::RESPONSES) {
        let own = words.iter().filter(|(key, _)| !FIXED.contains(&key.as_str()));
        rest.extend(own.map(|(key, value)| (key.clone(), value.clone())));
    }
    rest.retain(|key, value| !value.is_null() && !plan.refused.contains(key));
    let mut body = conversation(request, plan, tools)?;
    body.insert("stream".into(), json!(true));
    body.insert("store".into(), json!(false));
    body.extend(rest);
    Ok(body)
}

/// A request to count tokens.
pub(super) fn count(request: &ModelRequest, plan: &Plan<'_>) -> Result<RequestBody, ModelError> {
    conversation(request, plan, tools(request, plan))
}

fn conversation(
    request: &ModelRequest,
    plan: &Plan<'_>,
    tools: Vec<Declaration>,
) -> Result<RequestBody, ModelError> {
    let mut body = RequestBody::from([("model", json!(plan.model))]);
    if let Some(text) = request.system.as_deref().filter(|text| !text.is_empty()) {
        body.insert("instructions".into(), json!(text));
    }
    let input = plan.writer.items(request.contents.iter().map(AsRef::as_ref));
    body.insert("input".into(), Field::written(&input)?);
    if !tools.is_empty() {
        body.insert("tools".into(), Field::Tools(tools));
    }
    Ok(body)
}

/// The field that a server does not know and that the request can do without.
pub(super) fn dispensable(param: &str) -> Option<&'static str> {
    let field = param.split(['.', '[']).next().unwrap_or(param);
    DISPENSABLE.iter().copied().find(|known| *known == field)
}

fn fields(settings: &GenerationSettings, plan: &Plan<'_>, has_tools: bool) -> JsonObject {
    let caps = plan.caps;
    let mut fields = JsonObject::new();
    let mut set = |key: &str, value: Value| {
        fields.insert(key.to_owned(), value);
    };
    if has_tools {
        set("parallel_tool_calls", json!(settings.parallel_calls.value().copied().unwrap_or(true)));
        if let Some(choice) = settings.tool_choice.value() {
            set("tool_choice", tool_choice(choice, plan));
        }
    }
    if caps.reasoning {
        set("include", json!(["reasoning.encrypted_content"]));
        set("reasoning", reasoning(settings.effort.value().copied(), caps));
    }
    if caps.sampling {
        let number = |number: Option<&Number>| number.map_or(Value::Null, |number| json!(number));
        set("temperature", number(settings.sampling.temperature.value()));
        set("top_p", number(settings.sampling.top_p.value()));
    }
    if let Some(limit) = settings.max_output.value() {
        // The API takes no less.
        set("max_output_tokens", json!((*limit).max(16)));
    }
    if let Some(OutputFormat::Json { name, schema, strict }) = settings.output.value() {
        set("text", json!({"format": format(name.as_deref(), schema.as_ref(), *strict)}));
    }
    if let Some(key) = settings.cache_key.value() {
        set("prompt_cache_key", json!(key));
    }
    set("truncation", json!("disabled"));
    fields
}

fn reasoning(effort: Option<Effort>, caps: &Capabilities) -> Value {
    let effort = effort.map(|effort| effort.nearest(&caps.efforts).unwrap_or(effort));
    match effort {
        Some(effort) => json!({"effort": effort.as_str(), "summary": "auto"}),
        None => json!({"summary": "auto"}),
    }
}

fn format(name: Option<&str>, schema: Option<&Value>, strict: bool) -> Value {
    match schema {
        Some(schema) => json!({
            "type": "json_schema", "name": name.unwrap_or(SCHEMA_NAME), "schema": schema, "strict": strict
        }),
        None => json!({"type": "json_object"}),
    }
}

fn tool_choice(choice: &ToolChoice, plan: &Plan<'_>) -> Value {
    let function = |name: &String| json!({"type": "function", "name": plan.writer.names.wire(name)});
    match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Only(name) => function(name),
        ToolChoice::Allowed { names, required } => json!({
            "type": "allowed_tools",
            "mode": if *required { "required" } else { "auto" },
            "tools": names.iter().map(function).collect::<Vec<_>>(),
        }),
    }
}

/// The declared tools, and the provider's own search where it is asked for.
fn tools(request: &ModelRequest, plan: &Plan<'_>) -> Vec<Declaration> {
    let write = |tool: &ToolSpec| {
        json!({
            "type": "function",
            "name": plan.writer.names.wire(&tool.name),
            "description": tool.description,
            "parameters": schema::parameters(&tool.parameters),
            // Schemas of others are not in the form that strict demands.
            "strict": false,
        })
    };
    let declared = request.tools.iter().map(|tool| plan.declarations.get(tool, Form::Plain, write));
    let search = (request.grounding == Grounding::Search).then(|| json!({"type": "web_search"}));
    declared.chain(search.map(Declaration::Other)).collect()
}
