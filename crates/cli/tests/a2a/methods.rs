//! The methods of the protocol and their errors.

use pollux_test_support::{Reply, reply};
use serde_json::{Value, json};

use crate::server::{Stage, message, message_to};

fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn a_message_is_answered_with_the_task_and_its_text() {
    let stage = Stage::new([reply().text("Hello!"), reply().text("Bye!")]);
    let server = stage.serve(&[]);
    let task = server.rpc("message/send", message("hi"))["result"].clone();
    assert_eq!((&task["kind"], &task["status"]["state"]), (&json!("task"), &json!("input-required")));
    assert_eq!(task["status"]["message"]["parts"][0]["text"], "Hello!");
    assert_eq!(task["history"].as_array().unwrap().len(), 2);
    let short = server.rpc("tasks/get", json!({"id": task["id"], "historyLength": 1}))["result"].clone();
    assert_eq!(short["history"].as_array().unwrap().len(), 1);
    assert_eq!(short["history"][0]["role"], "agent");
    let more = server.rpc("message/send", message_to(&task["id"], "bye"))["result"].clone();
    assert_eq!((&more["id"], &more["status"]["message"]["parts"][0]["text"]), (&task["id"], &json!("Bye!")));
    // Each task has a private workspace of its own below the root.
    assert!(stage.workspace(&task["id"]).is_dir());
}

#[test]
fn a_message_that_is_sent_again_runs_once() {
    let stage = Stage::new([reply().text("one"), reply().text("two"), reply().text("three")]);
    let server = stage.serve(&[]);
    let first = message("hi");
    let task = server.rpc("message/send", first.clone())["result"].clone();
    let again = server.rpc("message/send", first)["result"].clone();
    assert_eq!((&again["id"], &again["history"]), (&task["id"], &task["history"]));
    let second = message_to(&task["id"], "more");
    server.rpc("message/send", second.clone());
    let again = server.rpc("message/send", second)["result"].clone();
    assert_eq!(again["history"].as_array().unwrap().len(), 4, "{again}");
    assert_eq!(stage.model.requests().len(), 2);
}

#[test]
fn a_task_can_be_cancelled_once_and_takes_no_messages_afterwards() {
    let stage = Stage::new([Reply::never(), reply().text("x")]);
    let server = stage.serve(&[]);
    let mut params = message("wait");
    params["configuration"] = json!({"blocking": false});
    let task = server.rpc("message/send", params)["result"].clone();
    assert!(["submitted", "working"].contains(&task["status"]["state"].as_str().unwrap()), "{task}");
    server.until(&task["id"], &["working"]);
    let cancelled = server.rpc("tasks/cancel", json!({"id": task["id"]}));
    assert_eq!(cancelled["result"]["status"]["state"], "canceled", "{cancelled}");
    assert_eq!(code(&server.rpc("tasks/cancel", json!({"id": task["id"]}))), -32002);
    assert_eq!(code(&server.rpc("message/send", message_to(&task["id"], "more"))), -32004);
    assert_eq!(code(&server.rpc("tasks/resubscribe", json!({"id": task["id"]}))), -32004);
}

#[test]
fn a_task_of_a_single_turn_is_completed_and_one_whose_model_fails_is_failed() {
    let stage = Stage::new([reply().text("done"), Reply::error(400, "INVALID_ARGUMENT", "bad request")]);
    let server = stage.serve(&[]);
    let mut params = message("hi");
    params["message"]["metadata"] = json!({"coderAgent": {"singleTurn": true}});
    let task = server.rpc("message/send", params)["result"].clone();
    assert_eq!(task["status"]["state"], "completed", "{task}");
    assert_eq!(code(&server.rpc("message/send", message_to(&task["id"], "more"))), -32004);
    let failed = server.rpc("message/send", message("hi"))["result"].clone();
    assert_eq!(failed["status"]["state"], "failed", "{failed}");
    assert!(
        failed["status"]["message"]["parts"][0]["text"].as_str().unwrap().contains("bad request"),
        "{failed}"
    );
}

#[test]
fn tasks_are_listed_in_pages() {
    let stage = Stage::new((0..3).map(|_| reply().text("ok")));
    let server = stage.serve(&[]);
    let ids: Vec<Value> =
        (0..3).map(|_| server.rpc("SendMessage", message("hi"))["result"]["task"]["id"].clone()).collect();
    let page = server.rpc("ListTasks", json!({"pageSize": 2}))["result"].clone();
    assert_eq!((&page["pageSize"], &page["totalSize"]), (&json!(2), &json!(3)));
    assert_eq!(page["tasks"][0]["id"], ids[2], "newest first");
    assert!(page["tasks"][0].get("artifacts").is_none() && page["tasks"][0].get("history").is_none());
    let rest =
        server.rpc("ListTasks", json!({"pageSize": 2, "pageToken": page["nextPageToken"]}))["result"].clone();
    assert_eq!((rest["tasks"][0]["id"].clone(), &rest["nextPageToken"]), (ids[0].clone(), &json!("")));
    let none = server.rpc("ListTasks", json!({"status": "TASK_STATE_WORKING"}))["result"].clone();
    assert_eq!((&none["tasks"], &none["totalSize"]), (&json!([]), &json!(0)));
    for wrong in [
        json!({"pageSize": 0}),
        json!({"pageSize": 101}),
        json!({"status": "busy"}),
        json!({"pageToken": "../x"}),
    ] {
        assert_eq!(code(&server.rpc("ListTasks", wrong)), -32602);
    }
}

#[test]
fn a_task_in_its_first_turn_is_listed_as_working() {
    let stage = Stage::new([Reply::never()]);
    let server = stage.serve(&[]);
    let id = server.begin(message("hi"));
    server.until(&id, &["working"]);
    let page = server.rpc("ListTasks", json!({"status": "TASK_STATE_WORKING"}))["result"].clone();
    assert_eq!((&page["tasks"][0]["id"], &page["totalSize"]), (&id, &json!(1)), "{page}");
}

#[test]
fn errors_have_the_codes_of_the_protocol() {
    let stage = Stage::new([]);
    let server = stage.serve(&[]);
    let unknown = server.rpc("tasks/get", json!({"id": "nothing"}));
    assert_eq!(unknown["error"], json!({"code": -32001, "message": "Task not found: nothing"}));
    let no_method = server.rpc("foo", json!({}));
    assert_eq!(no_method["error"], json!({"code": -32601, "message": "Method not found: foo"}));
    assert_eq!(code(&server.rpc("message/send", json!({}))), -32602);
    assert_eq!(code(&server.rpc("tasks/get", json!({}))), -32602);
    assert_eq!(code(&server.rpc("tasks/pushNotificationConfig/set", json!({}))), -32003);
    assert_eq!(code(&server.rpc("tasks/get", json!({"id": "../../etc"}))), -32001);
    let raw = |body: &str| server.post_raw(body).json();
    for (body, expected) in [
        ("{not json", -32700),
        ("[]", -32600),
        (r#"{"id": 1, "method": "tasks/get"}"#, -32600),
        (r#"{"jsonrpc": "2.0", "id": 1}"#, -32600),
        (r#"{"jsonrpc": "2.0", "id": {}, "method": "tasks/get"}"#, -32600),
        (r#"{"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": [1]}"#, -32602),
    ] {
        assert_eq!(code(&raw(body)), expected, "{body}");
    }
    assert_eq!(server.get("/.well-known/agent.json").status, 404);
    let wrong_method = server.get("/");
    assert_eq!((wrong_method.status, wrong_method.header("allow")), (405, Some("POST")));
}

#[test]
fn upstreams_other_addresses_are_there() {
    let stage = Stage::new([reply().text("hello")]);
    let server = stage.serve(&[]);
    assert_eq!(server.get("/tasks/metadata").status, 204);
    let created = server.post("/tasks", &json!({"contextId": "ctx", "agentSettings": {}}));
    assert_eq!(created.status, 201);
    let id = created.json();
    let metadata = server.get(&format!("/tasks/{}/metadata", id.as_str().unwrap())).json();
    assert_eq!((&metadata["metadata"]["id"], &metadata["metadata"]["contextId"]), (&id, &json!("ctx")));
    assert_eq!(metadata["metadata"]["taskState"], "submitted");
    assert_eq!(server.get("/tasks/nothing/metadata").status, 404);
    assert_eq!(server.get("/tasks/metadata").json().as_array().unwrap().len(), 1);
    let task = server.rpc("message/send", message_to(&id, "hi"))["result"].clone();
    assert_eq!(task["status"]["message"]["parts"][0]["text"], "hello", "{task}");
    let commands = server.get("/listCommands").json();
    assert_eq!(commands["commands"][0]["name"], "extensions");
    assert_eq!(server.post("/executeCommand", &json!({"command": 1})).status, 400);
    assert_eq!(
        server.post("/executeCommand", &json!({"command": "memory list"})).status,
        400,
        "no workspace"
    );
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(server.get("/readyz").status, 200);
    assert!(server.get("/metrics").text().contains("pollux_a2a_turns_total 1"));
}
