//! Windows of all sizes, terminals of all kinds, and the scripts that read them.

use pollux_test_support::{Screen, TestHome, reply};
use serde_json::json;

use super::{PLACEHOLDER, last, open, quit, shell};
use crate::scene::{MODEL, Scene};

/// Runs as upstream's own end-to-end tests start a program.
fn rig(scene: &Scene) -> Screen {
    scene.prepare(&["-m", MODEL]).env("TERM", "xterm-color").on_screen(80, 80)
}

#[test]
fn a_script_reads_every_letter_of_what_it_types_in_the_stream() {
    let home = TestHome::new().settings(json!({"ui": {"useAlternateBuffer": true}}));
    let scene = Scene::with(home, [shell("touch made.txt"), reply().text("All done")]);
    let mut screen = rig(&scene);
    screen.expect_raw(PLACEHOLDER);
    let mut typed = String::new();
    for letter in "make a file, please".chars() {
        typed.push(letter);
        screen.type_text(&letter.to_string()).expect_raw(&typed);
    }
    screen.key("Enter").expect_raw("Allow").key("y").key("Enter").expect_raw("All done");
    assert!(scene.home.project().join("made.txt").exists());
    screen.key("Ctrl+C").expect_raw("Press Ctrl+C again to exit").key("Ctrl+C");
    screen.expect_raw("Agent powering down. Goodbye!");
    assert_eq!(screen.wait_exit().code(), Some(0));
}

#[test]
fn the_alternate_buffer_is_left_as_it_was_entered() {
    let home = TestHome::new().settings(json!({"ui": {"useAlternateBuffer": true}}));
    let scene = Scene::with(home, [reply().text("one")]);
    let screen = open(&scene, &[]);
    assert!(screen.look(vt100_alternate));
    screen.say("go").expect("✦ one").say("/quit");
    let mut screen = screen;
    assert_eq!(screen.wait_exit().code(), Some(0));
    assert!(!screen.look(vt100_alternate));
    assert!(!screen.look(|window| window.hide_cursor() || window.bracketed_paste()));
}

fn vt100_alternate(window: &pollux_test_support::Window) -> bool {
    window.alternate_screen()
}

#[test]
fn the_usual_screen_keeps_everything_in_the_terminals_own_scrollback() {
    let long: String = (0..200).map(|number| format!("line {number:03}\n\n")).collect();
    let scene = Scene::new([reply().text(&long)]);
    let screen = open(&scene, &[]);
    screen.say("go").expect("line 199");
    let text = quit(screen);
    let mut from = 0;
    for number in 0..200 {
        let line = format!("line {number:03}");
        assert_eq!(text.matches(&line).count(), 1, "{line} in\n{text}");
        let at = text.find(&line).unwrap();
        assert!(at >= from, "{line} is out of order");
        from = at;
    }
}

#[test]
fn a_window_of_one_cell_is_survived() {
    let scene =
        Scene::new([shell("echo hi"), reply().text("# Big\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- 漢字")]);
    let screen = open(&scene, &["--yolo"]);
    screen.type_text("go").expect("* go").resize(1, 1).key("Enter");
    crate::scene::until("the model was asked twice", || scene.server.requests().len() == 2);
    screen.key("Up").key("Down").key("Shift+Tab").paste("a\nb\nc");
    // What was painted in one column stays there, and wide characters do not fit.
    scene.server.push([reply().text("Still here.")]);
    screen.resize(100, 40).expect("workspace").key("Enter").expect("Still here.");
    assert!(scene.session().to_string().contains("漢字"), "nothing is lost in the session");
    let text = quit(screen);
    assert!(!text.contains("panicked"), "{text}");
}

#[test]
fn a_start_in_a_window_of_one_cell_is_survived() {
    let scene = Scene::new([]);
    let mut screen = scene.prepare(&["-m", MODEL]).on_screen(1, 1);
    screen.expect_bytes(b"\x1b[?2004h").key("Ctrl+D").key("Ctrl+D");
    assert_eq!(screen.wait_exit().code(), Some(0));
}

#[test]
fn resizing_while_the_model_writes_loses_nothing() {
    let chunks = (0..120).map(|number| format!("word{number:03} "));
    let streaming = chunks.fold(reply(), |reply, chunk| reply.text(&chunk));
    let scene = Scene::new([streaming.pause(std::time::Duration::from_millis(5))]);
    let screen = open(&scene, &[]);
    screen.say("go").expect("word003");
    for (columns, rows) in [(60, 20), (120, 50), (33, 12), (100, 40)] {
        screen.resize(columns, rows);
    }
    screen.expect("word119").expect(PLACEHOLDER);
    let text = quit(screen);
    for number in 0..120 {
        assert!(text.contains(&format!("word{number:03}")), "{number} in\n{text}");
    }
}

#[test]
fn without_colours_there_are_none() {
    let code = "```rust\nfn main() {}\n```\n\n# Title\n\nIt is **bold**.";
    let scene = Scene::new([shell("touch made.txt; printf '\\033[31mred\\033[0m'"), reply().text(code)]);
    let screen = scene.prepare(&["-m", MODEL]).env("NO_COLOR", "1").on_screen(100, 40);
    screen.expect(PLACEHOLDER).say("go").expect("Allow once").key("Enter").expect("fn main()");
    let colours = coloured(&screen.raw());
    assert!(colours.is_empty(), "{colours:?}");
    quit(screen);
}

/// The sequences that set a colour.
fn coloured(raw: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(raw).into_owned();
    let sequences = text.split("\x1b[").skip(1).filter_map(|rest| rest.split_once('m'));
    sequences
        .map(|(numbers, _)| numbers)
        .filter(|numbers| numbers.chars().all(|sign| sign.is_ascii_digit() || sign == ';'))
        .filter(|numbers| {
            numbers.split(';').any(|number| {
                matches!(number.parse::<u16>().unwrap_or(0), 30..=38 | 40..=48 | 90..=97 | 100..=107)
            })
        })
        .map(str::to_owned)
        .collect()
}

#[test]
fn with_colours_there_are_some() {
    let scene = Scene::new([reply().text("It is `code`.")]);
    let screen = open(&scene, &[]);
    screen.say("go").expect("It is code.");
    assert!(!coloured(&screen.raw()).is_empty());
    quit(screen);
}

#[test]
fn for_a_screen_reader_nothing_is_drawn() {
    let scene = Scene::new([shell("touch made.txt"), reply().text("It is made.")]);
    let mut screen = scene.prepare(&["-m", MODEL, "--screen-reader"]).on_screen(100, 40);
    screen.expect("User: ").type_text("make a file\r").expect("1. ").type_text("1\r").expect("It is made.");
    screen.type_text("/quit\r");
    assert_eq!(screen.wait_exit().code(), Some(0));
    let text = screen.stripped();
    let drawn = |sign: char| matches!(sign, '\u{2500}'..='\u{259f}' | '\u{2800}'..='\u{28ff}');
    assert!(!text.contains(drawn), "{text}");
    assert!(!String::from_utf8_lossy(&screen.raw()).contains("\x1b["), "{text}");
}

#[test]
fn wide_and_joined_letters_are_typed_and_taken_back_whole() {
    let scene = Scene::new([reply().text("ok")]);
    let screen = open(&scene, &[]);
    screen
        .type_text("漢字👩‍👩‍👧é")
        .expect("漢字")
        .key("Backspace")
        .key("Backspace")
        .type_text("!")
        .expect("漢字!");
    screen.key("Enter").expect("✦ ok");
    quit(screen);
    assert_eq!(last(&scene, 0), "漢字!");
}

#[test]
fn a_large_paste_is_folded_and_sent_whole() {
    let scene = Scene::new([reply().text("read")]);
    let screen = open(&scene, &[]);
    let pasted: String = (1..=12).map(|number| format!("pasted {number}\n")).collect();
    screen.paste(pasted.trim_end()).expect("[Pasted Text: 12 lines]").key("Enter").expect("✦ read");
    quit(screen);
    assert!(last(&scene, 0).ends_with("pasted 11\npasted 12"));
}

#[test]
fn a_question_mark_shows_the_keys_that_matter_and_shortcuts_only_what_works() {
    let scene = Scene::new([]);
    let screen = open(&scene, &[]);
    screen.key("?").expect("Shift+Tab").expect("Esc Esc").expect("/shortcuts lists all keys");
    assert!(!screen.text().contains("One character left"), "{}", screen.text());
    screen.key("?").expect_gone("/shortcuts lists all keys").say("/shortcuts").expect("Suspend the program");
    let text = quit(screen);
    for dead in ["Push to talk", "Install or update the extension", "F12", "Copy mode"] {
        assert!(!text.contains(dead), "{dead} in\n{text}");
    }
}

#[test]
fn a_script_at_the_alternate_screen_finds_a_carriage_return() {
    let home = TestHome::new().settings(json!({"ui": {"useAlternateBuffer": true}}));
    let scene = Scene::with(home, [reply().text("All done")]);
    let screen = rig(&scene);
    screen.expect_raw(PLACEHOLDER).type_text("go").expect_raw("go");
    let before = screen.raw().len();
    screen.key("Enter").expect_raw("All done");
    assert!(screen.raw()[before..].contains(&b'\r'));
    screen.key("Ctrl+C").key("Ctrl+C");
}

#[test]
fn nothing_in_the_scrollback_fills_a_row_and_changes_are_red_and_green() {
    let home = TestHome::new().file("a.txt", "let total = price;\n");
    let change = json!({"file_path": "a.txt", "content": "let total = price + tax;\n"});
    let scene = Scene::with(home, [reply().call("write_file", change), shell("seq 3"), reply().text("done")]);
    let screen = open(&scene, &["--approval-mode", "auto_edit"]);
    screen.say("go").expect("✦ done").expect("+ let total = price + tax;");
    let raw = String::from_utf8_lossy(&screen.raw()).into_owned();
    // The background of the added line, and the stronger one of its new words.
    assert!(raw.contains("48;2;18;51;31") && raw.contains("48;2;50;105;68"), "{raw:?}");
    assert!(raw.contains("48;2;69;29;34"), "{raw:?}");
    let text = quit(screen);
    let (above, _) = text.split_once("Agent powering down").unwrap();
    let (_, talk) = above.split_once("▌> go").unwrap();
    let (talk, _) = talk.split_once("✦ done").unwrap();
    assert!(!talk.contains("▄") && !talk.contains("───"), "{talk}");
}
