use std::fs;

use super::*;

const DENY: &str = "[[rule]]\ntoolName = \"glob\"\ndecision = \"deny\"\npriority = 1\n";
const ALLOW: &str = "[[rule]]\ntoolName = \"web_fetch\"\ndecision = \"allow\"\npriority = 1\n";

#[expect(clippy::disallowed_methods, reason = "a fixture needs no atomic write")]
fn put(file: &Path, content: impl AsRef<[u8]>) {
    fs::write(file, content).unwrap();
}

fn labels(engine: &Engine, tier: Tier) -> Vec<String> {
    engine.rules.iter().filter(|rule| rule.tier == tier).map(|rule| rule.source.label.clone()).collect()
}

#[test]
fn directories_are_read_in_order_and_a_broken_file_does_not_hide_others() {
    let dir = tempfile::tempdir().unwrap();
    put(&dir.path().join("b.toml"), ALLOW);
    put(&dir.path().join("a.toml"), DENY);
    put(&dir.path().join("c.toml"), "[[rule");
    put(&dir.path().join("d.txt"), DENY);
    put(&dir.path().join("e.toml"), [0xff, 0xfe]);
    let engine =
        load(&Sources { user: vec![dir.path().to_owned()], ..Sources::default() }, Options::default());
    assert_eq!(labels(&engine, Tier::User), ["deny glob", "allow web_fetch"]);
    let messages: Vec<&str> = engine.problems().iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(messages, ["TOML parsing failed", "Failed to read policy path"]);
    assert_eq!(engine.problems()[0].line, Some(1));
    assert_eq!(engine.unreadable.len(), 1);
}

#[test]
fn missing_paths_have_no_rules() {
    let sources = Sources {
        user: vec![PathBuf::from("/does/not/exist")],
        workspace: Some(PathBuf::from("/nor/this")),
        system: Some(PathBuf::from("/nor/that")),
        ..Sources::default()
    };
    assert_eq!(load(&sources, Options::default()).problems(), &[]);
}

#[test]
fn extensions_can_only_deny_and_ask() {
    let dir = tempfile::tempdir().unwrap();
    let yolo = DENY.to_owned() + "modes = [\"yolo\"]\n";
    put(&dir.path().join("a.toml"), format!("{ALLOW}{DENY}{yolo}"));
    let engine =
        load(&Sources { extension: vec![dir.path().to_owned()], ..Sources::default() }, Options::default());
    assert_eq!(labels(&engine, Tier::Extension), ["deny glob"]);
    assert_eq!(engine.problems().len(), 2);
}

#[test]
fn admin_files_are_read_only_without_system_policies_of_the_administrator() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("admin.toml");
    put(&file, DENY);
    let engine = load(&Sources { admin: vec![file.clone()], ..Sources::default() }, Options::default());
    assert_eq!(labels(&engine, Tier::Admin), ["deny glob"]);
    // A plain file is never a system directory.
    let sources = Sources { system: Some(file.clone()), admin: vec![file], ..Sources::default() };
    let engine = load(&sources, Options::default());
    assert!(engine.problems()[0].message.starts_with("Security Warning: Skipping system policies from "));
    assert_eq!(labels(&engine, Tier::Admin), ["deny glob"]);
}

#[cfg(unix)]
#[test]
fn a_directory_writable_by_others_is_not_trusted_as_the_administrators() {
    use std::os::unix::fs::PermissionsExt;

    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(owned_by_administrator(dir.path()).is_err());
}

#[test]
fn integrity_changes_with_names_and_contents() {
    let dir = tempfile::tempdir().unwrap();
    let empty = integrity(dir.path()).unwrap();
    put(&dir.path().join("a.toml"), DENY);
    let one = integrity(dir.path()).unwrap();
    put(&dir.path().join("a.toml"), ALLOW);
    let other = integrity(dir.path()).unwrap();
    fs::rename(dir.path().join("a.toml"), dir.path().join("b.toml")).unwrap();
    let renamed = integrity(dir.path()).unwrap();
    let mut all = vec![empty, one, other, renamed];
    all.dedup();
    assert_eq!(all.len(), 4);
}

/// The rules of gemini-cli 0.61: `a`llow, `q`uestion or `d`eny in default, auto_edit, yolo and plan mode, each
/// with and without a terminal.
fn in_gemini_cli(tool: &str) -> &'static str {
    match tool {
        "invoke_agent" => "aaaaaadd",
        "replace" | "write_file" => "qdaaaadd",
        "run_shell_command" => "qdqdaadd",
        "activate_skill" => "qaqaaaqd",
        "web_fetch" => "qdaaaaqd",
        "ask_user" => "qdqdqdqd",
        "enter_plan_mode" => "qaqadadd",
        "exit_plan_mode" => "dddddaqa",
        "cli_help"
        | "codebase_investigator"
        | "complete_task"
        | "get_internal_docs"
        | "glob"
        | "google_web_search"
        | "grep_search"
        | "list_directory"
        | "list_mcp_resources"
        | "read_file"
        | "read_mcp_resource"
        | "update_topic" => "aaaaaaaa",
        tracker if tracker.starts_with("tracker_") => "aaaaaaaa",
        // No rule matches the others.
        _ => "qdqdaadd",
    }
}

/// Tools without a rule there that only read or only talk to the agent.
const MILDER_HERE: &[&str] = &[
    "list_background_processes",
    "memory_get",
    "memory_search",
    "read_background_output",
    "read_many_files",
    "write_todos",
];

#[test]
fn every_tool_except_read_only_ones_is_treated_as_in_gemini_cli() {
    use pollux_domain::approval::ApprovalMode::{AutoEdit, Default as Ordinary, Plan, Yolo};

    let engine = load(&Sources::default(), Options { workspaces: vec!["/w".into()], ..Options::default() });
    for tool in crate::BUILT_IN.iter().chain(&["discovered_tool_x", "mcp_server_tool"]) {
        let args = serde_json::json!({"command": "make", "file_path": "/w/src/a.rs", "agent_name": "x"});
        let mut outcomes = String::new();
        for (mode, interactive) in
            [Ordinary, AutoEdit, Yolo, Plan].into_iter().flat_map(|mode| [(mode, true), (mode, false)])
        {
            let verdict = engine.decide(&crate::request::Request {
                tool,
                server: None,
                read_only: false,
                annotations: None,
                args: args.as_object().unwrap(),
                effect: &pollux_domain::tool::Effect::None,
                mode,
                interactive,
                subagent: None,
            });
            outcomes.push(match verdict.decision {
                Decision::Allow => 'a',
                Decision::Ask => 'q',
                Decision::Deny => 'd',
            });
        }
        let expected = if MILDER_HERE.contains(tool) { "aaaaaaaa" } else { in_gemini_cli(tool) };
        assert_eq!(outcomes, expected, "{tool}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a fixture needs no atomic write")]
fn a_broken_file_that_denies_reading_fails_closed_for_the_tools_it_names() {
    let dir = tempfile::tempdir().unwrap();
    let decide = |text: &str, tool: &str| {
        let file = dir.path().join("p.toml");
        std::fs::write(&file, text).unwrap();
        let engine = load(&Sources { user: vec![file], ..Sources::default() }, Options::default());
        let args = pollux_domain::JsonObject::new();
        let request = crate::request::Request {
            tool,
            server: None,
            read_only: true,
            annotations: None,
            args: &args,
            effect: &pollux_domain::tool::Effect::None,
            mode: pollux_domain::approval::ApprovalMode::Default,
            interactive: true,
            subagent: None,
        };
        engine.decide(&request).decision
    };
    let rule = "[[rule]]\ntoolName = \"glob\"\ndecision = \"deny\"\npriority = 100\n";
    for broken in [format!("{rule}[[rule\n"), rule.replace("100", "\"high\"")] {
        assert_eq!(decide(&broken, "glob"), Decision::Ask, "{broken}");
        assert_eq!(decide(&broken, "read_file"), Decision::Allow, "{broken}");
    }
    assert_eq!(decide(&format!("{}[[rule\n", rule.replace("glob", "*")), "read_file"), Decision::Ask);
}

#[test]
fn shipped_rules_would_pass_as_rules_of_a_user() {
    for (name, text) in SHIPPED {
        let place = RuleOrigin { tier: Tier::User, source: (*name).to_owned(), path: None };
        assert_eq!(parse(text, &place).problems.len(), 0, "{name}: {:?}", parse(text, &place).problems);
    }
}

#[test]
fn scripts_of_hooks_and_servers_are_protected_by_name() {
    let scripts = vec![PathBuf::from("scripts/a+b (1).sh"), PathBuf::from("tools/it's \\ \"x\"")];
    let engine = load(&Sources::default(), Options { scripts: scripts.clone(), ..Options::default() });
    assert_eq!(engine.problems(), &[]);
    let rule =
        engine.protections.iter().find(|rule| rule.source.label == "scripts of hooks and servers").unwrap();
    let Condition::Path(pattern) = &rule.condition else { panic!("{rule:?}") };
    for script in &scripts {
        let name = script.to_string_lossy().replace('\\', "/");
        assert_ne!(pattern.find(&name), crate::pattern::PatternMatch::No, "{name}");
        assert_eq!(pattern.find(&format!("x/{name}")), crate::pattern::PatternMatch::No);
    }
}
