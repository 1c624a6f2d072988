//! A request for a model that knows no tools: they are explained in words, and calls and results are text.

use std::sync::Arc;

use pollux_domain::content::{Body, Content, FunctionResponse, Part};
use pollux_domain::model::{ModelRequest, Setting, ToolChoice};
use pollux_domain::tool::ToolSpec;
use serde_json::{Value, json};

use crate::shared::schema;

const HOW: &str = "\
# Tools

To call a tool, end your reply with one block of exactly this form and then stop:

```tool_call
{\"name\": \"<tool name>\", \"arguments\": {<arguments as JSON>}}
```

The result follows in the next message inside <tool_result>. Call one tool at a time, use only the tools below, and \
never write a <tool_result> yourself.";

/// The same request without tools.
pub(super) fn rewrite(mut request: ModelRequest) -> ModelRequest {
    let choice = std::mem::replace(&mut request.settings.tool_choice, Setting::Unset);
    request.settings.parallel_calls = Setting::Unset;
    let tools = std::mem::replace(&mut request.tools, Arc::new([]));
    let system = request.system.take();
    let offered: Vec<&Arc<ToolSpec>> = tools.iter().filter(|tool| is_offered(tool, choice.value())).collect();
    let mut text = system.as_deref().unwrap_or_default().to_owned();
    if !offered.is_empty() {
        explain(&mut text, offered);
        if let Some(must) = must(choice.value()) {
            text.push_str("\n\n");
            text.push_str(&must);
        }
    }
    request.system = Some(text.into()).filter(|text: &Arc<str>| !text.is_empty());
    request.contents = request.contents.iter().map(in_words).collect();
    request
}

/// A system prompt with the tools explained in it.
pub fn explained(system: &str, tools: &[Arc<ToolSpec>]) -> Arc<str> {
    let mut text = system.to_owned();
    explain(&mut text, tools.iter().collect());
    text.into()
}

fn explain(text: &mut String, tools: Vec<&Arc<ToolSpec>>) {
    text.push_str(if text.is_empty() { "" } else { "\n\n" });
    text.push_str(HOW);
    for tool in tools {
        text.push_str(&described(tool));
    }
}

fn is_offered(tool: &ToolSpec, choice: Option<&ToolChoice>) -> bool {
    match choice {
        Some(ToolChoice::None) => false,
        Some(ToolChoice::Only(name)) => tool.name == *name,
        Some(ToolChoice::Allowed { names, .. }) => names.contains(&tool.name),
        Some(ToolChoice::Auto | ToolChoice::Required) | None => true,
    }
}

fn must(choice: Option<&ToolChoice>) -> Option<String> {
    match choice? {
        ToolChoice::Required | ToolChoice::Only(_) | ToolChoice::Allowed { required: true, .. } => {
            Some("Your next reply must call a tool.".to_owned())
        }
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Allowed { required: false, .. } => None,
    }
}

fn described(tool: &ToolSpec) -> String {
    format!("\n\n## {}\n{}\nArguments: {}", tool.name, tool.description, schema::parameters(&tool.parameters))
}

/// A turn with its calls and results as text; the same turn where it has none.
fn in_words(content: &Arc<Content>) -> Arc<Content> {
    if !content.parts.iter().any(|part| matches!(part.body, Body::Call(_) | Body::Response(_))) {
        return Arc::clone(content);
    }
    let mut parts = Vec::with_capacity(content.parts.len());
    for part in &content.parts {
        match &part.body {
            Body::Call(call) => {
                let written = json!({"name": call.name, "arguments": call.args});
                parts.push(Part::text(format!("\n```tool_call\n{written}\n```")));
            }
            Body::Response(response) => {
                parts.push(Part::text(result(response)));
                parts.extend(response.parts.iter().cloned());
            }
            _ => parts.push(part.clone()),
        }
    }
    Arc::new(Content { parts, ..Content::clone(content) })
}

fn result(response: &FunctionResponse) -> String {
    let fields = &*response.response;
    let text = match (fields.len(), fields.get("output").or_else(|| fields.get("error"))) {
        (1, Some(Value::String(text))) => text.clone(),
        _ => Value::Object(fields.clone()).to_string(),
    };
    // What a file holds must not end the result.
    let text = text.replace("</tool_result", "<\\/tool_result");
    let id = response.id.as_deref().unwrap_or_default();
    let state = if fields.contains_key("error") { " error=\"true\"" } else { "" };
    format!("<tool_result name=\"{}\" id=\"{id}\"{state}>\n{text}\n</tool_result>", response.name)
}
