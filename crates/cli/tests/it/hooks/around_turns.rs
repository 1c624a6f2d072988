//! `SessionStart`, `SessionEnd`, `BeforeAgent`, `AfterAgent` and `PreCompress`.

use pollux_test_support::{TestHome, reply};
use serde_json::{Value, json};

use super::{World, answers, hook, says, specific};
use crate::scene::Scene;

/// Hooks at these events that only keep their input.
fn watching(events: &[&str]) -> Value {
    let all =
        events.iter().map(|event| ((*event).to_owned(), hook("w", "cat >> in.jsonl; echo >> in.jsonl")));
    Value::Object(all.collect())
}

#[test]
fn a_session_begins_and_ends_with_its_hooks_and_in_this_order() {
    let events = [
        "SessionStart",
        "SessionEnd",
        "BeforeAgent",
        "AfterAgent",
        "BeforeModel",
        "AfterModel",
        "BeforeToolSelection",
    ];
    let world = World::new(&watching(&events), &[says("Hello.")]);
    world.fine(&[]);
    let inputs = world.lines("in.jsonl");
    let names: Vec<&str> = inputs.iter().map(|input| input["hook_event_name"].as_str().unwrap()).collect();
    let order = [
        "SessionStart",
        "BeforeAgent",
        "BeforeModel",
        "BeforeToolSelection",
        "AfterModel",
        "AfterAgent",
        "SessionEnd",
    ];
    assert_eq!(names, order);
    assert_eq!((&inputs[0]["source"], &inputs[6]["reason"]), (&json!("startup"), &json!("exit")));
    assert_eq!(inputs[1]["prompt"], "do it");
    assert_eq!(
        (&inputs[5]["prompt_response"], &inputs[5]["stop_hook_active"]),
        (&json!("Hello."), &json!(false))
    );
    let calls = world.hook_calls();
    assert_eq!(calls.len(), 7);
    let first = &calls[0];
    assert_eq!(
        (&first["hook_event_name"], &first["hook_type"], &first["hook_name"]),
        (&json!("SessionStart"), &json!("command"), &json!("w"))
    );
    assert_eq!((&first["success"], &first["exit_code"]), (&json!(true), &json!(0)));
    assert!(first["hook_input"].as_str().unwrap().contains("\"source\": \"startup\""), "{first}");
}

#[test]
fn what_a_session_is_told_at_its_start_stands_before_the_first_prompt() {
    let mut answer = specific(json!({"additionalContext": "The release is on <Friday>."}));
    answer["systemMessage"] = json!("Welcome.");
    let world =
        World::new(&json!({"SessionStart": answers("answer.json")}), &[says("Hello."), says("Again.")])
            .file("answer.json", answer);
    let run = world.fine(&[]);
    assert!(run.stderr.contains("Hook system message: Welcome."), "{}", run.stderr);
    let sent = world.last_request();
    let context = sent.find("<hook_context>The release is on &lt;Friday&gt;.</hook_context>").unwrap();
    assert!(context < sent.find("do it").unwrap(), "{sent}");
    world.fine(&["--resume"]);
    assert_eq!(world.lines("in.jsonl")[1]["source"], "resume");
}

#[test]
fn a_matcher_chooses_the_kind_of_start() {
    let hooks = json!({"SessionStart": [
        {"matcher": "resume", "command": "echo resumed >> seen"}, {"matcher": "startup", "command": "echo started >> seen"},
    ]});
    let world = World::new(&hooks, &[says("Hello.")]);
    world.fine(&[]);
    assert_eq!(world.read("seen"), "started\n");
}

#[test]
fn a_prompt_is_blocked_stopped_or_added_to() {
    let world =
        World::new(&json!({"BeforeAgent": hook("no", "echo Not today. >&2; exit 2")}), &[says("Never.")]);
    let run = world.fine(&[]);
    assert!(run.stderr.contains("[WARNING] Agent execution blocked: Not today."), "{}", run.stderr);
    let files = crate::scene::all_files(&world.home.gemini_dir());
    let recorded = |name: &str| files.iter().any(|file| file.display().to_string().contains(name));
    assert!(!recorded("/chats/session-"), "a blocked prompt is as if it had never been: {files:?}");
    for dialect in ["gemini-cli", "pollux"] {
        let run = world.fine(&["-o", "stream-json", "--output-dialect", dialect]);
        let events = crate::scene::lines(&run.stdout);
        let types = events.iter().map(|event| event["type"].as_str().unwrap().to_lowercase());
        assert_eq!(types.collect::<Vec<_>>(), ["init", "message", "error", "result"], "{}", run.stdout);
    }

    let world = World::new(&json!({"BeforeAgent": answers("stop.json")}), &[says("Never.")])
        .file("stop.json", json!({"continue": false, "stopReason": "Enough.", "systemMessage": "Go home."}));
    let run = world.fine(&["-o", "stream-json", "--output-dialect", "gemini-cli"]);
    let events = crate::scene::lines(&run.stdout);
    assert!(crate::scene::of_type(&events, "error").is_empty(), "{}", run.stdout);
    assert_eq!(events.last().unwrap()["status"], "success");
    assert!(run.stderr.contains("Agent execution stopped: Go home."), "{}", run.stderr);
    assert!(world.records("api_request").is_empty());

    let world = World::new(&json!({"BeforeAgent": answers("more.json")}), &[says("Hello.")])
        .file("more.json", specific(json!({"additionalContext": "Be brief."})));
    world.fine(&[]);
    let sent = world.last_request();
    assert!(sent.contains(r#"{"text":"do it"},{"text":"<hook_context>Be brief.</hook_context>"}"#), "{sent}");
}

#[test]
fn a_denied_answer_sends_its_reason_back_to_the_model() {
    let command = "cat > last.json; cat last.json >> in.jsonl; echo >> in.jsonl; grep -q '\"stop_hook_active\":true' last.json || { echo Run the tests. >&2; exit 2; }";
    let hooks = json!({"AfterAgent": hook("tested", command), "BeforeAgent": hook("b", "cat >> before.jsonl; echo >> before.jsonl")});
    let world = World::new(&hooks, &[says("Done."), says("Tests are green.")]);
    let run = world.fine(&[]);
    assert_eq!(run.stdout, "Done.\nTests are green.\n");
    assert!(run.stderr.contains("[WARNING] Agent execution blocked: Run the tests."), "{}", run.stderr);
    let inputs = world.lines("in.jsonl");
    assert_eq!(
        (&inputs[1]["prompt"], &inputs[1]["prompt_response"]),
        (&json!("do it"), &json!("Done.\nTests are green."))
    );
    assert_eq!(world.lines("before.jsonl")[1]["prompt"], "Run the tests.");
    let sent = world.last_request();
    assert!(sent.contains("Done.") && sent.contains("Run the tests."), "{sent}");
    assert_eq!(world.records("user_prompt").len(), 1, "nobody typed the second one");
}

#[test]
fn a_hook_may_make_the_model_forget() {
    let mut answer = specific(json!({"clearContext": true}));
    answer["decision"] = json!("deny");
    answer["reason"] = json!("Begin again.");
    let world = World::new(
        &json!({"AfterAgent": hook("c", "test -e once || { touch once; cat answer.json; }")}),
        &[says("First."), says("Second."), says("Third.")],
    )
    .file("answer.json", answer);
    let run = world.fine(&[]);
    assert!(run.stderr.contains("Conversation context has been cleared."), "{}", run.stderr);
    let sent = world.last_request();
    assert!(sent.contains("Begin again.") && !sent.contains("First.") && !sent.contains("do it"), "{sent}");
    world.fine(&["--resume"]);
    let sent = world.last_request();
    assert!(
        sent.contains("Second.") && !sent.contains("First."),
        "what was forgotten does not come back: {sent}"
    );
}

#[test]
fn a_hook_that_is_never_content_does_not_keep_the_model_busy_forever() {
    let replies: Vec<Vec<Value>> =
        (0..101).map(|n| says(&format!("Answer {n}, quite unlike the one before."))).collect();
    let world = World::new(&json!({"AfterAgent": hook("never", "exit 2")}), &replies);
    let run = world.fine(&[]);
    assert_eq!(world.records("api_request").len(), 100);
    assert!(run.stderr.contains("sent the model back 100 times"), "{}", run.stderr);
}

#[test]
fn compression_is_announced_only_when_it_happens() {
    let home = TestHome::new().settings(json!({"hooks": watching(&["PreCompress"])}));
    let scene = Scene::with(home, []);
    for round in 0..3u64 {
        let words: Vec<String> = (1..400).map(|k| ((round + 1) * 7919 * k).to_string()).collect();
        scene.server.push([reply().text(&format!("Answer {round}. {}", words.join(" "))).usage(10_000, 10)]);
        let args: &[&str] = if round == 0 { &["-p", "one"] } else { &["--resume", "-p", "more"] };
        assert_eq!(scene.run(args).code, Some(0));
    }
    let seen = scene.home.project().join("in.jsonl");
    assert!(!seen.exists(), "no compression, no event");
    let snapshot = "<state_snapshot><overall_goal>KEEP GOING</overall_goal></state_snapshot>";
    scene.server.push([
        reply().call("glob", json!({"pattern": "*"})).usage(900_000, 10),
        reply().text(snapshot).usage(1000, 50),
        reply().text("Went on."),
    ]);
    let run = scene.run(&["--resume", "-p", "now a big one"]);
    assert!(run.stdout.ends_with("Went on.\n"), "{} {}", run.stdout, run.stderr);
    let inputs = crate::scene::lines(&std::fs::read_to_string(&seen).unwrap());
    assert_eq!(inputs.len(), 1);
    assert_eq!(inputs[0]["trigger"], "auto");
}
