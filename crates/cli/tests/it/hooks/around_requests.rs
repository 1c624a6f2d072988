//! `BeforeModel`, `BeforeToolSelection` and `AfterModel`.

use pollux_test_support::{TestHome, reply};
use serde_json::{Value, json};

use super::{World, answers, calls, says, specific};
use crate::scene::Scene;

/// The request that a server got, with these hooks and answers.
fn sent(event: &str, answer: Value) -> Value {
    let home = TestHome::new()
        .settings(json!({"hooks": {event: answers("answer.json")}}))
        .file("answer.json", &answer.to_string());
    let scene = Scene::with(home, [reply().text("Hi.")]);
    let run = scene.run(&["-p", "hello"]);
    assert_eq!((run.stdout.as_str(), run.code), ("Hi.\n", Some(0)), "{}", run.stderr);
    scene.server.request(0).body.clone()
}

#[test]
fn a_request_is_changed_before_it_leaves() {
    let change = json!({"config": {"temperature": 0.25, "maxOutputTokens": 77},
        "messages": [{"role": "user", "content": "ENVIRONMENT"}, {"role": "user", "content": "OTHER WORDS"}]});
    let body = sent("BeforeModel", specific(json!({"llm_request": change})));
    assert_eq!(body["generationConfig"]["temperature"], 0.25);
    assert_eq!(body["generationConfig"]["maxOutputTokens"], 77);
    let contents = body["contents"].to_string();
    assert!(contents.contains("OTHER WORDS") && !contents.contains("hello"), "{contents}");
}

#[test]
fn hooks_see_the_settings_that_are_sent_and_what_they_leave_out_is_not_sent() {
    let change = specific(json!({"llm_request": {"config": {"temperature": 0.25}}}));
    let home = TestHome::new()
        .settings(json!({"hooks": {
            "BeforeModel": super::hook("change", "cat > before.json; cat answer.json"),
            "BeforeToolSelection": super::hook("select", "cat > selection.json"),
            "AfterModel": super::hook("after", "cat > after.json"),
        }}))
        .file("answer.json", &change.to_string());
    let scene = Scene::with(home, [reply().text("Hi.")]);
    let run = scene.run(&["-p", "hello", "-m", "gemini-2.5-pro"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let seen = |file: &str| -> Value {
        let text = std::fs::read_to_string(scene.home.project().join(file)).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["llm_request"]["config"].clone()
    };
    // The model's own defaults, as the catalogue has them.
    assert_eq!(seen("before.json"), json!({"temperature": 1, "topP": 0.95, "topK": 64}));
    assert_eq!(seen("selection.json"), json!({"temperature": 0.25}));
    assert_eq!(seen("after.json"), json!({"temperature": 0.25}));
    let body = &scene.server.request(0).body;
    let sent = body["generationConfig"].as_object().unwrap();
    assert_eq!(sent["temperature"], 0.25);
    assert!(!sent.contains_key("topP") && !sent.contains_key("topK"), "{sent:?}");
    // Everything that hooks do not know stays.
    assert!(sent.contains_key("thinkingConfig"), "{sent:?}");
}

#[test]
fn another_model_is_asked_when_a_hook_says_so() {
    let home = TestHome::new()
        .settings(json!({"hooks": {"BeforeModel": answers("answer.json")}}))
        .file("answer.json", &specific(json!({"llm_request": {"model": "other-model"}})).to_string());
    let scene = Scene::with(home, [reply().text("Hi.")]);
    assert_eq!(scene.run(&["-p", "hello"]).code, Some(0));
    assert!(scene.server.request(0).path.contains("/other-model:"), "{}", scene.server.request(0).path);
}

#[test]
fn a_reply_of_a_hook_saves_the_request() {
    let answer = specific(
        json!({"llm_response": {"candidates": [{"content": {"role": "model", "parts": ["From a hook."]}}]}}),
    );
    let world = World::new(&json!({"BeforeModel": answers("answer.json")}), &[says("Never.")])
        .file("answer.json", answer);
    let run = world.fine(&[]);
    assert_eq!(
        (run.stdout.as_str(), run.stderr.contains("blocked")),
        ("From a hook.\n", false),
        "{}",
        run.stderr
    );
    assert!(world.records("api_request").is_empty());
    let input = &world.lines("in.jsonl")[0]["llm_request"];
    let last = input["messages"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["role"], &last["content"]), (&json!("user"), &json!("do it")));
    assert_eq!(input["model"], crate::scene::MODEL);
}

#[test]
fn a_blocked_request_is_not_made_and_what_stands_for_it_is_shown() {
    let mut answer = specific(json!({"llm_response": {"text": "Ask later."}}));
    answer["decision"] = json!("deny");
    answer["reason"] = json!("Quiet hours.");
    let world = World::new(&json!({"BeforeModel": answers("answer.json")}), &[says("Never.")])
        .file("answer.json", answer);
    let run = world.fine(&[]);
    assert_eq!(run.stdout, "Ask later.\n");
    assert!(run.stderr.contains("[WARNING] Agent execution blocked: Quiet hours."), "{}", run.stderr);
    assert!(world.records("api_request").is_empty());

    let world = World::new(&json!({"BeforeModel": answers("answer.json")}), &[says("Never.")])
        .file("answer.json", json!({"continue": false, "stopReason": "No more."}));
    let run = world.fine(&["-o", "json"]);
    let object = crate::scene::parse(&run.stdout);
    assert_eq!(
        (&object["response"], &object["warnings"]),
        (&json!(""), &json!(["Agent execution stopped: No more."]))
    );
}

#[test]
fn blocks_reach_programs_in_both_dialects() {
    let world = World::new(&json!({"BeforeModel": answers("answer.json")}), &[])
        .file("answer.json", json!({"decision": "block", "reason": "No."}));
    let events = crate::scene::lines(&world.fine(&["-o", "stream-json"]).stdout);
    let error = crate::scene::of_type(&events, "ERROR")[0].clone();
    assert_eq!(
        (&error["code"], &error["message"]),
        (&json!("HALTED_BY_HOOK"), &json!("Agent execution blocked: No."))
    );
    assert_eq!(events.last().unwrap()["success"], true);
    let upstream = world.fine(&["-o", "stream-json", "--output-dialect", "gemini-cli"]);
    let events = crate::scene::lines(&upstream.stdout);
    let error = crate::scene::of_type(&events, "error")[0].clone();
    assert_eq!(
        (&error["severity"], &error["message"]),
        (&json!("warning"), &json!("Agent execution blocked: No."))
    );
    assert_eq!(events.last().unwrap()["status"], "success");
}

#[test]
fn the_choice_of_tools_is_narrowed() {
    let names = |body: &Value| -> Vec<String> {
        let declared = body["tools"][0]["functionDeclarations"].as_array().unwrap().clone();
        declared.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let config = |mode: &str, names: &[&str]| {
        specific(json!({"toolConfig": {"mode": mode, "allowedFunctionNames": names}}))
    };
    let any = sent("BeforeToolSelection", config("ANY", &["glob", "read_file"]));
    let calling = &any["toolConfig"]["functionCallingConfig"];
    assert_eq!(
        (&calling["mode"], &calling["allowedFunctionNames"]),
        (&json!("ANY"), &json!(["glob", "read_file"]))
    );
    let none = sent("BeforeToolSelection", config("NONE", &[]));
    assert_eq!(none["toolConfig"]["functionCallingConfig"], json!({"mode": "NONE"}));
    let auto = sent("BeforeToolSelection", config("AUTO", &["glob"]));
    assert_eq!(names(&auto), ["glob"]);
}

#[test]
fn every_piece_of_a_reply_is_shown_to_hooks_and_may_be_reworded() {
    let chunk = |text: &str, finish: Option<&str>| {
        let mut candidate = json!({"content": {"role": "model", "parts": [{"text": text}]}});
        if let Some(finish) = finish {
            candidate["finishReason"] = json!(finish);
        }
        json!({"candidates": [candidate]})
    };
    let line = json!({"method": "generateContentStream",
        "response": [chunk("secret one. ", None), chunk("plain two.", Some("STOP"))]});
    let command = "tee -a in.jsonl | grep -q '\"text\":\"secret' && cat answer.json; echo >> in.jsonl";
    let world = World::new(&json!({"AfterModel": super::hook("redact", command)}), &[])
        .file("script.jsonl", &line)
        .file(
            "answer.json",
            specific(json!({"llm_response": {"candidates": [{"content": {"parts": ["[removed] "]}}]}})),
        );
    let run = world.fine(&[]);
    assert_eq!(run.stdout, "[removed] plain two.\n", "{}", run.stderr);
    let inputs = world.lines("in.jsonl");
    assert_eq!(inputs.len(), 2);
    assert_eq!(inputs[1]["llm_response"]["candidates"][0]["finishReason"], "STOP");
    assert_eq!(inputs[0]["llm_request"]["messages"].as_array().unwrap().last().unwrap()["content"], "do it");
    // The file keeps what the model said.
    let files = crate::scene::all_files(&world.home.gemini_dir());
    let session = files.iter().find(|file| file.display().to_string().contains("/chats/session-")).unwrap();
    assert!(std::fs::read_to_string(session).unwrap().contains("secret one. plain two."));
}

#[test]
fn a_blocked_piece_ends_the_turn_and_nothing_of_it_runs() {
    let world = World::new(
        &json!({"AfterModel": answers("answer.json")}),
        &[super::writes("a.txt", "x"), says("Never.")],
    )
    .file("answer.json", json!({"decision": "deny", "reason": "Stop there."}));
    let run = world.fine(&["--yolo"]);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains("[WARNING] Agent execution blocked: Stop there."), "{}", run.stderr);
    assert_eq!(world.read("a.txt"), "");
}

#[test]
fn hooks_see_each_request_of_a_turn_and_a_failing_one_warns_once_for_each() {
    let hooks = json!({"BeforeModel": super::hook("count", "echo x >> count"), "AfterModel": super::hook("broken", "exit 1")});
    let world = World::new(&hooks, &[calls("glob", json!({"pattern": "*"})), says("Done.")]);
    let run = world.fine(&[]);
    assert_eq!((run.stdout.as_str(), world.read("count").lines().count()), ("Done.\n", 2));
    let warning = "[WARNING] Hook `broken` (AfterModel) failed: exit code 1";
    assert_eq!(run.stderr.matches(warning).count(), 2, "{}", run.stderr);
}
