//! Pollux as an MCP server: another agent gives it tasks over pipes.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout};

use pollux_test_support::{Reply, TestHome, processes_in, reply};
use serde_json::{Value, json};

use crate::scene::{MODEL, Scene, binary, until};

/// The server and its client.
struct Client {
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    next: u64,
    /// What arrived that is no answer.
    told: Vec<Value>,
    /// What the person chooses in forms.
    decision: &'static str,
}

impl Client {
    fn start(scene: &Scene, flags: &[&str], capabilities: Value) -> Self {
        Self::start_with(scene, flags, &[], capabilities)
    }

    fn start_with(scene: &Scene, flags: &[&str], options: &[&str], capabilities: Value) -> Self {
        let serve = ["mcp", "serve"];
        let args: Vec<&str> =
            ["-m", MODEL].iter().chain(flags).chain(&serve).chain(options).copied().collect();
        let mut child = scene.home.command(binary(), args).against(&scene.server).start();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let input = child.stdin.take();
        let mut client = Self { child, input, lines, next: 0, told: Vec::new(), decision: "proceed_once" };
        let hello = client.call(
            "initialize",
            json!({
                "protocolVersion": "2025-11-25", "capabilities": capabilities,
                "clientInfo": {"name": "test", "version": "1"},
            }),
        );
        assert_eq!(hello["result"]["serverInfo"]["name"], "pollux", "{hello}");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// The answer to a request. Forms are filled in meanwhile.
    fn answer(&mut self, id: u64) -> Value {
        loop {
            let line = self.lines.next().unwrap().unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            if message["method"] == "elicitation/create" {
                let content = json!({"decision": self.decision});
                let answer = json!({"action": "accept", "content": content});
                self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": answer}));
            }
            self.told.push(message);
        }
    }

    fn tool(&mut self, name: &str, arguments: Value) -> Value {
        let params = json!({"name": name, "arguments": arguments, "_meta": {"progressToken": "p"}});
        self.call("tools/call", params)["result"].clone()
    }

    fn leave(mut self) {
        self.input = None;
        assert!(self.child.wait().unwrap().success());
    }
}

fn shell(command: &str) -> Reply {
    reply().call("run_shell_command", json!({"command": command}))
}

fn forms() -> Value {
    json!({"elicitation": {}})
}

#[test]
fn a_client_gives_a_task_and_continues_the_session() {
    let write = reply().call("write_file", json!({"file_path": "hello.txt", "content": "hello\n"}));
    let scene = Scene::new([write, reply().text("It is there."), reply().text("You are welcome.")]);
    let mut client = Client::start(&scene, &[], forms());
    let tools = client.call("tools/list", json!({}));
    let names: Vec<&str> = tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["pollux_run", "pollux_reply", "pollux_sessions"]);

    let done = client.tool("pollux_run", json!({"prompt": "Write a greeting.", "mode": "auto_edit"}));
    let result = &done["structuredContent"];
    assert_eq!(
        (&result["text"], &result["stopReason"]),
        (&json!("It is there."), &json!("end_turn")),
        "{done}"
    );
    let file = scene.home.project().canonicalize().unwrap().join("hello.txt");
    assert_eq!(result["filesChanged"], json!([file]));
    assert_eq!(scene.home.read("hello.txt"), "hello\n");
    let steps: Vec<&Value> =
        client.told.iter().filter(|it| it["method"] == "notifications/progress").collect();
    assert_eq!(steps[0]["params"]["message"], "write_file hello.txt", "{steps:?}");

    let id = result["sessionId"].as_str().unwrap().to_owned();
    let more = client.tool("pollux_reply", json!({"sessionId": id, "prompt": "Thanks."}));
    assert_eq!(more["structuredContent"]["text"], "You are welcome.", "{more}");
    let listed = client.tool("pollux_sessions", json!({}));
    assert_eq!(listed["structuredContent"]["sessions"][0]["sessionId"], id, "{listed}");
    client.leave();
}

#[test]
fn a_session_of_an_earlier_server_is_resumed() {
    let scene = Scene::new([reply().text("one"), reply().text("two")]);
    let mut client = Client::start(&scene, &[], json!({}));
    let done = client.tool("pollux_run", json!({"prompt": "first"}));
    let id = done["structuredContent"]["sessionId"].clone();
    client.leave();
    let mut client = Client::start(&scene, &[], json!({}));
    let more = client.tool("pollux_reply", json!({"sessionId": id, "prompt": "second"}));
    assert_eq!(more["structuredContent"]["text"], "two", "{more}");
    assert_eq!(more["structuredContent"]["sessionId"], id);
    assert!(scene.server.requests()[1].body.to_string().contains("first"), "the model has the history");
    let unknown = client.tool("pollux_reply", json!({"sessionId": "nothing", "prompt": "x"}));
    assert_eq!(unknown["isError"], true, "{unknown}");
    client.leave();
}

#[test]
fn the_person_at_the_client_decides_about_calls() {
    for (decision, expected) in [("proceed_once", true), ("cancel", false), ("proceed_nonsense", false)] {
        let scene = Scene::new([shell("touch made.txt"), reply().text("so be it")]);
        let mut client = Client::start(&scene, &["--sandbox=false"], forms());
        client.decision = decision;
        let done = client.tool("pollux_run", json!({"prompt": "make it"}));
        assert_eq!(done["structuredContent"]["text"], "so be it", "{done}");
        assert_eq!(scene.home.project().join("made.txt").exists(), expected, "{decision}");
        let form = client.told.iter().find(|it| it["method"] == "elicitation/create").unwrap();
        assert!(form["params"]["message"].as_str().unwrap().contains("touch made.txt"), "{form}");
        client.leave();
    }
}

#[test]
fn without_forms_a_call_that_needs_an_approval_is_refused_with_its_rule() {
    let scene = Scene::new([shell("touch made.txt"), reply().text("so be it")]);
    let mut client = Client::start(&scene, &[], json!({}));
    client.tool("pollux_run", json!({"prompt": "make it"}));
    assert!(!scene.home.project().join("made.txt").exists());
    let read = scene.server.requests()[1].body.to_string();
    assert!(read.contains("the MCP client cannot ask"), "{read}");
    client.leave();
}

#[test]
fn bad_calls_are_answered_with_what_is_wrong() {
    let scene = Scene::new([]);
    let mut client = Client::start(&scene, &["--approval-mode", "default"], json!({}));
    for (arguments, said) in [
        (json!({}), "prompt"),
        (json!({"prompt": "x", "mode": "yolo"}), "yolo"),
        (json!({"prompt": "x", "mode": "auto_edit"}), "the server was started with `default`"),
        (json!({"prompt": "x", "cwd": "relative"}), "absolute"),
        (json!({"prompt": "x", "cwd": "/no/such/folder"}), "not found"),
    ] {
        let refused = client.tool("pollux_run", arguments);
        assert_eq!(refused["isError"], true);
        assert!(refused["content"][0]["text"].as_str().unwrap().contains(said), "{refused}");
    }
    let flag = client.tool("pollux_run", json!({"prompt": "x", "model": "--yolo"}));
    assert!(flag["structuredContent"]["usage"]["models"]["--yolo"].is_object(), "no flag: {flag}");
    assert_eq!(client.tool("pollux_nothing", json!({}))["isError"], true);
    client.leave();
}

#[test]
fn a_cancelled_call_ends_its_turn_and_the_session_goes_on() {
    let scene = Scene::new([Reply::never(), reply().text("here again")]);
    let mut client = Client::start(&scene, &[], json!({}));
    let done = client.tool("pollux_run", json!({"prompt": "wait", "timeoutMs": 8_000}));
    assert_eq!(done["structuredContent"]["stopReason"], "timeout", "{done}");
    let id = done["structuredContent"]["sessionId"].clone();
    let more = client.tool("pollux_reply", json!({"sessionId": id, "prompt": "go on"}));
    assert_eq!(more["structuredContent"]["text"], "here again", "{more}");
    client.leave();
}

#[test]
fn a_call_that_the_client_cancels_is_not_answered() {
    let scene = Scene::new([shell("sleep 301; touch late.txt"), reply().text("x")]);
    let mut client = Client::start(&scene, &["--yolo", "--sandbox=false"], json!({}));
    let id = client.ask("tools/call", json!({"name": "pollux_run", "arguments": {"prompt": "wait"}}));
    until("the command runs", || running(&scene, "sleep 301; touch late.txt"));
    let params = json!({"requestId": id});
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    until("the command is gone", || !running(&scene, "sleep 301; touch late.txt"));
    assert_eq!(client.tool("pollux_sessions", json!({}))["isError"], false);
    assert!(client.told.iter().all(|message| message["id"] != id), "{:?}", client.told);
    client.leave();
}

#[test]
fn a_form_is_withdrawn_when_its_call_ends() {
    let scene = Scene::new([shell("touch made.txt"), reply().text("x")]);
    let mut client = Client::start(&scene, &["--sandbox=false"], forms());
    let id = client.ask("tools/call", json!({"name": "pollux_run", "arguments": {"prompt": "wait"}}));
    let form: Value = serde_json::from_str(&client.lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(form["method"], "elicitation/create");
    let params = json!({"requestId": id});
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    let withdrawn: Value = serde_json::from_str(&client.lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(withdrawn["method"], "notifications/cancelled", "{withdrawn}");
    assert_eq!(withdrawn["params"]["requestId"], form["id"]);
    assert!(!scene.home.project().join("made.txt").exists());
    client.leave();
}

#[test]
fn a_client_of_any_version_is_greeted_in_it_or_in_the_newest() {
    let scene = Scene::new([]);
    let mut client = Client::start(&scene, &[], json!({}));
    for (asked, answered) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2031-01-01", "2025-11-25"),
    ] {
        let hello = client.call("initialize", json!({"protocolVersion": asked, "capabilities": {}}));
        assert_eq!(hello["result"]["protocolVersion"], answered, "{hello}");
    }
    client.leave();
}

#[test]
fn what_cannot_be_served_is_answered_and_the_client_goes_on() {
    let scene = Scene::new([]);
    let mut client = Client::start(&scene, &[], json!({}));
    for (method, params, code) in [
        ("no/such", json!({}), -32601),
        ("tools/call", json!({}), -32602),
        ("tools/call", json!({"name": "pollux_run", "arguments": []}), -32602),
    ] {
        let refused = client.call(method, params);
        assert_eq!(refused["error"]["code"], code, "{refused}");
    }
    for line in ["{", "[]", "7", r#"{"id":9}"#] {
        writeln!(client.input.as_mut().unwrap(), "{line}").unwrap();
    }
    assert_eq!(client.call("ping", json!({}))["result"], json!({}));
    let told: Vec<&Value> = client.told.iter().map(|message| &message["error"]["code"]).collect();
    assert_eq!(told, [-32700, -32600, -32600, -32600]);
    client.leave();
}

#[test]
fn a_client_says_hello_before_it_asks_for_anything() {
    let scene = Scene::new([]);
    let mut child = scene.home.command(binary(), ["mcp", "serve"]).against(&scene.server).start();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": "a", "method": "ping"})).unwrap();
    writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": "b", "method": "tools/list"})).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(next(), json!({"jsonrpc": "2.0", "id": "a", "result": {}}));
    assert_eq!(next()["error"]["code"], -32600);
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn when_the_client_is_gone_its_sessions_end() {
    let scene = Scene::new([shell("sleep 300; touch late.txt"), reply().text("x")]);
    let mut client = Client::start(&scene, &["--yolo", "--sandbox=false"], json!({}));
    let params = json!({"name": "pollux_run", "arguments": {"prompt": "wait"}});
    client.ask("tools/call", params);
    until("the command runs", || running(&scene, "sleep 300; touch late.txt"));
    client.leave();
    until("the command is gone", || !running(&scene, "sleep 300; touch late.txt"));
}

/// Whether a command of this scene runs.
fn running(scene: &Scene, text: &str) -> bool {
    !processes_in(scene.home.project(), text).is_empty()
}

#[test]
fn servers_that_call_each_other_come_to_an_end() {
    let run = TestHome::new().command(binary(), ["mcp", "serve"]).env("POLLUX_DEPTH", "3").run();
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{}", run.stderr);
    assert!(run.stderr.contains("too many nested Pollux servers"), "{}", run.stderr);
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

#[test]
fn built_in_tools_are_called_one_by_one_within_the_rules() {
    let scene = Scene::new([]);
    std::fs::write(scene.home.project().join("a.txt"), "some words\n").unwrap();
    let mut client = Client::start_with(&scene, &["--sandbox=false"], &["--tools=all"], forms());
    let tools = client.call("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone();
    let tool =
        |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("{name}"));
    assert_eq!(tool("read_file")["annotations"]["readOnlyHint"], true);
    assert_eq!(tool("run_shell_command")["annotations"]["destructiveHint"], true);
    assert!(tool("read_file")["inputSchema"]["properties"]["file_path"].is_object());
    assert!(tools.iter().all(|tool| tool["name"] != "ask_user"), "it needs a conversation");
    let read = client.tool("read_file", json!({"file_path": "a.txt"}));
    assert!(text(&read).contains("some words") && read["isError"] == false, "{read}");
    assert!(client.told.iter().all(|it| it["method"] != "elicitation/create"), "reading needs no approval");
    let outside = client.tool("read_file", json!({"file_path": "../../../../../../etc/passwd"}));
    assert!(outside["isError"] == true && !text(&outside).contains("root:"), "{outside}");
    let wrong = client.tool("read_file", json!({}));
    assert_eq!(wrong["isError"], true, "{wrong}");
    let made = client.tool("run_shell_command", json!({"command": "touch made.txt && echo it is made"}));
    assert!(text(&made).contains("it is made"), "{made}");
    assert!(client.told.iter().any(|it| it["method"] == "elicitation/create"), "the person was asked");
    assert!(scene.home.project().join("made.txt").exists());
    client.decision = "cancel";
    let refused = client.tool("run_shell_command", json!({"command": "touch refused.txt"}));
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(!scene.home.project().join("refused.txt").exists());
    assert_eq!(scene.server.requests().len(), 0, "no model was asked");
    client.leave();
}

#[test]
fn only_tools_that_read_are_offered_unless_more_are_named() {
    let scene = Scene::new([]);
    let mut client = Client::start_with(&scene, &[], &["--tools"], json!({}));
    let listed = client.call("tools/list", json!({}));
    let names: Vec<String> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect();
    assert!(
        names.iter().any(|name| name == "read_file") && names.iter().any(|name| name == "glob"),
        "{names:?}"
    );
    for name in ["write_file", "run_shell_command", "web_fetch", "replace"] {
        assert!(!names.iter().any(|known| known == name), "{names:?}");
        let called = client.tool(name, json!({"command": "touch made.txt", "file_path": "made.txt"}));
        assert!(text(&called).contains("unknown tool"), "{called}");
    }
    client.leave();
}
