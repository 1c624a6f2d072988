//! Room: compression and overflow.

use std::sync::atomic::Ordering;

use pollux_domain::content::{Blob, Body, Part};
use pollux_domain::event::{CompressionStatus, Event, Op, TurnEnd};
use pollux_domain::model::{ModelError, ModelErrorKind, RequestRole};
use pollux_domain::tool::{Display, Effect, ToolKind, ToolOutcome};
use serde_json::json;

use super::scene::{Options, Scene, calls, says, tool};

const SNAPSHOT: &str = "<state_snapshot><overall_goal>g</overall_goal></state_snapshot>";

fn crowded(unary: Vec<Result<String, ModelError>>) -> Options {
    let long = "word ".repeat(2_000);
    let mut options = Options { window: 6_000, unary, ..Options::default() };
    options.lines = vec![says(&format!("{long} one")), says("two"), says("three")];
    options.model.loop_detection = false;
    options
}

fn statuses(scene: &Scene) -> Vec<CompressionStatus> {
    scene
        .events
        .iter()
        .filter_map(|e| if let Event::Compressed(done) = e { Some(done.status) } else { None })
        .collect()
}

#[tokio::test]
async fn a_crowded_conversation_becomes_a_snapshot_and_the_file_keeps_every_message() {
    let mut options = crowded(vec![Ok(SNAPSHOT.into())]);
    // The scripted model reports small prompts; let the estimate decide.
    options.window = 4_000;
    let mut scene = Scene::with(options);
    scene.prompt("first").await;
    assert!(matches!(scene.prompt("second").await, TurnEnd::Finished(_)));
    assert_eq!(statuses(&scene), [CompressionStatus::Compressed]);
    let turns = scene.turns(2);
    assert_eq!(turns[0]["parts"][0]["text"], SNAPSHOT);
    assert_eq!(turns.last().unwrap()["parts"][0]["text"], "second");
    let file = scene.recorded();
    let messages = file["messages"].as_array().unwrap();
    assert!(messages[1]["content"].as_str().unwrap().ends_with("one"));
    assert_eq!(messages[3]["type"], "info");
    assert_eq!(messages[3]["compression"]["keepFrom"], messages[2]["id"]);
}

#[tokio::test]
async fn a_failed_summary_leaves_the_conversation_as_it_was() {
    let error = ModelError::new(ModelErrorKind::Server, Some(500), "down");
    let mut options = crowded(vec![Err(error)]);
    options.window = 4_000;
    let mut scene = Scene::with(options);
    scene.prompt("first").await;
    assert!(matches!(scene.prompt("second").await, TurnEnd::Finished(_)));
    assert_eq!(statuses(&scene), [CompressionStatus::Failed]);
    assert!(matches!(scene.prompt("third").await, TurnEnd::Finished(_)));
    assert_eq!(scene.turns(3).len(), 5);
}

#[tokio::test]
async fn a_prompt_larger_than_the_window_is_refused_before_it_is_sent() {
    let mut scene = Scene::with(Options { window: 1_000, ..Options::default() });
    let end = scene.prompt(&"word ".repeat(4_000)).await;
    assert!(matches!(end, TurnEnd::Overflow { .. }), "{end:?}");
    assert_eq!(scene.request_count(), 0);
}

#[tokio::test]
async fn a_prompt_that_was_too_large_does_not_spoil_the_session() {
    let unary = vec![Err(ModelError::new(ModelErrorKind::Server, Some(500), "down"))];
    let lines = vec![says("hello")];
    let mut scene = Scene::with(Options { window: 4_000, unary, lines, ..Options::default() });
    let end = scene.prompt(&"word ".repeat(40_000)).await;
    assert!(matches!(end, TurnEnd::Overflow { .. }), "{end:?}");
    let end = scene.prompt("small").await;
    assert!(matches!(end, TurnEnd::Finished(_)), "{end:?}");
    let turns = scene.turns(1);
    assert_eq!(turns.len(), 3, "{turns:?}");
    assert_eq!(turns[2]["parts"][0]["text"], "small");
    let file = scene.recorded();
    assert!(file["messages"][0]["content"].as_str().unwrap().len() >= 200_000, "the file keeps the words");
    let kept = file["messages"].as_array().unwrap().iter().find(|m| m["compression"].is_object()).unwrap();
    assert_eq!(file["messages"][1]["type"], "error");
    assert_eq!(kept["compression"]["keepFrom"], file["messages"][2]["id"]);
}

#[tokio::test]
async fn a_cancelled_compression_is_tried_again_the_next_time() {
    let mut options = crowded(vec![Ok(SNAPSHOT.into())]);
    options.window = 4_000;
    let mut scene = Scene::with(options);
    scene.prompt("first").await;
    scene.model.unary_hangs.store(true, Ordering::SeqCst);
    scene.send("second").await;
    scene
        .until(|event| matches!(event, Event::RequestSent(sent) if sent.role == RequestRole::Compressor))
        .await;
    scene.handle.ops.send(Op::Cancel).await.unwrap();
    assert!(matches!(scene.end().await, TurnEnd::Cancelled));
    scene.model.unary_hangs.store(false, Ordering::SeqCst);
    assert!(matches!(scene.prompt("third").await, TurnEnd::Finished(_)));
    assert_eq!(statuses(&scene), [CompressionStatus::Compressed]);
}

#[tokio::test]
async fn a_turn_that_waits_for_a_count_is_cancelled_at_once() {
    let mut scene = Scene::new(vec![]);
    scene.model.unary_hangs.store(true, Ordering::SeqCst);
    let image = Body::InlineData(Blob { mime_type: "image/png".into(), data_base64: "AA==".into() });
    let op = Op::Prompt { parts: vec![Part::text("see"), image.into()], typed: "see".into() };
    scene.handle.ops.send(op).await.unwrap();
    scene.until(|event| matches!(event, Event::PromptAccepted { .. })).await;
    scene.handle.ops.send(Op::Cancel).await.unwrap();
    assert!(matches!(scene.end().await, TurnEnd::Cancelled));
}

#[tokio::test]
async fn outputs_put_aside_can_make_a_summary_needless() {
    let long = tool("long", ToolKind::Read, Effect::Read(vec![]), |_, _| {
        Box::pin(async { ToolOutcome::text("x".repeat(16_000), Display::Nothing) })
    });
    let lines = vec![says(&"word ".repeat(1_600)), calls(&[("long", json!({}))]), says("done")];
    let mut options = Options { window: 8_000, lines, tools: vec![long], ..Options::default() };
    options.model.loop_detection = false;
    options.model.mask_protect_latest = false;
    // A small window has a limit of its own unless the user sets one.
    options.model.compression_threshold = 0.45;
    let mut scene = Scene::with(options);
    scene.prompt("first").await;
    assert!(matches!(scene.prompt("go").await, TurnEnd::Finished(_)));
    assert_eq!(statuses(&scene), [CompressionStatus::Truncated]);
    assert!(scene.model.requests.lock().unwrap().iter().all(|request| request.role == RequestRole::Main));
}
