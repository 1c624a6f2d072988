//! A terminal inside of an editor: the companion extension, its open files and its diff view.

use std::fs;

use pollux_test_support::{FakeCompanion, Screen, TestHome, reply};
use serde_json::{Value, json};

use crate::scene::{MODEL, Scene, parse};

const PLACEHOLDER: &str = "  Type your message or @path/to/file";

/// An editor that has the project open, and a scene whose runs find it.
fn editor(
    home: TestHome,
    replies: impl IntoIterator<Item = pollux_test_support::Reply>,
) -> (FakeCompanion, Scene) {
    let project = fs::canonicalize(home.project()).unwrap();
    let files = json!([
        {"path": project.join("a.txt"), "timestamp": 2, "isActive": true, "cursor": {"line": 1, "character": 2},
         "selectedText": "old"},
        {"path": project.join("secret.txt"), "timestamp": 1},
        {"path": "/etc/passwd", "timestamp": 1},
    ]);
    let editor = FakeCompanion::start(files);
    let temp = home.home().join("editor-temp");
    editor.advertise(&temp, &project);
    let home = home.env("TMPDIR", temp.to_str().unwrap()).env("TERM_PROGRAM", "vscode");
    (editor, Scene::with(home, replies))
}

fn project() -> TestHome {
    TestHome::new().file("a.txt", "old\n").file("secret.txt", "s").file(".geminiignore", "secret.txt\n")
}

fn connected(more: Value) -> TestHome {
    let mut settings = json!({"ide": {"enabled": true}});
    settings.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    project().settings(settings)
}

fn open(scene: &Scene) -> Screen {
    let screen = scene.prepare(&["-m", MODEL]).on_screen(120, 40);
    screen.expect(PLACEHOLDER);
    screen
}

/// All texts of a request.
fn texts(scene: &Scene, request: usize) -> String {
    scene.server.request(request).body["contents"].to_string()
}

#[test]
fn plain_lines_tell_the_model_of_open_files_while_the_editor_is_connected() {
    let replies = ["one", "two", "three"].map(|text| reply().text(text));
    let (editor, scene) = editor(project(), replies);
    let mut terminal = scene.prepare(&["-m", MODEL]).env("TERM", "dumb").on_terminal();
    terminal.expect("User: ").say("/ide").expect("Not connected: /ide enable connects to the editor.");
    terminal
        .expect("User: ")
        .say("/ide install")
        .expect("--install-extension google.gemini-cli-vscode-ide-companion");
    terminal.expect("User: ").say("first").expect("one");
    terminal.expect("User: ").say("/ide enable").expect("Connected to VS Code.");
    // On a busy machine the files come later.
    while !terminal.expect("User: ").text().contains("a.txt (active)") {
        terminal.say("/ide status").expect("Connected to VS Code.");
    }
    terminal.say("second").expect("two");
    terminal.expect("User: ").say("/ide disable").expect("Disconnected from the editor.");
    terminal.expect("User: ").say("third").expect("three").expect("User: ").say("/quit");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains("secret.txt") && !screen.contains("passwd"), "{screen}");

    assert!(!texts(&scene, 0).contains("editor context"));
    let second = texts(&scene, 1);
    assert!(
        second.contains("Here is the user's editor context") && second.contains("selectedText"),
        "{second}"
    );
    assert!(!second.contains("secret.txt") && !second.contains("passwd"), "{second}");
    assert_eq!(texts(&scene, 2).matches("editor context").count(), 1, "nothing new was said");
    let settings = parse(&fs::read_to_string(scene.home.gemini_dir().join("settings.json")).unwrap());
    assert_eq!(settings["ide"]["enabled"], json!(false));
    assert_eq!(editor.refused(), 0);
}

#[test]
fn a_change_is_accepted_in_the_editor_with_edits() {
    let edit = |text: &str| reply().call("write_file", json!({"file_path": "a.txt", "content": text}));
    let replies = [edit("new\n"), reply().text("First done."), edit("newer\n"), reply().text("Second done.")];
    let (editor, scene) = editor(connected(json!({})), replies);
    let file = fs::canonicalize(scene.home.project()).unwrap().join("a.txt");
    let screen = open(&scene);
    screen.expect("VS Code (1 file)");
    screen.say("change it").expect("Apply this change?");
    let asked = editor.wait_for_calls("openDiff", 1);
    assert_eq!(asked, json!({"filePath": file, "newContent": "new\n"}));
    editor.accept(&file, "new, edited\n");
    screen.expect("First done.").expect_gone("Apply this change?");
    assert_eq!(scene.home.read("a.txt"), "new, edited\n");

    // The terminal answers first.
    screen.say("again").expect("Apply this change?");
    editor.wait_for_calls("openDiff", 2);
    screen.key("y").key("Enter").expect("Second done.");
    editor.wait_for_calls("closeDiff", 1);
    assert_eq!(scene.home.read("a.txt"), "newer\n");

    // What the editor says now is too late.
    editor.accept(&file, "late\n");
    screen.say("/quit");
    let mut screen = screen;
    assert_eq!(screen.wait_exit().code(), Some(0), "{}", screen.text());
    assert_eq!(scene.home.read("a.txt"), "newer\n");
}

#[test]
fn the_terminal_asks_alone_when_the_editor_is_closed() {
    let edit = reply().call("write_file", json!({"file_path": "a.txt", "content": "new\n"}));
    let (editor, scene) = editor(connected(json!({})), [edit, reply().text("Done.")]);
    let mut screen = open(&scene);
    screen.expect("VS Code (1 file)").say("change it").expect("Apply this change?");
    editor.wait_for_calls("openDiff", 1);
    drop(editor);
    screen.expect_gone("VS Code (1 file)").expect("Apply this change?");
    screen.key("y").key("Enter").expect("Done.").say("/quit");
    assert_eq!(screen.wait_exit().code(), Some(0), "{}", screen.text());
    assert_eq!(scene.home.read("a.txt"), "new\n");
}

#[test]
fn the_connection_is_suggested_once() {
    let (_editor, scene) = editor(project(), []);
    let mut screen = scene.prepare(&["-m", MODEL]).on_screen(120, 40);
    screen.expect("Connect VS Code to Pollux?").key("1").key("Enter").expect("VS Code (1 file)");
    screen.say("/quit");
    assert_eq!(screen.wait_exit().code(), Some(0), "{}", screen.text());
    let settings = parse(&fs::read_to_string(scene.home.gemini_dir().join("settings.json")).unwrap());
    assert_eq!(settings["ide"], json!({"hasSeenNudge": true, "enabled": true}));

    let (_editor, scene) = editor(project().settings(json!({"ide": {"hasSeenNudge": true}})), []);
    let mut screen = open(&scene);
    assert!(!screen.text().contains("Connect VS Code"), "{}", screen.text());
    screen.say("/quit");
    assert_eq!(screen.wait_exit().code(), Some(0));
}
