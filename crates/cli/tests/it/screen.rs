//! Whole journeys of a person at the screen, read through a terminal emulator.

#[path = "screen/commands.rs"]
mod commands;
#[path = "screen/conveniences.rs"]
mod conveniences;
#[path = "screen/ends.rs"]
mod ends;
#[path = "screen/first_start.rs"]
mod first_start;
#[path = "screen/hostile.rs"]
mod hostile;
#[path = "screen/looks.rs"]
mod looks;
#[path = "screen/past.rs"]
mod past;
#[path = "screen/questions.rs"]
mod questions;

use std::fs;

use pollux_test_support::{Reply, Screen, TestHome, executable, reply};
use serde_json::json;

use crate::rewind::state_folders;
use crate::scene::{MODEL, Scene, until};

/// What stands in an empty composer.
const PLACEHOLDER: &str = "  Type your message or @path/to/file";

/// The program in a window of usual size, ready for a prompt.
fn open(scene: &Scene, args: &[&str]) -> Screen {
    let args: Vec<&str> = ["-m", MODEL].into_iter().chain(args.iter().copied()).collect();
    let screen = scene.prepare(&args).on_screen(100, 40);
    screen.expect(PLACEHOLDER);
    screen
}

fn shell(command: &str) -> Reply {
    reply().call("run_shell_command", json!({"command": command}))
}

/// The last text of a request.
fn last(scene: &Scene, request: usize) -> String {
    scene.server.request(request).last_texts().last().cloned().unwrap_or_default()
}

/// Leaves in order; the screen is then whole.
fn quit(mut screen: Screen) -> String {
    screen.expect(PLACEHOLDER).say("/quit");
    let status = screen.wait_exit();
    assert_eq!(status.code(), Some(0), "{}", screen.text());
    screen.whole_text()
}

#[test]
fn a_task_with_a_command_that_is_allowed_once() {
    let scene = Scene::new([shell("touch made.txt"), reply().text("It is **made**.")]);
    let screen = open(&scene, &[]);
    screen.say("make a file").expect("Allow execution of [Shell]?").expect("touch made.txt");
    screen.expect("● 1. Allow once").expect("No, suggest changes (esc)");
    assert!(!scene.home.project().join("made.txt").exists());
    screen.key("?").expect("Why: ").key("y").key("Enter").expect("✦ It is made.");
    assert!(scene.home.project().join("made.txt").exists());
    let text = quit(screen);
    assert!(text.contains("> make a file") && text.contains("✓"), "{text}");
}

#[test]
fn a_refused_edit_with_words_for_the_model() {
    let edit = reply().call("write_file", json!({"file_path": "a.txt", "content": "new\n"}));
    let scene = Scene::with(TestHome::new().file("a.txt", "old\n"), [edit, reply().text("As you like.")]);
    let screen = open(&scene, &[]);
    screen.say("change it").expect("Apply this change?").expect("- old").expect("+ new");
    screen.key("n").key("Enter").expect("What to do instead?").say("leave it alone");
    screen.expect("As you like.");
    quit(screen);
    assert_eq!(scene.home.read("a.txt"), "old\n");
    assert!(scene.server.request(1).body.to_string().contains("leave it alone"));
}

#[test]
fn a_change_is_edited_before_it_is_applied() {
    let home = TestHome::new().file("a.txt", "old\n");
    let editor = home.home().join("editor.sh");
    executable(&editor, "#!/bin/sh\nprintf 'mine\\n' > \"$1\"\n");
    let home = home.env("VISUAL", editor.to_str().unwrap());
    let edit = reply().call("write_file", json!({"file_path": "a.txt", "content": "new\n"}));
    let scene = Scene::with(home, [edit, reply().text("So be it.")]);
    let screen = open(&scene, &[]);
    screen.say("change it").expect("Apply this change?").expect("Modify with external editor");
    let number = screen.text().lines().find_map(|line| {
        let (before, _) = line.split_once(". Modify with external editor")?;
        before.split_whitespace().last().map(str::to_owned)
    });
    screen.key(&number.unwrap()).expect("+ mine").key("Enter").expect("So be it.");
    quit(screen);
    assert_eq!(scene.home.read("a.txt"), "mine\n");
}

#[test]
fn the_composers_editor_gives_its_text_back() {
    let home = TestHome::new();
    let editor = home.home().join("editor.sh");
    executable(&editor, "#!/bin/sh\nprintf 'written elsewhere\\n' > \"$1\"\n");
    let scene = Scene::with(home.env("VISUAL", editor.to_str().unwrap()), [reply().text("read")]);
    let screen = open(&scene, &[]);
    // From then on it knows its machine.
    screen
        .expect("Authenticated with")
        .key("Ctrl+G")
        .expect("> written elsewhere")
        .key("Enter")
        .expect("✦ read");
    quit(screen);
    assert_eq!(last(&scene, 0), "written elsewhere");
}

#[test]
fn a_persons_own_commands_and_shell_mode() {
    let scene = Scene::new([reply().text("I saw it.")]);
    let screen = open(&scene, &[]);
    screen.key("!").expect("shell mode enabled (esc to disable)").expect("  Type your shell command");
    screen.say("echo o''ne").expect("$ echo o''ne").expect("one").say("echo t''wo").expect("two");
    screen
        .expect("  Type your shell command")
        .key("Esc")
        .expect_gone("shell mode enabled")
        .say("what was it?")
        .expect("I saw it.");
    quit(screen);
    let sent = scene.server.request(0).body.to_string();
    assert!(sent.contains("I ran the following shell command:") && sent.contains("two"), "{sent}");
}

#[test]
fn what_is_typed_ahead_waits_its_turn_and_can_be_taken_back() {
    let marker = "while [ ! -e go.txt ]; do sleep 0.01; done";
    let scene = Scene::new([shell(marker), reply().text("first done"), reply().text("second done")]);
    let screen = open(&scene, &["--yolo"]);
    screen.say("begin").expect("esc to cancel").type_text("and then").expect("* and then").key("Tab");
    screen.expect("Queued until the turn ends (press ↑ to edit):");
    screen.key("Up").expect_gone("Queued").expect("* and then").key("Tab").expect("Queued");
    fs::write(scene.home.project().join("go.txt"), "").unwrap();
    screen.expect("first done").expect("second done");
    quit(screen);
    assert_eq!(last(&scene, 2), "and then");
}

#[test]
fn what_is_sent_while_the_model_works_joins_its_turn() {
    let marker = "while [ ! -e go.txt ]; do sleep 0.01; done";
    let second = marker.replace("go.txt", "on.txt");
    let scene =
        Scene::new([shell(marker), shell(&second), reply().text("with tabs"), reply().text("with spaces")]);
    fs::write(scene.home.project().join("notes.txt"), "the notes").unwrap();
    let screen = open(&scene, &["--yolo"]);
    screen.say("begin").expect("esc to cancel").say("and spaces");
    screen.expect("Sent with the next request (press ↑ to edit):");
    // What is taken back is not sent, and Tab sends it later.
    screen
        .key("Up")
        .expect_gone("Sent with")
        .expect("* and spaces")
        .key("Tab")
        .expect("Queued until the turn ends");
    screen.say("use tabs, see @notes.txt please").expect("Sent with the next request");
    screen.say("and @gone.txt").expect("`@gone.txt` in the prompt was not read");
    // A program that is killed now loses none of them.
    let log = || fs::read_to_string(state_folders(&scene, "logs.json").pop().unwrap()).unwrap();
    let waiting = ["and spaces", "use tabs, see @notes.txt please", "and @gone.txt"];
    until("what waits is logged", || waiting.iter().all(|text| log().contains(text)));
    fs::write(scene.home.project().join("go.txt"), "").unwrap();
    // It goes with the next request that the session makes; until then the turn lasts.
    screen.expect_gone("Sent with").expect_anywhere("> use tabs, see @notes.txt please");
    fs::write(scene.home.project().join("on.txt"), "").unwrap();
    screen.expect("with tabs").expect("with spaces");
    quit(screen);
    let sent = scene.server.request(2).body.to_string();
    assert!(
        sent.contains("use tabs") && sent.contains("the notes") && !sent.contains("and spaces"),
        "{sent}"
    );
    assert_eq!(last(&scene, 3), "and spaces");
    // Each text is in the history once, also the one that was taken back and sent later.
    let log = log();
    for text in waiting {
        assert_eq!(log.matches(&format!("\"message\": \"{text}\"")).count(), 1, "{text}: {log}");
    }
}

#[test]
fn ctrl_c_stops_then_clears_then_leaves() {
    let scene = Scene::new([reply().text("Begun").text("more").stall_after(1)]);
    let mut screen = open(&scene, &[]);
    screen.say("go").expect("Begun").key("Ctrl+C").expect("Request cancelled.").expect(PLACEHOLDER);
    screen.type_text("half a").expect("half a").key("Ctrl+C").expect_gone("> half a");
    screen.key("Ctrl+C").expect("Press Ctrl+C again to exit.").key("Ctrl+C");
    assert_eq!(screen.wait_exit().code(), Some(0), "{}", screen.text());
}

#[test]
fn escape_stops_a_turn_and_the_session_goes_on() {
    let scene = Scene::new([Reply::never(), reply().text("still here")]);
    let screen = open(&scene, &[]);
    screen.say("go").expect("esc to cancel");
    until("the request arrived", || !scene.server.requests().is_empty());
    screen.key("Esc").expect("Request cancelled.").say("again").expect("still here");
    quit(screen);
}

#[test]
fn leaving_says_what_was_done_and_how_to_come_back() {
    let scene = Scene::new([shell("true"), reply().text("done").usage(120, 30)]);
    let screen = open(&scene, &["--yolo"]);
    screen.say("go").expect("✦ done");
    let text = quit(screen);
    for words in ["Agent powering down. Goodbye!", "Session ID:", "Tool Calls:", "Wall Time:", "--resume "] {
        assert!(text.contains(words), "no {words} in:\n{text}");
    }
}

#[test]
fn a_folder_that_nobody_decided_on_is_asked_about() {
    let hook =
        json!({"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "touch hooked.txt"}]}]}});
    let home = TestHome::new().project_settings(hook).file("GEMINI.md", "PROJECT RULE");
    let scene = Scene::untrusted(home, [reply().text("one")]);
    let screen = scene.prepare(&["-m", MODEL]).on_screen(100, 40);
    screen.expect("Do you trust the files in this folder?").expect("touch hooked.txt");
    screen.expect("Trust folder (project)").expect("Don't trust");
    assert!(!scene.home.project().join("hooked.txt").exists());
    screen.key("1").expect(PLACEHOLDER).say("go").expect("✦ one");
    quit(screen);
    assert!(scene.home.project().join("hooked.txt").exists());
    assert!(scene.server.request(0).body.to_string().contains("PROJECT RULE"));
}
