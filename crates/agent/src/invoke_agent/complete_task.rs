//! `complete_task`: submits a sub-agent's result, the only way to finish.

use std::sync::Arc;

use pollux_domain::tool::{
    ArgError, Display, Effect, Invocation, Tool, ToolContext, ToolKind, ToolOutcome, ToolSpec,
};
use pollux_domain::{BoxFuture, JsonObject};
use pollux_extend::agents::{Output, OutputForm};
use serde_json::{Value, json};

use crate::schema;
use crate::subagent::goal::COMPLETE_TASK;
use crate::subagent::run::SubagentRun;

pub(super) struct CompleteTask {
    spec: Arc<ToolSpec>,
    output: Option<Output>,
    run: Arc<SubagentRun>,
}

impl CompleteTask {
    pub(super) fn new(output: Option<Output>, run: Arc<SubagentRun>) -> Self {
        let (name, schema) = match &output {
            Some(output) => (output.name.as_str(), described(output)),
            None => {
                let description = "Everything the caller needs to know; nothing else reaches the caller.";
                ("result", json!({"type": "string", "description": description}))
            }
        };
        let spec = ToolSpec {
            name: COMPLETE_TASK.to_owned(),
            display_name: "Complete Task".to_owned(),
            description:
                "Submits your result and ends the task. Call it when you are done, alone in its turn; it \
                          is the only way to finish."
                    .to_owned(),
            kind: ToolKind::Other,
            parameters: json!({"type": "object", "properties": {name: schema}, "required": [name]}),
            output_is_markdown: false,
            offloads_long_output: false,
        };
        Self { spec: Arc::new(spec), output, run }
    }

    /// The output as the caller reads it, in upstream's words.
    fn checked(&self, args: &JsonObject) -> Result<String, String> {
        let Some(output) = &self.output else {
            return match args.get("result") {
                Some(Value::String(text)) if !text.trim().is_empty() => Ok(text.clone()),
                _ => {
                    Err("Missing required \"result\" argument. You must provide your findings when calling \
                          complete_task."
                        .to_owned())
                }
            };
        };
        let value = match args.get(&output.name) {
            None | Some(Value::Null) => {
                return Err(format!("Missing required argument '{}' for completion.", output.name));
            }
            Some(value) => value,
        };
        schema::check(&self.spec.parameters, args)
            .map_err(|fault| format!("Output validation failed: {fault}"))?;
        Ok(rendered(output, value))
    }
}

fn described(output: &Output) -> Value {
    let mut schema = output.schema.clone();
    if let Some(fields) = schema.as_object_mut() {
        fields.entry("description").or_insert_with(|| json!(output.description));
    }
    schema
}

fn rendered(output: &Output, value: &Value) -> String {
    match (output.form, value) {
        (_, Value::String(text)) => text.clone(),
        (OutputForm::AnswerWithSources, Value::Object(fields)) => {
            let answer = fields.get("answer").and_then(Value::as_str).unwrap_or_default();
            let sources: Vec<String> = fields
                .get("sources")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(|source| format!("- {source}"))
                .collect();
            if sources.is_empty() {
                answer.to_owned()
            } else {
                format!("{answer}\n\n**Sources:**\n{}", sources.join("\n"))
            }
        }
        (_, other) => serde_json::to_string_pretty(other).unwrap_or_default(),
    }
}

struct Call {
    result: String,
    answer: &'static str,
    run: Arc<SubagentRun>,
}

impl Tool for CompleteTask {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn checks_itself(&self) -> bool {
        true
    }

    /// Some models write an object as a string of JSON.
    fn modernised(&self, args: &JsonObject) -> Option<JsonObject> {
        let output = self.output.as_ref()?;
        let kind = output.schema.get("type").and_then(Value::as_str)?;
        let text = args.get(&output.name)?.as_str().filter(|_| matches!(kind, "object" | "array"))?;
        let value: Value = serde_json::from_str(text).ok()?;
        let mut args = args.clone();
        args.insert(output.name.clone(), value);
        Some(args)
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        let result = self.checked(args).map_err(ArgError)?;
        let answer = match &self.output {
            Some(_) => "Output submitted and task completed.",
            None => "Result submitted and task completed.",
        };
        Ok(Box::new(Call { result, answer, run: Arc::clone(&self.run) }))
    }
}

impl Invocation for Call {
    fn describe(&self) -> String {
        "Completing the task".to_owned()
    }

    fn effect(&self) -> Effect {
        Effect::None
    }

    fn run<'a>(self: Box<Self>, _context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        self.run.goal.submit(self.result);
        Box::pin(std::future::ready(ToolOutcome::text(self.answer, Display::Nothing)))
    }
}
