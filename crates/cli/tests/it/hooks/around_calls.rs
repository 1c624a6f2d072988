//! `BeforeTool` and `AfterTool`.

use serde_json::json;

use super::{World, answers, calls, hook, says, specific, writes};

#[test]
fn a_blocked_call_does_not_run_and_the_model_reads_why() {
    for (command, reason) in [
        ("echo Keys stay out. >&2; exit 2", "Keys stay out."),
        ("echo '{\"decision\": \"block\", \"reason\": \"Not here.\"}'", "Not here."),
        ("exit 2", "No reason provided"),
    ] {
        let world = World::new(
            &json!({"BeforeTool": hook("guard", command)}),
            &[writes("a.txt", "x"), says("Fine.")],
        );
        let run = world.fine(&["--yolo"]);
        assert_eq!(run.stdout, "Fine.\n");
        let told = format!("Tool execution blocked: {reason}");
        assert!(run.stderr.contains(&format!("Error executing tool write_file: {told}")), "{}", run.stderr);
        assert!(world.last_request().contains(&told), "{}", world.last_request());
        assert_eq!(world.read("a.txt"), "");
        assert_eq!(world.records("tool_call")[0]["error_type"], "policy_violation");
    }
}

#[test]
fn allow_lets_the_rules_decide_and_every_key_of_the_input_is_there() {
    let world =
        World::new(&json!({"BeforeTool": answers("allow.json")}), &[writes("a.txt", "x"), says("Done.")])
            .file("allow.json", json!({"decision": "allow", "systemMessage": "I looked."}));
    let refused = world.run(&[]);
    assert!(refused.stderr.contains("write_file"), "an allow does not skip the policy: {}", refused.stderr);
    assert_eq!(world.read("a.txt"), "");
    let run = world.fine(&["--yolo"]);
    assert_eq!(world.read("a.txt"), "x");
    assert!(run.stderr.contains("Hook system message: I looked."), "{}", run.stderr);
    let input = world.lines("in.jsonl").pop().unwrap();
    assert_eq!(
        crate::scene::keys(&input),
        ["session_id", "transcript_path", "cwd", "hook_event_name", "timestamp", "tool_name", "tool_input"]
    );
    assert_eq!(
        (&input["hook_event_name"], &input["tool_name"]),
        (&json!("BeforeTool"), &json!("write_file"))
    );
    assert_eq!(input["tool_input"], json!({"file_path": "a.txt", "content": "x"}));
    assert!(input["transcript_path"].as_str().unwrap().ends_with(".json"), "{input}");
}

#[test]
fn changed_arguments_are_used_told_and_decided_on() {
    let hooks = json!({"BeforeTool": answers("new.json")});
    let other = json!({"file_path": "b.txt", "content": "changed"});
    let world = World::new(&hooks, &[writes("a.txt", "x"), says("Done.")])
        .file("new.json", specific(json!({"tool_input": other})));
    world.fine(&["--yolo"]);
    assert_eq!((world.read("a.txt"), world.read("b.txt")), (String::new(), "changed".to_owned()));
    let told = "[System] Tool input parameters were modified by a hook before execution.";
    assert!(world.last_request().contains(told), "{}", world.last_request());

    // The rules see what would run, not what the model asked for.
    let rule = "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"touch forbidden\"\ndecision = \"deny\"\npriority = 900\n";
    let world = World::new(&hooks, &[calls("run_shell_command", json!({"command": "ls"})), says("Done.")])
        .file("new.json", specific(json!({"tool_input": {"command": "touch forbidden"}})));
    let home = world.home.home_file(".gemini/policies/mine.toml", rule);
    let world = World { home };
    let run = world.fine(&["--yolo"]);
    assert!(run.stderr.contains("denied by policy"), "{}", run.stderr);
    assert!(!world.home.project().join("forbidden").exists());

    let world = World::new(&hooks, &[writes("a.txt", "x"), says("Done.")])
        .file("new.json", specific(json!({"tool_input": {"content": "half"}})));
    let run = world.fine(&["--yolo"]);
    let told = "Tool parameter modification by hook failed validation: ";
    assert!(run.stderr.contains(told) && run.stderr.contains("file_path"), "{}", run.stderr);
    assert_eq!(world.records("tool_call")[0]["error_type"], "invalid_tool_params");
}

#[test]
fn ask_wins_over_yolo_and_without_anybody_to_ask_the_call_fails() {
    let world =
        World::new(&json!({"BeforeTool": answers("ask.json")}), &[writes("a.txt", "x"), says("Done.")])
            .file("ask.json", json!({"decision": "ask", "systemMessage": "Really?"}));
    let run = world.fine(&["--yolo"]);
    assert!(run.stderr.contains("requires user confirmation"), "{}", run.stderr);
    let told = "Call: `a.txt`. Reason: A hook requires your approval: Really? To allow it, change the hook.";
    assert!(run.stderr.contains(told), "{}", run.stderr);
    assert_eq!(world.read("a.txt"), "");
}

#[test]
fn a_stop_ends_the_turn_after_the_call_and_the_run_in_order() {
    let stop = json!({"continue": false, "stopReason": "Enough."});
    let two = [writes("a.txt", "x"), writes("b.txt", "x")].concat();
    for (event, line) in [
        ("BeforeTool", "Agent execution stopped: Agent execution stopped by hook: Enough."),
        ("AfterTool", "Agent execution stopped: Enough."),
    ] {
        let world = World::new(&json!({event: answers("stop.json")}), &[two.clone(), says("Never.")])
            .file("stop.json", &stop);
        let run = world.fine(&["--yolo"]);
        assert_eq!(run.stdout, "", "{event}");
        assert!(run.stderr.lines().any(|found| found == line), "{event}: {}", run.stderr);
        assert_eq!(world.read("a.txt"), if event == "AfterTool" { "x" } else { "" });
        assert_eq!(world.read("b.txt"), "", "{event}: what comes after a stop does not run");
        assert_eq!(world.records("tool_call")[0]["error_type"], "stop_execution");
        assert_eq!(world.records("api_request").len(), 1);
    }
}

#[test]
fn several_hooks_run_side_by_side_or_one_after_the_other_with_what_changed() {
    let one = specific(json!({"tool_input": {"command": "echo one", "description": "1"}}));
    let chain = |sequential: bool| {
        json!({"BeforeTool": [{"sequential": sequential, "hooks": [
            {"type": "command", "name": "first", "command": "cat one.json"},
            {"type": "command", "name": "second", "command": "cat >> in.jsonl; echo >> in.jsonl"},
        ]}]})
    };
    let replies = [calls("run_shell_command", json!({"command": "echo zero"})), says("Done.")];
    let world = World::new(&chain(true), &replies).file("one.json", &one);
    world.fine(&["--yolo"]);
    assert_eq!(world.lines("in.jsonl")[0]["tool_input"]["command"], "echo one");
    assert!(world.last_request().contains("Output: one"), "{}", world.last_request());
    // Side by side the second one judges what was asked first, and is asked again about what changed.
    let world = World::new(&chain(false), &replies).file("one.json", &one);
    world.fine(&["--yolo"]);
    let seen: Vec<_> = world.lines("in.jsonl").iter().map(|i| i["tool_input"]["command"].clone()).collect();
    assert_eq!(seen, [json!("echo zero"), json!("echo one")]);
}

#[test]
fn context_is_added_behind_the_result_and_a_blocked_result_is_replaced() {
    let replies = [calls("glob", json!({"pattern": "*.jsonl"})), says("Done.")];
    let world = World::new(&json!({"AfterTool": answers("more.json")}), &replies)
        .file("more.json", specific(json!({"additionalContext": "The <script> is mine."})));
    world.fine(&["--yolo"]);
    let sent = world.last_request();
    assert!(sent.contains("script.jsonl"), "{sent}");
    assert!(sent.contains("\\n\\n<hook_context>The &lt;script&gt; is mine.</hook_context>"), "{sent}");
    let input = &world.lines("in.jsonl")[0];
    assert_eq!(input["tool_input"], json!({"pattern": "*.jsonl"}));
    assert!(input["tool_response"]["llmContent"].as_str().unwrap().contains("script.jsonl"), "{input}");
    assert!(
        input["tool_response"].get("returnDisplay").is_some()
            && input["tool_response"].get("error").is_none()
    );

    let world = World::new(&json!({"AfterTool": answers("no.json")}), &replies)
        .file("no.json", json!({"decision": "deny", "reason": "Not for you."}));
    let run = world.fine(&["--yolo"]);
    let sent = world.last_request();
    assert!(sent.contains("Not for you.") && !sent.contains("Found"), "{sent}");
    assert!(run.stderr.contains("Tool result blocked: Not for you."), "{}", run.stderr);
}

#[test]
fn a_call_that_failed_is_shown_with_its_error_and_one_that_was_refused_is_not() {
    let replies = [
        calls("read_file", json!({"file_path": "none.txt"})),
        calls("nosuch_tool", json!({})),
        says("Done."),
    ];
    let world = World::new(&json!({"AfterTool": answers("/dev/null")}), &replies);
    world.fine(&["--yolo"]);
    let inputs = world.lines("in.jsonl");
    assert_eq!(inputs.len(), 1);
    assert_eq!(inputs[0]["tool_response"]["error"]["type"], "file_not_found");
}

#[test]
fn a_tail_call_runs_under_the_rules_and_its_result_takes_the_place_of_the_first() {
    let tail = json!({"tailToolCallRequest": {"name": "read_file", "args": {"file_path": "secret.txt"}}});
    let hooks = json!({
        "AfterTool": [{"matcher": "glob", "name": "tail", "command": "cat tail.json"}],
        "BeforeTool": [{"matcher": "read_file", "name": "seen", "command": "cat >> in.jsonl; echo >> in.jsonl"}],
    });
    let replies = [calls("glob", json!({"pattern": "*.txt"})), says("Done.")];
    let world = World::new(&hooks, &replies)
        .file("tail.json", specific(tail.clone()))
        .file("secret.txt", "TAIL RESULT");
    let run = world.fine(&["-o", "stream-json"]);
    let sent = world.last_request();
    assert!(sent.contains("TAIL RESULT") && !sent.contains("Found 1"), "{sent}");
    assert!(sent.contains(r#""name":"glob""#) && !sent.contains(r#""name":"read_file""#), "{sent}");
    assert_eq!(world.lines("in.jsonl")[0]["original_request_name"], "glob");
    let results = crate::scene::lines(&run.stdout);
    assert_eq!(crate::scene::of_type(&results, "TOOL_RESULT").len(), 1);

    // A rule against it holds for a hook's call too.
    let rule =
        "[[rule]]\ntoolName = \"read_file\"\nargsPattern = 'secret'\ndecision = \"deny\"\npriority = 900\n";
    let world =
        World::new(&hooks, &replies).file("tail.json", specific(tail)).file("secret.txt", "TAIL RESULT");
    let world = World { home: world.home.home_file(".gemini/policies/mine.toml", rule) };
    world.fine(&["--yolo"]);
    assert!(world.last_request().contains("denied by policy"), "{}", world.last_request());
    let unknown = json!({"tailToolCallRequest": {"name": "nosuch", "args": {}}});
    let world = World::new(&hooks, &replies).file("tail.json", specific(unknown));
    world.fine(&["--yolo"]);
    assert!(world.last_request().contains("Tool \\\"nosuch\\\" not found"), "{}", world.last_request());
}

#[test]
fn endless_tail_calls_end_with_the_last_result() {
    let tail = json!({"tailToolCallRequest": {"name": "glob", "args": {"pattern": "*.txt"}}});
    let hooks = json!({"AfterTool": hook("again", "echo x >> count; cat tail.json")});
    let replies = [calls("glob", json!({"pattern": "*"})), says("Done.")];
    let world = World::new(&hooks, &replies).file("tail.json", specific(tail)).file("last.txt", "");
    let run = world.fine(&["--yolo"]);
    assert_eq!(world.read("count").lines().count(), 11);
    assert!(run.stderr.contains("more than 10 calls in a row"), "{}", run.stderr);
    assert!(world.last_request().contains("last.txt"), "{}", world.last_request());
}

#[test]
fn hooks_of_neighbouring_calls_run_together_and_each_decides_on_its_own() {
    let two = [
        calls("read_file", json!({"file_path": "a.txt"})),
        calls("read_file", json!({"file_path": "b.txt"})),
    ];
    let hooks = json!({"BeforeTool": hook("no-b", "grep -q b.txt && { echo No b. >&2; exit 2; }; exit 0")});
    let world = World::new(&hooks, &[two.concat(), says("Done.")]).file("a.txt", "AAA").file("b.txt", "BBB");
    world.fine(&[]);
    let sent = world.last_request();
    assert!(sent.contains("AAA") && !sent.contains("BBB") && sent.contains("No b."), "{sent}");
}

#[test]
fn a_call_of_a_server_comes_with_what_is_known_of_the_server() {
    let mut entry = pollux_test_support::mcp::server_entry("plain");
    entry["trust"] = json!(true);
    let settings = json!({"mcpServers": {"srv": entry}, "mcp": {"firstRequestWaitMs": 60_000}, "hooks": {
        "BeforeTool": [{"matcher": "mcp_srv_.*", "name": "seen", "command": "cat >> in.jsonl; echo >> in.jsonl"}],
        "AfterTool": [{"matcher": "mcp_srv_.*", "name": "seen", "command": "cat >> in.jsonl; echo >> in.jsonl"}],
    }});
    let replies = [calls("mcp_srv_echo", json!({"text": "hi"})), says("Done.")];
    let world = World::with(pollux_test_support::TestHome::new(), settings, &replies);
    world.fine(&[]);
    let inputs = world.lines("in.jsonl");
    assert_eq!(inputs.len(), 2);
    for input in &inputs {
        let context = &input["mcp_context"];
        assert_eq!((&context["server_name"], &context["tool_name"]), (&json!("srv"), &json!("echo")));
        assert_eq!(context["command"], entry["command"]);
        assert_eq!(input["tool_name"], "mcp_srv_echo");
    }
}
