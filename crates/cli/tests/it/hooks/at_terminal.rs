//! Hooks of a conversation at a terminal.

use serde_json::{Value, json};

use super::{World, answers, calls, hook, says, writes};
use crate::scene::{MODEL, binary};

fn open(world: &World, more: &[&str]) -> pollux_test_support::Terminal {
    let args: Vec<&str> =
        ["-m", MODEL, "--fake-responses", "script.jsonl"].into_iter().chain(more.iter().copied()).collect();
    world.home.command(binary(), args).on_terminal()
}

#[test]
fn a_hook_makes_somebody_be_asked_even_in_yolo_and_is_heard() {
    let hooks = json!({"BeforeTool": answers("ask.json"), "Notification": hook("bell", "cat >> bell.jsonl; echo >> bell.jsonl")});
    let replies =
        [calls("run_shell_command", json!({"command": "touch made.txt && ls"})), says("It is made.")];
    let world = World::new(&hooks, &replies).file(
        "ask.json",
        json!({"decision": "ask", "systemMessage": "A shell, really?", "suppressOutput": true}),
    );
    let mut terminal = open(&world, &["--yolo", "--sandbox=false"]);
    terminal
        .expect("User: ")
        .say("go")
        .expect("[h] A shell, really?")
        .expect("wants to run")
        .expect("touch made.txt");
    terminal
        .expect("1. Yes, this once")
        .expect("Answer")
        .say("?")
        .expect("A hook requires your approval: A shell, really?");
    assert!(!world.home.project().join("made.txt").exists());
    terminal.expect("Answer").say("1").expect("It is made.").expect("User: ").say("/quit");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains("for the rest of this session"), "a hook asks anew each time: {screen}");
    assert!(world.home.project().join("made.txt").exists());
    let bell = world.lines("bell.jsonl");
    assert_eq!(bell.len(), 1);
    assert_eq!(
        (&bell[0]["notification_type"], &bell[0]["message"]),
        (&json!("ToolPermission"), &json!("Tool Confirm Shell Command requires execution"))
    );
    assert_eq!(bell[0]["details"]["rootCommand"], "touch, ls");
}

#[test]
fn a_notification_shows_the_change_that_somebody_is_asked_about() {
    let world = World::new(
        &json!({"Notification": hook("bell", "cat > bell.jsonl")}),
        &[writes("a.txt", "new\n"), says("Done.")],
    );
    let mut terminal = open(&world, &[]);
    terminal
        .expect("User: ")
        .say("go")
        .expect("wants to edit")
        .expect("Answer")
        .say("1")
        .expect("Done.")
        .expect("User: ")
        .say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    let bell = &world.lines("bell.jsonl")[0];
    assert_eq!(bell["message"], "Tool Confirm Write: a.txt requires editing");
    let keys: Vec<&str> = crate::scene::keys(&bell["details"]);
    assert_eq!(
        keys,
        ["type", "title", "fileName", "filePath", "fileDiff", "originalContent", "newContent", "isModifying"]
    );
    assert_eq!((&bell["details"]["type"], &bell["details"]["newContent"]), (&json!("edit"), &json!("new\n")));
}

#[test]
fn clearing_ends_one_session_and_begins_another() {
    let watch = |event: &str| {
        let command = format!("cat >> in.jsonl; echo >> in.jsonl; echo Seen at {event}.");
        (event.to_owned(), hook("w", &command))
    };
    let hooks: Value = Value::Object([watch("SessionStart"), watch("SessionEnd")].into_iter().collect());
    let world = World::new(&hooks, &[says("One."), says("Two.")]);
    let mut terminal = open(&world, &[]);
    terminal
        .expect("[w] Seen at SessionStart.")
        .expect("User: ")
        .say("go")
        .expect("One.")
        .expect("User: ")
        .say("/clear");
    terminal.expect("[w] Seen at SessionEnd.").expect("New session.").expect("[w] Seen at SessionStart.");
    terminal.expect("User: ").say("go").expect("User: ").say("/quit").expect("[w] Seen at SessionEnd.");
    assert_eq!(terminal.end().0, Some(0));
    let inputs = world.lines("in.jsonl");
    let seen: Vec<(&str, &str)> = inputs
        .iter()
        .map(|i| {
            (i["hook_event_name"].as_str().unwrap(), i["source"].as_str().or(i["reason"].as_str()).unwrap())
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("SessionStart", "startup"),
            ("SessionEnd", "clear"),
            ("SessionStart", "clear"),
            ("SessionEnd", "exit")
        ]
    );
    assert_ne!(inputs[0]["session_id"], inputs[2]["session_id"]);
    assert_eq!(inputs[0]["session_id"], inputs[1]["session_id"]);
}

#[test]
fn compressing_by_hand_is_announced_as_manual() {
    let words: Vec<String> = (1..3000u64).map(|n| (n * 7919).to_string()).collect();
    let unary = json!({"method": "generateContent", "response": {"candidates": [{"content": {"role": "model", "parts":
        [{"text": "<state_snapshot><overall_goal>g</overall_goal></state_snapshot>"}]}, "finishReason": "STOP"}]}});
    let world = World::new(&json!({"PreCompress": hook("pre", "cat > in.jsonl; echo Shorter now.")}), &[]);
    let script = [crate::scene::scripted(&says(&words.join(" "))), unary.to_string()].concat();
    let world = world.file("script.jsonl", script);
    let mut terminal = open(&world, &[]);
    terminal.expect("User: ").say("go").expect("User: ").say("/compress").expect("[pre] Shorter now.");
    terminal.expect("Chat history compressed").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(world.lines("in.jsonl")[0]["trigger"], "manual");
}

#[test]
fn a_slow_farewell_is_cut_short_by_ctrl_c() {
    let world = World::new(&json!({"SessionEnd": hook("bye", "touch bye; sleep 1000")}), &[]);
    let mut terminal = open(&world, &[]);
    terminal.expect("User: ").say("/quit").expect("Waiting for the SessionEnd hooks...").interrupt();
    assert_eq!(terminal.end().0, Some(0));
    assert!(world.home.project().join("bye").exists());
}

#[test]
fn blocks_and_cleared_context_are_said_at_the_terminal() {
    let hooks = json!({"BeforeAgent": hook("no-prod", "if grep -q production; then echo Not on production. >&2; exit 2; fi")});
    let world = World::new(&hooks, &[says("Fine.")]);
    let mut terminal = open(&world, &[]);
    terminal.expect("User: ").say("drop production").expect("Agent execution blocked: Not on production.");
    terminal.expect("User: ").say("go").expect("Fine.").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    assert!(!world.last_request().contains("drop production"), "{}", world.last_request());
}

#[test]
fn hooks_are_listed_and_switched_in_a_conversation() {
    let world = World::new(&json!({"BeforeTool": hook("guard", "exit 2")}), &[]);
    let mut terminal = open(&world, &[]);
    terminal.expect("User: ").say("/hooks").expect("guard [enabled]").expect("User: ").say("/hooks disable");
    terminal.expect("Usage: /hooks disable <hook-name>").expect("User: ").say("/hooks disable guard");
    terminal.expect("Hook \"guard\" disabled").expect("applies to new sessions").expect("User: ");
    terminal.say("/hooks").expect("guard [disabled]").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
}
