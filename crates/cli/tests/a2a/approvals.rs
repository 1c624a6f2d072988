//! Tool calls that need approval.

use pollux_test_support::reply;
use serde_json::{Value, json};

use crate::server::{Stage, decision, kinds, message, message_to};

fn touch() -> pollux_test_support::Reply {
    reply().call("run_shell_command", json!({"command": "echo x >> made.txt"}))
}

fn call_of(events: &[Value]) -> Value {
    let asked = events
        .iter()
        .find(|event| event["result"]["metadata"]["coderAgent"]["kind"] == "tool-call-confirmation");
    asked.unwrap()["result"]["status"]["message"]["parts"][0]["data"]["request"]["callId"].clone()
}

#[test]
fn an_approval_ends_the_stream_and_is_answered_by_another_connection_once() {
    let stage = Stage::new([touch(), reply().text("done")]);
    let server = stage.serve(&[]);
    let events = server.stream("message/stream", message("go")).events();
    let expected = [
        "tool-call-update scheduled",
        "tool-call-confirmation awaiting_approval",
        "state-change input-required final",
    ];
    assert!(kinds(&events).ends_with(&expected.map(str::to_owned)), "{:?}", kinds(&events));
    let id = events[0]["result"]["id"].clone();
    let call = call_of(&events);
    let details =
        &events[events.len() - 2]["result"]["status"]["message"]["parts"][0]["data"]["confirmationDetails"];
    assert_eq!((&details["type"], &details["command"]), (&json!("exec"), &json!("echo x >> made.txt")));
    let made = stage.workspace(&id).join("made.txt");
    assert!(!made.exists());

    let wrong = server.rpc("message/send", decision(&id, &json!("other"), "proceed_once"));
    assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
    let not_offered = server.rpc("message/send", decision(&id, &call, "proceed_always_server"));
    assert_eq!(not_offered["error"]["code"], -32602, "{not_offered}");
    let prompt = server.rpc("message/send", message_to(&id, "hello?"));
    assert_eq!(prompt["error"]["code"], -32602, "{prompt}");
    let task = server.rpc("tasks/get", json!({"id": id}))["result"].clone();
    assert_eq!(task["status"]["state"], "input-required");
    assert_eq!(task["status"]["message"]["parts"][0]["data"]["request"]["callId"], call, "it is still open");

    let answer = decision(&id, &call, "proceed_once");
    let events = server.stream("message/stream", answer.clone()).events();
    assert_eq!(
        kinds(&events),
        [
            "state-change working",
            "tool-call-update executing",
            "tool-call-update success",
            "state-change working",
            "text-content working",
            "state-change input-required final",
        ]
    );
    let again = server.rpc("message/send", answer);
    assert!(again["result"].is_object(), "the same message again is answered with the task: {again}");
    let other = server.rpc("message/send", decision(&id, &call, "proceed_once"));
    assert_eq!(other["error"]["code"], -32602, "{other}");
    assert_eq!(std::fs::read_to_string(made).unwrap(), "x\n");
}

#[test]
fn a_rejected_call_does_not_run_and_the_model_is_told() {
    let stage = Stage::new([touch(), reply().text("so be it")]);
    let server = stage.serve(&[]);
    let events = server.stream("message/stream", message("go")).events();
    let id = events[0]["result"]["id"].clone();
    let task = server.rpc("message/send", decision(&id, &call_of(&events), "cancel"))["result"].clone();
    assert_eq!(task["status"]["message"]["parts"][0]["text"], "so be it", "{task}");
    assert!(!stage.workspace(&id).join("made.txt").exists());
    let asked = stage.model.requests().pop().unwrap().body.to_string();
    assert!(asked.contains("rejected"), "{asked}");
}

#[test]
fn a_proposed_file_can_be_changed_before_it_is_written() {
    let write = reply().call("write_file", json!({"file_path": "a.txt", "content": "theirs\n"}));
    let stage = Stage::new([write, reply().text("written")]);
    let server = stage.serve(&[]);
    let events = server.stream("message/stream", message("go")).events();
    let id = events[0]["result"]["id"].clone();
    let details =
        &events[events.len() - 2]["result"]["status"]["message"]["parts"][0]["data"]["confirmationDetails"];
    assert_eq!((&details["type"], &details["newContent"]), (&json!("edit"), &json!("theirs\n")), "{details}");
    let mut params = decision(&id, &call_of(&events), "modify_with_editor");
    params["message"]["parts"][0]["data"]["newContent"] = json!("mine\n");
    let task = server.rpc("message/send", params);
    assert_eq!(task["result"]["status"]["message"]["parts"][0]["text"], "written", "{task}");
    assert_eq!(std::fs::read_to_string(stage.workspace(&id).join("a.txt")).unwrap(), "mine\n");
}
