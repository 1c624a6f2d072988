//! Editors and scripts that join sessions of the core.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, channel};

use pollux_test_support::reply;
use serde_json::{Value, json};

use crate::scene::{MODEL, PATIENCE, PLACEHOLDER, Scene};

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
