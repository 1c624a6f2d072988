//! Hooks that hang, flood, lie or vanish: the run stays bounded, decides rightly and says what was wrong.

use std::time::{Duration, Instant};

use pollux_test_support::{Run, TestHome, reply};
use serde_json::json;

use super::{World, hook, says, writes};
use crate::scene::Scene;

/// A run with one hook before a call that writes `a.txt`; whether the call ran.
fn with_guard(command: &str, timeout: u64) -> (World, Run, bool) {
    let hooks = json!({"BeforeTool": [{"name": "guard", "command": command, "timeout": timeout}]});
    let world = World::new(&hooks, &[writes("a.txt", "x"), says("Done.")]);
    let started = Instant::now();
    let run = world.fine(&["--yolo"]);
    assert!(started.elapsed() < Duration::from_secs(60), "{command}");
    assert_eq!(run.stdout, "Done.\n", "{command}: {}", run.stderr);
    let ran = world.read("a.txt") == "x";
    (world, run, ran)
}

/// Waits until a process has ended; until it is collected it may still be listed as dead.
fn gone(pid: &str) {
    assert!(pid.parse::<u32>().is_ok(), "{pid}");
    crate::scene::until("the process is gone", || {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        state.is_empty() || state.contains(") Z") || state.contains(") X")
    });
}

#[test]
fn a_hook_that_hangs_is_ended_at_its_time_and_the_call_goes_on() {
    let (world, run, ran) = with_guard("trap '' TERM; sleep 1000 & echo $! > child; wait; sleep 1000", 5000);
    assert!(ran);
    assert!(
        run.stderr.contains("[WARNING] Hook `guard` (BeforeTool) timed out after 5000ms and was killed"),
        "{}",
        run.stderr
    );
    let call = &world.hook_calls()[0];
    assert_eq!((&call["success"], &call["exit_code"]), (&json!(false), &json!(0)));
    assert!(call["error"].as_str().unwrap().contains("timed out after 5000ms"), "{call}");
    gone(world.read("child").trim());
}

#[test]
fn a_daemon_that_holds_the_pipes_does_not_hold_the_run() {
    let (_, run, ran) =
        with_guard("setsid sleep 30 & echo '{\"decision\": \"deny\", \"reason\": \"r\"}'", 20_000);
    assert!(!ran);
    assert!(run.stderr.contains("Tool execution blocked: r"), "{}", run.stderr);
}

#[test]
fn much_output_is_not_kept() {
    let flood = "head -c 100000000 /dev/zero";
    let (world, run, ran) = with_guard(&format!("{flood}; exit 2"), 60_000);
    assert!(!ran);
    assert!(run.stderr.len() < 200_000, "{}", run.stderr.len());
    let record = world.hook_calls()[0].to_string();
    assert!(record.len() < 400_000, "{}", record.len());
}

#[test]
fn what_is_no_json_is_text_and_the_exit_code_decides() {
    // command, whether the call runs, what is said
    for (command, runs, said) in [
        ("exit 0", true, ""),
        ("echo '{\"decision\": '", true, "Hook `guard` (BeforeTool) printed invalid JSON"),
        ("echo careful; exit 1", true, "Hook system message: Warning: careful"),
        ("exit 1", true, "Hook `guard` (BeforeTool) failed: exit code 1"),
        ("echo no; exit 2", false, "Tool execution blocked: no"),
        ("exit 2", false, "Tool execution blocked: No reason provided"),
        ("touch plain; ./plain", true, "COULD NOT BE RUN: its command is not executable (exit code 126)"),
        ("./gone.sh", true, "COULD NOT BE RUN: its command is not found (exit code 127)"),
        ("kill -9 $$", true, "Hook `guard` (BeforeTool) failed: killed by signal 9"),
        (
            "echo '{\"decision\": \"deny\", \"reason\": \"r\"}'; kill -9 $$",
            false,
            "Tool execution blocked: r",
        ),
    ] {
        let (_, run, ran) = with_guard(command, 20_000);
        assert_eq!(ran, runs, "{command}: {}", run.stderr);
        assert!(run.stderr.contains(said), "{command}: {}", run.stderr);
    }
}

#[test]
fn a_script_that_deletes_itself_decides_once_and_blocks_from_then_on() {
    let hooks = json!({"BeforeTool": hook("own", "bash own.sh")});
    let replies = [writes("a.txt", "x"), writes("b.txt", "x"), says("Done.")];
    let world = World::new(&hooks, &replies).file("own.sh", "rm -- \"$0\"\necho gone; exit 2\n");
    let run = world.fine(&["--yolo"]);
    assert_eq!((world.read("a.txt").as_str(), world.read("b.txt").as_str()), ("", ""));
    assert!(run.stderr.contains("Tool execution blocked: gone"), "{}", run.stderr);
    assert!(run.stderr.contains("`own.sh` changed in this session"), "{}", run.stderr);
}

#[test]
fn a_required_guard_that_cannot_run_forbids() {
    let hooks = json!({"BeforeTool": [{"name": "guard", "command": "./gone.sh", "required": true}]});
    let world = World::new(&hooks, &[writes("a.txt", "x"), says("Done.")]);
    let run = world.fine(&["--yolo"]);
    assert_eq!(world.read("a.txt"), "");
    assert!(
        run.stderr.contains("Tool execution blocked: The required hook `guard` COULD NOT BE RUN"),
        "{}",
        run.stderr
    );
}

#[test]
fn escape_sequences_reach_neither_the_terminal_nor_the_model() {
    let nasty = "printf '{\"systemMessage\": \"\\\\u001b[2Jclear\", \"hookSpecificOutput\": {\"additionalContext\": \"\\\\u001b]0;t\\\\u0007ctx\"}}'";
    let hooks = json!({"SessionStart": hook("n\u{1b}[31m", nasty), "BeforeTool": hook("g", "printf '\\033[31mred\\033]8;;http://x\\007'; exit 2")});
    let world = World::new(&hooks, &[writes("a.txt", "x"), says("Done.")]);
    for args in [&["--yolo"][..], &["--yolo", "-o", "stream-json"]] {
        let run = world.fine(args);
        assert!(!run.stderr.contains('\u{1b}') && !run.stdout.contains('\u{1b}'), "{:?}", run.stderr);
        assert!(run.stderr.contains("Hook system message: clear"), "{}", run.stderr);
        assert!(run.stderr.contains("Tool execution blocked: red"), "{}", run.stderr);
    }
    assert!(!world.last_request().contains("\\u001b") && world.last_request().contains("ctx"));
}

#[test]
fn cancelling_a_run_ends_its_hooks_and_says_goodbye_quickly() {
    let hooks = json!({
        "BeforeTool": hook("slow", "echo $$ > pid; sleep 1000"),
        "SessionEnd": hook("bye", "touch bye; sleep 1000"),
    });
    let world = World::new(&hooks, &[writes("a.txt", "x"), says("Never.")]);
    let args = ["-m", crate::scene::MODEL, "--fake-responses", "script.jsonl", "-p", "do it", "--yolo"];
    let running = world.home.command(crate::scene::binary(), args).spawn();
    crate::scene::until("the hook runs", || !world.read("pid").is_empty());
    let started = Instant::now();
    running.signal("INT");
    let run = running.wait();
    assert_eq!(run.code, Some(130), "{}", run.stderr);
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(!run.stderr.contains("Agent execution stopped"), "{}", run.stderr);
    assert_eq!(world.read("a.txt"), "");
    assert!(world.home.project().join("bye").exists());
    gone(world.read("pid").trim());
}

#[test]
fn hooks_get_no_credentials_and_the_documented_variables() {
    let hooks = json!({"SessionStart": hook("env", "env > seen.env; ls /proc/self/fd > fds")});
    let world = World::new(&hooks, &[says("Done.")]);
    world.fine(&[]);
    let seen = world.read("seen.env");
    let project = world.home.project().canonicalize().unwrap();
    for name in ["GEMINI_PROJECT_DIR", "GEMINI_CWD", "CLAUDE_PROJECT_DIR"] {
        assert!(seen.contains(&format!("{name}={}\n", project.display())), "{name} in {seen}");
    }
    assert!(seen.contains("GEMINI_SESSION_ID=") && seen.contains("GEMINI_PLANS_DIR="), "{seen}");
    assert!(!seen.contains("GEMINI_API_KEY"), "{seen}");
    assert!(world.read("fds").lines().count() <= 4, "nothing is inherited: {}", world.read("fds"));
}

#[test]
fn the_script_of_a_hook_runs_only_as_it_was_when_the_session_started() {
    let settings = json!({"hooks": {"BeforeTool": [{"name": "guard", "command": "sh scripts/guard"}]}});
    let evil = "touch owned";
    let write = json!({"file_path": "scripts/guard", "content": evil});
    let shell = json!({"command": format!("echo '{evil}' > scripts/guard")});
    for (mode, tool, args) in [("auto_edit", "write_file", &write), ("yolo", "run_shell_command", &shell)] {
        let home = TestHome::new().file(".gemini/settings.json", &settings.to_string());
        let home = home.file("scripts/guard", "exit 0\n");
        let replies = [
            reply().call(tool, args.clone()),
            reply().call("read_file", json!({"file_path": "scripts/guard"})),
            reply().text("ok"),
        ];
        let scene = Scene::with(home, replies);
        let run = scene.run(&["-p", "x", "--approval-mode", mode]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let project = scene.home.project();
        assert!(!project.join("owned").exists(), "{mode}");
        let text = std::fs::read_to_string(project.join("scripts/guard")).unwrap();
        let answer = scene.server.request(2).function_responses()[0]["response"].to_string();
        match mode {
            "auto_edit" => assert_eq!(text, "exit 0\n"),
            _ => assert!(
                text.contains(evil) && answer.contains("`scripts/guard` changed in this session"),
                "{answer}"
            ),
        }
    }
}
