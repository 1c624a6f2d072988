//! What a turn costs the store does not grow with its task, and no message is lost for it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;

use pollux_a2a::protocol::{Ids, Message, Method, Part, Role, TaskState};
use pollux_archive::{pack_task_metadata, unpack_task_metadata};
use pollux_domain::JsonObject;
use pollux_domain::event::Event;
use serde_json::{Value, json};
use tokio::task::LocalSet;

use crate::access::short_digest;
use crate::options::ServeOptions;
use crate::service::holding::Hold;
use crate::task::Task;
use crate::task::record::Record;
use crate::testing::{Fault, Machine, message, says, until};

/// From these turns on, so many are measured together: two blocks are written in them.
const STARTS: [usize; 3] = [10, 50, 150];
const MEASURED: usize = 12;

/// A text like no other one.
fn text(seed: usize) -> String {
    let mut state = seed as u64 + 1;
    let letter = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b"abcdefghijklmnopqrstuvwxyz      "[(state >> 59) as usize])
    };
    (0..600).map(letter).collect()
}

fn question(number: usize) -> Message {
    Message {
        id: format!("m{number}"),
        ids: Ids { context: Some("c".into()), task: Some("t".into()) },
        role: Role::User,
        parts: vec![Part::text(format!("question {number}"))],
        metadata: JsonObject::new(),
    }
}

/// A task that has no message yet.
async fn begin(machine: &Machine) -> Rc<Task> {
    let mut record = Record::new("t", "c", "local");
    record.owns_workspace = true;
    machine.service.create(record).await.unwrap().0
}

/// What a server does in a turn, without a session; its file grows if there is one.
async fn turn(machine: &Machine, task: &Rc<Task>, number: usize) {
    let service = &machine.service;
    let _gate = task.gate.lock().await;
    let Ok(Hold::Held(holding)) = service.hold(task).await else { panic!("turn {number}: busy") };
    service.restore(task, &holding).await.unwrap();
    let change = |record: &mut Record| {
        record.history.see(&short_digest(&format!("m{number}")));
        record.history.append(&question(number));
        record.state = TaskState::Working;
        record.used = Some(holding.epoch);
    };
    service.save_with(task, &holding, change).await.unwrap();
    let mut narrator = service.narrator(task);
    for update in narrator.updates(&Event::Text(text(number))) {
        service.publish(task, update);
    }
    let file = session_file(machine);
    if let Ok(lines) = fs::read_to_string(&file) {
        let asked = json!({"type": "user", "id": number, "content": question(number).id});
        let answered = json!({"type": "gemini", "id": number, "content": text(number)});
        fs::write(&file, format!("{lines}{asked}\n{answered}\n")).unwrap();
        service.replace_session_file(task, &holding, Some(file));
    }
    service.rest(task, narrator.state(TaskState::InputRequired, None, true)).await;
    service.release(task).await;
}

fn session_file(machine: &Machine) -> PathBuf {
    machine.home().join("session.jsonl")
}

/// The texts of a task: what clients asked and what they were answered.
async fn texts(machine: &Machine) -> Vec<String> {
    let task = machine.call(Method::Get, json!({"id": "t"})).await.unwrap();
    let history = task["history"].as_array().unwrap();
    history.iter().map(|message| message["parts"][0]["text"].as_str().unwrap().to_owned()).collect()
}

fn expected(turns: std::ops::Range<usize>) -> Vec<String> {
    turns.flat_map(|number| [format!("question {number}"), text(number)]).collect()
}

fn blocks_read(machine: &Machine) -> usize {
    machine.blobs.log().iter().filter(|line| line.starts_with("get tasks/t/history/")).count()
}

async fn blocks(machine: &Machine) -> Vec<String> {
    machine.objects("tasks/t/history/").await
}

/// Bytes that were written, by what they are.
fn bytes_written(machine: &Machine) -> BTreeMap<&'static str, usize> {
    let is_list = |bytes: &[u8]| bytes.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'\n');
    let mut kinds = BTreeMap::new();
    for (key, bytes) in machine.blobs.take_written() {
        let kind = match key.split('/').nth(2) {
            Some("session") if is_list(&bytes) => "lists",
            Some("session") => "session",
            Some("history") => "blocks",
            Some("metadata.tar.gz") => "record",
            Some("events") => "events",
            _ => "rest",
        };
        *kinds.entry(kind).or_default() += bytes.len();
    }
    kinds
}

#[tokio::test]
async fn a_turn_costs_the_same_however_long_its_task_is() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        let task = begin(&a).await;
        fs::write(session_file(&a), "").unwrap();
        let mut means = Vec::new();
        for number in 1..=161 {
            turn(&a, &task, number).await;
            if STARTS.contains(&(number + 1)) {
                a.blobs.take_written();
            } else if STARTS.iter().any(|start| start + MEASURED == number + 1) {
                let written = bytes_written(&a).into_iter();
                let mean: BTreeMap<_, _> = written.map(|(kind, bytes)| (kind, bytes / MEASURED)).collect();
                println!("bytes written in each of {MEASURED} turns until turn {number}: {mean:?}");
                means.push(mean);
            }
        }
        // A turn writes the last piece of the session again, whose length differs.
        let others = means.iter().map(|mean| mean.values().sum::<usize>() - mean["session"]);
        let (least, most) = (others.clone().min().unwrap(), others.max().unwrap());
        assert!(means.len() == 3 && most * 10 <= least * 11, "{means:?}");
        assert!(means.iter().all(|mean| mean["session"] < 16 * 700), "{means:?}");
        assert_eq!(blocks_read(&a), 0, "this server wrote all of them");
        assert_eq!(texts(&a).await, expected(62..162));
        let names = blocks(&a).await;
        assert!(names.len() <= 19, "what is too old is deleted: {}", names.len());
        let pieces = task.read(|record| record.session_pieces.objects().unwrap().len());
        until("nothing else is left of the session", async || {
            a.objects("tasks/t/session/").await.len() == pieces
        })
        .await;
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn another_server_has_the_whole_history_and_knows_all_messages() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        let task = begin(&a).await;
        for number in 1..=60 {
            turn(&a, &task, number).await;
        }
        let b = a.other(&ServeOptions::default());
        let few = b.call(Method::Get, json!({"id": "t", "historyLength": 3})).await.unwrap();
        assert_eq!(few["history"].as_array().unwrap().len(), 3);
        b.call(Method::List, json!({})).await.unwrap();
        assert_eq!(blocks_read(&b), 0, "the record has the last messages");
        assert_eq!(texts(&b).await, expected(1..61));
        let read = blocks_read(&b);
        assert_eq!(read, blocks(&b).await.len());
        // The first message again, and one that is new.
        b.script(&[says("answer")]);
        let again = b.send(message("m1", Some(&json!("t")))).await.unwrap();
        assert_eq!(again["history"].as_array().unwrap().len(), 120);
        let next = b.send(message("m61", Some(&json!("t")))).await.unwrap();
        let history = next["history"].as_array().unwrap();
        assert_eq!((history.len(), &history[121]["parts"][0]["text"]), (122, &json!("answer")));
        let known = b.task(&json!("t")).await;
        until("the lease is given up", async || known.holding().is_none()).await;
        assert_eq!(blocks_read(&b), read, "they are read once");
        b.service.tidy();
        assert_eq!((texts(&b).await.len(), blocks_read(&b)), (122, read), "it is still known here");
        // The server before goes on with what it knows.
        assert_eq!(texts(&a).await.len(), 122);
        assert_eq!(blocks_read(&a), 0);
    };
    LocalSet::new().run_until(test).await;
}

/// A record as servers wrote it that had no blocks.
fn old_record(machine_record: &[u8], count: usize) -> Vec<u8> {
    let mut fields = unpack_task_metadata("t", machine_record).unwrap();
    let own = fields.get_mut("_pollux").unwrap().as_object_mut().unwrap();
    own.remove("older");
    own.remove("sessionLists");
    let message = |number: usize| {
        let id = format!("m{number}");
        json!({"kind": "message", "role": "user", "messageId": id, "parts": [{"kind": "text", "text": id}]})
    };
    let seen: Vec<String> = (0..count).map(|number| short_digest(&format!("m{number}"))).collect();
    own.insert("history".into(), (0..count).map(message).collect::<Vec<Value>>().into());
    own.insert("seen".into(), json!(seen));
    pack_task_metadata("t", &fields).unwrap()
}

#[tokio::test]
async fn a_record_of_an_earlier_version_goes_on() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        let task = begin(&a).await;
        turn(&a, &task, 1).await;
        let key = "tasks/t/metadata.tar.gz";
        a.put(key, &old_record(&a.get(key).await, 200)).await;
        let b = a.other(&ServeOptions::default());
        let names: Vec<String> = (0..200).map(|number| format!("m{number}")).collect();
        assert_eq!(texts(&b).await, names);
        let task = b.task(&json!("t")).await;
        turn(&b, &task, 1_000).await;
        assert_eq!(blocks(&b).await.len(), 1, "all of it moves at once");
        let after = [&names[2..], &expected(1_000..1_001)].concat();
        for machine in [&b, &a.other(&ServeOptions::default())] {
            assert_eq!(texts(machine).await, after);
            let again = machine.send(message("m5", Some(&json!("t")))).await.unwrap();
            assert_eq!(again["history"].as_array().unwrap().len(), 200, "it was seen");
            assert_eq!(texts(machine).await, after);
        }
        let fields = unpack_task_metadata("t", &b.get(key).await).unwrap();
        assert!(fields["_pollux"]["history"].as_array().unwrap().len() < 16);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn faults_while_a_block_is_written_lose_nothing() {
    let test = async {
        for fault in [Fault::Fail, Fault::FailAfterwards] {
            let a = Machine::new(&ServeOptions::default());
            let task = begin(&a).await;
            for number in 1..=7 {
                turn(&a, &task, number).await;
            }
            assert_eq!(blocks(&a).await.len(), 0);
            a.blobs.rule(move |operation, key| match operation == "put" && key.contains("/history/") {
                true => fault,
                false => Fault::None,
            });
            turn(&a, &task, 8).await;
            let b = a.other(&ServeOptions::default());
            assert_eq!(texts(&b).await, expected(1..9), "{fault:?}: the record has it");
            a.blobs.rule(|_, _| Fault::None);
            turn(&a, &task, 9).await;
            assert_eq!(texts(&a).await, expected(1..10));
            assert_eq!(texts(&a.other(&ServeOptions::default())).await, expected(1..10), "{fault:?}");
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_block_that_no_record_names_yet_is_the_one_that_the_next_server_writes() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        let task = begin(&a).await;
        for number in 1..=7 {
            turn(&a, &task, number).await;
        }
        a.blobs.rule(|operation, key| match operation == "put" && key.contains("/history/") {
            true => Fault::Fail,
            false => Fault::None,
        });
        turn(&a, &task, 8).await;
        a.blobs.rule(|_, _| Fault::None);
        // The block is written, and the server is gone before the record.
        let Ok(Hold::Held(holding)) = a.service.hold(&task).await else { panic!("busy") };
        a.service.shorten_history(&task, &holding).await.unwrap();
        let names = blocks(&a).await;
        assert_eq!(names.len(), 1);
        a.service.store.release("t", &holding).await.unwrap();
        let b = a.other(&ServeOptions::default());
        let there = b.task(&json!("t")).await;
        turn(&b, &there, 9).await;
        assert_eq!(blocks(&b).await, names, "the same content has the same name");
        assert_eq!(texts(&b).await, expected(1..10));
        assert_eq!(texts(&b.other(&ServeOptions::default())).await, expected(1..10));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_task_goes_on_without_blocks_that_the_store_has_lost() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        let task = begin(&a).await;
        for number in 1..=20 {
            turn(&a, &task, number).await;
        }
        for name in blocks(&a).await {
            a.put(&name, b"damaged").await;
        }
        let b = a.other(&ServeOptions::default());
        let left = texts(&b).await;
        assert!(left.len() >= 4 && expected(1..21).ends_with(&left), "{}", left.len());
        b.script(&[says("answer")]);
        let next = b.send(message("m21", Some(&json!("t")))).await.unwrap();
        assert_eq!(next["history"].as_array().unwrap().len(), left.len() + 2);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn only_the_tasks_that_were_given_up_last_stay_known() {
    let test = async {
        let a = Machine::new(&ServeOptions::default());
        for number in 0..40 {
            let record = Record::new(&format!("t{number}"), "c", "local");
            let (task, _) = a.service.create(record).await.unwrap();
            a.service.give_up_lease(&task).await;
        }
        until("the others are forgotten", async || {
            a.service.tidy();
            a.service.known().len() == 32
        })
        .await;
        let known: Vec<String> = a.service.known().iter().map(|task| task.id.clone()).collect();
        assert!((8..40).all(|number| known.contains(&format!("t{number}"))), "{known:?}");
    };
    LocalSet::new().run_until(test).await;
}
