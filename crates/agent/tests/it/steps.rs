//! Requests: plain answers, broken streams, empty replies, limits, cancellation.

use pollux_domain::content::Part;
use pollux_domain::event::{Event, Op, TurnEnd};
use pollux_domain::model::{FinishReason, ModelError, ModelErrorKind};
use pollux_domain::tool::{Display, Effect, ToolKind, ToolOutcome};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::scene::{Options, Scene, breaks, call_part, calls, ends, says, stops_after, tool};

#[tokio::test]
async fn a_prompt_is_answered_and_both_are_on_disk() {
    let mut scene = Scene::new(vec![says("hello")]);
    assert!(matches!(scene.prompt("hi").await, TurnEnd::Finished(_)));
    assert_eq!(scene.shown(), "hello");
    let file = scene.recorded();
    let messages = file["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 2);
    assert_eq!((&messages[0]["type"], &messages[0]["content"]), (&json!("user"), &json!("hi")));
    assert_eq!((&messages[1]["type"], &messages[1]["content"]), (&json!("gemini"), &json!("hello")));
    assert_eq!(messages[1]["tokens"]["input"], json!(100));
}

#[tokio::test(start_paused = true)]
async fn nothing_of_a_cut_attempt_runs_and_its_text_is_declared_void() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&runs);
    let effect = Effect::Edit("/w/a".into());
    let write = tool("write", ToolKind::Edit, effect, move |_, _| {
        counter.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { ToolOutcome::text("done", Display::Nothing) })
    });
    let cut = ModelError::new(ModelErrorKind::Cut, None, "connection reset");
    let lines = vec![
        breaks(vec![Part::text("I wi"), call_part("write", &json!({"n": 1}))], cut),
        stops_after(vec![call_part("write", &json!({"n": 2}))]),
        says("finished"),
    ];
    let mut scene = Scene::with(Options { lines, tools: vec![write], ..Options::default() });
    assert!(matches!(scene.prompt("go").await, TurnEnd::Finished(_)));
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    let void: Vec<bool> = scene
        .events
        .iter()
        .filter_map(|e| if let Event::AttemptDiscarded(d) = e { Some(d.text_was_shown) } else { None })
        .collect();
    assert_eq!(void, [true, false]);
    let recorded = scene.recorded();
    let types: Vec<&str> =
        recorded["messages"].as_array().unwrap().iter().map(|m| m["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["user", "warning", "warning", "gemini"]);
}

#[tokio::test(start_paused = true)]
async fn empty_replies_are_asked_again_with_a_nudge_and_then_reported() {
    let mut scene = Scene::new(vec![
        ends(vec![], FinishReason::MalformedFunctionCall),
        ends(vec![], FinishReason::Stop),
        ends(vec![], FinishReason::Stop),
        ends(vec![], FinishReason::Stop),
    ]);
    let started = tokio::time::Instant::now();
    let end = scene.prompt("hi").await;
    assert!(matches!(&end, TurnEnd::InvalidReply { kind, .. } if kind == "NO_RESPONSE_TEXT"), "{end:?}");
    assert_eq!(started.elapsed().as_secs(), 7);
    let parts: Vec<usize> = (0..4).map(|n| scene.turns(n)[0]["parts"].as_array().unwrap().len()).collect();
    assert_eq!(parts, [1, 1, 2, 2]);
}

#[tokio::test]
async fn a_refused_request_ends_the_turn_at_once() {
    let refused = ModelError::new(ModelErrorKind::BadRequest, Some(400), "no");
    let mut scene = Scene::new(vec![vec![Err(refused.clone())], says("later")]);
    assert!(matches!(scene.prompt("hi").await, TurnEnd::Failed(error) if error == refused));
    assert_eq!(scene.request_count(), 1);
    scene.prompt("again").await;
    let roles: Vec<String> = scene.turns(1).iter().map(|t| t["role"].as_str().unwrap().to_owned()).collect();
    assert_eq!(roles, ["user", "model", "user"]);
}

#[tokio::test]
async fn the_turn_limit_ends_the_run_before_the_next_request() {
    let mut options =
        Options { lines: vec![calls(&[("echo", json!({}))]), says("no")], ..Options::default() };
    options.model.max_session_turns = Some(1);
    let mut scene = Scene::with(options);
    assert!(matches!(scene.prompt("hi").await, TurnEnd::TurnLimit));
    assert_eq!(scene.request_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_waits_for_the_model_is_cancelled_at_once_and_the_session_continues() {
    let mut scene = Scene::new(vec![]);
    scene.send("hi").await;
    scene.until(|event| matches!(event, Event::RequestSent(_))).await;
    let asked = tokio::time::Instant::now();
    scene.handle.ops.send(Op::Cancel).await.unwrap();
    assert!(matches!(scene.end().await, TurnEnd::Cancelled));
    assert!(asked.elapsed().as_millis() < 100);
}

#[tokio::test]
async fn a_model_that_repeats_itself_is_told_once_and_then_stopped() {
    let chant = "I will now look at the file and then I will look at the file. ".repeat(30);
    let mut scene = Scene::new(vec![says(&chant), says(&chant), says("never asked")]);
    assert!(matches!(scene.prompt("hi").await, TurnEnd::Loop(_)));
    assert_eq!(scene.request_count(), 2);
    let last = scene.turns(1).pop().unwrap();
    assert!(last["parts"][0]["text"].as_str().unwrap().contains("repeated the same passage"));
    // Each repetition is a separate reply for observers.
    assert_eq!(scene.events.iter().filter(|event| matches!(event, Event::StepCommitted)).count(), 2);
}

#[tokio::test]
async fn another_model_is_asked_from_the_next_request_on_and_recorded_with_its_replies() {
    let mut scene = Scene::new(vec![says("one"), says("two")]);
    assert!(matches!(scene.prompt("first").await, TurnEnd::Finished(_)));
    scene.handle.ops.send(Op::SetModel("other".to_owned())).await.unwrap();
    assert!(matches!(scene.prompt("second").await, TurnEnd::Finished(_)));
    let asked: Vec<&str> = scene
        .events
        .iter()
        .filter_map(
            |event| if let Event::RequestSent(sent) = event { Some(sent.model.as_str()) } else { None },
        )
        .collect();
    assert_eq!(asked.len(), 2);
    assert_ne!(asked[0], asked[1]);
    assert!(asked[1].contains("other"), "{asked:?}");
    assert!(scene.events.iter().any(|event| matches!(event, Event::ModelChanged(name) if name == "other")));
    let file = scene.recorded();
    assert_ne!(file["messages"][1]["model"], file["messages"][3]["model"]);
}
