//! Going back: to another session, and within one.

use pollux_test_support::{TestHome, reply};
use serde_json::json;

use super::{PLACEHOLDER, last, open, quit};
use crate::scene::{Scene, until};

#[test]
fn a_session_is_taken_up_from_the_browser() {
    let scene = Scene::new([
        reply().text("first answer"),
        reply().text("second answer"),
        reply().text("third answer"),
    ]);
    assert_eq!(scene.run(&["-p", "about apples"]).code, Some(0));
    assert_eq!(scene.run(&["-p", "about pears"]).code, Some(0));
    let screen = open(&scene, &[]);
    screen.say("/resume").expect("Chat Sessions (2 total)").expect("about apples").expect("about pears");
    screen.key("/").type_text("apples").expect_gone("about pears").key("Enter").key("Enter");
    screen.expect("first answer").expect(PLACEHOLDER).say("and now?").expect("third answer");
    quit(screen);
    let sent = scene.server.request(2).body.to_string();
    assert!(sent.contains("about apples") && !sent.contains("about pears"), "{sent}");
}

#[test]
fn a_session_is_deleted_in_the_browser_only_after_a_second_word() {
    let scene = Scene::new([reply().text("first answer"), reply().text("second answer")]);
    assert_eq!(scene.run(&["-p", "about apples"]).code, Some(0));
    assert_eq!(scene.run(&["-p", "about pears"]).code, Some(0));
    let screen = open(&scene, &[]);
    screen.say("/resume").expect("Chat Sessions (2 total)").key("x");
    assert_eq!(scene.session_files().len(), 2);
    screen.key("x").expect("Chat Sessions (1 total)").key("Esc").expect(PLACEHOLDER);
    assert_eq!(scene.session_files().len(), 1);
    quit(screen);
}

#[test]
fn a_conversation_goes_back_with_its_files() {
    let edit = reply().call("write_file", json!({"file_path": "a.txt", "content": "new\n"}));
    let home = TestHome::new().file("a.txt", "old\n");
    let scene = Scene::with(home, [edit, reply().text("edited"), reply().text("anew")]);
    let screen = open(&scene, &["--yolo"]);
    screen.say("change it").expect("✦ edited");
    assert_eq!(scene.home.read("a.txt"), "new\n");
    screen.expect(PLACEHOLDER).say("/rewind").expect("Rewind to before which prompt?").key("Enter");
    screen.expect("Rewind conversation and revert code changes").expect("restore a.txt").key("Enter");
    screen.expect("Rewound to before").expect("* change it");
    assert_eq!(scene.home.read("a.txt"), "old\n");
    screen.key("Ctrl+C").expect(PLACEHOLDER).say("something else").expect("✦ anew");
    quit(screen);
    assert_eq!(last(&scene, 2), "something else");
    let sent = scene.server.request(2).body["contents"].to_string();
    assert!(!sent.contains("change it"), "{sent}");
}

#[test]
fn a_compressed_conversation_goes_back_to_its_summary() {
    let kinds: String = (1..=300).map(|kind| format!("kind {kind} is no. {}; ", kind * kind)).collect();
    let long = format!("apples: {kinds}");
    let summary = "<state_snapshot><overall_goal>fruit</overall_goal></state_snapshot>";
    let replies =
        [&long, "pears are green", summary, "plums are blue", "cherries are sweet", "quinces are hard"];
    let scene = Scene::new(replies.map(|text| reply().text(text)));
    let screen = open(&scene, &[]);
    screen.say("about apples").expect("90000;").expect(PLACEHOLDER);
    screen.say("about pears").expect("✦ pears are green").expect(PLACEHOLDER);
    screen.say("/compress").expect("Chat history compressed").expect(PLACEHOLDER);
    screen.say("about plums").expect("✦ plums are blue").expect(PLACEHOLDER).say("/rewind");
    screen.expect("Not available, because the summary replaced them:").expect("  about apples");
    screen.expect("● about plums").key("Home").key("Up").key("Up").key("Up").expect("● The summary");
    screen.key("Enter").expect("● 1. Rewind conversation").key("Enter").expect("Rewound to the summary.");
    screen.expect(PLACEHOLDER).say("about cherries").expect("✦ cherries are sweet");
    quit(screen);
    let first = scene.server.requests().len() - 1;
    let told = |request: usize| scene.server.request(request).body["contents"].to_string();
    let screen = open(&scene, &["--resume", "latest"]);
    screen.expect("cherries are sweet").expect(PLACEHOLDER).say("about quinces").expect("✦ quinces are hard");
    quit(screen);
    for request in [first, first + 1] {
        let sent = told(request);
        assert!(sent.contains("<overall_goal>fruit") && sent.contains("about cherries"), "{sent}");
        assert!(!sent.contains("about apples") && !sent.contains("about plums"), "{sent}");
    }
}

#[test]
fn a_copy_shows_the_conversation_that_it_goes_on_from() {
    let scene = Scene::new([reply().text("the first answer")]);
    scene.run(&["-p", "the first question"]);
    let file = scene.session_files().remove(0).to_string_lossy().into_owned();
    for args in [&["--resume", "latest", "--fork"][..], &["--session-file", &file]] {
        let screen = open(&scene, args);
        screen.expect("the first question").expect("the first answer").expect(PLACEHOLDER);
        quit(screen);
    }
}

#[test]
fn what_was_typed_in_an_earlier_conversation_comes_back_with_the_up_key() {
    let scene = Scene::new([reply().text("one"), reply().text("two")]);
    let screen = open(&scene, &[]);
    screen.say("remember me").expect("✦ one");
    quit(screen);
    let screen = open(&scene, &[]);
    // They are read beside the first prompt.
    until("they are there", || screen.key("Up").text().contains("> remember me"));
    screen.key("Enter").expect("✦ two");
    quit(screen);
}
