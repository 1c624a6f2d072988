use std::cell::RefCell;

use super::*;

/// A store that keeps one key, and why its keychain cannot be reached.
#[derive(Default)]
struct OneKey(RefCell<Option<Secret>>, Option<String>);

impl SignIns for OneKey {
    fn status(&self) -> Status {
        Status { problem: Some("no key\nmore words".into()), ..Status::default() }
    }
    fn list(&self) -> Result<Reached<Vec<Row>>, Failure> {
        let row = Row {
            name: "srv\u{1b}[31m".into(),
            kind: "MCP server",
            place: "the keychain".into(),
            plain_text: false,
            server_url: None,
            expires: Some("2030-01-01T00:00:00.000Z".into()),
            stored: None,
            renewable: false,
        };
        Ok(Reached { result: vec![row], keychain_missing: self.1.clone() })
    }
    fn store_key(&self, key: &Secret) -> Result<Stored, Failure> {
        *self.0.borrow_mut() = Some(key.clone());
        Ok(Stored { place: "a box".into(), notes: vec!["Note: x".into()] })
    }
    fn forget_key(&self) -> Result<Reached<bool>, Failure> {
        Ok(Reached { result: self.0.borrow_mut().take().is_some(), keychain_missing: self.1.clone() })
    }
    fn forget_all(&self) -> Result<Reached<Vec<Row>>, Failure> {
        Ok(Reached { result: Vec::new(), keychain_missing: self.1.clone() })
    }
    fn left(&self) -> Option<String> {
        None
    }
}

fn say(command: AuthCommand, input: &str, sign_ins: &OneKey) -> (Result<(), Failure>, String, String) {
    let (mut out, mut screen) = (Vec::new(), Vec::new());
    let mut owner = Owner { at_terminal: false, input: &mut input.as_bytes(), screen: &mut screen };
    let result = run(&command, sign_ins, &mut owner, &mut out);
    (result, String::from_utf8(out).unwrap(), String::from_utf8(screen).unwrap())
}

#[test]
fn a_key_from_a_pipe_is_stored_and_its_obstacles_are_told() {
    let store = OneKey::default();
    let (result, out, notes) = say(AuthCommand::Login { stdin: true }, "AQ.0123456789-abcdefghij\n", &store);
    assert_eq!(
        (result, out.as_str(), notes.as_str()),
        (Ok(()), "The key is stored in a box.\n", "Note: x\n")
    );
    assert_eq!(store.0.borrow().as_ref().unwrap().reveal(), "AQ.0123456789-abcdefghij");
    let (_, out, _) = say(AuthCommand::Logout { all: false }, "", &store);
    assert_eq!(out, "The stored key was removed.\n");
    let (_, out, _) = say(AuthCommand::Logout { all: true }, "", &store);
    assert_eq!(out, "Nothing was stored.\n");
}

#[test]
fn what_is_no_key_or_has_no_terminal_stores_nothing() {
    let store = OneKey::default();
    for (stdin, input) in [(true, ""), (true, "short"), (false, "AQ.0123456789-abcdefghij")] {
        let (result, out, _) = say(AuthCommand::Login { stdin }, input, &store);
        assert_eq!(result.unwrap_err().exit, ExitKind::Input);
        assert!(out.is_empty() && store.0.borrow().is_none());
    }
}

#[test]
fn nobody_signed_in_is_an_answer_and_an_exit_code() {
    let (result, out, _) = say(AuthCommand::Status { json: false }, "", &OneKey::default());
    assert_eq!(result.unwrap_err().exit, ExitKind::Auth);
    assert!(out.starts_with("Signed in: nobody\nWhy not:   no key\n"), "{out}");
    let (result, out, _) = say(AuthCommand::Status { json: true }, "", &OneKey::default());
    assert!(result.is_err());
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["signedIn"], false);
}

#[test]
fn names_of_others_do_not_control_the_terminal() {
    let (_, out, _) = say(AuthCommand::List { json: false }, "", &OneKey::default());
    assert_eq!(out, "MCP server `srv` in the keychain\n  expires  2030-01-01T00:00:00.000Z\n");
}

#[test]
fn what_may_be_left_in_a_keychain_is_told_and_is_a_failure() {
    let store = OneKey(RefCell::new(Some(Secret::new("k"))), Some("it is locked".into()));
    for (all, printed, wanted) in [
        (false, "The stored key was removed.\n", "where a key may still be stored: it is locked"),
        (false, "", "where a key may still be stored: it is locked"),
        (true, "", "where keys and sign-ins may still be stored: it is locked"),
    ] {
        let (result, out, _) = say(AuthCommand::Logout { all }, "", &store);
        let failure = result.unwrap_err();
        assert_eq!((out.as_str(), failure.exit), (printed, ExitKind::Failure));
        assert!(failure.summary.ends_with(wanted) && failure.hint.is_some(), "{failure:?}");
    }
    let (result, _, notes) = say(AuthCommand::List { json: true }, "", &store);
    assert!(result.is_ok() && notes.contains("it could not be reached: it is locked"), "{notes}");
    let (result, out, _) = say(AuthCommand::Logout { all: false }, "", &OneKey::default());
    assert_eq!((result, out.as_str()), (Ok(()), "No key was stored.\n"));
}
