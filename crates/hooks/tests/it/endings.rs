//! Every way in which a hook can end or misbehave.

use std::time::{Duration, Instant};

use pollux_hooks::{BeforeToolOutcome, CallVerdict, Fired, HookEnding};
use serde_json::json;

use crate::scene::{World, call};

fn blocked(reason: &str) -> CallVerdict {
    CallVerdict::Block { reason: reason.to_owned() }
}

fn ending(fired: &Fired<BeforeToolOutcome>) -> &HookEnding {
    &fired.runs[0].ending
}

#[tokio::test]
async fn exit_codes_decide() {
    for (command, verdict, message, warning) in [
        ("exit 0", CallVerdict::Proceed, None, None),
        ("echo fine", CallVerdict::Proceed, Some("fine"), None),
        ("echo careful >&2; exit 1", CallVerdict::Proceed, Some("Warning: careful"), None),
        ("exit 1", CallVerdict::Proceed, None, Some("Hook `h` (BeforeTool) failed: exit code 1")),
        ("echo not this; exit 2", blocked("not this"), None, None),
        ("echo why >&2; exit 2", blocked("why"), None, None),
        ("exit 2", blocked("No reason provided"), None, None),
        ("echo '{\"decision\":\"allow\"}'; exit 2", blocked("No reason provided"), None, None),
        ("echo odd; exit 7", CallVerdict::Proceed, Some("Warning: odd"), None),
        ("kill -9 $$", CallVerdict::Proceed, None, Some("Hook `h` (BeforeTool) failed: killed by signal 9")),
    ] {
        let fired = World::of_command(command).await;
        assert_eq!(fired.outcome.verdict, verdict, "{command}");
        assert_eq!(fired.system_message.as_deref(), message, "{command}");
        assert_eq!(fired.warnings.first().map(String::as_str), warning, "{command}");
    }
}

#[tokio::test]
async fn a_command_that_cannot_run_warns_loudly() {
    let fired = World::of_command("./gone.sh").await;
    assert_eq!((ending(&fired), &fired.outcome.verdict), (&HookEnding::Exited(127), &CallVerdict::Proceed));
    assert!(fired.warnings[0].contains("COULD NOT BE RUN: its command is not found"), "{:?}", fired.warnings);
    let fired = World::of_command("touch plain; ./plain").await;
    assert_eq!(ending(&fired), &HookEnding::Exited(126));
    assert!(fired.warnings[0].contains("not executable"), "{:?}", fired.warnings);
}

#[tokio::test]
async fn a_failing_required_hook_denies() {
    for command in
        ["./gone.sh", "exit 1", "kill -9 $$", "echo '{\"decision\": de'", "echo '{\"decision\": \"reject\"}'"]
    {
        let world = World::new(&json!({"BeforeTool": [{"name": "h", "command": command, "required": true}]}));
        let fired = world.fire(call()).await;
        let CallVerdict::Block { reason } = &fired.outcome.verdict else { panic!("{command}: {fired:?}") };
        assert!(reason.starts_with("The required hook `h` "), "{reason}");
    }
}

#[tokio::test]
async fn a_hanging_hook_is_killed_with_its_children_at_the_timeout() {
    let world = World::new(&json!({"BeforeTool": [
        {"name": "h", "command": "trap '' TERM; sleep 1000 & echo $! > child; wait; sleep 1000", "timeout": 5000},
    ]}));
    let started = Instant::now();
    let fired = world.fire(call()).await;
    assert!(started.elapsed() < Duration::from_secs(60));
    assert_eq!(ending(&fired), &HookEnding::TimedOut { after_ms: 5000 });
    assert_eq!(fired.outcome.verdict, CallVerdict::Proceed);
    assert!(fired.warnings[0].contains("timed out after 5000ms"), "{:?}", fired.warnings);
    gone(world.read("child").trim()).await;
}

#[tokio::test]
async fn a_daemon_holding_the_pipes_does_not_block() {
    let started = Instant::now();
    let fired = World::of_command("setsid sleep 20 & echo '{\"decision\":\"deny\",\"reason\":\"r\"}'").await;
    assert!(started.elapsed() < Duration::from_secs(15));
    assert_eq!(fired.outcome.verdict, blocked("r"));
    let world = World::new(&json!({"BeforeTool": [{"command": "sleep 1000 & echo $! > child"}]}));
    world.fire(call()).await;
    gone(world.read("child").trim()).await;
}

#[tokio::test]
async fn excess_output_is_dropped_and_the_exit_code_still_counts() {
    let fired = World::of_command("head -c 50000000 /dev/zero | tr '\\0' y; exit 2").await;
    let CallVerdict::Block { reason } = &fired.outcome.verdict else { panic!() };
    assert!(reason.len() < 20_000 && reason.contains("[cut: "), "{}", reason.len());
    assert!(fired.runs[0].stdout.len() < 70_000);
    let fired =
        World::of_command("head -c 50000000 /dev/zero | tr '\\0' y >&2; echo '{\"decision\":\"ask\"}'").await;
    assert_eq!(fired.outcome.verdict, CallVerdict::Ask { message: None });
}

#[tokio::test]
async fn a_truncated_answer_does_not_let_a_call_pass() {
    let fired = World::of_command(
        "printf '{\"reason\":\"'; head -c 9000000 /dev/zero | tr '\\0' y; printf '\",\"decision\":\"deny\"}'",
    )
    .await;
    assert_eq!(fired.outcome.verdict, blocked("the hook's output is too long"));
}

#[tokio::test]
async fn malformed_output_does_no_harm() {
    let fired = World::of_command("printf '\\033[2J\\033]0;x\\007bad\\r\\377'").await;
    assert_eq!(fired.system_message.as_deref(), Some("bad\u{fffd}"));
    let fired =
        World::of_command("echo '{\"decision\":\"deny\",\"reason\":\"\\u001b[31mred\\u202e\"}'").await;
    assert_eq!(fired.outcome.verdict, blocked("red"));
    let deep = format!("printf '%s' '{}'", "[".repeat(100_000));
    assert_eq!(World::of_command(&deep).await.outcome.verdict, CallVerdict::Proceed);
}

/// A world with a hook `./own.sh`, which is this script.
fn with_script(event: &str, script: &str) -> World {
    World::prepared(&json!({event: [{"name": "h", "command": "./own.sh"}]}), &[], |root| {
        pollux_test_support::executable(root.join("own.sh"), script);
    })
}

#[tokio::test]
async fn a_script_may_delete_itself_and_ignore_its_input() {
    let world = with_script("BeforeTool", "#!/bin/sh\nrm -- \"$0\"\nexec <&-\necho gone; exit 2\n");
    let mut big = call();
    big.tool_input.insert("x".into(), json!("y".repeat(1 << 20)));
    assert_eq!(world.fire(big.clone()).await.outcome.verdict, blocked("gone"));
    let CallVerdict::Block { reason } = world.fire(big).await.outcome.verdict else { panic!("it proceeded") };
    assert!(reason.contains("`own.sh` changed in this session"), "{reason}");
}

#[tokio::test]
async fn a_script_that_changed_in_the_session_does_not_run_and_guards_no_less() {
    let world = with_script("BeforeTool", "#!/bin/sh\necho no; exit 2\n");
    assert_eq!(world.fire(call()).await.outcome.verdict, blocked("no"));
    let script = world.scene.cwd.join("own.sh");
    pollux_test_support::executable(&script, "#!/bin/sh\ntouch ran\n");
    let fired = world.fire(call()).await;
    let CallVerdict::Block { reason } = &fired.outcome.verdict else { panic!("it proceeded") };
    assert!(reason.contains("`own.sh` changed in this session; restart Pollux"), "{reason}");
    assert!(matches!(ending(&fired), HookEnding::NotStarted(_)) && !world.scene.cwd.join("ran").exists());
    // What was there before may run.
    pollux_test_support::executable(&script, "#!/bin/sh\necho no; exit 2\n");
    assert_eq!(world.fire(call()).await.outcome.verdict, blocked("no"));
}

#[tokio::test]
async fn cancelling_the_turn_ends_the_hook_and_stops() {
    let world = World::new(&json!({"BeforeTool": [{"command": "echo $$ > pid; sleep 1000"}]}));
    let cancel = world.cancel.clone();
    let pid = world.scene.cwd.join("pid");
    let cancelling = async {
        while std::fs::read_to_string(&pid).unwrap_or_default().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
    };
    let (fired, ()) = tokio::join!(world.fire(call()), cancelling);
    assert_eq!(ending(&fired), &HookEnding::Cancelled);
    assert_eq!(fired.outcome.verdict, CallVerdict::Stop { reason: "The turn was cancelled.".into() });
    gone(world.read("pid").trim()).await;
    assert_eq!(ending(&world.fire(call()).await), &HookEnding::Cancelled);
}

#[tokio::test]
async fn a_missing_folder_is_reported() {
    let mut world = World::new(&json!({"BeforeTool": [{"name": "h", "command": "true"}]}));
    world.scene.cwd = world.folder.path().join("nowhere");
    let fired = world.fire(call()).await;
    assert!(fired.warnings[0].contains("could not be started: folder `"), "{:?}", fired.warnings);
}

/// Waits until a process has ended; until it is collected it may still be listed as dead.
async fn gone(pid: &str) {
    assert!(pid.parse::<u32>().is_ok(), "{pid}");
    for _ in 0..1000 {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if state.is_empty() || state.contains(") Z") || state.contains(") X") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("process {pid} is still running");
}
