//! What the screen says while something takes its time.

use pollux_domain::event::{CallRequest, RequestSent};
use pollux_domain::model::{ProviderId, RequestRole, Wait};

use super::views::ended;
use super::*;

fn asks(model: &str) -> Event {
    Event::RequestSent(Arc::new(RequestSent {
        model: model.to_owned(),
        role: RequestRole::Main,
        prompt_id: String::new(),
        contents: Vec::new(),
        subagent: None,
    }))
}

fn busy() -> Stage {
    let mut stage = Stage::new(80, 24);
    let now = stage.now;
    stage.app.begin_turn("go", false, now);
    stage
}

fn call(id: &str, name: &str) -> Event {
    Event::CallRequested(Arc::new(CallRequest::new(CallId::from_file(id), name, JsonObject::new())))
}

#[test]
fn a_silent_server_is_named_and_does_not_look_like_thinking() {
    let mut stage = busy();
    stage.event(asks("openai/gpt-5"));
    stage.now += Duration::from_secs(5);
    assert!(stage.shown().contains("Thinking..."), "{}", stage.shown());
    stage.now += Duration::from_secs(25);
    assert!(
        stage.shown().contains("Waiting for openai/gpt-5, 30s (esc to cancel, 30s)"),
        "{}",
        stage.shown()
    );
    stage.event(Event::Text("Hello".to_owned()));
    assert!(!stage.shown().contains("Waiting for"), "{}", stage.shown());
    stage.now += Duration::from_secs(12);
    assert!(stage.shown().contains("Waiting for openai/gpt-5, 12s"), "{}", stage.shown());
    // A tool that takes its time is no silent server.
    stage.event(Event::StepCommitted);
    stage.event(call("1", "glob"));
    stage.event(Event::CallStarted { call: CallId::from_file("1") });
    stage.now += Duration::from_secs(60);
    let shown = stage.shown();
    assert!(shown.contains("Running FindFiles") || shown.contains("Running "), "{shown}");
    assert!(!shown.contains("Waiting for"), "{shown}");
}

#[test]
fn a_retry_names_the_model_and_the_status() {
    let mut stage = busy();
    stage.event(asks("openai/gpt-5"));
    stage.event(Event::Waiting(Wait {
        attempt: 1,
        max_attempts: 3,
        delay: Duration::from_secs(20),
        cause: "The server is overloaded".to_owned(),
        status: Some(503),
        kind: None,
    }));
    let why = "Waiting: openai/gpt-5: The server is overloaded (HTTP 503, attempt 1 of 3), retrying in 20s";
    let shown = |stage: &mut Stage| stage.shown().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown(&mut stage).contains(why), "{}", stage.shown());
    stage.now += Duration::from_secs(21);
    assert!(!stage.shown().contains("retrying"), "{}", stage.shown());
    stage.now += Duration::from_secs(20);
    assert!(stage.shown().contains("Waiting for openai/gpt-5, 21s"), "{}", stage.shown());
}

#[test]
fn a_failure_names_the_provider_and_the_status() {
    let mut stage = busy();
    let mut error = ModelError::new(ModelErrorKind::Server, Some(502), "the upstream is gone");
    error.details.provider = Some(ProviderId::new("acme"));
    stage.event(Event::TurnEnded(TurnEnd::Failed(error)));
    assert!(stage.shown().contains("✕ acme (HTTP 502): the upstream is gone"), "{}", stage.shown());
}

#[test]
fn the_end_of_the_session_is_shown_at_once() {
    let mut stage = busy();
    stage.write("/quit");
    assert_eq!(stage.enter(), [Action::Submit { text: "/quit".to_owned(), shell: false }]);
    assert!(stage.shown().contains("Quits when the turn ends"), "{}", stage.shown());
    stage.event(Event::TurnEnded(TurnEnd::Finished(None)));
    stage.app.begin_end();
    stage.app.rest();
    let shown = stage.shown();
    assert!(shown.contains("Ending the session...") && !shown.contains("Quits when"), "{shown}");
}

#[test]
fn a_call_runs_only_when_it_has_started() {
    let mut stage = busy();
    stage.event(call("1", "glob"));
    stage.event(call("2", "list_directory"));
    stage.event(Event::CallStarted { call: CallId::from_file("1") });
    stage.now += Duration::from_secs(9);
    let shown = stage.shown();
    let row = |shown: &str, sign: &str| shown.lines().filter(|line| line.starts_with(sign)).count();
    assert_eq!((row(&shown, "⊷"), row(&shown, "o")), (1, 1), "{shown}");
    assert!(shown.contains("(9s)") && shown.contains("(waiting)"), "{shown}");
    stage.event(Event::CallStarted { call: CallId::from_file("2") });
    let shown = stage.shown();
    assert_eq!((row(&shown, "⊷"), row(&shown, "o")), (2, 0), "{shown}");
    // Its own time counts.
    assert!(!shown.contains("(waiting)") && shown.matches("(9s)").count() == 1, "{shown}");
}

#[test]
fn an_approved_call_waits_until_it_starts_and_runs_on_after_a_later_question() {
    let mut stage = busy();
    stage.event(call("1", "run_shell_command"));
    let settled =
        || Event::ApprovalSettled { call: CallId::from_file("1"), outcome: Outcome::Once, by: None };
    stage.event(wanted("make"));
    stage.event(settled());
    assert!(stage.shown().contains("(waiting)"), "{}", stage.shown());
    stage.event(Event::CallStarted { call: CallId::from_file("1") });
    stage.event(wanted("make"));
    stage.event(settled());
    assert!(stage.shown().contains("⊷") && !stage.shown().contains("(waiting)"), "{}", stage.shown());
}

#[test]
fn ctrl_o_shows_every_call_of_the_turn_that_was_cut() {
    let mut stage = Stage::with(Settings { box_lines: 3, ..Settings::default() }, 60, 60);
    let now = stage.now;
    stage.app.begin_turn("go", false, now);
    let output = |name: &str| (1..=9).map(|row| format!("{name} {row}")).collect::<Vec<_>>().join("\n");
    for (id, text) in [("1", output("first")), ("2", "brief".to_owned()), ("3", output("third"))] {
        stage.event(call(id, "run_shell_command"));
        let display = pollux_domain::tool::Display::Text(text);
        let done = pollux_domain::event::CallOutcome::Succeeded;
        stage.event(Event::CallFinished(Arc::new(ended(id, "run_shell_command", done, display))));
    }
    stage.event(Event::TurnEnded(TurnEnd::Finished(None)));
    assert!(!stage.shown().contains("first 1\n"), "{}", stage.shown());
    let expand = |stage: &mut Stage| stage.press(KeyCode::Char('o'), KeyModifiers::CONTROL);
    expand(&mut stage);
    let shown = stage.shown();
    assert!(shown.contains("first 1\n") && shown.contains("third 1\n"), "{shown}");
    assert_eq!(shown.matches("brief").count(), 1, "{shown}");
    // What was shown whole is not printed a third time.
    expand(&mut stage);
    expand(&mut stage);
    assert_eq!(stage.shown().matches("first 1\n").count(), 1, "{}", stage.shown());
}

#[test]
fn sending_goes_to_the_end_of_the_conversation() {
    for (is_busy, key) in [(false, KeyCode::Enter), (true, KeyCode::Enter), (true, KeyCode::Tab)] {
        let mut stage = Stage::with(Settings { alternate: true, ..Settings::default() }, 60, 20);
        let text: String = (1..=60).map(|number| format!("- item {number}\n")).collect();
        stage.event(Event::Text(text));
        stage.event(Event::StepCommitted);
        if is_busy {
            let now = stage.now;
            stage.app.begin_turn("go", false, now);
        }
        stage.press(KeyCode::PageUp, KeyModifiers::NONE);
        stage.write("more");
        assert!(stage.shown().contains("more below"), "{}", stage.shown());
        stage.press(key, KeyModifiers::NONE);
        let shown = stage.shown();
        assert!(!shown.contains("more below") && shown.contains("item 60"), "{shown}");
    }
}
