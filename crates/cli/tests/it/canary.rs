//! Secrets of the user reach the model's endpoint as its key and nobody and nothing else.

use std::fs;

use pollux_test_support::{Run, TestHome, reply};
use serde_json::{Value, json};

use crate::scene::{Scene, all_files};

/// Part of every secret.
const CANARY: &str = "CANARY";

const SECRETS: &[(&str, &str)] = &[
    ("GEMINI_API_KEY", "CANARY-gemini-0001"),
    ("GOOGLE_API_KEY", "CANARY-google-0002"),
    ("GITHUB_TOKEN", "CANARY-github-0003"),
    ("AWS_SECRET_ACCESS_KEY", "CANARY/aws/0004"),
    ("AWS_SESSION_TOKEN", "CANARY-session-0005"),
    ("FOO_PASSWORD", "CANARY-password-0006"),
    ("MYSQL_PWD", "CANARY-pwd-0007"),
    ("DATABASE_URL", "postgres://me:CANARY-db-0008@localhost/x"),
    ("REDIS", "redis://:CANARY-redis-0009@localhost"),
    ("DEPLOY", "-----BEGIN OPENSSH PRIVATE KEY-----\nCANARY0010\n-----END OPENSSH PRIVATE KEY-----\n"),
    ("ODD_NAME", "ghp_CANARY0011abcdefghijklmnopqrstuvwxyz012"),
    ("OTHER_ODD", "sk-ant-CANARY0012-abcdefghijklmnop"),
    ("NPM_CONFIG__AUTH", "npm_CANARY0013abcdefghijklmnopqrstuvwxyz01"),
];

fn home() -> TestHome {
    let home = TestHome::new();
    let outfile = home.home().join("telemetry.log");
    let home = home
        .settings(json!({
            "telemetry": {"enabled": true, "logPrompts": true, "outfile": outfile},
            "mcpServers": {
                "one": {"command": "true", "env": {"API_TOKEN": "CANARY-settings-0020", "REF": "$GITHUB_TOKEN"}},
                "two": {"httpUrl": "http://127.0.0.1:9/", "headers": {"Authorization": "Bearer CANARY-header-0021"}},
            },
        }))
        .file(".env", "PROJECT_SECRET=CANARY-dotenv-0030\n")
        .home_file(".gemini/.env", "HOME_TOKEN=CANARY-dotenv-0031\n");
    SECRETS.iter().fold(home, |home, (name, value)| home.env(name, value))
}

/// Every place outside of the user's own files where a secret stands.
fn leaks(scene: &Scene, run: &Run, word: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut look = |place: String, bytes: &[u8]| {
        if let Some(at) = bytes.windows(word.len()).position(|window| window == word.as_bytes()) {
            let end = bytes.len().min(at + 40);
            found.push(format!("{place}: {}", String::from_utf8_lossy(&bytes[at.saturating_sub(60)..end])));
        }
    };
    look("stdout".to_owned(), run.stdout.as_bytes());
    look("stderr".to_owned(), run.stderr.as_bytes());
    for folder in [scene.home.home(), scene.home.project()] {
        for file in all_files(&folder) {
            // What could be taken back is the user's own files, kept where only the user can read.
            let is_kept = file.ancestors().any(|folder| folder.ends_with("rewind/objects"));
            let is_own = is_kept || file.ends_with(".env") || file.ends_with(".gemini/settings.json");
            if !is_own {
                look(file.display().to_string(), &fs::read(&file).unwrap());
            }
        }
    }
    for (index, request) in scene.server.requests().iter().enumerate() {
        let headers: Vec<String> = request
            .headers
            .iter()
            .filter(|(name, _)| name != "x-goog-api-key")
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        let whole = format!("{} {} {} {}", request.path, request.query, headers.join("\n"), request.body);
        look(format!("request {index}"), whole.as_bytes());
    }
    found
}

#[test]
fn no_secret_is_written_or_sent_by_a_run_that_looks_for_them() {
    let commands = [
        "env; export -p; set",
        "printenv GITHUB_TOKEN GEMINI_API_KEY DEPLOY",
        "tr '\\0' '\\n' < /proc/self/environ",
        "tr '\\0' '\\n' < /proc/$PPID/environ",
        "for p in /proc/[0-9]*; do grep -aq pollux $p/comm && tr '\\0' '\\n' < $p/environ; done 2>/dev/null; true",
        "env; yes fill | head -c 100000",
        "env > seen.txt & wait",
    ];
    let calls = commands.iter().fold(reply().text("Looking."), |reply, command| {
        reply.call("run_shell_command", json!({"command": command}))
    });
    let calls = calls
        .call("read_file", json!({"file_path": ".env"}))
        .call("read_file", json!({"file_path": "../home/.gemini/settings.json"}))
        .call("grep_search", json!({"pattern": "0030|CANA", "no_ignore": true}))
        .call("no_such_tool", json!({}));
    for format in ["text", "json", "stream-json"] {
        let scene = Scene::with(home(), [calls.clone(), reply().text("done")]);
        let run = scene.run(&["-o", format, "-p", "look", "--yolo", "--sandbox=false", "--debug"]);
        assert_eq!(run.code, Some(0), "{run:?}");
        let answers = scene.server.request(1).function_responses();
        assert!(answers[0].to_string().contains("PATH="), "{}", answers[0]);
        let parent = answers[3].to_string();
        let closed = ["GEMINI_API_KEY=***", "Permission denied", "Output: (empty)"];
        let is_closed = closed.iter().any(|answer| parent.contains(answer));
        assert!(is_closed, "{parent}");
        let found = leaks(&scene, &run, CANARY);
        assert!(found.is_empty(), "{format}: {found:#?}");
    }
}

#[test]
fn failures_and_listings_show_no_secret() {
    let scene = Scene::with(
        home(),
        [pollux_test_support::Reply::error(
            400,
            "INVALID_ARGUMENT",
            "API key not valid: AIzaSyCANARY0123456789abcdefghijklmnopq",
        )],
    );
    let run = scene.run(&["-p", "x", "--debug"]);
    let found = leaks(&scene, &run, CANARY);
    assert!(found.is_empty(), "{found:#?}");
    for args in [
        &["config", "show", "--origin"][..],
        &["config", "show", "--json"],
        &["config", "get", "mcpServers"],
        &["--list-sessions"],
        &["policy", "list"],
    ] {
        let run = scene.prepare(args).run();
        let found = leaks(&scene, &run, CANARY);
        assert!(found.is_empty(), "{args:?}: {found:#?}");
    }
}

#[test]
fn a_secret_in_a_call_stays_in_its_arguments() {
    let command = "true curl -H 'Authorization: Bearer CANARY-call-0040' --password CANARY-0041 token=CANARY-0042 \
                   https://me:CANARY-0043@localhost AIzaSyCANARY0044abcdefghijklmnopqrstuv";
    let calls = reply()
        .call("run_shell_command", json!({"command": command}))
        .call("replace", json!({"file_path": "a.txt", "instruction": "i", "old_string": "password=CANARY45", "new_string": "x"}));
    let scene = Scene::with(home().file("a.txt", "x"), [calls, reply().text("done")]);
    let run = scene.run(&["-p", "x", "--yolo", "--sandbox=false", "--debug"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(!run.stdout.contains(CANARY) && !run.stderr.contains(CANARY), "{run:?}");
    let telemetry = fs::read_to_string(scene.home.home().join("telemetry.log")).unwrap();
    assert!(telemetry.contains("curl") && !telemetry.contains(CANARY), "{telemetry}");
    let call = scene.session()["messages"][1]["toolCalls"][0].clone();
    assert_eq!(call["args"]["command"], Value::from(command), "a resumed session needs it");
    let described = call["description"].as_str().unwrap();
    assert!(described.contains("curl") && !described.contains(CANARY), "{described}");
}
