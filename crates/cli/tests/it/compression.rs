//! A conversation that grows too large is summarised and goes on.

use pollux_test_support::{TestHome, reply};
use serde_json::json;

use crate::scene::Scene;

#[test]
fn a_full_window_is_compressed_and_the_file_keeps_every_message() {
    let home = TestHome::new();
    let outfile = home.home().join("telemetry.log");
    let telemetry = json!({"enabled": true, "target": "local", "outfile": outfile});
    let scene = Scene::with(home.settings(json!({"telemetry": telemetry})), []);
    for round in 0..4u64 {
        let words: Vec<String> = (1..400).map(|k| ((round + 1) * 7919 * k).to_string()).collect();
        scene.server.push([reply().text(&format!("Answer {round}. {}", words.join(" "))).usage(10_000, 10)]);
        let prompt = format!("prompt number {round}");
        let args: &[&str] = if round == 0 { &["-p", &prompt] } else { &["--resume", "-p", &prompt] };
        assert_eq!(scene.run(args).code, Some(0));
    }
    let before = scene.session()["messages"].as_array().unwrap().len();
    assert_eq!(before, 8);
    let snapshot = "<state_snapshot><overall_goal>KEEP GOING</overall_goal></state_snapshot>";
    scene.server.push([
        reply().call("glob", json!({"pattern": "*"})).usage(900_000, 10),
        reply().text(snapshot).usage(1000, 50),
        reply().text("Went on."),
    ]);
    let run = scene.run(&["--resume", "-p", "now a big one"]);
    assert!(run.stdout.ends_with("Went on.\n"), "{} {}", run.stdout, run.stderr);
    let requests = scene.server.requests();
    let methods: Vec<&str> = requests.iter().skip(4).map(|r| r.path.rsplit(':').next().unwrap()).collect();
    let [first, unary @ .., last] = methods.as_slice() else { panic!("{methods:?}") };
    assert_eq!((*first, *last), ("streamGenerateContent", "streamGenerateContent"));
    assert!(
        (1..=2).contains(&unary.len()) && unary.iter().all(|method| *method == "generateContent"),
        "{methods:?}"
    );
    let model =
        |path: &str| path.rsplit('/').next().and_then(|name| name.split(':').next()).map(str::to_owned);
    assert_eq!(model(&requests[5].path), model(&requests[4].path), "the conversation's own model");
    let sent = requests.last().unwrap().body["contents"].to_string();
    assert!(sent.contains("KEEP GOING") && sent.contains("now a big one"), "{sent}");
    assert!(!sent.contains("prompt number 0") && sent.contains("\"functionResponse\""), "{sent}");
    let telemetry = std::fs::read_to_string(&outfile).unwrap();
    assert_eq!(telemetry.matches("\"event.name\": \"gemini_cli.chat_compression\"").count(), 1);
    let kept = scene.session().to_string();
    assert!(
        (0..4).all(|round| kept.contains(&format!("prompt number {round}"))),
        "nothing is taken from the file"
    );

    // What a later run sends is the compressed conversation.
    scene.server.push([reply().text("Later.")]);
    let later = scene.run(&["--resume", "-p", "later"]);
    assert_eq!(later.code, Some(0), "{}", later.stderr);
    let sent = scene.server.requests().last().unwrap().body["contents"].to_string();
    assert!(sent.contains("KEEP GOING") && !sent.contains("prompt number 0"), "{sent}");
}
