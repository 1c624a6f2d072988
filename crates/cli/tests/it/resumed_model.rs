//! A resumed session stays with its model, and a local one never becomes a remote one unasked.

use pollux_test_support::chat::{ChatReply, FakeChat};
use pollux_test_support::{FakeMessages, MessagesReply, Run, TestHome, TestRun, reply};
use serde_json::json;

use crate::scene::{Scene, binary};

/// A home whose default is Gemini, with an Ollama server and a provider `lab`, both on this machine.
fn scene(server: &FakeChat) -> Scene {
    let settings =
        json!({"providers": {"lab": {"baseUrl": server.url(), "models": {"m": {"context": 64000}}}}});
    let gemini = (0..3).map(|_| reply().text("from Gemini"));
    Scene::with(TestHome::new().settings(settings), gemini)
}

/// It is also asked about its models.
fn local_server() -> FakeChat {
    FakeChat::start((0..12).map(|_| ChatReply::said("local")))
}

fn prepare(scene: &Scene, server: &FakeChat, args: &[&str]) -> TestRun {
    let address = server.url().replace("http://", "").replace("/v1", "");
    scene.prepare(args).env("OLLAMA_HOST", &address)
}

fn run(scene: &Scene, server: &FakeChat, args: &[&str]) -> Run {
    prepare(scene, server, args).run()
}

#[test]
fn a_session_of_a_local_model_goes_on_with_it() {
    for model in ["ollama/qwen3-coder", "lab/m"] {
        let server = local_server();
        let scene = scene(&server);
        run(&scene, &server, &["-m", model, "-p", "secret"]);
        let again = run(&scene, &server, &["-r", "latest", "-p", "go on"]);
        assert_eq!((again.stdout.as_str(), again.code), ("local\n", Some(0)), "{}", again.stderr);
        let line = format!("Continuing with {model}, the model of this session");
        assert!(again.stderr.contains(&line), "{}", again.stderr);
        assert_eq!(scene.server.requests().len(), 0, "nothing went to Gemini");
        let named = run(&scene, &server, &["-r", "latest", "-m", "gemini-2.5-pro", "-p", "go on"]);
        assert_eq!(named.stdout, "from Gemini\n", "{}", named.stderr);
    }
}

#[test]
fn a_local_session_without_an_answer_or_a_provider_is_not_sent_elsewhere() {
    let server = local_server();
    let scene = scene(&server);
    let failed = scene.prepare(&["-m", "ollama/x", "-p", "secret"]).env("OLLAMA_HOST", "127.0.0.1:9").run();
    assert_ne!(failed.code, Some(0));
    let again = run(&scene, &server, &["-r", "latest", "-p", "go on"]);
    assert_eq!(again.stdout, "local\n", "{}", again.stderr);
    run(&scene, &server, &["-m", "lab/m", "-p", "secret"]);
    std::fs::write(scene.home.gemini_dir().join("settings.json"), "{}").unwrap();
    let gone = run(&scene, &server, &["-r", "latest", "-p", "go on"]);
    assert_eq!(gone.code, Some(42), "{}", gone.stderr);
    assert!(gone.stderr.contains("provider `lab` is not configured"), "{}", gone.stderr);
    assert!(gone.stderr.contains("-m"), "{}", gone.stderr);
    assert_eq!(scene.server.requests().len(), 0);
}

#[test]
fn a_remote_session_goes_on_with_its_provider_or_says_otherwise() {
    let said = |text: &str| MessagesReply::new().text(&[text]).stop("end_turn");
    let claude = FakeMessages::start([said("one"), said("two")]);
    let scene = Scene::new([reply().text("from Gemini")]);
    let with_key = |args: &[&str]| {
        let run = scene.home.command(binary(), args).against(&scene.server);
        run.env("ANTHROPIC_API_KEY", "sk-ant-canary").env("ANTHROPIC_BASE_URL", &claude.url()).run()
    };
    with_key(&["-m", "anthropic/claude-x", "-p", "hi"]);
    let again = with_key(&["-r", "latest", "-p", "go on"]);
    assert_eq!(again.stdout, "two\n", "{}", again.stderr);
    assert_eq!(claude.request(1).body["model"], "claude-x");
    let without =
        scene.prepare(&["-r", "latest", "-p", "go on"]).env("GEMINI_FORCE_FILE_STORAGE", "true").run();
    assert_eq!(without.stdout, "from Gemini\n", "{}", without.stderr);
    assert!(without.stderr.contains("This session used anthropic/claude-x"), "{}", without.stderr);
}

#[test]
fn on_the_screen_a_session_keeps_its_model_and_leaving_names_it() {
    let server = local_server();
    let scene = scene(&server);
    run(&scene, &server, &["-m", "lab/m", "-p", "secret"]);
    let mut screen = prepare(&scene, &server, &["-r", "latest"]).on_screen(100, 40);
    screen.expect("Continuing with lab/m").expect("lab/m").say("go on").expect("✦ local").say("/quit");
    assert_eq!(screen.wait_exit().code(), Some(0), "{}", screen.text());
    assert!(screen.whole_text().contains(" -m lab/m"), "{}", screen.whole_text());
    assert_eq!(scene.server.requests().len(), 0);
}
