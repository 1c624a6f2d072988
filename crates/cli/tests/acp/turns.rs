//! Prompts, tool calls, permissions and cancelling.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::peer::{Peer, calls, home, prompt, reply, says};

fn write(path: &str, content: &str) -> String {
    calls("write_file", json!({"file_path": path, "content": content}))
}

fn shell(command: &str) -> String {
    calls("run_shell_command", json!({"command": command}))
}

/// The statuses of the only call, in order.
fn statuses(peer: &Peer) -> Vec<String> {
    let mut found = Vec::new();
    for message in &peer.log {
        let update = &message["params"]["update"];
        let is_call = ["tool_call", "tool_call_update"].iter().any(|kind| update["sessionUpdate"] == *kind);
        if let (true, Some(status)) = (is_call, update["status"].as_str()) {
            found.push(status.to_owned());
        }
        if message["method"] == "session/request_permission" {
            found.push("permission".to_owned());
        }
    }
    found
}

#[test]
fn a_prompt_is_answered_after_all_its_updates() {
    let thinks =
        reply(&[json!({"text": "**Looking**\nI look.", "thought": true}), json!({"text": "Hello."})]);
    let mut peer = Peer::ready(home(), &[thinks]);
    let session = peer.session();
    let answer = peer.turn(&session, "hi", "cancel");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(answer["result"]["usage"]["totalTokens"], 15);
    assert_eq!(answer["result"]["_meta"]["quota"]["token_count"]["output_tokens"], 5);
    assert_eq!(peer.said(), "Hello.");
    assert_eq!(peer.updates("agent_thought_chunk")[0]["content"]["text"], "**Looking**\nI look.");
    assert!(peer.updates("agent_message_chunk")[0]["messageId"].is_string());
    assert!(!peer.updates("usage_update").is_empty());
    assert_eq!(peer.log.last(), Some(&answer));
    assert!(!peer.updates("available_commands_update").is_empty());
}

#[test]
fn a_new_file_is_shown_as_a_diff_and_written_after_approval() {
    let mut peer = Peer::ready(home(), &[write("hello.txt", "hello\n"), says("done")]);
    let session = peer.session();
    let path = peer.project().join("hello.txt");
    let answer = peer.turn(&session, "write", "proceed_once");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(statuses(&peer), ["pending", "permission", "in_progress", "completed"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "hello\n");
    let call = peer.updates("tool_call")[0];
    assert_eq!((&call["kind"], &call["name"]), (&json!("edit"), &json!("write_file")));
    assert_eq!(call["locations"][0]["path"], json!(path));
    assert_eq!(call["rawInput"]["content"], "hello\n");
    let diff = &peer.updates("tool_call_update").last().unwrap()["content"][0];
    assert_eq!(*diff, json!({"type": "diff", "path": path, "oldText": null, "newText": "hello\n"}));
    let asked = peer.log.iter().find(|message| message["method"] == "session/request_permission").unwrap();
    assert_eq!(asked["params"]["toolCall"]["content"][0], *diff);
    let kinds: Vec<&str> =
        asked["params"]["options"].as_array().unwrap().iter().filter_map(|o| o["kind"].as_str()).collect();
    assert!(kinds.contains(&"allow_once") && kinds.contains(&"reject_once"), "{kinds:?}");
}

#[test]
fn an_edit_shows_what_was_there() {
    let args =
        json!({"file_path": "a.txt", "instruction": "count", "old_string": "one", "new_string": "two"});
    let replace = calls("replace", args);
    let mut peer = Peer::ready(home().file("a.txt", "one\n"), &[replace, says("done")]);
    let session = peer.session();
    peer.turn(&session, "edit", "proceed_once");
    let diff = &peer.updates("tool_call_update").last().unwrap()["content"][0];
    assert_eq!((&diff["oldText"], &diff["newText"]), (&json!("one\n"), &json!("two\n")));
}

#[test]
fn output_appears_while_a_command_runs() {
    let command = "for i in 1 2 3 4 5 6; do echo line $i; sleep 0.4; done";
    let mut peer = Peer::ready(home(), &[shell(command), says("done")]);
    let session = peer.session();
    peer.turn(&session, "run", "proceed_once");
    let updates = peer.updates("tool_call_update");
    let live = updates.iter().filter(|update| update.get("status").is_none()).count();
    assert!(live >= 2, "{live} updates");
    let last = updates.last().unwrap();
    assert_eq!(last["status"], "completed");
    assert!(last["content"][0]["content"]["text"].as_str().unwrap().contains("line 6"), "{last}");
}

#[test]
fn a_refused_call_fails_and_the_turn_goes_on() {
    let answers: [Value; 3] = [
        json!({"result": {"outcome": {"outcome": "selected", "optionId": "cancel"}}}),
        json!({"result": {"outcome": {"outcome": "selected", "optionId": "no-such-option"}}}),
        json!({"error": {"code": -32603, "message": "broken"}}),
    ];
    for mut refusal in answers {
        let mut peer = Peer::ready(home(), &[write("hello.txt", "x"), says("went on")]);
        let session = peer.session();
        let id = peer.prompt(&session, "write");
        let asked = peer.asked("session/request_permission");
        refusal["jsonrpc"] = json!("2.0");
        refusal["id"] = asked["id"].clone();
        peer.send(&refusal);
        // A second answer is ignored.
        peer.select(&asked, "proceed_once");
        let answer = peer.answer(&id);
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        assert_eq!(statuses(&peer), ["pending", "permission", "failed"]);
        assert!(!peer.project().join("hello.txt").exists());
        assert_eq!(peer.said(), "went on");
    }
}

#[test]
fn cancelling_ends_a_running_command_and_the_next_prompt_works() {
    let mut peer = Peer::ready(home(), &[shell("touch begun; sleep 98.7"), says("after")]);
    let session = peer.session();
    let id = peer.prompt(&session, "run");
    let asked = peer.asked("session/request_permission");
    peer.select(&asked, "proceed_once");
    peer.wait_for("the call to run", |message| message["params"]["update"]["status"] == "in_progress");
    let started = Instant::now();
    while peer.processes("sleep 98.7").is_empty() {
        assert!(started.elapsed() < Duration::from_secs(30), "the command does not start");
        std::thread::park_timeout(Duration::from_millis(20));
    }
    peer.notify("session/cancel", json!({"sessionId": session}));
    let answer = peer.answer(&id);
    assert_eq!(answer["result"]["stopReason"], "cancelled");
    assert_eq!(statuses(&peer).last().map(String::as_str), Some("failed"));
    let started = Instant::now();
    while !peer.processes("sleep 98.7").is_empty() {
        assert!(started.elapsed() < Duration::from_secs(30), "the command survived");
        std::thread::park_timeout(Duration::from_millis(20));
    }
    assert_eq!(peer.turn(&session, "next", "cancel")["result"]["stopReason"], "end_turn");
    assert_eq!(peer.said(), "after");
}

#[test]
fn cancelling_withdraws_an_open_permission() {
    let mut peer = Peer::ready(home(), &[write("a.txt", "x"), says("after")]);
    let session = peer.session();
    let id = peer.prompt(&session, "write");
    let asked = peer.asked("session/request_permission");
    peer.notify("session/cancel", json!({"sessionId": session}));
    peer.respond(&asked, json!({"outcome": {"outcome": "cancelled"}}));
    assert_eq!(peer.answer(&id)["result"]["stopReason"], "cancelled");
    assert!(!peer.project().join("a.txt").exists());
    // The same by `$/cancel_request`.
    let id = peer.prompt(&session, "next");
    peer.notify("$/cancel_request", json!({"requestId": id}));
    let reason = peer.answer(&id)["result"]["stopReason"].clone();
    assert!(reason == "cancelled" || reason == "end_turn", "{reason}");
}

#[test]
fn a_permission_that_was_not_answered_is_withdrawn() {
    let mut peer = Peer::ready(home(), &[write("a.txt", "x"), says("after")]);
    let session = peer.session();
    let id = peer.prompt(&session, "write");
    let asked = peer.asked("session/request_permission");
    peer.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(peer.answer(&id)["result"]["stopReason"], "cancelled");
    let withdrawn = peer.log.iter().find(|message| message["method"] == "$/cancel_request");
    assert_eq!(withdrawn.unwrap()["params"]["requestId"], asked["id"]);
}

#[test]
fn cancelling_nothing_is_silent() {
    let mut peer = Peer::ready(home(), &[says("one")]);
    let session = peer.session();
    for id in [session.as_str(), session.as_str(), "no-such"] {
        peer.notify("session/cancel", json!({"sessionId": id}));
    }
    assert_eq!(peer.turn(&session, "go", "cancel")["result"]["stopReason"], "end_turn");
    assert_eq!(peer.said(), "one");
}

#[test]
fn a_second_prompt_is_refused_and_the_first_ends() {
    let mut peer = Peer::ready(home(), &[shell("touch begun; sleep 1"), says("first")]);
    let session = peer.session();
    let first = peer.prompt(&session, "one");
    let second = peer.call("session/prompt", prompt(&session, "two"));
    assert_eq!(second["error"]["code"], -32600);
    assert_eq!(second["error"]["message"], "A prompt is already running in this session.");
    let asked = peer.asked("session/request_permission");
    peer.select(&asked, "proceed_once");
    assert_eq!(peer.answer(&first)["result"]["stopReason"], "end_turn");
    assert_eq!(peer.said(), "first");
}

#[test]
fn sessions_run_side_by_side() {
    let mut peer = Peer::ready(home(), &[shell("touch begun; sleep 97.6"), says("done")]);
    let (slow, fast) = (peer.session(), peer.session());
    assert_ne!(slow, fast);
    let waiting = peer.prompt(&slow, "hang");
    let asked = peer.asked("session/request_permission");
    assert_eq!(asked["params"]["sessionId"], json!(slow));
    peer.select(&asked, "proceed_once");
    let answer = peer.turn(&fast, "refuse", "cancel");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    let said = peer.log.iter().find(|m| m["params"]["update"]["sessionUpdate"] == "agent_message_chunk");
    assert_eq!(said.unwrap()["params"]["sessionId"], json!(fast));
    let closed = peer.call("session/close", json!({"sessionId": slow}));
    assert_eq!(closed["result"], json!({}));
    let ended = peer.log.iter().find(|message| message["id"] == waiting && message.get("method").is_none());
    assert_eq!(ended.unwrap()["result"]["stopReason"], "cancelled");
}

#[test]
fn a_command_shows_its_output_and_ends_the_turn() {
    let mut peer = Peer::ready(home(), &[says("model")]);
    let session = peer.session();
    let answer = peer.turn(&session, "/about", "cancel");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert!(peer.said().contains("CLI Version"), "{}", peer.said());
    let names: Vec<String> = peer.updates("available_commands_update")[0]["availableCommands"]
        .as_array()
        .unwrap()
        .iter()
        .map(|command| command["name"].as_str().unwrap().to_owned())
        .collect();
    for name in ["about", "help", "memory", "mcp", "resume", "compress"] {
        assert!(names.iter().any(|known| known == name), "{names:?}");
    }
    assert!(!names.iter().any(|name| ["vim", "theme", "quit"].contains(&name.as_str())), "{names:?}");
    peer.turn(&session, "/vim", "cancel");
    assert!(peer.said().contains("/vim needs a terminal"));
    // `!` is for terminals: an editor's text never runs as a command by itself.
    peer.turn(&session, "!touch made", "cancel");
    assert!(!peer.project().join("made").exists());
}

#[test]
fn modes_and_models_are_changed_in_both_ways() {
    let mut peer = Peer::ready(home(), &[says("x")]);
    let session = peer.session();
    let answer = peer.call("session/set_mode", json!({"sessionId": session, "modeId": "autoEdit"}));
    assert_eq!(answer["result"], json!({}));
    assert_eq!(peer.updates("current_mode_update").len(), 1);
    assert_eq!(peer.updates("config_option_update").len(), 1);
    let set = json!({"sessionId": session, "configId": "mode", "value": "plan"});
    let answer = peer.call("session/set_config_option", set);
    assert_eq!(answer["result"]["configOptions"][0]["currentValue"], "plan");
    assert_eq!(peer.updates("current_mode_update").last().unwrap()["currentModeId"], "plan");
    let set = json!({"sessionId": session, "configId": "model", "value": "gemini-2.5-pro"});
    let answer = peer.call("session/set_config_option", set);
    assert_eq!(answer["result"]["configOptions"][1]["currentValue"], "gemini-2.5-pro");
    assert!(peer.call("session/set_model", json!({"sessionId": session, "modelId": "gemini-2.5-flash"}))["result"]
        .is_object());
    for (mode, field) in [("no-such", "modeId"), ("auto_edit", "modeId")] {
        let answer = peer.call("session/set_mode", json!({"sessionId": session, "modeId": mode}));
        assert_eq!(
            (&answer["error"]["code"], &answer["error"]["data"]["field"]),
            (&json!(-32602), &json!(field))
        );
    }
}

#[test]
fn a_forbidden_mode_is_refused_with_the_reason() {
    let home = home()
        .settings(json!({"security": {"disableYoloMode": true}, "general": {"sessionSummaries": false}}));
    let mut peer = Peer::ready(home, &[]);
    let session = peer.session();
    let answer = peer.call("session/set_mode", json!({"sessionId": session, "modeId": "yolo"}));
    assert_eq!(answer["error"]["code"], -32602);
    assert!(answer["error"]["message"].as_str().unwrap().contains("disableYoloMode"), "{answer}");
}

#[test]
fn content_of_every_kind_reaches_the_model() {
    let count = json!({"method": "countTokens", "response": {"totalTokens": 100}}).to_string() + "\n";
    let mut peer = Peer::ready(home().file("a.txt", "content of a"), &[count, says("seen")]);
    let session = peer.session();
    let link = format!("file://{}", peer.project().join("a.txt").display());
    let blocks = json!([
        {"type": "text", "text": "look at "},
        {"type": "resource_link", "name": "a.txt", "uri": link},
        {"type": "resource", "resource": {"uri": "file:///w/b.txt", "text": "unsaved text"}},
        {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
    ]);
    let answer = peer.call("session/prompt", json!({"sessionId": session, "prompt": blocks}));
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    peer.call("session/close", json!({"sessionId": session}));
    let recorded = recorded(&peer);
    for part in ["content of a", "unsaved text", "iVBORw0KGgo="] {
        assert!(recorded.contains(part), "{part}: {recorded}");
    }
    let session = peer.session();
    let answer = peer.call("session/prompt", json!({"sessionId": session, "prompt": [{"type": "video"}]}));
    assert_eq!(answer["error"]["code"], -32602);
}

#[test]
fn servers_of_the_client_belong_to_their_session() {
    let entry = pollux_test_support::mcp::server_entry("good");
    let env: Vec<Value> = entry["env"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    let server = json!({"name": "mine", "command": entry["command"], "args": entry["args"], "env": env});
    let broken = json!({"name": "broken", "command": "/no/such/program", "args": [], "env": []});
    let mut peer = Peer::ready(home(), &[calls("mcp_mine_echo", json!({"text": "ping"})), says("done")]);
    let before = std::fs::read(peer.home.gemini_dir().join("settings.json")).unwrap();
    let cwd = peer.project();
    let answer = peer.call("session/new", json!({"cwd": cwd, "mcpServers": [server, broken]}));
    let session = answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    let other = peer.session();
    let answer = peer.turn(&session, "call it", "proceed_once");
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(statuses(&peer).last().map(String::as_str), Some("completed"), "{:?}", peer.log);
    assert!(statuses(&peer).contains(&"permission".to_owned()));
    peer.log.clear();
    peer.turn(&other, "call it", "proceed_once");
    assert_eq!(
        statuses(&peer).last().map(String::as_str),
        Some("failed"),
        "the other session has no such tool"
    );
    assert_eq!(std::fs::read(peer.home.gemini_dir().join("settings.json")).unwrap(), before);
}

fn question() -> String {
    calls(
        "ask_user",
        json!({"questions": [
            {"question": "Which one?", "header": "Pick", "type": "choice", "options": [
                {"label": "A", "description": "the first"}, {"label": "B", "description": "the second"}]},
            {"question": "Why?", "header": "Why", "type": "text"},
        ]}),
    )
}

#[test]
fn the_model_asks_in_a_form_where_the_client_has_them() {
    let capabilities = json!({"elicitation": {"form": {}}});
    let mut peer = Peer::ready_with(home(), &[question(), says("done")], capabilities);
    let session = peer.session();
    let id = peer.prompt(&session, "ask me");
    let asked = peer.asked("elicitation/create");
    let properties = &asked["params"]["requestedSchema"]["properties"];
    assert_eq!(properties["q0"]["oneOf"][1]["const"], "B", "{asked}");
    assert_eq!(properties["q1"]["type"], "string");
    peer.respond(&asked, json!({"action": "accept", "content": {"q0": "B", "q1": "because"}}));
    assert_eq!(peer.answer(&id)["result"]["stopReason"], "end_turn");
    let last = peer.updates("tool_call_update").last().unwrap().to_string();
    assert!(last.contains("completed") && last.contains("because"), "{last}");
}

#[test]
fn without_forms_the_model_cannot_ask() {
    let mut peer = Peer::ready(home(), &[question(), says("done")]);
    let session = peer.session();
    let answer = peer.turn(&session, "/tools", "cancel");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert!(peer.said().contains("read_file") && !peer.said().contains("ask_user"), "{}", peer.said());
    peer.turn(&session, "ask me", "proceed_once");
    assert_eq!(statuses(&peer).last().map(String::as_str), Some("failed"));
}

/// All session files of the home as text.
fn recorded(peer: &Peer) -> String {
    let mut folders = vec![peer.home.gemini_dir()];
    let mut text = String::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => folders.push(path),
                false => text.push_str(&String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default())),
            }
        }
    }
    text
}
