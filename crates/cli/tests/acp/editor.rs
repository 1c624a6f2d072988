//! What the editor lends: its files, with what is not saved yet, and MCP servers of its own.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::peer::{Peer, calls, home, says};

/// What the editor has open, by path.
type Buffers = BTreeMap<String, String>;

fn both() -> Value {
    json!({"fs": {"readTextFile": true, "writeTextFile": true}})
}

/// Runs a prompt to its end; files come from the buffers and are written to them and to disk.
fn turn(peer: &mut Peer, session: &str, buffers: &mut Buffers, fails: Option<&Value>) -> Value {
    let id = peer.prompt(session, "go");
    loop {
        let message = peer.next();
        if message.get("method").is_none() && message["id"] == id {
            return message;
        }
        let path = message["params"]["path"].as_str().unwrap_or_default().to_owned();
        match (message["method"].as_str().unwrap_or_default(), fails) {
            ("session/request_permission", _) => peer.select(&message, "proceed_once"),
            ("fs/read_text_file" | "fs/write_text_file", Some(error)) => {
                peer.send(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}));
            }
            ("fs/read_text_file", None) => match buffers.get(&path) {
                Some(text) => peer.respond(&message, json!({"content": text})),
                None => {
                    let text = std::fs::read_to_string(&path).unwrap();
                    peer.respond(&message, json!({"content": text}));
                }
            },
            ("fs/write_text_file", None) => {
                let text = message["params"]["content"].as_str().unwrap().to_owned();
                std::fs::write(&path, &text).unwrap();
                buffers.insert(path, text);
                peer.respond(&message, Value::Null);
            }
            _ => {}
        }
    }
}

fn asked(peer: &Peer, method: &str) -> Vec<String> {
    let asked = peer.log.iter().filter(|message| message["method"] == method);
    asked.map(|message| message["params"]["path"].as_str().unwrap().to_owned()).collect()
}

/// The last text of every finished call.
fn results(peer: &Peer) -> Vec<String> {
    let updates = peer.log.iter().map(|message| &message["params"]["update"]);
    let ended = updates.filter(|update| ["completed", "failed"].iter().any(|word| update["status"] == *word));
    ended.map(ToString::to_string).collect()
}

#[test]
fn the_model_reads_and_changes_what_is_not_saved_yet() {
    let replies = [
        calls("read_file", json!({"file_path": "a.txt"})),
        calls(
            "replace",
            json!({"file_path": "a.txt", "instruction": "x", "old_string": "in the buffer", "new_string": "changed"}),
        ),
        calls("write_file", json!({"file_path": "new/b.txt", "content": "new\n"})),
        says("done"),
    ];
    let mut peer = Peer::ready_with(home(), &replies, both());
    let path = peer.project().join("a.txt");
    std::fs::write(&path, "on disk\n").unwrap();
    let mut buffers = Buffers::from([(path.display().to_string(), "in the buffer\n".to_owned())]);
    let session = peer.session();
    let answer = turn(&mut peer, &session, &mut buffers, None);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert!(results(&peer).iter().all(|result| result.contains("completed")), "{:#?}", results(&peer));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "changed\n");
    let created = peer.project().join("new/b.txt");
    assert_eq!(std::fs::read_to_string(&created).unwrap(), "new\n");
    let written = asked(&peer, "fs/write_text_file");
    assert_eq!(written, [path.display().to_string(), created.display().to_string()]);
    let permission =
        peer.log.iter().find(|message| message["method"] == "session/request_permission").unwrap();
    let diff = permission["params"]["toolCall"]["content"]
        .as_array()
        .unwrap()
        .iter()
        .find(|item| item["type"] == "diff")
        .unwrap();
    assert_eq!((&diff["oldText"], &diff["newText"]), (&json!("in the buffer\n"), &json!("changed\n")));
    let root = peer.project().display().to_string();
    assert!(asked(&peer, "fs/read_text_file").iter().chain(&written).all(|path| path.starts_with(&root)));
}

#[test]
fn an_editor_that_fails_is_replaced_by_the_disk_and_that_is_said_once() {
    for (error, is_told) in [
        (json!({"code": -32603, "message": "buffer is locked"}), true),
        (json!({"code": -32002, "message": "x"}), false),
    ] {
        let replies = [
            calls("read_file", json!({"file_path": "a.txt"})),
            calls("read_file", json!({"file_path": "a.txt"})),
            says("done"),
        ];
        let mut peer = Peer::ready_with(home(), &replies, both());
        std::fs::write(peer.project().join("a.txt"), "on disk\n").unwrap();
        let session = peer.session();
        turn(&mut peer, &session, &mut Buffers::new(), Some(&error));
        assert_eq!(results(&peer).len(), 2);
        assert!(results(&peer).iter().all(|result| result.contains("completed")), "{:#?}", results(&peer));
        let told =
            peer.log.iter().filter(|message| message.to_string().contains("using the disk instead")).count();
        assert_eq!(told, usize::from(is_told), "{error}");
    }
}

#[test]
fn files_that_are_no_text_and_editors_that_cannot_are_not_asked() {
    let read = || calls("read_file", json!({"file_path": "a.bin"}));
    let mut peer = Peer::ready_with(home(), &[read(), says("done")], both());
    std::fs::write(peer.project().join("a.bin"), b"\x00\xff\x00binary").unwrap();
    let session = peer.session();
    turn(&mut peer, &session, &mut Buffers::new(), None);
    assert!(asked(&peer, "fs/read_text_file").is_empty());
    let write = calls("write_file", json!({"file_path": "a.txt", "content": "x\n"}));
    let mut peer = Peer::ready_with(home(), &[write, says("done")], json!({"fs": {"readTextFile": true}}));
    let session = peer.session();
    turn(&mut peer, &session, &mut Buffers::new(), None);
    assert!(asked(&peer, "fs/write_text_file").is_empty());
    assert_eq!(peer.home.read("a.txt"), "x\n");
}

/// Answers requests about terminals as an editor with one terminal does, until the prompt ends.
fn terminal_turn(peer: &mut Peer, session: &str, exits: bool) -> Value {
    let id = peer.prompt(session, "go");
    loop {
        let message = peer.next();
        if message.get("method").is_none() && message["id"] == id {
            return message;
        }
        match message["method"].as_str().unwrap_or_default() {
            "session/request_permission" => peer.select(&message, "proceed_once"),
            "terminal/create" => peer.respond(&message, json!({"terminalId": "t1"})),
            "terminal/wait_for_exit" if exits => {
                peer.respond(&message, json!({"exitCode": 3, "signal": null}))
            }
            "terminal/wait_for_exit" => peer.notify("session/cancel", json!({"sessionId": session})),
            "terminal/output" => {
                peer.respond(&message, json!({"output": "printed in the editor", "truncated": false}))
            }
            "terminal/kill" | "terminal/release" => peer.respond(&message, json!({})),
            _ => {}
        }
    }
}

fn methods(peer: &Peer) -> Vec<&str> {
    let methods = peer.log.iter().filter_map(|message| message["method"].as_str());
    methods.filter(|method| method.starts_with("terminal/")).collect()
}

fn without_sandbox(more: Value) -> pollux_test_support::TestHome {
    let mut settings = json!({"tools": {"sandbox": false}});
    settings.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    home().settings(settings)
}

#[test]
fn commands_run_in_the_editors_terminal_if_the_user_wants_it() {
    let run = || calls("run_shell_command", json!({"command": "echo own"}));
    let wish = json!({"acp": {"terminal": "client"}});
    let can = json!({"terminal": true});
    let mut peer = Peer::ready_with(without_sandbox(wish.clone()), &[run(), says("done")], can.clone());
    let session = peer.session();
    terminal_turn(&mut peer, &session, true);
    let expected = ["terminal/create", "terminal/wait_for_exit", "terminal/output", "terminal/release"];
    assert_eq!(methods(&peer), expected);
    let created = peer.log.iter().find(|message| message["method"] == "terminal/create").unwrap();
    assert_eq!(created["params"]["args"], json!(["-c", "echo own"]));
    let terminal = json!([{"type": "terminal", "terminalId": "t1"}]);
    let shown =
        peer.updates("tool_call_update").iter().filter(|update| update["content"] == terminal).count();
    assert!(shown >= 1, "{:#?}", peer.log);
    let last = results(&peer).pop().unwrap();
    assert!(last.contains("printed in the editor") && last.contains("t1"), "{last}");

    // A cancelled command is killed and its terminal given back.
    let mut peer = Peer::ready_with(without_sandbox(wish), &[run(), says("done")], can.clone());
    let session = peer.session();
    let answer = terminal_turn(&mut peer, &session, false);
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    assert!(
        methods(&peer).ends_with(&["terminal/kill", "terminal/output", "terminal/release"]),
        "{:?}",
        methods(&peer)
    );

    // By default commands are Pollux's own.
    let mut peer = Peer::ready_with(without_sandbox(json!({})), &[run(), says("done")], can);
    let session = peer.session();
    terminal_turn(&mut peer, &session, true);
    assert_eq!(methods(&peer), Vec::<&str>::new());
    assert!(results(&peer).pop().unwrap().contains("own"));
}

#[test]
fn a_server_inside_of_the_editor_offers_tools() {
    let replies = [calls("mcp_calc_add", json!({"a": 1})), says("done")];
    let mut peer = Peer::ready(home(), &replies);
    let servers = json!([{"type": "acp", "name": "calc", "serverId": "s-1"}]);
    let cwd = peer.project();
    let opening = peer.request("session/new", json!({"cwd": cwd, "mcpServers": servers}));
    // The server may be asked before the session is open.
    let (mut session, mut listed, mut prompt): (Option<String>, _, _) = (None, false, None);
    loop {
        if let (Some(session), true, None) = (&session, listed, &prompt) {
            prompt = Some(peer.prompt(session, "add"));
        }
        let message = peer.next();
        if message.get("method").is_none() && message.get("id") == Some(&opening) {
            session = message["result"]["sessionId"].as_str().map(str::to_owned);
        }
        if prompt.is_some() && message.get("method").is_none() && message.get("id") == prompt.as_ref() {
            assert_eq!(message["result"]["stopReason"], "end_turn", "{message}");
            break;
        }
        match message["method"].as_str() {
            Some("session/request_permission") => peer.select(&message, "proceed_once"),
            Some("mcp/message") => {
                assert_eq!(message["params"]["serverId"], "s-1");
                let given = &message["params"];
                let result = match given["method"].as_str().unwrap() {
                    "initialize" => json!({"protocolVersion": given["params"]["protocolVersion"],
                        "capabilities": {"tools": {}}, "serverInfo": {"name": "calc", "version": "1"}}),
                    "tools/list" => json!({"tools": [{"name": "add", "inputSchema": {"type": "object"}}]}),
                    "tools/call" => json!({"content": [{"type": "text", "text": "the sum is 3"}]}),
                    other => panic!("{other}"),
                };
                listed |= given["method"] == "tools/list";
                peer.respond(&message, json!({"result": result}));
            }
            _ => {}
        }
    }
    assert!(results(&peer)[0].contains("the sum is 3"), "{:#?}", results(&peer));
}
