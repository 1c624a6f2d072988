//! The program as SDKs of Claude Code meet it: the real binary, driven over pipes with their messages.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "scratch files need no care")]
#![allow(dead_code, reason = "the host of another protocol can do more")]

#[path = "claude/faults.rs"]
mod faults;
#[path = "stream/host.rs"]
mod host;
#[path = "claude/registered.rs"]
mod registered;
#[path = "peers/script.rs"]
mod script;
#[path = "claude/sdk.rs"]
mod sdk;
#[path = "claude/turns.rs"]
mod turns;

use pollux_test_support::TestHome;
use serde_json::{Value, json};

use host::Host;

/// A host that asked for nothing yet. `asks` tells whether it wants to be asked about calls.
fn start(home: TestHome, replies: &[String], args: &[&str]) -> Host {
    let mut all = vec!["--output-dialect", "claude", "--verbose", "--system-prompt", ""];
    all.extend(args);
    Host::start(home, replies, &all)
}

const ASKS: [&str; 2] = ["--permission-prompt-tool", "stdio"];

fn request(host: &mut Host, id: &str, request: Value) {
    host.send(&json!({"type": "control_request", "request_id": id, "request": request}));
}

/// The answer to a request of ours.
fn response(host: &mut Host, id: &str) -> Value {
    loop {
        let answer = host.wait_for("control_response");
        if answer["response"]["request_id"] == id {
            return answer["response"].clone();
        }
    }
}

fn initialize(host: &mut Host, hooks: Value) -> Value {
    request(host, "init", json!({"subtype": "initialize", "hooks": hooks}));
    response(host, "init")
}

fn say(host: &mut Host, text: &str) {
    let message = json!({"role": "user", "content": text});
    host.send(&json!({"type": "user", "session_id": "", "message": message, "parent_tool_use_id": null}));
}

/// The next request of the program.
fn asked(host: &mut Host, subtype: &str) -> Value {
    loop {
        let asked = host.wait_for("control_request");
        if asked["request"]["subtype"] == subtype {
            return asked;
        }
    }
}

fn answer(host: &mut Host, asked: &Value, response: Value) {
    let response = json!({"subtype": "success", "request_id": asked["request_id"], "response": response});
    host.send(&json!({"type": "control_response", "response": response}));
}

fn allow(host: &mut Host, asked: &Value) {
    answer(host, asked, json!({"behavior": "allow", "updatedInput": asked["request"]["input"]}));
}

fn result(host: &mut Host) -> Value {
    host.wait_for("result")
}

/// The blocks of this type, in order.
fn blocks(host: &Host, kind: &str) -> Vec<Value> {
    let messages =
        host.log.iter().filter(|message| ["assistant", "user"].iter().any(|word| message["type"] == *word));
    let blocks =
        messages.flat_map(|message| message["message"]["content"].as_array().cloned().unwrap_or_default());
    blocks.filter(|block| block["type"] == kind).collect()
}

fn end(host: &mut Host) -> Option<i32> {
    host.close_input();
    host.end().0
}

fn write(name: &str) -> String {
    script::calls("write_file", json!({"file_path": name, "content": "x\n"}))
}

fn shell(command: &str) -> String {
    script::calls("run_shell_command", json!({"command": command}))
}
