use std::cell::Cell;
use std::path::Path;

use pollux_config::trust::{FolderTrust, Role};

use pollux_config::trust::{Binding, Inventory, Standing};

use super::*;

/// A folder in memory; what it would run changes when it is told to.
struct Fixed {
    command: &'static str,
    changes_while_asking: bool,
    looks: Cell<usize>,
    allowed: Cell<bool>,
    reason: TrustReason,
}

impl Fixed {
    fn new(command: &'static str) -> Self {
        let (looks, allowed) = (Cell::new(0), Cell::new(false));
        Self { command, changes_while_asking: false, looks, allowed, reason: TrustReason::NoRule }
    }
}

impl Folder for Fixed {
    fn look(&self) -> Result<View, Failure> {
        self.looks.set(self.looks.get() + 1);
        let mut inventory = Inventory::take(Path::new("/nowhere/at/all"), &[]);
        inventory.announcements.push(pollux_config::trust::Announcement {
            source: ".gemini/settings.json".into(),
            role: Role::Hook,
            name: "SessionStart".into(),
            text: self.command.into(),
            details: Vec::new(),
            used: true,
        });
        if self.changes_while_asking {
            inventory.digest = self.looks.get().to_string();
        }
        let trust = if self.allowed.get() { FolderTrust::Trusted } else { FolderTrust::Undecided };
        Ok(View {
            folder: "/p".into(),
            register: "/h/trustedFolders.json".into(),
            standing: Standing { trust, reason: self.reason.clone(), binding: Binding::Unbound },
            inventory,
            record: None,
            is_home: false,
        })
    }

    fn allow(&self, _parent: bool, _agreed: &Inventory) -> Result<(), Failure> {
        self.allowed.set(true);
        Ok(())
    }

    fn deny(&self) -> Result<(), Failure> {
        Ok(())
    }
}

/// Answers at a terminal; returns the result and what was on the screen.
fn asked(folder: &Fixed, answer: &str) -> (Result<(), Failure>, String) {
    let mut screen = Vec::new();
    let mut input = answer.as_bytes();
    let mut person = Person { at_terminal: true, input: &mut input, screen: &mut screen };
    let command = TrustCommand::Allow { parent: false, yes: false };
    let result = run(&command, folder, &mut person, &mut Vec::new());
    (result, String::from_utf8(screen).unwrap())
}

#[test]
fn only_a_yes_is_a_yes() {
    for (answer, agreed) in
        [("y\n", true), ("YES\n", true), ("\n", false), ("", false), ("n\n", false), ("yep\n", false)]
    {
        let folder = Fixed::new("date");
        let (result, screen) = asked(&folder, answer);
        assert_eq!((result.is_ok(), folder.allowed.get()), (agreed, agreed), "{answer:?}");
        assert!(screen.contains("hook SessionStart: date") && screen.ends_with("[y/N] "), "{screen}");
    }
}

#[test]
fn what_hides_in_a_command_is_visible_before_the_question() {
    let (_, screen) = asked(&Fixed::new("echo \u{1b}[8mrm\u{202e} -rf\n/"), "n\n");
    assert!(screen.contains("echo <U+001B>[8mrm<U+202E> -rf<U+000A>/"), "{screen}");
}

#[test]
fn what_changes_while_somebody_reads_is_not_agreed_to() {
    let folder = Fixed { changes_while_asking: true, ..Fixed::new("date") };
    let (result, _) = asked(&folder, "y\n");
    assert!(result.unwrap_err().summary.contains("changed meanwhile"));
    assert!(!folder.allowed.get());
}

#[test]
fn a_stronger_line_of_the_register_is_named() {
    let folder = Fixed { reason: TrustReason::Rule("/p/child".into()), ..Fixed::new("date") };
    let mut input: &[u8] = b"";
    let mut person = Person { at_terminal: false, input: &mut input, screen: &mut Vec::new() };
    let failure = run(&TrustCommand::Deny, &folder, &mut person, &mut Vec::new()).unwrap_err();
    assert!(failure.hint.unwrap().contains("`/p/child`"));
}
