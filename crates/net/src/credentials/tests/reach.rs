//! One user at a desktop with a keychain and, with the same home, in a session without it.

use std::time::Instant;

use super::*;

/// A keychain as a session finds it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    NoBus,
    Vanished,
    Locked,
    Hangs,
    Fails,
}

const STATES: [State; 5] = [State::NoBus, State::Vanished, State::Locked, State::Hangs, State::Fails];

impl State {
    fn store(self, scene: &Scene) -> CredentialStore {
        let opener: Opener = match self {
            Self::NoBus => {
                let none = FileReason::Keychain(KeychainError::NoSession);
                return CredentialStore::with(scene.options(), Err(none));
            }
            Self::Vanished => Box::new(|| Err(KeychainError::Unreachable("gone".into()))),
            Self::Locked => Box::new(|| Ok(Box::new(super::Locked))),
            Self::Hangs => Box::new(|| {
                loop {
                    std::thread::park();
                }
            }),
            Self::Fails => Box::new(|| Err(KeychainError::Failed("broken".into()))),
        };
        CredentialStore::with(scene.options(), Ok(TimedKeychain::new(opener, self.timeout())))
    }

    /// Only a keychain that hangs costs the timeout; for the others it merely bounds a busy machine.
    fn timeout(self) -> Duration {
        match self {
            Self::Hangs => Duration::from_millis(50),
            Self::NoBus | Self::Vanished | Self::Locked | Self::Fails => Duration::from_secs(60),
        }
    }

    /// Whether there is a keychain that may hold anything, whatever is known of it.
    fn is_there(self) -> bool {
        matches!(self, Self::Locked | Self::Hangs | Self::Fails)
    }
}

#[test]
fn a_removal_says_when_a_copy_may_be_left_in_the_keychain() {
    for state in STATES {
        let (scene, keychain) = (Scene::new(&[]), Memory::default());
        let desktop = scene.with_keychain(keychain.opener());
        desktop.set_api_key(&Secret::new("k"), 1).unwrap();
        desktop.set_credentials(MCP_SERVICE, &token("srv", "t", 1)).unwrap();
        desktop.set_secret("ext", "TOKEN", &Secret::new("s")).unwrap();

        let started = Instant::now();
        let elsewhere = state.store(&scene);
        let removal = elsewhere.delete_api_key();
        assert!(!removal.removed && removal.unreached.is_some(), "{state:?}: {removal:?}");
        let removal = elsewhere.delete_credentials(MCP_SERVICE, "srv");
        assert!(!removal.removed && removal.unreached.is_some(), "{state:?}: {removal:?}");
        assert!(elsewhere.delete_secret("ext", "TOKEN").unwrap().unreached.is_some(), "{state:?}");
        assert!(elsewhere.entries().unreached.is_some(), "{state:?}");
        assert!(elsewhere.delete_all().unreached.is_some(), "{state:?}");
        assert!(started.elapsed() < Duration::from_secs(20), "{state:?} costs one wait");

        // Nothing is taken for gone, and nothing is reported where it is.
        assert_eq!(desktop.api_key().unwrap().unwrap().reveal(), "k");
        assert_eq!(desktop.delete_all().unreached, None);
        assert!(desktop.delete_secret("ext", "TOKEN").unwrap().removed);
        assert!(keychain.entries().is_empty());
        let removal = state.store(&scene).delete_api_key();
        assert_eq!(removal.unreached.is_some(), state.is_there(), "{state:?}: {removal:?}");
        assert!(!scene.path("keychain_entries.json").exists());
    }
}

#[test]
fn where_nothing_was_ever_stored_a_missing_keychain_hides_nothing() {
    for state in STATES {
        let scene = Scene::new(&[]);
        let store = state.store(&scene);
        let removal = store.delete_api_key();
        assert_eq!((removal.removed, removal.unreached.is_some()), (false, state.is_there()), "{state:?}");
        assert_eq!(store.entries().unreached.is_some(), state.is_there(), "{state:?}");
    }
}

#[test]
fn a_copy_in_the_file_goes_even_when_the_keychain_cannot_be_reached() {
    for state in STATES {
        let scene = Scene::new(&[]);
        let store = state.store(&scene);
        store.set_api_key(&Secret::new("k"), 1).unwrap();
        assert!(store.delete_api_key().removed, "{state:?}");
        assert_eq!(scene.key().unwrap(), None, "{state:?}");
    }
}

#[test]
fn a_key_that_is_known_to_be_in_the_keychain_is_missed_and_not_denied() {
    for state in STATES {
        let (scene, keychain) = (Scene::new(&[]), Memory::default());
        scene.with_keychain(keychain.opener()).set_api_key(&Secret::new("k"), 1).unwrap();
        scene.with_keychain(keychain.opener()).set_secret("ext", "T", &Secret::new("s")).unwrap();
        let elsewhere = state.store(&scene);
        assert!(matches!(elsewhere.api_key(), Err(CredentialError::Keychain(_))), "{state:?}");
        assert!(matches!(elsewhere.secret("ext", "T"), Err(CredentialError::Keychain(_))), "{state:?}");
        if state != State::Locked {
            assert!(elsewhere.credentials(MCP_SERVICE, "never").unwrap().is_none(), "{state:?}");
            assert!(elsewhere.secret("ext", "NEVER").unwrap().is_none(), "{state:?}");
        }
    }
    // One that another program stored is known once it was seen.
    let (scene, keychain) = (Scene::new(&[]), Memory::default());
    let text = token("srv", "t", 1).to_json().to_string();
    keychain.clone().set(MCP_SERVICE, "srv", &text).unwrap();
    assert!(scene.with_keychain(keychain.opener()).credentials(MCP_SERVICE, "srv").unwrap().is_some());
    assert!(State::NoBus.store(&scene).credentials(MCP_SERVICE, "srv").is_err());
    let forced = scene.store();
    assert!(forced.credentials(MCP_SERVICE, "srv").unwrap().is_none(), "the keychain is not wanted");
    assert_eq!(forced.delete_credentials(MCP_SERVICE, "srv").unreached, Some(FileReason::Forced));
}

#[test]
fn the_last_write_wins_for_every_kind_and_old_values_do_not_return() {
    for state in STATES {
        let (scene, keychain) = (Scene::new(&[]), Memory::default());
        let desktop = || scene.with_keychain(keychain.opener());
        let read = |store: &CredentialStore| {
            (
                store.api_key().unwrap().unwrap().reveal().to_owned(),
                store
                    .credentials(MCP_SERVICE, "srv")
                    .unwrap()
                    .unwrap()
                    .token
                    .access_token
                    .reveal()
                    .to_owned(),
                store.secret("ext", "T").unwrap().unwrap().reveal().to_owned(),
            )
        };
        let write = |store: &CredentialStore, value: &str, now: i64| {
            store.set_api_key(&Secret::new(value), now).unwrap();
            store.set_credentials(MCP_SERVICE, &token("srv", value, now)).unwrap();
            store.set_secret("ext", "T", &Secret::new(value)).unwrap();
        };
        let all = |value: &str| (value.to_owned(), value.to_owned(), value.to_owned());
        write(&desktop(), "one", 10);
        write(&state.store(&scene), "two", 20);
        assert_eq!(read(&desktop()), all("two"), "{state:?}: the file has the newer one");
        assert_eq!(read(&state.store(&scene)), all("two"), "{state:?}");
        write(&desktop(), "three", 30);
        assert_eq!(read(&desktop()), all("three"), "{state:?}");
        assert!(scene.key().unwrap().is_none(), "{state:?}: the copy in the file is gone");
        // A clock that was set back.
        write(&desktop(), "four", 5);
        assert_eq!(read(&desktop()), all("four"), "{state:?}");
    }
}

#[test]
fn a_newer_sign_in_in_gemini_clis_own_file_replaces_ours() {
    let plain = |moment: i64| {
        json!([{"serverName": "srv", "updatedAt": moment, "token": {"accessToken": "theirs", "tokenType": "Bearer"}}])
            .to_string()
    };
    for (moment, expected) in [(20, "theirs"), (5, "ours")] {
        let scene = Scene::new(&[]);
        let store = scene.with_keychain(memory());
        store.set_credentials(MCP_SERVICE, &token("srv", "ours", 10)).unwrap();
        scene.write(PLAIN, &plain(moment));
        let found = store.credentials(MCP_SERVICE, "srv").unwrap().unwrap();
        assert_eq!(found.token.access_token.reveal(), expected);
    }
}

#[test]
fn a_secret_whose_old_copy_stays_in_the_file_is_not_reported_as_stored() {
    let scene = Scene::new(&[]);
    scene.put_in_file("ext", "__secret__T", "old");
    // As long as another process holds the lock, the file cannot be changed.
    let lock = pollux_config::files::FileLock::acquire(&scene.path(FILE)).unwrap();
    let store = scene.with_keychain(memory());
    let stored = store.set_secret("ext", "T", &Secret::new("new"));
    assert!(matches!(stored, Err(CredentialError::OlderCopy { .. })), "{stored:?}");
    drop(lock);
    store.set_secret("ext", "T", &Secret::new("new")).unwrap();
    assert_eq!(store.secret("ext", "T").unwrap().unwrap().reveal(), "new");
}
