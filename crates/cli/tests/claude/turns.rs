//! Turns, approvals and requests of a host that behaves.

use serde_json::{Value, json};

use crate::script::{calls, home, reply, says};
use crate::{
    ASKS, allow, answer, asked, blocks, end, initialize, request, response, result, say, shell, start, write,
};

#[test]
fn a_turn_has_its_messages_in_order() {
    let thinks = reply(&[json!({"text": "**Plan** look", "thought": true}), json!({"text": "hello"})]);
    let mut host = start(home(), &[thinks, says("again")], &[]);
    let info = initialize(&mut host, Value::Null);
    assert_eq!(info["subtype"], "success");
    assert!(info["response"]["commands"].as_array().is_some_and(|commands| !commands.is_empty()), "{info}");
    say(&mut host, "hi");
    let done = result(&mut host);
    let words: Vec<String> = host
        .log
        .iter()
        .map(|message| {
            format!("{}/{}", message["type"].as_str().unwrap(), message["subtype"].as_str().unwrap_or(""))
        })
        .filter(|word| !word.starts_with("control"))
        .collect();
    assert_eq!(words, ["system/init", "assistant/", "assistant/", "result/success"]);
    assert_eq!(blocks(&host, "thinking")[0]["thinking"], "**Plan**\nlook\n");
    assert_eq!(blocks(&host, "text")[0]["text"], "hello");
    let init = &host.of_type("system")[0];
    assert!(init["tools"].as_array().unwrap().contains(&json!("read_file")), "{init}");
    assert_eq!((&init["permissionMode"], &init["model"]), (&json!("default"), &json!("gemini-2.5-flash")));
    assert_eq!(init["cwd"], json!(host.home.project().canonicalize().unwrap()));
    assert_eq!(
        (&done["result"], &done["is_error"], &done["num_turns"]),
        (&json!("hello"), &json!(false), &json!(1))
    );
    assert_eq!((&done["usage"]["input_tokens"], &done["usage"]["output_tokens"]), (&json!(10), &json!(5)));
    assert!(done["duration_ms"].is_u64() && done["duration_api_ms"].is_u64());
    assert_eq!((&done["session_id"], &done["stop_reason"]), (&init["session_id"], &json!("end_turn")));
    say(&mut host, "and again");
    assert_eq!(result(&mut host)["result"], "again");
    assert_eq!(end(&mut host), Some(0), "{}", host.stderr());
    let uuids: Vec<&Value> = host.log.iter().filter_map(|message| message.get("uuid")).collect();
    let mut unique = uuids.clone();
    unique.sort_by_key(|uuid| uuid.to_string());
    unique.dedup();
    assert_eq!(unique.len(), uuids.len());
}

#[test]
fn a_prompt_before_initialize_opens_the_session() {
    // The size of a prompt with an image is asked for first.
    let mut host = start(home(), &[says("counted"), says("one"), says("two")], &[]);
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}});
    let content = json!([{"type": "text", "text": "what is this?"}, image]);
    host.send(&json!({"type": "user", "message": {"role": "user", "content": content}}));
    say(&mut host, "and this?");
    assert_eq!(result(&mut host)["result"], "one");
    assert_eq!(result(&mut host)["result"], "two");
    request(&mut host, "late", json!({"subtype": "initialize", "hooks": null}));
    assert_eq!(response(&mut host, "late")["subtype"], "error");
    assert_eq!(end(&mut host), Some(0));
}

#[test]
fn the_end_of_input_lets_a_prompt_end() {
    let mut host = start(home(), &[says("done")], &[]);
    initialize(&mut host, Value::Null);
    say(&mut host, "go");
    assert_eq!(end(&mut host), Some(0), "{}", host.stderr());
    assert_eq!(host.of_type("result")[0]["result"], "done");
    let mut early = start(home(), &[says("early")], &[]);
    say(&mut early, "go");
    assert_eq!(end(&mut early), Some(0), "{}", early.stderr());
    assert_eq!(
        early.of_type("result")[0]["result"],
        "early",
        "a prompt that came before the session was open"
    );
    let mut silent = start(home(), &[], &[]);
    assert_eq!(end(&mut silent), Some(0), "nothing was asked");
}

#[test]
fn a_host_decides_on_calls() {
    let replies = [write("a.txt"), write("b.txt"), shell("touch c.txt"), says("done")];
    let mut host = start(home(), &replies, &ASKS);
    initialize(&mut host, Value::Null);
    say(&mut host, "go");
    let one = asked(&mut host, "can_use_tool");
    assert_eq!(one["request"]["tool_name"], "write_file");
    assert_eq!(one["request"]["input"], json!({"file_path": "a.txt", "content": "x\n"}));
    assert_eq!(one["request"]["tool_use_id"], blocks(&host, "tool_use")[0]["id"]);
    allow(&mut host, &one);
    let two = asked(&mut host, "can_use_tool");
    let changed = json!({"file_path": "b.txt", "content": "changed\n"});
    answer(&mut host, &two, json!({"behavior": "allow", "updatedInput": changed}));
    let three = asked(&mut host, "can_use_tool");
    assert_eq!(three["request"]["tool_name"], "run_shell_command", "the changed call is not asked for again");
    answer(&mut host, &three, json!({"behavior": "deny", "message": "not today"}));
    let done = result(&mut host);
    assert_eq!((&done["subtype"], &done["result"]), (&json!("success"), &json!("done")));
    assert_eq!(done["permission_denials"][0]["tool_input"], json!({"command": "touch c.txt"}));
    assert_eq!((host.home.read("a.txt").as_str(), host.home.read("b.txt").as_str()), ("x\n", "changed\n"));
    assert!(!host.home.project().join("c.txt").exists());
    let results = blocks(&host, "tool_result");
    assert_eq!((&results[0]["is_error"], &results[2]["is_error"]), (&json!(false), &json!(true)));
    assert!(results[2]["content"].as_str().unwrap().contains("not today"));
    assert_eq!(end(&mut host), Some(0));
}

#[test]
fn changed_arguments_are_decided_on_again() {
    let args = ["--permission-prompt-tool", "stdio", "--disallowedTools", "Bash(rm:*)"];
    let mut host = start(home(), &[shell("touch a.txt"), says("done")], &args);
    std::fs::write(host.home.project().join("keep.txt"), "kept\n").unwrap();
    initialize(&mut host, Value::Null);
    say(&mut host, "go");
    let one = asked(&mut host, "can_use_tool");
    answer(&mut host, &one, json!({"behavior": "allow", "updatedInput": {"command": "rm keep.txt"}}));
    assert_eq!(result(&mut host)["result"], "done");
    assert_eq!(host.home.read("keep.txt"), "kept\n", "what is denied stays denied");
    assert_eq!(blocks(&host, "tool_result")[0]["is_error"], true);
}

#[test]
fn a_grant_covers_what_was_suggested_in_this_session_only() {
    let replies = [shell("touch a.txt"), shell("touch a.txt"), says("done")];
    let mut host = start(home(), &replies, &ASKS);
    initialize(&mut host, Value::Null);
    say(&mut host, "go");
    let one = asked(&mut host, "can_use_tool");
    let suggested = &one["request"]["permission_suggestions"][0];
    assert_eq!((&suggested["type"], &suggested["destination"]), (&json!("addRules"), &json!("session")));
    answer(&mut host, &one, json!({"behavior": "allow", "updatedPermissions": [suggested]}));
    let done = result(&mut host);
    assert_eq!(host.of_type("control_request").len(), 1, "the second call is covered");
    assert_eq!(end(&mut host), Some(0));
    let session = format!("--resume={}", done["session_id"].as_str().unwrap());
    let home = std::mem::replace(&mut host.home, home());
    let mut again = start(home, &replies, &[ASKS[0], ASKS[1], &session]);
    initialize(&mut again, Value::Null);
    say(&mut again, "go");
    let asked = asked(&mut again, "can_use_tool");
    answer(&mut again, &asked, json!({"behavior": "deny", "message": "no", "interrupt": true}));
    let done = result(&mut again);
    assert_eq!((&done["subtype"], &done["is_error"]), (&json!("error_during_execution"), &json!(true)));
}

#[test]
fn modes_decide_what_is_asked() {
    let replies = [write("a.txt"), says("1"), write("b.txt"), says("2"), shell("touch c.txt"), says("3")];
    let mut host =
        start(home(), &replies, &["--permission-prompt-tool", "stdio", "--permission-mode", "dontAsk"]);
    initialize(&mut host, Value::Null);
    say(&mut host, "a refused edit");
    assert_eq!(result(&mut host)["permission_denials"].as_array().unwrap().len(), 1);
    assert_eq!(host.of_type("system")[0]["permissionMode"], "dontAsk");
    for (id, mode, subtype) in [("a", "acceptEdits", "success"), ("b", "nonsense", "error")] {
        request(&mut host, id, json!({"subtype": "set_permission_mode", "mode": mode}));
        assert_eq!(response(&mut host, id)["subtype"], subtype, "{mode}");
    }
    say(&mut host, "an edit");
    assert_eq!(result(&mut host)["permission_denials"], json!([]));
    request(&mut host, "c", json!({"subtype": "set_permission_mode", "mode": "bypassPermissions"}));
    assert_eq!(response(&mut host, "c")["subtype"], "success");
    say(&mut host, "a command");
    assert_eq!(result(&mut host)["result"], "3");
    assert_eq!(host.of_type("control_request").len(), 0);
    let exists = |name: &str| host.home.project().join(name).exists();
    assert_eq!((exists("a.txt"), exists("b.txt"), exists("c.txt")), (false, true, true));
}

#[test]
fn a_mode_that_the_user_forbids_is_refused() {
    let home = home()
        .settings(json!({"security": {"disableYoloMode": true}, "general": {"sessionSummaries": false}}));
    let mut host = start(home, &[], &[]);
    initialize(&mut host, Value::Null);
    request(&mut host, "a", json!({"subtype": "set_permission_mode", "mode": "bypassPermissions"}));
    let refused = response(&mut host, "a");
    assert_eq!(refused["subtype"], "error");
    assert!(refused["error"].as_str().unwrap().to_lowercase().contains("yolo"), "{refused}");
}

#[test]
fn without_a_prompt_tool_calls_that_need_approval_are_refused() {
    let mut host = start(home(), &[write("a.txt"), says("moved on")], &[]);
    initialize(&mut host, Value::Null);
    say(&mut host, "go");
    host.close_input();
    let done = result(&mut host);
    assert_eq!((&done["subtype"], &done["result"]), (&json!("success"), &json!("moved on")));
    assert_eq!(done["permission_denials"][0]["tool_name"], "write_file");
    assert!(!host.home.project().join("a.txt").exists());
    assert_eq!(host.end().0, Some(0));
}

#[test]
fn tools_that_the_host_denies_are_denied_in_every_mode() {
    let args = ["--dangerously-skip-permissions", "--disallowedTools", "Write,Bash(touch:*)"];
    let mut host = start(home(), &[write("a.txt"), shell("touch b.txt"), says("done")], &args);
    initialize(&mut host, Value::Null);
    say(&mut host, "go");
    assert_eq!(result(&mut host)["result"], "done");
    let exists = |name: &str| host.home.project().join(name).exists();
    assert!(!exists("a.txt") && !exists("b.txt"));
    let tools =
        &host.of_type("system").into_iter().find(|message| message["subtype"] == "init").unwrap()["tools"];
    assert!(!tools.as_array().unwrap().contains(&json!("write_file")), "{tools}");
    let mut bare = start(home(), &[says("x")], &["--tools", ""]);
    initialize(&mut bare, Value::Null);
    say(&mut bare, "go");
    result(&mut bare);
    assert_eq!(bare.of_type("system")[0]["tools"], json!([]));
}

#[test]
fn an_interrupt_ends_the_turn_and_the_next_prompt_works() {
    let args = ["--allowedTools", "Bash", "--include-partial-messages"];
    let mut host = start(home(), &[shell("touch begun; sleep 97.3"), says("still here")], &args);
    initialize(&mut host, Value::Null);
    say(&mut host, "go");
    host.wait_for("assistant");
    while !host.home.project().join("begun").exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let before = std::time::Instant::now();
    request(&mut host, "stop", json!({"subtype": "interrupt"}));
    assert_eq!(response(&mut host, "stop")["subtype"], "success");
    let done = result(&mut host);
    assert!(before.elapsed() < std::time::Duration::from_secs(30));
    assert_eq!(done["subtype"], "error_during_execution");
    assert!(done["terminal_reason"].as_str().unwrap().starts_with("aborted"), "{done}");
    say(&mut host, "are you there?");
    assert_eq!(result(&mut host)["result"], "still here");
    assert_eq!(end(&mut host), Some(0));
}

#[test]
fn pieces_are_sent_on_request() {
    let mut host = start(
        home(),
        &[says("hello"), calls("list_directory", json!({"dir_path": "."})), says("x")],
        &["--include-partial-messages"],
    );
    initialize(&mut host, Value::Null);
    say(&mut host, "go");
    result(&mut host);
    say(&mut host, "list");
    result(&mut host);
    let events: Vec<&Value> =
        host.of_type("stream_event").into_iter().map(|message| &message["event"]).collect();
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!((of("message_start"), of("message_stop")), (3, 3), "{events:#?}");
    assert_eq!(of("content_block_start"), of("content_block_stop"));
    assert!(events.iter().any(|event| event["delta"] == json!({"type": "text_delta", "text": "hello"})));
    assert!(events.iter().any(|event| event["content_block"]["name"] == "list_directory"));
}

#[test]
fn limits_and_failures_have_their_own_results() {
    let look = || calls("list_directory", json!({"dir_path": "."}));
    let mut host = start(home(), &[look(), look(), look(), says("x")], &["--max-turns", "2"]);
    initialize(&mut host, Value::Null);
    say(&mut host, "go");
    let done = result(&mut host);
    assert_eq!((&done["subtype"], &done["is_error"]), (&json!("error_max_turns"), &json!(true)));
    assert_eq!(end(&mut host), Some(53));
    let mut gone = start(home(), &[], &["--resume=no-such-session"]);
    request(&mut gone, "init", json!({"subtype": "initialize"}));
    let failed = result(&mut gone);
    assert_eq!(failed["is_error"], true);
    assert!(failed["errors"][0].as_str().is_some_and(|error| !error.is_empty()), "{failed}");
    assert_eq!(response(&mut gone, "init")["subtype"], "error");
    assert_ne!(gone.end().0, Some(0));
}

#[test]
fn the_state_of_the_session_is_told_on_request() {
    let home = home().env("CLAUDE_CODE_SDK_READS_SESSION_STATE", "1");
    // The second line is sent before the first turn can end, and has a moment to be read.
    let wait = "while [ ! -e go.txt ]; do sleep 0.05; done; sleep 0.7";
    let replies = [shell(wait), says("one"), says("two")];
    let mut host = start(home, &replies, &["--allowedTools", "Bash"]);
    initialize(&mut host, Value::Null);
    say(&mut host, "1");
    say(&mut host, "2");
    std::fs::write(host.home.project().join("go.txt"), "").unwrap();
    result(&mut host);
    result(&mut host);
    assert_eq!(end(&mut host), Some(0));
    let told = host.log.iter().filter_map(|message| match message["type"].as_str()? {
        "result" => Some("result"),
        _ => message["state"].as_str(),
    });
    let told: Vec<&str> = told.collect();
    assert_eq!(told, ["running", "result", "running", "result", "idle"], "idle only when nothing waits");
}

#[test]
fn questions_about_the_session_are_answered() {
    let mut host = start(home(), &[says("x")], &["--replay-user-messages"]);
    initialize(&mut host, Value::Null);
    say(&mut host, "hello");
    result(&mut host);
    let replayed = host.of_type("user")[0];
    assert_eq!((&replayed["isReplay"], &replayed["message"]["content"]), (&json!(true), &json!("hello")));
    for (id, ask, key) in [
        ("a", json!({"subtype": "get_context_usage"}), "totalTokens"),
        ("b", json!({"subtype": "mcp_status"}), "mcpServers"),
    ] {
        request(&mut host, id, ask);
        let told = response(&mut host, id);
        assert!(!told["response"][key].is_null(), "{told}");
    }
    request(&mut host, "c", json!({"subtype": "set_model", "model": "gemini-2.5-pro"}));
    assert_eq!(response(&mut host, "c")["subtype"], "success");
}
