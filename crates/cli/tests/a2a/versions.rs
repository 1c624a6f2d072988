//! Both versions of the protocol on one port, and both transports.

use pollux_test_support::reply;
use serde_json::{Value, json};

use crate::server::{Stage, message};

#[test]
fn the_header_or_the_method_decides_on_the_version() {
    let stage = Stage::new((0..8).map(|_| reply().text("ok")));
    let server = stage.serve(&[]);
    let send = |method: &str, header: Option<&str>, path: &str| -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": message("hi")});
        let headers: Vec<(&str, &str)> = header.map(|version| ("A2A-Version", version)).into_iter().collect();
        server.request("POST", path, &headers, Some(&body)).json()
    };
    let is_one = |answer: &Value| answer["result"]["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED";
    let is_old = |answer: &Value| answer["result"]["status"]["state"] == "input-required";
    for (method, header, path, one) in [
        ("SendMessage", None, "/", true),
        ("message/send", None, "/", false),
        ("SendMessage", Some("1.0"), "/", true),
        ("message/send", Some("0.3"), "/", false),
        ("SendMessage", Some(""), "/", true),
        ("SendMessage", None, "/?A2A-Version=1.0", true),
        ("message/send", Some("0.3.0"), "/", false),
    ] {
        let answer = send(method, header, path);
        assert_eq!((is_one(&answer), is_old(&answer)), (one, !one), "{method} {header:?}: {answer}");
    }
    for (header, path) in [(Some("2.0"), "/"), (None, "/?A2A-Version=0.9")] {
        let answer = send("SendMessage", header, path);
        assert_eq!(answer["error"]["code"], -32009, "{answer}");
        assert_eq!(answer["error"]["data"][0]["reason"], "VERSION_NOT_SUPPORTED");
    }
    let http = server.request("GET", "/tasks", &[("A2A-Version", "2.0")], None);
    assert_eq!(http.status, 400);
}

#[test]
fn one_card_serves_both_versions() {
    let stage = Stage::new([]);
    let server = stage.serve(&[]);
    let response = server.get("/.well-known/agent-card.json");
    let tag = response.header("etag").unwrap().to_owned();
    assert!(response.header("cache-control").unwrap().contains("max-age"));
    let card = response.json();
    assert_eq!((&card["name"], &card["protocolVersion"]), (&json!("Gemini SDLC Agent"), &json!("0.3.0")));
    assert_eq!(card["url"], format!("http://localhost:{}/", server.port));
    assert_eq!(card["skills"][0]["id"], "code_generation");
    let interfaces: Vec<(&str, &str)> = card["supportedInterfaces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["protocolBinding"].as_str().unwrap(), it["protocolVersion"].as_str().unwrap()))
        .collect();
    assert_eq!(
        interfaces,
        [("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "0.3"), ("HTTP+JSON", "0.3")]
    );
    assert_eq!(card["capabilities"]["pushNotifications"], false);
    let same = server.request("GET", "/.well-known/agent-card.json", &[("if-none-match", &tag)], None);
    assert_eq!(same.status, 304);
    assert_eq!(server.get("/extendedAgentCard").json()["name"], card["name"]);
}

#[test]
fn tasks_run_over_http_and_json_in_both_spellings() {
    let stage = Stage::new((0..4).map(|_| reply().text("ok")));
    let server = stage.serve(&[]);
    let one = json!({"message": {"messageId": "a", "role": "ROLE_USER", "parts": [{"text": "hi"}]}});
    let response = server.request("POST", "/message:send", &[("accept", "application/a2a+json")], Some(&one));
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/a2a+json")));
    let task = response.json()["task"].clone();
    assert_eq!(task["status"]["message"]["parts"][0]["text"], "ok", "{task}");
    let id = task["id"].as_str().unwrap();
    assert_eq!(server.get(&format!("/tasks/{id}")).json()["id"], task["id"]);
    assert_eq!(server.get("/tasks?pageSize=1").json()["totalSize"], 1);
    let old = json!({"message": {"messageId": "b", "role": "ROLE_USER", "content": [{"text": "hi"}]}});
    let task = server.post("/v1/message:send", &old).json()["task"].clone();
    assert_eq!(task["status"]["update"]["content"][0]["text"], "ok", "{task}");
    let mut again = one.clone();
    again["message"]["messageId"] = json!("c");
    again["message"]["taskId"] = json!(id);
    let mut stream = server.post("/message:stream", &again);
    assert_eq!(stream.event().unwrap()["task"]["id"], id, "1.0 begins with the task");
    drop(stream);
    let old_stream = json!({"message": {"messageId": "d", "role": "ROLE_USER", "content": [{"text": "hi"}]}});
    let events = server.post("/v1/message:stream", &old_stream).events();
    assert!(events[0].get("task").is_some());
    assert_eq!(events.last().unwrap()["statusUpdate"]["final"], true, "{events:?}");
    let missing = server.get("/tasks/nothing");
    assert_eq!(missing.status, 404);
    let error = missing.json();
    assert_eq!(error["error"]["details"][0]["reason"], "TASK_NOT_FOUND", "{error}");
    assert_eq!(
        server.post(&format!("/tasks/{id}:cancel"), &json!({})).json()["status"]["state"],
        "TASK_STATE_CANCELED"
    );
    let subscribe = server.get(&format!("/tasks/{id}:subscribe"));
    assert_eq!(subscribe.status, 400, "a task that is over sends nothing");
}
