//! `pollux mcp`: what it prints and what it writes.

use std::fs;

use pollux_test_support::mcp::server_entry;
use pollux_test_support::{Run, TestHome};
use serde_json::json;

use crate::scene::binary;

fn run(home: &TestHome, args: &[&str]) -> Run {
    let args: Vec<&str> = ["mcp"].into_iter().chain(args.iter().copied()).collect();
    home.command(binary(), args).env("GEMINI_CLI_TRUST_WORKSPACE", "true").run()
}

fn said(home: &TestHome, args: &[&str]) -> String {
    let run = run(home, args);
    assert_eq!(run.code, Some(0), "{args:?}: {}", run.stderr);
    run.stdout
}

#[test]
fn servers_are_added_updated_and_removed_with_everything_else_left_alone() {
    let before = "{\n  // keep me\n  \"ui\": {\"theme\": \"x\"}, // and me\n  \"mcpServers\": {\"old\": {\"command\": \"$CMD\"}}\n}\n";
    let home = TestHome::new().file(".gemini/settings.json", before);
    let add = [
        "add",
        "n",
        "npx",
        "-y",
        "srv",
        "-e",
        "A=b=c",
        "-e",
        "KEY=$KEY",
        "--timeout",
        "500",
        "--include-tools",
        "a,b",
    ];
    assert_eq!(said(&home, &add), "MCP server \"n\" added to project settings. (stdio)\n");
    let text = home.read(".gemini/settings.json");
    assert!(text.contains("// keep me") && text.contains("// and me") && text.contains("$CMD"), "{text}");
    let entry = |text: &str| {
        let plain: String =
            text.lines().map(|line| line.split(" //").next().unwrap()).collect::<Vec<_>>().join("\n");
        serde_json::from_str::<serde_json::Value>(&plain).unwrap()["mcpServers"]["n"].clone()
    };
    assert_eq!(
        entry(&text),
        json!({"command": "npx", "args": ["-y", "srv"], "env": {"A": "b=c", "KEY": "$KEY"}, "timeout": 500,
               "includeTools": ["a", "b"]})
    );
    let http = ["add", "-t", "http", "-H", "X: y:z", "--trust", "n", "https://example.com/mcp"];
    let again = run(&home, &http);
    assert!(
        again.stderr.contains("MCP server \"n\" is already configured within project settings."),
        "{}",
        again.stderr
    );
    assert_eq!(again.stdout, "MCP server \"n\" updated in project settings.\n");
    assert_eq!(
        entry(&home.read(".gemini/settings.json")),
        json!({"url": "https://example.com/mcp", "type": "http", "headers": {"X": "y:z"}, "trust": true})
    );
    assert_eq!(said(&home, &["remove", "n"]), "Server \"n\" removed from project settings.\n");
    assert_eq!(said(&home, &["remove", "n"]), "Server \"n\" not found in project settings.\n");
    let text = home.read(".gemini/settings.json");
    assert!(
        text.contains("// keep me") && text.contains("{\"command\": \"$CMD\"}") && !text.contains("npx"),
        "{text}"
    );
    assert_eq!(
        said(&home, &["add", "-s", "user", "u", "cmd"]),
        "MCP server \"u\" added to user settings. (stdio)\n"
    );
    let user = fs::read_to_string(home.gemini_dir().join("settings.json")).unwrap();
    assert!(user.contains("\"args\": []"), "{user}");
    assert_eq!(run(&home, &["add", "bad", "-t", "http", "ftp://x"]).code, Some(1));
}

#[test]
fn the_list_is_live_parallel_and_limited() {
    assert_eq!(said(&TestHome::new(), &["list"]), "No MCP servers configured.\n");
    let mut slow = server_entry("silent");
    slow["timeout"] = json!(1500);
    let home = TestHome::new().settings(json!({
        "mcpServers": {"good": server_entry("plain"), "slow": slow, "slow2": slow, "dead": {"command": "/nonexistent"},
            "off": server_entry("plain"), "tuned": {"includeTools": ["x"]}},
        "mcp": {"excluded": ["off"]},
    }));
    let list = run(&home, &["list"]);
    let ends: Vec<(&str, &str)> = list
        .stdout
        .lines()
        .skip(2)
        .map(|line| (line.split(':').next().unwrap(), line.rsplit(" - ").next().unwrap()))
        .collect();
    assert_eq!(
        ends,
        [
            ("✗ dead", "Disconnected"),
            ("✓ good", "Connected"),
            ("⛔ off", "Blocked"),
            ("✗ slow", "Disconnected"),
            ("✗ slow2", "Disconnected")
        ],
        "{}",
        list.stdout
    );
    assert!(list.stderr.contains("dead: could not start `/nonexistent`"), "{}", list.stderr);
}

#[test]
fn servers_are_switched_off_and_on() {
    let home = TestHome::new()
        .settings(json!({"mcpServers": {"Srv": server_entry("plain"), "b": {"command": "x"}},
        "mcp": {"excluded": ["b"]}}));
    assert_eq!(said(&home, &["disable", "srv"]), "✓ MCP server 'Srv' disabled.\n");
    let file = home.gemini_dir().join("mcp-server-enablement.json");
    let switches: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(switches, json!({"srv": {"enabled": false}}));
    assert!(said(&home, &["list"]).contains("○ Srv: "));
    assert_eq!(said(&home, &["enable", "Srv"]), "✓ MCP server 'Srv' enabled.\n");
    assert!(said(&home, &["list"]).contains("✓ Srv: "));
    assert_eq!(
        said(&home, &["disable", "Srv", "--session"]),
        "✓ MCP server 'Srv' disabled for this session.\n"
    );
    assert!(said(&home, &["enable", "b"]).contains("is blocked by mcp.excluded"));
    assert!(said(&home, &["enable", "nosuch"]).contains("Error: Server 'nosuch' not found."));
}

#[test]
fn a_test_tells_what_is_there_or_why_not() {
    let home = TestHome::new()
        .settings(json!({"mcpServers": {"good": server_entry("plain"), "bad": server_entry("crashes")}}));
    let good = said(&home, &["test", "good"]);
    assert!(good.contains("Connected, fake 1.2.3\n  Tools: 8 (mcp_good_echo, "), "{good}");
    assert!(good.contains("Prompts: 1 (greet someone)\n  Resources: 1\n"), "{good}");
    let bad = run(&home, &["test", "bad"]);
    assert_eq!(bad.code, Some(1));
    for words in ["'bad' is disconnected", "exit code 3", "cannot find my configuration"] {
        assert!(bad.stderr.contains(words), "{words}: {}", bad.stderr);
    }
    assert_eq!(run(&home, &["test", "nosuch"]).code, Some(1));
    let tools = said(&home, &["tools"]);
    assert!(tools.contains("✓ good: 8 tools\n  mcp_good_echo  Says it again.\n"), "{tools}");
    assert!(tools.starts_with("✗ bad - Disconnected"), "{tools}");
    let auth = run(&home, &["auth", "good"]);
    assert!(
        auth.code == Some(1) && auth.stderr.contains("there is nothing to sign in to"),
        "{}",
        auth.stderr
    );
}
