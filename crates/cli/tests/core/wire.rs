//! The rules of the wire, with clients that keep and break them.

use std::time::Instant;

use pollux_test_support::{Reply, TestHome, reply};
use serde_json::{Value, json};

use crate::scene::{Peer, Scene, quiet};

fn shell(command: &str) -> Reply {
    reply().call("run_shell_command", json!({"command": command}))
}

#[test]
fn a_client_introduces_itself_before_anything_else() {
    let scene = Scene::new([]);
    let mut stranger = Peer::connect(&scene.socket().unwrap());
    let error = stranger.call("session/list", json!({})).unwrap_err();
    assert_eq!(error["code"], -32600);
    assert!(stranger.read().is_none(), "the connection is closed");
    let mut garbled = Peer::connect(&scene.socket().unwrap());
    garbled.send_line("{not json");
    assert_eq!(garbled.read().unwrap()["error"]["code"], -32700);
    assert!(garbled.read().is_none());
    let mut peer = scene.peer("test");
    assert_eq!(peer.call("session/list", json!({})).unwrap(), json!({"sessions": []}));
    peer.send_line("{not json");
    assert_eq!(peer.read().unwrap()["error"]["code"], -32700);
    assert_eq!(peer.call("no/such", json!({})).unwrap_err()["code"], -32601);
    assert!(peer.call("session/list", json!({})).is_ok());
}

#[test]
fn protocols_without_a_common_number_are_refused_by_name() {
    let scene = Scene::new([]);
    let mut future = Peer::connect(&scene.socket().unwrap());
    let hello = json!({"program": "9.9.9", "protocol": [7, 8], "front": {"kind": "test"}});
    let error = future.call("hello", hello).unwrap_err();
    let text = error["message"].as_str().unwrap();
    assert!(text.contains("pollux 9.9.9 supports 7 to 8") && text.contains("supports 1 to 1"), "{text}");
    assert!(error["data"]["hint"].as_str().unwrap().contains("pollux core restart"));
    let mut wider = Peer::connect(&scene.socket().unwrap());
    let hello = json!({"program": "9.9.9", "protocol": [1, 8], "front": {"kind": "test"}, "new": true});
    assert_eq!(wider.call("hello", hello).unwrap()["protocol"], 1);
}

#[test]
fn names_that_are_paths_are_refused_everywhere() {
    let scene = Scene::new([]);
    let mut peer = scene.peer("test");
    let long = "x".repeat(300);
    for bad in ["../evil", &long, "a\nb", ""] {
        for method in ["session/attach", "session/close", "session/fork"] {
            let error = peer.call(method, json!({"session": bad})).unwrap_err();
            assert_eq!(error["code"], -32602, "{method} {bad:?}");
        }
        for choice in [json!({"kind": "resume", "which": bad}), json!({"kind": "newWithId", "id": bad})] {
            let mut opening = scene.opening();
            opening["choice"] = choice;
            assert_eq!(peer.call("session/open", opening).unwrap_err()["code"], -32602, "{bad:?}");
        }
    }
    for bad in ["../evil", &long, "a\nb", ""] {
        let mut stranger = Peer::connect(&scene.socket().unwrap());
        let hello = json!({"program": "1", "protocol": [1, 1], "front": {"kind": bad}});
        assert_eq!(stranger.call("hello", hello).unwrap_err()["code"], -32602, "{bad:?}");
    }
    let mut opening = scene.opening();
    opening["cwd"] = json!("relative");
    let error = peer.call("session/open", opening).unwrap_err();
    assert_eq!(error["data"]["field"], "cwd");
    assert_eq!(peer.call("session/list", json!({})).unwrap(), json!({"sessions": []}));
}

#[test]
fn all_front_ends_see_the_same_events_and_the_first_answer_wins() {
    let scene = Scene::new([shell("touch made.txt"), reply().text("Made.")]);
    let (mut one, mut two) = (scene.peer("one"), scene.peer("two"));
    let session = one.open(scene.opening());
    two.attach(&session);
    one.prompt(&session, "make a file");
    let (seq, question) = one.event("ApprovalWanted");
    let (same, other) = two.event("ApprovalWanted");
    assert_eq!((seq, &question), (same, &other));
    let told = two.notified(|message| message["method"] == "question");
    assert_eq!(told["question"], other);
    let call = &question["value"]["call"];
    let began = Instant::now();
    two.decide(&session, call, json!({"type": "Once"})).unwrap();
    let (_, settled) = one.event("ApprovalSettled");
    println!("an answer in one front end reached the other after {:?}", began.elapsed());
    assert_eq!(settled["by"], "two");
    let late = one.decide(&session, call, json!({"type": "Refuse", "value": "no"})).unwrap_err();
    assert_eq!(late["data"]["code"], "NOT_WAITING", "{late}");
    assert_eq!(one.event("TurnEnded").0, two.event("TurnEnded").0);
    assert!(scene.home.project().join("made.txt").exists());
}

#[test]
fn racing_answers_run_a_call_once() {
    let scene = Scene::new([shell("echo ran >> runs.txt"), reply().text("Done.")]);
    let mut peers: Vec<Peer> = (0..20).map(|number| scene.peer(&format!("p{number}"))).collect();
    let session = peers[0].open(scene.opening());
    peers.iter_mut().skip(1).for_each(|peer| drop(peer.attach(&session)));
    peers[0].prompt(&session, "go");
    let call = peers[0].event("ApprovalWanted").1["value"]["call"].clone();
    let answers: Vec<u64> = peers
        .iter_mut()
        .map(|peer| {
            let op = json!({"type": "Decide", "call": call, "answer": {"type": "Once"}});
            peer.send("op", json!({"session": session, "op": op}))
        })
        .collect();
    let taken = peers.iter_mut().zip(answers).filter_map(|(peer, id)| peer.answer(id).ok()).count();
    assert_eq!(taken, 1);
    peers[7].event("TurnEnded");
    assert_eq!(scene.home.read("runs.txt"), "ran\n");
}

#[test]
fn a_late_front_end_gets_the_history_and_the_running_turn() {
    let scene = Scene::new([reply().text("First answer."), shell("touch x"), reply().text("Second answer.")]);
    let mut one = scene.peer("one");
    let session = one.open(scene.opening());
    one.prompt(&session, "first");
    one.event("TurnEnded");
    one.prompt(&session, "second");
    let call = one.event("ApprovalWanted").1["value"]["call"].clone();
    let mut late = scene.peer("late");
    let attached = late.attach(&session);
    let history: Vec<&str> = attached["snapshot"]["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["text"].as_str().unwrap())
        .collect();
    assert_eq!(history, ["first", "First answer."]);
    assert_eq!((&attached["busy"], &attached["snapshot"]["complete"]), (&json!(true), &json!(true)));
    assert_eq!(late.event("PromptAccepted").1["typed"], "second");
    assert_eq!(late.event("ApprovalWanted").1["value"]["call"], call);
    late.decide(&session, &call, json!({"type": "Once"})).unwrap();
    late.event("TurnEnded");
    // One that knows some events gets those that follow, once.
    let (last, _) = one.event("TurnEnded");
    let known = late.call("session/attach", json!({"session": session, "after": last - 1})).unwrap();
    assert_eq!((&known["seq"], &known["snapshot"]), (&json!(last - 1), &Value::Null));
    let (seq, _) = late.event("TurnEnded");
    assert_eq!(seq, last);
}

#[test]
fn prompts_of_several_front_ends_wait_for_each_other() {
    let wait = "while [ ! -e go.txt ]; do sleep 0.05; done";
    let scene = Scene::new([shell(wait), reply().text("One."), reply().text("Two.")]);
    let (mut one, mut two) = (scene.peer("one"), scene.peer("two"));
    let mut opening = scene.opening();
    opening["options"]["approval"] = json!("yolo");
    let session = one.open(opening);
    two.attach(&session);
    one.prompt(&session, "first");
    two.event("CallStarted");
    two.prompt(&session, "second");
    let queue = one.event("QueueChanged").1;
    assert_eq!(queue["value"][0]["by"], "two");
    std::fs::write(scene.home.project().join("go.txt"), "").unwrap();
    let accepted = two.event("PromptAccepted").1;
    assert_eq!((&accepted["typed"], &accepted["by"]), (&json!("second"), &json!("two")));
    two.event("TurnEnded");
}

#[test]
fn a_front_end_that_does_not_read_delays_nobody() {
    let scene = Scene::new([
        shell("yes 0123456789012345678901234567890123456789 | head -c 20000000"),
        reply().text("Done."),
    ]);
    let (mut reads, mut sleeps) = (scene.peer("reads"), scene.peer("sleeps"));
    let mut opening = scene.opening();
    opening["options"]["approval"] = json!("yolo");
    let session = reads.open(opening);
    sleeps.attach(&session);
    reads.prompt(&session, "print much");
    reads.event("TurnEnded");
    // What it did not read is gone; it is told so, and a new snapshot helps.
    let mut lagged = false;
    let mut ended = false;
    while !lagged && !ended {
        let message = sleeps.read().expect("a message");
        lagged = message["method"] == "lagged";
        ended = message["params"]["event"]["type"] == "TurnEnded";
    }
    let again = sleeps.attach(&session);
    assert_eq!(again["busy"], false);
}

#[test]
fn keys_of_one_front_end_reach_neither_the_other_session_nor_the_log() {
    let scene = Scene::new([reply().text("A."), reply().text("B.")]);
    let mut peer = scene.peer("test");
    for key in ["key-of-front-end-a", "key-of-front-end-b"] {
        let mut opening = scene.opening();
        opening["env"]["GEMINI_API_KEY"] = json!(key);
        opening["env"]["POLLUX_SECRET_OF_A"] = json!(key);
        let session = peer.open(opening);
        peer.prompt(&session, "say a secret word");
        peer.notified(|message| {
            message["params"]["session"] == json!(session)
                && message["params"]["event"]["type"] == "TurnEnded"
        });
    }
    let keys: Vec<String> = scene
        .server
        .requests()
        .iter()
        .map(|request| request.header("x-goog-api-key").unwrap_or_default().to_owned())
        .collect();
    assert_eq!(keys, ["key-of-front-end-a", "key-of-front-end-b"]);
    let log = scene.log();
    assert!(
        log.contains("opened session") && !log.contains("key-of") && !log.contains("secret word"),
        "{log}"
    );
}

#[test]
fn a_session_is_forked_detached_and_closed() {
    let scene = Scene::new([reply().text("One."), reply().text("Two.")]);
    let mut peer = scene.peer("test");
    let session = peer.open(scene.opening());
    peer.prompt(&session, "hello");
    peer.event("TurnEnded");
    let fork = peer.call("session/fork", json!({"session": session})).unwrap();
    let fork = fork["session"].as_str().unwrap().to_owned();
    assert_ne!(fork, session);
    let attached = peer.attach(&fork);
    assert_eq!(attached["snapshot"]["history"][0]["text"], "hello");
    peer.call("session/detach", json!({"session": fork})).unwrap();
    let refused = peer.op(&fork, json!({"type": "Cancel"})).unwrap_err();
    assert_eq!(refused["code"], -32602);
    peer.call("session/close", json!({"session": session})).unwrap();
    let ended = peer.notified(|message| message["method"] == "ended");
    assert_eq!(ended, json!({"session": session, "reason": "closed"}));
    let listed = peer.call("session/list", json!({})).unwrap();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
    // A closed session is stored, and opens again with what it said.
    let again = peer.open(scene.resuming(&session));
    assert_eq!(again, session);
}

#[test]
fn yolo_needs_the_settings_and_is_confined_by_the_core() {
    let mut settings = quiet();
    settings["security"] = json!({"disableYoloMode": true});
    let scene = Scene::with(TestHome::new().settings(settings), [], &[]);
    let mut peer = scene.peer("test");
    let session = peer.open(scene.opening());
    let refused = peer.op(&session, json!({"type": "SetMode", "value": "Yolo"})).unwrap_err();
    assert_eq!(refused["data"]["code"], "NOT_ALLOWED", "{refused}");
    peer.op(&session, json!({"type": "SetMode", "value": "Plan"})).unwrap();
    assert_eq!(peer.event("ModeChanged").1["mode"], "Plan");
}

#[test]
fn a_fork_has_the_mode_that_the_session_is_in() {
    let scene = Scene::new([reply().text("Hello.")]);
    let mut peer = scene.peer("one");
    let mut opening = scene.opening();
    opening["options"]["approval"] = json!("yolo");
    let session = peer.open(opening);
    peer.prompt(&session, "hi");
    peer.event("TurnEnded");
    let op = json!({"type": "SetMode", "value": "Default"});
    peer.call("op", json!({"session": session, "op": op})).unwrap();
    peer.event("ModeChanged");
    let fork = peer.call("session/fork", json!({"session": session})).unwrap();
    assert_eq!(fork["report"]["mode"], "default", "{fork}");
}

#[test]
fn an_id_is_given_to_one_session() {
    let scene = Scene::new([]);
    let mut peer = scene.peer("one");
    let mut opening = scene.opening();
    opening["choice"] = json!({"kind": "newWithId", "id": "11111111-2222-4333-8444-555555555555"});
    let asked = [peer.send("session/open", opening.clone()), peer.send("session/open", opening)];
    let opened = asked.map(|id| peer.answer(id).is_ok());
    assert_eq!(opened.iter().filter(|is_open| **is_open).count(), 1);
    let listed = peer.call("session/list", json!({})).unwrap();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
}
