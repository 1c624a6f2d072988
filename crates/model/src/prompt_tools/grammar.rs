//! The second step of a call: a request that the server holds to the schema of a call.

use std::sync::Arc;

use pollux_domain::content::{Content, Part};
use pollux_domain::model::{ModelRequest, OutputFormat, Setting};
use pollux_domain::tool::ToolSpec;
use serde_json::{Value, json};

use crate::shared::schema;

const NOW: &str = "Write the tool call now: one JSON object with `name` and `arguments`, and nothing else.";

/// Asks for the call that a reply began with. `request` has its tools in words already; `said` is what the model wrote
/// before the call. Only this reply is constrained, so that the model was free to think before.
pub(super) fn request(
    mut request: ModelRequest,
    said: &str,
    tools: &[Arc<ToolSpec>],
    constrained: bool,
) -> ModelRequest {
    let said = said.trim();
    if !said.is_empty() {
        request.contents.push(Arc::new(Content::model(vec![Part::text(said)])));
    }
    request.contents.push(Arc::new(Content::user_text(NOW)));
    if constrained {
        let schema = Some(calls(tools));
        request.settings.output =
            Setting::Set(OutputFormat::Json { name: Some("tool_call".to_owned()), schema, strict: true });
    }
    request
}

/// The schema of a call of any of the tools.
fn calls(tools: &[Arc<ToolSpec>]) -> Value {
    let one = |tool: &Arc<ToolSpec>| {
        json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "enum": [tool.name]},
                "arguments": schema::parameters(&tool.parameters),
            },
            "required": ["name", "arguments"],
            "additionalProperties": false,
        })
    };
    json!({"oneOf": tools.iter().map(one).collect::<Vec<_>>()})
}
