//! Hooks and MCP servers inside of the host.

use serde_json::{Value, json};

use crate::host::Host;
use crate::script::{calls, home, says};
use crate::{
    ASKS, allow, answer, asked, blocks, end, initialize, request, response, result, say, shell, start, write,
};

fn guard() -> Value {
    json!({"PreToolUse": [{"matcher": "Write|Bash", "hookCallbackIds": ["guard"]}]})
}

fn deny(why: &str) -> Value {
    json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": why,
    }})
}

#[test]
fn a_hook_denies_and_changes_calls() {
    // Neither a mode nor a switch in the settings turns off the host's own hooks.
    let home =
        home().settings(json!({"hooksConfig": {"enabled": false}, "general": {"sessionSummaries": false}}));
    let mut host = start(
        home,
        &[write("a.txt"), write("b.txt"), says("done")],
        &["--permission-mode", "bypassPermissions"],
    );
    let info = initialize(&mut host, guard());
    assert_eq!(info["response"]["hook_on_failure_supported"], true);
    say(&mut host, "go");
    let one = asked(&mut host, "hook_callback");
    let given = &one["request"];
    assert_eq!(
        (&given["callback_id"], &given["input"]["hook_event_name"]),
        (&json!("guard"), &json!("PreToolUse"))
    );
    assert_eq!(
        (&given["input"]["tool_name"], &given["input"]["tool_input"]["file_path"]),
        (&json!("write_file"), &json!("a.txt"))
    );
    assert_eq!(
        (&given["tool_use_id"], &given["input"]["tool_use_id"]),
        (&given["input"]["tool_use_id"], &given["tool_use_id"])
    );
    assert!(given["tool_use_id"].is_string());
    answer(&mut host, &one, deny("guarded"));
    let two = asked(&mut host, "hook_callback");
    let changed = json!({"file_path": "b.txt", "content": "by the hook\n"});
    answer(
        &mut host,
        &two,
        json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": changed}}),
    );
    assert_eq!(result(&mut host)["result"], "done");
    assert!(!host.home.project().join("a.txt").exists());
    assert_eq!(host.home.read("b.txt"), "by the hook\n");
    assert!(blocks(&host, "tool_result")[0]["content"].as_str().unwrap().contains("guarded"));
    assert_eq!(end(&mut host), Some(0));
}

#[test]
fn hooks_run_at_the_events_that_exist() {
    let mut host = start(
        home(),
        &[
            calls("list_directory", json!({"dir_path": "."})),
            calls("read_file", json!({"file_path": "none"})),
            says("done"),
        ],
        &[],
    );
    let every = |id: &str| json!([{"matcher": null, "hookCallbackIds": [id]}]);
    let hooks = json!({"UserPromptSubmit": every("u"), "PostToolUse": every("p"), "PostToolUseFailure": every("f"),
        "Stop": every("s"), "SubagentStop": every("never")});
    initialize(&mut host, hooks);
    say(&mut host, "go");
    for (id, event, key) in [
        ("u", "UserPromptSubmit", "prompt"),
        ("p", "PostToolUse", "tool_response"),
        ("f", "PostToolUseFailure", "error"),
        ("s", "Stop", "stop_hook_active"),
    ] {
        let asked = asked(&mut host, "hook_callback");
        assert_eq!(
            (&asked["request"]["callback_id"], &asked["request"]["input"]["hook_event_name"]),
            (&json!(id), &json!(event))
        );
        assert!(!asked["request"]["input"][key].is_null(), "{asked}");
        answer(&mut host, &asked, json!({}));
    }
    assert_eq!(result(&mut host)["result"], "done");
    assert!(host.stderr().contains("SubagentStop"), "{}", host.stderr());
}

#[test]
fn a_hook_that_fails_blocks_only_if_it_says_so() {
    for (on_failure, runs) in [(Value::Null, true), (json!("block"), false)] {
        let mut host = start(home(), &[write("a.txt"), says("done")], &["--permission-mode", "acceptEdits"]);
        let hook = json!({"matcher": "Write", "hookCallbackIds": ["guard"], "onFailure": on_failure});
        initialize(&mut host, json!({"PreToolUse": [hook]}));
        say(&mut host, "go");
        let one = asked(&mut host, "hook_callback");
        let failed = json!({"subtype": "error", "request_id": one["request_id"], "error": "boom"});
        host.send(&json!({"type": "control_response", "response": failed}));
        assert_eq!(result(&mut host)["result"], "done");
        assert_eq!(host.home.project().join("a.txt").exists(), runs, "{on_failure}");
    }
}

#[test]
fn a_hook_that_takes_too_long_is_withdrawn() {
    let mut host = start(home(), &[shell("echo hi"), says("done")], &["--allowedTools", "Bash"]);
    initialize(
        &mut host,
        json!({"PreToolUse": [{"hookCallbackIds": ["slow"], "timeout": 0.3, "onFailure": "block"}]}),
    );
    say(&mut host, "go");
    let one = asked(&mut host, "hook_callback");
    assert_eq!(host.wait_for("control_cancel_request")["request_id"], one["request_id"]);
    assert_eq!(result(&mut host)["result"], "done");
    assert_eq!(blocks(&host, "tool_result")[0]["is_error"], true);
}

#[test]
fn a_hook_whose_host_left_decides_nothing() {
    let mut host = start(home(), &[write("a.txt"), says("done")], &["--permission-mode", "acceptEdits"]);
    initialize(&mut host, json!({"PreToolUse": [{"hookCallbackIds": ["guard"], "onFailure": "block"}]}));
    say(&mut host, "go");
    asked(&mut host, "hook_callback");
    host.close_input();
    assert_eq!(host.end().0, Some(0), "{}", host.stderr());
    assert!(!host.home.project().join("a.txt").exists());
}

/// Answers messages for an MCP server until one is a call; returns it.
fn serve(host: &mut Host) -> (Value, Value) {
    loop {
        let asked = asked(host, "mcp_message");
        assert_eq!(asked["request"]["server_name"], "calc");
        let message = asked["request"]["message"].clone();
        let result = match message["method"].as_str().unwrap() {
            "initialize" => json!({"protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}}, "serverInfo": {"name": "calc", "version": "1"}}),
            "tools/list" => json!({"tools": [{"name": "add", "description": "adds",
                "inputSchema": {"type": "object", "properties": {"a": {"type": "number"}}}}]}),
            "tools/call" => return (asked, message),
            _ => json!({}),
        };
        let reply = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        answer(host, &asked, json!({"mcp_response": reply}));
    }
}

const SERVERS: [&str; 2] = ["--mcp-config", r#"{"mcpServers":{"calc":{"type":"sdk","name":"calc"}}}"#];

#[test]
fn a_server_inside_of_the_host_offers_tools() {
    let call = || calls("mcp_calc_add", json!({"a": 1}));
    let mut host = start(
        home(),
        &[call(), call(), says("done")],
        &[SERVERS[0], SERVERS[1], ASKS[0], ASKS[1], "--strict-mcp-config"],
    );
    request(&mut host, "init", json!({"subtype": "initialize"}));
    // The session takes prompts when the server's tools are known.
    say(&mut host, "go");
    for asked_message in 0..2 {
        let _ = asked_message;
        let asked = asked(&mut host, "mcp_message");
        let message = asked["request"]["message"].clone();
        let result = match message["method"].as_str().unwrap() {
            "initialize" => json!({"protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}}, "serverInfo": {"name": "calc", "version": "1"}}),
            _ => json!({}),
        };
        answer(
            &mut host,
            &asked,
            json!({"mcp_response": {"jsonrpc": "2.0", "id": message["id"], "result": result}}),
        );
    }
    let list = asked(&mut host, "mcp_message");
    assert_eq!(list["request"]["message"]["method"], "tools/list");
    let tools = json!({"tools": [{"name": "add", "description": "adds", "inputSchema": {"type": "object"}}]});
    answer(
        &mut host,
        &list,
        json!({"mcp_response": {"jsonrpc": "2.0", "id": list["request"]["message"]["id"], "result": tools}}),
    );
    let one = asked(&mut host, "can_use_tool");
    let init = host.of_type("system")[0].clone();
    assert!(init["tools"].as_array().unwrap().contains(&json!("mcp_calc_add")), "{init}");
    assert_eq!(init["mcp_servers"], json!([{"name": "calc", "status": "connected"}]));
    allow(&mut host, &one);
    let (asked_call, message) = serve(&mut host);
    assert_eq!(message["params"]["arguments"], json!({"a": 1}));
    let done = json!({"content": [{"type": "text", "text": "three"}]});
    answer(
        &mut host,
        &asked_call,
        json!({"mcp_response": {"jsonrpc": "2.0", "id": message["id"], "result": done}}),
    );
    let two = asked(&mut host, "can_use_tool");
    allow(&mut host, &two);
    let (asked_call, _) = serve(&mut host);
    let failed =
        json!({"subtype": "error", "request_id": asked_call["request_id"], "error": "server crashed"});
    host.send(&json!({"type": "control_response", "response": failed}));
    assert_eq!(result(&mut host)["result"], "done");
    let results = blocks(&host, "tool_result");
    assert!(results[0]["content"].as_str().unwrap().contains("three"), "{results:?}");
    assert!(
        results[1]["is_error"] == true && results[1]["content"].as_str().unwrap().contains("server crashed")
    );
    request(&mut host, "s", json!({"subtype": "mcp_status"}));
    let status = response(&mut host, "s");
    assert_eq!(status["response"]["mcpServers"][0]["serverInfo"], json!({"name": "calc", "version": "1"}));
    assert_eq!(end(&mut host), Some(0));
}
