//! Lines, ids, errors and the first request.

use std::time::{Duration, Instant};

use pollux_test_support::TestHome;
use serde_json::{Value, json};

use crate::peer::{Peer, calls, home, says};

fn initialize(version: Value) -> Value {
    json!({"protocolVersion": version})
}

fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn initialize_is_answered_before_anything_is_read() {
    // None of this can be used, and none of it is needed.
    let home = TestHome::new()
        .env("GEMINI_API_KEY", "")
        .home_file(".gemini/settings.json", "{ this is not JSON")
        .home_file(".gemini/trustedFolders.json", "neither is this");
    let mut peer = Peer::start(home, &[]);
    let started = Instant::now();
    let answer = peer.call("initialize", initialize(json!(1)));
    // The limit is generous for busy machines; the bench measures the time.
    assert!(started.elapsed() < Duration::from_secs(60));
    let result = &answer["result"];
    assert_eq!(result["protocolVersion"], 1);
    assert_eq!(result["agentInfo"]["name"], "pollux");
    assert_eq!(result["agentCapabilities"]["loadSession"], true);
    assert!(result["agentCapabilities"]["sessionCapabilities"]["delete"].is_object());
    let cwd = peer.project();
    let answer = peer.call("session/new", json!({"cwd": cwd, "mcpServers": []}));
    assert_eq!(code(&answer), -32603, "{answer}");
}

#[test]
fn the_version_is_agreed_on_once() {
    for version in [json!(0), json!(1), json!(99)] {
        let mut peer = Peer::start(home(), &[]);
        let answer = peer.call("initialize", initialize(version));
        assert_eq!(answer["result"]["protocolVersion"], 1);
        assert_eq!(code(&peer.call("initialize", initialize(json!(1)))), -32600);
    }
    let mut peer = Peer::start(home(), &[]);
    let answer = peer.call("initialize", json!({}));
    assert_eq!((code(&answer), &answer["error"]["data"]["field"]), (-32602, &json!("protocolVersion")));
    let cwd = peer.project();
    assert_eq!(code(&peer.call("session/new", json!({"cwd": cwd, "mcpServers": []}))), -32600);
}

#[test]
fn the_ways_to_start_it_are_the_same() {
    for args in [&["--acp"][..], &["--experimental-acp"], &["acp"]] {
        let mut peer = Peer::with(home(), &[], args);
        assert_eq!(peer.call("initialize", initialize(json!(1)))["result"]["protocolVersion"], 1, "{args:?}");
        peer.close_input();
        assert_eq!(peer.end().0, Some(0), "{args:?}");
    }
}

#[test]
fn sign_in_in_a_terminal_is_offered_only_to_clients_that_can() {
    let methods = |capabilities: Value| {
        let mut peer = Peer::start(home(), &[]);
        let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
        let answer = peer.call("initialize", params);
        let methods = answer["result"]["authMethods"].as_array().unwrap().clone();
        methods.iter().map(|method| method["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(!methods(json!({})).contains(&"terminal".to_owned()));
    assert!(methods(json!({"auth": {"terminal": true}})).contains(&"terminal".to_owned()));
    let mut peer = Peer::ready(home(), &[]);
    assert_eq!(code(&peer.call("authenticate", json!({"methodId": "terminal"}))), -32602);
    assert_eq!(code(&peer.call("authenticate", json!({"methodId": "no-such"}))), -32602);
}

#[test]
fn what_is_no_message_is_answered_and_the_next_one_works() {
    let mut peer = Peer::ready(home(), &[]);
    let cases: &[(&[u8], i64)] = &[
        (b"{not json", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}", -32700),
        (b"[]", -32600),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/list\"}]", -32600),
    ];
    for (line, expected) in cases {
        peer.send_raw(line);
        let answer = peer.next();
        assert_eq!((code(&answer), &answer["id"]), (*expected, &Value::Null));
        assert_eq!(peer.call("session/list", json!({}))["result"]["sessions"], json!([]));
    }
    let answer = peer.call("no/such", json!({}));
    assert_eq!((code(&answer), &answer["error"]["data"]["method"]), (-32601, &json!("no/such")));
    peer.notify("no/such", json!({}));
    peer.send_raw(b"");
    assert_eq!(code(&peer.call("_vendor/method", json!({}))), -32601);
}

#[test]
fn ids_come_back_as_they_were_sent() {
    let mut peer = Peer::ready(home(), &[]);
    for id in [json!("a"), json!(0), Value::Null, json!(9_007_199_254_740_992_u64), json!(-1)] {
        peer.send(&json!({"jsonrpc": "2.0", "id": id, "method": "session/list", "params": {}}));
        assert_eq!(peer.next()["id"], id);
    }
}

#[test]
fn long_lines_are_read_and_too_long_ones_are_skipped() {
    let mut peer = Peer::ready(home(), &[]);
    for size in [1 << 20, 20 << 20] {
        let padding = "x".repeat(size);
        assert!(peer.call("session/list", json!({"_meta": {"padding": padding}}))["result"].is_object());
    }
    let mut line = br#"{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"x":""#.to_vec();
    line.resize(70 << 20, b'x');
    line.extend_from_slice(br#""}}"#);
    peer.send_raw(&line);
    let answer = peer.next();
    assert_eq!((code(&answer), &answer["id"]), (-32600, &Value::Null));
    assert!(peer.memory() < 150, "{} MiB", peer.memory());
    assert!(peer.call("session/list", json!({}))["result"].is_object());
}

#[test]
fn a_folder_must_be_absolute_and_exist() {
    let mut peer = Peer::ready(home(), &[]);
    for cwd in [json!("project"), json!("/no/such/folder"), json!(7), Value::Null] {
        let answer = peer.call("session/new", json!({"cwd": cwd, "mcpServers": []}));
        assert_eq!((code(&answer), &answer["error"]["data"]["field"]), (-32602, &json!("cwd")), "{answer}");
    }
    assert!(!peer.home.gemini_dir().join("tmp").exists(), "nothing is written");
    let answer = peer.call("session/prompt", crate::peer::prompt("no-such", "x"));
    assert_eq!((code(&answer), &answer["error"]["data"]["sessionId"]), (-32002, &json!("no-such")));
    assert!(answer["error"]["message"].as_str().unwrap().starts_with("Session not found:"));
}

#[test]
fn a_command_that_prints_cannot_disturb_the_stream() {
    let command = json!({"command": "echo to-stdout; echo to-stderr >&2; cat"});
    let replies = [calls("run_shell_command", command), says("done")];
    let mut peer = Peer::ready(home(), &replies);
    let session = peer.session();
    let answer = peer.turn(&session, "go", "proceed_once");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert!(peer.log.iter().all(|message| message.get("garbage").is_none()));
    let last = peer.updates("tool_call_update").last().unwrap().to_string();
    assert!(last.contains("to-stdout"), "{last}");
}

#[test]
fn without_a_key_a_session_asks_for_a_sign_in() {
    let home = home().env("GEMINI_API_KEY", "").env("GEMINI_FORCE_FILE_STORAGE", "true");
    let mut peer = Peer::ready(home, &[]);
    let cwd = peer.project();
    let answer = peer.call("session/new", json!({"cwd": cwd, "mcpServers": []}));
    assert_eq!(code(&answer), -32000, "{answer}");
    assert_eq!(peer.call("auth/status", json!({}))["result"]["state"], "unauthenticated");
}
