//! A sample input for each event, to test hooks with.

use pollux_domain::JsonObject;
use serde_json::{Value, json};

use crate::event::Event;
use crate::model_format::{Candidate, LlmMessage, LlmRequest, LlmResponse};
use crate::payload::{
    AfterAgent, AfterModel, AfterTool, BeforeAgent, BeforeModel, BeforeTool, BeforeToolSelection,
    CompressTrigger, EndReason, Notification, Payload as _, PermissionDetails, PreCompress, SessionEnd,
    SessionStart, StartSource, ToolResponse,
};

/// The event's own keys with plausible values.
pub fn sample_input(event: Event) -> JsonObject {
    match event {
        Event::SessionStart => SessionStart { source: StartSource::Startup }.fields(),
        Event::SessionEnd => SessionEnd { reason: EndReason::Exit }.fields(),
        Event::BeforeAgent => BeforeAgent { prompt: prompt() }.fields(),
        Event::AfterAgent => AfterAgent {
            prompt: prompt(),
            prompt_response: "It counts words.".to_owned(),
            stop_hook_active: false,
        }
        .fields(),
        Event::BeforeModel => BeforeModel { llm_request: request() }.fields(),
        Event::BeforeToolSelection => BeforeToolSelection { llm_request: request() }.fields(),
        Event::AfterModel => AfterModel { llm_request: request(), llm_response: response() }.fields(),
        Event::BeforeTool => call().fields(),
        Event::AfterTool => AfterTool {
            call: call(),
            tool_response: ToolResponse {
                llm_content: Value::from("Command: ls\nOutput: notes.txt"),
                return_display: Value::from("notes.txt"),
                error: None,
                sandbox: None,
            },
        }
        .fields(),
        Event::PreCompress => PreCompress { trigger: CompressTrigger::Auto }.fields(),
        Event::Notification => {
            let details = PermissionDetails::Exec { command: "ls".to_owned(), root_command: "ls".to_owned() };
            Notification::tool_permission("Shell", details).fields()
        }
    }
}

fn prompt() -> String {
    "What does this project do?".to_owned()
}

fn request() -> LlmRequest {
    let message = LlmMessage { role: "user".to_owned(), content: prompt() };
    let config = json!({"temperature": 1, "topP": 0.95, "topK": 64});
    LlmRequest {
        model: "auto".to_owned(),
        messages: vec![message],
        config: config.as_object().cloned().unwrap_or_default(),
    }
}

fn response() -> LlmResponse {
    let parts = vec!["It counts words.".to_owned()];
    LlmResponse { candidates: vec![Candidate { parts, finish_reason: Some("STOP".to_owned()) }], usage: None }
}

fn call() -> BeforeTool {
    let input = json!({"command": "ls", "description": "list the files"});
    BeforeTool {
        tool_name: "run_shell_command".to_owned(),
        tool_input: input.as_object().cloned().unwrap_or_default(),
        ..BeforeTool::default()
    }
}
