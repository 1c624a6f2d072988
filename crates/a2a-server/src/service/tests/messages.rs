//! Messages are carried out once: also if the store fails, and however many there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pollux_a2a::protocol::Method;
use serde_json::{Value, json};
use tokio::task::LocalSet;
use tokio::time::timeout;

use crate::error::ErrorKind;
use crate::manner::CallManner;
use crate::operations::call;
use crate::options::ServeOptions;
use crate::store::{ListQuery, waiting_message};
use crate::testing::{Fault, Machine, caller, message, runs, says, until};

fn texts(task: &Value) -> Vec<&str> {
    let history = task["history"].as_array().unwrap();
    history.iter().map(|message| message["parts"][0]["text"].as_str().unwrap()).collect()
}

/// The next operations of a kind on keys with such an end fail.
fn fail(machine: &Machine, operation: &'static str, end: &'static str, fault: Fault, times: usize) {
    let left = Arc::new(AtomicUsize::new(times));
    machine.blobs.rule(move |now, key| {
        let is_meant = now == operation && key.contains(end);
        let counts = is_meant
            && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if counts { fault } else { Fault::None }
    });
}

#[tokio::test]
async fn a_first_message_can_be_repeated_after_an_error_of_the_store() {
    let test = async {
        for (operation, end) in
            [("put", "metadata"), ("put", "active/"), ("put", "owners/"), ("put", "lease")]
        {
            let a = Machine::new(&ServeOptions::default());
            a.script(&[says("one")]);
            fail(&a, operation, end, Fault::Fail, 1);
            assert!(a.send(message("m1", None)).await.is_err(), "{end}");
            assert!(a.service.known().is_empty(), "{end}");
            let task = a.send(message("m1", None)).await.unwrap();
            assert_eq!(texts(&task), ["m1", "one"], "{end}");
            assert_eq!(a.objects("owners/").await.len(), 1, "{end}: it is listed once");
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_message_can_be_repeated_after_an_error_of_the_store() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        a.script(&[says("one")]);
        let id = a.send(message("m1", None)).await.unwrap()["id"].clone();
        let mut expected = vec!["m1".to_owned(), "one".to_owned()];
        for (number, (operation, end, fault)) in [
            ("put", "metadata", Fault::Fail),
            ("put", "inbox/", Fault::Fail),
            ("put", "inbox/", Fault::FailAfterwards),
            ("put", "lease", Fault::Fail),
            ("put", "active/", Fault::Fail),
            ("put", "owners/", Fault::Fail),
            ("get", "metadata", Fault::Fail),
        ]
        .into_iter()
        .enumerate()
        {
            let name = format!("n{number}");
            // The turn before is over with everything.
            let task = a.task(&id).await;
            until("the lease is given up", async || task.holding().is_none() && task.gate.try_lock().is_ok())
                .await;
            fail(&a, operation, end, fault, 1);
            let refused = a.send(message(&name, Some(&id))).await;
            assert!(refused.is_err(), "{operation} {end}: {refused:?}");
            a.blobs.rule(|_, _| Fault::None);
            let task = a.send(message(&name, Some(&id))).await.unwrap();
            expected.extend([name, "one".to_owned()]);
            assert_eq!(texts(&task), expected, "{operation} {end}");
        }
        until("the inbox is empty", async || {
            a.objects("tasks/").await.iter().all(|key| !key.contains("/inbox/"))
        })
        .await;
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_write_that_took_effect_although_it_failed_counts() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        a.script(&[says("one")]);
        fail(&a, "put", "metadata", Fault::FailAfterwards, 1);
        let task = a.send(message("m1", None)).await.unwrap();
        assert_eq!(texts(&task), ["m1", "one"]);
        fail(&a, "put", "metadata", Fault::FailAfterwards, 1);
        let task = a.send(message("m2", Some(&task["id"]))).await.unwrap();
        assert_eq!(texts(&task), ["m1", "one", "m2", "one"]);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn messages_leave_the_inbox_and_are_not_found_there_again() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        a.script(&[says("one")]);
        let id = a.send(message("m1", None)).await.unwrap()["id"].clone();
        for name in ["m2", "m3"] {
            a.send(message(name, Some(&id))).await.unwrap();
        }
        let inbox = format!("tasks/{}/inbox/", id.as_str().unwrap());
        until("the inbox is empty", async || a.objects(&inbox).await.is_empty()).await;
        let task = a.send(message("m3", Some(&id))).await.unwrap();
        assert_eq!(texts(&task).len(), 6, "the same message again runs once");
        // Many messages that another server took, more than a page of the list has.
        let task = a.task(&id).await;
        let digest = |number: usize| format!("{number:032x}");
        for number in 0..1_005 {
            let sent = message(&format!("late {number}"), Some(&id));
            let content = waiting_message(&sent["message"], i64::try_from(number).unwrap());
            a.put(&format!("{inbox}{}", digest(number)), content.to_string().as_bytes()).await;
        }
        assert_eq!(a.service.store.inbox(&task.id).await.unwrap().len(), 1_005);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_message_that_arrives_while_the_session_closes_is_carried_out() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        let (ending, go) = (a.home().join("ending"), a.home().join("go"));
        let hook = format!("touch {}; until [ -e {} ]; do sleep 0.05; done", ending.display(), go.display());
        let hooks = json!({"hooks": {"SessionEnd": [{"hooks": [{"type": "command", "command": hook}]}]}});
        std::fs::write(a.home().join(".gemini/settings.json"), hooks.to_string()).unwrap();
        a.script(&[says("one")]);
        let id = a.send(message("m1", None)).await.unwrap()["id"].clone();
        until("the session closes", async || ending.exists()).await;
        let mut second = message("m2", Some(&id));
        second["configuration"] = json!({"blocking": false});
        a.send(second).await.unwrap();
        std::fs::write(&go, "").unwrap();
        let task = a.task(&id).await;
        until("the turn ends", async || task.session().is_none() && task.holding().is_none()).await;
        let task = a.call(Method::Get, json!({"id": id})).await.unwrap();
        assert_eq!(texts(&task), ["m1", "one", "m2", "one"]);
        assert_eq!(task["status"]["state"], "input-required");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_session_that_cannot_start_fails_its_task_and_nobody_waits_for_it() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        std::fs::write(a.home().join("script.jsonl"), "not json").unwrap();
        let task = a.send(message("m1", None)).await.unwrap();
        assert_eq!(task["status"]["state"], "failed", "{task}");
        let task = a.task(&task["id"]).await;
        until("the lease is given up", async || task.holding().is_none()).await;
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_request_whose_client_goes_away_is_carried_out_to_the_end() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        a.script(&[says("one")]);
        a.blobs.rule(|operation, _| match operation {
            "put" => Fault::Late(Duration::from_millis(50)),
            _ => Fault::None,
        });
        let manner = CallManner { dialect: pollux_a2a::protocol::Dialect::Tagged, with_metadata: true };
        let (params, caller) = (message("m1", None), caller());
        let request = call(&a.service, &caller, Method::Send, &params, manner);
        assert!(timeout(Duration::from_millis(20), request).await.is_err(), "the client is gone");
        let query = ListQuery { size: 10, ..ListQuery::default() };
        until("the task rests", async || {
            let (tasks, _) = a.service.list(&caller, &query).await.unwrap();
            tasks.first().is_some_and(|task| task.read(|record| record.history.newest(None).len() == 2))
        })
        .await;
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn messages_that_arrive_together_count_for_the_limit() {
    let test = async {
        let a = Machine::new(&ServeOptions { max_tasks: Some(1), ..ServeOptions::default() });
        a.script(&[runs("sleep 1"), says("one")]);
        let (one, other) = tokio::join!(a.send(message("m1", None)), a.send(message("m2", None)));
        let refused = one.as_ref().err().or(other.as_ref().err()).map(|error| error.kind);
        assert_eq!(refused, Some(ErrorKind::TooMany));
        assert!(one.is_ok() || other.is_ok());
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_message_whose_stream_is_refused_is_not_carried_out() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        a.script(&[says("one")]);
        let mut slots = Vec::new();
        while let Ok(slot) = a.service.streams.take("local") {
            slots.push(slot);
        }
        let refused = a.call(Method::Stream, message("m1", None)).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::TooMany);
        assert!(a.objects("tasks/").await.is_empty());
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn names_that_a_store_makes_up_are_refused() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        let digest = crate::access::short_digest("m1");
        a.put(&format!("messages/local/{digest}"), b"../../escaped").await;
        let refused = a.send(message("m1", None)).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Internal);
        assert!(!a.home().join("escaped").exists());
        a.put("active/not.an.id", b"").await;
        a.put("active/good", b"").await;
        assert_eq!(a.service.store.active().await.unwrap(), ["good"]);
        // A number beyond all others.
        a.put("tasks/t/lease", br#"{"replica": "", "epoch": 18446744073709551615}"#).await;
        assert!(a.service.store.acquire("t", &a.service.seen).await.is_err());
    };
    LocalSet::new().run_until(test).await;
}
