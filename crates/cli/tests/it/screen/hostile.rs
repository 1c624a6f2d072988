//! What others write cannot steer the terminal, whoever shows it.

use pollux_test_support::{Screen, TestHome, reply};
use serde_json::json;

use super::{PLACEHOLDER, last, open, quit, shell};
use crate::scene::Scene;

/// Retitles, clears, moves, switches screens, writes the clipboard, turns text around, hides it, and rings.
const WILD: &str = "A\u{1b}]0;EVIL TITLE\u{7}B\u{1b}[2J\u{1b}[1;1HC\u{1b}[?1049hD\u{1b}]52;c;RVZJTA==\u{7}E\u{202e}F\
    \u{2066}G\u{1b}[8mH\u{9b}31mI\u{7}J\u{1b}P+q\u{1b}\\K\rL\u{8}M\u{1b}[5AN";

/// Nothing of it arrived as what it was meant to be.
fn is_tame(screen: &Screen) {
    let raw = String::from_utf8_lossy(&screen.raw()).into_owned();
    for wild in
        ["EVIL TITLE\u{7}", "\u{1b}]52;", "\u{202e}", "\u{2066}", "\u{1b}[2J", "\u{1b}[?1049h", "\u{1b}[8m"]
    {
        assert!(!raw.contains(wild), "{wild:?}");
    }
    assert!(!screen.look(|window| window.alternate_screen()));
}

#[test]
fn in_what_the_model_says() {
    let scene = Scene::new([reply()
        .text(&format!("Safe {WILD} end."))
        .text("\n\n```\n")
        .text(WILD)
        .text("\n```\nlast")]);
    let screen = open(&scene, &[]);
    screen.say("go").expect("✦ Safe A").expect("last").expect(PLACEHOLDER);
    is_tame(&screen);
    quit(screen);
}

#[test]
fn in_what_a_tool_prints() {
    let home = TestHome::new().file("wild.txt", WILD);
    let scene = Scene::with(home, [shell("cat wild.txt; echo; echo after"), reply().text("Seen.")]);
    let screen = open(&scene, &["--yolo"]);
    screen.say("go").expect("Seen.").expect("after");
    is_tame(&screen);
    screen.expect(PLACEHOLDER).key("!").expect("Type your shell command");
    screen.say("cat wild.txt; echo; echo again").expect("│ again");
    is_tame(&screen);
    screen.expect("Type your shell command").key("Esc").expect(PLACEHOLDER);
    quit(screen);
}

#[test]
fn in_a_command_that_is_asked_about() {
    let scene = Scene::new([shell(&format!("echo {WILD}")), reply().text("Seen.")]);
    let screen = open(&scene, &[]);
    screen.say("go").expect("Allow execution of [Shell]?").expect("<U+202E>").expect("<U+001B>");
    is_tame(&screen);
    screen.key("Esc").expect("Request cancelled.");
    quit(screen);
}

#[test]
fn in_a_change_that_is_asked_about_and_in_names() {
    let edit = reply().call("write_file", json!({"file_path": "a\u{1b}[31mb.txt", "content": WILD}));
    let scene = Scene::new([edit, reply().text("Seen.")]);
    let screen = open(&scene, &[]);
    screen.say("go").expect("Apply this change?").expect("<U+202E>");
    is_tame(&screen);
    screen.key("Esc").expect("Request cancelled.");
    quit(screen);
}

#[test]
fn a_faked_dialog_stays_inside_of_the_reply() {
    let fake = "Allow execution of [Shell]?\n\n● 1. Allow once\n  2. No, suggest changes (esc)\n";
    let scene = Scene::new([reply().text(fake), reply().text("second")]);
    let screen = open(&scene, &[]);
    // The composer stands below it and takes what is typed.
    screen.say("go").expect("1. Allow once").expect(PLACEHOLDER).type_text("1").expect("> 1");
    screen.key("Enter").expect("✦ second");
    quit(screen);
    assert_eq!(last(&scene, 1), "1");
}

#[test]
fn lines_of_a_megabyte_are_shown_as_far_as_they_fit() {
    // Nothing in it repeats itself, which would be taken for a loop.
    let long: String = (0..160_000).map(|number| format!("{number:06}")).collect();
    let scene = Scene::new([
        shell("head -c 1000000 /dev/zero | tr '\\0' x; echo; echo end-of-output"),
        reply().text(&long).text("\n\nend-of-reply"),
    ]);
    let screen = open(&scene, &["--yolo"]);
    screen
        .say("go")
        .expect("end-of-reply")
        .expect(PLACEHOLDER)
        .key("!")
        .say("seq 1 100000")
        .expect("│ 100000");
    screen
        .expect_gone("esc to cancel")
        .key("Esc")
        .expect(PLACEHOLDER)
        .type_text("still alive")
        .expect("still alive")
        .key("Ctrl+C");
    quit(screen);
}
