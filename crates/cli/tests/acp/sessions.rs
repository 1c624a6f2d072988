//! Sessions that are loaded, resumed, forked, listed and deleted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::peer::{Peer, calls, home, reply, says};

/// Every file below a folder that belongs to a session, with its content.
fn session_files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(session_files(&path));
        } else if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("session-")) {
            let content = std::fs::read(&path).unwrap();
            found.insert(path, content);
        }
    }
    found
}

/// A session with a thought, a diff and an answer, left by a client that is gone.
fn left_session(peer: &mut Peer) -> String {
    let session = peer.session();
    assert_eq!(peer.turn(&session, "first prompt", "proceed_once")["result"]["stopReason"], "end_turn");
    session
}

fn replies() -> Vec<String> {
    let thought = json!({"text": "**Writing**\nI write.", "thought": true});
    let call =
        json!({"functionCall": {"name": "write_file", "args": {"file_path": "a.txt", "content": "new\n"}}});
    vec![reply(&[thought, call]), says("first answer"), says("second answer")]
}

/// Another client in the same home.
fn again(peer: Peer, replies: &[String]) -> Peer {
    let mut peer = peer;
    peer.close_input();
    assert_eq!(peer.end().0, Some(0));
    peer.again(replies)
}

fn params(peer: &Peer, session: &str) -> Value {
    json!({"sessionId": session, "cwd": peer.project(), "mcpServers": []})
}

#[test]
fn loading_replays_everything_before_the_answer_and_writes_nothing() {
    let mut peer = Peer::ready(home(), &replies());
    let session = left_session(&mut peer);
    let mut peer = again(peer, &[says("after load")]);
    let before = session_files(&peer.home.gemini_dir());
    let load = params(&peer, &session);
    let answer = peer.call("session/load", load);
    assert!(answer["result"]["modes"]["currentModeId"].is_string(), "{answer}");
    assert_eq!(peer.log.last(), Some(&answer));
    assert_eq!(session_files(&peer.home.gemini_dir()), before);
    let text = |kind: &str| {
        let chunks = peer.updates(kind);
        chunks.iter().filter_map(|chunk| chunk["content"]["text"].as_str()).collect::<String>()
    };
    assert_eq!(text("user_message_chunk"), "first prompt");
    assert_eq!(text("agent_message_chunk"), "first answer");
    assert!(text("agent_thought_chunk").contains("Writing"));
    let call = peer.updates("tool_call")[0];
    assert_eq!((&call["status"], &call["kind"]), (&json!("completed"), &json!("edit")));
    assert_eq!(call["content"][0]["type"], "diff");
    assert_eq!(
        (&call["content"][0]["oldText"], &call["content"][0]["newText"]),
        (&Value::Null, &json!("new\n"))
    );
    peer.turn(&session, "second prompt", "cancel");
    assert!(peer.said().ends_with("after load"));
    peer.call("session/close", json!({"sessionId": session}));
    let after = session_files(&peer.home.gemini_dir());
    assert_eq!(after.len(), before.len(), "it is the same file");
    let whole = String::from_utf8_lossy(after.values().next().unwrap()).into_owned();
    assert!(whole.contains("first prompt") && whole.contains("second prompt"));
}

#[test]
fn a_session_of_a_killed_process_is_whole() {
    let mut peer = Peer::ready(home(), &replies());
    let session = left_session(&mut peer);
    peer.child.kill().unwrap();
    peer.child.wait().unwrap();
    let mut peer = peer.again(&[says("x")]);
    let load = params(&peer, &session);
    assert!(peer.call("session/load", load)["result"].is_object());
    assert_eq!(peer.updates("user_message_chunk").len(), 1);
}

#[test]
fn resuming_replays_nothing_and_the_model_knows_the_past() {
    let mut peer = Peer::ready(home(), &replies());
    let session = left_session(&mut peer);
    let mut peer = again(peer, &[says("resumed")]);
    let resume = params(&peer, &session);
    assert!(peer.call("session/resume", resume)["result"].is_object());
    assert!(peer.updates("user_message_chunk").is_empty() && peer.updates("tool_call").is_empty());
    peer.turn(&session, "second prompt", "cancel");
    let view = peer.turn(&session, "/stats", "cancel");
    assert_eq!(view["result"]["stopReason"], "end_turn");
}

#[test]
fn a_session_in_use_is_refused_with_its_owner_and_can_be_forked() {
    let mut peer = Peer::ready(home(), &replies());
    let session = left_session(&mut peer);
    let owner = peer.pid();
    let mut other = peer.beside(&[says("in the fork")]);
    let load = json!({"sessionId": session, "cwd": other.project(), "mcpServers": []});
    let answer = other.call("session/load", load.clone());
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert_eq!(
        (&answer["error"]["data"]["pid"], &answer["error"]["data"]["fork"]),
        (&json!(owner), &json!(true))
    );
    let answer = other.call("session/delete", json!({"sessionId": session}));
    assert_eq!(answer["error"]["data"]["pid"], json!(owner));
    let before = session_files(&other.home.gemini_dir());
    let answer = other.call("session/fork", load);
    let fork = answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    assert_ne!(fork, session);
    other.turn(&fork, "go on", "cancel");
    assert_eq!(other.said(), "in the fork");
    let after = session_files(&other.home.gemini_dir());
    assert!(before.iter().all(|(path, content)| after.get(path) == Some(content)), "the first is unchanged");
    assert_eq!(after.len(), before.len() + 1);
}

#[test]
fn unknown_sessions_are_not_found() {
    let mut peer = Peer::ready(home(), &[]);
    for method in ["session/load", "session/resume", "session/fork"] {
        let params = params(&peer, "no-such-session");
        let answer = peer.call(method, params);
        assert_eq!(answer["error"]["code"], -32002, "{answer}");
        assert_eq!(answer["error"]["data"]["sessionId"], "no-such-session");
    }
    assert_eq!(peer.call("session/close", json!({"sessionId": "x"}))["error"]["code"], -32002);
    assert_eq!(peer.call("session/delete", json!({"sessionId": "x"}))["result"], json!({}));
    assert_eq!(peer.call("session/status", json!({"sessionId": "x"}))["error"]["code"], -32002);
}

#[test]
fn sessions_are_listed_and_deleted() {
    let mut peer = Peer::ready(home(), &[says("one")]);
    assert_eq!(peer.call("session/list", json!({}))["result"], json!({"sessions": []}));
    let first = peer.session();
    peer.turn(&first, "a first prompt", "cancel");
    let second = peer.session();
    peer.turn(&second, "a second prompt", "cancel");
    let cwd = peer.project();
    let answer = peer.call("session/list", json!({"cwd": cwd}));
    let listed = answer["result"]["sessions"].as_array().unwrap();
    let ids: Vec<&str> = listed.iter().map(|row| row["sessionId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2, "{answer}");
    assert!(ids.contains(&first.as_str()) && ids.contains(&second.as_str()));
    assert_eq!(listed[0]["cwd"], json!(cwd));
    assert_eq!(peer.call("session/list", json!({"cwd": "/"}))["result"]["sessions"], json!([]));
    for bad in [json!({"cursor": "x"}), json!({"cwd": "relative"})] {
        assert_eq!(peer.call("session/list", bad)["error"]["code"], -32602);
    }
    assert_eq!(peer.call("session/status", json!({"sessionId": first}))["result"]["status"], "open");
    assert_eq!(peer.call("session/close", json!({"sessionId": first}))["result"], json!({}));
    assert_eq!(peer.call("session/status", json!({"sessionId": first}))["result"]["status"], "saved");
    // One that is open is closed first.
    for id in [&first, &second] {
        assert_eq!(peer.call("session/delete", json!({"sessionId": id}))["result"], json!({}));
    }
    assert_eq!(peer.call("session/list", json!({}))["result"]["sessions"], json!([]));
    assert!(session_files(&peer.home.gemini_dir()).is_empty());
}

#[test]
fn long_lists_come_in_pages() {
    let mut peer = Peer::ready(home(), &[says("one")]);
    let session = peer.session();
    peer.turn(&session, "a prompt", "cancel");
    peer.call("session/close", json!({"sessionId": session}));
    let files = session_files(&peer.home.gemini_dir());
    let (path, content) = files.iter().next().unwrap();
    let text = String::from_utf8_lossy(content).into_owned();
    for n in 0..109 {
        let id = format!("00000000-0000-4000-8000-{n:012}");
        let name = path
            .file_name()
            .unwrap()
            .to_string_lossy()
            .replace(session.get(..8).unwrap(), &format!("{n:08}"));
        std::fs::write(path.with_file_name(name), text.replace(&session, &id)).unwrap();
    }
    let (mut cursor, mut sizes) = (Value::Null, Vec::new());
    loop {
        let answer = peer.call("session/list", json!({"cursor": cursor}));
        sizes.push(answer["result"]["sessions"].as_array().unwrap().len());
        cursor = answer["result"]["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(sizes, [50, 50, 10]);
}

#[test]
fn the_command_line_can_name_the_first_session() {
    let mut peer = Peer::ready(home(), &replies());
    let session = left_session(&mut peer);
    peer.close_input();
    peer.end();
    let mut peer = peer.again_with(&[says("x")], &["--acp", "--resume", &session]);
    assert_eq!(peer.session(), session);
    assert_ne!(peer.session(), session);
}

#[test]
fn an_untrusted_folder_opens_without_its_own_settings() {
    let home = pollux_test_support::TestHome::new()
        .settings(
            json!({"general": {"sessionSummaries": false}, "security": {"folderTrust": {"enabled": true}}}),
        )
        .project_settings(json!({"general": {"defaultApprovalMode": "auto_edit"}}));
    let mut peer = Peer::ready_with(
        home,
        &[calls("list_directory", json!({"dir_path": "."})), says("x")],
        json!({
            "session": {"notices": {}},
        }),
    );
    let cwd = peer.project();
    let answer = peer.call("session/new", json!({"cwd": cwd, "mcpServers": []}));
    assert_eq!(answer["result"]["modes"]["currentModeId"], "default", "{answer}");
    let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
    peer.turn(&session, "go", "cancel");
    let notices = peer.updates("notice");
    assert!(
        notices.iter().any(|notice| notice["title"].as_str().unwrap().contains("not trusted")),
        "{notices:?}"
    );
    let answer = peer.call("session/set_mode", json!({"sessionId": session, "modeId": "yolo"}));
    assert_eq!(answer["error"]["code"], -32602);
}

#[test]
fn instructions_of_the_client_are_appended_and_never_replace_ours() {
    let mut peer = Peer::ready(home(), &[]);
    let cwd = peer.project();
    let with = |mode: &str| {
        let content = json!([{"type": "text", "text": "Answer in French."}]);
        json!({"cwd": cwd, "mcpServers": [], "systemPrompt": {"mode": mode, "content": content}})
    };
    let refused = peer.call("session/new", with("override"));
    assert_eq!(refused["error"]["data"]["field"], "systemPrompt", "{refused}");
    let answer = peer.call("session/new", with("append"));
    let session = answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    // The scripted model is used up, and its error tells what was sent.
    let answer = peer.turn(&session, "hello", "cancel");
    assert!(answer["error"]["message"].as_str().unwrap().contains("Answer in French."), "{answer}");
}
