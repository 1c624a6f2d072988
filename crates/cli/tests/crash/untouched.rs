//! Opening a session and leaving it again, then listing: every byte is where it was.

use std::fs;
use std::path::PathBuf;

use pollux_test_support::{TestHome, reply};

use super::fixtures::{self, FORMS};
use super::oracle::census;
use crate::scene::{MODEL, Scene};

/// A project with a session of our own beside those of other programs.
fn project() -> (Scene, PathBuf) {
    let scene = Scene::with(TestHome::new(), [reply().text("ok")]);
    let run = scene.run(&["--session-id", "our-own-session", "-p", "the only prompt"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let chats = scene.chats();
    fixtures::place(&chats);
    (scene, chats)
}

/// `--resume`, a look, `/quit`; then `--list-sessions`, twice.
fn open_leave_list(scene: &Scene, which: &str) {
    let mut terminal = scene.prepare(&["-m", MODEL, "--resume", which]).on_terminal();
    terminal.expect("User: ").say("/quit");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    for _ in 0..2 {
        let list = scene.prepare(&["--list-sessions"]).run();
        assert_eq!(list.code, Some(0), "{}", list.stderr);
        for id in FORMS.iter().map(|(id, _)| *id).chain(["our-own-session"]) {
            assert!(list.stdout.contains(&format!("[{id}]")), "{id} in {}", list.stdout);
        }
    }
}

#[test]
fn a_session_that_was_opened_and_left_is_the_same_to_the_byte() {
    let (scene, chats) = project();
    let before = census(&chats);
    open_leave_list(&scene, "latest");
    assert!(census(&chats) == before, "{:?}", census(&chats).keys());
    open_leave_list(&scene, "our-own-session");
    assert!(census(&chats) == before, "{:?}", census(&chats).keys());
}

#[test]
fn files_of_other_releases_are_the_same_to_the_byte_when_they_were_opened_and_left() {
    for (id, _) in FORMS {
        let (scene, chats) = project();
        let before = census(&chats);
        open_leave_list(&scene, id);
        assert!(census(&chats) == before, "{id}: {:?}", census(&chats).keys());
    }
}

#[test]
fn a_file_of_another_release_is_gone_on_with_in_place_and_keeps_what_it_held() {
    for (id, text) in FORMS {
        let (scene, chats) = project();
        let before = census(&chats);
        scene.server.push([reply().text("gone on")]);
        let run = scene.run(&["--resume", id, "-p", "one more"]);
        assert_eq!((run.stdout.as_str(), run.code), ("gone on\n", Some(0)), "{}", run.stderr);
        let after = census(&chats);
        assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>(), "{id}");
        let changed: Vec<&PathBuf> =
            before.keys().filter(|path| after.get(*path) != before.get(*path)).collect();
        let [path] = changed[..] else { panic!("{id}: {changed:?}") };
        assert_eq!(before[path], text.as_bytes());
        let now = fs::read_to_string(path).unwrap();
        for kept in ["one more", "gone on"] {
            assert!(now.contains(kept), "{id}: {now}");
        }
        if id.starts_with("7c") {
            assert!(now.starts_with(text), "a record log only grows");
        } else {
            assert!(now.contains("an older question") && now.contains("an older answer"), "{now}");
        }
    }
}
