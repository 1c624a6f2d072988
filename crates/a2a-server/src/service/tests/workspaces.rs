//! No work is deleted because it could not be stored.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use serde_json::{Value, json};
use tokio::task::LocalSet;

use crate::options::ServeOptions;
use crate::testing::{Fault, Machine, message, runs, says, until};

fn said(task: &Value) -> String {
    let parts = task["status"]["message"]["parts"].as_array().cloned().unwrap_or_default();
    parts.iter().map(|part| part["text"].as_str().unwrap_or_default()).collect::<Vec<_>>().join("|")
}

/// Runs a command in a turn of its own.
async fn turn(machine: &Machine, name: &str, task: Option<&Value>, command: &str) -> Value {
    machine.script(&[runs(command), says(name)]);
    let answer = machine.send(message(name, task)).await.unwrap();
    // Its lease is free for others, and its session has ended.
    let task = machine.task(&answer["id"]).await;
    until("the task is given up", async || task.holding().is_none() && task.session().is_none()).await;
    answer
}

#[tokio::test]
async fn work_that_could_not_be_stored_stays_and_is_stored_later() {
    let test = async {
        let options = ServeOptions::default();
        let mut a = Machine::new(&options);
        let first = turn(&a, "one", None, "echo 1 > one").await;
        assert_eq!(said(&first), "one");
        let id = first["id"].clone();
        let folder = a.workspace(&*a.task(&id).await);
        a.blobs.rule(|operation, key| match operation == "put" && key.contains("workspace") {
            true => Fault::Fail,
            false => Fault::None,
        });
        let second = turn(&a, "two", Some(&id), "echo 2 > two").await;
        assert!(said(&second).starts_with("two|Warning: the workspace could not be stored"), "{second}");
        // Also the next turn finds it, and so does another process on this machine.
        let third = turn(&a, "three", Some(&id), "cat one two > three").await;
        assert!(said(&third).contains("Warning"), "{third}");
        assert_eq!(fs::read_to_string(folder.join("three")).unwrap(), "1\n2\n");
        a.restart(&options);
        let fourth = turn(&a, "four", Some(&id), "cat three > four").await;
        assert_eq!(said(&fourth), "four", "it is stored now");
        assert_eq!(fs::read_to_string(folder.join("four")).unwrap(), "1\n2\n");
        let b = a.other(&options);
        let fifth = turn(&b, "five", Some(&id), "cat four > five").await;
        assert_eq!(said(&fifth), "five");
        let there = b.workspace(&*b.task(&id).await);
        assert_eq!(fs::read_to_string(there.join("five")).unwrap(), "1\n2\n");
        assert_eq!(fs::metadata(&there).unwrap().permissions().mode() & 0o777, 0o700);
        // And what the other one did arrives here.
        turn(&a, "six", Some(&id), "cat five > six").await;
        assert_eq!(fs::read_to_string(folder.join("six")).unwrap(), "1\n2\n");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn what_a_store_did_not_take_while_it_was_away_is_stored_when_it_is_back() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        let puts = Arc::new(AtomicUsize::new(0));
        let seen = puts.clone();
        a.blobs.rule(move |operation, key| {
            let is_session = operation == "put" && key.contains("/session/");
            match is_session && seen.fetch_add(1, SeqCst) == 0 {
                true => Fault::Fail,
                false => Fault::None,
            }
        });
        // The answer has a warning only if the client reads it before the second attempt.
        let id = turn(&a, "one", None, "echo 1 > one").await["id"].clone();
        assert!(puts.load(SeqCst) > 1, "the first attempt failed and there was another one");
        let b = a.other(&ServeOptions::default());
        let second = turn(&b, "two", Some(&id), "cat one > two").await;
        assert_eq!(said(&second), "two");
        assert_eq!(fs::read_to_string(b.workspace(&*b.task(&id).await).join("two")).unwrap(), "1\n");
        let chats = pollux_session_text(b.home());
        assert!(chats.iter().any(|text| text.contains("one") && text.contains("two")), "{chats:?}");
        // A server that died before that leaves a task that can go on without its conversation.
        a.blobs.rule(|operation, key| match operation == "put" && key.contains("/session/") {
            true => Fault::Fail,
            false => Fault::None,
        });
        let lost = turn(&a, "three", None, "true").await["id"].clone();
        assert_eq!(said(&turn(&b, "four", Some(&lost), "true").await), "four");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_conversation_that_could_not_be_stored_goes_on_here() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        let id = turn(&a, "one", None, "true").await["id"].clone();
        a.blobs.rule(|operation, key| match operation == "put" && key.contains("/session/") {
            true => Fault::Fail,
            false => Fault::None,
        });
        turn(&a, "two", Some(&id), "true").await;
        a.blobs.rule(|_, _| Fault::None);
        turn(&a, "three", Some(&id), "true").await;
        let chats = pollux_session_text(a.home());
        let last = chats.iter().find(|text| text.contains("three")).unwrap();
        assert!(last.contains("one") && last.contains("two"), "{last}");
    };
    LocalSet::new().run_until(test).await;
}

/// All files below the home in which sessions are kept.
fn pollux_session_text(home: &std::path::Path) -> Vec<String> {
    let (mut folders, mut found) = (vec![home.join(".gemini/tmp")], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.parent().is_some_and(|folder| folder.ends_with("chats")) {
                found.extend(fs::read_to_string(path));
            }
        }
    }
    found
}

#[tokio::test]
async fn a_task_keeps_no_objects_of_earlier_turns() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        let id = turn(&a, "0", None, "echo 0 > file").await["id"].clone();
        for number in 1..6 {
            turn(&a, &number.to_string(), Some(&id), &format!("echo {number} > file")).await;
        }
        let task = a.task(&id).await;
        let (pieces, archive) =
            task.read(|record| (record.session_pieces.objects().unwrap().len(), record.archive.clone()));
        let objects = a.objects(&format!("tasks/{}/", task.id)).await;
        let count = |part: &str| objects.iter().filter(|name| name.contains(part)).count();
        assert_eq!((count("/session/"), count("/workspace-")), (pieces, 1), "{objects:?}");
        assert!(objects.iter().any(|name| name.ends_with(archive.as_deref().unwrap())), "{objects:?}");
        // What is left is enough for another server.
        let b = a.other(&ServeOptions::default());
        assert_eq!(said(&turn(&b, "last", Some(&id), "cat file > copy").await), "last");
        assert_eq!(fs::read_to_string(b.workspace(&*b.task(&id).await).join("copy")).unwrap(), "5\n");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn changes_after_a_rest_point_are_not_reverted() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        let id = turn(&a, "one", None, "echo 1 > one").await["id"].clone();
        let folder = a.workspace(&*a.task(&id).await);
        fs::write(folder.join("later"), "by a process in the background").unwrap();
        turn(&a, "two", Some(&id), "cp later copy").await;
        assert!(folder.join("copy").exists());
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_task_of_upstream_goes_on_with_the_workspace_that_it_stored() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        // Written by its store (0.25.2). The path is one of another machine.
        for id in ["full", "empty"] {
            let metadata = include_bytes!("upstream/metadata.tar.gz");
            a.put(&format!("tasks/{id}/metadata.tar.gz"), metadata).await;
        }
        a.put("tasks/full/workspace.tar.gz", include_bytes!("upstream/workspace.tar.gz")).await;
        for id in ["full", "empty"] {
            a.script(&[says(id)]);
            let answer = a.send(message(id, Some(&json!(id)))).await.unwrap();
            assert_eq!(said(&answer), id, "{answer}");
        }
        let folder = |id: &str| a.home().join("workspaces/local").join(id);
        assert_eq!(fs::read_to_string(folder("full").join("one")).unwrap(), "1");
        assert_eq!(fs::read_dir(folder("empty")).unwrap().count(), 0);
        let mode = fs::metadata(folder("full").join("src/run.sh")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
    };
    LocalSet::new().run_until(test).await;
}
