use std::fs;
use std::sync::Arc;

use pollux_domain::tool::{Display, Effect, Tool, ToolErrorKind, ToolOutcome};
use pollux_tools::{get_internal_docs, save_memory, write_todos};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bench::{Bench, put, text_of};

async fn run(tool: &Arc<dyn Tool>, args: Value) -> ToolOutcome {
    Bench::new().run(tool.prepare(args.as_object().unwrap()).unwrap()).await
}

async fn text(tool: &Arc<dyn Tool>, args: Value) -> String {
    match run(tool, args).await {
        ToolOutcome::Done(output) => text_of(&output.parts),
        other => panic!("not done: {other:?}"),
    }
}

fn refusal(tool: &Arc<dyn Tool>, args: Value) -> String {
    match tool.prepare(args.as_object().unwrap()) {
        Err(error) => error.0,
        Ok(call) => panic!("accepted: {}", call.describe()),
    }
}

#[tokio::test]
async fn a_fact_is_added_to_the_users_file() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join(".gemini/GEMINI.md");
    let tool = save_memory(file.clone());
    let args = json!({"fact": "- likes \"tea\"\nand cake"});
    let call = tool.prepare(args.as_object().unwrap()).unwrap();
    assert_eq!(call.effect(), Effect::Edit(file.clone()));
    let answer: Value = serde_json::from_str(&text(&tool, args).await).unwrap();
    let message = "Okay, I've remembered that: \"likes \"tea\" and cake\"";
    assert_eq!(answer, json!({"success": true, "message": message}));
    assert_eq!(fs::read_to_string(&file).unwrap(), "## Gemini Added Memories\n- likes \"tea\" and cake\n");
    for empty in [json!({}), json!({"fact": ""}), json!({"fact": " \n- "})] {
        assert_eq!(refusal(&tool, empty), "Parameter \"fact\" must be a non-empty string.");
    }
    let folder_in_the_way = save_memory(folder.path().to_owned());
    let ToolOutcome::Failed(failure) = run(&folder_in_the_way, json!({"fact": "x"})).await else { panic!() };
    assert_eq!(failure.kind, ToolErrorKind::MemoryToolExecutionError);
}

#[test]
fn concurrent_facts_are_all_kept() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("GEMINI.md");
    put(&file, "# Mine\n\n## Gemini Added Memories\n- first\n\n## Last\nend\n");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let file = file.clone();
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let tool = save_memory(file);
                for number in 0..5 {
                    runtime.block_on(text(&tool, json!({"fact": format!("fact {thread}-{number}")})));
                }
            });
        }
    });
    let content = fs::read_to_string(&file).unwrap();
    for thread in 0..8 {
        for number in 0..5 {
            assert!(content.contains(&format!("\n- fact {thread}-{number}\n")), "{content}");
        }
    }
    assert!(content.starts_with("# Mine\n\n## Gemini Added Memories\n- first\n"));
    assert!(content.ends_with("\n\n## Last\nend\n"));
}

#[tokio::test]
async fn todos_are_listed_with_their_states() {
    let tool = write_todos();
    let item = |text: &str, state: &str| json!({"description": text, "status": state});
    let args = json!({"todos": [item("one", "completed"), item(" two ", "in_progress")]});
    let ToolOutcome::Done(output) = run(&tool, args).await else { panic!() };
    assert_eq!(
        text_of(&output.parts),
        "Successfully updated the todo list. The current list is now:\n1. [completed] one\n2. [in_progress] two"
    );
    let Display::List { summary, items } = output.display.listed().into_owned() else { panic!() };
    assert_eq!((summary.as_str(), items.len()), ("Set 2 todo(s)", 2));
    assert_eq!(text(&tool, json!({"todos": []})).await, "Successfully cleared the todo list.");
    let two = json!({"todos": [item("a", "in_progress"), item("b", "in_progress")]});
    assert_eq!(refusal(&tool, two), "Invalid parameters: Only one task can be \"in_progress\" at a time.");
    for bad in [json!({}), json!({"todos": [item("a", "done")]}), json!({"todos": [item(" ", "pending")]})] {
        refusal(&tool, bad);
    }
}

#[tokio::test]
async fn the_handbook_is_listed_and_read() {
    let tool = get_internal_docs();
    let list = text(&tool, json!({})).await;
    assert!(list.starts_with("Available Gemini CLI documentation files:\n\n- SUMMARY.md\n- "), "{list}");
    assert!(text(&tool, json!({"path": "settings.md"})).await.starts_with('#'));
    let ToolOutcome::Failed(failure) = run(&tool, json!({"path": "../../Cargo.toml"})).await else {
        panic!()
    };
    assert_eq!(failure.kind, ToolErrorKind::ExecutionFailed);
    assert_eq!(failure.message, "Access denied: Requested path is outside the documentation directory.");
}
