//! Names of models, effort, fallback, and which provider a run starts with.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pollux_test_support::chat::{ChatReply, FakeChat};
use pollux_test_support::{FakeMessages, MessagesReply, Run, Screen, TestHome, reply};
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
    let scene =
        Scene::new([reply().text("one"), reply().text("two"), reply().text("three"), reply().text("four")]);
    for (model, name) in
        [("gemini/gemini-2.5-pro", "gemini-2.5-pro"), ("models/gemini-2.5-pro", "gemini-2.5-pro")]
    {
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
    assert!(started.elapsed() < Duration::from_secs(60), "no attempts after the first");
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

#[test]
fn a_listed_model_without_a_key_is_skipped_with_a_line() {
    let unpaid = FakeMessages::start([]).forever(MessagesReply::error(402, "billing_error", "no credit"));
    let server = FakeChat::start([ChatReply::said("from the lab")]);
    let home = lab(&server, json!({}));
    let run = with_claude(&home, &unpaid, &["--fallback", "groq/openai/gpt-oss-120b,lab/m", "-p", "hi"]);
    assert_eq!((run.stdout.as_str(), run.code), ("from the lab\n", Some(0)), "{}", run.stderr);
    let line = "Skipping the fallback model groq/openai/gpt-oss-120b: no API key for Groq";
    assert_eq!(run.stderr.matches(line).count(), 1, "{}", run.stderr);
    assert!(!run.stderr.contains("to groq/"), "{}", run.stderr);
}

/// The program on a screen, with an Anthropic key only.
fn claude_on_screen(home: &TestHome, server: &FakeMessages, args: &[&str]) -> Screen {
    home.command(binary(), args)
        .without_env("GEMINI_API_KEY")
        .env("ANTHROPIC_API_KEY", "sk-ant-canary")
        .env("ANTHROPIC_BASE_URL", &server.url())
        .env("GEMINI_FORCE_FILE_STORAGE", "true")
        .env("GEMINI_CLI_TRUST_WORKSPACE", "true")
        .on_screen(100, 40)
}

const PLACEHOLDER: &str = "  Type your message or @path/to/file";

#[test]
fn an_answer_for_one_turn_is_asked_for_again_in_the_next() {
    let gone = || MessagesReply::error(404, "not_found_error", "model: no such model");
    let server = FakeMessages::start([gone(), claude("first answer")]).forever(claude("second answer"));
    let home = TestHome::new();
    let screen = claude_on_screen(&home, &server, &["-m", "anthropic/claude-sonnet-5-5"]);
    screen.expect(PLACEHOLDER).say("one").expect("is unavailable").key("1").expect("first answer");
    screen.expect(PLACEHOLDER).say("two").expect("is unavailable").key("1").expect("second answer");
    let asked = server.requests().into_iter().filter(|request| request.body["model"] == "claude-sonnet-5-5");
    assert_eq!(asked.count(), 1, "the chosen model is left alone while it cools down");
}

#[test]
fn a_listed_model_says_again_that_it_stands_in() {
    let gone = MessagesReply::error(404, "not_found_error", "model: no such model");
    let down = FakeMessages::start([gone]);
    let server = FakeChat::start([ChatReply::said("first answer"), ChatReply::said("second answer")]);
    let home = lab(&server, json!({}));
    let screen = claude_on_screen(&home, &down, &["--fallback", "lab/m"]);
    screen.expect(PLACEHOLDER).say("one").expect("first answer");
    screen.expect(PLACEHOLDER).say("two").expect("second answer");
    let told = screen.whole_text().matches("to lab/m until the end of this turn").count();
    assert_eq!((told, down.requests().len()), (2, 1), "{}", screen.whole_text());
}

#[test]
fn without_a_list_a_long_wait_becomes_a_question() {
    let limited = MessagesReply::error(429, "rate_limit_error", "slow down").header("retry-after", "120");
    let server = FakeMessages::start([limited, claude("from the small one")]);
    let home = TestHome::new();
    let screen = claude_on_screen(&home, &server, &["-m", "anthropic/claude-sonnet-5-5"]);
    screen.expect(PLACEHOLDER).say("one").expect("is unavailable").expect("Wait 1");
    screen.key("1").expect("from the small one");
}

#[test]
fn a_refused_connection_on_this_machine_is_not_tried_again() {
    let settings = json!({"providers": {"lab": {"baseUrl": "http://127.0.0.1:9/v1"}}});
    let started = Instant::now();
    let run = TestHome::new().settings(settings).command(binary(), ["-m", "lab/m", "-p", "hi"]).run();
    assert!(started.elapsed() < Duration::from_secs(60), "no attempts after the first");
    assert_eq!(run.code, Some(1));
    assert!(!run.stderr.contains("Attempt"), "{}", run.stderr);
}

#[test]
fn a_mistyped_provider_is_pointed_out() {
    let scene = Scene::new([reply().text("hi")]);
    let run = scene.prepare(&["-m", "opnai/gpt-6.1-sol", "-p", "hi"]).run();
    assert!(run.stderr.contains("did you mean `openai/gpt-6.1-sol`?"), "{}", run.stderr);
    assert_eq!(scene.server.requests().len(), 1, "the name is still the default provider's");
}

#[test]
fn hints_name_the_provider_and_the_source_of_its_key() {
    let refused =
        FakeMessages::start([]).forever(MessagesReply::error(401, "authentication_error", "bad key"));
    let run = with_claude(&TestHome::new(), &refused, &["-p", "hi"]);
    assert!(run.stderr.contains("Anthropic rejected the key in ANTHROPIC_API_KEY"), "{}", run.stderr);
    assert!(run.stderr.contains("pollux providers login anthropic"), "{}", run.stderr);
    assert!(!run.stderr.contains("GEMINI_API_KEY"), "{}", run.stderr);
    let gone = FakeMessages::start([]).forever(MessagesReply::error(404, "not_found_error", "no such model"));
    let run = with_claude(&TestHome::new(), &gone, &["-p", "hi"]);
    assert!(run.stderr.contains("pollux models --provider anthropic"), "{}", run.stderr);
    let home = TestHome::new();
    let screen = claude_on_screen(&home, &refused, &[]);
    screen.expect(PLACEHOLDER).say("hi").expect("Anthropic rejected the key in ANTHROPIC_API_KEY");
}

#[test]
fn a_missing_key_is_named_and_another_provider_can_be_used_instead() {
    let server = FakeMessages::start([claude("from Claude")]);
    let home = TestHome::new();
    let screen = claude_on_screen(&home, &server, &["-m", "openrouter/anthropic/claude-sonnet-5-5"]);
    screen.expect("no API key for OpenRouter").expect("● 1. Enter the API key of OpenRouter");
    screen.expect("2. Use Anthropic (ANTHROPIC_API_KEY is set)").key("2");
    screen.expect(PLACEHOLDER).say("hi").expect("from Claude");
    let settings = home.gemini_dir().join("settings.json");
    let written = std::fs::read_to_string(settings).unwrap_or_default();
    assert!(!written.contains("claude"), "a model for this run changes no settings: {written}");
}

#[test]
fn an_address_that_cannot_be_reached_is_named_after_the_first_attempt() {
    let home = TestHome::new().settings(json!({"general": {"maxAttempts": 2}}));
    let run = home
        .command(binary(), ["-m", "anthropic/claude-x", "-p", "hi"])
        .env("ANTHROPIC_API_KEY", "sk-ant-canary")
        .env("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
        .run();
    assert!(run.stderr.contains("Attempt 1/2 failed: could not reach http://127.0.0.1:9"), "{}", run.stderr);
}

#[test]
fn a_chosen_model_without_a_key_is_pointed_out_and_its_method_shown() {
    let scene = Scene::new([]);
    let screen = scene.prepare(&[]).env("GEMINI_FORCE_FILE_STORAGE", "true").on_screen(100, 40);
    screen.expect(PLACEHOLDER).say("/model set groq/x").expect("Model set to groq/x");
    screen.expect("no API key for Groq").say("/about").expect("Auth Method: groq");
    screen.say("/model set opnai/x").expect("did you mean `openai/x`?");
}

#[test]
fn auto_plans_with_the_large_model_and_works_with_the_fast_one() {
    let plan = || reply().call("write_file", json!({"file_path": "plan.md", "content": "1. Do it\n"}));
    let submit = || reply().call("exit_plan_mode", json!({"plan_filename": "plan.md"}));
    let models = |model: &str, routing: bool| {
        let home = TestHome::new().settings(json!({"general": {"plan": {"modelRouting": routing}}}));
        let scene = Scene::with(home, [plan(), submit(), reply().text("done")]);
        let run = scene.prepare(&["-m", model, "--approval-mode", "plan", "-p", "go"]).run();
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let name = |path: &str| path.rsplit('/').next().unwrap().split(':').next().unwrap().to_owned();
        scene.server.requests().iter().map(|request| name(&request.path)).collect::<Vec<_>>()
    };
    let (pro, flash) = ("gemini-2.5-pro", "gemini-2.5-flash");
    assert_eq!(models("auto-gemini-2.5", true), [pro, pro, flash]);
    assert_eq!(models("auto-gemini-2.5", false), [pro, pro, pro]);
    assert_eq!(models(pro, true), [pro, pro, pro]);
}
