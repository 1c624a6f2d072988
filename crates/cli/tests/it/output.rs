//! What a reader of stdout gets, in every format and dialect.

use pollux_test_support::{Run, TestHome, reply};
use serde_json::{Value, json};

use crate::scene::{MODEL, Scene, keys, lines, of_type, parse};

/// One step with text, a successful and a failing call, then the answer.
fn scene() -> Scene {
    let first = reply()
        .text("abc")
        .call_with_id("w", "write_file", json!({"file_path": "a.txt", "content": "x\ny\n"}))
        .call_with_id("r", "read_file", json!({"file_path": "missing.txt"}))
        .call_with_id("s", "run_shell_command", json!({"command": "echo said; exit 3"}));
    let mut usage = json!({"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 127,
        "cachedContentTokenCount": 40, "thoughtsTokenCount": 7});
    let first = first
        .chunk(json!({"candidates": [{"content": {"parts": [{"text": ""}]}, "finishReason": "STOP"}],
        "usageMetadata": usage.take(), "modelVersion": "m-x"}));
    let second = reply().text("Do").text("ne.").usage(100, 20);
    Scene::with(TestHome::new(), [first, second])
}

fn run(format: &str, dialect: &str) -> (Scene, Run) {
    let scene = scene();
    let run = scene.run(&["-p", "go", "--yolo", "-o", format, "--output-dialect", dialect]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(scene.home.read("a.txt"), "x\ny\n");
    (scene, run)
}

#[test]
fn text_is_the_answer_with_one_newline_where_tools_ran_and_at_the_end() {
    for dialect in ["pollux", "gemini-cli"] {
        let (_scene, run) = run("text", dialect);
        assert_eq!(run.stdout, "abc\nDone.\n");
        assert!(
            run.stderr.contains("YOLO mode is enabled. All tool calls will be automatically approved.\n")
        );
        assert!(run.stderr.contains("Error executing tool read_file: "), "{}", run.stderr);
    }
}

#[test]
fn json_in_our_dialect_has_the_whole_answer_and_the_totals() {
    let (_scene, run) = run("json", "pollux");
    let document = parse(&run.stdout);
    assert_eq!(keys(&document), ["response", "stats", "error"]);
    assert_eq!(document["response"], "abc\nDone.");
    assert_eq!(document["error"]["message"], "Command failed with exit code 3", "the last call failed");
    let stats = &document["stats"];
    assert_eq!(keys(stats), ["models", "tools", "files"]);
    let model = &stats["models"]["m-x"];
    assert_eq!(keys(&model["api"]), ["requests", "errors", "latencyMs"]);
    assert_eq!(model["tokens"], json!({"prompt": 100, "candidates": 20, "total": 127, "cached": 40}));
    assert_eq!(stats["models"][MODEL]["tokens"]["total"], 120);
    let tools = &stats["tools"];
    assert_eq!(
        (&tools["totalCalls"], &tools["totalSuccess"], &tools["totalFail"]),
        (&json!(3), &json!(1), &json!(2))
    );
    assert_eq!(tools["byName"]["write_file"], json!({"calls": 1, "success": 1, "fail": 0}));
    assert_eq!(stats["files"], json!({"totalLinesAdded": 2, "totalLinesRemoved": 0}));
}

#[test]
fn json_in_upstreams_dialect_has_its_keys_in_its_order() {
    let (_scene, run) = run("json", "gemini-cli");
    assert!(run.stdout.starts_with("{\n  \"session_id\": \"") && run.stdout.ends_with('}'), "{}", run.stdout);
    let document = parse(&run.stdout);
    assert_eq!(keys(&document), ["session_id", "response", "stats"]);
    assert_eq!(document["response"], "Done.");
    let model = &document["stats"]["models"]["m-x"];
    assert_eq!(keys(model), ["api", "tokens", "roles"]);
    assert_eq!(keys(&model["api"]), ["totalRequests", "totalErrors", "totalLatencyMs", "errorsByType"]);
    assert_eq!(
        model["tokens"].to_string(),
        r#"{"input":60,"prompt":100,"candidates":20,"total":127,"cached":40,"thoughts":7,"tool":0}"#
    );
    let main = &model["roles"]["main"];
    assert_eq!(keys(main), ["totalRequests", "totalErrors", "totalLatencyMs", "tokens"]);
    let tools = &document["stats"]["tools"];
    assert_eq!(
        keys(tools),
        ["totalCalls", "totalSuccess", "totalFail", "totalDurationMs", "totalDecisions", "byName"]
    );
    let shell = &tools["byName"]["run_shell_command"];
    assert_eq!(keys(shell), ["count", "success", "fail", "durationMs", "decisions"]);
    assert_eq!(shell["decisions"].to_string(), r#"{"accept":1,"reject":0,"modify":0,"auto_accept":0}"#);
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[test]
fn stream_json_in_our_dialect_tells_everything_in_order() {
    let (_scene, run) = run("stream-json", "pollux");
    let events = lines(&run.stdout);
    let kinds = types(&events);
    assert_eq!(kinds[..3], ["INIT", "MESSAGE", "MESSAGE"]);
    assert_eq!(kinds.iter().filter(|kind| **kind == "TOOL_USE").count(), 3);
    assert_eq!(kinds.iter().filter(|kind| **kind == "TOOL_RESULT").count(), 3);
    assert_eq!(kinds.last(), Some(&"RESULT"));
    assert_eq!(keys(&events[0]), ["type", "sessionId", "model", "approvalMode", "sandbox", "timestamp"]);
    assert_eq!(keys(&events[1]), ["type", "role", "content", "delta", "timestamp"]);
    assert_eq!((&events[1]["content"], &events[1]["delta"]), (&json!("go"), &json!(false)));
    let use_ = of_type(&events, "TOOL_USE")[0];
    assert_eq!(keys(use_), ["type", "toolName", "callId", "params", "timestamp"]);
    for result in of_type(&events, "TOOL_RESULT") {
        let texts: &[&str] = match result["callId"].as_str().unwrap() {
            "write_file__w" => &["result"],
            "read_file__r" => &["error"],
            // A command that failed has printed something, too.
            _ => &["result", "error"],
        };
        let status = if texts == ["result"] { "success" } else { "error" };
        // Present where the machine has a sandbox.
        let mut found = keys(result);
        found.retain(|key| *key != "sandbox");
        assert_eq!(found, [&["type", "callId", "status"], texts, &["timestamp"]].concat());
        assert!(result["status"] == status && texts.iter().all(|text| result[*text].is_string()), "{result}");
    }
    let said: String = of_type(&events, "MESSAGE")
        .iter()
        .filter(|event| event["role"] == "assistant")
        .filter_map(|event| event["content"].as_str())
        .collect();
    assert_eq!(said, "abcDone.");
    let result = events.last().unwrap();
    assert_eq!(keys(result), ["type", "success", "stats", "timestamp"]);
    assert_eq!(result["success"], true);
}

#[test]
fn stream_json_in_upstreams_dialect_is_what_its_clients_parse() {
    let (_scene, run) = run("stream-json", "gemini-cli");
    let events = lines(&run.stdout);
    assert_eq!(
        types(&events),
        [
            "init",
            "message",
            "message",
            "tool_use",
            "tool_use",
            "tool_use",
            "tool_result",
            "tool_result",
            "tool_result",
            "message",
            "message",
            "result"
        ]
    );
    assert_eq!(keys(&events[0]), ["type", "timestamp", "session_id", "model"]);
    assert_eq!(events[0]["model"], MODEL);
    assert_eq!(keys(&events[1]), ["type", "timestamp", "role", "content"]);
    assert_eq!(keys(&events[2]), ["type", "timestamp", "role", "content", "delta"]);
    assert_eq!(keys(&events[3]), ["type", "timestamp", "tool_name", "tool_id", "parameters"]);
    assert_eq!(events[3]["tool_id"], "write_file__w");
    assert_eq!(keys(&events[6]), ["type", "timestamp", "tool_id", "status"]);
    assert_eq!(keys(&events[7]), ["type", "timestamp", "tool_id", "status", "output", "error"]);
    assert_eq!(events[7]["error"]["type"], "file_not_found");
    assert_eq!(keys(&events[7]["error"]), ["type", "message"]);
    assert_eq!(keys(&events[8]), ["type", "timestamp", "tool_id", "status", "output"]);
    assert_eq!(events[8]["status"], "success", "a command that exits with 3 did run");
    assert!(events[8]["output"].as_str().unwrap().contains("said"));
    let result = events.last().unwrap();
    assert_eq!(keys(result), ["type", "timestamp", "status", "stats"]);
    let stats = &result["stats"];
    assert_eq!(
        keys(stats),
        [
            "total_tokens",
            "input_tokens",
            "output_tokens",
            "cached",
            "input",
            "duration_ms",
            "tool_calls",
            "models"
        ]
    );
    assert_eq!((&stats["total_tokens"], &stats["tool_calls"]), (&json!(247), &json!(3)));
    assert_eq!(
        (&stats["input_tokens"], &stats["cached"], &stats["input"]),
        (&json!(200), &json!(40), &json!(160))
    );
    assert_eq!(
        keys(&stats["models"]["m-x"]),
        ["total_tokens", "input_tokens", "output_tokens", "cached", "input"]
    );
    let stamp = events[0]["timestamp"].as_str().unwrap();
    assert!(stamp.len() == 24 && stamp.ends_with('Z') && stamp.as_bytes()[19] == b'.', "{stamp}");
}

#[test]
fn the_dialect_can_come_from_a_setting_or_a_variable_and_the_flag_wins() {
    let home =
        TestHome::new().settings(json!({"output": {"format": "stream-json", "dialect": "gemini-cli"}}));
    let scene = Scene::with(home, (0..3).map(|_| reply().text("x")));
    let first = |run: Run| lines(&run.stdout)[0]["type"].as_str().unwrap().to_owned();
    assert_eq!(first(scene.run(&["-p", "x"])), "init");
    assert_eq!(first(scene.prompt(&["-p", "x"]).env("POLLUX_OUTPUT_DIALECT", "pollux").run()), "INIT");
    let flagged = scene.prompt(&["-p", "x", "--output-dialect", "gemini-cli"]);
    assert_eq!(first(flagged.env("POLLUX_OUTPUT_DIALECT", "pollux").run()), "init");
}

#[test]
fn control_sequences_of_the_model_reach_nobody_unless_asked_for() {
    let reply = || reply().text("\u{1b}[31mred\u{1b}").text("[0m \u{1b}]0;title\u{7}end");
    let scene = Scene::new((0..3).map(|_| reply()));
    assert_eq!(scene.run(&["-p", "x"]).stdout, "red end\n");
    let raw = scene.run(&["-p", "x", "--raw-output"]);
    assert!(raw.stdout.starts_with("\u{1b}[31mred\u{1b}[0m "), "{:?}", raw.stdout);
    assert!(raw.stderr.contains("[WARNING]"), "{}", raw.stderr);
    let (events, _) = scene.events(&["-p", "x"]);
    assert!(!serde_json::to_string(&events).unwrap().contains("u001b"));
}
