//! Which model and which provider a conversation and its background work go to, and what is said about it.

use std::time::{Duration, Instant};

use pollux_test_support::chat::{ChatReply, FakeChat};
use pollux_test_support::wires::{FakeWire, Said, Wire};
use pollux_test_support::{FakeMessages, MessagesReply, Run, Screen, TestHome, TestRun};
use serde_json::json;

use crate::scene::{all_files, binary, lines};

const PLACEHOLDER: &str = "  Type your message or @path/to/file";

/// Ollama's provider at a fake server.
fn ollama(home: &TestHome, server: &FakeChat, args: &[&str]) -> TestRun {
    home.command(binary(), args)
        .without_env("GEMINI_API_KEY")
        .env("OLLAMA_HOST", server.url().trim_end_matches("/v1"))
        .env("GEMINI_FORCE_FILE_STORAGE", "true")
        .env("GEMINI_CLI_TRUST_WORKSPACE", "true")
}

/// Some replies are spent on questions about the server itself.
fn local() -> FakeChat {
    FakeChat::start(std::iter::repeat_n(ChatReply::said("from the local one"), 12))
}

fn models(server: &FakeChat) -> Vec<String> {
    let requests = server.requests().into_iter();
    let bodies =
        requests.filter(|request| request.path.ends_with("/chat/completions")).filter_map(|request| {
            let body: serde_json::Value = serde_json::from_slice(&request.body).ok()?;
            Some(body["model"].as_str()?.to_owned())
        });
    bodies.collect()
}

fn wait_for(what: impl Fn() -> bool) {
    let started = Instant::now();
    while !what() {
        assert!(started.elapsed() < Duration::from_secs(60), "it did not happen");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_title_is_asked_of_a_local_servers_own_model() {
    let server = local();
    let home = TestHome::new();
    let screen = ollama(&home, &server, &["-m", "ollama/qwen3"]).on_screen(160, 40);
    screen.expect(PLACEHOLDER).say("one").expect("from the local one");
    screen.expect(PLACEHOLDER).say("two");
    let asks_for_title =
        |body: &[u8]| String::from_utf8_lossy(body).contains("one sentence of at most 80 characters");
    wait_for(|| server.requests().iter().any(|request| asks_for_title(&request.body)));
    assert!(models(&server).iter().all(|model| model == "qwen3"), "{:?}", models(&server));
}

#[test]
fn auth_tells_about_the_provider_in_use() {
    let server = local();
    let home = TestHome::new();
    let screen = ollama(&home, &server, &["-m", "ollama/qwen3"]).on_screen(160, 40);
    screen.expect(PLACEHOLDER).say("/auth").expect("Provider:  Ollama (running on this machine)");
    assert!(!screen.text().contains("Not signed in"), "{}", screen.text());
}

fn say_to_claude_then_local(claude: &FakeMessages, local: &FakeChat, home: &TestHome) -> Screen {
    let screen = ollama(home, local, &["-m", "anthropic/claude-haiku-5-5"])
        .env("ANTHROPIC_API_KEY", "sk-ant-canary")
        .env("ANTHROPIC_BASE_URL", &claude.url())
        .on_screen(160, 40);
    screen.expect(PLACEHOLDER).say("one").expect("from Claude");
    screen.expect(PLACEHOLDER).say("/model ollama/qwen3").expect("Model set to ollama/qwen3");
    screen
}

#[test]
fn a_bare_model_belongs_to_the_selected_provider() {
    let claude =
        FakeMessages::start([]).forever(MessagesReply::new().text(&["from Claude"]).stop("end_turn"));
    let local = local();
    let home = TestHome::new();
    let screen = say_to_claude_then_local(&claude, &local, &home);
    screen.say("/model qwen3-coder").expect("Model set to ollama/qwen3-coder");
    screen.say("/model nosuch/zzz").expect("unknown provider `nosuch`");
    screen.expect("The model is still ollama/qwen3-coder.");
    screen.say("two").expect("from the local one");
    assert_eq!(claude.requests().len(), 1);
    assert_eq!(models(&local)[0], "qwen3-coder");
}

#[test]
fn the_first_event_names_the_concrete_model() {
    for (model, name) in [
        ("auto", "gemini-"),
        ("flash", "gemini-"),
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("gemini/gemini-2.5-pro", "gemini-2.5-pro"),
    ] {
        let server = FakeWire::start(Wire::Gemini, [Said::text("hi"), Said::text("hi")]);
        let home = TestHome::new();
        let run = home.command(binary(), ["-m", model, "-o", "stream-json", "-p", "x"]);
        let variables = Wire::Gemini.variables(&server.url(), "a-key-of-gemini");
        let run = variables.iter().fold(run, |run, (name, value)| run.env(name, value)).run();
        let shown = lines(&run.stdout)[0]["model"].as_str().unwrap_or_default().to_owned();
        assert!(shown.starts_with(name), "{model}: {shown} {}", run.stderr);
    }
}

/// A run with the provider `lab`, whose settings these are.
fn with_lab(lab: serde_json::Value, args: &[&str], key: &str) -> Run {
    let home = TestHome::new().settings(json!({"general": {"maxAttempts": 1}, "providers": {"lab": lab}}));
    home.command(binary(), args).env("LAB_KEY", key).env("GEMINI_FORCE_FILE_STORAGE", "true").run()
}

#[test]
fn without_a_usable_key_a_run_exits_with_41_and_names_its_provider() {
    let server = FakeChat::start([]);
    for command in [json!(["sh", "-c", "exit 3"]), json!(["printf", "a\\nb\\n"])] {
        let lab = json!({"baseUrl": server.url(), "keyCommand": command});
        let run = with_lab(lab, &["-m", "lab/m", "-p", "hi"], "");
        assert_eq!(run.code, Some(41), "{command}: {}", run.stderr);
        assert!(run.stderr.contains("`keyCommand` of `lab`"), "{}", run.stderr);
        assert!(!run.stderr.contains("GEMINI_API_KEY"), "{}", run.stderr);
    }
    let lab = json!({"baseUrl": server.url(), "envKey": "LAB_KEY"});
    let run = with_lab(lab, &["-m", "lab/m", "-p", "hi"], "sk-abc\u{1}defghi");
    assert_eq!(run.code, Some(41), "{}", run.stderr);
    assert!(!run.stderr.contains("GEMINI_API_KEY"), "{}", run.stderr);
    assert!(server.requests().is_empty());
}

#[test]
fn an_unknown_provider_of_a_command_is_an_ordinary_failure() {
    for args in [["models", "--provider", "nosuch"], ["providers", "login", "nosuch"]] {
        let run = TestHome::new().command(binary(), args).run();
        assert_eq!(run.code, Some(1), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains("unknown provider `nosuch`"), "{}", run.stderr);
    }
}

#[test]
fn a_refused_connection_to_ollama_gets_one_hint() {
    let run = TestHome::new()
        .command(binary(), ["-m", "ollama/qwen3", "-p", "hi"])
        .env("OLLAMA_HOST", "127.0.0.1:9")
        .run();
    assert!(run.stderr.contains("hint: start the server with `ollama serve`"), "{}", run.stderr);
    assert!(!run.stderr.contains("network connection"), "{}", run.stderr);
}

#[test]
fn an_empty_fallback_list_is_refused() {
    for list in [",", "a,,b", ""] {
        let run = TestHome::new().command(binary(), ["--fallback", list, "-p", "hi"]).run();
        assert_ne!(run.code, Some(0), "{list:?}");
        assert!(run.stderr.contains("models, separated by commas"), "{list:?}: {}", run.stderr);
    }
}

#[test]
fn a_remote_fallback_of_a_local_model_is_skipped_with_one_line() {
    let claude = FakeMessages::start([]).forever(MessagesReply::new().text(&["leaked"]).stop("end_turn"));
    let run = TestHome::new()
        .settings(json!({"general": {"maxAttempts": 1}}))
        .command(binary(), ["-m", "ollama/qwen3", "--fallback", "claude-haiku-5-5", "-p", "hi"])
        .env("OLLAMA_HOST", "127.0.0.1:9")
        .env("ANTHROPIC_API_KEY", "sk-ant-canary")
        .env("ANTHROPIC_BASE_URL", &claude.url())
        .run();
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let said = run.stderr.matches("Skipping the fallback model claude-haiku-5-5").count();
    assert_eq!((said, claude.requests().len()), (1, 0), "{}", run.stderr);
}

#[test]
fn a_key_in_the_reply_is_masked_in_output_and_session() {
    const KEY: &str = "canary-0001-plain-words";
    for wire in Wire::ALL {
        let server = FakeWire::start(wire, [Said::text(&format!("your key is {KEY}, is it?"))]);
        let home = TestHome::new().settings(wire.settings(&server.url()));
        let run = home.command(binary(), ["-m", wire.model(), "-p", "hi"]);
        let run =
            wire.variables(&server.url(), KEY).iter().fold(run, |run, (name, value)| run.env(name, value));
        let run = run.run();
        assert_eq!(run.stdout, "your key is ***, is it?\n", "{wire:?} {}", run.stderr);
        for file in all_files(&home.home()) {
            let bytes = std::fs::read(&file).unwrap_or_default();
            assert!(!bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes()), "{}", file.display());
        }
    }
}
