//! Hosts that send nonsense, leave, or cannot read.

use std::time::Duration;

use serde_json::{Value, json};

use crate::script::{home, says};
use crate::{
    ASKS, allow, answer, asked, blocks, end, initialize, request, response, result, say, shell, start, write,
};

#[test]
fn requests_that_cannot_be_used_are_refused_and_the_next_one_works() {
    let mut host = start(home(), &[says("still here")], &[]);
    request(&mut host, "early", json!({"subtype": "mcp_status"}));
    assert_eq!(response(&mut host, "early")["subtype"], "error");
    for hooks in
        [json!([]), json!({"PreToolUse": {}}), json!({"PreToolUse": [{"matcher": 7, "hookCallbackIds": []}]})]
    {
        request(&mut host, "bad", json!({"subtype": "initialize", "hooks": hooks}));
        assert_eq!(response(&mut host, "bad")["subtype"], "error", "{hooks}");
    }
    initialize(&mut host, Value::Null);
    for line in [
        &b"{not json"[..],
        b"[]",
        b"{\"type\":\"\xff\"}",
        br#"{"type":"no_such"}"#,
        br#"{"type":"control_request","request":{"subtype":"interrupt"}}"#,
        br#"{"type":"control_response"}"#,
        br#"{"type":"control_response","response":{"subtype":"success","request_id":"unknown","response":{}}}"#,
        b"",
    ] {
        host.send_raw(line);
    }
    for (id, given) in [
        ("a", json!({"subtype": "no_such_thing"})),
        ("b", json!({"subtype": 7})),
        ("c", json!([])),
        ("d", json!({"subtype": "rewind_files", "user_message_id": "x"})),
    ] {
        request(&mut host, id, given.clone());
        let refused = response(&mut host, id);
        assert_eq!(refused["subtype"], "error", "{given}");
        assert!(refused["error"].as_str().is_some_and(|why| !why.is_empty()));
    }
    host.send(&json!({"type": "user", "message": {"content": [{"type": "video"}]}}));
    assert_eq!(result(&mut host)["subtype"], "error_during_execution");
    say(&mut host, "are you there?");
    assert_eq!(result(&mut host)["result"], "still here");
    assert_eq!(end(&mut host), Some(0));
    assert!(host.stderr().contains("not valid JSON"), "{}", host.stderr());
}

#[test]
fn a_host_that_leaves_a_question_open_has_refused_the_call() {
    let mut host = start(home(), &[write("a.txt"), says("x")], &ASKS);
    initialize(&mut host, Value::Null);
    say(&mut host, "go");
    asked(&mut host, "can_use_tool");
    host.close_input();
    let (code, took) = host.end();
    assert_eq!(code, Some(130), "{}", host.stderr());
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert!(!host.home.project().join("a.txt").exists());
    assert_eq!(host.of_type("result").len(), 1);
}

#[test]
fn everything_but_a_clear_yes_refuses_a_call() {
    let replies = [write("a.txt"), write("a.txt"), write("a.txt"), says("moved on")];
    let mut host = start(home(), &replies, &ASKS);
    initialize(&mut host, Value::Null);
    say(&mut host, "go");
    let one = asked(&mut host, "can_use_tool");
    let failed = json!({"subtype": "error", "request_id": one["request_id"], "error": "callback failed"});
    host.send(&json!({"type": "control_response", "response": failed}));
    let two = asked(&mut host, "can_use_tool");
    answer(&mut host, &two, json!({"behavior": "maybe"}));
    // A second answer, and one to a question that is settled, change nothing.
    allow(&mut host, &two);
    allow(&mut host, &one);
    let three = asked(&mut host, "can_use_tool");
    let response = json!({"subtype": "success", "request_id": three["request_id"], "response": "yes"});
    host.send(&json!({"type": "control_response", "response": response}));
    assert_eq!(result(&mut host)["result"], "moved on");
    assert!(!host.home.project().join("a.txt").exists());
    assert!(blocks(&host, "tool_result").iter().all(|block| block["is_error"] == true));
    assert_eq!(end(&mut host), Some(0));
}

#[test]
fn a_question_that_is_settled_otherwise_is_withdrawn() {
    let mut host = start(home(), &[write("a.txt"), says("x")], &ASKS);
    initialize(&mut host, Value::Null);
    say(&mut host, "go");
    let one = asked(&mut host, "can_use_tool");
    request(&mut host, "stop", json!({"subtype": "interrupt"}));
    let withdrawn = host.wait_for("control_cancel_request");
    assert_eq!(withdrawn["request_id"], one["request_id"]);
    assert_eq!(result(&mut host)["subtype"], "error_during_execution");
    allow(&mut host, &one);
    assert_eq!(end(&mut host), Some(130));
    assert!(!host.home.project().join("a.txt").exists());
}

#[test]
fn no_line_is_too_long_for_the_host() {
    let replies = [shell("head -c 3000000 /dev/zero | tr '\\0' x"), says("done")];
    let mut host = start(home(), &replies, &["--allowedTools", "Bash"]);
    initialize(&mut host, Value::Null);
    say(&mut host, "go");
    assert_eq!(result(&mut host)["result"], "done");
    assert!(host.log.iter().all(|message| message.to_string().len() < 1_048_576));
}

#[test]
fn a_call_that_cannot_be_shown_is_refused() {
    let huge =
        crate::script::calls("write_file", json!({"file_path": "a.txt", "content": "x".repeat(1_200_000)}));
    let mut host = start(home(), &[huge, says("moved on")], &ASKS);
    initialize(&mut host, Value::Null);
    say(&mut host, "go");
    assert_eq!(result(&mut host)["result"], "moved on");
    assert_eq!(host.of_type("control_request").len(), 0);
    assert!(!host.home.project().join("a.txt").exists());
}

#[test]
fn a_key_appears_in_no_message() {
    let key = "AIzaSyD-very-secret-key-0123456789abcdefg";
    let home = home().env("GEMINI_API_KEY", key);
    let replies = [shell("echo $GEMINI_API_KEY; env"), says("done")];
    let mut host = start(home, &replies, &["--allowedTools", "Bash", "--include-hook-events"]);
    initialize(&mut host, Value::Null);
    say(&mut host, "go");
    result(&mut host);
    assert_eq!(end(&mut host), Some(0));
    assert!(host.log.iter().all(|message| !message.to_string().contains(key)));
    assert!(!host.stderr().contains(key));
}

#[test]
fn flags_that_cannot_be_honoured_are_refused_where_the_host_sees_it() {
    for args in [
        &["--disallowedTools", "Read(./secrets/**)"][..],
        &["--json-schema", "{}"],
        &["--settings", r#"{"hooks": {}}"#],
        &["--no-such-flag"],
    ] {
        let mut host = start(home(), &[], args);
        let refused = result(&mut host);
        assert_eq!(
            (&refused["subtype"], &refused["is_error"]),
            (&json!("error_during_execution"), &json!(true))
        );
        let why = refused["errors"][0].as_str().unwrap();
        assert!(why.contains(args[0].trim_start_matches('-')), "{why}");
        assert_eq!(host.end().0, Some(1));
        assert!(host.stderr().contains(why), "{}", host.stderr());
    }
}
