//! What a client reads while a task works.

use std::time::Duration;

use pollux_test_support::reply;
use serde_json::json;

use crate::server::{Stage, automatic, kinds, message, message_to};

#[test]
fn a_turn_is_streamed_in_upstreams_kinds_and_order() {
    let first = reply()
        .thought("**Looking** at the folder")
        .text("I look. ")
        .call("list_directory", json!({"dir_path": "."}));
    let stage = Stage::new([first, reply().text("It is "), reply().text("again")]);
    let server = stage.serve(&[]);
    let events = server.stream("message/stream", message("what is here?")).events();
    assert_eq!(
        kinds(&events),
        [
            "task submitted",
            "state-change working",
            "thought working",
            "text-content working",
            "state-change working",
            "tool-call-update scheduled",
            "tool-call-update executing",
            "tool-call-update success",
            "state-change working",
            "text-content working",
            "state-change input-required final",
        ],
        "{events:#?}"
    );
    let task = &events[0]["result"];
    assert_eq!(task["history"][0]["parts"][0]["text"], "what is here?");
    assert!(events.iter().all(|event| event["id"] == 1 && event["jsonrpc"] == "2.0"));
    let last = &events.last().unwrap()["result"];
    assert_eq!((&last["taskId"], &last["contextId"]), (&task["id"], &task["contextId"]));
    assert_eq!(last["metadata"]["model"], "test-model");
    assert!(last["metadata"]["usageMetadata"].is_object());
    // The next message continues the conversation, without the task.
    let events = server.stream("message/stream", message_to(&task["id"], "and now?")).events();
    assert_eq!(
        kinds(&events),
        ["state-change working", "text-content working", "state-change input-required final"]
    );
    let asked = stage.model.requests();
    assert!(asked.last().unwrap().body.to_string().contains("what is here?"), "the model has the history");
}

#[test]
fn streams_of_1_0_begin_with_the_task_and_stay_open_while_it_waits() {
    let stage = Stage::new([reply().text("one"), reply().text("two")]);
    let server = stage.serve(&[]);
    let mut params = message("hi");
    params["message"]["role"] = json!("ROLE_USER");
    params["message"]["parts"] = json!([{"text": "hi"}]);
    let mut stream = server.stream("SendStreamingMessage", params);
    let first = stream.event().unwrap()["result"].clone();
    assert_eq!(first["task"]["status"]["state"], "TASK_STATE_SUBMITTED", "{first}");
    let id = first["task"]["id"].clone();
    let until_waiting = |stream: &mut crate::http::Response| {
        let mut text = String::new();
        loop {
            let update = stream.event().unwrap()["result"]["statusUpdate"].clone();
            assert!(
                update.get("final").is_none() && update["metadata"].get("coderAgent").is_none(),
                "{update}"
            );
            text.push_str(update["status"]["message"]["parts"][0]["text"].as_str().unwrap_or_default());
            if update["status"]["state"] == "TASK_STATE_INPUT_REQUIRED" {
                return text;
            }
        }
    };
    assert_eq!(until_waiting(&mut stream), "one");
    let subscribed = server.stream("SubscribeToTask", json!({"id": id}));
    server.rpc("message/send", message_to(&id, "again"));
    assert_eq!(until_waiting(&mut stream), "two");
    // Another stream of the same task has the same events.
    let mut subscribed = subscribed;
    assert_eq!(subscribed.event().unwrap()["result"]["task"]["id"], id);
    assert_eq!(until_waiting(&mut subscribed), "two");
    server.rpc("CancelTask", json!({"id": id}));
    let last = stream.events().pop().unwrap();
    assert_eq!(last["result"]["statusUpdate"]["status"]["state"], "TASK_STATE_CANCELED");
}

#[test]
fn closing_a_stream_stops_nothing_and_another_connection_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let stage = Stage::new([reply().text("first ").text("second").hold(1, &gate)]);
    let server = stage.serve(&[]);
    let mut stream = server.stream("message/stream", message("go"));
    let id = stream.event().unwrap()["result"]["id"].clone();
    drop(stream);
    // Time for the server to notice, while the reply cannot end.
    std::thread::sleep(Duration::from_millis(300));
    let again = server.stream("tasks/resubscribe", json!({"id": id}));
    std::fs::write(gate, "").unwrap();
    let events = again.events();
    assert!(kinds(&events)[0].starts_with("task "), "{events:?}");
    assert_eq!(kinds(&events).last().unwrap(), "state-change input-required final");
    let task = server.until(&id, &["input-required"]);
    assert_eq!(task["history"][1]["parts"][0]["text"], "first second", "{task}");
}

#[test]
fn live_output_of_a_command_is_an_artifact() {
    let call = reply().call("run_shell_command", json!({"command": "echo hello; sleep 0.3; echo more"}));
    let stage = Stage::new([call, reply().text("done")]);
    let server = stage.serve(&[]);
    let events = server.stream("message/stream", automatic("run it")).events();
    let output: String = events
        .iter()
        .filter(|event| event["result"]["kind"] == "artifact-update")
        .map(|event| {
            let result = &event["result"];
            assert_eq!((&result["append"], &result["lastChunk"]), (&json!(true), &json!(false)));
            let id = result["artifact"]["artifactId"].as_str().unwrap();
            assert!(id.starts_with("tool-run_shell_command") && id.ends_with("-output"), "{id}");
            result["artifact"]["parts"][0]["text"].as_str().unwrap().to_owned()
        })
        .collect();
    assert!(output.contains("hello"), "{output:?} {:?}", kinds(&events));
    assert_eq!(kinds(&events).last().unwrap(), "state-change input-required final");
}
