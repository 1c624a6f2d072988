//! Questions that come up while somebody types, and what they say.

use std::fs;
use std::time::{Duration, Instant};

use pollux_test_support::{Reply, TestHome, reply};
use serde_json::json;

use super::{PLACEHOLDER, open, quit, shell};
use crate::scene::{MODEL, Scene, until};

#[test]
fn what_is_typed_for_the_next_prompt_answers_no_question() {
    for size in [(80, 24), (40, 20)] {
        let asks = shell("touch raced.txt").delay(Duration::from_millis(300));
        let scene = Scene::new([asks, reply().text("done"), reply().text("again done")]);
        let screen = scene.prepare(&["-m", MODEL]).on_screen(size.0, size.1);
        screen.expect(PLACEHOLDER).say("go");
        let mut typed = 0;
        let since = Instant::now();
        // Well past the moment at which the question appears.
        let (mut after, mut is_told) = (0, false);
        while after < 10 || !is_told {
            assert!(since.elapsed() < Duration::from_secs(60), "{}", screen.text());
            // Both at once, so that a machine that stalls makes no pause before the digit.
            screen.type_text("x1");
            typed += 1;
            std::thread::sleep(Duration::from_millis(30));
            let text = screen.text();
            after += usize::from(text.contains("Allow once"));
            // It is shown for 700 ms after the last key only, so a look after the loop could be too late.
            is_told |= text.contains("Typing continues below;");
        }
        screen.expect_gone("pause to answer");
        assert!(!scene.home.project().join("raced.txt").exists(), "{}", screen.text());
        let text = screen.text();
        let is_draft = |line: &&str| line.trim_start_matches('>').trim().chars().all(|c| "x1".contains(c));
        let draft: String =
            text.lines().skip_while(|line| !line.starts_with("> x1")).take_while(is_draft).collect();
        assert_eq!(draft.matches('1').count(), typed, "{text}");
        // After the pause it is answered by moving and Enter, and the draft is still there.
        screen.expect("Enter sends your text");
        screen.key("Down").key("Up").key("Enter").expect("✦ done");
        assert!(scene.home.project().join("raced.txt").exists());
        screen.key("Enter").expect("again done");
        assert_eq!(super::last(&scene, 2), "x1".repeat(typed));
        quit(screen);
    }
}

#[test]
fn a_resize_while_a_question_waits_loses_no_key() {
    let scene = Scene::new([shell("touch raced.txt"), reply().text("done")]);
    let screen = open(&scene, &[]);
    screen.say("go").type_text("a draft 1").expect("Allow once");
    // A letter that answers nothing begins a text, however long the pause before it was.
    screen.resize(40, 20).type_text("x1").resize(120, 30).expect("> a draft 1x1");
    assert!(!scene.home.project().join("raced.txt").exists());
    screen.key("Esc").expect("Request cancelled.").expect("> a draft 1x1");
    assert!(!scene.home.project().join("raced.txt").exists());
}

#[test]
fn a_command_that_destroys_says_what_and_enter_does_not_run_it() {
    let home = TestHome::new().file("build/out.txt", "precious");
    let scene = Scene::with(home, [shell("rm -rf build"), reply().text("gone")]);
    let screen = open(&scene, &[]);
    screen.say("clean up").expect("Deletes build and everything in it").expect("● 6. No");
    screen.key("Enter").expect("What to do instead?");
    assert!(scene.home.project().join("build/out.txt").exists());
    screen.key("Esc").expect("● 6. No").key("3").expect("● 6. No").key("y").expect("● 1. Allow once");
    assert!(scene.home.project().join("build/out.txt").exists());
    screen.key("Enter").expect("gone");
    assert!(!scene.home.project().join("build").exists());
    quit(screen);
}

#[test]
fn trust_is_not_preselected_where_something_would_run() {
    let hook =
        json!({"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "touch ran.txt"}]}]}});
    let home = TestHome::new()
        .settings(json!({"security": {"folderTrust": {"enabled": true}}}))
        .project_settings(hook);
    let scene = Scene::untrusted(home, []);
    let screen = scene.prepare(&["-m", MODEL]).on_screen(100, 60);
    screen.expect("Do you trust the files in this folder?").expect("● 3. Don't trust").key("Enter");
    screen.expect_gone("Do you trust");
    assert!(!scene.home.project().join("ran.txt").exists());
    quit(screen);
}

#[test]
fn paths_are_relative_in_questions_and_calls() {
    let home = TestHome::new().file("src/deep/cart.py", "old\n").file("real.txt", "x\n");
    let path = home.project().join("src/deep/cart.py");
    std::os::unix::fs::symlink(home.project().join("real.txt"), home.project().join("linked.txt")).unwrap();
    let write = |path: &str| reply().call("write_file", json!({"file_path": path, "content": "new\n"}));
    let replies = [
        reply().call("read_file", json!({"file_path": path.to_str().unwrap()})),
        write(path.to_str().unwrap()),
        write("linked.txt"),
        reply().text("done"),
    ];
    let scene = Scene::with(home, replies);
    let screen = open(&scene, &[]);
    screen.say("go").expect("Apply this change?").expect("ReadFile  src/deep/cart.py");
    screen.expect("? WriteFile  src/deep/cart.py").key("1");
    screen.expect("linked.txt → real.txt (link)").key("1").expect("✦ done");
    let text = quit(screen);
    let absolute = scene.home.project().join("src").to_str().unwrap().to_owned();
    assert!(!text.contains(&absolute), "{text}");
}

#[test]
fn escape_returns_the_queue_unsent() {
    let wait = "while [ ! -e go.txt ]; do sleep 0.01; done";
    let scene = Scene::new([shell(wait), reply().text("nothing more")]);
    let screen = open(&scene, &["--yolo"]);
    screen.say("begin").expect("esc to cancel").say("queued thing").expect("Sent with the next request");
    screen.type_text("draft").expect("* draft").key("Esc").expect("Request cancelled.");
    screen.expect("* queued thing").expect_gone("Sent with");
    assert_eq!(scene.server.requests().len(), 1);
    fs::write(scene.home.project().join("go.txt"), "").unwrap();

    // The same where Esc refuses a call. The model asks for it when the prompt is in the queue.
    let home = TestHome::new();
    let queued = home.home().join("queued.txt");
    let scene = Scene::with(home, [shell("touch made.txt").hold(0, &queued), reply().text("no")]);
    let screen = open(&scene, &[]);
    screen.say("begin").expect("esc to cancel").say("queued thing").expect("Sent with");
    fs::write(queued, "").unwrap();
    screen
        .expect("Allow once")
        .expect("Sent with")
        .key("Esc")
        .expect("Request cancelled.")
        .expect("> queued thing");
    assert_eq!(scene.server.requests().len(), 1);
}

#[test]
fn a_command_that_fails_has_a_cross_and_its_code() {
    let scene = Scene::new([shell("ls /nonexistent_dir; exit 7"), shell("kill -9 $$"), reply().text("done")]);
    let screen = open(&scene, &["--yolo", "--sandbox=false"]);
    screen.say("go").expect("✦ done");
    let text = quit(screen);
    let line =
        |command: &str| text.lines().find(|line| line.contains(command)).unwrap_or_default().to_owned();
    let first = line("Shell  ls /nonexistent_dir");
    assert!(first.contains("✕") && first.contains("exit 7"), "{text}");
    let second = line("Shell  kill -9");
    assert!(second.contains("✕") && second.contains("signal 9"), "{text}");
}

#[test]
fn yolo_is_confined_however_it_is_entered_and_the_footer_tells_the_truth() {
    let outside = || shell("touch inside.txt; touch $HOME/outside");
    let has_sandbox = {
        let scene = Scene::new([]);
        let screen = open(&scene, &["--yolo"]);
        screen.expect("andbox");
        let text = screen.text();
        quit(screen);
        text.contains("Sandbox (")
    };
    for enter in ["Ctrl+Y", "/mode yolo"] {
        let scene = Scene::new([outside(), reply().text("done")]);
        let screen = open(&scene, &[]);
        // Landlock is not used without a request.
        let has_default = !screen.expect("sandbox").text().contains("no sandbox");
        match enter {
            "Ctrl+Y" => screen.key(enter),
            command => screen.say(command),
        };
        screen.expect(if has_sandbox { "YOLO (Ctrl+Y to stop)" } else { "YOLO, no sandbox" });
        if has_sandbox {
            screen.expect_gone("no sandbox");
        }
        screen.say("go").expect("✦ done");
        assert!(scene.home.project().join("inside.txt").exists(), "{}", screen.text());
        assert_eq!(scene.home.home().join("outside").exists(), !has_sandbox, "{enter}\n{}", screen.text());
        screen.say("/about").expect("Approval mode: yolo");
        if has_default {
            screen.say("/sandbox").expect("Network: open");
            screen.say("/mode default").say("/sandbox").expect("Network: proxy");
        }
        quit(screen);
    }
    // Where it is switched off, both say so.
    let home = TestHome::new().settings(json!({"tools": {"sandbox": false}}));
    let scene = Scene::with(home, [outside(), reply().text("done")]);
    let screen = open(&scene, &[]);
    screen.key("Ctrl+Y").expect("YOLO, no sandbox (Ctrl+Y to stop)").say("go").expect("✦ done");
    assert!(scene.home.home().join("outside").exists());
    screen.say("/about").expect("Sandbox: no sandbox");
    quit(screen);
}

#[test]
fn a_session_is_named_by_itself_and_nothing_is_sent_before_a_prompt() {
    let scene = Scene::new([reply().text("one"), reply().text("two"), reply().text("three")]);
    let screen = open(&scene, &[]);
    screen.say("first").expect("✦ one").say("second").expect("✦ two");
    until("a title is asked for", || scene.server.titles().len() == 1);
    let asked = scene.server.titles()[0].clone();
    assert!(asked.path.contains(MODEL), "{}", asked.path);
    assert!(asked.body.to_string().contains("User: first"), "{:#}", asked.body);
    // The answer is on its way; the title is written when the session ends.
    screen.say("/stats").expect("Session Stats");
    screen.say("/privacy").expect("title");
    quit(screen);
    let before = (scene.server.requests().len(), scene.server.titles().len());
    // Another run sends nothing of it, whatever is typed that is no prompt.
    let screen = open(&scene, &[]);
    screen.say("/about").expect("Approval mode");
    quit(screen);
    assert_eq!((scene.server.requests().len(), scene.server.titles().len()), before);
}

#[test]
fn a_refused_change_can_be_read_again() {
    let edit = reply().call("write_file", json!({"file_path": "a.txt", "content": "new\n"}));
    let scene = Scene::with(TestHome::new().file("a.txt", "old\n"), [edit, reply().text("As you like.")]);
    let screen = open(&scene, &[]);
    screen.say("change it").expect("Apply this change?").expect("Type to write your next message");
    screen.expect("workspace (/directory)").key("n").key("Enter").expect("What to do instead?").say("no");
    screen.expect("As you like.").expect("Not applied: +1, -1 lines").expect_gone("+ new");
    screen.key("Ctrl+O").expect("- old").expect("+ new");
    quit(screen);
}

#[test]
fn a_cancelled_command_keeps_its_output() {
    let scene = Scene::new([shell("echo o''ne; sleep 60"), reply().text("never")]);
    let screen = open(&scene, &["--yolo"]);
    screen.say("go").expect("│ one").key("Esc").expect("Request cancelled.");
    let text = quit(screen);
    let (_, call) = text.split_once("-  Shell").unwrap();
    assert!(call.contains("│ one"), "{text}");
}

#[test]
fn a_refused_key_offers_auth_with_one_key() {
    let refused = Reply::error(401, "UNAUTHENTICATED", "API key not valid. Please pass a valid API key.");
    let scene = Scene::new([refused]);
    let screen = open(&scene, &[]);
    screen.say("go").expect("hint: /auth").expect("1. Change the key or the sign-in (/auth)");
    screen.expect("● 3. Close").key("1").expect("Use Gemini API Key");
}

#[test]
fn settings_have_titles_and_those_without_effect_are_apart() {
    let scene = Scene::new([]);
    let screen = open(&scene, &[]);
    screen.say("/settings").expect("Colour theme").expect("Vim mode").expect("Appearance");
    screen.type_text("devtools").expect("Compatibility (no effect)");
    // The first Esc empties the search.
    screen.key("Esc").expect("Colour theme").key("Esc").expect_gone("Colour theme");
    quit(screen);
}
