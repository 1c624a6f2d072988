//! People at terminals: attaching, detaching, and being cut off.

use pollux_test_support::{Reply, Screen, TestHome, reply};
use rustix::process::Signal;
use serde_json::json;

use crate::scene::{MODEL, PLACEHOLDER, Scene, quiet, until};

fn shell(command: &str) -> Reply {
    reply().call("run_shell_command", json!({"command": command}))
}

fn detach(screen: &mut Screen) {
    screen.type_text("\u{1c}").expect("Press d to detach.").type_text("d");
    assert_eq!(screen.wait_exit().code(), Some(0), "{}", screen.text());
}

fn only_session(scene: &Scene) -> String {
    let all = scene.ps();
    assert_eq!(all.len(), 1, "{all:?}");
    all[0]["session"].as_str().unwrap().to_owned()
}

#[test]
fn a_session_goes_on_without_its_terminal() {
    let scene =
        Scene::new([reply().text("First."), shell("sleep 1; touch done.txt"), reply().text("Second.")]);
    let mut screen = scene.screen(&["--attach", "-m", MODEL, "--yolo", "--sandbox=false"]);
    screen.say("begin").expect("First.");
    let session = only_session(&scene);
    screen.say("go on").expect("sleep 1");
    screen.signal(Signal::KILL);
    screen.wait_exit();
    // A terminal of another size draws it all.
    let again = scene.prepare(&["attach"]).on_screen(70, 30);
    again.expect_anywhere("First.").expect_anywhere("> go on").expect("Second.");
    assert!(scene.home.project().join("done.txt").exists());
    drop(again);
    assert_eq!(only_session(&scene), session);
}

#[test]
fn a_person_detaches_and_comes_back() {
    let scene = Scene::new([reply().text("First."), reply().text("Second.")]);
    let mut screen = scene.screen(&["--attach", "-m", MODEL]);
    screen.say("begin").expect("First.").expect(PLACEHOLDER);
    detach(&mut screen);
    let session = only_session(&scene);
    assert!(screen.whole_text().contains(&format!("To attach again: pollux attach {session}")));
    let mut again = scene.screen(&["attach", &session]);
    again.expect("> begin").expect("First.").say("more").expect("Second.");
    again.expect(PLACEHOLDER).say("/quit");
    assert_eq!(again.wait_exit().code(), Some(0));
    assert_eq!(only_session(&scene), session);
}

#[test]
fn a_session_of_this_process_says_that_it_cannot_be_left_running() {
    let scene = Scene::new([]);
    let screen = scene.screen(&["-m", MODEL]);
    screen.expect(PLACEHOLDER).type_text("\u{1c}").expect("cannot detach: this session does not run");
    screen.type_text("d").expect("> d");
    assert!(scene.ps().is_empty());
}

#[test]
fn a_terminal_that_hangs_up_leaves_the_turn_running() {
    let scene = Scene::new([shell("sleep 1; touch done.txt"), reply().text("Done.")]);
    let mut screen = scene.screen(&["--attach", "-m", MODEL, "--yolo", "--sandbox=false"]);
    screen.say("go").expect("sleep 1");
    screen.signal(Signal::HUP);
    assert_eq!(screen.wait_exit().code(), Some(129));
    until("the turn to end", || scene.home.project().join("done.txt").exists());
    until("the session to be idle", || scene.ps().first().is_some_and(|session| session["state"] == "idle"));
}

#[test]
fn two_terminals_share_a_session_and_see_who_answered() {
    let scene = Scene::new([shell("touch made.txt"), reply().text("It is made.")]);
    let one = scene.screen(&["--attach", "-m", MODEL]);
    // The composer is there before the session is.
    until("the session", || scene.ps().len() == 1);
    let two = scene.screen(&["attach"]);
    one.say("make a file").expect("Allow execution of [Shell]?");
    two.expect("Prompt of tui:").expect("> make a file").expect("Allow execution of [Shell]?");
    two.key("1").key("Enter");
    one.expect("Approved by tui-2.").expect_gone("Allow execution of [Shell]?").expect("It is made.");
    two.expect("It is made.").expect(PLACEHOLDER);
    assert!(scene.home.project().join("made.txt").exists());
}

#[test]
fn commands_about_the_process_of_a_session_say_where_they_work() {
    let scene = Scene::new([reply().text("Hello.")]);
    let screen = scene.screen(&["--attach", "-m", MODEL]);
    screen.say("/tasks").expect("is not available in the core");
    screen.say("/mode plan").expect("Plan mode");
    screen.say("hello").expect("Hello.").expect(PLACEHOLDER).say("/clear").expect("New session.");
    until("the new session", || scene.ps().len() == 2);
}

#[test]
fn a_saved_conversation_is_shown_when_it_is_resumed() {
    let scene = Scene::new([reply().text("apples are red")]);
    let screen = scene.screen(&["--attach", "-m", MODEL]);
    screen.say("about apples").expect("✦ apples are red").expect(PLACEHOLDER);
    screen.say("/chat save fruit").expect("Conversation checkpoint saved with tag: fruit.");
    screen.say("/clear").expect_gone("apples are red").expect(PLACEHOLDER);
    screen.say("/chat resume fruit").expect("> about apples").expect("✦ apples are red");
    screen.expect("Resuming the conversation saved as fruit");
}

#[test]
fn the_settings_decide_where_interactive_sessions_run() {
    let with = |mode: &str| {
        let mut settings = quiet();
        settings["core"] = json!({"mode": mode});
        TestHome::new().settings(settings)
    };
    // `always` starts the core.
    let scene = Scene::cold(with("always"), []);
    let screen = scene.screen(&["-m", MODEL]);
    until("the session", || scene.ps().len() == 1);
    drop(screen);
    // `auto` uses the core only if it runs.
    let mut scene = Scene::cold(with("auto"), []);
    let screen = scene.screen(&["-m", MODEL]);
    assert_eq!(scene.run(&["ps"]).stdout, "The core is not running.\n");
    drop(screen);
    scene.start_core(&[]);
    let screen = scene.screen(&["-m", MODEL]);
    until("the session", || scene.ps().len() == 1);
    drop(screen);
    // A project does not decide.
    let home = TestHome::new().settings(quiet()).project_settings(json!({"core": {"mode": "always"}}));
    let scene = Scene::cold(home, []);
    let _screen = scene.screen(&["-m", MODEL]);
    assert_eq!(scene.run(&["ps"]).stdout, "The core is not running.\n");
}

#[test]
fn a_core_that_is_killed_sends_its_terminals_home() {
    let mut scene = Scene::new([reply().text("First.")]);
    let mut screen = scene.screen(&["--attach", "-m", MODEL]);
    screen.say("begin").expect("First.").expect(PLACEHOLDER);
    let session = only_session(&scene);
    scene.kill_core();
    screen.wait_exit();
    let text = screen.whole_text();
    assert!(
        text.contains("The core is no longer running.") && text.contains(&format!("pollux attach {session}")),
        "{text}"
    );
}
