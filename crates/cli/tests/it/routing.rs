//! Names of models, effort, fallback, and which provider a run starts with.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pollux_test_support::chat::{ChatReply, FakeChat};
use pollux_test_support::{FakeMessages, MessagesReply, Run, TestHome, reply};
use serde_json::{Value, json};

use crate::scene::{Scene, binary, lines};

fn claude(text: &str) -> MessagesReply {
    MessagesReply::new().text(&[text]).stop("end_turn")
}

/// A run with an Anthropic key and without Google's.
fn with_claude(home: &TestHome, server: &FakeMessages, args: &[&str]) -> Run {
    home.command(binary(), args)
        .without_env("GEMINI_API_KEY")
        .env("ANTHROPIC_API_KEY", "sk-ant-canary")
        .env("ANTHROPIC_BASE_URL", &server.url())
        .env("GEMINI_FORCE_FILE_STORAGE", "true")
        .run()
}

/// A home with a provider `lab` of the Chat dialect, tried once per request.
fn lab(server: &FakeChat, more: Value) -> TestHome {
    let mut settings = json!({
        "general": {"maxAttempts": 1},
        "providers": {"lab": {"baseUrl": server.url(), "models": {"m": {"context": 64000}}}},
    });
    for (key, value) in more.as_object().unwrap() {
        settings[key] = value.clone();
    }
    TestHome::new().settings(settings)
}

#[test]
fn events_and_statistics_name_the_concrete_model() {
    for (model, name) in [
        (None, "anthropic/claude-sonnet-5-5"),
        (Some("claude-haiku-5-5"), "anthropic/claude-haiku-5-5"),
        (Some("anthropic/claude-x"), "anthropic/claude-x"),
    ] {
        let server = FakeMessages::start([claude("hi"), claude("hi")]);
        let home = TestHome::new();
        let given: Vec<&str> = model.iter().flat_map(|model| ["-m", *model]).collect();
        let run = with_claude(&home, &server, &[&given[..], &["-o", "stream-json", "-p", "x"]].concat());
        let events = lines(&run.stdout);
        assert_eq!(events[0]["model"], name, "{}{}", run.stdout, run.stderr);
        let run = with_claude(&home, &server, &[&given[..], &["-o", "json", "-p", "x"]].concat());
        let result: Value = serde_json::from_str(&run.stdout).unwrap();
        let models = result["stats"]["models"].as_object().unwrap();
        assert_eq!(models.keys().collect::<Vec<_>>(), [name], "{}", run.stdout);
    }
    let scene = Scene::new([reply().text("one"), reply().text("two"), reply().text("three")]);
    for (model, name) in [("auto", "auto"), ("gemini/gemini-2.5-pro", "gemini-2.5-pro")] {
        let run = scene.prepare(&["-m", model, "-o", "stream-json", "-p", "x"]).run();
        assert_eq!(lines(&run.stdout)[0]["model"], name, "{}", run.stderr);
    }
}

#[test]
fn the_only_provider_with_a_key_is_used_and_announced() {
    let server = FakeMessages::start([claude("from Claude")]);
    let run = with_claude(&TestHome::new(), &server, &["-p", "hi"]);
    assert_eq!((run.stdout.as_str(), run.code), ("from Claude\n", Some(0)), "{}", run.stderr);
    let said = run.stderr.matches("Using Anthropic, the only provider with an API key.").count();
    assert_eq!((said, server.requests().len()), (1, 1), "{}", run.stderr);
}

#[test]
fn without_any_key_a_headless_run_connects_to_nothing() {
    let trap = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = trap.local_addr().unwrap().to_string();
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&seen);
    std::thread::spawn(move || {
        for _ in trap.incoming() {
            counter.fetch_add(1, Ordering::SeqCst);
        }
    });
    let run = TestHome::new()
        .command(binary(), ["-p", "hi"])
        .without_env("GEMINI_API_KEY")
        .env("OLLAMA_HOST", &address)
        .env("GEMINI_FORCE_FILE_STORAGE", "true")
        .run();
    assert_eq!(run.code, Some(41), "{}", run.stderr);
    assert_eq!(seen.load(Ordering::SeqCst), 0);
}

#[test]
fn a_local_server_that_is_down_is_named_at_once_with_its_start_command() {
    let started = Instant::now();
    let run = TestHome::new()
        .command(binary(), ["-m", "ollama/qwen3:8b", "-p", "hi"])
        .without_env("GEMINI_API_KEY")
        .env("OLLAMA_HOST", "127.0.0.1:9")
        .run();
    assert!(started.elapsed() < Duration::from_secs(5), "no attempts after the first");
    assert_ne!(run.code, Some(0));
    assert_eq!(run.stderr.matches("ollama serve").count(), 1, "{}", run.stderr);
    assert!(!run.stderr.contains("Attempt"), "{}", run.stderr);
}

#[test]
fn an_overloaded_model_is_replaced_by_the_listed_one_with_a_notice() {
    let overloaded = MessagesReply::error(529, "overloaded_error", "Overloaded");
    let down = FakeMessages::start([]).forever(overloaded);
    let server = FakeChat::start([ChatReply::said("from the lab"), ChatReply::said("again")]);
    let home = lab(&server, json!({}));
    let run = with_claude(&home, &down, &["--fallback", "lab/m", "-p", "hi"]);
    assert_eq!((run.stdout.as_str(), run.code), ("from the lab\n", Some(0)), "{}", run.stderr);
    let line = "Warning: Switched from anthropic/claude-sonnet-5-5 to lab/m until the end of this turn";
    assert_eq!(run.stderr.matches(line).count(), 1, "{}", run.stderr);
    let body = server.body(0);
    let asked = body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
    assert!(asked.ends_with("\nhi"), "{asked}");
    let run = with_claude(&home, &down, &["--fallback", "lab/m", "-o", "stream-json", "-p", "hi"]);
    let events = lines(&run.stdout);
    assert!(events.iter().any(|event| event["code"] == "MODEL_FALLBACK"), "{}", run.stdout);
    let run = with_claude(&home, &down, &["-p", "hi"]);
    assert_eq!((run.code, server.requests().len()), (Some(1), 2), "{}", run.stderr);
}

#[test]
fn a_refused_key_is_never_passed_on() {
    let refused = MessagesReply::error(401, "authentication_error", "invalid x-api-key");
    let locked = FakeMessages::start([]).forever(refused);
    let server = FakeChat::start([ChatReply::said("no")]);
    let home = lab(&server, json!({"model": {"fallback": ["lab/m"]}}));
    let run = with_claude(&home, &locked, &["-p", "hi"]);
    assert_ne!(run.code, Some(0));
    assert_eq!(server.requests().len(), 0, "{}", run.stderr);
}

#[test]
fn an_effort_is_translated_for_every_wire_format() {
    let server = FakeMessages::start([claude("hi")]);
    with_claude(&TestHome::new(), &server, &["--effort", "high", "-p", "hi"]);
    assert_eq!(server.request(0).body["output_config"]["effort"], "high");
    let scene = Scene::new([reply().text("one"), reply().text("two")]);
    scene.prepare(&["-m", "gemini-3-pro-preview", "--effort", "low", "-p", "x"]).run();
    let thinking = &scene.server.request(0).body["generationConfig"]["thinkingConfig"];
    assert_eq!(thinking["thinkingLevel"], "LOW", "{thinking}");
    scene.prepare(&["-m", "gemini-2.5-flash", "--effort", "none", "-p", "x"]).run();
    let thinking = &scene.server.request(1).body["generationConfig"]["thinkingConfig"];
    assert_eq!(thinking["thinkingBudget"], 0, "{thinking}");
    let run = scene.prepare(&["--effort", "huge", "-p", "x"]).run();
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("huge") && run.stderr.contains("xhigh"), "{}", run.stderr);
}

#[test]
fn a_project_can_choose_another_paid_provider_only_if_allowed() {
    let wish = json!({"model": {"name": "anthropic/claude-x"}});
    let run = |home: TestHome| {
        let gemini = Scene::with(home, [reply().text("from Gemini")]);
        let claude = FakeMessages::start([claude("from Claude")]);
        let run = gemini
            .home
            .command(binary(), ["-p", "hi"])
            .against(&gemini.server)
            .env("ANTHROPIC_API_KEY", "sk-ant-canary")
            .env("ANTHROPIC_BASE_URL", &claude.url())
            .run();
        (run, claude.requests().len())
    };
    let (ignored, asked) = run(TestHome::new().project_settings(wish.clone()));
    assert_eq!((ignored.stdout.as_str(), asked), ("from Gemini\n", 0), "{}", ignored.stderr);
    let line = "Ignoring this project's `model.name` (anthropic/claude-x)";
    assert_eq!(ignored.stderr.matches(line).count(), 1, "{}", ignored.stderr);
    let home = TestHome::new().project_settings(wish);
    let folder = std::fs::canonicalize(home.project()).unwrap().display().to_string();
    let state = json!({"projectProviders": {folder: {"anthropic": true}}});
    let (allowed, asked) = run(home.home_file(".gemini/state.json", &state.to_string()));
    assert_eq!((allowed.stdout.as_str(), asked), ("from Claude\n", 1), "{}", allowed.stderr);
    assert!(!allowed.stderr.contains("Ignoring"), "{}", allowed.stderr);
}
