use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pollux_domain::remote_agent::{CardSource, RemoteError};
use pollux_test_support::{FakeHttp, HttpAnswer};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::scene::{agent, call, card, method, result, status, stream, task, with};

#[tokio::test]
async fn an_answer_is_streamed_over_json_rpc_and_the_next_message_continues_the_context() {
    let server = FakeHttp::start_with_url(|url, request| match request.path.as_str() {
        "/card.json" => HttpAnswer::json(&card(url, &json!({}))),
        _ if request.json()["params"]["message"]["parts"][0]["text"] == "more" => {
            stream(&[result(&status("completed", "yes", true))])
        }
        _ => stream(&[
            result(&task("submitted")),
            result(&status("working", "thinking ", false)),
            result(&json!({"kind": "artifact-update", "taskId": "t1", "contextId": "c1", "artifact":
                {"artifactId": "a", "name": "sum", "parts": [{"kind": "text", "text": "4"}]}})),
            result(&status("input-required", "is that all?", true)),
        ]),
    });
    let agent = agent(&format!("{}/card.json", server.url()), None);
    assert_eq!(agent.about().await.unwrap(), "Agent Description: Helps\nSkills:\nsums: adds");
    let (said, shown) = call(&*agent, "2 + 2").await;
    assert_eq!(said.unwrap(), "thinking is that all?\n\nArtifact (sum):\n4");
    assert!(shown.contains(&"thinking ".to_owned()), "{shown:?}");
    assert_eq!(call(&*agent, "more").await.0.unwrap(), "yes");
    call(&*agent, "more").await.0.unwrap();
    let sent: Vec<_> = server
        .requests_to("/rpc")
        .iter()
        .map(|request| request.json()["params"]["message"].clone())
        .collect();
    let of = |at: usize| (sent[at]["contextId"].as_str(), sent[at]["taskId"].as_str());
    assert_eq!([of(0), of(1), of(2)], [(None, None), (Some("c1"), Some("t1")), (Some("c1"), None)]);
    assert_eq!((sent[0]["kind"].as_str(), sent[0]["role"].as_str()), (Some("message"), Some("user")));
    assert_ne!(sent[0]["messageId"], sent[1]["messageId"]);
    assert_eq!(server.requests_to("/card.json").len(), 1, "the card is fetched once");
}

#[tokio::test]
async fn http_json_uses_protobuf_field_names() {
    let server = FakeHttp::start_with_url(|url, request| match request.path.as_str() {
        "/.well-known/agent-card.json" => HttpAnswer::json(&card(
            url,
            &json!({"url": format!("{url}/api/"), "preferredTransport": "HTTP+JSON"}),
        )),
        _ => stream(&[
            json!({"task": {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_SUBMITTED"}}}),
            json!({"statusUpdate": {"taskId": "t1", "contextId": "c1", "final": true, "status": {"state": "TASK_STATE_COMPLETED",
                "message": {"role": "ROLE_AGENT", "content": [{"text": "done"}]}}}}),
        ]),
    });
    let agent = agent(&server.url(), None);
    assert_eq!(call(&*agent, "go").await.0.unwrap(), "done");
    let sent = server.requests_to("/api/v1/message:stream");
    assert_eq!(sent[0].json()["message"]["content"], json!([{"text": "go"}]));
    assert_eq!(sent[0].json()["message"]["role"], "ROLE_USER");
}

#[tokio::test]
async fn a_1_0_agent_is_called_with_the_1_0_protocol() {
    let server = FakeHttp::start(|_| {
        stream(&[result(&json!({"message": {"role": "ROLE_AGENT", "parts": [{"text": "newer"}]}}))])
    });
    let card = json!({"supportedInterfaces": [{"url": format!("{}/rpc", server.url()), "protocolBinding": "JSONRPC",
        "protocolVersion": "1.0"}], "capabilities": {"streaming": true}});
    let agent = with(CardSource::Json(card.to_string()), None);
    assert_eq!(call(&*agent, "go").await.0.unwrap(), "newer");
    let sent = &server.requests()[0];
    assert_eq!((method(sent).as_str(), sent.header("a2a-version")), ("SendStreamingMessage", Some("1.0")));
    assert_eq!(sent.json()["params"]["message"]["parts"], json!([{"text": "go"}]));
}

#[tokio::test]
async fn without_streaming_the_task_is_polled_until_it_is_done() {
    let asked = Arc::new(AtomicUsize::new(0));
    let server = FakeHttp::start_with_url(move |url, request| {
        match (request.path.as_str(), method(request).as_str()) {
            ("/card.json", _) => HttpAnswer::json(&card(url, &json!({"capabilities": {}}))),
            (_, "message/send") => HttpAnswer::json(&result(&task("submitted"))),
            (_, "tasks/get") if asked.fetch_add(1, Ordering::SeqCst) < 1 => {
                HttpAnswer::json(&result(&task("working")))
            }
            _ => {
                let mut done = task("completed");
                done["history"] = json!([{"role": "agent", "parts": [{"kind": "text", "text": "at last"}]}]);
                HttpAnswer::json(&result(&done))
            }
        }
    });
    let agent = agent(&format!("{}/card.json", server.url()), None);
    assert_eq!(call(&*agent, "go").await.0.unwrap(), "at last");
    let methods: Vec<String> = server.requests_to("/rpc").iter().map(method).collect();
    assert_eq!(methods, ["message/send", "tasks/get", "tasks/get"]);
}

#[tokio::test]
async fn after_a_broken_stream_the_task_is_polled() {
    let server =
        FakeHttp::start_with_url(|url, request| match (request.path.as_str(), method(request).as_str()) {
            ("/card.json", _) => HttpAnswer::json(&card(url, &json!({}))),
            (_, "message/stream") => stream(&[result(&task("working"))]),
            _ => HttpAnswer::json(&result(
                &json!({"kind": "task", "id": "t1", "contextId": "c1", "status": {"state": "completed",
            "message": {"role": "agent", "parts": [{"kind": "text", "text": "done"}]}}}),
            )),
        });
    let agent = agent(&format!("{}/card.json", server.url()), None);
    assert_eq!(call(&*agent, "go").await.0.unwrap(), "done");
}

#[tokio::test]
async fn a_failed_task_is_reported_with_its_message() {
    let server = FakeHttp::start_with_url(|url, request| match request.path.as_str() {
        "/card.json" => HttpAnswer::json(&card(url, &json!({}))),
        _ => stream(&[result(&status("failed", "no budget", true))]),
    });
    let agent = agent(&format!("{}/card.json", server.url()), None);
    let failed = call(&*agent, "go").await.0.unwrap_err();
    assert_eq!(
        failed,
        RemoteError::Failed("the agent 'helper' ended the task with status failed: no budget".to_owned())
    );
}

#[tokio::test]
async fn cancelling_notifies_the_agent() {
    let server =
        FakeHttp::start_with_url(|url, request| match (request.path.as_str(), method(request).as_str()) {
            ("/card.json", _) => HttpAnswer::json(&card(url, &json!({}))),
            (_, "tasks/cancel") => HttpAnswer::json(&result(&task("canceled"))),
            _ => stream(&[result(&status("working", "hm", false))]),
        });
    let agent = agent(&format!("{}/card.json", server.url()), None);
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    // The first word is enough.
    let live = move |_: &str| stop.cancel();
    assert_eq!(agent.call("go", &live, &cancel).await, Err(RemoteError::Cancelled));
    let last = server.requests().pop().unwrap().json();
    assert_eq!((last["method"].as_str(), last["params"]["id"].as_str()), (Some("tasks/cancel"), Some("t1")));
}
