//! Commands that fail: an error for everyone who watches, a result with its code for the model.

use std::fs;

use pollux_test_support::{Reply, TestHome, reply};
use serde_json::{Value, json};

use crate::scene::{Scene, lines, of_type, parse};

fn shell(command: &str) -> Reply {
    reply().call("run_shell_command", json!({"command": command}))
}

fn scene(command: &str) -> Scene {
    Scene::new([shell(command), reply().text("Done.")])
}

/// The result event of one command and what the model was told.
fn outcome(command: &str) -> (Value, String) {
    let scene = scene(command);
    let (events, code) = scene.events(&["-p", "x", "--yolo", "--sandbox=false"]);
    assert_eq!(code, Some(0), "a failed command does not fail the run");
    let last = events.last().unwrap();
    assert_eq!((&last["type"], &last["success"]), (&json!("RESULT"), &json!(true)));
    let mut result = of_type(&events, "TOOL_RESULT")[0].clone();
    let failed = u64::from(result["status"] == "error");
    assert_eq!(last["stats"]["tools"]["totalFail"], failed, "{command}");
    assert_eq!(last["stats"]["tools"]["byName"]["run_shell_command"]["fail"], failed, "{command}");
    for key in ["type", "callId", "timestamp"] {
        result.as_object_mut().unwrap().shift_remove(key);
    }
    let told =
        scene.server.request(1).function_responses()[0]["response"]["output"].as_str().unwrap().to_owned();
    (result, told)
}

#[test]
fn a_command_is_judged_by_how_it_ended_and_never_by_what_it_printed() {
    for (command, result, told) in [
        ("exit 1", json!({"status": "error", "error": "Command exited with code 1"}), Some("Exit Code: 1")),
        (
            "echo hi; exit 3",
            json!({"status": "error", "result": "hi", "error": "Command exited with code 3"}),
            Some("Output: hi\nExit Code: 3"),
        ),
        (
            "echo 'Exit Code: 0'; false",
            json!({"status": "error", "result": "Exit Code: 0", "error": "Command exited with code 1"}),
            Some("Output: Exit Code: 0\nExit Code: 1"),
        ),
        ("echo 'Exit Code: 7'", json!({"status": "success", "result": "Exit Code: 7"}), None),
        (
            "echo 'Command exited with code: 1'; echo error >&2",
            json!({"status": "success", "result": "Command exited with code: 1\nerror"}),
            None,
        ),
        (
            "kill -9 $$",
            json!({"status": "error", "error": "Command terminated by signal 9"}),
            Some("Signal: 9"),
        ),
        ("exit 137", json!({"status": "error", "error": "Command exited with code 137"}), None),
        ("exit 256", json!({"status": "success", "result": ""}), None),
        ("exit 257", json!({"status": "error", "error": "Command exited with code 1"}), None),
        ("false | true", json!({"status": "success", "result": ""}), None),
        (
            "set -o pipefail; false | true",
            json!({"status": "error", "error": "Command exited with code 1"}),
            Some("Exit Code: 1"),
        ),
        (
            "no-such-program-here 2>/dev/null",
            json!({"status": "error", "error": "Command exited with code 127"}),
            Some("Exit Code: 127"),
        ),
    ] {
        let (got, text) = outcome(command);
        assert_eq!(got, result, "{command}");
        assert!(told.is_none_or(|told| text.contains(told)), "{command}: {text}");
    }
}

#[test]
fn a_background_command_that_ends_at_once_with_a_code_has_failed() {
    let call = json!({"command": "exit 4", "is_background": true, "delay_ms": 5000});
    let scene = Scene::new([reply().call("run_shell_command", call), reply().text("ok")]);
    let (events, _) = scene.events(&["-p", "x", "--yolo", "--sandbox=false"]);
    let result = of_type(&events, "TOOL_RESULT")[0];
    assert_eq!(
        (&result["status"], &result["error"]),
        (&json!("error"), &json!("Command exited with code 4"))
    );
}

#[test]
fn a_command_without_output_for_too_long_has_failed() {
    let home = TestHome::new().settings(json!({"tools": {"shell": {"inactivityTimeout": 1}}}));
    let scene = Scene::with(home, [shell("echo begun; sleep 60"), reply().text("ok")]);
    let (events, _) = scene.events(&["-p", "x", "--yolo", "--sandbox=false"]);
    let result = of_type(&events, "TOOL_RESULT")[0];
    assert_eq!((&result["status"], &result["error"]), (&json!("error"), &json!("Command timed out")));
}

#[test]
fn upstreams_dialect_counts_a_failed_command_as_a_success() {
    let scene = scene("echo hi; exit 3");
    let args = ["-p", "x", "--yolo", "--sandbox=false", "--output-dialect", "gemini-cli", "-o"];
    let run = scene.run(&[&args[..], &["stream-json"]].concat());
    assert_eq!((run.code, run.stderr.contains("run_shell_command")), (Some(0), false), "{}", run.stderr);
    let events = lines(&run.stdout);
    let result = of_type(&events, "tool_result")[0];
    assert_eq!((&result["status"], &result["output"]), (&json!("success"), &json!("hi")));
    assert_eq!(result.get("error"), None);
}

#[test]
fn json_and_the_session_file_name_the_failure() {
    let scene = scene("exit 1");
    let run = scene.run(&["-p", "x", "--yolo", "--sandbox=false", "-o", "json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let document = parse(&run.stdout);
    assert_eq!(document["response"], "Done.");
    assert_eq!(
        document["error"],
        json!({"type": "TOOL_ERROR", "message": "Command failed with exit code 1", "code": "TOOL_EXECUTION_FAILED"})
    );
    let call = scene.session()["messages"][1]["toolCalls"][0].clone();
    assert_eq!(
        (&call["status"], &call["resultDisplay"]),
        (&json!("error"), &json!("Command exited with code: 1"))
    );
    assert!(call["result"][0]["functionResponse"]["response"]["output"].is_string(), "{call}");
}

#[test]
fn hooks_after_a_failed_command_see_what_upstream_shows_them() {
    let hook = json!([{"name": "h", "command": "cat > after.json"}]);
    let home = TestHome::new().settings(json!({"hooks": {"AfterTool": hook}}));
    let scene = Scene::with(home, [shell("echo hi; exit 3"), reply().text("ok")]);
    assert_eq!(scene.run(&["-p", "x", "--yolo", "--sandbox=false"]).code, Some(0));
    let text = fs::read_to_string(scene.home.project().join("after.json")).unwrap();
    let response = parse(&text)["tool_response"].clone();
    assert_eq!(response["returnDisplay"], "hi");
    assert_eq!(response.get("error"), None, "{response}");
}

#[test]
fn a_sub_agent_that_fails_is_told_with_its_reason_and_counted() {
    let scout = "---\nname: scout\ndescription: looks around\ntools: [read_file]\n---\nLook.\n";
    let home = TestHome::new().home_file(".gemini/agents/scout.md", scout);
    let ask = reply().call("invoke_agent", json!({"agent_name": "scout", "prompt": "go"}));
    let refusal = || Reply::error(400, "INVALID_ARGUMENT", "no such model");
    // The agent has a last turn, which fails, too.
    let scene = Scene::with(home, [ask, refusal(), refusal(), reply().text("ok")]);
    let (events, code) = scene.events(&["-p", "x", "--yolo"]);
    assert_eq!(code, Some(0));
    let result = of_type(&events, "TOOL_RESULT")[0];
    assert_eq!(
        (&result["status"], &result["error"]),
        (&json!("error"), &json!("Subagent 'scout' failed: ERROR"))
    );
    assert!(result["result"].as_str().unwrap().contains("no such model"), "{result}");
    let tools = &events.last().unwrap()["stats"]["tools"];
    assert_eq!((&tools["totalFail"], &tools["byName"]["invoke_agent"]["fail"]), (&json!(1), &json!(1)));
    let told = scene.server.request(3).function_responses()[0]["response"]["output"].clone();
    assert!(told.as_str().unwrap().starts_with("Subagent 'scout' failed. Error: "), "{told}");
}
