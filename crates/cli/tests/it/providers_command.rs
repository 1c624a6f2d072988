//! `pollux providers`, `pollux models` and where keys come from, from the outside.

use std::fs;

use pollux_test_support::chat::{ChatReply, FakeChat};
use pollux_test_support::{
    FakeGemini, FakeHttp, FakeMessages, HttpAnswer, MessagesReply, Run, TestHome, reply,
};
use serde_json::{Value, json};

use crate::scene::binary;

const KEY: &str = "sk-canary-0123456789";

fn home() -> TestHome {
    TestHome::new().env("GEMINI_FORCE_FILE_STORAGE", "true").env("GEMINI_CLI_TRUST_WORKSPACE", "true")
}

/// A home whose provider `lab` speaks Chat at this address.
fn lab(url: &str, more: &Value) -> TestHome {
    let mut entry = json!({"baseUrl": url});
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    home().settings(json!({"providers": {"lab": entry}, "general": {"maxAttempts": 1}}))
}

fn run(home: &TestHome, args: &[&str]) -> Run {
    let run = home.command(binary(), args).without_env("GEMINI_API_KEY").run();
    assert!(!format!("{}{}", run.stdout, run.stderr).contains(KEY), "{}{}", run.stdout, run.stderr);
    run
}

fn hello(model: &str) -> Vec<&str> {
    vec!["-m", model, "-p", "hi"]
}

#[test]
fn lists_open_no_connection() {
    // Every address is one that must not be asked, and proxies lead nowhere.
    let trap = FakeHttp::start(|_| HttpAnswer::status(500));
    let home = lab(&trap.url(), &json!({"envKey": "LAB_KEY"}))
        .env("LAB_KEY", KEY)
        .env("ANTHROPIC_API_KEY", KEY)
        .env("ANTHROPIC_BASE_URL", &trap.url())
        .env("OLLAMA_HOST", &trap.authority())
        .env("HTTPS_PROXY", "http://127.0.0.1:9");
    for args in [&["providers"][..], &["providers", "list", "--json"], &["models"], &["models", "--json"]] {
        let run = run(&home, args);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{args:?}");
        assert!(run.stdout.contains("anthropic"), "{}", run.stdout);
    }
    assert_eq!(trap.requests().len(), 0);
}

#[test]
fn a_stored_key_is_used_and_makes_its_provider_the_default() {
    let words = || MessagesReply::new().text(&["from Claude"]).stop("end_turn");
    let server = FakeMessages::start([words(), words(), words()]);
    let home = home().env("ANTHROPIC_BASE_URL", &server.url());
    let login = home.command(binary(), ["providers", "login", "anthropic"]).stdin(KEY).run();
    assert_eq!(login.code, Some(0), "{}", login.stderr);
    for args in [hello("anthropic/claude-x"), hello("claude-x"), vec!["-p", "hi"]] {
        let run = run(&home, &args);
        assert_eq!((run.stdout.as_str(), run.code), ("from Claude\n", Some(0)), "{args:?} {}", run.stderr);
    }
    assert!(server.requests().iter().all(|request| request.header("x-api-key") == Some(KEY)));
    run(&home, &["providers", "logout", "anthropic"]);
    let run = run(&home, &hello("anthropic/claude-x"));
    assert_eq!(run.code, Some(41));
    assert!(
        run.stderr.contains("set ANTHROPIC_API_KEY or run `pollux providers login anthropic`"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_key_is_removed_although_an_older_file_is_damaged() {
    let home = home();
    let login = home.command(binary(), ["providers", "login", "anthropic"]).stdin(KEY).run();
    assert_eq!(login.code, Some(0), "{}", login.stderr);
    fs::write(home.gemini_dir().join("mcp-oauth-tokens-v2.json"), "damaged").unwrap();
    for told in ["Removed the stored key for `anthropic`.\n", ""] {
        let run = run(&home, &["providers", "logout", "anthropic"]);
        assert_eq!((run.stdout.as_str(), run.code), (told, Some(1)), "{}", run.stderr);
        assert!(run.stderr.contains("mcp-oauth-tokens-v2.json"), "{}", run.stderr);
    }
}

#[test]
fn keys_are_looked_for_in_order() {
    let server = FakeChat::start((0..6).map(|_| ChatReply::said("ok")));
    let command = json!(["sh", "-c", "echo from-command"]);
    let home = lab(&server.url(), &json!({"envKey": "LAB_KEY", "keyCommand": command}));
    let asked = |env: &[(&str, &str)], flags: &[&str]| {
        let args: Vec<&str> = flags.iter().copied().chain(hello("lab/m")).collect();
        let command = home.command(binary(), &args);
        let run = env.iter().fold(command, |command, (name, value)| command.env(name, value)).run();
        assert_eq!(run.stdout, "ok\n", "{}", run.stderr);
        let last = server.requests().pop().unwrap();
        last.header("authorization").unwrap_or_default().trim_start_matches("Bearer ").to_owned()
    };
    assert_eq!(asked(&[], &[]), "from-command");
    let stored = home.command(binary(), ["providers", "login", "lab"]).stdin("stored").run();
    assert_eq!(stored.code, Some(0), "{}", stored.stderr);
    assert_eq!(asked(&[], &[]), "stored");
    let general = ("POLLUX_LAB_API_KEY", "general");
    assert_eq!(asked(&[general], &[]), "general");
    let own = ("LAB_KEY", "own");
    assert_eq!(asked(&[general, own], &[]), "own");
    assert_eq!(asked(&[general, own, ("THIS", "named")], &["--api-key-env", "THIS"]), "named");
}

#[test]
fn the_variable_on_the_command_line_is_for_the_provider_in_use() {
    let gemini = FakeGemini::start_blocking_thread([reply().text("from Gemini")]);
    let home = home().env("MINE", KEY).env("ANTHROPIC_API_KEY", "sk-other");
    let args = ["--api-key-env", "MINE", "-m", "gemini-2.5-pro", "-p", "hi"];
    let run = home.command(binary(), args).against(&gemini).run();
    assert_eq!(run.stdout, "from Gemini\n", "{}", run.stderr);
    assert_eq!(gemini.requests()[0].header("x-goog-api-key"), Some(KEY));
    let unset = home.command(binary(), ["--api-key-env", "UNSET", "-m", "groq/x", "-p", "hi"]).run();
    assert_eq!(unset.code, Some(41));
    assert!(unset.stderr.contains("`--api-key-env` names UNSET, which is not set"), "{}", unset.stderr);
    let pasted = home.command(binary(), ["--api-key-env", "sk-canary-1", "-p", "hi"]).run();
    assert!(
        pasted.stderr.contains("the name of an environment variable") && !pasted.stderr.contains("canary"),
        "{}",
        pasted.stderr
    );
}

#[test]
fn tools_do_not_see_the_variables_that_hold_keys() {
    let call = ChatReply::stream().role().call(
        0,
        "c1",
        "run_shell_command",
        r#"{"command": "echo [$LAB][$THIS][$ORG]", "description": "d"}"#,
    );
    let server = FakeChat::start([call.finish("tool_calls").done(), ChatReply::said("done")]);
    let home = lab(&server.url(), &json!({"envKey": "LAB", "envHeaders": {"X-Org": "ORG"}}))
        .env("LAB", "lab-canary")
        .env("THIS", "this-canary")
        .env("ORG", "org-canary");
    let args: Vec<&str> =
        ["--api-key-env", "THIS", "--yolo", "--sandbox=false"].into_iter().chain(hello("lab/m")).collect();
    let run = run(&home, &args);
    assert_eq!(run.stdout, "done\n", "{}", run.stderr);
    let told = server.body(1).to_string();
    assert!(told.contains("[][][]") && !told.contains("canary"), "{told}");
}

#[test]
fn cached_answers_are_used_in_later_runs() {
    let listed = ChatReply::json(200, &json!({"data": [{"id": "m", "context_length": 77_000}]}));
    let server = FakeChat::start([listed]);
    let home = lab(&server.url(), &json!({}));
    let refreshed = run(&home, &["models", "--provider", "lab", "--refresh", "--json"]);
    assert_eq!(refreshed.code, Some(0), "{}", refreshed.stderr);
    let rows: Value = serde_json::from_str(&refreshed.stdout).unwrap();
    assert_eq!((&rows[0]["context"], &rows[0]["source"]), (&json!(77_000), &json!("server")));
    // A project cannot replace what servers said.
    let home = home.file(".gemini/model-cache.json", "{}");
    let later = run(&home, &["models", "--provider", "lab", "--json"]);
    assert_eq!(later.stdout, refreshed.stdout);
}

#[test]
fn a_key_in_a_settings_file_is_refused_with_a_hint() {
    let home = lab("http://127.0.0.1:9", &json!({"apiKey": KEY}));
    let refused = run(&home, &hello("lab/m"));
    assert_eq!(refused.code, Some(52));
    assert!(refused.stderr.contains("store the key with `pollux providers login lab`"), "{}", refused.stderr);
    let listed = run(&home, &["providers"]);
    assert_eq!(listed.code, Some(0));
    assert!(listed.stderr.contains("Warning: `providers.lab.apiKey` contains a key"), "{}", listed.stderr);
}

#[test]
fn vertex_gets_its_own_tokens_even_with_a_gemini_key() {
    let tokens =
        FakeHttp::start(|_| HttpAnswer::json(&json!({"access_token": "ya29.own", "expires_in": 3600})));
    let account = json!({"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r",
        "token_uri": format!("{}/token", tokens.url())});
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().join("account.json");
    std::fs::write(&file, account.to_string()).unwrap();
    let gemini = FakeGemini::start_blocking_thread([reply().text("from Gemini")]);
    let vertex = FakeGemini::start_blocking_thread([reply().text("from Vertex")]);
    let home = home();
    let ask = |model: &str| {
        home.command(binary(), hello(model))
            .against(&gemini)
            .env("GOOGLE_VERTEX_BASE_URL", &vertex.url())
            .env("GOOGLE_CLOUD_PROJECT", "p-1")
            .env("GOOGLE_CLOUD_LOCATION", "us-central1")
            .env("GOOGLE_APPLICATION_CREDENTIALS", file.to_str().unwrap())
            .run()
    };
    let run = ask("vertex/gemini-2.5-pro");
    assert_eq!((run.stdout.as_str(), run.code), ("from Vertex\n", Some(0)), "{}", run.stderr);
    assert_eq!(vertex.request(0).header("authorization"), Some("Bearer ya29.own"));
    assert_eq!(vertex.request(0).header("x-goog-api-key"), None);
    assert_eq!(ask("gemini-2.5-pro").stdout, "from Gemini\n");
}
