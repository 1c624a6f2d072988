//! Room: compression and overflow.

use pollux_domain::event::{CompressionStatus, Event, TurnEnd};
use pollux_domain::model::{ModelError, ModelErrorKind};

use super::scene::{Options, Scene, says};

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
        .filter_map(|e| if let Event::Compressed { status, .. } = e { Some(*status) } else { None })
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
