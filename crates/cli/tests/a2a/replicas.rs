//! Several servers on one store, on machines of their own. Commands leave a line in a file that no machine restores, so
//! that a second execution would be seen.

use std::time::Duration;

use pollux_test_support::{Reply, reply};
use serde_json::{Value, json};

use crate::server::{
    Executions, Server, Stage, automatic, decision, kinds, message, message_to, said, shell, until,
};

/// Two machines, a store, and what counts executions.
struct Pair {
    a: Stage,
    b: Stage,
    store: String,
    executions: Executions,
}

impl Pair {
    fn new(replies: impl FnOnce(&str) -> Vec<Reply>) -> Self {
        let executions = Executions::new();
        let a = Stage::new(replies(&executions.command()));
        let b = a.other_machine();
        Self { a, b, store: format!("file:{}", executions.folder().join("store").display()), executions }
    }

    fn serve(&self) -> (Server, Server) {
        (self.serve_a(), self.serve_b())
    }

    fn serve_a(&self) -> Server {
        self.a.serve(&["--store", &self.store])
    }

    fn serve_b(&self) -> Server {
        self.b.serve(&["--store", &self.store])
    }
}

#[test]
fn any_server_continues_a_task_with_its_workspace_and_history() {
    let pair = Pair::new(|_| {
        vec![
            shell("echo content > made.txt"),
            reply().text("made"),
            shell("cat made.txt"),
            reply().text("read"),
        ]
    });
    let (a, b) = pair.serve();
    let task = a.rpc("message/send", automatic("make a file"))["result"].clone();
    assert_eq!(said(&task), "made", "{task}");
    let id = task["id"].clone();
    let seen = b.rpc("tasks/get", json!({"id": id}))["result"].clone();
    assert_eq!(seen["history"], task["history"]);
    let more = b.rpc("message/send", message_to(&id, "read it"));
    assert_eq!(said(&more["result"]), "read", "{more}");
    let requests = pair.a.model.requests();
    let last = requests.last().unwrap().body.to_string();
    assert!(last.contains("make a file") && last.contains("content"), "{last}");
    assert!(pair.b.workspace(&id).join("made.txt").exists());
    // And back.
    assert_eq!(a.rpc("ListTasks", json!({}))["result"]["totalSize"], 1);
    assert_eq!(said(&a.rpc("tasks/get", json!({"id": id}))["result"]), "read");
}

#[test]
fn the_same_first_message_at_two_servers_is_one_task() {
    let pair =
        Pair::new(|_| vec![reply().text("one").delay(Duration::from_millis(500)), reply().text("two")]);
    let (a, b) = pair.serve();
    let params = message("hi");
    let (one, other) = std::thread::scope(|scope| {
        let one = scope.spawn(|| a.rpc("message/send", params.clone()));
        let other = scope.spawn(|| b.rpc("message/send", params.clone()));
        (one.join().unwrap(), other.join().unwrap())
    });
    let ids: Vec<&Value> = [&one, &other]
        .into_iter()
        .map(|answer| &answer["result"]["id"])
        .filter(|id| id.is_string())
        .collect();
    assert!(!ids.is_empty() && ids.iter().all(|id| *id == ids[0]), "{one} {other}");
    a.until(ids[0], &["input-required"]);
    assert_eq!(pair.a.model.requests().len(), 1);
}

#[test]
fn another_server_resumes_a_killed_servers_task_and_its_call_runs_once() {
    let pair = Pair::new(|command| vec![shell(&format!("{command}; sleep 600")), reply().text("I see.")]);
    let (mut a, b) = pair.serve();
    let id = a.begin(automatic("run it"));
    pair.executions.until(1);
    a.child.kill().unwrap();
    let task = b.until(&id, &["input-required"]);
    assert!(said(&task).contains("interrupted"), "{task}");
    let more = b.rpc("message/send", message_to(&id, "what happened?"))["result"].clone();
    assert_eq!(said(&more), "I see.", "{more}");
    assert_eq!(pair.executions.count(), 1);
}

#[test]
fn a_killed_servers_task_is_found_without_a_request() {
    let pair = Pair::new(|command| vec![shell(&format!("{command}; sleep 600"))]);
    let (mut a, b) = pair.serve();
    let _id = a.begin(automatic("run it"));
    pair.executions.until(1);
    a.child.kill().unwrap();
    until("another server looks for it", || b.counted("recovered") == 1);
    assert_eq!(pair.executions.count(), 1);
}

#[test]
fn an_approval_is_answered_at_another_server_and_runs_once() {
    let pair = Pair::new(|command| vec![shell(command), reply().text("done")]);
    let (a, b) = pair.serve();
    let events = a.stream("message/stream", message("go")).events();
    let id = events[0]["result"]["id"].clone();
    let task = b.until(&id, &["input-required"]);
    let call = task["status"]["message"]["parts"][0]["data"]["request"]["callId"].clone();
    assert!(call.is_string(), "{task}");
    let events = b.stream("message/stream", decision(&id, &call, "proceed_once")).events();
    assert_eq!(kinds(&events).last().unwrap(), "state-change input-required final", "{:?}", kinds(&events));
    assert!(kinds(&events).contains(&"text-content working".to_owned()));
    assert_eq!(pair.executions.count(), 1);
    assert_eq!(said(&a.until(&id, &["input-required"])), "done");
}

#[test]
fn a_subscriber_at_another_server_reads_every_update_once() {
    let words: Vec<String> = (0..40).map(|number| format!("word{number} ")).collect();
    let slow = words.iter().fold(reply(), |reply, word| reply.text(word)).pause(Duration::from_millis(100));
    let pair = Pair::new(|_| vec![slow]);
    let (a, b) = pair.serve();
    let id = a.begin(message("count"));
    let mut stream = b.stream("tasks/resubscribe", json!({"id": id}));
    let first = stream.event().unwrap()["result"].clone();
    let mut text: String = first["history"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|message| message["role"] == "agent")
        .map(|message| message["parts"][0]["text"].as_str().unwrap().to_owned())
        .collect();
    for event in stream.events() {
        let result = &event["result"];
        if result["metadata"]["coderAgent"]["kind"] == "text-content" {
            text.push_str(result["status"]["message"]["parts"][0]["text"].as_str().unwrap());
        }
    }
    assert_eq!(text, words.concat());
}

#[test]
fn a_task_is_cancelled_through_another_server() {
    let pair = Pair::new(|command| vec![shell(&format!("{command}; sleep 600; {command}"))]);
    let (a, b) = pair.serve();
    let id = a.begin(automatic("run it"));
    pair.executions.until(1);
    // On a slow machine the answer may come before the other server has acted.
    let cancelled = b.rpc("tasks/cancel", json!({"id": id}));
    assert_eq!(cancelled["result"]["id"], id, "{cancelled}");
    b.until(&id, &["canceled"]);
    assert_eq!(a.until(&id, &["canceled"])["id"], id);
    assert_eq!(pair.executions.count(), 1);
}

#[test]
fn a_server_that_is_stopped_leaves_its_tasks_to_others() {
    let pair = Pair::new(|command| vec![shell(command), reply().text("one"), reply().text("two")]);
    let (mut a, b) = pair.serve();
    let events = a.stream("message/stream", message("go")).events();
    let id = events[0]["result"]["id"].clone();
    assert_eq!(a.get("/readyz").status, 200);
    a.signal("-TERM");
    assert!(a.child.wait().unwrap().success());
    // Its question is gone with it; the task waits for a message, at once.
    let task = b.rpc("tasks/get", json!({"id": id}))["result"].clone();
    assert!(said(&task).contains("stopped"), "{task}");
    let more = b.rpc("message/send", message_to(&id, "go on"));
    assert!(more["result"].is_object(), "{more}");
    assert_eq!(pair.executions.count(), 0, "what nobody approved did not run");
}

#[test]
fn a_server_that_slept_through_its_lease_stops_and_changes_nothing() {
    let pair = Pair::new(|command| {
        vec![
            shell(&format!("{command}; sleep 3")),
            reply().text("from the first"),
            reply().text("from the second"),
        ]
    });
    let (a, b) = pair.serve();
    let id = a.begin(automatic("run it"));
    pair.executions.until(1);
    a.signal("-STOP");
    let task = b.until(&id, &["input-required"]);
    assert!(said(&task).contains("interrupted"), "{task}");
    let more = b.rpc("message/send", message_to(&id, "go on"))["result"].clone();
    assert_eq!(more["status"]["state"], "input-required", "{more}");
    let history = more["history"].clone();
    a.signal("-CONT");
    until("the first server notices", || a.counted("leases_lost") == 1);
    // Long enough for what it would still write.
    std::thread::sleep(Duration::from_secs(5));
    let later = b.rpc("tasks/get", json!({"id": id}))["result"].clone();
    assert_eq!(later["history"], history, "the first server wrote nothing more");
    assert_eq!(a.rpc("tasks/get", json!({"id": id}))["result"]["history"], history);
    assert_eq!(pair.executions.count(), 1);
}
