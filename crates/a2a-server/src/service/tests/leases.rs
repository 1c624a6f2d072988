//! Who works on a task, also while the store hangs or fails.

use std::time::Duration;

use pollux_a2a::protocol::{TaskState, Update};
use serde_json::json;
use tokio::task::LocalSet;
use tokio::time::sleep;

use crate::command::Command;
use crate::options::ServeOptions;
use crate::service::holding::Hold;
use crate::store::events::Cursor;
use crate::store::lease::Observations;
use crate::task::Task;
use crate::task::record::Record;
use crate::testing::{Fault, Machine, message, runs, says, state, until};

fn is_lease(operation: &str, key: &str) -> bool {
    operation == "put" && key.ends_with("/lease")
}

fn working(service: &crate::service::Service) -> Update {
    let task = Task::new(Record::new("t", "c", "local"), None, Cursor::default());
    service.narrator(&task).state(TaskState::Working, None, false)
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_elsewhere_does_not_delay_the_renewal() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        let b = a.other(&ServeOptions::default());
        let (task, holding) = a.service.create(Record::new("t", "c", "local")).await.unwrap();
        // Updates cannot be written, and messages cannot be listed.
        a.blobs.rule(|operation, key| {
            let is_other = key.contains("/events/") || operation == "list";
            if is_other { Fault::Hang } else { Fault::None }
        });
        a.service.publish(&task, working(&a.service));
        let seen = b.task(&json!("t")).await;
        for _ in 0..60 {
            sleep(Duration::from_secs(2)).await;
            assert!(matches!(b.service.hold(&seen).await, Ok(Hold::Busy)));
        }
        assert!(holding.guard.is_open() && !holding.is_over());
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn calls_wait_long_before_another_server_may_take_the_task() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        let b = a.other(&ServeOptions::default());
        let (_, holding) = a.service.create(Record::new("t", "c", "local")).await.unwrap();
        for hangs in [true, false] {
            let seen = b.task(&json!("t")).await;
            a.blobs.rule(move |operation, key| match is_lease(operation, key) {
                true if hangs => Fault::Hang,
                true => Fault::Fail,
                false => Fault::None,
            });
            let mut closed = 0;
            for _ in 0..14 {
                sleep(Duration::from_secs(1)).await;
                assert!(matches!(b.service.hold(&seen).await, Ok(Hold::Busy)));
                closed += u32::from(!holding.guard.is_open());
            }
            assert!(closed > 0, "no call starts although nothing was renewed for 14 s");
            a.blobs.rule(|_, _| Fault::None);
            // A renewal that hangs is given up and repeated.
            sleep(Duration::from_secs(12)).await;
            assert!(holding.guard.is_open() && !holding.is_over());
        }
        a.blobs.rule(|operation, key| if is_lease(operation, key) { Fault::Hang } else { Fault::None });
        let seen = b.task(&json!("t")).await;
        let mut is_taken = false;
        for _ in 0..40 {
            sleep(Duration::from_secs(1)).await;
            is_taken = is_taken || matches!(b.service.hold(&seen).await, Ok(Hold::Held(_)));
            assert!(!is_taken || !holding.guard.is_open());
        }
        assert!(is_taken);
        a.blobs.rule(|_, _| Fault::None);
        sleep(Duration::from_secs(15)).await;
        assert!(holding.lost.is_cancelled());
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_succeeds_slowly_keeps_the_lease() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        let (_, holding) = a.service.create(Record::new("t", "c", "local")).await.unwrap();
        a.blobs.rule(|operation, key| match is_lease(operation, key) {
            true => Fault::Late(Duration::from_secs(12)),
            false => Fault::None,
        });
        sleep(Duration::from_secs(18)).await;
        a.blobs.rule(|_, _| Fault::None);
        sleep(Duration::from_secs(20)).await;
        assert!(!holding.is_over() && holding.guard.is_open());
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_batch_whose_write_seemed_to_fail_is_not_taken_for_one_of_another_server() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        let (task, holding) = a.service.create(Record::new("t", "c", "local")).await.unwrap();
        a.blobs.rule(|operation, key| match operation == "put" && key.contains("/events/") {
            true => Fault::FailAfterwards,
            false => Fault::None,
        });
        a.service.publish(&task, working(&a.service));
        assert!(a.service.flush(&task, &holding).await.is_err());
        a.service.publish(&task, working(&a.service));
        a.blobs.rule(|_, _| Fault::None);
        a.service.flush(&task, &holding).await.unwrap();
        assert!(!holding.is_over());
        let b = a.other(&ServeOptions::default());
        assert_eq!(b.task(&json!("t")).await.last(), task.last(), "both updates are there");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_command_for_a_lost_task_starts_no_session() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        a.script(&[runs("touch ran"), says("done")]);
        let mut record = Record::new("t", "c", "local");
        record.owns_workspace = true;
        let (task, holding) = a.service.create(record).await.unwrap();
        holding.lost.cancel();
        task.tell(&a.service, &holding, Command::Prompt { parts: Vec::new(), typed: String::new() });
        until("the session ends", async || task.session().is_none()).await;
        // Nothing follows it.
        for _ in 0..100 {
            tokio::task::yield_now().await;
            assert!(task.session().is_none() && !task.has_commands());
        }
        assert!(!a.workspace(&task).exists(), "its folder may be that of the next holder");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn the_mark_of_work_is_removed_while_the_lease_is_held() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        let (task, _) = a.service.create(Record::new("t", "c", "local")).await.unwrap();
        a.service.give_up_lease(&task).await;
        let log = a.blobs.log();
        let last = |wanted: &str| log.iter().rposition(|line| line == wanted).unwrap();
        assert!(last("delete active/t") < last("put tasks/t/lease"), "{log:?}");
        assert!(a.objects("active/").await.is_empty());
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn only_an_interrupted_task_is_resumed() {
    let test = async {
        let options = ServeOptions { resume_tasks: true, ..ServeOptions::default() };
        let a = Machine::new(&options);
        a.script(&[says("done")]);
        for (id, state) in [("rested", TaskState::InputRequired), ("broken", TaskState::Working)] {
            let mut record = Record::new(id, "c", "local");
            record.state = state;
            record.owns_workspace = true;
            let said = crate::incoming::message(&message("hi", None)).unwrap();
            record.history.append(&said);
            let (task, _) = a.service.create(record).await.unwrap();
            a.service.give_up_lease(&task).await;
            a.service.try_recover(&task).await;
            let is_resumed = task.session().is_some();
            assert_eq!(is_resumed, id == "broken", "{id}");
            until("it rests", async || task.session().is_none()).await;
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_failed_takeover_gives_the_lease_back() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        let b = a.other(&ServeOptions::default());
        let (task, _) = a.service.create(Record::new("t", "c", "local")).await.unwrap();
        a.service.give_up_lease(&task).await;
        let seen = b.task(&json!("t")).await;
        b.blobs.rule(|operation, key| match (operation, key) {
            ("put", "active/t") => Fault::Fail,
            _ => Fault::None,
        });
        assert!(b.service.hold(&seen).await.is_err());
        assert!(seen.holding().is_none());
        until("the lease is free", async || matches!(a.service.hold(&task).await, Ok(Hold::Held(_)))).await;
        assert_eq!(state(&task), TaskState::Submitted);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_message_that_arrives_while_its_holder_gives_the_task_up_is_acted_on() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        a.script(&[says("one")]);
        let id = a.send(message("m1", None)).await.unwrap()["id"].clone();
        let b = a.other(&ServeOptions::default());
        b.script(&[says("two")]);
        let task = b.task(&id).await;
        // A holder that does not look at the inbox any more.
        let mut lease = None;
        until("the lease is free", async || {
            lease = a.service.store.acquire(&task.id, &Observations::default()).await.ok();
            lease.is_some()
        })
        .await;
        let giving_up = async {
            until("the message waits", async || {
                !a.objects("tasks/").await.iter().all(|key| !key.contains("/inbox/"))
            })
            .await;
            a.service.store.release(&task.id, &lease.unwrap()).await.unwrap();
        };
        let (answer, ()) = tokio::join!(b.send(message("m2", Some(&id))), giving_up);
        assert!(answer.unwrap().to_string().contains("two"));
    };
    LocalSet::new().run_until(test).await;
}
