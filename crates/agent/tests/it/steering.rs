//! What a user says to a running turn.

use std::sync::Arc;

use pollux_domain::content::Part;
use pollux_domain::event::{Asked, Event, FrontId, Op, OpResult, RefusalCode, RequestId, TurnEnd};
use pollux_domain::tool::{Display, Effect, Tool, ToolKind, ToolOutcome};
use serde_json::json;
use tokio::sync::Notify;

use super::scene::{Options, Scene, calls, says};

/// A tool that waits for a word.
fn waiting(go: &Arc<Notify>) -> Arc<dyn Tool> {
    let go = Arc::clone(go);
    super::scene::tool("wait", ToolKind::Read, Effect::Read(vec![]), move |_, _| {
        let go = Arc::clone(&go);
        Box::pin(async move {
            go.notified().await;
            ToolOutcome::text("waited".to_owned(), Display::Nothing)
        })
    })
}

fn steer(id: &str) -> Asked {
    let op = Op::Steer { parts: vec![Part::text(id)], typed: id.to_owned() };
    Asked { id: RequestId::new(id), by: FrontId::new("remote"), op }
}

fn results<'a>(scene: &'a Scene, name: &str) -> Vec<&'a OpResult> {
    let of = |event: &'a Event| match event {
        Event::Acknowledged { id, result, .. } if id.as_str() == name => Some(result),
        _ => None,
    };
    scene.events.iter().filter_map(of).collect()
}

#[tokio::test]
async fn what_is_said_to_a_turn_goes_with_its_next_request_and_is_recorded() {
    let go = Arc::new(Notify::new());
    let lines = vec![calls(&[("wait", json!({}))]), says("done")];
    let mut scene = Scene::with(Options { lines, tools: vec![waiting(&go)], ..Options::default() });
    scene
        .handle
        .ops
        .send(Op::Prompt { parts: vec![Part::text("go")], typed: "go".to_owned() })
        .await
        .unwrap();
    scene.until(|event| matches!(event, Event::CallStarted { .. })).await;
    for text in ["use tabs", "no spaces", "taken back"] {
        scene.handle.ops.pass(steer(text)).await.unwrap();
    }
    // Another front end may use the same ids.
    for (id, by) in [("of another", "other"), ("own", "remote")] {
        let op = Op::Withdraw { prompt: RequestId::new("taken back") };
        let asked = Asked { id: RequestId::new(id), by: FrontId::new(by), op };
        scene.handle.ops.pass(asked).await.unwrap();
    }
    scene.until(|event| matches!(event, Event::Acknowledged { id, .. } if id.as_str() == "taken back")).await;
    go.notify_one();
    scene.until(|event| matches!(event, Event::TurnEnded(TurnEnd::Finished(_)))).await;

    let requests = scene.model.requests.lock().unwrap();
    assert_eq!(requests.len(), 2);
    let told: Vec<String> = requests[1]
        .contents
        .iter()
        .rev()
        .take(3)
        .map(|content| content.parts.iter().filter_map(Part::spoken_text).collect())
        .collect();
    assert_eq!(told, ["no spaces", "use tabs", ""], "the answer of the call comes first");
    drop(requests);
    assert!(matches!(results(&scene, "use tabs").as_slice(), [OpResult::Accepted]));
    let dropped = results(&scene, "taken back");
    assert!(
        matches!(dropped.as_slice(), [OpResult::Refused(refusal)] if refusal.code == RefusalCode::Dropped)
    );
    let of_another = results(&scene, "of another");
    assert!(
        matches!(of_another.as_slice(), [OpResult::Refused(refusal)] if refusal.code == RefusalCode::NotFound)
    );
    assert!(matches!(results(&scene, "own").as_slice(), [OpResult::Accepted]));
    let place = |fits: &dyn Fn(&Event) -> bool| scene.events.iter().position(fits).unwrap();
    let finished = place(&|event| matches!(event, Event::CallFinished(_)));
    let steered = place(
        &|event| matches!(event, Event::Steered { typed, by, .. } if typed == "use tabs" && by.as_str() == "remote"),
    );
    let answered = place(&|event| matches!(event, Event::Text(_)));
    assert!(finished < steered && steered < answered);
    let record = scene.recorded();
    let messages = record["messages"].as_array().unwrap();
    let kinds: Vec<&str> = messages.iter().filter_map(|message| message["type"].as_str()).collect();
    assert_eq!(kinds, ["user", "gemini", "user", "user", "gemini"], "{record}");
    let Event::Steered { message, .. } = &scene.events[steered] else { panic!() };
    assert_eq!(message.as_deref(), messages[2]["id"].as_str());
}

#[tokio::test]
async fn a_turn_that_would_end_answers_what_was_said_to_it() {
    let go = Arc::new(Notify::new());
    let lines = vec![calls(&[("wait", json!({}))]), says("done"), says("tabs it is")];
    let mut scene = Scene::with(Options { lines, tools: vec![waiting(&go)], ..Options::default() });
    scene
        .handle
        .ops
        .send(Op::Prompt { parts: vec![Part::text("go")], typed: "go".to_owned() })
        .await
        .unwrap();
    go.notify_one();
    // The last request is on its way.
    scene.until(|event| matches!(event, Event::CallFinished(_))).await;
    scene.until(|event| matches!(event, Event::RequestSent(_))).await;
    scene.handle.ops.pass(steer("use tabs")).await.unwrap();
    scene.until(|event| matches!(event, Event::TurnEnded(_))).await;
    let ends = scene.events.iter().filter(|event| matches!(event, Event::TurnEnded(_))).count();
    let texts: String = scene
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!((ends, texts.as_str()), (1, "donetabs it is"));
}

#[tokio::test]
async fn what_a_cancelled_turn_did_not_get_is_given_back() {
    let go = Arc::new(Notify::new());
    let lines = vec![calls(&[("wait", json!({}))])];
    let mut scene = Scene::with(Options { lines, tools: vec![waiting(&go)], ..Options::default() });
    scene.handle.ops.pass(steer("too early")).await.unwrap();
    scene
        .handle
        .ops
        .send(Op::Prompt { parts: vec![Part::text("go")], typed: "go".to_owned() })
        .await
        .unwrap();
    scene.until(|event| matches!(event, Event::CallStarted { .. })).await;
    scene.handle.ops.pass(steer("use tabs")).await.unwrap();
    scene.handle.ops.send(Op::Cancel).await.unwrap();
    scene.until(|event| matches!(event, Event::TurnEnded(TurnEnd::Cancelled))).await;
    for name in ["too early", "use tabs"] {
        let result = results(&scene, name);
        assert!(
            matches!(result.as_slice(), [OpResult::Refused(refusal)] if refusal.code == RefusalCode::Dropped),
            "{name}: {result:?}"
        );
    }
    assert!(!scene.recorded().to_string().contains("use tabs"));
}
