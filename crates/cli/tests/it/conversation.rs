//! A person at a terminal: prompts, approvals, questions, modes.

use std::fs;
use std::time::Duration;

use pollux_test_support::{TestHome, reply};
use serde_json::json;

use crate::scene::{MODEL, Scene};

fn at_terminal(scene: &Scene, args: &[&str]) -> pollux_test_support::Terminal {
    let args: Vec<&str> = ["-m", MODEL].into_iter().chain(args.iter().copied()).collect();
    scene.prepare(&args).on_terminal()
}

#[test]
fn a_command_is_shown_explained_and_run_only_after_a_yes() {
    let scene = Scene::new([
        reply().call("run_shell_command", json!({"command": "touch made.txt"})),
        reply().text("It is made."),
    ]);
    let mut terminal = at_terminal(&scene, &[]);
    terminal.expect("User: ").say("make a file").expect("wants to run").expect("touch made.txt");
    terminal.expect("1. Yes, this once").expect("Answer").say("?").expect("write.toml").expect("Answer");
    assert!(!scene.home.project().join("made.txt").exists());
    terminal.say("1").expect("Ran touch made.txt").expect("It is made.").expect("User: ").say("/quit");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("To resume this session: pollux --resume "), "{screen}");
    assert!(scene.home.project().join("made.txt").exists());
}

#[test]
fn no_with_words_goes_to_the_model_and_no_alone_ends_the_turn() {
    let scene = Scene::new([
        reply().call("run_shell_command", json!({"command": "touch made.txt"})),
        reply().call("run_shell_command", json!({"command": "touch made.txt"})),
    ]);
    let mut terminal = at_terminal(&scene, &[]);
    terminal.expect("User: ").say("go").expect("Answer").say("n").expect("instead").say("use write_file");
    terminal
        .expect("Did not run touch made.txt: refused")
        .expect("Answer")
        .say("n")
        .expect("instead")
        .say("")
        .expect("Request cancelled.")
        .expect("User: ");
    terminal.say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    let answer = scene.server.request(1).body.to_string();
    assert!(answer.contains("User denied execution. use write_file"), "{answer}");
    assert_eq!(scene.server.requests().len(), 2);
    assert!(!scene.home.project().join("made.txt").exists());
}

#[test]
fn ctrl_c_discards_a_draft_and_does_not_leave() {
    let scene = Scene::new([]);
    let mut terminal = at_terminal(&scene, &[]);
    terminal.expect("User: ").type_text("half a thought").interrupt();
    terminal.expect("Press Ctrl+C again to exit.").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    assert!(scene.server.requests().is_empty());
}

#[test]
fn mcp_shows_what_a_server_said_before_it_failed() {
    let script = "echo first >&2; echo 'cannot bind, key is hunter22' >&2; exit 3";
    let server = json!({"command": "sh", "args": ["-c", script], "env": {"API_KEY": "hunter22"}});
    let home = TestHome::new().settings(json!({"mcpServers": {"dead": server}}));
    let scene = Scene::with(home, []);
    let mut terminal = at_terminal(&scene, &[]);
    terminal.expect("MCP issues detected").say("/mcp").expect("✗ dead: ").expect("    first");
    terminal.expect("    cannot bind, key is ***").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn a_line_typed_before_the_question_is_not_its_answer() {
    let scene = Scene::new([
        reply().call("run_shell_command", json!({"command": "touch made.txt"})),
        reply().text("first done"),
        reply().text("second done"),
    ]);
    let mut terminal = at_terminal(&scene, &[]);
    // Both lines are there before the model says anything.
    terminal.expect("User: ").say("go\n1").expect("Answer").say("n").expect("instead").say("not now");
    terminal.expect("first done").expect("second done").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    assert!(!scene.home.project().join("made.txt").exists());
}

#[test]
fn an_edit_is_shown_as_a_diff_and_for_the_session_means_auto_edit() {
    let write = |name: &str| reply().call("write_file", json!({"file_path": name, "content": "new\n"}));
    let home = TestHome::new().file("a.txt", "old\n");
    let scene = Scene::with(home, [write("a.txt"), write("b.txt"), reply().text("done")]);
    let mut terminal = at_terminal(&scene, &["-i", "edit them"]);
    terminal.expect("wants to edit").expect("-old").expect("+new").expect("auto_edit mode").expect("Answer");
    terminal
        .say("2")
        .expect("Mode auto_edit")
        .expect("done")
        .expect("User: ")
        .say("/mode")
        .expect("Mode auto_edit");
    terminal.say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(fs::read_to_string(scene.home.project().join("b.txt")).unwrap(), "new\n");
}

#[test]
fn saved_answers_hold_in_the_next_conversation_and_in_headless_runs() {
    let home = TestHome::new().settings(json!({"security": {"enablePermanentToolApproval": true}}));
    let touch = || reply().call("run_shell_command", json!({"command": "touch made.txt"}));
    let scene = Scene::with(home, [touch(), reply().text("one"), touch(), reply().text("two")]);
    let mut terminal = at_terminal(&scene, &["-i", "go"]);
    terminal
        .expect("for all future sessions: commands that begin with `touch")
        .expect("Answer")
        .say("4")
        .expect("one");
    terminal.expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    let saved = fs::read_to_string(scene.home.gemini_dir().join("policies/auto-saved.toml")).unwrap();
    assert!(saved.contains("commandPrefix = [\"touch\"]"), "{saved}");
    fs::remove_file(scene.home.project().join("made.txt")).unwrap();
    let run = scene.run(&["-p", "again"]);
    assert_eq!((run.stdout.as_str(), run.code), ("two\n", Some(0)), "{}", run.stderr);
    assert!(scene.home.project().join("made.txt").exists());
}

#[test]
fn invisible_characters_in_a_command_are_made_visible() {
    let command = "echo hi \u{202e}txt.exe # \u{1b}]0;title\u{7}";
    let scene =
        Scene::new([reply().call("run_shell_command", json!({"command": command})), reply().text("ok")]);
    let mut terminal = at_terminal(&scene, &["-i", "go"]);
    terminal.expect("wants to run").expect("<U+202E>").expect("Answer").say("n").expect("instead").say("");
    terminal.expect("User: ").say("/quit");
    let (_, screen) = terminal.end();
    assert!(!screen.contains('\u{202e}') && !screen.contains("\u{1b}]0;"), "{screen:?}");
}

#[test]
fn questions_of_the_model_are_answered_by_number_or_words() {
    let ask = json!({"questions": [
        {"question": "Which colour?", "header": "Colour", "type": "choice",
         "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]},
        {"question": "Why?", "header": "Reason", "type": "text"},
    ]});
    let scene = Scene::new([reply().call("ask_user", ask), reply().text("thanks")]);
    let mut terminal = at_terminal(&scene, &["-i", "go"]);
    terminal
        .expect("Which colour?")
        .expect("own text): ")
        .say("2")
        .expect("Why?")
        .expect("Answer: ")
        .say("the sky");
    terminal.expect("thanks").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    let answer = scene.server.request(1).body.to_string();
    assert!(answer.contains(r#"{\"answers\":{\"0\":\"Blue\",\"1\":\"the sky\"}}"#), "{answer}");
}

#[test]
fn a_folder_without_trust_offers_only_this_once_and_no_privileged_mode() {
    let home = TestHome::new().settings(json!({"security": {"enablePermanentToolApproval": true}}));
    let scene = Scene::untrusted(
        home,
        [reply().call("run_shell_command", json!({"command": "touch made.txt"})), reply().text("ok")],
    );
    let mut terminal = at_terminal(&scene, &[]);
    terminal.expect("Do you trust the files in this folder?").expect("Answer").say("3");
    terminal
        .expect("User: ")
        .say("/mode yolo")
        .expect("untrusted folder")
        .expect("User: ")
        .say("go")
        .expect("wants to run");
    terminal.expect("1. Yes, this once\n  5. Edit the command\n  6. No").expect("Answer").say("6");
    terminal.expect("instead").say("").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
}

/// A project whose settings would run something.
fn project_with_hook(command: &str) -> TestHome {
    let hook = json!({"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": command}]}]}});
    TestHome::new().project_settings(hook).file("GEMINI.md", "PROJECT RULE")
}

#[test]
fn a_folder_that_nobody_decided_on_is_asked_about_with_what_it_would_run() {
    let scene = Scene::untrusted(project_with_hook("touch hooked.txt"), [reply().text("one")]);
    let mut terminal = at_terminal(&scene, &[]);
    terminal.expect("Do you trust").expect("It would run").expect("touch hooked.txt").expect("Answer");
    terminal
        .say("1")
        .expect("Mode default")
        .expect("User: ")
        .say("go")
        .expect("one")
        .expect("User: ")
        .say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    assert!(scene.server.request(0).body.to_string().contains("PROJECT RULE"));
}

#[test]
fn a_trusted_folder_that_changed_is_asked_about_again_with_the_difference() {
    let scene = Scene::untrusted(project_with_hook("echo tame"), [reply().text("one"), reply().text("two")]);
    assert_eq!(scene.prepare(&["trust", "allow", "--yes"]).run().code, Some(0));
    let settings = scene.home.project().join(".gemini/settings.json");
    let wild = fs::read_to_string(&settings).unwrap().replace("tame", "wild");
    fs::write(&settings, wild).unwrap();
    let mut terminal = at_terminal(&scene, &[]);
    terminal.expect("Do you trust").expect("Changes:").expect("tame").expect("wild").expect("Answer");
    terminal
        .say("")
        .expect("changed since it was trusted")
        .expect("User: ")
        .say("go")
        .expect("one")
        .expect("User: ");
    terminal.say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    assert!(!scene.server.request(0).body.to_string().contains("PROJECT RULE"));
}

/// A terminal that vanishes is the end of the input: the program goes, also in the middle of a command.
#[test]
fn lines_end_with_their_input() {
    for first in [None, Some("!echo begun; sleep 600")] {
        let scene = Scene::new([]);
        let mut terminal = at_terminal(&scene, &[]);
        terminal.expect("User: ");
        if let Some(command) = first {
            terminal.say(command).expect("\nbegun");
        }
        terminal.end_of_input();
        assert_eq!(terminal.end().0, Some(0), "{first:?}");
    }
}

#[test]
fn a_line_that_was_begun_before_the_question_is_not_its_answer() {
    let scene = Scene::new([
        reply().call("run_shell_command", json!({"command": "touch made.txt"})).delay(Duration::from_secs(1)),
        reply().text("first done"),
        reply().text("second done"),
    ]);
    let mut terminal = at_terminal(&scene, &[]);
    // A yes that is not sent yet when the question comes; it is typed together with the prompt, so never after it.
    terminal.expect("User: ").type_text("go\ny").expect("Answer").type_text("es\n");
    terminal.expect("Answer with a number").say("n").expect("instead").say("not now").expect("first done");
    terminal.expect("User: y").type_text("our turn\n").expect("second done").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    assert!(!scene.home.project().join("made.txt").exists());
    assert!(scene.server.request(2).body.to_string().contains("your turn"));
}

#[test]
fn lines_say_who_speaks_what_was_done_and_what_would_be_lost() {
    let home = TestHome::new().file("src/cart.py", "x\n").file("build/a", "");
    let path = home.project().join("src/cart.py");
    let scene = Scene::with(
        home,
        [
            reply().text("I look.").call("read_file", json!({"file_path": path.to_str().unwrap()})),
            reply().call("run_shell_command", json!({"command": "rm -rf build"})),
            reply().call("run_shell_command", json!({"command": "cat nothing.txt"})),
            reply().text("That is all."),
        ],
    );
    let mut terminal = at_terminal(&scene, &[]);
    terminal.expect("User: ").say("go").expect("Model: I look.").expect("Read src/cart.py");
    terminal.expect("wants to run, in the workspace").expect("Warning: Deletes build and everything in it");
    terminal.expect("1. ").expect("6. No").expect("Answer").say("");
    terminal.expect("Answer with a number").say("leave it alone").expect("Did not run rm -rf build: refused");
    terminal
        .expect("Ran cat nothing.txt: failed (exit 1)")
        .expect("Model: That is all.")
        .expect("User: ")
        .say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    assert!(scene.home.project().join("build/a").exists());
    assert!(scene.server.request(2).body.to_string().contains("leave it alone"));
}

#[test]
fn whoever_stops_a_turn_sends_nothing() {
    let wait = "while [ ! -e go.txt ]; do sleep 0.01; done";
    let scene = Scene::new([reply().call("run_shell_command", json!({"command": wait})), reply().text("no")]);
    let mut terminal = at_terminal(&scene, &["--yolo", "--sandbox=false"]);
    terminal.expect("Mode yolo, no sandbox").expect("User: ").say("go").say("and then");
    crate::scene::until("the command is asked for", || scene.server.requests().len() == 1);
    terminal
        .interrupt()
        .expect("Request cancelled.")
        .expect("Not sent: and then")
        .expect("User: ")
        .say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(scene.server.requests().len(), 1);
    std::fs::write(scene.home.project().join("go.txt"), "").unwrap();
}
