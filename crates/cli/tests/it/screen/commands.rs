//! Commands in terminals of their own: typing into them, moving them away, and what they show.

use std::fs;
use std::path::Path;

use pollux_test_support::{Screen, TestHome, reply};
use serde_json::json;

use super::{PLACEHOLDER, open, quit, shell};
use crate::scene::{Scene, until};

const HINT: &str = "Tab to type into the command";
const FOCUSED: &str = "Typing into the command (Shift+Tab to return)";
const SHELL_PLACEHOLDER: &str = "  Type your shell command";
const WAITS: &str = "while [ ! -e go.txt ]; do sleep 0.01; done";

/// Waits until the keyboard is the prompt's again.
fn rest(screen: &Screen) {
    screen.expect_gone("The command has ended; pause before you type");
}

/// The colour in which a line of output is shown.
fn colour(screen: &Screen, text: &str) -> Option<String> {
    screen.look(|seen| {
        let columns = seen.size().1;
        let rows: Vec<String> = seen.rows(0, columns).collect();
        let output = format!("│ {text}");
        let (row, line) = rows.iter().enumerate().find(|(_, row)| row.contains(&output))?;
        let column = line.get(..line.find(&output)?)?.chars().count() + 2;
        seen.cell(u16::try_from(row).ok()?, u16::try_from(column).ok()?)
            .map(|cell| format!("{:?}", cell.fgcolor()))
    })
}

#[test]
fn a_command_of_the_model_gets_an_answer() {
    let ask = shell("read -p 'Your name? ' name; echo \"hello, $name\"");
    let scene = Scene::new([ask, reply().text("greeted")]);
    let screen = open(&scene, &["--yolo"]);
    // The output and not the command, whose text has the question too.
    screen.say("greet").expect("│ Your name?").expect(HINT).key("Tab").expect(FOCUSED);
    screen.type_text("Ada").expect("Your name? Ada").key("Enter").expect("✦ greeted");
    rest(&screen);
    let text = quit(screen);
    assert!(text.contains("hello, Ada"), "{text}");
    let sent = scene.server.request(1).body.to_string();
    assert!(sent.contains(r"Your name? Ada\nhello, Ada"), "{sent}");
}

#[test]
fn the_keyboard_comes_back_and_a_prompt_can_be_written() {
    let scene = Scene::new([shell(WAITS), reply().text("done"), reply().text("seen")]);
    let screen = open(&scene, &["--yolo"]);
    screen.say("begin").expect(HINT).key("Tab").expect(FOCUSED);
    screen.key("Shift+Tab").expect_gone(FOCUSED).type_text("and then").expect("* and then").key("Tab");
    screen.expect("Queued until the turn ends");
    fs::write(scene.home.project().join("go.txt"), "").unwrap();
    screen.expect("✦ done").expect("✦ seen");
    quit(screen);
}

#[test]
fn a_password_is_kept_nowhere() {
    // The question is not in the command's own words, which are on the screen before it runs.
    let ask = shell("read -s -p 'Pass''word: ' p; echo; echo \"${#p} characters\"");
    let scene = Scene::new([ask, reply().text("thank you")]);
    let screen = open(&scene, &["--yolo"]);
    screen.say("sign in").expect("Password:").key("Tab").expect(FOCUSED);
    screen.type_text("hunter2-secret").key("Enter").expect("✦ thank you");
    rest(&screen);
    let raw = screen.stripped();
    let text = quit(screen);
    assert!(text.contains("14 characters"), "{text}");
    assert!(!raw.contains("hunter2") && !text.contains("hunter2"), "{text}");
    for request in scene.server.requests() {
        assert!(!request.body.to_string().contains("hunter2"));
    }
    assert!(!any_file_has(&scene.home.home(), "hunter2"));
}

fn any_file_has(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => any_file_has(&path, text),
            Ok(kind) if kind.is_file() => {
                let bytes = fs::read(&path).unwrap_or_default();
                bytes.windows(text.len()).any(|window| window == text.as_bytes())
            }
            _ => false,
        }
    })
}

#[test]
fn an_editor_opens_and_saves() {
    if !Path::new("/usr/bin/vim").exists() {
        return;
    }
    let scene = Scene::new([]);
    let screen = open(&scene, &[]);
    screen.key("!").expect(SHELL_PLACEHOLDER).say("vim -u NONE notes.txt").expect(FOCUSED).expect("~");
    screen.type_text("ifrom vim").expect("from vim").key("Esc");
    screen.type_text(":wq").expect(":wq").key("Enter").expect_gone(FOCUSED);
    until("the file", || scene.home.project().join("notes.txt").exists());
    assert_eq!(scene.home.read("notes.txt"), "from vim\n");
    rest(&screen);
    screen.key("Esc");
    quit(screen);
}

#[test]
fn a_pager_opens_and_quits() {
    if !Path::new("/usr/bin/less").exists() {
        return;
    }
    let lines: String = (1..=500).map(|number| format!("line {number}\n")).collect();
    let scene = Scene::with(TestHome::new().file("log.txt", &lines), []);
    let screen = open(&scene, &[]);
    screen.key("!").expect(SHELL_PLACEHOLDER).say("less log.txt").expect(FOCUSED).expect("line 10");
    screen.key("PageDown").expect("line 40").type_text("G").expect("line 500").type_text("q");
    screen.expect_gone("line 500").expect_gone(FOCUSED).expect(SHELL_PLACEHOLDER);
    rest(&screen);
    screen.key("Esc");
    quit(screen);
}

#[test]
fn a_command_is_moved_to_the_background_and_shown() {
    let scene = Scene::new([shell(&format!("echo started; {WAITS}; echo over")), reply().text("goes on")]);
    let screen = open(&scene, &["--yolo"]);
    screen.say("serve").expect("started").expect(HINT).key("Ctrl+B");
    screen.expect("Command moved to background").expect("✦ goes on").expect("1 in background");
    // While the turn runs, the key prints a list instead of opening one.
    screen.expect_gone("esc to cancel").key("Ctrl+B").expect("Background processes").expect("started");
    screen.key("Esc").expect(PLACEHOLDER);
    fs::write(scene.home.project().join("go.txt"), "").unwrap();
    screen.expect_gone("1 in background");
    screen.key("Ctrl+B").expect("No commands are running in the background.");
    quit(screen);
    assert!(scene.server.request(1).body.to_string().contains("Command moved to background (PID:"));
}

#[test]
fn colours_are_shown_to_the_person_and_not_sent_to_the_model() {
    let scene = Scene::new([shell("printf '\\033[31mwarm\\033[0m\\n'"), reply().text("seen")]);
    let screen = open(&scene, &["--yolo"]);
    screen.say("go").expect("✦ seen").expect("│ warm");
    assert_eq!(colour(&screen, "warm").as_deref(), Some("Idx(1)"), "{}", screen.text());
    quit(screen);
    let sent = scene.server.request(1).body.to_string();
    assert!(sent.contains(r"Output: warm\nProcess Group"), "{sent}");

    let home = TestHome::new().settings(json!({"tools": {"shell": {"showColor": false}}}));
    let scene = Scene::with(home, [shell("printf '\\033[31mwarm\\033[0m\\n'"), reply().text("seen")]);
    let screen = open(&scene, &["--yolo"]);
    screen.say("go").expect("✦ seen").expect("│ warm");
    assert_ne!(colour(&screen, "warm").as_deref(), Some("Idx(1)"));
    quit(screen);
}

#[test]
fn a_larger_window_makes_a_larger_terminal() {
    let command = "trap 'stty size; exit' WINCH; stty size; while :; do sleep 0.05; done";
    let scene = Scene::new([shell(command), reply().text("seen")]);
    let screen = open(&scene, &["--yolo"]);
    screen.say("go").expect("28 96").resize(120, 50);
    screen.expect("✦ seen").expect("38 116");
    quit(screen);
}

#[test]
fn a_hostile_command_controls_nothing() {
    let evil = r"printf '\033]0;evil\007\033]52;c;ZXZpbA==\007\033[2J\033[?1002h\033[c\033[6nshown\n'; sleep 0.2; read -t 0.2 x; echo over";
    let scene = Scene::new([shell(evil), reply().text("seen")]);
    let screen = open(&scene, &["--yolo"]);
    screen.say("go").expect("✦ seen").expect("shown");
    let raw = String::from_utf8_lossy(&screen.raw()).into_owned();
    for sequence in ["\u{1b}]0;evil", "\u{1b}]52;", "\u{1b}[2J", "\u{1b}[?1002h"] {
        assert!(!raw.contains(sequence), "{sequence:?}");
    }
    quit(screen);
}

#[test]
fn terminals_can_be_turned_off_and_headless_runs_have_none() {
    let test = || shell("test -t 0 -o -t 1 && echo terminal || echo no terminal");
    let home = TestHome::new().settings(json!({"tools": {"shell": {"enableInteractiveShell": false}}}));
    let scene = Scene::with(home, [test(), reply().text("seen")]);
    let screen = open(&scene, &["--yolo"]);
    screen.say("go").expect("✦ seen").expect("│ no terminal");
    quit(screen);

    let scene = Scene::new([test(), reply().text("seen"), test(), reply().text("seen")]);
    assert_eq!(scene.run(&["--yolo", "-p", "go"]).code, Some(0));
    assert!(scene.server.request(1).body.to_string().contains("Output: no terminal"));
    let screen = open(&scene, &["--yolo"]);
    screen.say("go").expect("✦ seen").expect("│ terminal");
    quit(screen);
}
