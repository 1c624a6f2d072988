//! `pollux prompt`: what a model gets before the user's first prompt.

mod arguments;

use std::fmt::Write as _;

use pollux_domain::content::Part;
use pollux_domain::failure::{Failure, print_result};
use pollux_domain::terminal_text::plain;
use pollux_host::load_settings;
use pollux_host::preview::{FirstRequest, first_request};
use serde_json::{Value, json};

pub use arguments::{PromptArgs, PromptCommand};

use crate::context::Context;

/// Runs the command.
pub fn run(command: &PromptCommand, context: &mut Context<'_>) -> Result<(), Failure> {
    let loaded = load_settings(context.request, context.env)?;
    context.note(&loaded.notes);
    let first = first_request(context.request, &loaded, !command.headless)?;
    let page = Page::of(&first);
    let text = if command.json { format!("{:#}\n", page.json()) } else { plain(&page.text()).into_owned() };
    print_result(context.out, &text)
}

/// The texts of a request with their sizes.
struct Page<'a> {
    first: &'a FirstRequest,
    message: String,
    /// Name, description and schema of each tool.
    tools: Vec<Value>,
}

impl<'a> Page<'a> {
    fn of(first: &'a FirstRequest) -> Self {
        let message = first.preview.first_turn.parts.iter().filter_map(Part::spoken_text).collect();
        let tool = |name: &str, description: &str, parameters: &Value| json!({"name": name, "description": description, "parameters": parameters});
        let declared = first.preview.tools.iter();
        let tools = declared.map(|spec| tool(&spec.name, &spec.description, &spec.parameters)).collect();
        Self { first, message, tools }
    }

    /// Bytes of the system prompt, of the first message and of the tools.
    fn sizes(&self) -> (usize, usize, usize) {
        let tools = self.tools.iter().map(|tool| tool.to_string().len()).sum();
        (self.first.preview.system_prompt.len(), self.message.len(), tools)
    }

    fn json(&self) -> Value {
        let (system, message, tools) = self.sizes();
        let model = &self.first.model;
        json!({
            "model": model.id,
            "provider": model.provider.as_str(),
            "dialect": model.dialect.as_str(),
            "contextWindow": model.context_window,
            "profile": self.first.preview.profile.name(),
            "systemPrompt": &*self.first.preview.system_prompt,
            "firstMessage": self.message,
            "tools": self.tools,
            "bytes": {"systemPrompt": system, "firstMessage": message, "tools": tools,
                      "total": system + message + tools},
            "notIncluded": self.first.missing,
        })
    }

    fn text(&self) -> String {
        let (system, message, tools) = self.sizes();
        let model = &self.first.model;
        let mut text =
            format!("Model:          {} ({} profile)\n", model.id, self.first.preview.profile.name());
        let mut row = |name: &str, size: usize, more: &str| {
            let _ = writeln!(text, "{name:<15} {} bytes{more}", size);
        };
        row("System prompt:", system, "");
        row("First message:", message, "");
        row("Tools:", tools, &format!(" ({} declared)", self.tools.len()));
        row("Total:", system + message + tools, "");
        if !self.first.missing.is_empty() {
            let _ = writeln!(text, "Not included:   {}", self.first.missing.join(", "));
        }
        let _ = write!(text, "\n--- System prompt ---\n{}\n", self.first.preview.system_prompt);
        let _ = write!(text, "\n--- First message ---\n{}\n", self.message.trim_end());
        text.push_str("\n--- Tools ---\n");
        for tool in &self.tools {
            let line = tool["description"].as_str().unwrap_or_default().lines().next().unwrap_or_default();
            let name = tool["name"].as_str().unwrap_or_default();
            let _ = writeln!(text, "{name} ({} bytes): {line}", tool.to_string().len());
        }
        text
    }
}
