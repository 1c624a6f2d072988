//! Webhooks are told every state, and clients cannot have anything else called.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_a2a::protocol::{Dialect, Method, TaskState};
use pollux_net::guarded::{Resolver, system_resolver};
use pollux_test_support::{FakeHttp, HttpAnswer, HttpRequest};
use serde_json::{Value, json};
use tokio::task::LocalSet;

use crate::error::ErrorKind;
use crate::options::ServeOptions;
use crate::store::push::PushedUpdate;
use crate::testing::{Machine, Push, message, says, state, until};

const SECRET: &str = "a secret that the servers share 0123456789";

/// Webhooks on this machine may be called.
fn near() -> Push {
    Push { allowed: &["127.0.0.1"], resolver: system_resolver(), secret: SECRET }
}

/// Only public addresses may be called; names lead to these addresses, one after another.
fn public(addresses: &'static [&'static str]) -> Push {
    let count = AtomicUsize::new(0);
    let resolver: Resolver = Arc::new(move |_| {
        let at = count.fetch_add(1, Ordering::SeqCst).min(addresses.len() - 1);
        Box::pin(async move { Ok(vec![addresses[at].parse::<IpAddr>().unwrap()]) })
    });
    Push { allowed: &[], resolver, secret: SECRET }
}

/// A message that registers a webhook.
fn with_webhook(name: &str, url: &str) -> Value {
    let mut params = message(name, None);
    params["configuration"] = json!({"pushNotificationConfig": {
        "url": url, "token": "token-1",
        "authentication": {"schemes": ["Bearer"], "credentials": "secret-1"},
    }});
    params
}

fn states(hook: &FakeHttp) -> Vec<String> {
    let state = |request: &HttpRequest| {
        let body = request.json();
        let status =
            ["/status", "/task/status", "/statusUpdate/status"].iter().find_map(|at| body.pointer(at));
        status.unwrap()["state"].as_str().unwrap().to_owned()
    };
    hook.requests().iter().map(state).collect()
}

async fn until_free(machine: &Machine, id: &Value) {
    let task = machine.task(id).await;
    until("the task is given up", async || task.holding().is_none() && task.session().is_none()).await;
}

#[tokio::test]
async fn a_webhook_is_told_every_state_once_and_in_order() {
    let test = async {
        let hook = FakeHttp::start(|_| HttpAnswer::status(200));
        let a = Machine::with_push(&ServeOptions::default(), near());
        a.script(&[says("one")]);
        let task = a.send(with_webhook("m1", &format!("{}/hook", hook.url()))).await.unwrap();
        let id = task["id"].clone();
        until_free(&a, &id).await;
        assert_eq!(states(&hook), ["submitted", "working", "input-required"]);
        a.send(message("m2", Some(&id))).await.unwrap();
        until_free(&a, &id).await;
        assert_eq!(states(&hook)[3..], ["working", "input-required"]);
        a.call(Method::Cancel, json!({"id": id})).await.unwrap();
        until_free(&a, &id).await;
        assert_eq!(states(&hook)[5..], ["canceled"]);
        let last = &hook.requests()[4];
        assert_eq!((last.method.as_str(), last.path.as_str()), ("POST", "/hook"));
        assert_eq!(last.header("authorization"), Some("Bearer secret-1"));
        assert_eq!(last.header("x-a2a-notification-token"), Some("token-1"));
        assert_eq!(last.header("content-type"), Some("application/json"));
        let body = last.json();
        assert_eq!((&body["kind"], &body["id"]), (&json!("task"), &id), "{body}");
        assert_eq!(body["history"].as_array().unwrap().len(), 4, "{body}");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_webhook_of_the_newer_version_gets_events_of_a_stream() {
    let test = async {
        let hook = FakeHttp::start(|_| HttpAnswer::status(204));
        let a = Machine::with_push(&ServeOptions::default(), near());
        a.script(&[says("one")]);
        let params = json!({
            "message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hi"}]},
            "configuration": {"taskPushNotificationConfig": {
                "url": hook.url(), "authentication": {"scheme": "Basic", "credentials": "eDp5"}}},
        });
        let task = a.call_in(Dialect::One, Method::Send, params).await.unwrap();
        until_free(&a, &task["task"]["id"]).await;
        let sent: Vec<Value> = hook.requests().iter().map(HttpRequest::json).collect();
        assert_eq!(
            states(&hook),
            ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED"]
        );
        assert_eq!(sent[0]["task"]["id"], task["task"]["id"], "{sent:?}");
        assert!(sent[1]["statusUpdate"]["metadata"].get("coderAgent").is_none(), "{sent:?}");
        let last = hook.requests().pop().unwrap();
        assert_eq!(last.header("content-type"), Some("application/a2a+json"));
        assert_eq!(last.header("authorization"), Some("Basic eDp5"));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn webhooks_are_registered_shown_and_deleted_in_both_versions() {
    let test = async {
        let hook = FakeHttp::start(|_| HttpAnswer::status(200));
        let a = Machine::with_push(&ServeOptions::default(), near());
        a.script(&[says("one")]);
        let id = a.send(message("m1", None)).await.unwrap()["id"].clone();
        until_free(&a, &id).await;
        let url = hook.url() + "/";
        let set =
            json!({"taskId": id, "pushNotificationConfig": {"id": "c1", "url": url, "token": "token-1"}});
        let shown = json!({"taskId": id, "pushNotificationConfig": {"id": "c1", "url": url}});
        assert_eq!(a.call(Method::SetPush, set).await.unwrap(), shown);
        let get = json!({"id": id, "pushNotificationConfigId": "c1"});
        assert_eq!(a.call(Method::GetPush, get.clone()).await.unwrap(), shown);
        assert_eq!(a.call(Method::GetPush, json!({"id": id})).await.unwrap(), shown);
        let create = json!({"taskId": id, "id": "c2", "url": url, "authentication": {"scheme": "Bearer", "credentials": "x"}});
        let second = json!({"id": "c2", "url": url, "authentication": {"scheme": "Bearer"}, "taskId": id});
        assert_eq!(a.call_in(Dialect::One, Method::SetPush, create).await.unwrap(), second);
        assert_eq!(a.call(Method::ListPush, json!({"id": id})).await.unwrap().as_array().unwrap().len(), 2);
        let listed = a.call_in(Dialect::One, Method::ListPush, json!({"taskId": id})).await.unwrap();
        assert_eq!((&listed["configs"][1], &listed["nextPageToken"]), (&second, &json!("")));
        let old = a.call_in(Dialect::OldBuffers, Method::GetPush, get.clone()).await.unwrap();
        assert_eq!(old["name"], format!("tasks/{}/pushNotificationConfigs/c1", id.as_str().unwrap()));
        assert_eq!(a.call(Method::DeletePush, get.clone()).await.unwrap(), Value::Null);
        assert_eq!(a.call(Method::GetPush, get).await.unwrap_err().kind, ErrorKind::TaskNotFound);
        let delete = json!({"taskId": id, "id": "c2"});
        assert_eq!(a.call_in(Dialect::One, Method::DeletePush, delete).await.unwrap(), json!({}));
        for number in 0..11 {
            let set = json!({"taskId": id, "id": format!("c{number}"), "url": url});
            let answer = a.call_in(Dialect::One, Method::SetPush, set).await;
            assert_eq!(answer.is_ok(), number < 10, "{number}");
        }
        // It is told what happens from then on.
        assert!(hook.requests().is_empty());
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn without_the_switch_webhooks_are_not_supported() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        a.script(&[says("one")]);
        assert_eq!(a.service.card()["capabilities"]["pushNotifications"], false);
        let refused = a.send(with_webhook("m1", "https://hooks.example/")).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::NoPush);
        let id = a.send(message("m1", None)).await.unwrap()["id"].clone();
        for method in [Method::SetPush, Method::GetPush, Method::ListPush, Method::DeletePush] {
            assert_eq!(a.call(method, json!({"id": id})).await.unwrap_err().kind.code(), -32003);
        }
        let b = Machine::with_push(&ServeOptions::default(), near());
        assert_eq!(b.service.card()["capabilities"]["pushNotifications"], true);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn addresses_inside_are_refused_in_every_spelling() {
    let test = async {
        let a = Machine::with_push(&ServeOptions::default(), public(&["8.8.8.8"]));
        a.script(&[says("one")]);
        for url in [
            "http://hooks.example/",
            "ftp://hooks.example/",
            "file:///etc/passwd",
            "https://127.0.0.1/",
            "https://127.1/",
            "https://2130706433/",
            "https://0x7f000001/",
            "https://017700000001/",
            "https://0/",
            "https://10.0.0.1/",
            "https://172.16.0.1/",
            "https://192.168.1.1/",
            "https://100.64.0.1/",
            "https://169.254.169.254/latest/meta-data/",
            "https://2852039166/",
            "https://[::1]/",
            "https://[::]/",
            "https://[::ffff:127.0.0.1]/",
            "https://[::ffff:a9fe:a9fe]/",
            "https://[64:ff9b::7f00:1]/",
            "https://[2002:7f00:1::]/",
            "https://[fe80::1]/",
            "https://[fd00:ec2::254]/",
            "https://localhost/",
            "https://metadata.google.internal/",
            "https://printer.local/",
            "https://intranet/",
            "https://user:password@hooks.example/",
        ] {
            let refused = a.send(with_webhook("m1", url)).await.unwrap_err();
            assert_eq!(refused.kind, ErrorKind::InvalidParams, "{url}");
        }
        assert!(a.objects("").await.iter().all(|key| !key.starts_with("tasks/")), "nothing was stored");
    };
    LocalSet::new().run_until(test).await;
}

/// Whether nobody has connected to a listener.
fn is_untouched(listener: &TcpListener) -> bool {
    listener.set_nonblocking(true).unwrap();
    matches!(listener.accept(), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

#[tokio::test]
async fn a_name_that_leads_inside_is_never_connected_to() {
    let test = async {
        for addresses in [&["127.0.0.1"][..], &["192.0.2.1", "127.0.0.1"], &["::1"], &["::ffff:127.0.0.1"]] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("https://rebind.example.com:{}/", listener.local_addr().unwrap().port());
            let a = Machine::with_push(&ServeOptions::default(), public(addresses));
            a.script(&[says("one")]);
            let id = a.send(with_webhook("m1", &url)).await.unwrap()["id"].clone();
            until_free(&a, &id).await;
            assert!(a.service.measured().contains("pollux_a2a_webhook_failures_total 3"), "{addresses:?}");
            assert!(is_untouched(&listener), "{addresses:?}");
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let test = async {
        let inside = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = format!("http://127.0.0.1:{}/secret", inside.local_addr().unwrap().port());
        let hook = FakeHttp::start(move |_| HttpAnswer::status(307).header("Location", &target));
        let a = Machine::with_push(&ServeOptions::default(), near());
        a.script(&[says("one")]);
        let id = a.send(with_webhook("m1", &hook.url())).await.unwrap()["id"].clone();
        until_free(&a, &id).await;
        assert_eq!(hook.requests().len(), 3, "one for each state");
        assert!(is_untouched(&inside));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_webhook_that_hangs_does_not_delay_the_turn_and_is_told_in_the_end() {
    let test = async {
        let is_open = Arc::new(AtomicBool::new(false));
        let gate = Arc::clone(&is_open);
        let hook = FakeHttp::start(move |_| {
            while !gate.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(5));
            }
            HttpAnswer::status(200)
        });
        let a = Machine::with_push(&ServeOptions::default(), near());
        a.script(&[says("one")]);
        // Both turns end while the first call still waits for its answer.
        let id = a.send(with_webhook("m1", &hook.url())).await.unwrap()["id"].clone();
        let second = a.send(message("m2", Some(&id))).await.unwrap();
        assert_eq!(second["status"]["state"], "input-required");
        assert!(a.task(&id).await.holding().is_some(), "it is kept for the webhook");
        is_open.store(true, Ordering::SeqCst);
        until_free(&a, &id).await;
        let mut told = states(&hook);
        // A call that was given up after its time is repeated.
        told.dedup();
        assert_eq!(told, ["submitted", "working", "input-required", "working", "input-required"]);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_webhook_is_tried_three_times() {
    let answers = Arc::new(Mutex::new(vec![200, 500, 503, 400, 200, 500, 500, 500]));
    let left = Arc::clone(&answers);
    let hook = FakeHttp::start(move |_| HttpAnswer::status(left.lock().unwrap().pop().unwrap_or(200)));
    let a = Machine::with_push(&ServeOptions::default(), near());
    let webhooks = a.service.webhooks.clone().unwrap();
    let target = json!({"taskId": "t", "url": hook.url()});
    let config = crate::push::PushConfig::of_request(
        &target,
        &crate::push::PushTarget::read(&target).unwrap(),
        pollux_a2a::protocol::Version::One,
    )
    .unwrap();
    let call = || webhooks.call(&config, &Value::Null);
    assert!(call().await.is_err(), "three errors of the server");
    assert_eq!(hook.requests().len(), 3);
    assert!(call().await.is_ok());
    assert!(call().await.is_err(), "its own refusal is not repeated");
    assert_eq!(hook.requests().len(), 5);
    assert!(call().await.is_ok(), "after two errors");
    assert_eq!(hook.requests().len(), 8);
}

#[tokio::test]
async fn the_next_holder_tells_what_the_one_before_could_not() {
    let test = async {
        let hook = FakeHttp::start(|_| HttpAnswer::status(200));
        let a = Machine::with_push(&ServeOptions::default(), near());
        a.script(&[says("one")]);
        let id = a.send(with_webhook("m1", &hook.url())).await.unwrap()["id"].clone();
        until_free(&a, &id).await;
        // As if the server had died after the first call.
        let early = PushedUpdate { number: 1, state: Some(TaskState::Submitted) };
        a.service.store.set_pushed(id.as_str().unwrap(), early).await.unwrap();
        let b = a.other(&ServeOptions::default());
        let task = b.task(&id).await;
        b.service.try_recover(&task).await;
        until_free(&b, &id).await;
        assert_eq!(states(&hook).last().unwrap(), "input-required");
        assert_eq!(hook.requests().len(), 4);
        assert_eq!(state(&task), TaskState::InputRequired);
        // What is known is not told again.
        b.service.try_recover(&task).await;
        until_free(&b, &id).await;
        assert_eq!(hook.requests().len(), 4);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn what_is_stored_about_a_webhook_is_encrypted() {
    let test = async {
        let hook = FakeHttp::start(|_| HttpAnswer::status(200));
        let a = Machine::with_push(&ServeOptions::default(), near());
        a.script(&[says("one")]);
        let id = a.send(with_webhook("m1", &format!("{}/hook", hook.url()))).await.unwrap()["id"].clone();
        let text = id.as_str().unwrap();
        until_free(&a, &id).await;
        let told = hook.requests().len();
        let key = format!("tasks/{text}/push/{text}");
        let stored = String::from_utf8(a.get(&key).await).unwrap();
        assert!(stored.chars().all(|c| c.is_ascii_hexdigit() || c == ':'), "{stored}");
        // A server with another secret neither shows nor calls it.
        let b = a.other_with_push(&ServeOptions::default(), Push { secret: "another secret", ..near() });
        b.script(&[says("two")]);
        assert_eq!(b.call(Method::ListPush, json!({"id": id})).await.unwrap(), json!([]));
        b.send(message("m2", Some(&id))).await.unwrap();
        until_free(&b, &id).await;
        assert_eq!(hook.requests().len(), told);
        // Nor does what is stored for one task count for another.
        let other = a.send(message("m3", None)).await.unwrap()["id"].clone();
        a.put(&format!("tasks/{}/push/x", other.as_str().unwrap()), stored.as_bytes()).await;
        assert_eq!(a.call(Method::ListPush, json!({"id": other})).await.unwrap(), json!([]));
    };
    LocalSet::new().run_until(test).await;
}
