//! Questions to the person, and planning.

use std::sync::Arc;

use pollux_agent::Planning;
use pollux_domain::approval::{ApprovalAnswer, ApprovalMode, ApprovalRequest, QuestionForm, Subject};
use pollux_domain::event::{Event, Op, TurnEnd};
use serde_json::{Value, json};

use super::scene::{Line, Options, Scene, calls, says};

fn scene(mode: ApprovalMode, interactive: bool, lines: Vec<Line>) -> Scene {
    let planning = Planning::InSessionFolder;
    Scene::with(Options { lines, planning, approval: mode, interactive, ..Options::default() })
}

async fn question(scene: &mut Scene) -> Arc<ApprovalRequest> {
    match scene.until(|event| matches!(event, Event::ApprovalWanted(_))).await {
        Event::ApprovalWanted(request) => request,
        other => panic!("unexpected {other:?}"),
    }
}

async fn answer(scene: &Scene, request: &ApprovalRequest, answer: ApprovalAnswer) {
    let op = Op::Decide { call: request.call.clone(), answer };
    scene.handle.ops.send(op).await.unwrap();
}

fn output(scene: &Scene, request: usize) -> String {
    scene.answers(request)[0]["output"].as_str().unwrap_or_default().to_owned()
}

fn declared(scene: &Scene, request: usize) -> Vec<String> {
    let requests = scene.model.requests.lock().unwrap();
    requests[request].tools.iter().map(|tool| tool.name.clone()).collect()
}

fn ask(kind: &str) -> Line {
    let options = json!([{"label": "A", "description": "a"}, {"label": "B", "description": "b"}]);
    let mut question = json!({"question": "Which\\none?", "header": "Which", "type": kind});
    if kind == "choice" {
        question["options"] = options;
    }
    calls(&[("ask_user", json!({"questions": [question]}))])
}

#[tokio::test]
async fn questions_reach_the_person_and_answers_the_model() {
    let mut scene = scene(ApprovalMode::Yolo, true, vec![ask("choice"), ask("text"), says("ok")]);
    scene.send("go").await;
    let request = question(&mut scene).await;
    let Subject::Questions(questions) = &request.subject else { panic!("{request:?}") };
    assert_eq!(questions[0].text, "Which\none?");
    assert!(matches!(&questions[0].form, QuestionForm::Choice { options, .. } if options.len() == 2));
    answer(&scene, &request, ApprovalAnswer::Replies(vec!["B".into()])).await;
    let second = question(&mut scene).await;
    answer(&scene, &second, ApprovalAnswer::Cancel).await;
    assert!(matches!(scene.end().await, TurnEnd::Finished(_)));
    assert_eq!(output(&scene, 1), r#"{"answers":{"0":"B"}}"#);
    assert_eq!(output(&scene, 2), "User dismissed ask_user dialog without answering.");
}

#[tokio::test]
async fn without_a_person_there_is_nothing_to_ask_with() {
    let mut scene = scene(ApprovalMode::Yolo, false, vec![says("ok")]);
    scene.prompt("go").await;
    assert!(!declared(&scene, 0).contains(&"ask_user".to_owned()));
}

#[tokio::test]
async fn a_bad_question_is_answered_with_what_is_wrong() {
    let lines = vec![
        calls(&[("ask_user", json!({"questions": [{"question": "q", "header": "h", "type": "choice"}]}))]),
        says("ok"),
    ];
    let mut scene = scene(ApprovalMode::Default, true, lines);
    scene.prompt("go").await;
    assert_eq!(scene.answers(1), [json!({"error": "Question 1: `choice` needs two to four `options`."})]);
}

#[expect(clippy::disallowed_methods, reason = "a fixture needs no atomic write")]
fn plan_file(scene: &Scene, name: &str, text: &str) {
    let folder = scene.dir.path().join("temp/11111111-2222-3333-4444-555555555555/plans");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), text).unwrap();
}

fn exit(name: &str) -> Line {
    calls(&[("exit_plan_mode", json!({"plan_filename": name}))])
}

#[tokio::test]
async fn a_plan_is_entered_shown_sent_back_and_approved() {
    let lines = vec![
        calls(&[("enter_plan_mode", json!({"reason": "big change"}))]),
        exit("p.md"),
        exit("p.md"),
        says("working"),
    ];
    let mut scene = scene(ApprovalMode::Default, true, lines);
    scene.send("go").await;
    let enter = question(&mut scene).await;
    assert!(matches!(&enter.subject, Subject::EnterPlan { reason } if reason == "big change"));
    plan_file(&scene, "p.md", "1. do it");
    answer(&scene, &enter, ApprovalAnswer::Once).await;
    let first = question(&mut scene).await;
    assert!(matches!(&first.subject, Subject::Plan { text, .. } if text == "1. do it"));
    answer(&scene, &first, ApprovalAnswer::Refuse("more detail".into())).await;
    let second = question(&mut scene).await;
    answer(&scene, &second, ApprovalAnswer::Session).await;
    assert!(matches!(scene.end().await, TurnEnd::Finished(_)));
    assert_eq!(output(&scene, 1), "Switching to Plan mode.");
    assert!(
        output(&scene, 2).starts_with("Plan rejected. User feedback: more detail\n\nThe plan is stored at: ")
    );
    assert!(output(&scene, 3).starts_with("Plan approved. Switching to auto-edit mode"));
    assert!(declared(&scene, 0).contains(&"enter_plan_mode".to_owned()));
    assert!(declared(&scene, 1).contains(&"exit_plan_mode".to_owned()));
    assert!(!declared(&scene, 1).contains(&"enter_plan_mode".to_owned()));
    let requests = scene.model.requests.lock().unwrap();
    let system = |index: usize| requests[index].system.as_deref().unwrap_or_default().to_owned();
    assert!(system(1).contains("# Plan mode") && !system(3).contains("# Plan mode"));
}

#[tokio::test]
async fn a_run_that_was_started_in_plan_mode_cannot_give_itself_more_than_the_default() {
    let mut scene = scene(ApprovalMode::Plan, false, vec![exit("p.md"), says("ok")]);
    plan_file(&scene, "p.md", "1. do it");
    scene.prompt("go").await;
    assert!(output(&scene, 1).starts_with("Plan approved. Switching to default mode"));
    assert!(
        scene
            .events
            .iter()
            .any(|event| matches!(event, Event::ModeChanged { mode: ApprovalMode::Default, .. }))
    );
}

#[tokio::test]
async fn plans_that_are_missing_empty_or_elsewhere_are_named() {
    let lines = vec![exit("gone.md"), exit("empty.md"), exit("../x.md"), exit("/etc/passwd"), says("ok")];
    let mut scene = scene(ApprovalMode::Plan, false, lines);
    plan_file(&scene, "empty.md", " \n");
    scene.prompt("go").await;
    assert!(output(&scene, 1).starts_with("Plan file does not exist: "));
    assert!(output(&scene, 2).starts_with("Plan file is empty."));
    for request in [3, 4] {
        let error = scene.answers(request)[0]["error"].as_str().map(str::to_owned).unwrap_or_default();
        assert!(error.starts_with("Access denied: plan path ("), "{error}");
    }
}

#[tokio::test]
async fn planning_in_yolo_mode_without_a_person_goes_back_to_yolo() {
    let lines = vec![calls(&[("enter_plan_mode", json!({}))]), exit("p.md"), says("ok")];
    let mut scene = scene(ApprovalMode::Yolo, false, lines);
    plan_file(&scene, "p.md", "plan");
    scene.prompt("go").await;
    assert_eq!(output(&scene, 1), "Switching to Plan mode.");
    assert!(output(&scene, 2).contains("Switching to yolo mode"), "{:?}", Value::from(scene.answers(2)));
}

#[tokio::test]
async fn in_an_untrusted_folder_planning_ends_in_a_mode_that_may_be_entered() {
    // What was granted at the start can be entered again.
    let planning = Planning::InSessionFolder;
    let lines = vec![calls(&[("enter_plan_mode", json!({}))]), exit("p.md"), says("ok")];
    let options =
        Options { lines, planning, approval: ApprovalMode::Yolo, trusted: false, ..Options::default() };
    let mut scene = Scene::with(options);
    plan_file(&scene, "p.md", "plan");
    scene.prompt("go").await;
    assert!(output(&scene, 2).contains("Switching to yolo mode"), "{:?}", Value::from(scene.answers(2)));
    let last_mode = |scene: &Scene| {
        scene.events.iter().rev().find_map(|event| match event {
            Event::ModeChanged { mode, .. } => Some(*mode),
            _ => None,
        })
    };
    assert_eq!(last_mode(&scene), Some(ApprovalMode::Yolo));
    // What was not is refused, and the model learns which mode it is in.
    let planning = Planning::InSessionFolder;
    let options = Options {
        lines: vec![exit("p.md"), says("ok")],
        planning,
        approval: ApprovalMode::Plan,
        interactive: true,
        trusted: false,
        ..Options::default()
    };
    let mut scene = Scene::with(options);
    plan_file(&scene, "p.md", "plan");
    scene.send("go").await;
    let asked = question(&mut scene).await;
    answer(&scene, &asked, ApprovalAnswer::Session).await;
    scene.end().await;
    let told = output(&scene, 1);
    assert!(told.starts_with("Plan approved. Switching to default mode"), "{told}");
    assert!(told.contains("untrusted folder"), "{told}");
    assert_eq!(last_mode(&scene), Some(ApprovalMode::Default));
}
