//! External safety checkers: programs that look at a call before it runs.

use std::fs;

use pollux_test_support::{TestHome, executable, reply};
use serde_json::{Value, json};

use crate::policy::{explain, policy};
use crate::scene::{Scene, lines, of_type, parse};

/// A checker before every call of glob.
const RULES: &str = "[[safety_checker]]\ntoolName = \"glob\"\npriority = 100\n\
                     checker = { type = \"external\", name = \"look\", config = { timeout = 20000 } }\n";

const FILE: &str = ".gemini/policies/checker.toml";

/// A scene in which the user installed this script.
fn scene(
    home: TestHome,
    script: &str,
    replies: impl IntoIterator<Item = pollux_test_support::Reply>,
) -> Scene {
    executable(home.gemini_dir().join("checkers/look"), script);
    Scene::with(home, replies)
}

fn glob(scene: &Scene, flags: &[&str]) -> Value {
    explain(scene, "glob", json!({"pattern": "*.rs"}), flags)
}

#[test]
fn a_checker_reads_the_call_and_nothing_secret() {
    let script = "#!/bin/sh\ncat > seen.json\nenv > seen.env\necho '{\"decision\": \"allow\"}'\n";
    let scene = scene(TestHome::new().home_file(FILE, RULES).env("MY_SECRET_TOKEN", "hush"), script, []);
    let outcome = glob(&scene, &["--headless"]);
    assert_eq!(outcome["decision"], "allow", "{outcome}");
    let project = scene.home.project();
    let seen = parse(&fs::read_to_string(project.join("seen.json")).unwrap());
    let root = project.canonicalize().unwrap().display().to_string();
    let expected = json!({
        "protocolVersion": "1.0.0",
        "toolCall": {"name": "glob", "args": {"pattern": "*.rs"}},
        "context": {"environment": {"cwd": root, "workspaces": [root]}, "history": {"turns": []}},
        "config": {"timeout": 20000},
    });
    assert_eq!(seen, expected);
    let env = fs::read_to_string(project.join("seen.env")).unwrap();
    assert!(!env.contains("hush") && !env.contains("GEMINI_API_KEY"), "{env}");
}

#[test]
fn only_a_clean_answer_lets_a_call_through() {
    let table = [
        ("echo '{\"decision\": \"deny\", \"reason\": \"no stars\"}'", "deny", "no stars"),
        ("echo '{\"decision\": \"ask_user\", \"reason\": \"sure?\"}'", "ask", "sure?"),
        ("echo '{\"decision\": \"allow\"}'; exit 3", "deny", "exited with code 3"),
        ("echo 'Traceback' >&2; exit 1", "deny", "exited with code 1 (Traceback)"),
        ("echo 'fine by me'", "deny", "invalid response from the safety checker"),
        ("true", "deny", "invalid response from the safety checker"),
        ("echo '{\"decision\": \"perhaps\"}'", "deny", "unknown decision \"perhaps\""),
        ("kill -9 $$", "deny", "signal 9"),
        ("head -c 100000 /dev/zero", "deny", "printed more than 65536 bytes"),
        ("printf '\\377'", "deny", "not UTF-8"),
    ];
    for (script, decision, why) in table {
        let scene = scene(TestHome::new().home_file(FILE, RULES), &format!("#!/bin/sh\n{script}\n"), []);
        let outcome = glob(&scene, &[]);
        assert_eq!(outcome["decision"], decision, "{script}: {outcome}");
        assert!(outcome["reason"].as_str().unwrap().contains(why), "{script}: {outcome}");
        assert_eq!((&outcome["rule"], &outcome["source"]["line"]), (&json!("checker look"), &json!(1)));
        let headless = glob(&scene, &["--headless"]);
        assert_eq!(headless["decision"], "deny", "{script}: {headless}");
    }
}

#[test]
fn a_checker_that_takes_too_long_is_ended_with_all_it_started() {
    let rules = RULES.replace("20000", "300");
    let script = "#!/bin/sh\nsleep 1000 &\necho $! > pid\nwait\n";
    let scene = scene(TestHome::new().home_file(FILE, &rules), script, []);
    let outcome = glob(&scene, &[]);
    assert_eq!(outcome["decision"], "deny");
    assert!(outcome["reason"].as_str().unwrap().contains("did not answer within 300 ms"), "{outcome}");
    let pid = fs::read_to_string(scene.home.project().join("pid")).unwrap();
    let state = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z") || state.contains(") X"), "{state}");
}

#[test]
fn a_checker_that_is_not_installed_denies() {
    let scene = Scene::with(TestHome::new().home_file(FILE, RULES), []);
    let outcome = glob(&scene, &["--approval-mode", "yolo"]);
    assert_eq!(outcome["decision"], "deny");
    assert!(outcome["reason"].as_str().unwrap().contains("checkers/look"), "{outcome}");
    fs::create_dir_all(scene.home.gemini_dir().join("checkers")).unwrap();
    fs::write(scene.home.gemini_dir().join("checkers/look"), "#!/bin/sh\necho '{\"decision\":\"allow\"}'\n")
        .unwrap();
    assert_eq!(glob(&scene, &[])["decision"], "deny", "the file is not executable");
}

#[test]
fn only_files_of_the_user_may_say_what_is_run() {
    let rules = "[[safety_checker]]\ntoolName = \"write_file\"\nchecker = { type = \"external\", name = \"x\", \
                 config = { command = [\"/bin/sh\", \"-c\", \"touch ran; echo '{\\\"decision\\\":\\\"allow\\\"}'\"] } }\n";
    let write = |scene: &Scene, flags: &[&str]| {
        explain(scene, "write_file", json!({"file_path": "a", "content": ""}), flags)
    };
    let mode = ["--approval-mode", "auto_edit"];
    let own = Scene::with(TestHome::new().home_file(FILE, rules), []);
    assert_eq!(write(&own, &mode)["decision"], "allow");
    assert!(own.home.project().join("ran").exists());
    let foreign = Scene::with(TestHome::new().file(".gemini/policies/x.toml", rules), []);
    let outcome = write(&foreign, &mode);
    assert_eq!(outcome["decision"], "ask", "{outcome}");
    assert!(!foreign.home.project().join("ran").exists());
    let lint = policy(&foreign, &["lint"]);
    assert_eq!(lint.code, Some(1));
    assert!(lint.stdout.contains("x.toml:3") && lint.stdout.contains("installed"), "{}", lint.stdout);
    for name in ["../x", ".x", "a/b", ""] {
        let rules = RULES.replace("look", name);
        let scene = Scene::with(TestHome::new().file("p.toml", &rules), []);
        assert_eq!(policy(&scene, &["lint", "p.toml"]).code, Some(1), "{name}");
    }
}

#[test]
fn conseca_is_not_there_and_says_so_when_it_is_switched_on() {
    let scene = Scene::new([]);
    assert_eq!(glob(&scene, &[])["decision"], "allow");
    let settings = json!({"security": {"enableConseca": true}});
    let scene = Scene::with(TestHome::new().settings(settings), []);
    let outcome = glob(&scene, &["--approval-mode", "yolo"]);
    assert_eq!(outcome["decision"], "deny");
    assert!(outcome["reason"].as_str().unwrap().contains("this version does not include"), "{outcome}");
}

#[test]
fn a_run_asks_the_checker_and_goes_on_after_its_refusal() {
    let script = "#!/bin/sh\ncase \"$(cat)\" in\n*secret*) echo '{\"decision\":\"deny\",\"reason\":\"no secrets\"}' ;;\n\
                  *) echo '{\"decision\":\"allow\"}' ;;\nesac\n";
    let replies = [
        reply().call_with_id("1", "glob", json!({"pattern": "*.txt"})).call_with_id(
            "2",
            "glob",
            json!({"pattern": "secret*"}),
        ),
        reply().text("done"),
    ];
    // Without the conversation, in which both calls stand.
    let rules = RULES.replace("name = \"look\"", "name = \"look\", required_context = [\"environment\"]");
    let scene = scene(TestHome::new().home_file(FILE, &rules).file("a.txt", "x"), script, replies);
    let run = scene.run(&["-p", "x", "-o", "stream-json", "--output-dialect", "gemini-cli"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let answers = scene.server.request(1).function_responses();
    assert!(answers[0]["response"]["output"].as_str().unwrap().contains("a.txt"), "{}", answers[0]);
    assert_eq!(answers[1]["response"]["error"], "Tool execution denied by policy. no secrets");
    let events = lines(&run.stdout);
    let kinds: Vec<&Value> =
        of_type(&events, "tool_result").into_iter().map(|result| &result["error"]["type"]).collect();
    assert!(kinds.contains(&&json!("policy_violation")), "{kinds:?}");
}

#[test]
fn a_headless_run_says_why_a_checker_denied_and_gives_no_advice_that_would_not_help() {
    let script = "#!/bin/sh\necho '{\"decision\": \"deny\", \"reason\": \"no stars\"}'\n";
    let replies = [reply().call("glob", json!({"pattern": "*.rs"})), reply().text("ok")];
    let scene = scene(TestHome::new().home_file(FILE, RULES), script, replies);
    let run = scene.run(&["-p", "x", "--yolo"]);
    let line = run.stderr.lines().find(|line| line.contains("Call: `*.rs`.")).unwrap_or(&run.stderr);
    assert!(line.contains("no stars") && line.contains("Reason: "), "{line}");
    assert!(!line.contains("To allow it"), "{line}");
}
