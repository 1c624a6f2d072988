//! Other models in place of one that cannot answer, and the effort that a model is asked for.

use std::sync::Arc;
use std::time::Duration;

use pollux_domain::approval::{ApprovalAnswer, ApprovalRequest, QuestionForm, Subject};
use pollux_domain::event::{Event, ModelFallback, NoticeCode, Op, TurnEnd};
use pollux_domain::model::{Effort, ModelError, ModelErrorKind, ReplyEvent, Setting, Wait};

use super::scene::{Line, Options, Scene, says};

fn fails(kind: ModelErrorKind) -> Line {
    vec![Err(ModelError::new(kind, Some(529), "Overloaded."))]
}

fn listing(lines: Vec<Line>, model: &str, fallback: &[&str]) -> Options {
    let mut options = Options { lines, ..Options::default() };
    options.model.name = model.into();
    options.model.fallback = fallback.iter().map(|name| (*name).to_owned()).collect();
    options
}

fn asked(scene: &Scene) -> Vec<String> {
    scene.model.requests.lock().unwrap().iter().map(|request| request.model.clone()).collect()
}

fn switches(scene: &Scene) -> Vec<Arc<ModelFallback>> {
    let switch = |event: &Event| match event {
        Event::ModelFallback(fallback) => Some(Arc::clone(fallback)),
        _ => None,
    };
    scene.events.iter().filter_map(switch).collect()
}

#[tokio::test(start_paused = true)]
async fn a_listed_model_stands_in_until_the_chosen_one_has_cooled_down() {
    let lines = vec![fails(ModelErrorKind::Overloaded), says("one"), says("two"), says("three")];
    let mut scene = Scene::with(listing(lines, "a/x", &["b/tiny", "b/y"]));
    assert!(matches!(scene.prompt("first").await, TurnEnd::Finished(_)));
    assert_eq!(asked(&scene), ["a/x", "b/y"], "one that cannot hold the conversation is passed over");
    let [switch] = switches(&scene).try_into().unwrap();
    assert_eq!(
        switch.sentence(),
        "Switched from a/x to b/y until the end of this turn (a/x is tried again after 30 s): Overloaded (status 529)."
    );
    assert!(scene.recorded().to_string().contains("Switched from a/x to b/y"), "the session has the line");
    scene.prompt("second").await;
    tokio::time::advance(Duration::from_secs(31)).await;
    scene.prompt("third").await;
    assert_eq!(asked(&scene), ["a/x", "b/y", "b/y", "a/x"]);
    let back = scene.events.iter().any(|event| matches!(event, Event::ModelChanged(name) if name == "a/x"));
    assert!(back, "front ends learn of the return");
}

#[tokio::test(start_paused = true)]
async fn only_failures_that_another_model_may_avoid_cause_a_fallback() {
    for kind in [
        ModelErrorKind::Auth,
        ModelErrorKind::BadRequest,
        ModelErrorKind::PolicyBlocked,
        ModelErrorKind::BudgetExceeded,
        ModelErrorKind::ContextOverflow { asked: None, limit: None },
    ] {
        let mut scene = Scene::with(listing(vec![fails(kind.clone()), says("no")], "a/x", &["b/y"]));
        assert!(matches!(scene.prompt("go").await, TurnEnd::Failed(_)), "{kind:?}");
        assert_eq!(asked(&scene), ["a/x"], "{kind:?}");
    }
    for kind in [
        ModelErrorKind::Server,
        ModelErrorKind::Network,
        ModelErrorKind::QuotaExhausted,
        ModelErrorKind::Billing,
        ModelErrorKind::NotFound,
    ] {
        let mut scene = Scene::with(listing(vec![fails(kind.clone()), says("yes")], "a/x", &["b/y"]));
        assert!(matches!(scene.prompt("go").await, TurnEnd::Finished(_)), "{kind:?}");
        assert_eq!(asked(&scene), ["a/x", "b/y"], "{kind:?}");
    }
}

#[tokio::test]
async fn without_a_list_a_headless_run_fails() {
    let mut options = listing(vec![fails(ModelErrorKind::Overloaded), says("no")], "a/x", &[]);
    options.alternatives = vec!["b/y".into()];
    let mut scene = Scene::with(options);
    assert!(matches!(scene.prompt("go").await, TurnEnd::Failed(_)));
    assert_eq!(asked(&scene), ["a/x"]);
}

#[tokio::test(start_paused = true)]
async fn every_listed_model_is_tried_once() {
    let lines = (0..3).map(|_| fails(ModelErrorKind::Server)).collect();
    let mut scene = Scene::with(listing(lines, "a/x", &["b/y", "c/z"]));
    assert!(matches!(scene.prompt("go").await, TurnEnd::Failed(_)));
    assert_eq!(asked(&scene), ["a/x", "b/y", "c/z"]);
}

#[tokio::test(start_paused = true)]
async fn a_local_model_falls_back_to_a_remote_one_only_by_its_full_name() {
    let lines = || vec![fails(ModelErrorKind::Network), says("yes")];
    let mut scene = Scene::with(listing(lines(), "local/x", &["bare"]));
    assert!(matches!(scene.prompt("go").await, TurnEnd::Failed(_)));
    assert_eq!(asked(&scene), ["local/x"]);
    let mut scene = Scene::with(listing(lines(), "local/x", &["bare", "b/y"]));
    assert!(matches!(scene.prompt("go").await, TurnEnd::Finished(_)));
    assert_eq!(asked(&scene), ["local/x", "b/y"]);
    let mut options = listing(lines(), "local/x", &[]);
    (options.alternatives, options.interactive) = (vec!["b/y".into()], true);
    let mut scene = Scene::with(options);
    assert!(matches!(scene.prompt("go").await, TurnEnd::Failed(_)), "nor is a remote one proposed");
}

#[tokio::test(start_paused = true)]
async fn long_waits_are_cut_short_if_another_model_is_listed() {
    let wait = |attempt, kind, seconds| {
        Ok(ReplyEvent::Waiting(Wait {
            attempt,
            max_attempts: 10,
            delay: Duration::from_secs(seconds),
            cause: "busy".into(),
            status: None,
            kind: Some(kind),
        }))
    };
    let overloaded = |attempt| wait(attempt, ModelErrorKind::Overloaded, 5);
    let line = || vec![overloaded(1), overloaded(2), overloaded(3), overloaded(4)];
    let mut scene = Scene::with(listing(vec![line(), says("yes")], "a/x", &["b/y"]));
    scene.prompt("go").await;
    let waits = scene.events.iter().filter(|event| matches!(event, Event::Waiting(_))).count();
    assert_eq!((asked(&scene), waits), (vec!["a/x".to_owned(), "b/y".to_owned()], 2));
    let limited = vec![wait(1, ModelErrorKind::RateLimited, 90)];
    let mut scene = Scene::with(listing(vec![limited, says("yes")], "a/x", &["b/y"]));
    scene.prompt("go").await;
    assert_eq!(asked(&scene), ["a/x", "b/y"]);
    assert_eq!(switches(&scene)[0].cool_down, Duration::from_secs(90));
    let mut patient = says("late");
    patient.insert(0, wait(1, ModelErrorKind::RateLimited, 20));
    let mut scene = Scene::with(listing(vec![patient], "a/x", &["b/y"]));
    scene.prompt("go").await;
    assert_eq!(asked(&scene), ["a/x"]);
}

/// Answers the question about the model with its n-th choice; the question.
async fn answer(scene: &mut Scene, choice: usize) -> Arc<ApprovalRequest> {
    let event = scene.until(|event| matches!(event, Event::ApprovalWanted(_))).await;
    let Event::ApprovalWanted(request) = event else { panic!() };
    let Subject::Questions(questions) = &request.subject else { panic!("{request:?}") };
    let QuestionForm::Choice { options, .. } = &questions[0].form else { panic!("{questions:?}") };
    let answer = ApprovalAnswer::Replies(vec![options[choice].label.clone()]);
    let op = Op::Decide { call: request.call.clone(), answer };
    scene.handle.ops.send(op).await.unwrap();
    request
}

#[tokio::test(start_paused = true)]
async fn the_user_is_asked_if_no_fallback_is_listed() {
    let scene = |lines| {
        let mut options = listing(lines, "a/x", &[]);
        (options.alternatives, options.interactive) = (vec!["b/y".into()], true);
        Scene::with(options)
    };
    let mut once = scene(vec![fails(ModelErrorKind::Overloaded), says("yes")]);
    once.send("go").await;
    let request = answer(&mut once, 0).await;
    let Subject::Questions(questions) = &request.subject else { panic!() };
    assert!(questions[0].text.starts_with("a/x is unavailable: Overloaded (status 529)."));
    once.end().await;
    assert_eq!(asked(&once), ["a/x", "b/y"]);
    assert!(!switches(&once)[0].for_session);

    let mut session = scene(vec![fails(ModelErrorKind::Overloaded), says("yes"), says("still")]);
    session.send("go").await;
    answer(&mut session, 1).await;
    session.end().await;
    tokio::time::advance(Duration::from_secs(60)).await;
    session.prompt("again").await;
    assert_eq!(asked(&session), ["a/x", "b/y", "b/y"]);

    let mut wait = scene(vec![fails(ModelErrorKind::Overloaded), says("yes")]);
    wait.send("go").await;
    answer(&mut wait, 2).await;
    assert!(matches!(wait.end().await, TurnEnd::Finished(_)));
    assert_eq!(asked(&wait), ["a/x", "a/x"]);

    let mut stop = scene(vec![fails(ModelErrorKind::Overloaded), says("no")]);
    stop.send("go").await;
    answer(&mut stop, 3).await;
    assert!(matches!(stop.end().await, TurnEnd::Failed(_)));
    assert_eq!(asked(&stop), ["a/x"]);
}

#[tokio::test]
async fn an_effort_becomes_the_nearest_level_with_one_notice() {
    let mut options = listing(vec![says("one"), says("two")], "a/x", &[]);
    options.model.effort = Some("max".into());
    let mut scene = Scene::with(options);
    scene.prompt("first").await;
    scene.prompt("second").await;
    let efforts: Vec<Setting<Effort>> =
        scene.model.requests.lock().unwrap().iter().map(|request| request.settings.effort).collect();
    assert_eq!(efforts, [Setting::Set(Effort::High), Setting::Set(Effort::High)]);
    let notices = scene.events.iter().filter_map(|event| match event {
        Event::Notice { code: NoticeCode::Model, message, .. } => Some(message.as_str()),
        _ => None,
    });
    assert_eq!(notices.collect::<Vec<_>>(), ["a/x has no effort level `max`; using `high`."]);
}
