//! Providers other than Gemini, and what a project cannot do with them.

use pollux_test_support::{FakeMessages, MessagesReply, Run, TestHome, reply};
use serde_json::json;

use crate::scene::{Scene, binary};

/// A prompt in a trusted project with keys for Gemini and Anthropic, and how often each of the two was asked.
fn asked(home: TestHome, args: &[&str]) -> (Run, usize, usize) {
    let gemini = Scene::with(home, [reply().text("from Gemini"), reply().text("again")]);
    let words = || MessagesReply::new().text(&["from Claude"]).stop("end_turn");
    let anthropic = FakeMessages::start([words(), words()]);
    let run = gemini
        .home
        .command(binary(), args)
        .against(&gemini.server)
        .env("ANTHROPIC_API_KEY", "sk-ant-canary")
        .env("ANTHROPIC_BASE_URL", &anthropic.url())
        .run();
    (run, gemini.server.requests().len(), anthropic.requests().len())
}

#[test]
fn a_model_of_another_provider_is_used_when_the_user_names_it() {
    let (run, gemini, anthropic) = asked(TestHome::new(), &["-m", "anthropic/claude-x", "-p", "hi"]);
    assert_eq!((run.stdout.as_str(), run.code), ("from Claude\n", Some(0)), "{}", run.stderr);
    assert_eq!((gemini, anthropic), (0, 1));
    let settings = TestHome::new().settings(json!({"model": {"name": "anthropic/claude-x"}}));
    let (run, gemini, anthropic) = asked(settings, &["-p", "hi"]);
    assert_eq!((run.stdout.as_str(), gemini, anthropic), ("from Claude\n", 0, 1), "{}", run.stderr);
}

#[test]
fn a_gemini_credential_takes_precedence_over_other_keys() {
    let (run, gemini, anthropic) = asked(TestHome::new(), &["-p", "hi"]);
    assert_eq!((run.stdout.as_str(), gemini, anthropic), ("from Gemini\n", 1, 0), "{}", run.stderr);
}

#[test]
fn a_project_cannot_move_prompts_to_another_provider() {
    let projects = [
        TestHome::new().project_settings(json!({"model": {"name": "anthropic/claude-x"}})),
        TestHome::new().project_settings(json!({"model": "anthropic/claude-x"})),
        TestHome::new().project_settings(json!({"model": {"name": "claude-x"}})),
        TestHome::new()
            .project_settings(json!({"model": {"provider": "anthropic", "small": "anthropic/claude-x"}})),
        TestHome::new().file(".env", "GEMINI_MODEL=anthropic/claude-x\n"),
        TestHome::new().file(".env", "POLLUX_MODEL=anthropic/claude-x\n"),
    ];
    for home in projects {
        let (run, _, anthropic) = asked(home, &["-p", "hi"]);
        assert_eq!(anthropic, 0, "{}{}", run.stdout, run.stderr);
    }
}

#[test]
fn a_projects_variables_do_not_reach_the_users_addresses_and_keys() {
    let trap = FakeMessages::start([]);
    let port = trap.url().rsplit(':').next().unwrap().to_owned();
    let user = json!({
        "model": {"name": "lab/x"},
        "providers": {"lab": {"dialect": "messages", "baseUrl": "http://127.0.0.1:${LAB_PORT:-9}", "envKey": "LAB_KEY"}},
    });
    let home = TestHome::new().settings(user).file(".env", &format!("LAB_PORT={port}\nLAB_KEY=theirs\n"));
    let (run, ..) = asked(home, &["-p", "hi"]);
    assert_eq!(run.code, Some(41), "{}", run.stderr);
    assert!(run.stderr.contains("set LAB_KEY"), "{}", run.stderr);
    assert_eq!(trap.requests().len(), 0);
}

#[test]
fn an_explicit_provider_keeps_bare_names() {
    let user = json!({
        "model": {"provider": "lab", "name": "claude-x"},
        "providers": {"lab": {"dialect": "messages", "baseUrl": "http://127.0.0.1:9"}},
        "general": {"maxAttempts": 1},
    });
    let (run, gemini, anthropic) = asked(TestHome::new().settings(user), &["-p", "hi"]);
    assert_eq!((gemini, anthropic), (0, 0), "{}", run.stderr);
    assert_ne!(run.code, Some(0));
}

#[test]
fn vertex_is_never_replaced_by_the_gemini_api() {
    let (run, gemini, _) = asked(TestHome::new(), &["-m", "vertex/gemini-2.5-pro", "-p", "hi"]);
    assert_eq!(gemini, 0, "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains("Vertex AI requires one of the following"), "{}", run.stderr);
    assert_eq!(run.code, Some(41));
}
