//! Many processes that record into one project at the same time.

use std::fs;

use pollux_session::{Message, StoredStatus, load};
use pollux_test_support::{FakeGemini, TestHome};
use serde_json::json;

use super::{is_long, oracle};
use crate::scene::{MODEL, Scene, binary, scripted};

/// Each step of a run is two writes: the reply, and the result of its call.
fn replies(process: usize, steps: usize) -> String {
    let step = |step: usize| {
        let args = json!({"pattern": format!("p{process}s{step}*")});
        let call = json!({"functionCall": {"id": format!("c{step}"), "name": "glob", "args": args}});
        scripted(&[json!({"text": format!("p{process}s{step}")}), call])
    };
    (0..steps).map(step).chain([scripted(&[json!({"text": format!("p{process} done")})])]).collect()
}

#[test]
fn many_processes_record_into_one_project_and_nothing_is_lost() {
    let (processes, steps) = if is_long() { (50, 50) } else { (8, 12) };
    let scene = Scene { home: TestHome::new(), server: FakeGemini::start_blocking_thread([]) };
    let running: Vec<_> = (0..processes)
        .map(|process| {
            let file = scene.home.home().join(format!("replies-{process}.jsonl"));
            fs::write(&file, replies(process, steps)).unwrap();
            // All share the eight characters that files are named by.
            let (id, file) = (format!("crowded-{process}"), file.display().to_string());
            let args = ["-m", MODEL, "--session-id", &id, "--fake-responses", &file, "-p", &id];
            scene.home.command(binary(), args).limit(std::time::Duration::from_secs(600)).spawn()
        })
        .collect();
    for running in running {
        let run = running.wait();
        assert_eq!(run.code, Some(0), "{}", run.stderr);
    }
    let files = scene.session_files();
    assert_eq!(files.len(), processes);
    for path in files {
        let plain = oracle::read_plainly(&fs::read(&path).unwrap()).unwrap();
        let session = load(&path).unwrap();
        assert_eq!((plain.len(), session.messages.len()), (steps + 2, steps + 2), "{}", path.display());
        let process = session.id.as_str().rsplit_once('-').unwrap().1.to_owned();
        for (index, message) in session.messages.iter().skip(1).take(steps).enumerate() {
            let Message::Reply(reply) = message else { panic!("{message:?}") };
            let call = &reply.calls[0];
            assert_eq!(call.args["pattern"], format!("p{process}s{index}*"));
            assert!(matches!(call.status, StoredStatus::Ended(_)) && !call.result.is_empty());
        }
    }
}
