//! Keys and sign-ins: stored, found, told of, removed; and Vertex AI with tokens.

use std::fs;
use std::path::Path;

use pollux_test_support::{FakeHttp, HttpAnswer, Run, TestHome, TestRun, reply};
use serde_json::json;

use crate::scene::{MODEL, Scene, all_files, binary, parse};

const KEY: &str = "AIzaSyD-0123456789abcdefghijklmnopqrstu";
const SERVICE_ACCOUNT_KEY: &str = include_str!("../../../net/tests/fixtures/service-account-test-key.pem");

fn without_key(run: TestRun) -> TestRun {
    run.without_env("GEMINI_API_KEY")
}

fn auth(home: &TestHome, args: &[&str]) -> TestRun {
    let args: Vec<&str> = ["auth"].into_iter().chain(args.iter().copied()).collect();
    without_key(home.command(binary(), args))
}

fn log_in(home: &TestHome) -> Run {
    let run = auth(home, &["login", "--api-key-stdin"]).stdin(format!("{KEY}\n")).run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run
}

/// No file below the home holds the text.
fn assert_nowhere(folder: &Path, secret: &str) {
    for file in all_files(folder) {
        let bytes = fs::read(&file).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&bytes).contains(secret), "{}", file.display());
    }
}

#[test]
fn a_stored_key_is_used_when_the_environment_has_none() {
    let scene = Scene::new([reply().text("ok"), reply().text("ok")]);
    let run = log_in(&scene.home);
    let file = scene.home.gemini_dir().join("gemini-credentials.json");
    assert_eq!(run.stdout, format!("API key stored in the encrypted file {}.\n", file.display()));
    assert_nowhere(&scene.home.home(), KEY);
    // A base address without a key would be a gateway; the settings say what it is.
    let select = json!({"security": {"auth": {"selectedType": "gemini-api-key"}}});
    let home = TestHome::new().settings(select).env("GEMINI_CLI_TRUST_WORKSPACE", "true");
    log_in(&home);
    let run = without_key(home.command(binary(), ["-m", MODEL, "-p", "x"]).against(&scene.server)).run();
    assert_eq!((run.stdout.as_str(), run.code), ("ok\n", Some(0)), "{}", run.stderr);
    assert_eq!(scene.server.request(0).header("x-goog-api-key"), Some(KEY));
    let run = home.command(binary(), ["-m", MODEL, "-p", "x"]).against(&scene.server).run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(scene.server.request(1).header("x-goog-api-key"), Some("test-key"));
    assert_nowhere(&home.home(), KEY);
}

#[test]
fn the_status_says_which_place_counts_and_why() {
    let home = TestHome::new();
    let nobody = auth(&home, &["status"]).run();
    assert_eq!(nobody.code, Some(41));
    assert!(nobody.stdout.starts_with("Not signed in\n"), "{}", nobody.stdout);
    log_in(&home);
    let stored = auth(&home, &["status"]).run();
    assert_eq!(stored.code, Some(0), "{}", stored.stderr);
    assert!(stored.stdout.starts_with("Signed in: the stored key (gemini-api-key)\n"), "{}", stored.stdout);
    assert!(stored.stdout.contains("because no D-Bus session is available"), "{}", stored.stdout);
    assert!(stored.stdout.contains("> stored key "), "{}", stored.stdout);
    let run = auth(&home, &["status", "--json"]).env("GEMINI_API_KEY", "from-outside-0123456789").run();
    let status = parse(&run.stdout);
    assert_eq!(status["source"], "GEMINI_API_KEY in the environment");
    assert_eq!(status["storage"]["backend"], "encrypted_file");
    let places = status["places"].as_array().unwrap();
    let find = |name: &str| places.iter().find(|place| place["place"] == name).unwrap();
    assert_eq!(find("GEMINI_API_KEY")["inEffect"], true);
    assert_eq!(find("stored key")["state"], "stored, not used");
    let vertex = auth(&home, &["status"])
        .env("GOOGLE_GENAI_USE_VERTEXAI", "true")
        .env("GOOGLE_API_KEY", "express-0123456789")
        .run();
    assert!(vertex.stdout.contains("GOOGLE_API_KEY in the environment (vertex-ai)"), "{}", vertex.stdout);
    assert!(vertex.stdout.contains("Vertex AI, express mode"), "{}", vertex.stdout);
    for shown in [&stored.stdout, &run.stdout, &vertex.stdout] {
        assert!(!shown.contains(KEY) && !shown.contains("0123456789"), "{shown}");
    }
}

#[test]
fn what_is_stored_is_listed_without_secrets_and_removed() {
    let plain = json!([{"serverName": "srv", "mcpServerUrl": "https://m.example/mcp",
                        "token": {"accessToken": "plain-secret", "refreshToken": "r", "tokenType": "Bearer",
                                  "expiresAt": 1_900_000_000_000_i64}}]);
    let home = TestHome::new()
        .home_file(".gemini/mcp-oauth-tokens.json", &plain.to_string())
        .home_file(".gemini/oauth_creds.json", "{}")
        .home_file(".gemini/google_accounts.json", r#"{"active": "me@x.example", "old": []}"#);
    log_in(&home);
    let listed = auth(&home, &["list", "--json"]).run();
    let rows = parse(&listed.stdout);
    let names: Vec<(&str, &str)> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["kind"].as_str().unwrap(), row["name"].as_str().unwrap()))
        .collect();
    assert_eq!(
        names,
        [("API key", "default-api-key"), ("MCP server", "srv"), ("Google login", "main-account")]
    );
    let text = auth(&home, &["list"]).run().stdout;
    assert!(text.contains("expires  2030-03-17T17:46:40.000Z, then renewed"), "{text}");
    assert!(!text.contains("plain-secret") && !listed.stdout.contains("plain-secret"));
    assert!(home.gemini_dir().join("mcp-oauth-tokens.json").exists(), "listing moves nothing");

    let run = auth(&home, &["logout"]).run();
    assert_eq!((run.stdout.as_str(), run.code), ("The stored key was removed.\n", Some(0)));
    assert_eq!(auth(&home, &["logout"]).run().stdout, "No key was stored.\n");
    let run = auth(&home, &["logout", "--all"]).env("GEMINI_API_KEY", "k").run();
    assert!(run.stdout.contains("Removed: MCP server `srv`"), "{}", run.stdout);
    assert!(run.stdout.ends_with("Still in effect: GEMINI_API_KEY in the environment\n"), "{}", run.stdout);
    assert_eq!(auth(&home, &["list"]).run().stdout, "No stored credentials.\n");
    let accounts = fs::read_to_string(home.gemini_dir().join("google_accounts.json")).unwrap();
    assert_eq!(parse(&accounts), json!({"active": null, "old": ["me@x.example"]}));
}

#[test]
fn a_key_is_not_taken_as_an_argument_and_not_repeated() {
    let home = TestHome::new();
    for args in [&["login", KEY][..], &["login", "--api-key-stdin", KEY]] {
        let run = auth(&home, args).run();
        assert_eq!(run.code, Some(1));
        assert!(run.stderr.contains("--api-key-stdin"), "{}", run.stderr);
        assert!(!run.stderr.contains(KEY) && run.stdout.is_empty(), "{}", run.stderr);
    }
    let wrong = auth(&home, &["login", "--api-key-stdin"]).stdin("two words-that-are-long-enough").run();
    assert_eq!(wrong.code, Some(42));
    assert!(wrong.stderr.starts_with("invalid API key: it contains spaces"), "{}", wrong.stderr);
    let nobody = auth(&home, &["login"]).run();
    assert_eq!(nobody.code, Some(42), "{}", nobody.stderr);
    assert!(!home.gemini_dir().join("gemini-credentials.json").exists());
}

#[test]
fn at_a_terminal_the_key_is_typed_unseen() {
    let home = TestHome::new();
    let mut terminal = auth(&home, &["login"]).on_terminal();
    terminal.expect("API key (not shown): ").say(KEY).expect("API key stored in");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains("AIzaSyD"), "{screen}");
    assert!(auth(&home, &["status"]).run().stdout.starts_with("Signed in: the stored key"));
    let mut terminal = auth(&home, &["login"]).on_terminal();
    terminal.expect("API key (not shown): ").interrupt();
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(130), "{screen}");
}

#[test]
fn a_damaged_store_is_an_error_and_stays_as_it_is() {
    let home = TestHome::new().home_file(".gemini/gemini-credentials.json", "damaged");
    let run = without_key(home.command(binary(), ["-p", "x"])).run();
    assert_eq!(run.code, Some(41));
    assert!(run.stderr.contains("Corrupted credentials file detected at: "), "{}", run.stderr);
    assert_eq!(auth(&home, &["login", "--api-key-stdin"]).stdin(KEY).run().code, Some(1));
    let file = home.gemini_dir().join("gemini-credentials.json");
    assert_eq!(fs::read_to_string(file).unwrap(), "damaged");
}

#[test]
fn a_login_with_google_is_refused_with_what_works_instead() {
    let home = TestHome::new();
    let run = without_key(home.command(binary(), ["-p", "x"])).env("GOOGLE_GENAI_USE_GCA", "true").run();
    assert_eq!(run.code, Some(41));
    for word in ["login with Google", "pollux auth login", "GOOGLE_GENAI_USE_VERTEXAI"] {
        assert!(run.stderr.contains(word), "{}", run.stderr);
    }
}

#[test]
fn a_service_account_is_asked_for_a_token_and_vertex_gets_it() {
    let tokens = FakeHttp::start(|request| {
        assert!(request.form("assertion").is_some());
        HttpAnswer::json(&json!({"access_token": "ya29.vertex-token-123", "expires_in": 3600}))
    });
    let account = json!({"type": "service_account", "client_email": "bot@p.iam",
                         "private_key": SERVICE_ACCOUNT_KEY, "token_uri": format!("{}/token", tokens.url())});
    let outside = tempfile::tempdir().unwrap();
    let key_file = outside.path().join("account.json");
    fs::write(&key_file, account.to_string()).unwrap();
    let scene =
        Scene::new([reply().call("run_shell_command", json!({"command": "env"})), reply().text("done")]);
    let run = without_key(scene.prompt(&["--yolo", "-p", "x"]))
        .without_env("GOOGLE_GEMINI_BASE_URL")
        .env("GOOGLE_VERTEX_BASE_URL", &scene.server.url())
        .env("GOOGLE_GENAI_USE_VERTEXAI", "true")
        .env("GOOGLE_CLOUD_PROJECT", "p-1")
        .env("GOOGLE_CLOUD_LOCATION", "us-central1")
        .env("GOOGLE_APPLICATION_CREDENTIALS", key_file.to_str().unwrap())
        .run();
    assert_eq!((run.stdout.as_str(), run.code), ("done\n", Some(0)), "{}", run.stderr);
    let sent = scene.server.request(1);
    assert_eq!(
        sent.path,
        format!(
            "/v1beta1/projects/p-1/locations/us-central1/publishers/google/models/{MODEL}:streamGenerateContent"
        )
    );
    assert_eq!(sent.header("authorization"), Some("Bearer ya29.vertex-token-123"));
    assert_eq!(tokens.requests().len(), 1, "one token for the whole run");
    assert!(!sent.body.to_string().contains("ya29.vertex-token-123"));
    assert_nowhere(&scene.home.home(), "ya29.vertex-token-123");
}

#[test]
fn vertex_without_credentials_ends_before_anything_is_sent() {
    let scene = Scene::new([]);
    let vertex = |run: TestRun| {
        without_key(run)
            .env("GOOGLE_GENAI_USE_VERTEXAI", "true")
            .env("GOOGLE_VERTEX_BASE_URL", &scene.server.url())
    };
    let run = vertex(scene.prompt(&["-p", "x"])).run();
    assert_eq!(run.code, Some(41), "{}", run.stderr);
    assert!(run.stderr.contains("GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION"), "{}", run.stderr);
    let run = vertex(scene.prompt(&["-p", "x"]))
        .env("GOOGLE_CLOUD_PROJECT", "p")
        .env("GOOGLE_CLOUD_LOCATION", "global")
        .env("GOOGLE_APPLICATION_CREDENTIALS", "gone.json")
        .run();
    assert_eq!(run.code, Some(41), "{}", run.stderr);
    assert!(run.stderr.contains("gone.json"), "{}", run.stderr);
}
