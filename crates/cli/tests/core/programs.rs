//! Editors and scripts that join sessions of the core.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, channel};

use pollux_test_support::mcp::server_entry;
use pollux_test_support::{TestHome, reply};
use serde_json::{Value, json};

use crate::scene::{MODEL, PATIENCE, PLACEHOLDER, Scene, quiet, until};

/// A program that speaks JSON on its streams.
struct Lines {
    child: Child,
    input: ChildStdin,
    output: Receiver<Value>,
    /// What arrived so far.
    log: Vec<Value>,
}

impl Lines {
    fn start(scene: &Scene, args: &[&str]) -> Self {
        let mut child = scene.prepare(args).start();
        let input = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, output) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}")));
            }
        });
        Self { child, input, output, log: Vec::new() }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    /// The next message that fits.
    fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let Ok(message) = self.output.recv_timeout(PATIENCE) else {
                panic!("waited in vain after {:#?}", self.log)
            };
            self.log.push(message.clone());
            if fits(&message) {
                return message;
            }
        }
    }

    fn call(&mut self, id: u64, method: &str, params: &Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        self.until(|message| message["id"] == json!(id) && message.get("method").is_none())
    }

    /// An editor that has loaded a session; its id of the next request is 3.
    fn editor(scene: &Scene, session: &str) -> (Self, Value) {
        let mut editor = Self::start(scene, &["--acp"]);
        let capabilities = json!({"protocolVersion": 1, "clientCapabilities": {}});
        editor.call(1, "initialize", &capabilities);
        let params = json!({"sessionId": session, "cwd": scene.home.project(), "mcpServers": []});
        let loaded = editor.call(2, "session/load", &params);
        (editor, loaded)
    }

    /// The texts of one kind of update.
    fn said(&self, kind: &str) -> String {
        let updates = self.log.iter().map(|message| &message["params"]["update"]);
        let of_kind = updates.filter(|update| update["sessionUpdate"] == kind);
        of_kind.filter_map(|update| update["content"]["text"].as_str()).collect()
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn says(text: &str) -> impl Fn(&Value) -> bool {
    move |message| {
        message["params"]["update"]["content"]["text"].as_str().is_some_and(|said| said.contains(text))
    }
}

#[test]
fn a_terminal_an_editor_and_a_script_share_a_session() {
    let call = reply().call("run_shell_command", json!({"command": "touch made.txt"}));
    let scene =
        Scene::new([reply().text("First."), call, reply().text("It is made."), reply().text("Third.")]);
    let screen = scene.screen(&["--attach", "-m", MODEL, "--sandbox=false"]);
    screen.say("begin").expect("First.").expect(PLACEHOLDER);
    let session = scene.ps()[0]["session"].as_str().unwrap().to_owned();
    let (mut editor, loaded) = Lines::editor(&scene, &session);
    assert!(loaded.get("result").is_some(), "{loaded}");
    assert_eq!(
        (editor.said("user_message_chunk"), editor.said("agent_message_chunk")),
        ("begin".into(), "First.".into())
    );
    let formats = ["--input-format", "stream-json", "--output-format", "stream-json"];
    let args: Vec<&str> = ["--attach", "--resume", &session].into_iter().chain(formats).collect();
    let mut script = Lines::start(&scene, &args);
    script.send(&json!({"type": "init", "tools": [{"name": "mine", "description": "x"}]}));
    let refused = script.until(|message| message["type"] == "ERROR");
    assert!(refused["message"].as_str().unwrap().contains("in the core cannot use tools"), "{refused}");
    script.send(&json!({"type": "message", "content": "make a file"}));
    // All of them see the question; the editor answers it.
    screen.expect("> make a file").expect("Allow execution of [Shell]?");
    script.until(|message| message["type"] == "APPROVAL");
    let asked = editor.until(|message| message["method"] == "session/request_permission");
    let options = asked["params"]["options"].as_array().unwrap();
    let once = options.iter().find(|option| option["kind"] == "allow_once").unwrap();
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": once["optionId"]}});
    editor.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": outcome}));
    screen.expect("Approved by acp.").expect_gone("Allow execution of [Shell]?").expect("It is made.");
    editor.until(says("It is made."));
    script.until(|message| message["type"] == "RESULT");
    assert!(scene.home.project().join("made.txt").exists());
    // A prompt of the editor is everyone's too.
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go on"}]});
    let ended = editor.call(3, "session/prompt", &prompt);
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    screen.expect("> go on").expect("Third.");
    // Closing it detaches the editor; the session goes on.
    let closed = editor.call(4, "session/close", &json!({"sessionId": session}));
    assert!(closed.get("result").is_some(), "{closed}");
    assert_eq!(scene.ps()[0]["session"], json!(session));
}

#[test]
fn an_editor_joins_a_running_turn_without_hearing_it_twice() {
    let call = reply().call("run_shell_command", json!({"command": "touch made.txt"}));
    let scene = Scene::new([reply().text("First."), call, reply().text("Done.")]);
    let mut other = scene.peer("test");
    let session = other.open(scene.opening());
    other.prompt(&session, "begin");
    other.event("TurnEnded");
    other.prompt(&session, "make it");
    let (_, wanted) = other.event("ApprovalWanted");
    let (mut editor, loaded) = Lines::editor(&scene, &session);
    assert!(loaded.get("result").is_some(), "{loaded}");
    let asked = editor.until(|message| message["method"] == "session/request_permission");
    assert_eq!(editor.said("user_message_chunk").matches("begin").count(), 1);
    other.decide(&session, &wanted["value"]["call"], json!({"type": "Once"})).unwrap();
    // The question is withdrawn, and the rest of the turn arrives.
    editor.until(|message| {
        message["method"] == "$/cancel_request" && message["params"]["requestId"] == asked["id"]
    });
    editor.until(says("Done."));
    assert_eq!(editor.said("agent_message_chunk").matches("First.").count(), 1);
}

#[test]
fn an_editor_joins_a_session_by_its_id_alone_and_names_it_for_everyone() {
    let scene = Scene::new([reply().text("First."), reply().text("Second.")]);
    let mut other = scene.peer("test");
    let session = other.open(scene.opening());
    other.prompt(&session, "begin");
    other.event("TurnEnded");
    let mut editor = Lines::start(&scene, &["--acp"]);
    editor.call(1, "initialize", &json!({"protocolVersion": 1, "clientCapabilities": {}}));
    let joined = editor.call(2, "_pollux/attach", &json!({"sessionId": session}));
    assert_eq!(joined["result"]["sessionId"], json!(session), "{joined}");
    assert_eq!(
        (editor.said("user_message_chunk"), editor.said("agent_message_chunk")),
        ("begin".into(), "First.".into())
    );
    let named = editor.call(3, "session/set_title", &json!({"sessionId": session, "title": "A good name"}));
    assert_eq!(named["result"]["title"], "A good name", "{named}");
    let (_, titled) = other.event("Titled");
    assert_eq!(titled["value"], "A good name", "{titled}");
    // What others prompt is shown.
    other.prompt(&session, "go on");
    editor.until(says("Second."));
    assert_eq!(editor.said("user_message_chunk"), "begingo on");
    let explained =
        json!({"sessionId": session, "tool": "run_shell_command", "args": {"command": "touch made.txt"}});
    assert_eq!(editor.call(4, "_pollux/explain", &explained)["result"]["decision"], "ask");
    let unknown = editor.call(5, "_pollux/attach", &json!({"sessionId": "no-such"}));
    assert_eq!(unknown["error"]["code"], -32002, "{unknown}");
}

#[test]
fn sessions_of_one_folder_share_their_mcp_servers() {
    let home = TestHome::new();
    let starts = home.home().join("starts");
    let plain = server_entry("plain");
    let script = format!("echo $$ >> {}; exec \"$@\"", starts.display());
    let mut args = vec![json!("-c"), json!(script), json!("sh"), plain["command"].clone()];
    args.extend(plain["args"].as_array().unwrap().iter().cloned());
    let entry = json!({"command": "/bin/sh", "args": args, "env": plain["env"]});
    let mut settings = quiet();
    settings["mcpServers"] = json!({"counted": entry});
    let home = home.settings(settings);
    let scene = Scene::with(home, [reply().text("One."), reply().text("Two."), reply().text("Three.")], &[]);
    let count = || std::fs::read_to_string(&starts).unwrap_or_default().lines().count();
    let mut peer = scene.peer("test");
    let first = peer.open(scene.opening());
    until("the server is started", || count() == 1);
    let second = peer.open(scene.opening());
    peer.prompt(&second, "hello");
    peer.event("TurnEnded");
    assert_eq!(count(), 1, "both sessions use the same process");
    let mut other_key = scene.opening();
    other_key["env"]["GEMINI_API_KEY"] = json!("another-key");
    let third = peer.open(other_key);
    until("another key has a server of its own", || count() == 2);
    peer.prompt(&third, "hello");
    peer.event("TurnEnded");
    // A session that closes does not end what another uses.
    peer.call("session/close", json!({"session": first})).unwrap();
    peer.prompt(&second, "still there?");
    peer.event("TurnEnded");
    assert_eq!(count(), 2);
}
