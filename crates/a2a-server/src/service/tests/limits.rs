//! What an owner may use counts with every server, and after a restart.

use std::fs;
use std::time::{Duration, SystemTime};

use pollux_a2a::protocol::Method;
use pollux_domain::budget::Spent;
use pollux_domain::model::MicroUsd;
use pollux_test_support::within_a_day;
use serde_json::{Value, json};
use tokio::task::LocalSet;

use crate::error::ErrorKind;
use crate::options::ServeOptions;
use crate::testing::{Fault, Machine, message, runs, says, until};

async fn until_free(machine: &Machine, id: &Value) {
    let task = machine.task(id).await;
    until("the task is given up", async || task.holding().is_none() && task.session().is_none()).await;
}

/// Why a message is refused.
async fn refused(machine: &Machine, name: &str) -> String {
    let error = machine.send(message(name, None)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooMany, "{error}");
    error.message
}

#[test]
fn tokens_and_money_of_a_day_count_with_every_server_and_after_a_restart() {
    within_a_day(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(tokens_and_money_of_a_day());
    });
}

async fn tokens_and_money_of_a_day() {
    let test = async {
        let options = ServeOptions {
            max_tokens: Some(1_000_000),
            max_micro_usd: Some(2_500_000),
            ..ServeOptions::default()
        };
        let mut a = Machine::new(&options);
        let b = a.other(&options);
        a.script(&[says("one")]);
        b.script(&[says("one")]);
        let id = a.send(message("m1", None)).await.unwrap()["id"].clone();
        let spend = |machine: &Machine, task: &crate::task::Task, tokens, usd| {
            machine.service.count_spent(task, Spent { tokens, usd: MicroUsd(usd), ..Spent::default() });
        };
        spend(&a, &*a.task(&id).await, 600_000, 0);
        until("it is stored", async || a.objects("usage/local/").await.len() == 1).await;
        b.send(message("m2", None)).await.unwrap();
        spend(&b, &*b.task(&id).await, 400_000, 1_000);
        until("it is stored", async || a.objects("usage/local/").await.len() == 2).await;
        for machine in [&a, &b] {
            let text = refused(machine, "m3").await;
            assert!(text.starts_with("limit of 1000000 tokens per day reached; it resets at "), "{text}");
            assert!(text.ends_with("T00:00:00.000Z"), "{text}");
        }
        a.restart(&ServeOptions { max_tokens: None, ..options.clone() });
        a.send(message("m4", None)).await.unwrap();
        spend(&a, &*a.task(&id).await, 1, 2_499_000);
        let text = refused(&a, "m5").await;
        assert!(text.starts_with("limit of 2.5 USD per day reached"), "{text}");
        // Another day begins at nothing, and what was before is removed.
        a.put("usage/local/000001/gone", b"{\"tokens\": 1}").await;
        let c = a.other(&options);
        spend(&c, &*c.task(&id).await, 1, 0);
        let is_gone = async || !a.objects("usage/local/").await.iter().any(|key| key.contains("/000001/"));
        until("old counts are removed", is_gone).await;
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_turn_cannot_use_more_than_is_left() {
    let test = async {
        let options = ServeOptions {
            max_tokens: Some(1_000),
            max_micro_usd: Some(3_000_000),
            ..ServeOptions::default()
        };
        let a = Machine::new(&options);
        a.script(&[says("one")]);
        let id = a.send(message("m1", None)).await.unwrap()["id"].clone();
        let before = a.service.measured();
        let task = a.task(&id).await;
        a.service.count_spent(&task, Spent { tokens: 100, usd: MicroUsd(1_000_000), ..Spent::default() });
        assert_ne!(a.service.measured(), before);
        let mut budget = json!({"turn": {"requests": 5, "usd": 0.5}, "day": {"usd": 7}});
        a.service.limit_turn("local", &mut budget).await.unwrap();
        assert_eq!(budget["turn"]["requests"], 5);
        assert_eq!(budget["turn"]["usd"], 0.5, "the operator's own limit is lower");
        assert!(budget["turn"]["tokens"].as_u64().unwrap() <= 900, "{budget}");
        let mut none = Value::Null;
        a.service.limit_turn("other", &mut none).await.unwrap();
        assert_eq!(none, json!({"turn": {"tokens": 1_000, "usd": 3.0}}));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_turn_that_does_not_fit_says_when_it_will() {
    let test = async {
        let a = Machine::new(&ServeOptions { max_tokens: Some(100), ..ServeOptions::default() });
        a.script(&[says("one")]);
        let task = a.send(message("m1", None)).await.unwrap();
        assert_eq!(task["status"]["state"], "input-required", "{task}");
        let text = task["status"]["message"]["parts"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("limit of 100 tokens per day reached; it resets at "), "{text}");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn tasks_at_work_count_with_every_server() {
    let test = async {
        let options = ServeOptions { max_tasks: Some(1), ..ServeOptions::default() };
        let a = Machine::new(&options);
        let b = a.other(&options);
        let flag = a.home().join("flag");
        a.script(&[runs(&format!("until test -e {}; do sleep 0.05; done", flag.display())), says("one")]);
        b.script(&[says("two")]);
        let mut first = message("m1", None);
        first["configuration"] = json!({"blocking": false});
        let id = a.call(Method::Send, first).await.unwrap()["id"].clone();
        assert_eq!(refused(&b, "m2").await, "limit of 1 active tasks reached");
        fs::write(&flag, "").unwrap();
        until_free(&a, &id).await;
        b.send(message("m2", None)).await.unwrap();
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn workspaces_of_an_owner_are_limited() {
    let test = async {
        let options = ServeOptions { max_disk: Some(1), ..ServeOptions::default() };
        let a = Machine::new(&options);
        a.script(&[runs("head -c 1200000 /dev/urandom > large"), says("one")]);
        a.send(message("m1", None)).await.unwrap();
        let mut other = Machine::new(&options);
        other.script(&[says("one")]);
        other.send(message("m1", None)).await.unwrap();
        // What was measured before the first turn is believed for a moment.
        let b = {
            let mut a = a;
            a.restart(&options);
            a
        };
        let text = refused(&b, "m2").await;
        assert!(text.starts_with("limit of 1 MiB for workspaces reached"), "{text}");
        other.restart(&options);
        other.send(message("m2", None)).await.unwrap();
    };
    LocalSet::new().run_until(test).await;
}

/// Lets the folder of a task look as if it was not used for long.
fn age(machine: &Machine, id: &Value) {
    let note = machine.home().join("workspaces/.used").join(id.as_str().unwrap());
    let old = SystemTime::now() - Duration::from_secs(11 * 60);
    fs::File::options().write(true).open(note).unwrap().set_modified(old).unwrap();
}

#[tokio::test]
async fn a_folder_is_deleted_some_time_after_its_task_was_given_up_and_comes_back_with_it() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        a.script(&[runs("echo 1 > one"), says("one")]);
        let id = a.send(message("m1", None)).await.unwrap()["id"].clone();
        until_free(&a, &id).await;
        let folder = a.workspace(&*a.task(&id).await);
        a.service.clean_workspaces().await;
        assert!(folder.join("one").exists(), "not yet");
        age(&a, &id);
        a.service.clean_workspaces().await;
        assert!(!folder.exists());
        until_free(&a, &id).await;
        a.script(&[runs("cat one > two"), says("two")]);
        a.send(message("m2", Some(&id))).await.unwrap();
        assert_eq!(fs::read_to_string(folder.join("two")).unwrap(), "1\n");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_folder_that_is_in_use_or_could_not_be_stored_stays() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        let flag = a.home().join("flag");
        let waiting = format!("echo 1 > one; until test -e {}; do sleep 0.05; done", flag.display());
        a.script(&[runs(&waiting), says("one")]);
        let mut first = message("m1", None);
        first["configuration"] = json!({"blocking": false});
        let id = a.call(Method::Send, first).await.unwrap()["id"].clone();
        let folder = a.workspace(&*a.task(&id).await);
        until("the command runs", async || folder.join("one").exists()).await;
        age(&a, &id);
        a.service.clean_workspaces().await;
        assert!(folder.join("one").exists(), "its turn runs");
        // Also another process with the same folders leaves it alone.
        age(&a, &id);
        let b = a.on_same_machine(&ServeOptions::default());
        b.clean_workspaces().await;
        assert!(folder.join("one").exists());
        a.blobs.rule(|operation, key| match operation == "put" && key.contains("workspace") {
            true => Fault::Fail,
            false => Fault::None,
        });
        fs::write(&flag, "").unwrap();
        until_free(&a, &id).await;
        age(&a, &id);
        a.service.clean_workspaces().await;
        assert!(folder.join("one").exists(), "nobody else has it");
    };
    LocalSet::new().run_until(test).await;
}
