#![allow(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use pollux_domain::content::{FunctionResponse, Part};
use pollux_domain::event::{CallStatus, Severity, Thought};
use pollux_domain::id::{CallId, SessionId};
use pollux_domain::model::Usage;
use pollux_domain::time::{Clock as _, SystemClock};
use pollux_domain::tool::Display;
use pollux_session::{
    CallRecord, CallResult, NewSession, Recorder, ReplyRecord, SessionFormat, SessionKind, UserSource,
};
use serde_json::Value;

use super::*;
use crate::line::Captured;
use crate::test_home::TestHome;

/// What must not be in a capsule, each by where it is planted.
const PLANTED: &[(&str, &str)] = &[
    ("prompt: Google", "AIzaSyD8kQ2mZx7Lr4Nv0Bt5Wc9Jh3Pf6Ya1Ge2"),
    ("prompt: OpenAI", "sk-proj-t9Kq2Lw8Zx4Vb7Nm1Rc5Yd3Hf6"),
    ("prompt: password in a URL", "p4ssw0rd-of-the-database"),
    ("steer: Stripe", "sk_live_4eC39HqLyjWDarjtT1zdp7dc"),
    ("reply: Anthropic", "sk-ant-api03-Qm7Zt2Lx9Kv4Bn8Wc1Rd5Yf3"),
    ("reply: Google OAuth", "ya29.a0AfH6SMBx7Lr4Nv0Bt5Wc9Jh3Pf6"),
    ("thought: npm", "npm_8Kq2Lw9Zx4Vb7Nm1Rc5Yd3Hf6Tg0Js2Xy4Zz"),
    ("arguments: Slack", "xoxb-204857693021-Lw8Zx4Vb7Nm1"),
    ("arguments: bearer header", "Zm9vYmFyLTEyMzQ1Njc4OTA"),
    ("arguments: name of a field", "hunter2hunter2hunter2"),
    ("output: GitHub", "ghp_8Kq2Lw9Zx4Vb7Nm1Rc5Yd3Hf6Tg0Js2Xy4"),
    ("output: fine-grained GitHub", "github_pat_11ABCDEFG0_8Kq2Lw9Zx4Vb7Nm1Rc5"),
    ("output: AWS id", "AKIAQ7ZT2LX9KV4BN8WC"),
    ("output: AWS secret", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYz8EXAMPLEKEY"),
    ("output: private key", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj"),
    ("output: JWT", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJlLTEyMzQ"),
    ("output: cookie", "c3Vua2VuLWNvb2tpZS00NzEx"),
    ("error: GitLab", "glpat-8Kq2Lw9Zx4Vb7Nm1Rc5Y"),
    ("declined: Hugging Face", "hf_8Kq2Lw9Zx4Vb7Nm1Rc5Yd3Hf6Tg0Js2Xy4"),
    ("notice: password", "swordfish-in-a-notice-1"),
    ("display: not part of events", "what only the screen showed 77"),
    ("variable: key", "AIzaSyA0000variable1111key2222of3333me4"),
    ("variable: password, printed bare", "correct-horse-battery"),
    ("variable: proxy, printed bare", "pr0xy-pa55word"),
    ("variable: passphrase, printed bare", "four ordinary words, blank-separated"),
    (".env: value, printed bare", "an-innocent-value-of-mine"),
    ("settings: header of a server, printed bare", "dGhlLWhlYWRlci1vZi1hLXNlcnZlcg"),
    ("settings: variable of a server, printed bare", "a-variable-for-a-server"),
    ("settings: argument of a server", "token-in-the-arguments-9"),
    ("settings: URL of a server", "url-pa55word-of-a-server"),
    ("settings: hook command", "basic-auth-of-the-hook-5"),
    ("settings: unknown key", "value-below-an-unknown-key"),
    ("settings: client secret", "client-secret-of-an-issuer-3"),
    ("extension: setting", "setting-of-an-extension-8"),
    ("user name", "quentin"),
];

fn planted(place: &str) -> &'static str {
    PLANTED.iter().find(|(known, _)| *known == place).unwrap_or_else(|| panic!("{place}")).1
}

fn home() -> TestHome {
    let settings = json!({
        "model": {"name": "gemini-2.5-pro", "maxSessionTurns": 12},
        "ui": {"theme": "my own theme"},
        "acme": {"thing": planted("settings: unknown key")},
        "mcpServers": {
            "tracker": {
                "command": "tracker-server",
                "args": ["--token", planted("settings: argument of a server")],
                "env": {"PLACE": planted("settings: variable of a server, printed bare")},
            },
            "wiki": {
                "httpUrl": format!("https://me:{}@wiki.test/mcp", planted("settings: URL of a server")),
                "headers": {"X-Wiki": planted("settings: header of a server, printed bare")},
                "oauth": {"enabled": true, "clientSecret": planted("settings: client secret")},
            },
        },
        "hooks": {"BeforeTool": [{"hooks": [{
            "type": "command", "name": "audit",
            "command": format!("curl -u me:{} https://audit.test", planted("settings: hook command")),
        }]}]},
    });
    TestHome::new()
        .user_settings(&settings.to_string())
        .file(".env", &format!("GREETING={}\n", planted(".env: value, printed bare")))
        .home_file(
            ".gemini/extensions/weather/gemini-extension.json",
            r#"{"name": "weather", "version": "1.0.0", "settings": [{"name": "Place", "envVar": "PLACE"}]}"#,
        )
        .home_file(
            ".gemini/extensions/weather/.env",
            &format!("WEATHER_TOKEN={}\n", planted("extension: setting")),
        )
        .env("GEMINI_API_KEY", planted("variable: key"))
        .env("ACME_PASSWORD", planted("variable: password, printed bare"))
        .env("ACME_PASSPHRASE", planted("variable: passphrase, printed bare"))
        .env("HTTPS_PROXY", &format!("http://me:{}@proxy.test:1", planted("variable: proxy, printed bare")))
        .env("USER", "quentin")
        .env("TERM", "xterm-256color")
        .env("GEMINI_FORCE_FILE_STORAGE", "true")
}

fn call(id: &str, name: &str, args: Value) -> CallRecord {
    CallRecord {
        id: CallId::new(name, id),
        name: name.to_owned(),
        args: args.as_object().unwrap().clone(),
        seal: None,
        display_name: name.to_owned(),
        description: planted("display: not part of events").to_owned(),
        markdown: false,
    }
}

fn ended(call: &CallRecord, status: CallStatus, response: Value) -> CallResult {
    let response = FunctionResponse {
        id: None,
        name: call.name.clone(),
        response: response.as_object().unwrap().clone().into(),
        parts: Vec::new(),
    };
    let display = Display::Text(planted("display: not part of events").to_owned());
    CallResult { id: call.id.clone(), status, result: vec![Part::response(response)], display }
}

/// Writes a session that holds every planted secret that a session can.
fn leaky_session(home: &TestHome) -> String {
    let env = home.environment();
    let places = SessionPlaces::new(&env, super::home(&env).unwrap(), false);
    let now = SystemClock.now();
    let mut recorder = Recorder::create(NewSession {
        id: SessionId::random(),
        project_hash: places.project.hash().to_owned(),
        chats_dir: places.project.chats_dir(),
        format: SessionFormat::Json,
        kind: SessionKind::Main,
        now,
    })
    .unwrap();
    let user_home = home.home().display().to_string();
    let prompt = format!(
        "In {user_home}/work, quentin uses {} and {} with postgres://me:{}@db.test/x",
        planted("prompt: Google"),
        planted("prompt: OpenAI"),
        planted("prompt: password in a URL"),
    );
    recorder.user(&[Part::text(prompt)], None, now).unwrap();
    let output: String = [
        planted("output: GitHub"),
        planted("output: fine-grained GitHub"),
        planted("output: AWS id"),
        &format!("aws_secret_access_key = {}", planted("output: AWS secret")),
        &format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----",
            planted("output: private key")
        ),
        planted("output: JWT"),
        &format!("Cookie: id={}", planted("output: cookie")),
        planted("variable: key"),
        planted("variable: password, printed bare"),
        planted("variable: proxy, printed bare"),
        planted("variable: passphrase, printed bare"),
        planted(".env: value, printed bare"),
        planted("settings: header of a server, printed bare"),
        planted("settings: variable of a server, printed bare"),
        &format!("tracker-server --token {}", planted("settings: argument of a server")),
        &format!("WEATHER_TOKEN={}", planted("extension: setting")),
        "a line that is no secret",
    ]
    .map(|line| format!("{line}\n"))
    .concat();
    let header = format!("Authorization: Bearer {}", planted("arguments: bearer header"));
    let calls = vec![
        call(
            "1",
            "run_shell_command",
            json!({"command": format!("curl -H '{header}' {}", planted("arguments: Slack"))}),
        ),
        call("2", "mcp_wiki_edit", json!({"page": {"password": planted("arguments: name of a field")}})),
        call("3", "write_file", json!({"file_path": format!("{user_home}/a")})),
    ];
    let reply = ReplyRecord {
        parts: vec![Part::text(format!(
            "I use {} and {}.",
            planted("reply: Anthropic"),
            planted("reply: Google OAuth")
        ))],
        thoughts: vec![(Thought::parse(&format!("**Keys** there is {}", planted("thought: npm"))), now)],
        usage: Some(Usage { input: 10, output: 2, total: 12, ..Usage::default() }),
        model: "gemini-2.5-pro".to_owned(),
        origin: None,
        calls: calls.clone(),
    };
    recorder.reply(&reply, now).unwrap();
    let error = format!("denied for {}", planted("error: GitLab"));
    let declined = format!("[Operation Cancelled] Reason: not with {}", planted("declined: Hugging Face"));
    let results = [
        ended(&calls[0], CallStatus::Success, json!({"output": output})),
        ended(&calls[1], CallStatus::Error, json!({"error": error})),
        ended(&calls[2], CallStatus::Cancelled, json!({"error": declined})),
    ];
    recorder.results(&results, now).unwrap();
    let steer = format!("rather {}", planted("steer: Stripe"));
    recorder.user_from(UserSource::DuringTurn, &[Part::text(steer)], None, now).unwrap();
    let notice = format!("password={}", planted("notice: password"));
    recorder.notice(Severity::Warning, &notice, now).unwrap();
    let last = ReplyRecord { parts: vec![Part::text("Done.")], calls: Vec::new(), ..reply };
    recorder.reply(&last, now).unwrap();
    // They are really there.
    let recorded = fs::read_to_string(recorder.path().unwrap()).unwrap();
    let of_session = [
        "prompt",
        "steer",
        "reply",
        "thought",
        "arguments",
        "output",
        "error",
        "declined",
        "notice",
        "display",
    ];
    for (place, secret) in PLANTED {
        let is_recorded =
            of_session.contains(&place.split(':').next().unwrap()) || place.ends_with("printed bare");
        assert!(!is_recorded || recorded.contains(secret), "{place}");
    }
    recorder.session().to_string()
}

/// Runs the command; what it printed and the capsule.
fn reported(home: &TestHome, command: BugCommand) -> (Captured, String) {
    let output = Some("capsule.json".into());
    let done = home.run(BugCommand { output, yes: true, ..command }, "");
    assert_eq!(done.result, Ok(()), "{}", done.err);
    (done, fs::read_to_string(home.project().join("capsule.json")).unwrap())
}

fn with_contents() -> BugCommand {
    BugCommand { with_contents: true, ..BugCommand::default() }
}

#[test]
fn capsules_hold_none_of_the_planted_secrets() {
    assert!(PLANTED.len() >= 30);
    let home = home();
    leaky_session(&home);
    let user_home = home.home().display().to_string();
    let (_, kept) = reported(&home, with_contents());
    for (place, secret) in PLANTED.iter().chain([&("home", user_home.as_str())]) {
        assert!(!kept.contains(secret), "{place} is in\n{kept}");
    }
    // What is no secret is there.
    for text in ["a line that is no secret", "~/work, user uses ***", "I use *** and ***.", "Done."] {
        assert!(kept.contains(text), "{text} is missing in\n{kept}");
    }
    let (_, hidden) = reported(&home, BugCommand::default());
    for (place, secret) in PLANTED.iter().chain([&("home", user_home.as_str())]) {
        let characters: Vec<char> = secret.chars().collect();
        for part in characters.windows(characters.len().min(10)) {
            let part: String = part.iter().collect();
            assert!(!hidden.contains(&part), "{place} is in\n{hidden}");
        }
    }
    for text in ["a line that is no secret", "uses", "Done."] {
        assert!(!hidden.contains(text), "{text} is in\n{hidden}");
    }
}

#[test]
fn a_capsule_tells_what_a_report_needs() {
    let home = home();
    leaky_session(&home);
    let (done, text) = reported(&home, BugCommand::default());
    assert_eq!(done.out, format!("{}\n", home.project().join("capsule.json").display()));
    assert!(done.err.contains("8 events") && done.err.contains("Review the file"), "{}", done.err);
    let capsule: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&capsule["format"], &capsule["contents"]), (&json!(1), &json!("hidden")));
    let environment = &capsule["environment"];
    assert_eq!(environment["program"]["version"], pollux_host::VERSION);
    assert_eq!(environment["terminal"]["term"], "xterm-256color");
    let settings = environment["settings"].as_array().unwrap();
    let setting = |key: &str| settings.iter().find(|setting| setting["key"] == key).unwrap_or(&Value::Null);
    assert_eq!(setting("model.name")["value"], "gemini-2.5-pro");
    assert_eq!(setting("model.maxSessionTurns")["value"], 12);
    assert_eq!(setting("model.maxSessionTurns")["layer"], "user settings");
    assert!(setting("ui.theme")["value"].as_str().unwrap().starts_with("text(12) "));
    assert!(settings.iter().any(|setting| setting["known"] == false), "{settings:?}");
    let servers = environment["mcp_servers"].as_array().unwrap();
    let shown: Vec<_> = servers.iter().map(|server| (&server["name"], &server["transport"])).collect();
    assert_eq!(shown, [(&json!("tracker"), &json!("stdio")), (&json!("wiki"), &json!("http"))]);
    assert_eq!(environment["hooks"][0]["event"], "BeforeTool");
    assert!(environment["variables"].as_array().unwrap().contains(&json!("HTTPS_PROXY")));
    let doctor = environment["doctor"].as_array().unwrap();
    assert!(!doctor.is_empty() && doctor.iter().all(|finding| finding.get("what").is_none()));
    let kinds: Vec<&str> = capsule["sessions"][0]["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["prompt", "reply", "call", "call", "call", "steer", "notice", "reply"]);
}

#[test]
fn a_capsule_belongs_to_the_user_and_replaces_nothing_unasked() {
    let home = home();
    let id = leaky_session(&home);
    let done = home.run(BugCommand { json: true, ..BugCommand::default() }, "");
    assert_eq!(done.result, Ok(()));
    let told: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!((told["sessionId"].as_str(), &told["contents"]), (Some(id.as_str()), &json!("hidden")));
    let file = home.project().join(format!("pollux-bug-{}.json", id.get(..8).unwrap()));
    assert_eq!(told["file"].as_str().map(Path::new), Some(file.as_path()));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    fs::write(&file, "mine").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = home.run(BugCommand::default(), "").result.unwrap_err();
    assert_eq!((refused.exit, fs::read_to_string(&file).unwrap().as_str()), (ExitKind::Input, "mine"));
    assert_eq!(home.run(BugCommand { yes: true, ..BugCommand::default() }, "").result, Ok(()));
    assert_ne!(fs::read_to_string(&file).unwrap(), "mine");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn contents_are_written_only_with_consent() {
    let home = home();
    leaky_session(&home);
    let written = || fs::read_dir(home.project()).unwrap().flatten().count() > 1;
    let refused = home.run(with_contents(), "").result.unwrap_err();
    assert!(refused.hint.unwrap().contains("--yes"));
    let (done, screen) = home.answered(with_contents(), &mut "n\n".as_bytes(), true);
    assert!(done.result.is_err() && screen.contains("prompts, replies, thoughts"), "{screen}");
    assert!(!written());
    assert_eq!(home.answered(with_contents(), &mut "y\n".as_bytes(), true).0.result, Ok(()));
    assert!(written());
}

#[test]
fn without_a_session_there_is_still_a_report() {
    let home = TestHome::new();
    let (done, text) = reported(&home, BugCommand::default());
    assert!(done.err.contains("this project has no sessions"), "{}", done.err);
    let capsule: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(capsule["sessions"], json!([]));
    let named = BugCommand { session: Some("0123abcd".to_owned()), ..BugCommand::default() };
    assert_eq!(home.run(named.clone(), "").result.unwrap_err().exit, ExitKind::Input);
    // Nobody is asked about a session that is not there.
    let (done, screen) =
        home.answered(BugCommand { with_contents: true, ..named }, &mut "y\n".as_bytes(), true);
    assert!(done.result.is_err() && !screen.contains("Write it?"), "{screen}");
}

#[test]
fn settings_that_cannot_be_read_are_reported_without_their_text() {
    let home = TestHome::new().user_settings("{ \"secretish-word-4711\": ");
    let (_, text) = reported(&home, BugCommand::default());
    let capsule: Value = serde_json::from_str(&text).unwrap();
    assert!(capsule["environment"]["settings"]["error"].as_str().unwrap().starts_with("text("));
    assert!(!text.contains("secretish") && !text.contains("word-4711"));
}
