//! The body of a request.

use std::collections::BTreeSet;

use pollux_domain::JsonObject;
use pollux_domain::model::{
    Capabilities, Dialect, Effort, GenerationSettings, Grounding, ModelRequest, OutputFormat, ToolChoice,
};
use serde::Serialize;
use serde_json::{Number, Value, json};

use super::input::{Item, Writer};
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

/// A request for a reply.
#[derive(Debug, Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
    input: Vec<Item<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    stream: bool,
    store: bool,
    #[serde(flatten)]
    rest: JsonObject,
}

/// A request to count tokens.
#[derive(Debug, Serialize)]
pub(super) struct CountBody<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
    input: Vec<Item<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
}

/// What a request is written with.
pub(super) struct Plan<'a> {
    /// The concrete model.
    pub(super) model: &'a str,
    pub(super) caps: &'a Capabilities,
    pub(super) writer: Writer<'a>,
    /// Fields that this server refused for this model.
    pub(super) refused: &'a BTreeSet<String>,
}

impl<'a> Body<'a> {
    pub(super) fn new(request: &'a ModelRequest, plan: &Plan<'a>) -> Self {
        let tools = tools(request, plan);
        let settings = settings::neutral(request);
        let mut rest = fields(&settings, plan, !tools.is_empty());
        if let Some(words) = settings.words_of(&Dialect::RESPONSES) {
            let own = words.iter().filter(|(key, _)| !FIXED.contains(&key.as_str()));
            rest.extend(own.map(|(key, value)| (key.clone(), value.clone())));
        }
        rest.retain(|key, value| !value.is_null() && !plan.refused.contains(key));
        Self {
            model: plan.model,
            instructions: request.system.as_deref().filter(|text| !text.is_empty()),
            input: plan.writer.items(request.contents.iter().map(AsRef::as_ref)),
            tools,
            stream: true,
            store: false,
            rest,
        }
    }
}

impl<'a> CountBody<'a> {
    pub(super) fn new(request: &'a ModelRequest, plan: &Plan<'a>) -> Self {
        Self {
            model: plan.model,
            instructions: request.system.as_deref().filter(|text| !text.is_empty()),
            input: plan.writer.items(request.contents.iter().map(AsRef::as_ref)),
            tools: tools(request, plan),
        }
    }
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
fn tools(request: &ModelRequest, plan: &Plan<'_>) -> Vec<Value> {
    let declared = request.tools.iter().map(|tool| {
        json!({
            "type": "function",
            "name": plan.writer.names.wire(&tool.name),
            "description": tool.description,
            "parameters": schema::parameters(&tool.parameters),
            // Schemas of others are not in the form that strict demands.
            "strict": false,
        })
    });
    let search = (request.grounding == Grounding::Search).then(|| json!({"type": "web_search"}));
    declared.chain(search).collect()
}
