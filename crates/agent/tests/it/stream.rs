//! What front ends learn: acknowledgements, ids, starts of calls, and commands of a person's own.

use std::collections::HashMap;
use std::sync::Arc;

use pollux_domain::BoxFuture;
use pollux_domain::approval::{ApprovalAnswer, ApprovalMode};
use pollux_domain::event::{Asked, Event, FrontId, Op, OpResult, RefusalCode, RequestId, TurnEnd};
use pollux_domain::id::CallId;
use pollux_domain::terminal_screen::{ScreenRun, TerminalScreen, TerminalSize, TypedBytes};
use pollux_domain::terminals::{CommandInput, CommandTerminal, TerminalEnd, Terminals};
use pollux_domain::tool::ToolKind;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::scene::{Options, Scene, calls, says};

#[tokio::test]
async fn every_operation_is_acknowledged_once_to_its_sender() {
    let mut scene = Scene::new(vec![says("hello")]);
    let call = CallId::from_file("nobody");
    let cases = [
        ("mode", Op::SetMode(ApprovalMode::Plan), None),
        ("model", Op::SetModel("other".to_owned()), None),
        ("late", Op::Decide { call, answer: ApprovalAnswer::Once }, Some(RefusalCode::NotWaiting)),
        ("rewind", Op::Rewind { to: "nothing".to_owned() }, Some(RefusalCode::NotFound)),
        ("queue", Op::Withdraw { prompt: RequestId::new("x") }, Some(RefusalCode::NotFound)),
        ("shell", Op::Shell { command: "ls".to_owned() }, Some(RefusalCode::Unsupported)),
        ("terminal", Op::SetTerminal(TerminalSize { columns: 80, rows: 24 }), None),
        ("away", Op::MoveToBackground { call: CallId::from_file("nobody") }, Some(RefusalCode::NotFound)),
        ("idle", Op::Cancel, None),
        ("prompt", Op::Prompt { parts: Vec::new(), typed: "hi".to_owned() }, None),
    ];
    for (id, op, _) in &cases {
        let asked = Asked { id: RequestId::new(*id), by: FrontId::new("remote"), op: op.clone() };
        scene.handle.ops.pass(asked).await.unwrap();
    }
    scene.until(|event| matches!(event, Event::TurnEnded(_))).await;
    let mut results: HashMap<String, Vec<OpResult>> = HashMap::new();
    for event in &scene.events {
        if let Event::Acknowledged { id, by, result } = event {
            assert_eq!(by.as_str(), "remote");
            results.entry(id.as_str().to_owned()).or_default().push(result.clone());
        }
    }
    for (id, _, refused) in cases {
        let [result] = results[id].as_slice() else { panic!("{id}: {results:?}") };
        assert_eq!(result.refusal().map(|refusal| refusal.code), refused, "{id}");
    }
    assert!(matches!(&results["model"][0], OpResult::Model { name, .. } if name == "other"));
    let by = |event: &Event| match event {
        Event::ModeChanged { by, .. } => by.clone(),
        Event::PromptAccepted { by, .. } => Some(by.clone()),
        _ => None,
    };
    let by: Vec<FrontId> = scene.events.iter().filter_map(by).collect();
    assert_eq!(by, [FrontId::new("remote"), FrontId::new("remote")]);
}

#[tokio::test]
async fn a_call_says_what_it_is_about_and_when_it_starts() {
    let mut scene = Scene::new(vec![calls(&[("echo", json!({"a": 1}))]), says("done")]);
    scene.prompt("go").await;
    let place = |fits: &dyn Fn(&Event) -> bool| scene.events.iter().position(fits).unwrap();
    let requested = place(&|event| {
        matches!(event, Event::CallRequested(asked) if asked.name == "echo" && asked.display_name == "ECHO"
            && asked.kind != ToolKind::Edit)
    });
    let started =
        place(&|event| matches!(event, Event::CallStarted { call } if call.as_str().contains("echo")));
    let finished = place(
        &|event| matches!(event, Event::CallFinished(report) if report.parts.iter().any(|part| part.spoken_text().is_some())),
    );
    assert!(requested < started && started < finished);
    // Prompt and replies have the ids of their records.
    let messages = scene.recorded()["messages"].as_array().unwrap().clone();
    let ids: Vec<&str> = messages.iter().filter_map(|message| message["id"].as_str()).collect();
    let told: Vec<&str> = scene
        .events
        .iter()
        .filter_map(|event| match event {
            Event::PromptAccepted { message, .. } => message.as_deref(),
            Event::StepBegan { message } => Some(message.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(told, ids);
}

#[tokio::test]
async fn the_log_of_a_session_is_read_back_without_loss() {
    let mut scene = Scene::new(vec![calls(&[("echo", json!({"a": [1.5, null]}))]), says("done")]);
    scene.prompt("go").await;
    assert!(scene.events.len() > 10, "{}", scene.events.len());
    for event in &scene.events {
        let text = event.to_json().to_string();
        let read = Event::from_json(serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{event:?}"));
    }
}

/// A terminal in which every command prints numbers.
struct Counting;

impl Terminals for Counting {
    fn run<'a>(
        &'a self,
        _command: &'a str,
        live: &'a (dyn Fn(&str) + Send + Sync),
        _: Option<&'a CommandTerminal>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, TerminalEnd> {
        Box::pin(async move {
            let mut output = String::new();
            for number in 0..2_000 {
                let line = format!("{number}\n");
                live(&line);
                output.push_str(&line);
                tokio::task::yield_now().await;
            }
            if output.is_empty() {
                cancel.cancelled().await;
            }
            TerminalEnd { output, ending: Some("[exit code 3]".to_owned()) }
        })
    }
}

#[tokio::test]
async fn a_user_command_is_reported_completely_and_reaches_the_model() {
    let terminals = Some(Arc::new(Counting) as Arc<dyn Terminals>);
    let mut scene = Scene::with(Options { lines: vec![says("seen")], terminals, ..Options::default() });
    scene.handle.ops.send(Op::Shell { command: "count".to_owned() }).await.unwrap();
    let Event::ShellEnded(report) = scene.until(|event| matches!(event, Event::ShellEnded(_))).await else {
        panic!()
    };
    assert_eq!((report.command.as_str(), report.ending.as_deref()), ("count", Some("[exit code 3]")));
    let printed: String = scene
        .events
        .iter()
        .filter_map(|event| match event {
            Event::CallOutput { call, text } if *call == report.call => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(printed, report.output);
    assert!(matches!(scene.prompt("well?").await, TurnEnd::Finished(_)));
    let sent = serde_json::to_string(&scene.turns(0)).unwrap();
    assert!(sent.contains("I ran the following shell command") && sent.contains("1999"), "{sent}");
}

/// A terminal in which every command repeats what is typed, until it is moved away.
struct Repeating;

impl Terminals for Repeating {
    fn run<'a>(
        &'a self,
        _command: &'a str,
        _: &'a (dyn Fn(&str) + Send + Sync),
        terminal: Option<&'a CommandTerminal>,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, TerminalEnd> {
        Box::pin(async move {
            let Some(terminal) = terminal else { return TerminalEnd::default() };
            let mut output = format!("{:?}", terminal.size());
            loop {
                let run = ScreenRun { text: output.clone(), style: None };
                terminal.show(TerminalScreen { rows: vec![vec![run]], ..TerminalScreen::default() });
                match terminal.next_input().await {
                    CommandInput::Typed(bytes) => output.push_str(&String::from_utf8_lossy(&bytes.0)),
                    CommandInput::Resized(size) => output = format!("{size:?}"),
                    CommandInput::MoveToBackground => return TerminalEnd { output, ending: None },
                }
            }
        })
    }
}

#[tokio::test]
async fn what_is_typed_reaches_a_running_command_and_no_log() {
    let terminals = Some(Arc::new(Repeating) as Arc<dyn Terminals>);
    let mut scene = Scene::with(Options { terminals, ..Options::default() });
    let shows = |event: &Event, text: &str| match event {
        Event::CallScreen { screen, .. } => screen.text().contains(text),
        _ => false,
    };
    let ask = async |scene: &Scene, op: Op| scene.handle.ops.send(op).await.unwrap();
    ask(&scene, Op::SetTerminal(TerminalSize { columns: 70, rows: 20 })).await;
    ask(&scene, Op::Shell { command: "x".to_owned() }).await;
    let Event::CallScreen { call, .. } = scene.until(|event| shows(event, "columns: 70")).await else {
        panic!("no screen")
    };
    ask(&scene, Op::SetTerminal(TerminalSize { columns: 60, rows: 20 })).await;
    scene.until(|event| shows(event, "columns: 60")).await;
    let other = Op::Type { call: CallId::from_file("other"), input: TypedBytes(b"lost".to_vec()) };
    let refused = ask(&scene, other).await;
    scene.until(|event| matches!(event, Event::Acknowledged { id, result, .. } if *id == refused && result.refusal().is_some())).await;
    let input = TypedBytes(b" typed".to_vec());
    ask(&scene, Op::Type { call: call.clone(), input: input.clone() }).await;
    scene.until(|event| shows(event, " typed")).await;
    ask(&scene, Op::MoveToBackground { call: call.clone() }).await;
    let Event::ShellEnded(report) = scene.until(|event| matches!(event, Event::ShellEnded(_))).await else {
        panic!("no end")
    };
    assert!(report.output.ends_with(" typed"), "{}", report.output);
    let late = ask(&scene, Op::Type { call, input }).await;
    scene.until(|event| matches!(event, Event::Acknowledged { id, result, .. } if *id == late && result.refusal().is_some())).await;
}
