#![allow(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::fs;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

use pollux_config::trust::{Binding, Inventory, Standing};

use super::*;
use crate::line::Captured;
use crate::test_home::TestHome;

/// A folder that nobody decided on, with a hook.
fn folder(hook: &str) -> TestHome {
    let hooks =
        serde_json::json!({"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": hook}]}]}});
    TestHome::new()
        .untrusted()
        .user_settings(r#"{"security": {"folderTrust": {"enabled": true}}}"#)
        .file(".gemini/settings.json", &hooks.to_string())
}

fn asks() -> TrustCommand {
    TrustCommand { action: TrustAction::Allow { parent: false, yes: false }, folder: None }
}

fn is_allowed(home: &TestHome) -> bool {
    let show = TrustCommand { action: TrustAction::Show { json: true }, folder: None };
    let view: serde_json::Value = serde_json::from_str(&home.run(show, "").out).unwrap();
    view["trusted"].as_bool().unwrap()
}

/// Answers at a terminal; returns the result and what was on the screen.
fn asked(home: &TestHome, answer: &str) -> (Captured, String) {
    home.answered(asks(), &mut answer.as_bytes(), true)
}

#[test]
fn only_a_yes_is_a_yes() {
    for (answer, agreed) in
        [("y\n", true), ("YES\n", true), ("\n", false), ("", false), ("n\n", false), ("yep\n", false)]
    {
        let home = folder("date");
        let (done, screen) = asked(&home, answer);
        assert_eq!((done.result.is_ok(), is_allowed(&home)), (agreed, agreed), "{answer:?}");
        assert!(screen.contains("hook SessionStart: date") && screen.ends_with("[y/N] "), "{screen}");
    }
}

#[test]
fn what_hides_in_a_command_is_visible_before_the_question() {
    let (_, screen) = asked(&folder("echo \u{1b}[8mrm\u{202e} -rf\n/"), "n\n");
    assert!(screen.contains("echo <U+001B>[8mrm<U+202E> -rf<U+000A>/"), "{screen}");
}

/// A yes, before which the folder changes.
struct SlowReader {
    settings: PathBuf,
    answer: &'static [u8],
}

impl Read for SlowReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.answer.read(bytes)
    }
}

impl BufRead for SlowReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        fs::write(&self.settings, r#"{"hooks": {}, "mcpServers": {"s": {"command": "other"}}}"#)?;
        Ok(self.answer)
    }

    fn consume(&mut self, amount: usize) {
        self.answer.consume(amount);
    }
}

#[test]
fn what_changes_while_somebody_reads_is_not_agreed_to() {
    let home = folder("date");
    let mut input = SlowReader { settings: home.project().join(".gemini/settings.json"), answer: b"y\n" };
    let (done, _) = home.answered(asks(), &mut input, true);
    assert!(done.result.unwrap_err().summary.contains("changed in the meantime"));
    assert!(!is_allowed(&home));
}

#[test]
fn a_stronger_line_of_the_register_is_named() {
    let view = View {
        folder: "/p".into(),
        register: "/h/trustedFolders.json".into(),
        standing: Standing {
            trust: FolderTrust::Undecided,
            reason: TrustReason::Rule("/p/child".into()),
            binding: Binding::Unbound,
        },
        inventory: Inventory::take(Path::new("/nowhere/at/all"), &[]),
        record: None,
        is_home: false,
    };
    let failure = settled(&view, false, &mut Vec::new()).unwrap_err();
    assert!(failure.hint.unwrap().contains("`/p/child`"));
}
