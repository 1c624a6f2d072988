//! The built-in agents.

use std::time::Duration;

use pollux_domain::JsonObject;
use serde_json::{Value, json};

use super::{Definition, Kind, Local, ModelChoice, Origin, Output, OutputForm, Prompt};

const INVESTIGATOR: &str = include_str!("builtin/codebase_investigator.md");
const CLI_HELP: &str = include_str!("builtin/cli_help.md");

/// Names, limits and schemas are upstream's; the texts are ours.
pub(super) fn all() -> Vec<Definition> {
    vec![codebase_investigator(), cli_help(), generalist()]
}

fn codebase_investigator() -> Definition {
    let location = json!({
        "type": "object",
        "properties": {
            "FilePath": {"type": "string"},
            "Reasoning": {"type": "string", "description": "Why the file matters for the objective."},
            "KeySymbols": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["FilePath", "Reasoning", "KeySymbols"],
    });
    let schema = json!({
        "type": "object",
        "properties": {
            "SummaryOfFindings": {"type": "string", "description": "The findings, what they mean, and what to do about them."},
            "ExplorationTrace": {"type": "array", "items": {"type": "string"}, "description": "The steps taken, in order."},
            "RelevantLocations": {"type": "array", "items": location, "description": "Where it is in the code."},
        },
        "required": ["SummaryOfFindings", "ExplorationTrace", "RelevantLocations"],
    });
    let local = Local {
        prompt: Prompt::Text(INVESTIGATOR.trim().to_owned()),
        query: Some("Objective:\n${objective}".to_owned()),
        output: Some(output("report", "The report on the codebase.", schema, OutputForm::Plain)),
        tools: Some(names(&["list_directory", "read_file", "glob", "grep_search"])),
        model: ModelChoice::Investigator,
        generation: generation(0.1),
        max_turns: 50,
        ..local("objective", "What to find out, with everything known so far.")
    };
    let description = "Investigates a codebase and reports how it works, where something is, what depends on it and what \
                       a change would affect. Good for vague requests, root-cause analysis and planning larger changes. \
                       It is read-only. Give it the whole objective; it does not see this conversation.";
    definition("codebase_investigator", "Codebase Investigator", description, local)
}

fn cli_help() -> Definition {
    let schema = json!({
        "type": "object",
        "properties": {
            "answer": {"type": "string"},
            "sources": {"type": "array", "items": {"type": "string"}, "description": "The documents the answer is based on."},
        },
        "required": ["answer", "sources"],
    });
    let local = Local {
        prompt: Prompt::Text(CLI_HELP.trim().to_owned()),
        query: Some("Question:\n${question}".to_owned()),
        output: Some(output("report", "The answer.", schema, OutputForm::AnswerWithSources)),
        tools: Some(names(&["get_internal_docs"])),
        model: ModelChoice::Flash,
        generation: generation(0.1),
        max_turns: 10,
        time_limit: Duration::from_secs(3 * 60),
        ..local("question", "The question about this program.")
    };
    let description = "Answers questions about Pollux itself (commands, settings, hooks, policies, \
                       sessions, extensions) from its documentation.";
    definition("cli_help", "CLI Help", description, local)
}

fn generalist() -> Definition {
    let schema = json!({
        "type": "object",
        "properties": {"response": {"type": "string", "description": "What was done and found."}},
        "required": ["response"],
    });
    let local = Local {
        output: Some(output("result", "The outcome of the task.", schema, OutputForm::Plain)),
        generation: JsonObject::new(),
        max_turns: 20,
        ..local("request", "The task, complete: the agent does not see this conversation.")
    };
    let description = "Works on a separate task with all tools and reports back. Good for work with many steps or a lot of output whose details do not matter here, such as making the same change in many files, or running a slow command where only the outcome matters.";
    definition("generalist", "Generalist", description, local)
}

fn definition(name: &str, title: &str, description: &str, local: Local) -> Definition {
    Definition {
        name: name.to_owned(),
        display_name: Some(title.to_owned()),
        description: description.to_owned(),
        origin: Origin::Builtin,
        kind: Kind::Local(Box::new(local)),
    }
}

/// An agent with one input and the main agent's prompt, tools and model.
fn local(input: &str, description: &str) -> Local {
    Local {
        prompt: Prompt::Main,
        query: None,
        initial: Vec::new(),
        inputs: json!({
            "type": "object",
            "properties": {input: {"type": "string", "description": description}},
            "required": [input],
        }),
        output: None,
        tools: None,
        mcp_servers: JsonObject::new(),
        model: ModelChoice::Inherit,
        generation: JsonObject::new(),
        max_turns: super::MAX_TURNS,
        time_limit: super::TIME_LIMIT,
    }
}

fn output(name: &str, description: &str, schema: Value, form: OutputForm) -> Output {
    Output { name: name.to_owned(), description: description.to_owned(), schema, form }
}

fn generation(temperature: f64) -> JsonObject {
    JsonObject::from_iter([("temperature".to_owned(), json!(temperature)), ("topP".to_owned(), json!(0.95))])
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
