use pollux_extend::extension::Kind;
use pollux_net::credentials::{KeychainAddress, MemoryKeychain, StoreOptions};

use super::keys::KEY_FILE;
use super::*;

#[test]
fn upstream_signatures_are_verified() {
    let dir = tempfile::tempdir().unwrap();
    let key = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    files::replace(&dir.path().join(KEY_FILE), key.as_bytes(), Mode::Private).unwrap();
    let metadata = Metadata::new("/src/x", Kind::Local);
    // sha256 of {"source":"/src/x","type":"local"}, as upstream's stable stringify writes it.
    assert_eq!(hash(&metadata), sha256_hex(br#"{"source":"/src/x","type":"local"}"#));
    let integrity = Integrity::new(dir.path(), None);
    assert_eq!(integrity.verify("x", &metadata), IntegrityState::Unknown);
    integrity.record("x", &metadata, dir.path()).unwrap();
    let register: Value =
        serde_json::from_str(&files::read_text(&dir.path().join(REGISTER)).unwrap().unwrap()).unwrap();
    let sign = |text: &str| {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key.as_bytes());
        pollux_domain::hex::encode(ring::hmac::sign(&key, text.as_bytes()).as_ref())
    };
    assert_eq!(register["store"]["x"]["signature"], sign(&hash(&metadata)));
    assert_eq!(register["signature"], sign(&canonical(&register["store"])));
    assert_eq!(Integrity::new(dir.path(), None).verify("x", &metadata), IntegrityState::Verified);
}

#[test]
fn a_changed_origin_or_register_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let metadata = Metadata::new("https://example.com/good", Kind::Git);
    let integrity = Integrity::new(dir.path(), None);
    integrity.record("x", &metadata, dir.path()).unwrap();
    let evil = Metadata::new("https://example.com/evil", Kind::Git);
    assert_eq!(integrity.verify("x", &evil), IntegrityState::Invalid);
    let file = dir.path().join(REGISTER);
    let text = files::read_text(&file).unwrap().unwrap();
    files::replace(&file, text.replace("\"x\"", "\"y\"").as_bytes(), Mode::Private).unwrap();
    assert_eq!(integrity.verify("x", &metadata), IntegrityState::Invalid);
    assert!(matches!(integrity.record("x", &metadata, dir.path()), Err(IntegrityError::Tampered { .. })));
    files::replace(&file, text.as_bytes(), Mode::Private).unwrap();
    integrity.forget("x").unwrap();
    assert_eq!(integrity.verify("x", &metadata), IntegrityState::Unknown);
    assert!(integrity.contents("x").unwrap().is_none());
}

fn options(dir: &Path) -> StoreOptions {
    StoreOptions { gemini_dir: dir.to_owned(), host: "h".into(), user: "u".into(), ..StoreOptions::default() }
}

/// The same home on a desktop and over ssh, where the keychain is missing.
struct Sessions {
    dir: tempfile::TempDir,
    desktop: CredentialStore,
    ssh: CredentialStore,
}

impl Sessions {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let desktop = MemoryKeychain::default().store(options(dir.path()));
        let ssh =
            CredentialStore::new(StoreOptions { keychain: KeychainAddress::NoBus, ..options(dir.path()) });
        Self { dir, desktop, ssh }
    }

    fn at_desktop(&self) -> Integrity<'_> {
        Integrity::new(self.dir.path(), Some(&self.desktop))
    }

    fn over_ssh(&self) -> Integrity<'_> {
        Integrity::new(self.dir.path(), Some(&self.ssh))
    }

    fn register(&self) -> Value {
        serde_json::from_str(&files::read_text(&self.dir.path().join(REGISTER)).unwrap().unwrap()).unwrap()
    }

    fn write_register(&self, register: &Value) {
        let text = register.to_string();
        files::replace(&self.dir.path().join(REGISTER), text.as_bytes(), Mode::Private).unwrap();
    }
}

#[test]
fn an_extension_installed_in_one_session_is_verified_and_updated_in_another() {
    let sessions = Sessions::new();
    let dir = sessions.dir.path();
    let (one, two) = (Metadata::new("/src/one", Kind::Local), Metadata::new("/src/two", Kind::Local));
    sessions.at_desktop().record("one", &one, dir).unwrap();
    sessions.over_ssh().record("two", &two, dir).unwrap();
    for integrity in [sessions.at_desktop(), sessions.over_ssh()] {
        integrity.check().unwrap();
        assert_eq!(integrity.verify("one", &one), IntegrityState::Verified);
        assert_eq!(integrity.verify("two", &two), IntegrityState::Verified);
        assert_eq!(integrity.verify("one", &two), IntegrityState::Invalid);
        assert!(integrity.contents("one").unwrap().is_some());
    }
    // Back at the desktop everything is signed with its key again, each entry too, for upstream.
    let again = Metadata::new("/src/again", Kind::Local);
    sessions.at_desktop().record("one", &again, dir).unwrap();
    let register = sessions.register();
    let keychain = sessions.at_desktop().keys.find(KeyPlace::Keychain).unwrap().unwrap().unwrap();
    assert_eq!(register["signature"], keychain.sign(&canonical(&register["store"])));
    assert_eq!(register["store"]["two"]["signature"], keychain.sign(&hash(&two)));
    let places: Vec<&str> =
        register["signatures"].as_array().unwrap().iter().map(|one| one["key"].as_str().unwrap()).collect();
    assert_eq!(places, ["keychain", "file"]);
    sessions.over_ssh().forget("two").unwrap();
    assert_eq!(sessions.at_desktop().verify("two", &two), IntegrityState::Unknown);
    assert_eq!(sessions.at_desktop().verify("one", &again), IntegrityState::Verified);
}

#[test]
fn an_unreachable_key_is_not_reported_as_a_change() {
    let sessions = Sessions::new();
    let metadata = Metadata::new("/src/one", Kind::Local);
    sessions.at_desktop().record("one", &metadata, sessions.dir.path()).unwrap();
    // As upstream and earlier releases write it.
    let mut register = sessions.register();
    register.as_object_mut().unwrap().shift_remove("signatures");
    sessions.write_register(&register);
    assert_eq!(sessions.at_desktop().verify("one", &metadata), IntegrityState::Verified);
    let IntegrityState::Unchecked(reason) = sessions.over_ssh().verify("one", &metadata) else { panic!() };
    assert!(
        reason.contains("could not verify") && reason.contains("no D-Bus session is available"),
        "{reason}"
    );
    let error = sessions.over_ssh().check().unwrap_err();
    assert!(matches!(error, IntegrityError::KeyUnreached { .. }) && error.hint().is_some());

    // Only the keychain's signature is left, or the file with the other key was lost.
    let sessions = Sessions::new();
    sessions.at_desktop().record("one", &metadata, sessions.dir.path()).unwrap();
    std::fs::remove_file(sessions.dir.path().join(KEY_FILE)).unwrap();
    let IntegrityState::Unchecked(reason) = sessions.over_ssh().verify("one", &metadata) else { panic!() };
    assert!(reason.contains("is in the keychain: no D-Bus session is available"), "{reason}");
    assert!(reason.contains("no longer in `integrity.key`"), "{reason}");
    assert_eq!(sessions.at_desktop().verify("one", &metadata), IntegrityState::Verified);
    sessions.at_desktop().record("one", &metadata, sessions.dir.path()).unwrap();
    assert_eq!(
        sessions.over_ssh().verify("one", &metadata),
        IntegrityState::Verified,
        "signed with the new key"
    );
}

#[test]
fn a_change_is_detected_in_every_session_and_a_valid_signature_does_not_excuse_an_invalid_one() {
    let sessions = Sessions::new();
    let metadata = Metadata::new("/src/one", Kind::Local);
    sessions.at_desktop().record("one", &metadata, sessions.dir.path()).unwrap();
    let sound = sessions.register();
    let evil = Metadata::new("https://example.com/evil", Kind::Git);
    let mut changed = sound.clone();
    changed["store"]["one"]["hash"] = Value::from(hash(&evil));
    sessions.write_register(&changed);
    assert_eq!(sessions.at_desktop().verify("one", &evil), IntegrityState::Invalid);
    assert_eq!(sessions.over_ssh().verify("one", &evil), IntegrityState::Invalid);
    // Signed again by an attacker who has the file but not the keychain.
    let file = sessions.over_ssh().keys.find(KeyPlace::File).unwrap().unwrap().unwrap();
    let text = canonical(&changed["store"]);
    changed["signatures"][1]["signature"] = Value::from(file.sign(&text));
    changed["signature"] = Value::from(file.sign(&text));
    sessions.write_register(&changed);
    assert_eq!(sessions.at_desktop().verify("one", &evil), IntegrityState::Invalid);
    assert!(matches!(sessions.at_desktop().check(), Err(IntegrityError::Tampered { .. })));
    for hostile in ["[]", "{}", "{\"store\": {}}", "{\"store\": {}, \"signatures\": [1, {}]}"] {
        files::replace(&sessions.dir.path().join(REGISTER), hostile.as_bytes(), Mode::Private).unwrap();
        assert_eq!(sessions.at_desktop().verify("one", &metadata), IntegrityState::Invalid, "{hostile}");
    }
}

#[test]
fn a_damaged_record_of_files_is_an_error_and_not_an_empty_one() {
    let dir = tempfile::tempdir().unwrap();
    let extension = dir.path().join("x");
    files::replace(&extension.join("a.js"), b"a", Mode::Shared).unwrap();
    assert!(recorded_contents(dir.path()).unwrap().is_empty(), "nothing was installed");
    let integrity = Integrity::new(dir.path(), None);
    integrity.record("x", &Metadata::new("/src/x", Kind::Local), &extension).unwrap();
    let file = dir.path().join(CONTENTS);
    let text = files::read_text(&file).unwrap().unwrap();
    let [(name, Some(contents))] = &recorded_contents(dir.path()).unwrap()[..] else { panic!("{text}") };
    assert!(name == "x" && contents.changes(&extension, Depth::Glance).is_empty());
    for damaged in ["", "[]", "{\"store\": []}", text.split_at(text.len() / 2).0] {
        files::replace(&file, damaged.as_bytes(), Mode::Private).unwrap();
        let error = recorded_contents(dir.path()).unwrap_err();
        assert_eq!(error.to_string(), format!("`{}` is damaged", file.display()), "{damaged}");
    }
    files::replace(&file, b"\xff", Mode::Private).unwrap();
    assert!(matches!(recorded_contents(dir.path()), Err(IntegrityError::File(_))));
    let part = text.replace("\"length\": 1", "\"length\": -1");
    assert_ne!(part, text);
    files::replace(&file, part.as_bytes(), Mode::Private).unwrap();
    assert_eq!(recorded_contents(dir.path()).unwrap(), [("x".to_owned(), None)]);
}
