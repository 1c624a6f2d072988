//! Which tools a run without a person may use.

use pollux_test_support::{TestHome, reply};
use serde_json::{Value, json};

use crate::scene::Scene;

const READ_ONLY: &[&str] = &["read_file", "glob", "grep_search", "list_directory"];
const EDITS: &[&str] = &["write_file", "replace"];
const SHELL: &str = "run_shell_command";

/// The declared tools with these settings and flags.
fn declared(settings: Value, args: &[&str]) -> Vec<String> {
    let scene = Scene::with(TestHome::new().settings(settings), [reply().text("ok")]);
    let args: Vec<&str> = ["-p", "x"].into_iter().chain(args.iter().copied()).collect();
    let run = scene.run(&args);
    assert_eq!(run.code, Some(0), "{args:?}: {}", run.stderr);
    scene.server.request(0).tool_names()
}

fn assert_declared(names: &[String], yes: &[&[&str]], no: &[&[&str]]) {
    for name in yes.iter().copied().flatten() {
        assert!(names.iter().any(|known| known == name), "{name} is missing in {names:?}");
    }
    for name in no.iter().copied().flatten() {
        assert!(names.iter().all(|known| known != name), "{name} should not be in {names:?}");
    }
}

#[test]
fn each_mode_declares_what_it_may_run() {
    let none = || json!({});
    assert_declared(&declared(none(), &[]), &[READ_ONLY], &[EDITS, &[SHELL]]);
    assert_declared(&declared(none(), &["--approval-mode", "default"]), &[READ_ONLY], &[EDITS, &[SHELL]]);
    assert_declared(&declared(none(), &["--approval-mode", "auto_edit"]), &[READ_ONLY, EDITS], &[&[SHELL]]);
    assert_declared(&declared(none(), &["--approval-mode=yolo"]), &[READ_ONLY, EDITS, &[SHELL]], &[]);
    assert_declared(&declared(none(), &["-y"]), &[READ_ONLY, EDITS, &[SHELL]], &[]);
    assert_declared(&declared(none(), &["--approval-mode", "plan"]), &[READ_ONLY], &[&[SHELL]]);
    assert!(!declared(none(), &["-y"]).iter().any(|name| name == "ask_user"));
}

#[test]
fn the_mode_may_come_from_settings_but_not_yolo() {
    let edit = json!({"general": {"defaultApprovalMode": "auto_edit"}});
    assert_declared(&declared(edit, &[]), &[EDITS], &[&[SHELL]]);
    let old = json!({"tools": {"approvalMode": "auto_edit"}});
    assert_declared(&declared(old, &[]), &[EDITS], &[&[SHELL]]);
    let yolo = json!({"general": {"defaultApprovalMode": "yolo"}});
    assert_declared(&declared(yolo, &[]), &[READ_ONLY], &[&[SHELL]]);
}

#[test]
fn tools_can_be_excluded_limited_and_allowed() {
    let exclude = json!({"tools": {"exclude": ["run_shell_command", "glob"]}});
    assert_declared(&declared(exclude, &["-y"]), &[EDITS, &["read_file"]], &[&[SHELL, "glob"]]);
    let core = json!({"tools": {"core": ["read_file", "write_file"]}});
    assert_eq!(
        {
            let mut names = declared(core, &["-y"]);
            names.sort();
            names
        },
        ["read_file", "write_file"]
    );
    assert_declared(
        &declared(json!({}), &["--allowed-tools", "write_file"]),
        &[&["write_file"]],
        &[&[SHELL]],
    );
    let allowed = json!({"tools": {"allowed": ["run_shell_command(git status)"]}});
    assert_declared(&declared(allowed, &[]), &[&[SHELL]], &[EDITS]);
}

#[test]
fn an_allowed_command_runs_and_any_other_is_refused() {
    let scene = Scene::new([
        reply()
            .call_with_id("1", SHELL, json!({"command": "echo allowed"}))
            .call_with_id("2", SHELL, json!({"command": "touch forbidden.txt"}))
            .call_with_id("3", SHELL, json!({"command": "echo allowed; touch chained.txt"}))
            .call_with_id("4", SHELL, json!({"command": "echo $(touch nested.txt)"}))
            .call_with_id("5", SHELL, json!({"command": "echo x > redirected.txt"})),
        reply().text("ok"),
    ]);
    let run = scene.run(&["-p", "x", "--allowed-tools", "run_shell_command(echo)"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let answers = scene.server.request(1).function_responses();
    assert!(answers[0]["response"]["output"].as_str().unwrap().contains("allowed"), "{}", answers[0]);
    assert!(answers[1]["response"].get("error").is_some(), "{}", answers[1]);
    assert!(answers[2]["response"].get("error").is_some(), "{}", answers[2]);
    for name in ["forbidden.txt", "chained.txt", "nested.txt"] {
        assert!(!scene.home.project().join(name).exists(), "{name}");
    }
}

#[test]
fn a_tool_that_is_not_declared_is_answered_with_the_reason_and_nothing_happens() {
    let scene = Scene::new([
        reply()
            .call(SHELL, json!({"command": "touch a.txt"}))
            .call("write_file", json!({"file_path": "b.txt", "content": "x"}))
            .call("invented_tool", json!({})),
        reply().text("ok"),
    ]);
    let run = scene.run(&["-p", "x", "-o", "stream-json", "--output-dialect", "gemini-cli"]);
    assert_eq!(run.code, Some(0));
    let told = [
        "Tool \"run_shell_command\" not found among the allowed tools: it requires approval, which a headless run cannot ask for. To allow it, use \
         --approval-mode yolo, --allowed-tools run_shell_command or a policy rule.",
        "Tool \"write_file\" not found among the allowed tools: it requires approval, which a headless run cannot ask for. To allow it, use \
         --approval-mode auto_edit, --allowed-tools write_file or a policy rule.",
        "Tool \"invented_tool\" not found. Did you mean one of: ",
    ];
    let answers = scene.server.request(1).function_responses();
    for (told, answer) in told.iter().zip(answers) {
        assert!(run.stderr.contains(told), "{told}: {}", run.stderr);
        assert!(answer["response"]["error"].as_str().unwrap().starts_with(told), "{answer}");
    }
    let events = crate::scene::lines(&run.stdout);
    let results = crate::scene::of_type(&events, "tool_result");
    assert_eq!(results.len(), 3);
    assert!(results.iter().all(|result| result["error"]["type"] == "tool_not_registered"), "{results:#?}");
    assert!(!scene.home.project().join("a.txt").exists() && !scene.home.project().join("b.txt").exists());
}

#[test]
fn no_advice_names_a_mode_that_is_off_or_a_rule_that_would_not_help() {
    let call = || [reply().call(SHELL, json!({"command": "touch a.txt"})), reply().text("ok")];
    let secure = json!({"security": {"disableYoloMode": true}});
    let run = Scene::with(TestHome::new().settings(secure), call()).run(&["-p", "x"]);
    let told = "To allow it, use --allowed-tools run_shell_command or a policy rule.";
    assert!(run.stderr.contains(told), "{}", run.stderr);
    // A file with an error in it may deny it.
    let home = TestHome::new().home_file(".gemini/policies/broken.toml", "[[rule]\ndecision = \"deny\"\n");
    let run = Scene::with(home, call()).run(&["-p", "x", "--allowed-tools", "run_shell_command"]);
    assert!(run.stderr.contains("broken.toml:1` could not be read and may deny this"), "{}", run.stderr);
    assert!(!run.stderr.contains("To allow it"), "{}", run.stderr);
}

#[test]
fn a_denied_call_is_named_with_the_reason_and_what_would_allow_it() {
    let command = "touch 'a\u{1b}[31m'\\\n.txt";
    let told = [
        (
            &["--allowed-tools", "run_shell_command(echo)"][..],
            "denied by rule `deny run_shell_command`",
            "To allow it, change --allowed-tools.",
        ),
        (&["--yolo", "--policy", "no.toml"], "no.toml:1). ", "To allow it, change this rule."),
    ];
    for (flags, reason, advice) in told {
        for format in ["text", "json", "stream-json"] {
            let rule = "[[rule]]\ntoolName = \"run_shell_command\"\ndecision = \"deny\"\npriority = 100\n";
            let home = TestHome::new().file("no.toml", &format!("{rule}commandPrefix = \"touch\"\n"));
            let scene =
                Scene::with(home, [reply().call(SHELL, json!({"command": command})), reply().text("ok")]);
            let run = scene.run(&[&["-p", "x", "-o", format], flags].concat());
            let told = match format {
                "text" => run.stderr.clone(),
                "json" => crate::scene::parse(&run.stdout)["error"]["message"].as_str().unwrap().to_owned(),
                _ => {
                    let events = crate::scene::lines(&run.stdout);
                    let results = crate::scene::of_type(&events, "TOOL_RESULT");
                    results[0]["error"].as_str().unwrap().to_owned()
                }
            };
            for part in ["Call: `touch 'a", reason, advice] {
                assert!(told.contains(part), "{format} {part}: {told}");
                assert!(run.stderr.contains(part), "{format} {part}: {}", run.stderr);
            }
            assert!(!told.contains('\u{1b}'), "{told:?}");
            let line = run.stderr.lines().find(|line| line.contains("Call: ")).unwrap();
            assert!(
                line.contains("Error executing tool run_shell_command: ") && line.contains(advice),
                "{line}"
            );
        }
    }
}

#[test]
fn plan_mode_changes_nothing() {
    let scene = Scene::new([
        reply()
            .call("write_file", json!({"file_path": "a.txt", "content": "x"}))
            .call(
                "replace",
                json!({"file_path": "b.txt", "instruction": "i", "old_string": "old", "new_string": "new"}),
            )
            .call(SHELL, json!({"command": "touch c.txt"})),
        reply().text("A plan."),
    ]);
    std::fs::write(scene.home.project().join("b.txt"), "old").unwrap();
    let run = scene.run(&["-p", "x", "--approval-mode", "plan"]);
    assert_eq!((run.stdout.as_str(), run.code), ("A plan.\n", Some(0)), "{}", run.stderr);
    assert!(!scene.home.project().join("a.txt").exists() && !scene.home.project().join("c.txt").exists());
    assert_eq!(scene.home.read("b.txt"), "old");
}

#[test]
fn edits_by_auto_edit_reach_the_disk() {
    let scene = Scene::with(
        TestHome::new().file("b.txt", "one\r\ntwo\r\n"),
        [
            reply().call("write_file", json!({"file_path": "deep/a.txt", "content": "x\n"})).call(
                "replace",
                json!({"file_path": "b.txt", "instruction": "i", "old_string": "two", "new_string": "three"}),
            ),
            reply().text("ok"),
        ],
    );
    let run = scene.run(&["-p", "x", "--approval-mode", "auto_edit"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(scene.home.read("deep/a.txt"), "x\n");
    assert_eq!(scene.home.read("b.txt"), "one\r\nthree\r\n", "line ends are kept");
}

#[test]
fn commands_do_not_see_the_key_but_know_who_started_them() {
    let scene = Scene::new([reply().call(SHELL, json!({"command": "env"})), reply().text("ok")]);
    let run = scene
        .prompt(&["-p", "x", "--yolo"])
        .env("GEMINI_API_KEY", "canary-key-123456")
        .env("GOOGLE_API_KEY", "canary-google-key")
        .env("MY_SECRET_TOKEN", "canary-token")
        .env("PLAIN_VALUE", "visible")
        .run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let answer = scene.server.request(1).function_responses()[0].to_string();
    assert!(answer.contains("GEMINI_CLI=1") && answer.contains("PATH="), "{answer}");
    assert!(!answer.contains("canary-key-123456") && !answer.contains("canary-google-key"), "{answer}");
}

#[test]
fn tools_that_a_command_of_the_users_lists_can_be_called() {
    let declared = json!([{"function_declarations": [{"name": "greet", "description": "greets",
        "parametersJsonSchema": {"type": "object", "properties": {"who": {"type": "string"}}}}]}]);
    let home = TestHome::new()
        .file("list.json", &declared.to_string())
        .settings(json!({"tools": {"discoveryCommand": "cat list.json", "callCommand": "sh call.sh"}}))
        .file("call.sh", "echo \"$1 says: $(cat)\"");
    let scene = Scene::with(
        home,
        [reply().call("discovered_tool_greet", json!({"who": "you"})), reply().text("done")],
    );
    let run = scene.run(&["-p", "x", "--yolo", "--sandbox=false"]);
    assert_eq!((run.stdout.as_str(), run.code), ("done\n", Some(0)), "{}", run.stderr);
    assert!(scene.server.request(0).tool_names().contains(&"discovered_tool_greet".to_owned()));
    let answer = scene.server.request(1).body.to_string();
    assert!(answer.contains("greet says: "), "{answer}");
}

#[test]
fn a_discovery_command_that_fails_ends_the_start_with_its_reason() {
    let home =
        TestHome::new().settings(json!({"tools": {"discoveryCommand": "sh -c 'echo broken >&2; exit 3'"}}));
    let scene = Scene::with(home, []);
    let run = scene.run(&["-p", "x"]);
    assert_eq!(run.code, Some(52), "{}", run.stderr);
    assert!(run.stderr.contains("Tool discovery command failed with exit code 3: broken"), "{}", run.stderr);
    assert!(run.stderr.contains("tools.discoveryCommand"), "{}", run.stderr);
}
