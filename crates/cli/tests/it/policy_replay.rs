//! Every rule in force, and past sessions through the rules.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use pollux_test_support::{TestHome, reply};
use serde_json::{Value, json};

use crate::policy::{explain, policy};
use crate::scene::{Scene, all_files, parse};

const SHELL: &str = "run_shell_command";
const NAMED: &str = "[[rule]]\nname = \"no pushes\"\ntoolName = \"run_shell_command\"\ncommandPrefix = \"git push\"\n\
                     decision = \"deny\"\npriority = 200\nmodes = [\"autoEdit\", \"default\"]\n\n\
                     [[safety_checker]]\ntoolName = \"web_fetch\"\nchecker = { type = \"external\", name = \"look\" }\n";

fn list(scene: &Scene, flags: &[&str]) -> Value {
    let run = policy(scene, &[&["list", "--json"], flags].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    parse(&run.stdout)
}

#[test]
fn every_rule_in_force_is_listed_in_the_order_of_trial() {
    let settings = json!({"tools": {"exclude": ["save_memory"]}});
    let home = TestHome::new().settings(settings).home_file(".gemini/policies/mine.toml", NAMED);
    let scene = Scene::with(home, []);
    let all = list(&scene, &["--allowed-tools", "run_shell_command(make)"]);
    let rules = all["rules"].as_array().unwrap();
    let priorities: Vec<f64> = rules.iter().map(|rule| rule["priority"].as_f64().unwrap()).collect();
    assert!(priorities.is_sorted_by(|a, b| a >= b), "{priorities:?}");
    let first = &rules[0];
    assert_eq!((&first["tool"], &first["decision"]), (&json!("save_memory"), &json!("deny")));
    assert_eq!(first["source"]["file"], "tools.exclude");
    let named = rules.iter().find(|rule| rule["rule"] == "no pushes").unwrap();
    assert_eq!(named["condition"], json!({"commandPrefix": "git push"}));
    assert_eq!(named["modes"], json!(["default", "auto_edit"]));
    assert_eq!((&named["priority"], &named["source"]["line"]), (&json!(4.2), &json!(1)));
    assert!(rules.iter().any(|rule| rule["source"]["file"] == "--allowed-tools"));
    assert_eq!(all["checkers"][0]["name"], "look");
    assert!(!all["protected"].as_array().unwrap().is_empty());
    let some = list(&scene, &["--approval-mode", "yolo", "--headless"]);
    let shown = some["rules"].as_array().unwrap();
    assert!(shown.iter().all(|rule| rule["rule"] != "no pushes" && rule["interactive"] != true));
    assert!(shown.len() < rules.len());
    assert_eq!(some["protected"], json!([]));
}

#[test]
fn the_list_for_people_is_a_table() {
    let scene = Scene::with(TestHome::new().home_file(".gemini/policies/mine.toml", NAMED), []);
    let run = policy(&scene, &["list"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let mut lines = run.stdout.lines();
    assert!(lines.next().unwrap().starts_with("priority  decision  tool "), "{}", run.stdout);
    let second = lines.next().unwrap();
    assert!(second.starts_with("4.200     deny      run_shell_command"), "{second}");
    assert!(second.contains("git push …") && second.ends_with("mine.toml:1 \"no pushes\""), "{second}");
    assert!(
        run.stdout.contains("\nSafety checkers:\n") && run.stdout.contains("look (external)"),
        "{}",
        run.stdout
    );
}

#[test]
fn servers_tools_follow_trust_and_lists_of_the_user_alone() {
    let server = json!({"command": "x", "trust": true});
    let own = json!({"mcpServers": {"mine": server, "my_own": server, "other": {"command": "y"}}});
    let home = || TestHome::new().project_settings(json!({"mcpServers": {"theirs": server}}));
    let outcome = |scene: &Scene, tool: &str, flags: &[&str]| {
        explain(scene, tool, json!({}), flags)["decision"].as_str().unwrap().to_owned()
    };
    let scene = Scene::with(home().settings(own.clone()), []);
    let table = [
        ("mcp_mine_read", &[][..], "allow"),
        ("mine__read", &[], "allow"),
        ("mcp_my_own_read", &["--headless"], "allow"),
        ("mcp_mine_read", &["--approval-mode", "plan"], "deny"),
        ("mcp_theirs_read", &[], "ask"),
        ("mcp_other_read", &[], "ask"),
        ("mcp_other_read", &["--headless"], "deny"),
        ("mcp_other_read", &["--allowed-mcp-server-names", "other", "--headless"], "allow"),
        ("mcp_mine_read", &["--allowed-mcp-server-names", "other"], "deny"),
        ("mcp_mine", &[], "deny"),
    ];
    for (tool, flags, expected) in table {
        assert_eq!(outcome(&scene, tool, flags), expected, "{tool} {flags:?}");
    }
    let untrusted = Scene::untrusted(home().settings(own), []);
    assert_eq!(outcome(&untrusted, "mcp_mine_read", &[]), "ask");
    let lists = json!({"mcp": {"excluded": ["bad"], "autoAllowInHeadless": true}});
    let scene = Scene::with(TestHome::new().settings(lists.clone()), []);
    assert_eq!(outcome(&scene, "mcp_bad_read", &["--approval-mode", "yolo"]), "deny");
    assert_eq!(outcome(&scene, "mcp_good_read", &["--headless"]), "allow");
    let scene = Scene::with(TestHome::new().project_settings(lists), []);
    assert_eq!(outcome(&scene, "mcp_good_read", &["--headless"]), "deny", "a project has no say");
}

#[test]
fn private_hosts_are_fetched_where_the_user_says_so() {
    let settings = json!({"tools": {"webFetch": {"allowedHosts": ["wiki.corp", "127.0.0.1"]}}});
    let fetch = |scene: &Scene, url: &str| {
        let args = json!({"prompt": format!("read http://{url}/x")});
        explain(scene, "web_fetch", args, &["--approval-mode", "yolo"])["decision"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let scene = Scene::with(TestHome::new().settings(settings.clone()), []);
    for (url, expected) in [("wiki.corp", "allow"), ("127.0.0.1:80", "allow"), ("10.0.0.1", "deny")] {
        assert_eq!(fetch(&scene, url), expected, "{url}");
    }
    let scene = Scene::with(TestHome::new().project_settings(settings), []);
    assert_eq!(fetch(&scene, "wiki.corp"), "deny", "a project has no say");
}

#[test]
fn plans_go_where_the_setting_says() {
    let settings = json!({"general": {"plan": {"directory": "docs/plans-of-mine"}}});
    let scene = Scene::with(TestHome::new().settings(settings), []);
    let write = |path: &str| {
        let args = json!({"file_path": path, "content": "x"});
        explain(&scene, "write_file", args, &["--approval-mode", "plan"])["decision"].clone()
    };
    assert_eq!(write("docs/plans-of-mine/a.md"), "allow");
    assert_eq!(write("docs/plans-of-mine/a.rs"), "deny");
    assert_eq!(write("src/plans/a.md"), "deny");
    assert_eq!(write("plans/a.md"), "allow", "it is written to the folder of the setting");
}

/// A project with one session of four calls.
fn with_a_session() -> Scene {
    let replies = [
        reply()
            .call_with_id("1", "glob", json!({"pattern": "*"}))
            .call_with_id("2", SHELL, json!({"command": "git push"}))
            .call_with_id("3", SHELL, json!({"command": "git push"}))
            .call_with_id("4", SHELL, json!({"command": "make all"})),
        reply().text("done"),
    ];
    let home = TestHome::new().file("mine.toml", NAMED);
    let scene = Scene::with(home, replies);
    assert_eq!(scene.run(&["-p", "x"]).code, Some(0));
    scene
}

/// Every file of the home with its content.
fn snapshot(scene: &Scene) -> BTreeMap<PathBuf, Vec<u8>> {
    all_files(&scene.home.home()).into_iter().map(|file| (file.clone(), fs::read(&file).unwrap())).collect()
}

#[test]
fn past_calls_are_counted_and_those_that_would_stop_are_named() {
    let scene = with_a_session();
    let before = snapshot(&scene);
    let run = policy(&scene, &["replay", "--json", "--policy", "mine.toml"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let told = parse(&run.stdout);
    assert_eq!(
        ["sessions", "calls", "allow", "ask", "deny"].map(|key| told[key].as_u64().unwrap()),
        [1, 4, 1, 1, 2]
    );
    assert_eq!(told["tools"][SHELL], json!({"allow": 0, "ask": 1, "deny": 2}));
    let stopped = told["stopped"].as_array().unwrap();
    assert_eq!(stopped.len(), 2, "the same call is named once");
    assert_eq!((&stopped[0]["times"], &stopped[0]["rule"]), (&json!(2), &json!("no pushes")));
    assert_eq!(stopped[0]["args"], json!({"command": "git push"}));
    assert_eq!((&stopped[1]["decision"], &stopped[1]["session"].is_string()), (&json!("ask"), &true));
    let text = policy(&scene, &["replay", "--headless", "--policy", "mine.toml"]).stdout;
    assert!(text.starts_with("4 calls in 1 session: 1 allow, 0 ask, 3 deny\n"), "{text}");
    assert!(text.contains("deny  run_shell_command {\"command\":\"git push\"} (2 times): "), "{text}");
    let yolo = policy(&scene, &["replay", "--approval-mode", "yolo", "latest"]).stdout;
    assert!(yolo.starts_with("4 calls in 1 session: 4 allow, 0 ask, 0 deny\n"), "{yolo}");
    assert_eq!(snapshot(&scene), before, "nothing was written");
}

#[test]
fn sessions_are_chosen_by_name_and_unreadable_ones_are_named() {
    let scene = with_a_session();
    let chats = scene.chats();
    fs::write(chats.join("session-2024-01-01T00-00-deadbeef.json"), "{\"sessionId\": 12").unwrap();
    let run = policy(&scene, &["replay", "--json"]);
    assert_eq!(run.code, Some(0));
    assert!(run.stderr.contains("session-2024-01-01T00-00-deadbeef.json"), "{}", run.stderr);
    let told = parse(&run.stdout);
    assert_eq!((&told["sessions"], told["unreadable"].as_array().unwrap().len()), (&json!(1), 1));
    let file = scene
        .session_files()
        .into_iter()
        .find(|file| !file.ends_with("session-2024-01-01T00-00-deadbeef.json"));
    let file = file.unwrap();
    let named = policy(&scene, &["replay", "--json", file.to_str().unwrap()]);
    assert_eq!(parse(&named.stdout)["calls"], 4, "{}", named.stderr);
    let gone = policy(&scene, &["replay", "no-such-session"]);
    assert_eq!((gone.code, gone.stdout.as_str()), (Some(42), ""), "{}", gone.stderr);
}

#[test]
fn other_projects_take_part_when_asked_to() {
    let scene = with_a_session();
    let elsewhere = scene.home.gemini_dir().join("tmp/other-project/chats");
    fs::create_dir_all(&elsewhere).unwrap();
    let chats = scene.chats();
    for entry in fs::read_dir(&chats).unwrap() {
        fs::rename(entry.as_ref().unwrap().path(), elsewhere.join(entry.unwrap().file_name())).unwrap();
    }
    let count = |flags: &[&str]| {
        let run = policy(&scene, &[&["replay", "--json"], flags].concat());
        parse(&run.stdout)["calls"].as_u64().unwrap()
    };
    assert_eq!((count(&[]), count(&["--all-projects"])), (0, 4));
}
