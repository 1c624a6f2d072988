//! The tool `write_todos`: the model's to-do list.

use std::sync::Arc;

use pollux_domain::tool::{
    ArgError, Display, Effect, Invocation, Todo, TodoStatus, Tool, ToolContext, ToolKind, ToolOutcome,
    ToolSpec,
};
use pollux_domain::{BoxFuture, JsonObject};
use serde_json::{Value, json};

/// The tool.
pub(crate) struct WriteTodos {
    spec: Arc<ToolSpec>,
}

struct Call {
    todos: Vec<Todo>,
}

impl WriteTodos {
    pub(crate) fn new() -> Self {
        let spec = ToolSpec {
            name: "write_todos".to_owned(),
            display_name: "WriteTodos".to_owned(),
            description: "Replaces the list of subtasks that the user sees, for work of several steps. Give \
                the whole list each time, keep its order, have at most one item in_progress, and mark an item \
                completed as soon as it is. An empty list clears it. Not needed for a simple request."
                .to_owned(),
            kind: ToolKind::Other,
            parameters: json!({
                "type": "object",
                "properties": {
                    "todos": {
                        "type": "array",
                        "description": "The whole list, which replaces the one before.",
                        "items": {
                            "type": "object",
                            "properties": {
                                "description": {"type": "string", "description": "What is to be done."},
                                "status": {
                                    "type": "string",
                                    "enum": TodoStatus::ALL.map(TodoStatus::as_str),
                                    "description": "How far it is."
                                }
                            },
                            "required": ["description", "status"],
                            "additionalProperties": false
                        }
                    }
                },
                "required": ["todos"],
                "additionalProperties": false
            }),
            output_is_markdown: true,
            offloads_long_output: false,
        };
        Self { spec: Arc::new(spec) }
    }
}

impl Tool for WriteTodos {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        let refuse = |text: &str| ArgError(text.to_owned());
        let todos = args.get("todos").and_then(Value::as_array);
        let given = todos.ok_or_else(|| refuse("`todos` parameter must be an array"))?;
        let mut todos = Vec::with_capacity(given.len());
        let mut running = 0;
        for todo in given {
            let field = |key: &str| todo.get(key).and_then(Value::as_str);
            let text = field("description").map(str::trim).filter(|text| !text.is_empty());
            let text = text.ok_or_else(|| refuse("Each todo must have a non-empty description string"))?;
            let status = field("status").and_then(TodoStatus::parse).ok_or_else(|| {
                let words = TodoStatus::ALL.map(TodoStatus::as_str).join(", ");
                ArgError(format!("Each todo must have a status: {words}"))
            })?;
            running += u32::from(status == TodoStatus::InProgress);
            todos.push(Todo { text: text.to_owned(), status });
        }
        if running > 1 {
            return Err(refuse("Invalid parameters: Only one task can be \"in_progress\" at a time."));
        }
        Ok(Box::new(Call { todos }))
    }
}

impl Invocation for Call {
    fn describe(&self) -> String {
        match self.todos.len() {
            0 => "Cleared todo list".to_owned(),
            count => format!("Set {count} todo(s)"),
        }
    }

    fn effect(&self) -> Effect {
        Effect::None
    }

    fn run<'a>(self: Box<Self>, _: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let text = if self.todos.is_empty() {
                "Successfully cleared the todo list.".to_owned()
            } else {
                let numbered = self.todos.iter().enumerate();
                let list: Vec<String> =
                    numbered.map(|(at, todo)| format!("{}. {}", at + 1, todo.line())).collect();
                format!("Successfully updated the todo list. The current list is now:\n{}", list.join("\n"))
            };
            ToolOutcome::text(text, Display::Todos(self.todos))
        })
    }
}
