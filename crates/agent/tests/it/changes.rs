//! What happens around calls that may change files, and going back to an earlier prompt.

use std::sync::{Arc, Mutex};

use pollux_domain::BoxFuture;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::changes::{Changes, ImpendingCall};
use pollux_domain::content::Content;
use pollux_domain::event::{Event, NoticeCode, Op, OpResult};
use pollux_domain::id::CallId;
use pollux_domain::tool::{Display, Effect, Tool, ToolKind, ToolOutcome};
use serde_json::json;

use super::scene::{Options, Scene, call_part, calls, echo, says, tool};

/// Notes what it is told.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn note(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Changes for Notes {
    fn prompt(&self, message: &str) {
        assert!(!message.is_empty());
        self.note("prompt".to_owned());
    }

    fn asked<'a>(&'a self, call: &'a ImpendingCall<'a>, _: &'a [Arc<Content>]) -> BoxFuture<'a, Vec<String>> {
        self.note(format!("asked {}", call.tool));
        Box::pin(std::future::ready(Vec::new()))
    }

    fn before<'a>(&'a self, call: &'a ImpendingCall<'a>) -> BoxFuture<'a, Vec<String>> {
        assert!(!call.message.is_empty());
        self.note(format!("before {} reads_only={}", call.tool, call.reads_only));
        Box::pin(std::future::ready(vec!["not everything is kept".to_owned()]))
    }

    fn after<'a>(&'a self, _: &'a CallId) -> BoxFuture<'a, Vec<String>> {
        self.note("after".to_owned());
        Box::pin(std::future::ready(Vec::new()))
    }
}

fn noting(name: &str, kind: ToolKind, effect: Effect, notes: &Arc<Notes>) -> Arc<dyn Tool> {
    let notes = Arc::clone(notes);
    tool(name, kind, effect, move |_, _| {
        notes.note("run".to_owned());
        Box::pin(async { ToolOutcome::text("ok", Display::Nothing) })
    })
}

fn execute(command: &str) -> Effect {
    Effect::Execute { command: command.to_owned(), directory: "/w".into() }
}

#[tokio::test]
async fn a_change_is_surrounded_and_reading_is_known_as_such() {
    let notes = Arc::new(Notes::default());
    let tools = vec![
        echo(),
        noting("write_file", ToolKind::Edit, Effect::Edit("/w/a".into()), &notes),
        noting("other_command", ToolKind::Execute, execute("ls"), &notes),
    ];
    let lines = vec![
        calls(&[("echo", json!({})), ("write_file", json!({})), ("other_command", json!({}))]),
        says("done"),
    ];
    let changes = Some(Arc::clone(&notes) as Arc<dyn Changes>);
    let mut scene = Scene::with(Options { lines, tools, changes, ..Options::default() });
    scene.prompt("go").await;
    let told = [
        "prompt",
        "before echo reads_only=true",
        "after",
        "before write_file reads_only=false",
        "run",
        "after",
        // What a tool that is not the shell does with a command is not known.
        "before other_command reads_only=false",
        "run",
        "after",
    ];
    assert_eq!(notes.taken(), told);
    let said = |event: &&Event| matches!(event, Event::Notice { code: NoticeCode::Rewind, .. });
    assert_eq!(scene.events.iter().filter(said).count(), 3);
}

#[tokio::test]
async fn a_call_that_is_refused_changes_nothing_and_is_not_kept() {
    let notes = Arc::new(Notes::default());
    let tools = vec![noting("write_file", ToolKind::Edit, Effect::Edit("/w/a".into()), &notes)];
    let lines = vec![calls(&[("write_file", json!({}))]), says("done")];
    let changes = Some(Arc::clone(&notes) as Arc<dyn Changes>);
    let approval = ApprovalMode::Default;
    let mut scene = Scene::with(Options { lines, tools, changes, approval, ..Options::default() });
    scene.prompt("go").await;
    assert_eq!(notes.taken(), ["prompt", "after"]);
}

#[tokio::test]
async fn going_back_shortens_the_conversation_and_its_file() {
    let mut scene = Scene::new(vec![says("one"), says("two"), says("three")]);
    scene.prompt("first").await;
    scene.prompt("second").await;
    let OpResult::Conversation(view) = scene.ask(Op::Describe).await else { panic!() };
    assert_eq!(view.prompts.iter().map(|p| p.text.as_str()).collect::<Vec<_>>(), ["first", "second"]);
    for (to, fine) in [("unknown".to_owned(), false), (view.prompts[1].message.clone(), true)] {
        let result = scene.ask(Op::Rewind { to }).await;
        assert_eq!(result.refusal().is_none(), fine, "{result:?}");
        let told = scene.events.iter().any(|event| matches!(event, Event::Rewound { .. }));
        assert_eq!(told, fine, "everybody learns of it, unless nothing happened");
    }
    scene.prompt("third").await;
    let sent = serde_json::to_string(&scene.turns(2)).unwrap();
    assert!(sent.contains("first") && sent.contains("third") && !sent.contains("second"), "{sent}");
    let file = scene.recorded().to_string();
    assert!(file.contains("third") && !file.contains("second"), "{file}");
}

#[tokio::test]
async fn proposed_calls_run_as_if_the_model_had_made_them() {
    let mut scene = Scene::new(vec![says("one"), says("two")]);
    scene.prompt("first").await;
    let parts = vec![call_part("echo", &json!({"n": 7}))];
    scene.handle.ops.send(Op::Propose { parts }).await.unwrap();
    scene.end().await;
    assert_eq!(scene.answers(1), [json!({"output": "echo {\"n\":7}"})]);
}

#[tokio::test]
async fn compressing_on_demand_is_a_turn_of_its_own() {
    let snapshot = "<state_snapshot><overall_goal>g</overall_goal></state_snapshot>";
    let long = (1..800).map(|k: u64| (k * 7919).to_string()).collect::<Vec<_>>().join(" ");
    let options = Options {
        lines: vec![says(&long), says("two")],
        unary: vec![Ok(snapshot.into())],
        ..Options::default()
    };
    let mut scene = Scene::with(options);
    scene.prompt("first").await;
    scene.handle.ops.send(Op::Compress).await.unwrap();
    scene.end().await;
    assert!(scene.events.iter().any(|event| matches!(event, Event::Compressed { .. })));
    scene.prompt("second").await;
    let sent = serde_json::to_string(&scene.turns(2)).unwrap();
    assert!(sent.contains("overall_goal") && !sent.contains("15838 23757"), "{sent}");
}
