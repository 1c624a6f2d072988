//! `pollux hooks` from the command line.

use std::fs;

use pollux_test_support::{Run, TestHome};
use serde_json::{Value, json};

use crate::scene::{Scene, parse, read_json};

fn hooks(scene: &Scene, args: &[&str]) -> Run {
    let args: Vec<&str> = ["hooks"].into_iter().chain(args.iter().copied()).collect();
    // Hooks need neither a key nor a server.
    scene.prepare(&args).without_env("GEMINI_API_KEY").without_env("GOOGLE_GEMINI_BASE_URL").run()
}

fn guard(command: &str) -> Value {
    json!({"hooks": {"BeforeTool": [{"matcher": "glob", "hooks": [
        {"type": "command", "name": "guard", "command": command, "description": "looks"}]}]}})
}

#[test]
fn the_list_shows_every_hook_and_every_mistake() {
    let home = TestHome::new()
        .settings(json!({"hooks": {"SessionEnd": [{"command": "date"}], "BeforTool": [{"command": "x"}]},
            "hooksConfig": {"disabled": ["guard"]}}))
        .project_settings(guard("./g.sh \u{1b}[31m"));
    let scene = Scene::with(home, []);
    let run = hooks(&scene, &["list"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(
        run.stdout
            .starts_with("BeforeTool\n  guard [disabled]\n    looks\n    Source: project | Command: ./g.sh ")
    );
    assert!(
        run.stdout
            .contains("SessionEnd\n  date [enabled]\n    Source: user | Command: date | Timeout: 60000 ms\n")
    );
    assert!(!run.stdout.contains('\u{1b}'));
    assert!(
        run.stderr.contains("`hooks.BeforTool`: Invalid hook event name: \"BeforTool\" from user config.")
    );
    assert!(run.stderr.contains("Did you mean `BeforeTool`?"), "{}", run.stderr);
    let object = parse(&hooks(&scene, &["list", "--json"]).stdout);
    assert_eq!(object["hooks"][0]["key"], "hooks.BeforeTool[0].hooks[0]");
    assert_eq!((&object["hooks"][1]["enabled"], &object["enabled"]), (&json!(true), &json!(true)));
    assert_eq!(object["problems"].as_array().unwrap().len(), 1);
    let none = Scene::with(TestHome::new(), []);
    assert_eq!(hooks(&none, &["list"]).stdout, "No hooks configured.\n");
}

#[test]
fn hooks_of_an_untrusted_folder_neither_show_nor_run() {
    let home = TestHome::new().project_settings(guard("touch ran"));
    let scene = Scene::untrusted(home, []);
    let run = hooks(&scene, &["list"]);
    assert_eq!(run.stdout, "No hooks configured.\n");
    assert!(run.stderr.contains("do not run: this folder is not trusted"), "{}", run.stderr);
    let tried = hooks(&scene, &["run", "BeforeTool"]);
    assert_eq!(tried.stdout, "BeforeTool: no hook is configured for this event\n");
    assert!(!scene.home.project().join("ran").exists());
}

#[test]
fn a_hook_is_switched_in_the_users_own_settings() {
    let home = TestHome::new()
        .home_file(".gemini/settings.json", "{\n  // mine\n  \"hooks\": {\"disabled\": [\"old\"]}\n}\n")
        .project_settings(guard("true"));
    let scene = Scene::with(home, []);
    let file = scene.home.gemini_dir().join("settings.json");
    let run = hooks(&scene, &["disable", "guard"]);
    let expected = format!(
        "Hook \"guard\" disabled by adding it to the disabled list in user ({}) settings.\n",
        file.display()
    );
    assert_eq!((run.stdout, run.code), (expected, Some(0)), "{}", run.stderr);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("// mine") && text.contains("\"old\"") && text.contains("\"guard\""), "{text}");
    assert_eq!(hooks(&scene, &["disable", "guard"]).stdout, "Hook \"guard\" is already disabled.\n");
    assert!(hooks(&scene, &["enable", "guard"]).stdout.contains("enabled by removing it from"));
    assert_eq!(hooks(&scene, &["enable", "guard"]).stdout, "Hook \"guard\" is already enabled.\n");
    let unknown = hooks(&scene, &["disable", "gaurd"]);
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.stderr.contains("did you mean \"guard\"?"), "{}", unknown.stderr);
}

#[test]
fn a_project_switches_off_its_own_hooks_and_nobody_elses() {
    let mine = json!({"hooks": {"SessionEnd": [{"name": "mine", "command": "true"}]}});
    let scene = Scene::with(TestHome::new().settings(mine).project_settings(guard("true")), []);
    let off = hooks(&scene, &["disable", "guard", "--scope", "project"]);
    assert_eq!(off.code, Some(0), "{}", off.stderr);
    assert!(off.stdout.contains("disabled list in workspace ("), "{}", off.stdout);
    assert_eq!(
        read_json(&scene.home.project().join(".gemini/settings.json"))["hooksConfig"]["disabled"],
        json!(["guard"])
    );
    let enabled =
        |scene: &Scene| parse(&hooks(scene, &["list", "--json"]).stdout)["hooks"][0]["enabled"].clone();
    assert_eq!(enabled(&scene), json!(false));
    let wrong = hooks(&scene, &["enable", "guard"]);
    assert!(
        wrong.stderr.contains("the project disables the hook") && wrong.stderr.contains("--scope project"),
        "{}",
        wrong.stderr
    );
    assert_eq!(hooks(&scene, &["enable", "guard", "--scope", "project"]).code, Some(0));
    assert_eq!(enabled(&scene), json!(true));
    let theirs = hooks(&scene, &["disable", "mine", "--scope", "project"]);
    assert_eq!(theirs.code, Some(1));
    assert!(theirs.stderr.contains("no hook of the project is named \"mine\""), "{}", theirs.stderr);
    assert_eq!(hooks(&scene, &["disable", "mine", "--scope", "nowhere"]).code, Some(1));
}

#[test]
fn what_the_system_switches_off_stays_off_and_that_is_said() {
    let home = TestHome::new()
        .settings(guard("true"))
        .home_file("system.json", r#"{"hooksConfig": {"disabled": ["guard"]}}"#);
    let system = home.home().join("system.json");
    let scene = Scene::with(home.env("GEMINI_CLI_SYSTEM_SETTINGS_PATH", system.to_str().unwrap()), []);
    let run = hooks(&scene, &["enable", "guard"]);
    assert_eq!(run.code, Some(1));
    assert!(
        run.stderr.contains("is still disabled by") && run.stderr.contains("system.json"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_trial_runs_for_real_and_tells_everything() {
    let home = TestHome::new().settings(guard("cat > seen.json; echo loud; echo no >&2; exit 2"));
    let scene = Scene::with(home, []);
    fs::write(
        scene.home.project().join("in.json"),
        r#"{"tool_name": "glob", "tool_input": {"pattern": "*"}}"#,
    )
    .unwrap();
    let run = hooks(&scene, &["run", "BeforeTool", "--input", "in.json", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let trial = parse(&run.stdout);
    assert_eq!((&trial["runs"][0]["exitCode"], &trial["runs"][0]["stderr"]), (&json!(2), &json!("no")));
    assert_eq!(
        (&trial["outcome"]["verdict"], &trial["outcome"]["reason"]),
        (&json!("block"), &json!("loud"))
    );
    let seen = read_json(&scene.home.project().join("seen.json"));
    assert_eq!(
        (&seen["hook_event_name"], &seen["tool_input"]),
        (&json!("BeforeTool"), &json!({"pattern": "*"}))
    );
    // The sample is about another tool.
    let other = hooks(&scene, &["test", "PreToolUse"]);
    assert_eq!(other.stdout, "BeforeTool: no hook matches `run_shell_command`: guard is for glob\n");
}

#[test]
fn an_input_or_event_that_makes_no_sense_is_refused() {
    let scene = Scene::with(TestHome::new().file("list.json", "[]"), []);
    for (args, said) in [
        (&["run", "BeforTool"][..], "did you mean `BeforeTool`?"),
        (&["run", "zzzzzzzzzzzzzz"], "use one of: SessionStart, SessionEnd,"),
        (&["run", "BeforeTool", "--input", "gone.json"], "could not read the input from `gone.json`"),
        (&["run", "BeforeTool", "--input", "list.json"], "not a JSON object"),
        (&["run"], "missing argument `<event>`"),
        (&[], "`hooks` needs a subcommand"),
    ] {
        let run = hooks(&scene, args);
        assert!(run.code != Some(0) && run.stderr.contains(said), "{args:?}: {}", run.stderr);
    }
    let piped = scene.prepare(&["hook", "run", "BeforeAgent", "--input", "-"]).stdin("{\"prompt\": 1").run();
    assert!(piped.stderr.contains("could not read the input from `stdin`"), "{}", piped.stderr);
}

#[test]
fn a_hook_sees_no_key_and_none_is_shown() {
    let home = TestHome::new().settings(guard("env; echo AIzaSyA0123456789012345678901234567890123"));
    let scene = Scene::with(home, []);
    fs::write(scene.home.project().join("in.json"), r#"{"tool_name": "glob"}"#).unwrap();
    let run = scene
        .prepare(&["hooks", "run", "BeforeTool", "--input", "in.json"])
        .env("GEMINI_API_KEY", "canary-key")
        .env("MY_TOKEN", "canary-token")
        .run();
    assert!(run.stdout.contains("GEMINI_SESSION_ID=sample"), "{}", run.stdout);
    assert!(!run.stdout.contains("canary") && !run.stdout.contains("AIzaSyA0123"), "{}", run.stdout);
}

#[test]
fn claude_codes_hooks_are_taken_over_beside_those_that_are_there() {
    let theirs = json!({"hooks": {
        "PreToolUse": [{"matcher": "Bash|Write", "hooks": [
            {"type": "command", "command": "$CLAUDE_PROJECT_DIR/a.sh", "timeout": 10}]}],
        "Stop": [{"hooks": [{"type": "command", "command": "b"}]}],
        "SubAgentStop": [{"hooks": [{"type": "command", "command": "c"}]}],
        "Elsewhere": [],
    }});
    let home = TestHome::new()
        .file(
            ".gemini/settings.json",
            "{\n  // ours\n  \"hooks\": {\"BeforeTool\": [{\"command\": \"own\"}]}\n}\n",
        )
        .file(".claude/settings.json", &format!("// theirs\n{theirs}"));
    let scene = Scene::with(home, []);
    let run = hooks(&scene, &["migrate", "--from-claude"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("Migrating 2 hook event(s)..."), "{}", run.stdout);
    assert!(run.stdout.contains("skipped `Elsewhere`: no matching hook event"), "{}", run.stdout);
    let once = scene.home.read(".gemini/settings.json");
    assert!(once.contains("// ours"));
    hooks(&scene, &["migrate"]);
    assert_eq!(scene.home.read(".gemini/settings.json"), once);
    let listed = parse(&hooks(&scene, &["list", "--json", "--skip-trust"]).stdout);
    let rows: Vec<(&str, &str, u64)> = listed["hooks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            (
                row["event"].as_str().unwrap(),
                row["command"].as_str().unwrap(),
                row["timeout"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("BeforeTool", "own", 60000),
            ("BeforeTool", "$GEMINI_PROJECT_DIR/a.sh", 10000),
            ("AfterAgent", "b", 60000),
            ("AfterAgent", "c", 60000),
        ]
    );
    assert_eq!(listed["hooks"][1]["matcher"], "run_shell_command|write_file");
}

#[test]
fn without_claude_codes_settings_there_is_nothing_to_migrate() {
    let scene = Scene::with(TestHome::new(), []);
    let run = hooks(&scene, &["migrate"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("No Claude Code settings found in .claude directory."), "{}", run.stderr);
    let scene = Scene::with(TestHome::new().file(".claude/settings.json", "{ nonsense"), []);
    let run = hooks(&scene, &["migrate"]);
    assert!(run.code == Some(52) && run.stderr.contains("Error reading "), "{}", run.stderr);
    assert!(!scene.home.project().join(".gemini/settings.json").exists());
}
