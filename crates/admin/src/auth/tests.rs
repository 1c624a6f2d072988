use super::*;
use crate::test_home::TestHome;

const KEY: &str = "AQ.0123456789-abcdefghij";

fn home() -> TestHome {
    TestHome::new().env("GEMINI_FORCE_FILE_STORAGE", "true")
}

fn unreached<T>(result: T) -> Reached<T> {
    Reached { result, keychain_missing: Some("it is locked".into()), unread: Vec::new() }
}

#[test]
fn a_key_from_a_pipe_is_stored_and_its_obstacles_are_told() {
    let home = home().user_settings(r#"{"security": {"auth": {"selectedType": "vertex-ai"}}}"#);
    let done = home.run(AuthCommand::Login { stdin: true }, &format!("{KEY}\n"));
    assert_eq!(done.result, Ok(()));
    assert!(done.out.starts_with("API key stored in "), "{}", done.out);
    assert!(done.err.starts_with("Note: the settings select 'vertex-ai'."), "{}", done.err);
    let done = home.run(AuthCommand::List { json: false }, "");
    assert!(done.out.contains(" in ") && !done.out.contains(KEY), "{}", done.out);
    let done = home.run(AuthCommand::Logout { all: false }, "");
    assert_eq!(done.out, "The stored key was removed.\n");
    let done = home.run(AuthCommand::Logout { all: true }, "");
    assert_eq!(done.out, "Nothing was stored.\n");
}

#[test]
fn what_is_no_key_or_has_no_terminal_stores_nothing() {
    let home = home();
    for (stdin, input) in [(true, ""), (true, "short"), (false, KEY)] {
        let done = home.run(AuthCommand::Login { stdin }, input);
        assert_eq!(done.result.unwrap_err().exit, ExitKind::Input);
        assert!(done.out.is_empty());
    }
    assert_eq!(home.run(AuthCommand::List { json: false }, "").out, "No stored credentials.\n");
}

#[test]
fn nobody_signed_in_is_an_answer_and_an_exit_code() {
    let nobody = Status { problem: Some("no key\nmore words".into()), ..Status::default() };
    let said = |json| {
        let mut out = Vec::new();
        let result = stood(&nobody, json, &mut out);
        (result, String::from_utf8(out).unwrap())
    };
    let (result, out) = said(false);
    assert_eq!(result.unwrap_err().exit, ExitKind::Auth);
    assert!(out.starts_with("Not signed in\nReason:    no key\n"), "{out}");
    let (result, out) = said(true);
    assert!(result.is_err());
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["signedIn"], false);
}

#[test]
fn names_of_others_do_not_control_the_terminal() {
    let row = CredentialRow {
        name: "srv\u{1b}[31m".into(),
        kind: "MCP server",
        place: "the keychain".into(),
        plain_text: false,
        server_url: None,
        expires: Some("2030-01-01T00:00:00.000Z".into()),
        stored: None,
        renewable: false,
    };
    let out = page::list(&[row], false);
    assert_eq!(out, "MCP server `srv` in the keychain\n  expires  2030-01-01T00:00:00.000Z\n");
}

#[test]
fn what_may_be_left_in_a_keychain_is_told_and_is_a_failure() {
    for (removed, printed, wanted) in [
        (
            Removed::key(unreached(true)),
            "The stored key was removed.\n",
            "where a key may still be stored: it is locked",
        ),
        (Removed::key(unreached(false)), "", "where a key may still be stored: it is locked"),
        (
            Removed::all(unreached(Vec::new())),
            "",
            "where keys and sign-ins may still be stored: it is locked",
        ),
    ] {
        let mut out = Vec::new();
        let failure = removed.print(None, &mut out, &mut Vec::new()).unwrap_err();
        assert_eq!((String::from_utf8(out).unwrap().as_str(), failure.exit), (printed, ExitKind::Failure));
        assert!(failure.summary.ends_with(wanted) && failure.hint.is_some(), "{failure:?}");
    }
    assert!(page::not_listed("it is locked").contains("it could not be reached: it is locked"));
    let done = home().run(AuthCommand::Logout { all: false }, "");
    assert_eq!((done.result, done.out.as_str()), (Ok(()), "No key was stored.\n"));
}

#[test]
fn a_damaged_file_is_reported_after_what_was_removed() {
    let home = home().home_file(".gemini/mcp-oauth-tokens-v2.json", "damaged");
    assert_eq!(home.run(AuthCommand::Login { stdin: true }, KEY).result, Ok(()));
    let is_reported = |failure: &Failure| {
        failure.exit == ExitKind::Failure
            && failure.summary.contains("mcp-oauth-tokens-v2.json")
            && failure.hint.as_ref().is_some_and(|hint| hint.contains("cannot be decrypted"))
    };
    let done = home.run(AuthCommand::List { json: false }, "");
    assert!(done.out.starts_with("API key `default-api-key` in "), "{}", done.out);
    assert!(is_reported(&done.result.unwrap_err()));
    let done = home.run(AuthCommand::Logout { all: true }, "");
    assert!(done.out.starts_with("Removed: API key `default-api-key` from "), "{}", done.out);
    assert!(is_reported(&done.result.unwrap_err()));
    for all in [true, false] {
        let done = home.run(AuthCommand::Logout { all }, "");
        assert_eq!(done.out, "");
        assert!(is_reported(&done.result.unwrap_err()));
    }
    assert_eq!(home.run(AuthCommand::Login { stdin: true }, KEY).result, Ok(()));
    let done = home.run(AuthCommand::Logout { all: false }, "");
    assert_eq!(done.out, "The stored key was removed.\n");
    assert!(is_reported(&done.result.unwrap_err()));
}
