//! What some providers do that others do not: requests that turn out too large, changed requests, refusals, calls that
//! grow, and reasoning that is bound to what comes before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pollux_domain::BoxFuture;
use pollux_domain::content::Part;
use pollux_domain::event::{CompressionStatus, Event, NoticeCode, TurnEnd};
use pollux_domain::model::{
    FinishReason, ModelError, ModelErrorKind, ModelRequest, Refusal, ReplyEvent, RequestRole, Wait,
};
use pollux_domain::tool::{Display, Effect, Tool, ToolKind, ToolOutcome, ToolSource};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::scene::{Line, Options, Scene, calls, echo, ends, says, tool};

const SNAPSHOT: &str = "<state_snapshot><overall_goal>g</overall_goal></state_snapshot>";

fn too_large(limit: Option<u64>) -> Line {
    let kind = ModelErrorKind::ContextOverflow { asked: None, limit };
    vec![Err(ModelError::new(kind, Some(400), "prompt is too long"))]
}

/// A conversation with something to compress, then these lines.
fn grown(lines: Vec<Line>, unary: Vec<Result<String, ModelError>>) -> Options {
    let mut options = Options { unary, ..Options::default() };
    options.lines = vec![says(&"word ".repeat(2_000))];
    options.lines.extend(lines);
    options.model.loop_detection = false;
    options
}

fn main_requests(scene: &Scene) -> usize {
    let requests = scene.model.requests.lock().unwrap();
    requests.iter().filter(|request| request.role == RequestRole::Main).count()
}

fn statuses(scene: &Scene) -> Vec<CompressionStatus> {
    scene
        .events
        .iter()
        .filter_map(|e| if let Event::Compressed(done) = e { Some(done.status) } else { None })
        .collect()
}

fn notices(scene: &Scene) -> Vec<String> {
    scene
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Notice { code: NoticeCode::Model, message, .. } => Some(message.clone()),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn a_request_that_does_not_fit_is_compressed_once_and_sent_again() {
    let mut scene = Scene::with(grown(
        vec![too_large(Some(50_000)), says("fits"), says("next")],
        vec![Ok(SNAPSHOT.into())],
    ));
    scene.prompt("first").await;
    assert!(matches!(scene.prompt("second").await, TurnEnd::Finished(_)));
    assert_eq!(statuses(&scene), [CompressionStatus::Compressed]);
    assert!(scene.shown().ends_with("fits"));
    assert_eq!(main_requests(&scene), 3);
    let turns = scene.turns(3);
    assert_eq!(turns[0]["parts"][0]["text"], SNAPSHOT);
    assert_eq!(turns.last().unwrap()["parts"][0]["text"], "second");
    scene.prompt("third").await;
    let window = scene.events.iter().rev().find_map(|event| match event {
        Event::RequestEnded(ended) => Some(ended.window),
        _ => None,
    });
    assert_eq!(window, Some(50_000), "the window that the server named is kept in mind");
}

#[tokio::test]
async fn a_request_that_never_fits_ends_the_turn_with_the_error() {
    let lines = vec![too_large(None), too_large(None), says("never asked for")];
    let mut scene = Scene::with(grown(lines, vec![Ok(SNAPSHOT.into())]));
    scene.prompt("first").await;
    let end = scene.prompt("second").await;
    assert!(matches!(&end, TurnEnd::Failed(error) if error.message == "prompt is too long"), "{end:?}");
    assert_eq!((main_requests(&scene), statuses(&scene).len()), (3, 1));
}

#[tokio::test]
async fn a_first_prompt_that_does_not_fit_has_nothing_to_compress() {
    let mut scene = Scene::new(vec![too_large(None), says("never asked for")]);
    assert!(matches!(scene.prompt("large").await, TurnEnd::Failed(_)));
    assert_eq!(scene.request_count(), 1);
}

#[tokio::test]
async fn a_summary_that_fails_leaves_the_turns_from_the_prompt_on() {
    let down = ModelError::new(ModelErrorKind::Server, Some(500), "down");
    let mut scene = Scene::with(grown(vec![too_large(None), says("fits")], vec![Err(down)]));
    scene.prompt("first").await;
    assert!(matches!(scene.prompt("second").await, TurnEnd::Finished(_)));
    assert_eq!(statuses(&scene), [CompressionStatus::Truncated]);
}

#[tokio::test]
async fn a_window_that_fills_up_during_the_reply_keeps_its_words() {
    let cut = ends(vec![Part::text("as far as it")], FinishReason::ContextWindow);
    let mut scene = Scene::new(vec![cut]);
    let end = scene.prompt("go").await;
    assert!(matches!(&end, TurnEnd::Finished(Some(finish)) if finish.reason == FinishReason::ContextWindow));
    assert_eq!((scene.shown().as_str(), scene.request_count()), ("as far as it", 1));
    assert!(notices(&scene)[0].contains("/compress"), "{:?}", notices(&scene));
}

#[tokio::test(start_paused = true)]
async fn a_window_that_is_full_before_the_first_word_is_compressed_once() {
    let full = || ends(vec![], FinishReason::ContextWindow);
    let mut scene = Scene::with(grown(vec![full(), says("fits")], vec![Ok(SNAPSHOT.into())]));
    scene.prompt("first").await;
    assert!(matches!(scene.prompt("second").await, TurnEnd::Finished(_)));
    assert_eq!(statuses(&scene), [CompressionStatus::Compressed]);
    let mut scene = Scene::new(vec![full(), says("never asked for")]);
    assert!(matches!(scene.prompt("go").await, TurnEnd::InvalidReply { .. }));
    assert_eq!(scene.request_count(), 1);
}

#[tokio::test]
async fn a_changed_request_is_told_as_a_notice_and_not_as_a_wait() {
    let changed = Wait {
        attempt: 1,
        max_attempts: 4,
        delay: Duration::ZERO,
        cause: "The server rejected the model's earlier reasoning.".into(),
        status: Some(400),
        kind: None,
    };
    let mut line = says("fine");
    line.insert(0, Ok(ReplyEvent::Waiting(changed)));
    let mut scene = Scene::new(vec![line]);
    assert!(matches!(scene.prompt("go").await, TurnEnd::Finished(_)));
    assert_eq!(notices(&scene), ["The server rejected the model's earlier reasoning."]);
    assert!(!scene.events.iter().any(|event| matches!(event, Event::Waiting(_))));
}

#[tokio::test]
async fn a_refusal_is_an_answer_and_not_asked_for_again() {
    let refusal = Refusal { category: Some("cyber".into()), text: Some("Not this.".into()) };
    let mut scene = Scene::new(vec![ends(vec![], FinishReason::Refusal(Box::new(refusal))), says("later")]);
    let end = scene.prompt("go").await;
    assert!(matches!(&end, TurnEnd::Finished(Some(finish)) if finish.reason.as_str() == "SAFETY"), "{end:?}");
    assert_eq!(scene.request_count(), 1);
    assert_eq!(notices(&scene), ["The model refused. Not this."]);
    assert!(matches!(scene.prompt("something else").await, TurnEnd::Finished(_)));
}

#[tokio::test]
async fn the_growth_of_a_call_is_told_now_and_then() {
    let grows = |bytes| Ok(ReplyEvent::CallProgress { index: 0, name: "echo".into(), bytes });
    let mut line: Line = [0, 100, 1_500, 1_600, 3_000].into_iter().map(grows).collect();
    line.push(Ok(ReplyEvent::Alive));
    line.extend(calls(&[("echo", json!({}))]));
    let mut scene = Scene::new(vec![line, says("done")]);
    assert!(matches!(scene.prompt("go").await, TurnEnd::Finished(_)));
    let told: Vec<u64> = scene
        .events
        .iter()
        .filter_map(|event| match event {
            Event::CallProgress { name, bytes } if name == "echo" => Some(*bytes),
            _ => None,
        })
        .collect();
    assert_eq!(told, [0, 1_500, 3_000]);
}

/// Tools of a server that joins after so many looks.
struct Joining {
    looks: AtomicUsize,
    tool: Arc<dyn Tool>,
}

impl Joining {
    fn has_joined(&self) -> bool {
        self.looks.load(Ordering::SeqCst) > 4
    }
}

impl ToolSource for Joining {
    fn version(&self) -> u64 {
        self.looks.fetch_add(1, Ordering::SeqCst);
        u64::from(self.has_joined())
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        if self.has_joined() { vec![Arc::clone(&self.tool)] } else { Vec::new() }
    }

    fn context(&self) -> Option<String> {
        self.has_joined().then(|| "A server joined.".to_owned())
    }

    fn settled<'a>(&'a self, _cancel: &'a CancellationToken) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

fn beginning(request: &ModelRequest) -> (String, Vec<String>, Vec<Value>) {
    let tools = request.tools.iter().map(|tool| tool.name.clone()).collect();
    let turns = request.contents.iter().map(|content| content.to_json()).collect();
    (request.system.as_deref().unwrap_or_default().to_owned(), tools, turns)
}

fn ten_turns(sealed: bool) -> Options {
    let long = tool("long", ToolKind::Read, Effect::Read(vec![]), |_, _| {
        Box::pin(async { ToolOutcome::text("x".repeat(8_000), Display::Nothing) })
    });
    let late = tool("late", ToolKind::Read, Effect::Read(vec![]), |_, _| {
        Box::pin(async { ToolOutcome::text("late", Display::Nothing) })
    });
    let mut lines: Vec<Line> = (0..9).map(|n| calls(&[("long", json!({"n": n}))])).collect();
    lines.push(says("done"));
    let late = Some(Arc::new(Joining { looks: AtomicUsize::new(0), tool: late }) as Arc<dyn ToolSource>);
    let mut options = Options { lines, sealed, late, tools: vec![echo(), long], ..Options::default() };
    options.model.loop_detection = false;
    options.model.mask_protected_tokens = 1_000;
    options.model.mask_min_prunable_tokens = 1_000;
    options
}

#[tokio::test]
async fn requests_to_a_model_with_bound_reasoning_only_append() {
    for sealed in [true, false] {
        let mut scene = Scene::with(ten_turns(sealed));
        assert!(matches!(scene.prompt("go").await, TurnEnd::Finished(_)));
        let requests = scene.model.requests.lock().unwrap().clone();
        assert_eq!(requests.len(), 10);
        let appends = requests.windows(2).all(|pair| {
            let (before, after) = (beginning(&pair[0]), beginning(&pair[1]));
            before.0 == after.0 && before.1 == after.1 && after.2.starts_with(&before.2)
        });
        assert_eq!(appends, sealed, "outputs are masked and tools join elsewhere");
        let waits = notices(&scene).iter().filter(|text| text.contains("1 tool")).count();
        assert_eq!(waits, usize::from(sealed));
    }
}

#[tokio::test]
async fn a_compression_lets_tools_in_that_waited() {
    let mut options = ten_turns(true);
    options.lines.push(says("after"));
    options.unary = vec![Ok(SNAPSHOT.into())];
    let mut scene = Scene::with(options);
    scene.prompt("go").await;
    scene.handle.ops.send(pollux_domain::event::Op::Compress).await.unwrap();
    scene.until(|event| matches!(event, Event::Compressed(_))).await;
    scene.end().await;
    assert!(matches!(scene.prompt("more").await, TurnEnd::Finished(_)));
    let last = scene.model.requests.lock().unwrap().last().unwrap().clone();
    assert!(last.tools.iter().any(|tool| tool.name == "late"));
    assert_eq!(last.contents[1].text(), SNAPSHOT);
}
