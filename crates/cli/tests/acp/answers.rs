//! Answers of a client that are no clear yes, and what only some clients can read.

use serde_json::{Value, json};

use crate::peer::{Peer, calls, home, says};

fn write(path: &str) -> String {
    calls("write_file", json!({"file_path": path, "content": "x\n"}))
}

#[test]
fn only_an_offered_option_allows_a_call_and_only_once() {
    let replies = [write("a.txt"), write("b.txt"), write("c.txt"), write("d.txt"), says("done")];
    let mut peer = Peer::ready(home(), &replies);
    let session = peer.session();
    let id = peer.prompt(&session, "write");
    let failed = peer.asked("session/request_permission");
    peer.send(&json!({"jsonrpc": "2.0", "id": failed["id"], "error": {"code": -32603, "message": "no"}}));
    let unknown = peer.asked("session/request_permission");
    peer.select(&unknown, "proceed_with_everything");
    let malformed = peer.asked("session/request_permission");
    peer.respond(&malformed, json!({"outcome": "proceed_once"}));
    let refused = peer.asked("session/request_permission");
    peer.select(&refused, "cancel");
    // The second answer to the same request, and late ones, change nothing.
    for asked in [&refused, &unknown, &failed] {
        peer.select(asked, "proceed_once");
    }
    assert_eq!(peer.answer(&id)["result"]["stopReason"], "end_turn");
    assert_eq!(peer.said(), "done");
    for name in ["a.txt", "b.txt", "c.txt", "d.txt"] {
        assert!(!peer.project().join(name).exists(), "{name}");
    }
}

#[test]
fn a_session_that_is_closed_or_deleted_in_a_turn_answers_its_prompt() {
    for method in ["session/close", "session/delete"] {
        let mut peer = Peer::ready(home(), &[write("a.txt"), says("done")]);
        let session = peer.session();
        let id = peer.prompt(&session, "write");
        peer.asked("session/request_permission");
        let closing = peer.request(method, json!({"sessionId": session}));
        assert_eq!(peer.answer(&id)["result"]["stopReason"], "cancelled", "{method}");
        assert_eq!(peer.answer(&closing)["result"], json!({}), "{method}");
        assert!(!peer.project().join("a.txt").exists());
        let gone = peer.call("session/prompt", json!({"sessionId": session, "prompt": []}));
        assert_eq!(gone["error"]["code"], -32002, "{method}");
    }
}

#[test]
fn what_a_client_did_not_ask_for_is_not_sent() {
    let known = |kinds: &[Value]| kinds.iter().any(|kind| kind == "notice" || kind == "compaction_update");
    for (capabilities, is_sent) in
        [(json!({}), false), (json!({"session": {"notices": {}, "compaction": {}}}), true)]
    {
        let replies = [says("one"), says("two"), says("<state_snapshot>short</state_snapshot>"), says("x")];
        let mut peer = Peer::ready_with(home(), &replies, capabilities.clone());
        let session = peer.session();
        let opened = peer.call("session/set_mode", json!({"sessionId": session, "modeId": "default"}));
        assert_eq!(opened["result"], json!({}));
        peer.turn(&session, "first", "cancel");
        peer.turn(&session, "/compress", "cancel");
        let kinds: Vec<Value> =
            peer.log.iter().map(|message| message["params"]["update"]["sessionUpdate"].clone()).collect();
        assert_eq!(known(&kinds), is_sent, "{capabilities}: {kinds:?}");
        let boolean = peer.log.iter().any(|message| message.to_string().contains("\"type\":\"boolean\""));
        assert!(!boolean, "boolean options need a capability");
    }
}

#[test]
fn a_prompt_is_taken_back_by_our_own_method() {
    let mut peer = Peer::start(home(), &[says("one"), says("two"), says("three")]);
    let answer = peer.call("initialize", json!({"protocolVersion": 1}));
    let methods = &answer["result"]["agentCapabilities"]["_meta"]["pollux"]["methods"];
    assert!(methods.as_array().unwrap().contains(&json!("_pollux/rewind")), "{answer}");
    let session = peer.session();
    peer.turn(&session, "first", "cancel");
    peer.turn(&session, "second", "cancel");
    let listed = peer.call("_pollux/rewind", json!({"sessionId": session}));
    let prompts = listed["result"]["prompts"].as_array().unwrap().clone();
    let texts: Vec<&str> = prompts.iter().map(|prompt| prompt["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["first", "second"]);
    let back = peer.call("_pollux/rewind", json!({"sessionId": session, "to": prompts[1]["id"]}));
    assert_eq!(back["result"]["to"], prompts[1]["id"], "{back}");
    let listed = peer.call("_pollux/rewind", json!({"sessionId": session}));
    assert_eq!(listed["result"]["prompts"].as_array().unwrap().len(), 1, "{listed}");
    let unknown = peer.call("_pollux/rewind", json!({"sessionId": session, "to": "no-such"}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    assert_eq!(peer.call("_pollux/unknown", json!({}))["error"]["code"], -32601);
}
