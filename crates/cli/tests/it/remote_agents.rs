//! Agents elsewhere, called by the model: one behind the public A2A server library, if `scripts/python-peers.sh` has
//! installed it.

use pollux_test_support::a2a::{Peer, peer};
use pollux_test_support::{TestHome, reply};
use serde_json::{Value, json};

use crate::scene::{MODEL, Scene};

/// A project with the agent, to which somebody has agreed.
fn scene(peer: &Peer, auth: &str, message: &str) -> Scene {
    let definition = format!("---\nkind: remote\nname: shouter\nagent_card_url: {}\n{auth}---\n", peer.card);
    let home = TestHome::new().file(".gemini/agents/x.md", &definition).env("SHOUT_TOKEN", "let-me-in");
    let call = reply().call("invoke_agent", json!({"agent_name": "shouter", "prompt": message}));
    let scene = Scene::with(home, [call, reply().text("done")]);
    let agreed = scene.prepare(&["agents", "acknowledge", "shouter"]).run();
    assert_eq!(agreed.code, Some(0), "{}", agreed.stderr);
    scene
}

/// What the model was told about the call.
fn told(scene: &Scene) -> String {
    let answers = scene.server.request(1).function_responses();
    answers.iter().map(Value::to_string).collect()
}

#[test]
fn the_model_calls_an_agent_elsewhere_and_gets_its_answer() {
    for kind in ["jsonrpc", "rest"] {
        let Some(peer) = peer(&[kind]) else { return };
        let scene = scene(&peer, "", "hello over there");
        let run = scene.run(&["-p", "ask the shouter", "--approval-mode", "yolo"]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), "done\n"), "{}", run.stderr);
        assert!(told(&scene).contains("HELLO OVER THERE"), "{kind}: {}", told(&scene));
        let system = scene.server.request(0).body.to_string();
        assert!(system.contains("Says everything louder"), "the card describes the agent");
    }
}

#[test]
fn an_agent_elsewhere_is_asked_only_after_a_yes() {
    let Some(peer) = peer(&["jsonrpc"]) else { return };
    let scene = scene(&peer, "", "hello");
    let mut terminal = scene.prepare(&["-m", MODEL]).on_terminal();
    terminal.expect("User: ").say("ask the shouter").expect("shouter").expect("Answer").say("1");
    terminal.expect("done").expect("User: ").say("/quit");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    assert!(told(&scene).contains("HELLO"), "{}", told(&scene));
}

#[test]
fn credentials_of_a_definition_open_the_door_and_appear_nowhere() {
    let Some(peer) = peer(&["jsonrpc", "let-me-in"]) else { return };
    for token in ["$SHOUT_TOKEN", "!echo let-me-in"] {
        let auth = format!("auth:\n  type: http\n  scheme: Bearer\n  token: \"{token}\"\n");
        let scene = scene(&peer, &auth, "open up");
        let run = scene.run(&["-p", "ask the shouter", "--approval-mode", "yolo"]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert!(told(&scene).contains("OPEN UP"), "{}", told(&scene));
        let everything = format!("{}{}{}", scene.server.request(1).body, run.stdout, run.stderr);
        assert!(!everything.contains("let-me-in"), "{everything}");
    }
    let scene = scene(&peer, "", "open up");
    let run = scene.run(&["-p", "ask the shouter", "--approval-mode", "yolo"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(!told(&scene).contains("OPEN UP"));
    assert!(told(&scene).contains("requires credentials") || run.stderr.contains("requires credentials"));
}
