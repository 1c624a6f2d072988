//! Calls: order, refusal, repair, loops, long output.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pollux_domain::approval::ApprovalMode;
use pollux_domain::content::{FunctionCall, Part};
use pollux_domain::event::{Event, Op, TurnEnd};
use pollux_domain::model::FinishReason;
use pollux_domain::tool::{Display, Effect, ToolErrorKind, ToolKind, ToolOutcome};
use serde_json::{Value, json};
use tokio::sync::Barrier;

use super::scene::{Options, Scene, calls, ends, says, tool};

#[tokio::test]
async fn a_call_is_answered_in_the_next_request_and_recorded_with_its_result() {
    let mut scene = Scene::new(vec![calls(&[("echo", json!({"n": 7}))]), says("done")]);
    assert!(matches!(scene.prompt("go").await, TurnEnd::Finished(_)));
    let turns = scene.turns(1);
    assert_eq!(turns.len(), 3);
    let id = turns[1]["parts"][0]["functionCall"]["id"].clone();
    assert_eq!(turns[2]["parts"][0]["functionResponse"]["id"], id);
    assert!(id.as_str().unwrap().starts_with("echo__echo_"), "{id}");
    assert_eq!(scene.answers(1), [json!({"output": "echo {\"n\":7}"})]);
    let call = &scene.recorded()["messages"][1]["toolCalls"][0];
    assert_eq!(call["status"], json!("success"));
    assert_eq!(call["result"][0]["functionResponse"]["response"]["output"], json!("echo {\"n\":7}"));
}

#[tokio::test]
async fn unknown_tools_and_bad_arguments_are_answered_and_the_turn_continues() {
    let lines = vec![calls(&[("ecko", json!({})), ("echo", json!({"n": "x"}))]), says("sorry")];
    let mut scene = Scene::new(lines);
    assert!(matches!(scene.prompt("go").await, TurnEnd::Finished(_)));
    assert_eq!(
        scene.answers(1),
        [
            json!({"error": "Tool \"ecko\" not found. Did you mean \"echo\"?"}),
            json!({"error": "params/n must be integer"})
        ]
    );
}

#[tokio::test]
async fn calls_that_only_read_run_together() {
    let barrier = Arc::new(Barrier::new(2));
    let waits = tool("meet", ToolKind::Read, Effect::Read(vec![]), move |_, _| {
        let barrier = Arc::clone(&barrier);
        Box::pin(async move {
            // Two sequential calls would wait forever.
            barrier.wait().await;
            ToolOutcome::text("met", Display::Nothing)
        })
    });
    let lines = vec![calls(&[("meet", json!({"n": 1})), ("meet", json!({"n": 2}))]), says("ok")];
    let mut scene = Scene::with(Options { lines, tools: vec![waits], ..Options::default() });
    assert!(matches!(scene.prompt("go").await, TurnEnd::Finished(_)));
    assert_eq!(scene.answers(1).len(), 2);
}

#[tokio::test]
async fn calls_that_change_something_run_one_after_the_other() {
    let running = Arc::new(AtomicUsize::new(0));
    let edit = tool("edit", ToolKind::Edit, Effect::Edit("/w/a".into()), move |_, _| {
        let running = Arc::clone(&running);
        Box::pin(async move {
            let others = running.fetch_add(1, Ordering::SeqCst);
            for _ in 0..5 {
                tokio::task::yield_now().await;
            }
            running.fetch_sub(1, Ordering::SeqCst);
            ToolOutcome::text(format!("{others} beside me"), Display::Nothing)
        })
    });
    let lines = vec![calls(&[("edit", json!({"n": 1})), ("edit", json!({"n": 2}))]), says("ok")];
    let mut scene = Scene::with(Options { lines, tools: vec![edit], ..Options::default() });
    scene.prompt("go").await;
    assert_eq!(scene.answers(1), [json!({"output": "0 beside me"}), json!({"output": "0 beside me"})]);
}

#[tokio::test]
async fn a_tool_that_would_have_to_ask_is_not_there_without_anyone_to_ask() {
    let edit = tool("replace", ToolKind::Edit, Effect::Edit("/w/a".into()), |_, _| {
        Box::pin(async { panic!("must not run") })
    });
    let look = tool("glob", ToolKind::Search, Effect::Read(vec![]), |_, _| {
        Box::pin(async { panic!("must not run") })
    });
    let lines = vec![calls(&[("replace", json!({}))]), says("ok")];
    let approval = ApprovalMode::Default;
    let mut scene = Scene::with(Options { lines, tools: vec![look, edit], approval, ..Options::default() });
    scene.prompt("go").await;
    let declared: Vec<String> =
        scene.model.requests.lock().unwrap()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(declared, ["glob"]);
    let told = "Tool \"replace\" not found among the allowed tools: it requires approval, which a headless run cannot ask for. To allow it, use \
        --approval-mode auto_edit, --allowed-tools replace or a policy rule.";
    assert_eq!(scene.answers(1), [json!({"error": told})]);
}

#[tokio::test]
async fn a_tool_that_panics_fails_its_call_and_not_the_session() {
    let bad = tool("bad", ToolKind::Read, Effect::Read(vec![]), |_, _| Box::pin(async { panic!("boom") }));
    let lines = vec![calls(&[("bad", json!({}))]), says("ok")];
    let mut scene = Scene::with(Options { lines, tools: vec![bad], ..Options::default() });
    assert!(matches!(scene.prompt("go").await, TurnEnd::Finished(_)));
    assert_eq!(scene.answers(1), [json!({"error": "bad failed unexpectedly."})]);
}

#[tokio::test]
async fn a_full_disk_ends_the_run() {
    let full = tool("write", ToolKind::Edit, Effect::Edit("/w/a".into()), |_, _| {
        Box::pin(async { ToolOutcome::failed(ToolErrorKind::NoSpaceLeft, "No space left on device") })
    });
    let lines = vec![calls(&[("write", json!({}))]), says("never")];
    let mut scene = Scene::with(Options { lines, tools: vec![full], ..Options::default() });
    assert!(matches!(scene.prompt("go").await, TurnEnd::FatalTool { kind: ToolErrorKind::NoSpaceLeft, .. }));
    assert_eq!(scene.request_count(), 1);
}

#[tokio::test]
async fn the_fifth_identical_call_is_answered_with_a_warning_and_the_sixth_ends_the_turn() {
    let lines = (0..8).map(|_| calls(&[("echo", json!({"n": 1}))])).collect();
    let mut scene = Scene::new(lines);
    assert!(matches!(scene.prompt("go").await, TurnEnd::Loop(_)));
    assert_eq!(scene.request_count(), 6);
    let answer = scene.answers(5)[0]["error"].as_str().unwrap().to_owned();
    assert!(answer.starts_with("Not run:"), "{answer}");
    let ran = scene
        .events
        .iter()
        .filter(|e| matches!(e, Event::CallFinished(report) if report.outcome.succeeded()))
        .count();
    assert_eq!(ran, 4);
}

#[tokio::test]
async fn polling_with_changing_results_is_not_a_loop() {
    let count = Arc::new(AtomicUsize::new(0));
    let poll = tool("poll", ToolKind::Read, Effect::Read(vec![]), move |_, _| {
        let n = count.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { ToolOutcome::text(format!("{n}%"), Display::Nothing) })
    });
    let mut lines: Vec<_> = (0..9).map(|_| calls(&[("poll", json!({}))])).collect();
    lines.push(says("built"));
    let mut scene = Scene::with(Options { lines, tools: vec![poll], ..Options::default() });
    assert!(matches!(scene.prompt("go").await, TurnEnd::Finished(_)));
}

#[tokio::test]
async fn a_cancelled_call_is_answered_so_that_the_next_prompt_can_follow() {
    let slow = tool("slow", ToolKind::Read, Effect::Read(vec![]), |_, context| {
        Box::pin(async move {
            (context.live)("working");
            context.cancel.cancelled().await;
            ToolOutcome::Cancelled { partial: Some("half".into()) }
        })
    });
    let lines = vec![calls(&[("slow", json!({}))]), says("fine")];
    let mut scene = Scene::with(Options { lines, tools: vec![slow], ..Options::default() });
    scene.send("go").await;
    scene.until(|event| matches!(event, Event::CallOutput { text, .. } if text == "working")).await;
    scene.handle.ops.send(Op::Cancel).await.unwrap();
    assert!(matches!(scene.end().await, TurnEnd::Cancelled));
    assert!(matches!(scene.prompt("and now?").await, TurnEnd::Finished(_)));
    let roles: Vec<Value> = scene.turns(1).iter().map(|turn| turn["role"].clone()).collect();
    assert_eq!(roles, ["user", "model", "user", "model", "user"]);
    let response = &scene.turns(1)[2]["parts"][0]["functionResponse"]["response"];
    assert_eq!(
        response,
        &json!({"output": "half", "error": "[Operation Cancelled] User cancelled tool execution."})
    );
}

#[tokio::test]
async fn long_output_is_cut_for_the_model_and_whole_in_a_file() {
    let long = tool("long", ToolKind::Read, Effect::Read(vec![]), |_, _| {
        Box::pin(async { ToolOutcome::text("0123456789".repeat(100), Display::Nothing) })
    });
    let lines = vec![calls(&[("long", json!({}))]), says("ok")];
    let mut scene = Scene::with(Options { lines, tools: vec![long], truncate: 100, ..Options::default() });
    scene.prompt("go").await;
    let output = scene.answers(1)[0]["output"].as_str().unwrap().to_owned();
    assert!(output.contains("[900 characters omitted]"), "{output}");
    let path = output.lines().next().unwrap().rsplit(' ').next().unwrap();
    assert_eq!(std::fs::read_to_string(path).unwrap().len(), 1000);
}

#[tokio::test]
async fn context_near_a_file_comes_with_the_first_look_at_it() {
    let options = Options::default();
    let work = options.dir.path().join("work/src");
    std::fs::create_dir_all(&work).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a fixture needs no atomic write")]
    std::fs::write(work.join("GEMINI.md"), "use tabs here").unwrap();
    let read = tool("read_file", ToolKind::Read, Effect::Read(vec![work.join("a.rs")]), |_, _| {
        Box::pin(async { ToolOutcome::text("code", Display::Nothing) })
    });
    let lines =
        vec![calls(&[("read_file", json!({}))]), calls(&[("read_file", json!({"n": 2}))]), says("ok")];
    let mut scene = Scene::with(Options { lines, tools: vec![read], ..options });
    scene.prompt("go").await;
    let first = scene.answers(1)[0]["output"].as_str().unwrap().to_owned();
    assert!(first.starts_with("code\n\n--- Newly Discovered Project Context ---\n"), "{first}");
    assert!(first.contains("use tabs here"));
    assert_eq!(scene.answers(2), [json!({"output": "code"})]);
}

#[tokio::test]
async fn a_call_of_a_front_end_leaves_the_context_near_a_file_to_the_model() {
    let options = Options::default();
    let work = options.dir.path().join("work/src");
    std::fs::create_dir_all(&work).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a fixture needs no atomic write")]
    std::fs::write(work.join("GEMINI.md"), "use tabs here").unwrap();
    let read = tool("read_file", ToolKind::Read, Effect::Read(vec![work.join("a.rs")]), |_, _| {
        Box::pin(async { ToolOutcome::text("code", Display::Nothing) })
    });
    let lines = vec![calls(&[("read_file", json!({}))]), says("ok")];
    let mut scene = Scene::with(Options { lines, tools: vec![read], ..options });
    scene.ask(Op::RunTool { name: "read_file".to_owned(), args: Default::default() }).await;
    assert!(matches!(scene.end().await, TurnEnd::Finished(_)));
    assert!(scene.events.iter().any(|event| matches!(event, Event::CallFinished(_))));
    scene.prompt("go").await;
    let answer = scene.answers(1)[0]["output"].as_str().unwrap().to_owned();
    assert!(answer.contains("use tabs here"), "{answer}");
}

#[tokio::test]
async fn duplicate_call_ids_of_a_model_get_distinct_answers() {
    let call = |n: u64| {
        let args = json!({"n": n}).as_object().unwrap().clone();
        Part::call(FunctionCall::new(Some("call_1".into()), "echo", args))
    };
    let lines = vec![
        ends(vec![call(1), call(2)], FinishReason::Stop),
        ends(vec![call(3)], FinishReason::Stop),
        says("done"),
    ];
    let mut scene = Scene::new(lines);
    assert!(matches!(scene.prompt("go").await, TurnEnd::Finished(_)));
    let requests = scene.model.requests.lock().unwrap();
    let contents = &requests.last().unwrap().contents;
    let called: Vec<_> = contents.iter().flat_map(|c| c.calls()).map(|call| call.id.clone()).collect();
    let answered: Vec<_> = contents.iter().flat_map(|c| c.responses()).map(|r| r.id.clone()).collect();
    assert_eq!(called, answered);
    let different: std::collections::HashSet<_> = called.iter().collect();
    assert_eq!(different.len(), 3, "{called:?}");
}

#[tokio::test]
async fn a_result_is_reported_and_on_disk_before_the_next_call_starts() {
    let dir = tempfile::tempdir().unwrap();
    let chats = dir.path().join("chats");
    let look = tool("look", ToolKind::Edit, Effect::Edit("/w/a".into()), move |_, _| {
        let mut files = std::fs::read_dir(&chats).unwrap().flatten().map(|entry| entry.path());
        let file = files.find(|path| path.extension().is_some_and(|end| end == "json")).unwrap();
        let done = std::fs::read_to_string(file).unwrap().matches("\"success\"").count();
        Box::pin(async move { ToolOutcome::text(format!("{done} before me"), Display::Nothing) })
    });
    let lines = vec![calls(&[("look", json!({"n": 1})), ("look", json!({"n": 2}))]), says("ok")];
    let mut scene = Scene::with(Options { lines, tools: vec![look], dir, ..Options::default() });
    scene.prompt("go").await;
    assert_eq!(scene.answers(1), [json!({"output": "0 before me"}), json!({"output": "1 before me"})]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_heed_a_cancel_does_not_hold_the_turn() {
    let deaf = tool("deaf", ToolKind::Read, Effect::Read(vec![]), |_, context| {
        (context.live)("running");
        Box::pin(std::future::pending())
    });
    let lines = vec![calls(&[("deaf", json!({}))]), says("ok")];
    let mut scene = Scene::with(Options { lines, tools: vec![deaf], ..Options::default() });
    scene.send("go").await;
    scene.until(|event| matches!(event, Event::CallOutput { .. })).await;
    scene.handle.ops.send(Op::Cancel).await.unwrap();
    assert!(matches!(scene.end().await, TurnEnd::Cancelled));
    assert!(matches!(scene.prompt("again").await, TurnEnd::Finished(_)));
    assert_eq!(scene.turns(1).len(), 5);
}

#[tokio::test]
async fn a_call_with_invalid_json_arguments_is_answered_and_never_run() {
    let bad = Part::call(FunctionCall::from_text(Some("1".into()), "echo", "{\"n\": 1"));
    let good = Part::call(FunctionCall::from_text(Some("2".into()), "echo", "{\"n\": 2}"));
    let lines = vec![ends(vec![bad, good], FinishReason::Stop), says("done")];
    let ran = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&ran);
    let echo = tool("echo", ToolKind::Read, Effect::Read(vec![]), move |args, _| {
        seen.lock().unwrap().push(args.clone());
        Box::pin(async { ToolOutcome::text("ran", Display::Nothing) })
    });
    let mut scene = Scene::with(Options { lines, tools: vec![echo], ..Options::default() });
    assert!(matches!(scene.prompt("go").await, TurnEnd::Finished(_)));
    let answers = scene.answers(1);
    let told = answers[0]["error"].as_str().unwrap();
    assert!(told.contains("not a valid JSON object") && told.contains("{\"n\": 1"), "{told}");
    assert_eq!(answers[1], json!({"output": "ran"}));
    assert_eq!(ran.lock().unwrap().len(), 1);
    let requests = scene.model.requests.lock().unwrap();
    let replayed: Vec<_> =
        requests.last().unwrap().contents.iter().flat_map(|content| content.calls()).collect();
    assert!(replayed[0].args.is_empty(), "sent back without arguments");
}
