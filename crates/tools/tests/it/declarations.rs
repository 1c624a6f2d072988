use std::sync::Arc;

use pollux_domain::model::ModelClient;
use pollux_domain::time::SystemClock;
use pollux_domain::tool::{Tool, ToolKind};
use pollux_net::client::ClientOptions;
use pollux_tools::{
    WebFetchSetup, builtin, get_internal_docs, google_web_search, read_many_files, save_memory, web_fetch,
    write_todos,
};
use serde_json::Value;

use crate::bench::Bench;
use crate::web::Model;

/// Name, display name, kind, properties in order; the required ones with `*`.
type Row = (&'static str, &'static str, ToolKind, &'static str);

/// The declaration of each tool, apart from the wording.
const DECLARED: &[Row] = &[
    ("list_directory", "ReadFolder", ToolKind::Search, "dir_path*, ignore, file_filtering_options"),
    ("read_file", "ReadFile", ToolKind::Read, "file_path*, start_line, end_line"),
    (
        "grep_search",
        "SearchText",
        ToolKind::Search,
        "pattern*, dir_path, include_pattern, exclude_pattern, names_only, case_sensitive, \
         fixed_strings, context, after, before, no_ignore, max_matches_per_file, total_max_matches",
    ),
    (
        "glob",
        "FindFiles",
        ToolKind::Search,
        "pattern*, dir_path, case_sensitive, respect_git_ignore, respect_gemini_ignore",
    ),
    ("replace", "Edit", ToolKind::Edit, "file_path*, instruction*, old_string*, new_string*, allow_multiple"),
    ("write_file", "WriteFile", ToolKind::Edit, "file_path*, content*"),
    (
        "run_shell_command",
        "Shell",
        ToolKind::Execute,
        "command*, description, dir_path, is_background, delay_ms",
    ),
    ("list_background_processes", "List Background Processes", ToolKind::Read, "wait_for_previous"),
    (
        "read_background_output",
        "Read Background Output",
        ToolKind::Read,
        "pid*, lines, delay_ms, wait_for_previous",
    ),
    (
        "read_many_files",
        "ReadManyFiles",
        ToolKind::Read,
        "include*, exclude, recursive, useDefaultExcludes, file_filtering_options",
    ),
    ("web_fetch", "WebFetch", ToolKind::Fetch, "prompt*"),
    ("google_web_search", "GoogleSearch", ToolKind::Search, "query*"),
    ("save_memory", "SaveMemory", ToolKind::Think, "fact*"),
    ("write_todos", "WriteTodos", ToolKind::Other, "todos*"),
    ("get_internal_docs", "GetInternalDocs", ToolKind::Think, "path"),
];

fn all() -> Vec<Arc<dyn Tool>> {
    let bench = Bench::new();
    let model = Model::with([]) as Arc<dyn ModelClient>;
    let fetch = WebFetchSetup::new(Arc::clone(&model), Arc::new(SystemClock), ClientOptions::new("test"));
    let mut tools = builtin(bench.setup.clone());
    tools.extend([
        read_many_files(&bench.setup),
        web_fetch(fetch).unwrap(),
        google_web_search(model),
        save_memory("/nowhere/GEMINI.md".into()),
        write_todos(),
        get_internal_docs(),
    ]);
    tools
}

/// `name*, other` of an object's schema.
fn properties(schema: &Value) -> String {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().unwrap();
    assert!(required.iter().all(|name| properties.contains_key(*name)), "{schema}");
    let names: Vec<String> = properties
        .keys()
        .map(|name| format!("{name}{}", if required.contains(&name.as_str()) { "*" } else { "" }))
        .collect();
    names.join(", ")
}

#[test]
fn every_tool_is_declared_as_agreed() {
    let declared: Vec<String> = all()
        .iter()
        .map(|tool| {
            let spec = tool.spec();
            format!("{:?}", (&spec.name, &spec.display_name, spec.kind, properties(&spec.parameters)))
        })
        .collect();
    let agreed: Vec<String> = DECLARED.iter().map(|row| format!("{row:?}")).collect();
    assert_eq!(declared, agreed);
}

#[test]
fn every_property_is_described_and_typed() {
    for tool in all() {
        let spec = tool.spec();
        assert_eq!(spec.parameters["type"], "object", "{}", spec.name);
        for (name, property) in spec.parameters["properties"].as_object().unwrap() {
            assert!(property["type"].is_string(), "{}: {name}", spec.name);
            assert!(property["description"].is_string(), "{}: {name}", spec.name);
        }
    }
}

#[test]
fn todos_have_the_five_states_and_nothing_else() {
    let tools = all();
    let todos = tools.iter().find(|tool| tool.spec().name == "write_todos").unwrap();
    let items = &todos.spec().parameters["properties"]["todos"]["items"];
    assert_eq!(properties(items), "description*, status*");
    assert_eq!(items["additionalProperties"], false);
    let states = serde_json::json!(["pending", "in_progress", "completed", "cancelled", "blocked"]);
    assert_eq!(items["properties"]["status"]["enum"], states);
}
