//! Titles, and the methods of our own: the queue, explanations and joining a session.

use serde_json::{Value, json};

use crate::peer::{Peer, calls, home, says};

fn write(path: &str) -> String {
    calls("write_file", json!({"file_path": path, "content": "x\n"}))
}

/// The titles that were told.
fn titles(peer: &Peer) -> Vec<String> {
    let updates = peer.updates("session_info_update");
    updates.iter().filter_map(|update| update["title"].as_str().map(str::to_owned)).collect()
}

fn listed_title(peer: &mut Peer, session: &str) -> Value {
    let params = json!({"cwd": peer.project()});
    let listed = peer.call("session/list", params);
    let sessions = listed["result"]["sessions"].as_array().unwrap().clone();
    sessions.iter().find(|listed| listed["sessionId"] == session).unwrap()["title"].clone()
}

#[test]
fn a_title_is_stored_at_once_also_while_a_turn_runs_and_for_sessions_that_are_not_open() {
    let mut peer = Peer::start(home(), &[write("a.txt"), says("one"), says("two")]);
    let answer = peer.call("initialize", json!({"protocolVersion": 1}));
    assert_eq!(answer["result"]["agentCapabilities"]["sessionCapabilities"]["title"], json!({}), "{answer}");
    let session = peer.session();
    let set = |title: &str| json!({"sessionId": session, "title": title});
    let early = peer.call("session/set_title", set("  Before the first prompt "));
    assert_eq!(early["result"]["title"], "Before the first prompt", "{early}");
    let id = peer.prompt(&session, "write");
    let asked = peer.asked("session/request_permission");
    assert_eq!(listed_title(&mut peer, &session), "Before the first prompt");
    let during = peer.call("session/set_title", set("While a call waits"));
    assert_eq!(during["result"]["title"], "While a call waits", "{during}");
    assert_eq!(listed_title(&mut peer, &session), "While a call waits", "stored before the answer");
    peer.select(&asked, "proceed_once");
    assert_eq!(peer.answer(&id)["result"]["stopReason"], "end_turn");
    assert_eq!(titles(&peer), ["Before the first prompt", "While a call waits"]);
    let long = "x".repeat(201);
    for bad in ["", "   ", "two\nlines", "\u{1b}[31mred", long.as_str()] {
        let refused = peer.call("session/set_title", set(bad));
        assert_eq!(refused["error"]["code"], -32602, "{bad:?}: {refused}");
        assert_eq!(refused["error"]["data"]["field"], "title", "{refused}");
    }
    let missing = peer.call("session/set_title", json!({"sessionId": session}));
    assert_eq!(missing["error"]["code"], -32602);
    let unknown = peer.call("session/set_title", json!({"sessionId": "no-such", "title": "x"}));
    assert_eq!(unknown["error"]["code"], -32002, "{unknown}");
    // Another process cannot change it meanwhile, and can afterwards.
    let mut other = peer.beside(&[]);
    other.call("initialize", json!({"protocolVersion": 1}));
    let used = other.call("session/set_title", set("stolen"));
    assert_eq!((&used["error"]["code"], &used["error"]["data"]["pid"]), (&json!(-32602), &json!(peer.pid())));
    assert_eq!(peer.turn(&session, "go on", "cancel")["result"]["stopReason"], "end_turn");
    peer.call("session/close", json!({"sessionId": session}));
    assert_eq!(other.call("session/set_title", set("Afterwards"))["result"]["title"], "Afterwards");
    assert_eq!(listed_title(&mut other, &session), "Afterwards");
    // Nothing of the conversation was lost on the way.
    let params = json!({"sessionId": session, "cwd": other.project(), "mcpServers": []});
    assert!(other.call("session/load", params).get("result").is_some());
    assert_eq!(other.said(), "onetwo");
}

fn queue(peer: &mut Peer, session: &str, change: Value) -> Value {
    let mut params = json!({"sessionId": session});
    params.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    peer.call("_pollux/queue", params)
}

fn text(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

#[test]
fn prompts_wait_for_the_running_turn_and_can_be_taken_back() {
    let mut peer = Peer::ready(home(), &[write("a.txt"), says("one"), says("two"), says("three")]);
    let session = peer.session();
    let id = peer.prompt(&session, "first");
    let asked = peer.asked("session/request_permission");
    assert_eq!(queue(&mut peer, &session, json!({}))["result"]["queue"], json!([]));
    let second = queue(&mut peer, &session, json!({"add": text("second")}));
    let waits = second["result"]["added"].as_str().unwrap().to_owned();
    assert_eq!(second["result"]["queue"][0]["text"], "second", "{second}");
    let third = queue(&mut peer, &session, json!({"add": text("unwanted")}));
    assert_eq!(third["result"]["queue"].as_array().unwrap().len(), 2, "{third}");
    let unwanted = third["result"]["added"].clone();
    let left = queue(&mut peer, &session, json!({"remove": unwanted}));
    assert_eq!(left["result"]["queue"].as_array().unwrap().len(), 1, "{left}");
    assert_eq!(left["result"]["queue"][0]["id"], waits);
    for (bad, code) in [
        (json!({"remove": "no-such"}), -32602),
        (json!({"add": "text"}), -32602),
        (json!({"add": text("x"), "remove": "y"}), -32602),
        (json!({"add": text("/help")}), -32600),
    ] {
        let refused = queue(&mut peer, &session, bad.clone());
        assert_eq!(refused["error"]["code"], code, "{bad}: {refused}");
    }
    for number in 1..16 {
        let added = queue(&mut peer, &session, json!({"add": text(&format!("more {number}"))}));
        assert!(added.get("result").is_some(), "{added}");
    }
    let full = queue(&mut peer, &session, json!({"add": text("too many")}));
    assert_eq!(full["error"]["code"], -32600, "{full}");
    let all = queue(&mut peer, &session, json!({}))["result"]["queue"].as_array().unwrap().clone();
    for prompt in &all[1..] {
        queue(&mut peer, &session, json!({"remove": prompt["id"]}));
    }
    peer.select(&asked, "proceed_once");
    assert_eq!(peer.answer(&id)["result"]["stopReason"], "end_turn");
    peer.wait_for("the second answer", |message| {
        message["params"]["update"]["content"]["text"].as_str().is_some_and(|said| said.contains("two"))
    });
    let prompts = peer.updates("user_message_chunk");
    assert_eq!(prompts.last().unwrap()["content"]["text"], "second", "the client is shown what runs");
    assert_eq!(queue(&mut peer, &session, json!({}))["result"]["queue"], json!([]));
    // A prompt of the client is answered when its own turn has ended.
    assert_eq!(peer.turn(&session, "third", "cancel")["result"]["stopReason"], "end_turn");
    assert!(peer.said().ends_with("three"), "{}", peer.said());
}

#[test]
fn a_queued_turn_can_be_cancelled_and_a_prompt_waits_for_it() {
    let sleep = calls("run_shell_command", json!({"command": "touch begun; sleep 100"}));
    let mut peer = Peer::ready(home(), &[write("a.txt"), says("one"), sleep, says("own")]);
    let session = peer.session();
    let id = peer.prompt(&session, "first");
    let asked = peer.asked("session/request_permission");
    queue(&mut peer, &session, json!({"add": text("sleep")}));
    peer.select(&asked, "proceed_once");
    peer.answer(&id);
    let asked = peer.asked("session/request_permission");
    let own = peer.prompt(&session, "mine");
    peer.select(&asked, "proceed_once");
    peer.wait_for("the command", |message| message["params"]["update"]["status"] == "in_progress");
    assert!(peer.log.iter().all(|message| message["id"] != own), "not answered with another turn");
    // Withdraws the prompt that waits, and ends what runs.
    peer.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(peer.answer(&own)["result"]["stopReason"], "cancelled");
}

#[test]
fn calls_are_explained_and_never_made() {
    let mut peer = Peer::ready(home(), &[write("a.txt"), says("done")]);
    let session = peer.session();
    let explain = |tool: &str, args: Value| json!({"sessionId": session, "tool": tool, "args": args});
    let command = |text: &str| explain("run_shell_command", json!({"command": text}));
    let asks = peer.call("_pollux/explain", command("touch made.txt && ls"));
    assert_eq!(asks["result"]["decision"], "ask", "{asks}");
    assert_eq!(asks["result"]["parts"].as_array().unwrap().len(), 2, "{asks}");
    assert!(!asks["result"]["reason"].as_str().unwrap().is_empty());
    let reads = peer.call("_pollux/explain", explain("list_directory", json!({"dir_path": "."})));
    assert_eq!(reads["result"]["decision"], "allow", "{reads}");
    for impossible in [explain("no_such_tool", json!({})), explain("read_file", json!({}))] {
        let denied = peer.call("_pollux/explain", impossible);
        assert_eq!(denied["result"]["decision"], "deny", "{denied}");
        assert_eq!(denied["result"]["rule"], Value::Null);
    }
    let bad = peer.call("_pollux/explain", json!({"sessionId": session, "tool": "glob", "args": []}));
    assert_eq!(bad["error"]["data"]["field"], "args", "{bad}");
    // Also while a question is open, and in the mode of then.
    let id = peer.prompt(&session, "write");
    let asked = peer.asked("session/request_permission");
    let edit = explain("write_file", json!({"file_path": "b.txt", "content": "x"}));
    assert_eq!(peer.call("_pollux/explain", edit.clone())["result"]["decision"], "ask");
    peer.call("session/set_mode", json!({"sessionId": session, "modeId": "autoEdit"}));
    assert_eq!(peer.call("_pollux/explain", edit)["result"]["decision"], "allow");
    peer.select(&asked, "cancel");
    peer.answer(&id);
    let made: Vec<_> =
        std::fs::read_dir(peer.project()).unwrap().flatten().map(|it| it.file_name()).collect();
    assert!(!made.iter().any(|name| ["made.txt", "a.txt", "b.txt"].iter().any(|it| name == *it)), "{made:?}");
}

#[test]
fn only_sessions_of_the_core_can_be_joined() {
    let mut peer = Peer::ready(home(), &[says("one")]);
    let session = peer.session();
    peer.turn(&session, "first", "cancel");
    let open = peer.call("_pollux/attach", json!({"sessionId": session}));
    assert_eq!(open["error"]["code"], -32600, "{open}");
    peer.call("session/close", json!({"sessionId": session}));
    let saved = peer.call("_pollux/attach", json!({"sessionId": session}));
    assert_eq!(saved["error"]["code"], -32602, "{saved}");
    let unknown = peer.call("_pollux/attach", json!({"sessionId": "no-such"}));
    assert_eq!(unknown["error"]["code"], -32002, "{unknown}");
}
