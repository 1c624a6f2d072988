//! Several files at once: damaged ones, and names that differ only in replaced characters.

use super::*;

fn shared(scene: &Scene, entries: &[(&str, Value)]) {
    let change = |file: &mut pollux_domain::JsonObject| {
        file.extend(entries.iter().map(|(name, entry)| ((*name).to_owned(), entry.clone())));
        true
    };
    scene.store().older.shared.change(change).unwrap();
}

fn key_entry(token_type: Option<&str>) -> Value {
    let mut entry = json!({"serverName": API_KEY_ACCOUNT, "token": {"accessToken": "k"}, "updatedAt": 1});
    if let Some(token_type) = token_type {
        entry["token"]["tokenType"] = token_type.into();
    }
    entry
}

#[test]
fn an_api_key_in_the_older_shared_file_is_listed_and_removed() {
    for token_type in [Some("ApiKey"), Some("Bearer"), None] {
        let scene = Scene::new(&[]);
        shared(&scene, &[(API_KEY_ACCOUNT, key_entry(token_type))]);
        let store = scene.store();
        let listed = store.entries().entries;
        let names: Vec<_> =
            listed.iter().map(|entry| (entry.service.as_str(), entry.account.as_str())).collect();
        assert_eq!(names, [(API_KEY_SERVICE, API_KEY_ACCOUNT)]);
        assert_eq!(store.delete_all().entries, listed);
        assert_eq!(store.api_key().unwrap(), None);
        assert!(!scene.path(SHARED).exists());
    }
}

#[test]
fn a_damaged_file_keeps_no_other_file_from_being_listed_and_emptied() {
    for damaged in [FILE, SHARED, PLAIN, "a2a-oauth-tokens.json"] {
        let scene = Scene::new(&[]);
        let plain = json!([token("plain", "t", 1).to_json()]).to_string();
        let agents = json!([token("agent", "t", 1).to_json()]).to_string();
        scene.store().set_credentials(MCP_SERVICE, &token("new", "t", 1)).unwrap();
        shared(&scene, &[("shared", token("shared", "t", 1).to_json())]);
        scene.write(PLAIN, &plain);
        scene.write("a2a-oauth-tokens.json", &agents);
        scene.write(damaged, "damaged");
        let store = scene.store();

        let listing = store.entries();
        assert_eq!(listing.entries.len(), 3, "{damaged}");
        let [unread] = listing.unread.as_slice() else { panic!("{:?}", listing.unread) };
        assert_eq!(unread.path, scene.path(damaged));
        let is_encrypted = [FILE, SHARED].contains(&damaged);
        assert_eq!(unread.hint.is_some(), is_encrypted, "{damaged}");

        let removed = store.delete_all();
        assert_eq!(removed, listing, "{damaged}");
        assert_eq!(store.entries(), Listing { entries: Vec::new(), ..listing });
        assert_eq!(fs::read_to_string(scene.path(damaged)).unwrap(), "damaged");
    }
}

#[test]
fn a_key_is_removed_although_an_older_file_is_damaged() {
    let scene = Scene::new(&[(SHARED, "damaged")]);
    let store = scene.store();
    store.set_api_key(&Secret::new("k"), 1).unwrap();
    let removal = store.delete_api_key();
    assert!(removal.removed);
    assert_eq!(removal.unread.len(), 1);
    assert!(!scene.path(FILE).exists());
}

#[test]
fn a_sign_in_is_removed_although_an_older_file_is_damaged() {
    for service in [MCP_SERVICE, API_KEY_SERVICE] {
        let scene = Scene::new(&[(SHARED, "damaged")]);
        let store = scene.store();
        store.set_credentials(service, &token("srv", "t", 1)).unwrap();
        let removal = store.delete_credentials(service, "srv");
        assert!(removal.removed, "{service}");
        let [unread] = removal.unread.as_slice() else { panic!("{:?}", removal.unread) };
        assert_eq!(unread.path, scene.path(SHARED));
        assert!(!scene.path(FILE).exists(), "{service}");
    }
}

#[test]
fn an_entry_that_stays_in_its_file_is_not_reported_as_removed() {
    let scene = Scene::new(&[]);
    shared(&scene, &[("shared", token("shared", "t", 1).to_json())]);
    let store = scene.store();
    let lock = pollux_config::files::FileLock::acquire(&scene.path(SHARED)).unwrap();
    let removed = store.delete_all();
    drop(lock);
    assert_eq!((removed.entries.len(), removed.unread.len()), (0, 1));
    assert_eq!(store.entries().entries.len(), 1);
}

/// Two servers whose names become the same account.
const NAMES: [&str; 2] = ["my srv", "my_srv"];

#[test]
fn names_that_differ_in_replaced_characters_keep_their_own_sign_ins() {
    for (dates, first) in [([1, 1], 0), ([1, 2], 0), ([2, 1], 0), ([1, 1], 1), ([1, 2], 1), ([2, 1], 1)] {
        for is_plain in [false, true] {
            let scene = Scene::new(&[]);
            let entries = [0, 1].map(|index| token(NAMES[index], NAMES[index], dates[index]).to_json());
            if is_plain {
                scene.write(PLAIN, &json!(entries).to_string());
            } else {
                let [one, two] = entries;
                shared(&scene, &[(NAMES[0], one), (NAMES[1], two)]);
            }
            let store = scene.store();
            let found = |name: &str| {
                let found = store.credentials(MCP_SERVICE, name).unwrap()?;
                Some((found.server_name, found.token.access_token.reveal().to_owned()))
            };
            let of = |name: &str| Some((name.to_owned(), name.to_owned()));
            let (first, second) = (NAMES[first], NAMES[1 - first]);
            for _ in 0..2 {
                assert_eq!((found(first), found(second)), (of(first), of(second)), "{dates:?} {is_plain}");
            }
            assert!(!scene.path(SHARED).exists() && !scene.path(PLAIN).exists());
            // A renewal replaces only its own entry.
            store.set_credentials(MCP_SERVICE, &token(second, "renewed", 9)).unwrap();
            assert_eq!(found(first), of(first));
            assert_eq!(found(second), Some((second.to_owned(), "renewed".to_owned())));
            assert!(store.delete_credentials(MCP_SERVICE, second).removed);
            assert_eq!(found(first), of(first));
            assert_eq!(store.delete_all().entries.len(), 1);
            assert_eq!((found(first), found(second)), (None, None));
        }
    }
}

#[test]
fn signing_out_of_a_server_in_an_older_file_keeps_the_other_of_the_same_account() {
    let scene = Scene::new(&[]);
    shared(&scene, &NAMES.map(|name| (name, token(name, name, 1).to_json())));
    let store = scene.store();
    assert!(store.delete_credentials(MCP_SERVICE, "my srv").removed);
    let left = store.credentials(MCP_SERVICE, "my_srv").unwrap().unwrap();
    assert_eq!(left.token.access_token.reveal(), "my_srv");
}
