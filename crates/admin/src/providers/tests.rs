use pollux_host::providers::set::NewProvider;
use pollux_test_support::chat::{ChatReply, FakeChat};
use pollux_test_support::{FakeHttp, HttpAnswer};
use serde_json::{Value, json};

use super::*;
use crate::test_home::TestHome;

const KEY: &str = "sk-canary-0123456789";

fn home() -> TestHome {
    TestHome::new().env("GEMINI_FORCE_FILE_STORAGE", "true")
}

/// A home whose provider `lab` is at this address.
fn lab(url: &str, more: Value) -> TestHome {
    let mut entry = json!({"baseUrl": url, "envKey": "LAB_KEY"});
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    home().user_settings(&json!({"providers": {"lab": entry}}).to_string()).env("LAB_KEY", KEY)
}

/// One provider of the list as JSON.
fn listed(home: &TestHome, id: &str, check: bool) -> Value {
    let done = home.run(ProvidersCommand::List { json: true, check }, "");
    assert_eq!(done.result, Ok(()));
    assert!(!done.out.contains(KEY), "{}", done.out);
    let rows: Vec<Value> = serde_json::from_str(&done.out).unwrap();
    rows.into_iter().find(|row| row["id"] == id).unwrap()
}

fn login(id: &str) -> ProvidersCommand {
    ProvidersCommand::Login { id: id.into() }
}

fn test(model: Option<&str>, json: bool) -> ProvidersCommand {
    ProvidersCommand::Test { id: "lab".into(), model: model.map(str::to_owned), json }
}

#[test]
fn providers_are_listed_with_the_source_of_their_key() {
    let home = home()
        .user_settings(
            r#"{"providers": {"lab": {"baseUrl": "https://llm.lab.example/v1", "keyCommand": ["pass", "lab"]},
                "open": {"baseUrl": "http://10.0.0.1:8080/v1"}, "bad": {"baseUrl": "ftp://x", "envKey": "K"},
                "plain": {"baseUrl": "http://llm.example/v1", "envKey": "LAB_KEY"}}}"#,
        )
        .env("ANTHROPIC_API_KEY", KEY)
        .env("LAB_KEY", KEY);
    home.run(login("groq"), KEY).result.unwrap();
    let done = home.run(ProvidersCommand::List { json: false, check: false }, "");
    assert_eq!(done.result, Ok(()));
    assert!(!done.out.contains(KEY), "{}", done.out);
    let lines: Vec<Vec<&str>> = done
        .out
        .lines()
        .map(|line| line.split("  ").filter(|word| !word.is_empty()).map(str::trim).collect())
        .collect();
    for expected in [
        &["provider", "dialect", "origin", "key", "state"][..],
        &["anthropic", "messages", "https://api.anthropic.com", "ANTHROPIC_API_KEY", "ok"],
        &["openai", "responses", "https://api.openai.com", "-", "no key"],
        &["groq", "chat", "https://api.groq.com", "credential store", "ok"],
        &["ollama", "chat", "http://127.0.0.1:11434", "-", "not checked"],
        &["lab", "chat", "https://llm.lab.example", "key command", "ok"],
        &["open", "chat", "http://10.0.0.1:8080", "-", "not checked"],
        &["plain", "chat", "http://llm.example", "LAB_KEY", "error"],
        &["bad", "chat", "-", "-", "error"],
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected:?}\n{}", done.out);
    }
    assert!(
        done.out.contains("\n  refusing to send the key for `plain` to http://llm.example"),
        "{}",
        done.out
    );
}

#[test]
fn a_list_as_json_has_every_field() {
    let home = home().env("GEMINI_API_KEY", KEY);
    assert_eq!(
        listed(&home, "gemini", false),
        json!({"id": "gemini", "name": "Gemini", "dialect": "gemini", "local": false, "state": "ok",
            "origin": "https://generativelanguage.googleapis.com", "keySource": "GEMINI_API_KEY",
            "problem": null, "models": null})
    );
    assert_eq!(home.line(&["providers", "--json"]).out, home.line(&["providers", "list", "--json"]).out);
}

#[test]
fn a_check_reports_whether_the_server_responds_and_accepts_the_key() {
    let models = json!({"data": [{"id": "a"}, {"id": "b"}]});
    let server = FakeHttp::start(move |request| match request.header("authorization") {
        Some(given) if given == format!("Bearer {KEY}") => HttpAnswer::json(&models),
        _ => HttpAnswer::status(401).body(r#"{"error": {"message": "no: wrong-key"}}"#),
    });
    let home = lab(&format!("{}/v1", server.url()), json!({}));
    let row = listed(&home, "lab", true);
    assert_eq!((&row["state"], &row["models"]), (&json!("ok"), &json!(2)));
    assert_eq!(server.requests_to("/v1/models").len(), 1);
    let wrong = lab(&format!("{}/v1", server.url()), json!({"envKey": "OTHER"})).env("OTHER", "wrong-key");
    let row = listed(&wrong, "lab", true);
    assert_eq!((&row["state"], &row["problem"]), (&json!("key rejected"), &json!("no: ***")));
    let gone = lab("http://127.0.0.1:9/v1", json!({}));
    assert_eq!(listed(&gone, "lab", true)["state"], "unreachable");
    let page = FakeHttp::start(|_| HttpAnswer::status(200).body("<html><title>Sign in</title>"));
    let row = listed(&lab(&page.url(), json!({})), "lab", true);
    assert_eq!(row["state"], "error");
    assert!(row["problem"].as_str().unwrap().contains("a web page with the title \"Sign in\""), "{row}");
}

#[test]
fn a_provider_is_added_and_changed_without_touching_the_rest_of_the_file() {
    let home = home().user_settings("{\n  // mine\n  \"ui\": {\"theme\": \"x\"}\n}\n");
    let new = NewProvider {
        id: "lab".into(),
        base_url: "https://llm.lab.example/v1".into(),
        env_key: Some("LAB_KEY".into()),
        ..NewProvider::default()
    };
    let done = home.run(ProvidersCommand::Add(new.clone()), "");
    assert_eq!(done.result, Ok(()));
    assert!(
        done.out.starts_with("Provider `lab` added in ") && done.out.contains("set LAB_KEY"),
        "{}",
        done.out
    );
    let other = NewProvider {
        base_url: "https://other.example/v1".into(),
        env_key: None,
        tools: Some("prompt".into()),
        ..new
    };
    let done = home.run(ProvidersCommand::Add(other), "");
    assert!(done.out.starts_with("Provider `lab` updated in "), "{}", done.out);
    let written = home.settings_text();
    assert!(written.contains("// mine") && written.contains("\"theme\": \"x\""), "{written}");
    let row = listed(&home, "lab", false);
    assert_eq!((&row["origin"], &row["state"]), (&json!("https://other.example"), &json!("no key")));
    let entry = home.line(&["config", "get", "providers"]).out;
    let entry: Value = serde_json::from_str(&entry).unwrap();
    assert_eq!(
        entry["lab"],
        json!({"baseUrl": "https://other.example/v1", "envKey": "LAB_KEY", "tools": "prompt"})
    );
}

#[test]
fn invalid_providers_are_not_added() {
    let home = home().user_settings(r#"{"providers": {"my-lab": {"baseUrl": "https://a.example/v1"}}}"#);
    let before = home.settings_text();
    for (words, expected) in [
        (&["lab", "--base-url", "llm.example"][..], "invalid base URL for provider `lab`"),
        (&["lab", "--base-url", "https://me:secret@x/v1"], "not in the URL"),
        (&["my.lab", "--base-url", "https://b.example/v1"], "share the variable POLLUX_MY_LAB_API_KEY"),
        (&["a/b", "--base-url", "https://b.example/v1"], "invalid provider id"),
        (&["gemini", "--base-url", "https://b.example/v1"], "is not supported"),
        (&["lab", "--base-url", "http://llm.example/v1", "--env-key", "K"], "without encryption"),
        (
            &["lab", "--base-url", "https://b.example/v1", "--env-key", "sk-canary-1"],
            "the name of an environment variable",
        ),
        (&["lab", "--base-url", "https://b.example/v1", "--header", "Authorization=x"], "cannot be set"),
    ] {
        let words: Vec<&str> = ["providers", "add"].iter().chain(words).copied().collect();
        let failure = home.line(&words).result.unwrap_err();
        let text = failure.message();
        assert!(text.contains(expected) && !text.contains("canary") && !text.contains("secret@"), "{text}");
    }
    assert_eq!(home.settings_text(), before);
}

#[test]
fn a_key_is_stored_used_and_removed() {
    let home = home().env("GROQ_API_KEY", "sk-other");
    let done = home.run(login("anthropic"), &format!("  {KEY}\n"));
    assert_eq!(done.result, Ok(()));
    assert!(
        done.out.starts_with("Stored the key for `anthropic` in ") && !done.out.contains(KEY),
        "{}",
        done.out
    );
    assert_eq!(listed(&home, "anthropic", false)["keySource"], "credential store");
    assert_eq!(listed(&home, "openai", false)["keySource"], Value::Null);
    let done = home.run(login("groq"), KEY);
    assert_eq!(done.err, "Note: GROQ_API_KEY is set and takes precedence over the stored key.\n");
    let logout = |id: &str| home.run(ProvidersCommand::Logout { id: id.into() }, "").out;
    assert_eq!(logout("groq"), "Removed the stored key for `groq`.\nStill in effect: GROQ_API_KEY\n");
    assert_eq!(logout("anthropic"), "Removed the stored key for `anthropic`.\n");
    assert_eq!(logout("anthropic"), "No key is stored for `anthropic`.\n");
    assert_eq!(listed(&home, "anthropic", false)["state"], "no key");
}

#[test]
fn ids_that_look_alike_have_their_own_stored_keys() {
    let home = home().user_settings(
        r#"{"providers": {"a.b": {"baseUrl": "https://x"}, "a-c": {"baseUrl": "https://y"}}}"#,
    );
    home.run(login("a.b"), KEY).result.unwrap();
    assert_eq!(listed(&home, "a.b", false)["keySource"], "credential store");
    assert_eq!(listed(&home, "a-c", false)["keySource"], Value::Null);
}

#[test]
fn invalid_keys_are_rejected_without_being_shown() {
    let home = home();
    for (id, typed, expected) in [
        ("openai", "", "it is empty"),
        ("openai", "two canary words", "spaces"),
        ("openai", "\"sk-canary\"", "quotes"),
        ("openai", "sk-canary-\u{200b}", "invalid characters"),
        ("anthropic", "sk-ant-oat01-canary", "only API keys work"),
        ("openai", "eyJcanary", "only API keys work"),
        ("claude", "sk-canary", "only API keys work"),
        ("ChatGPT", "sk-canary", "only API keys work"),
        ("vertex", "sk-canary", "Google's credentials"),
        ("nosuch", "sk-canary", "unknown provider `nosuch`"),
    ] {
        let done = home.run(login(id), typed);
        let failure = done.result.unwrap_err();
        assert!(failure.summary.contains(expected), "{id}: {}", failure.summary);
        assert!(!format!("{failure:?}{}{}", done.out, done.err).contains("canary"), "{failure:?}");
    }
    let failure = home.line(&["providers", "login", "openai", "sk-canary"]).result.unwrap_err();
    assert!(failure.summary.contains("not accepted as arguments") && !failure.message().contains("canary"));
}

fn call() -> ChatReply {
    ChatReply::stream()
        .role()
        .call(0, "c1", "report_word", r#"{"word": "ready"}"#)
        .finish("tool_calls")
        .done()
}

#[test]
fn a_test_reports_and_stores_what_works() {
    let server = FakeChat::start([
        ChatReply::said("ready"),
        ChatReply::said("I would call it."),
        ChatReply::said(r#"{"word": "ready"}"#),
    ]);
    let home = lab(&server.url(), json!({}));
    let done = home.run(test(Some("lab/m.1"), false), "");
    assert_eq!(done.result, Ok(()));
    let lines: Vec<&str> = done.out.lines().map(|line| line.split(" (").next().unwrap_or(line)).collect();
    assert_eq!(
        lines,
        [
            "lab/m.1",
            "  streaming    works",
            "  tool calls   does not work: the model replied with text instead of calling the tool",
            "  JSON output  works"
        ]
    );
    let requests: Vec<Value> = (0..3).map(|number| server.body(number)).collect();
    assert_eq!(requests[1]["tool_choice"], json!({"type": "function", "function": {"name": "report_word"}}));
    assert_eq!(requests[2]["response_format"]["type"], "json_schema");
    let written: Value = serde_json::from_str(&home.line(&["config", "get", "providers"]).out).unwrap();
    let found = &written["lab"]["probed"]["m.1"];
    assert_eq!(
        (&found["stream"], &found["tools"], &found["json"]),
        (&json!(true), &json!(false), &json!(true))
    );
    assert_eq!(written["lab"]["baseUrl"], server.url());
}

#[test]
fn a_test_outputs_json_and_picks_a_listed_model() {
    let models = ChatReply::json(200, &json!({"data": [{"id": "only"}]}));
    let server =
        FakeChat::start([models, ChatReply::said("ready"), call(), ChatReply::error(400, "no schemas here")]);
    let home = lab(&server.url(), json!({}));
    let done = home.run(test(None, true), "");
    assert_eq!(done.result, Ok(()));
    let value: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!((&value["provider"], &value["model"]), (&json!("lab"), &json!("only")));
    assert_eq!((&value["stream"]["works"], &value["tools"]["works"]), (&json!(true), &json!(true)));
    assert_eq!(value["json"]["works"], json!(false));
    assert!(value["json"]["reason"].as_str().unwrap().contains("no schemas here"), "{value}");
}

#[test]
fn a_test_without_a_reply_stores_nothing() {
    let server = FakeChat::start([ChatReply::error(401, &format!("bad key {KEY}"))]);
    let home = lab(&server.url(), json!({}));
    let before = home.settings_text();
    let done = home.run(test(Some("m"), false), "");
    let failure = done.result.unwrap_err();
    assert_eq!(failure.summary, "no reply from `lab/m`; nothing was stored");
    assert!(done.out.contains("streaming    unknown: bad key ***"), "{}", done.out);
    assert_eq!((home.settings_text(), server.requests().len()), (before, 1));
    let failure =
        home.run(ProvidersCommand::Test { id: "openai".into(), model: None, json: false }, "").result;
    let failure = failure.unwrap_err();
    assert_eq!((failure.summary.as_str(), failure.exit), ("no API key for OpenAI", ExitKind::Auth));
    assert!(failure.hint.unwrap().contains("pollux providers login openai"));
}

#[test]
fn a_key_command_runs_again_when_its_key_is_rejected() {
    let script = "echo x >> \"$HOME/count\"; echo sk-$(wc -l < \"$HOME/count\")";
    let server = FakeHttp::start(|request| match request.header("authorization") {
        Some("Bearer sk-2") => HttpAnswer::json(&json!({"data": []})),
        _ => HttpAnswer::status(401).body("{}"),
    });
    let settings =
        json!({"providers": {"lab": {"baseUrl": server.url(), "keyCommand": ["sh", "-c", script]}}});
    let home = home().user_settings(&settings.to_string()).env("PATH", "/usr/bin:/bin");
    let row = listed(&home, "lab", true);
    assert_eq!((&row["state"], &row["keySource"]), (&json!("ok"), &json!("key command")), "{row}");
    assert_eq!(server.requests().len(), 2);
    let settings =
        json!({"providers": {"lab": {"baseUrl": server.url(), "keyCommand": ["sh", "-c", "exit 3"]}}});
    let home = home.user_settings(&settings.to_string());
    let row = listed(&home, "lab", true);
    assert_eq!(row["problem"], "no API key from `keyCommand` of `lab`: it exited with code 3");
    assert_eq!(server.requests().len(), 2, "nothing is sent without the key");
}
