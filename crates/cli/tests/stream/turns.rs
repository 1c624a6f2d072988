//! Prompts, approvals, interrupts, the queue, commands and host tools.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::host::Host;
use crate::script::{binary, calls, home, says};

fn write(file: &str) -> String {
    calls("write_file", json!({"file_path": file, "content": "x\n"}))
}

fn shell(command: &str) -> String {
    calls("run_shell_command", json!({"command": command}))
}

#[test]
fn two_messages_and_an_approval_end_in_two_results() {
    let replies = [write("a.txt"), says("one done"), says("two done")];
    let mut host = Host::start(home(), &replies, &[]);
    let ready = host.wait_for("READY");
    assert_eq!((&ready["protocol"], &ready["mode"]), (&json!(1), &json!("default")));
    assert_eq!(host.of_type("INIT")[0]["sessionId"], ready["sessionId"], "INIT comes first");
    assert!(ready["commands"].as_array().unwrap().iter().any(|command| command["name"] == "compress"));
    host.say("first");
    host.say("second");
    assert_eq!(host.wait_for("QUEUED")["position"], 1);
    let approval = host.wait_for("APPROVAL");
    assert_eq!((&approval["toolName"], &approval["subject"]["kind"]), (&json!("write_file"), &json!("edit")));
    assert!(approval["subject"]["diff"].as_str().unwrap().contains("+x"), "{approval}");
    assert!(approval["offers"].as_array().unwrap().iter().any(|offer| offer["outcome"] == "proceed_once"));
    host.approve(&approval, "proceed_once");
    host.close_input();
    assert_eq!(host.end().0, Some(0), "{}", host.stderr());
    let results = host.of_type("RESULT");
    assert_eq!(results.len(), 2);
    assert!(results.iter().all(|result| result["success"] == true));
    assert_eq!(host.of_type("APPROVAL_SETTLED")[0]["outcome"], "proceed_once");
    assert_eq!(host.said(), "one donetwo done");
    assert_eq!(host.home.read("a.txt"), "x\n");
}

#[test]
fn a_refused_call_is_not_run_and_the_model_goes_on() {
    let mut host = Host::start(home(), &[write("a.txt"), says("never mind")], &["-p", "go"]);
    let approval = host.wait_for("APPROVAL");
    let id = approval["callId"].clone();
    // Neither of these answers counts, and the call still waits.
    host.send(&json!({"type": "approve", "callId": "no-such", "outcome": "proceed_once"}));
    assert_eq!(host.wait_for("ERROR")["code"], "NOT_WAITING");
    host.send(&json!({"type": "approve", "callId": id, "outcome": "proceed_always_server"}));
    assert_eq!(host.wait_for("ERROR")["code"], "NOT_OFFERED");
    host.send(&json!({"type": "approve", "callId": id, "outcome": "sure"}));
    assert_eq!(host.wait_for("ERROR")["code"], "INVALID_INPUT");
    host.send(&json!({"type": "APPROVE", "call_id": id, "outcome": "cancel", "message": "not now"}));
    assert_eq!(host.wait_for("RESULT")["success"], true);
    host.approve(&approval, "proceed_once");
    assert_eq!(host.wait_for("ERROR")["code"], "NOT_WAITING");
    host.send(&json!({"type": "end"}));
    assert_eq!(host.end().0, Some(0));
    assert!(!host.home.project().join("a.txt").exists());
}

#[test]
fn edited_arguments_are_decided_on_again() {
    let home = home().file(
        ".gemini/policies/deny.toml",
        "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"rm\"\ndecision = \"deny\"\npriority = 900\n",
    );
    let replies = [shell("touch fine.txt"), says("x"), shell("touch fine.txt"), says("y")];
    let mut host = Host::start(home, &replies, &["-p", "go"]);
    let approval = host.wait_for("APPROVAL");
    host.send(&json!({"type": "approve", "callId": approval["callId"], "outcome": "modify_with_editor",
        "args": {"command": "rm -f keep.txt"}}));
    let result = host.wait_for("TOOL_RESULT");
    assert_eq!(result["status"], "error", "a denied command stays denied: {result}");
    host.wait_for("RESULT");
    host.say("again");
    let approval = host.wait_for("APPROVAL");
    host.send(&json!({"type": "approve", "callId": approval["callId"], "outcome": "modify_with_editor",
        "args": {"command": "touch edited.txt; echo edited"}}));
    // The edited call is decided on again: it is asked about, or it runs.
    let result = loop {
        let message = host.next().unwrap();
        match message["type"].as_str() {
            Some("APPROVAL") => host.approve(&message, "proceed_once"),
            Some("TOOL_RESULT") => break message,
            _ => {}
        }
    };
    assert!(result["result"].as_str().unwrap().contains("edited"), "{result}");
}

#[test]
fn an_interrupt_ends_the_turn_and_the_next_message_works() {
    let replies = [shell("touch begun; sleep 94.3"), says("second")];
    let mut host = Host::start(home(), &replies, &["--include-partial", "-p", "run"]);
    host.send(&json!({"type": "interrupt", "id": "ignored while the session opens or the turn begins"}));
    // Whether it came in time or not, the turn ends or waits for its approval.
    let mut message = host.next().unwrap();
    while !["APPROVAL", "RESULT"].contains(&message["type"].as_str().unwrap()) {
        message = host.next().unwrap();
    }
    if message["type"] == "RESULT" {
        assert_eq!(message["error"]["code"], "CANCELLED");
        return;
    }
    host.approve(&message, "proceed_once");
    host.wait_for("CALL_STARTED");
    let started = Instant::now();
    host.send(&json!({"type": "interrupt"}));
    host.wait_for("CANCELLED");
    let result = host.wait_for("RESULT");
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    assert_eq!((&result["success"], &result["error"]["code"]), (&json!(false), &json!("CANCELLED")));
    host.say("next");
    assert_eq!(host.wait_for("RESULT")["success"], true);
    host.close_input();
    assert_eq!(host.end().0, Some(0));
}

#[test]
fn the_queue_keeps_its_order_and_has_an_end() {
    let mut replies = vec![write("a.txt"), says("done")];
    replies.extend((0..16).map(|n| says(&format!("[{n}]"))));
    let mut host = Host::start(home(), &replies, &["-p", "go"]);
    let approval = host.wait_for("APPROVAL");
    host.send(&json!({"type": "message", "content": "x", "when": "now", "id": "hasty"}));
    let error = host.wait_for("ERROR");
    assert_eq!((&error["code"], &error["id"]), (&json!("BUSY"), &json!("hasty")));
    for n in 0..17 {
        host.send(&json!({"type": "message", "content": format!("number {n}"), "id": n.to_string()}));
    }
    let error = host.wait_for("ERROR");
    assert_eq!((&error["code"], &error["id"]), (&json!("BUSY"), &json!("16")));
    assert_eq!(host.of_type("QUEUED").len(), 16);
    host.approve(&approval, "proceed_once");
    host.close_input();
    assert_eq!(host.end().0, Some(0));
    assert_eq!(host.of_type("RESULT").len(), 17);
    let asked: Vec<&Value> = host.of_type("MESSAGE").into_iter().filter(|m| m["role"] == "user").collect();
    assert_eq!(asked[3]["content"], "number 2");
    assert!(host.said().ends_with("[14][15]"), "{}", host.said());
}

#[test]
fn modes_models_and_descriptions_are_told() {
    let replies = [says("hello"), write("a.txt"), says("no")];
    let mut host = Host::start(home(), &replies, &["-p", "hi"]);
    host.wait_for("RESULT");
    host.send(&json!({"type": "set", "mode": "plan"}));
    assert_eq!(host.wait_for("MODE")["mode"], "plan");
    host.send(&json!({"type": "set", "mode": "no-such", "id": "m"}));
    let error = host.wait_for("ERROR");
    assert_eq!((&error["code"], &error["id"]), (&json!("INVALID_INPUT"), &json!("m")));
    host.send(&json!({"type": "describe"}));
    let description = host.wait_for("DESCRIPTION");
    assert_eq!((&description["mode"], description["prompts"].as_array().unwrap().len()), (&json!("plan"), 1));
    // Plan mode holds here as elsewhere: nothing is asked, nothing is written.
    host.say("write it");
    host.wait_for("RESULT");
    assert!(host.of_type("APPROVAL").is_empty() && !host.home.project().join("a.txt").exists());
    host.send(&json!({"type": "rewind", "to": "no-such", "id": "r"}));
    assert_eq!(host.wait_for("ERROR")["id"], "r");
    host.send(&json!({"type": "rewind", "to": description["prompts"][0]["id"]}));
    assert_eq!(host.wait_for("REWOUND")["to"], description["prompts"][0]["id"]);
    host.send(&json!({"type": "command", "name": "about"}));
    host.wait_for("RESULT");
    assert!(host.of_type("MESSAGE").iter().any(|message| message["role"] == "system"));
    host.send(&json!({"type": "command", "name": "clear"}));
    host.wait_for("RESULT");
    assert_eq!(host.of_type("INIT").len(), 1, "a command cannot replace the session");
}

#[test]
fn yolo_that_the_settings_forbid_stays_forbidden() {
    let home = home().settings(json!({
        "general": {"sessionSummaries": false},
        "security": {"disableYoloMode": true},
    }));
    let mut host = Host::start(home, &[], &[]);
    host.wait_for("READY");
    host.send(&json!({"type": "set", "mode": "yolo"}));
    assert_eq!(host.wait_for("ERROR")["code"], "NOT_ALLOWED");
    host.close_input();
    assert_eq!(host.end().0, Some(0));
}

#[test]
fn a_tool_of_the_host_is_declared_approved_called_and_answered() {
    let look_up = calls("look_up", json!({"key": "a"}));
    let replies = [look_up.clone(), says("it is 42"), look_up, says("it failed")];
    let mut host = Host::start(home(), &replies, &[]);
    let parameters =
        json!({"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]});
    host.send(&json!({"type": "init", "tools": [
        {"name": "look_up", "description": "Looks a key up.", "parameters": parameters},
        {"name": "read_file", "description": "Not this one.", "parameters": {"type": "object"}},
    ]}));
    for (output, is_error) in [("42", false), ("no such key", true)] {
        host.say("look it up");
        let approval = host.wait_for("APPROVAL");
        assert_eq!(approval["toolName"], "look_up", "its calls need approval like any other");
        host.approve(&approval, "proceed_once");
        let call = host.wait_for("HOST_CALL");
        assert_eq!((&call["name"], &call["args"]), (&json!("look_up"), &json!({"key": "a"})));
        host.send(
            &json!({"type": "tool_result", "callId": call["callId"], "output": output, "isError": is_error}),
        );
        let result = host.wait_for("TOOL_RESULT");
        assert_eq!(result["status"], if is_error { "error" } else { "success" }, "{result}");
        host.wait_for("RESULT");
    }
    host.send(&json!({"type": "tool_result", "callId": "x", "output": "late"}));
    assert_eq!(host.wait_for("ERROR")["code"], "NOT_WAITING");
    host.send(&json!({"type": "describe"}));
    let description = host.wait_for("DESCRIPTION");
    let named =
        |name: &str| description["tools"].as_array().unwrap().iter().filter(|tool| **tool == name).count();
    assert_eq!((named("look_up"), named("read_file")), (1, 1), "a built-in tool cannot be replaced");
}

#[test]
fn messages_are_prompts_and_only_commands_run_commands() {
    let mut host = Host::start(home(), &[says("a prompt"), says("another")], &[]);
    host.say("/quit");
    assert_eq!(host.wait_for("RESULT")["success"], true);
    host.say("!touch shell.txt");
    assert_eq!(host.wait_for("RESULT")["success"], true);
    assert_eq!(host.said(), "a promptanother");
    assert!(!host.home.project().join("shell.txt").exists());
    host.send(&json!({"type": "command", "name": "quit"}));
    host.wait_for("RESULT");
    host.send(&json!({"type": "end"}));
    assert_eq!(host.end().0, Some(0));
}

#[test]
fn the_upstream_dialect_has_its_own_words() {
    let args = ["--output-dialect", "gemini-cli", "-p", "go"];
    let mut host = Host::start(home(), &[write("a.txt"), says("done")], &args);
    let approval = host.wait_for("approval");
    host.send(&json!({"type": "approve", "call_id": approval["call_id"], "outcome": "proceed_once"}));
    assert_eq!(host.wait_for("result")["status"], "success");
    assert!(host.log.iter().any(|message| message["type"] == "ready" && message["session_id"].is_string()));
}

#[test]
fn the_schema_describes_every_line() {
    let schema = home().command(binary(), ["schema", "stream-json"]).run();
    let schema: Value = serde_json::from_str(&schema.stdout).unwrap();
    let mut host = Host::start(
        home(),
        &[shell("touch hi.txt; echo hi"), says("done")],
        &["--include-partial", "-p", "go"],
    );
    let approval = host.wait_for("APPROVAL");
    host.approve(&approval, "proceed_once");
    host.say("x");
    host.send_raw(b"{");
    host.close_input();
    host.end();
    assert!(host.log.len() > 10);
    for message in &host.log {
        let kind = &schema["$defs"][format!("output.{}", message["type"].as_str().unwrap())];
        let required = kind["required"].as_array().unwrap_or_else(|| panic!("not described: {message}"));
        for name in required {
            assert!(message.get(name.as_str().unwrap()).is_some(), "{name} is missing: {message}");
        }
        for (name, value) in message.as_object().unwrap() {
            let is = match kind["properties"][name]["type"].as_str() {
                Some("string") => value.is_string(),
                Some("boolean") => value.is_boolean(),
                Some("integer") => value.is_u64(),
                Some("array") => value.is_array(),
                Some("object") => value.is_object(),
                _ => kind["properties"].get(name).is_some(),
            };
            assert!(is, "{name}: {message}");
        }
    }
}
