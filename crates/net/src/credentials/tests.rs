use std::fs;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::json;

use super::keychain::memory::MemoryKeychain as Memory;
use super::keychain::{Keychain, Opener};
use super::*;

// Both files were made by Node's crypto for host `build-host` and user `alice`.
const NEWER: &str = include_str!("../../tests/fixtures/gemini-credentials.json");
const OLDER: &str = include_str!("../../tests/fixtures/mcp-oauth-tokens-v2.json");
const SHARED: &str = "mcp-oauth-tokens-v2.json";
const PLAIN: &str = "mcp-oauth-tokens.json";

struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scene = Self { folder };
        for (name, text) in files {
            scene.write(name, text);
        }
        scene
    }

    fn write(&self, name: &str, text: &str) {
        io_write(&self.path(name), text);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn options(&self) -> StoreOptions {
        StoreOptions {
            gemini_dir: self.folder.path().to_owned(),
            host: "build-host".into(),
            user: "alice".into(),
            ..StoreOptions::default()
        }
    }

    /// Without a keychain.
    fn store(&self) -> CredentialStore {
        CredentialStore::new(StoreOptions { force_file: true, ..self.options() })
    }

    fn with_keychain(&self, opener: Opener) -> CredentialStore {
        CredentialStore::with(self.options(), Ok(TimedKeychain::new(opener, Duration::from_secs(10))))
    }

    /// As it is after a write that could not reach the keychain.
    fn put_in_file(&self, service: &str, account: &str, value: &str) {
        let set = |entries: &mut pollux_domain::JsonObject| {
            let accounts = entries.entry(service).or_insert_with(|| json!({}));
            accounts[account] = Value::from(value);
            true
        };
        self.store().file.change(set).unwrap();
    }

    fn key(&self) -> Result<Option<String>, CredentialError> {
        Ok(self.store().api_key()?.map(|key| key.reveal().to_owned()))
    }
}

fn io_write(path: &Path, text: &str) {
    std::io::Write::write_all(&mut fs::File::create(path).unwrap(), text.as_bytes()).unwrap();
}

fn token(name: &str, access: &str, updated_at: i64) -> OAuthCredentials {
    let entry = json!({
        "serverName": name, "updatedAt": updated_at,
        "token": {"accessToken": access, "refreshToken": "r", "tokenType": "Bearer"}
    });
    OAuthCredentials::read(&entry).unwrap()
}

/// One that answers every question with an error.
struct Locked;

impl Keychain for Locked {
    fn get(&mut self, _: &str, _: &str) -> Result<Option<String>, KeychainError> {
        Err(KeychainError::Locked)
    }
    fn set(&mut self, _: &str, _: &str, _: &str) -> Result<(), KeychainError> {
        Err(KeychainError::Locked)
    }
    fn delete(&mut self, _: &str, _: &str) -> Result<bool, KeychainError> {
        Err(KeychainError::Locked)
    }
    fn accounts(&mut self, _: &str) -> Result<Vec<String>, KeychainError> {
        Err(KeychainError::Locked)
    }
}

fn memory() -> Opener {
    Memory::default().opener()
}

#[test]
fn a_key_stored_by_upstream_is_found_in_either_file() {
    assert_eq!(Scene::new(&[(FILE, NEWER)]).key().unwrap().as_deref(), Some("stored-key-1"));
    assert_eq!(Scene::new(&[(SHARED, OLDER)]).key().unwrap().as_deref(), Some("older-key-2"));
    let both = Scene::new(&[(FILE, NEWER), (SHARED, "garbage")]);
    assert_eq!(both.key().unwrap().as_deref(), Some("stored-key-1"));
    assert_eq!(Scene::new(&[]).key().unwrap(), None);
}

#[test]
fn another_machines_file_is_refused_in_upstreams_words_and_kept() {
    let scene = Scene::new(&[(FILE, NEWER)]);
    let store =
        CredentialStore::new(StoreOptions { host: "other".into(), force_file: true, ..scene.options() });
    let path = scene.path(FILE);
    let text = format!(
        "Corrupted credentials file detected at: {}\nPlease delete or rename this file to resolve the issue.",
        path.display()
    );
    assert_eq!(store.api_key().unwrap_err().to_string(), text);
    assert_eq!(store.set_api_key(&Secret::new("k"), 1).unwrap_err().to_string(), text);
    let removal = store.delete_api_key();
    assert_eq!(removal.unread[0].message, text);
    assert!(!removal.removed && removal.unread[0].hint.is_some());
    assert_eq!(fs::read_to_string(path).unwrap(), NEWER);
}

#[test]
fn hostile_files_are_errors_and_not_panics() {
    for text in ["", ":", "zz:zz:zz", "a:b:c:d", "é:é:é"] {
        let result = Scene::new(&[(FILE, text)]).key();
        assert!(matches!(result, Err(CredentialError::Corrupted { .. })), "{text:?}");
    }
}

#[test]
fn a_stored_key_comes_back_and_leaves_nothing_when_it_is_removed() {
    let scene = Scene::new(&[]);
    let store = scene.store();
    assert_eq!(store.set_api_key(&Secret::new("key-9"), 1).unwrap(), Backend::File(FileReason::Forced));
    assert_eq!(scene.key().unwrap().as_deref(), Some("key-9"));
    let text = fs::read_to_string(scene.path(FILE)).unwrap();
    assert!(!text.contains("key-9"));
    assert_eq!(text.split(':').next().unwrap().len(), 24, "an IV of 12 bytes");
    assert!(store.delete_api_key().removed);
    assert_eq!(store.delete_api_key(), Removal::default());
    assert_eq!(fs::read_dir(scene.folder.path()).unwrap().count(), 0);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "Node is the other reader of the format")]
fn nodes_crypto_opens_our_file() {
    let scene = Scene::new(&[]);
    scene.store().set_api_key(&Secret::new("key-for-node"), 7).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/open.mjs");
    let run = std::process::Command::new("node")
        .args([script.as_path(), &scene.path(FILE), Path::new("build-host"), Path::new("alice")])
        .output();
    let Ok(run) = run else {
        eprintln!("skipped: there is no node on this machine");
        return;
    };
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let plain: Value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text} {}", String::from_utf8_lossy(&run.stderr)));
    let entry = plain[API_KEY_SERVICE][API_KEY_ACCOUNT].as_str().unwrap();
    let entry: Value = serde_json::from_str(entry).unwrap();
    assert_eq!(
        entry,
        json!({"serverName": "default-api-key", "token": {"accessToken": "key-for-node", "tokenType": "ApiKey"}, "updatedAt": 7})
    );
}

#[cfg(unix)]
#[test]
fn modes_that_are_too_open_are_repaired() {
    use std::os::unix::fs::PermissionsExt;
    let scene = Scene::new(&[(FILE, NEWER)]);
    let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    open(&scene.path(FILE), 0o644);
    open(scene.folder.path(), 0o755);
    scene.store().set_api_key(&Secret::new("k"), 1).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&scene.path(FILE)), mode(scene.folder.path())), (0o600, 0o700));
}

#[test]
fn an_older_encrypted_entry_moves_and_only_it_leaves_its_file() {
    let scene = Scene::new(&[(SHARED, OLDER)]);
    let store = scene.store();
    assert_eq!(store.api_key().unwrap().unwrap().reveal(), "older-key-2");
    assert!(scene.path(FILE).exists());
    assert!(
        store.entries().entries.iter().all(|entry| entry.place != CredentialPlace::File(scene.path(SHARED))
            || entry.account != API_KEY_ACCOUNT)
    );
    fs::remove_file(scene.path(SHARED)).ok();
    assert_eq!(scene.key().unwrap().as_deref(), Some("older-key-2"));
}

#[test]
fn nothing_leaves_an_older_file_while_the_new_one_cannot_be_written() {
    let plain =
        json!([{"serverName": "a b", "token": {"accessToken": "t", "tokenType": "Bearer"}}]).to_string();
    let scene = Scene::new(&[(FILE, "damaged"), (PLAIN, &plain)]);
    assert!(scene.store().credentials(MCP_SERVICE, "a b").is_err());
    assert_eq!(fs::read_to_string(scene.path(FILE)).unwrap(), "damaged");
    assert_eq!(fs::read_to_string(scene.path(PLAIN)).unwrap(), plain);
}

#[test]
fn plain_tokens_of_upstream_are_read_encrypted_and_taken_out_of_the_plain_file() {
    let plain = json!([
        {"serverName": "a b", "token": {"accessToken": "t-1", "tokenType": "Bearer"}, "updatedAt": 1},
        {"serverName": "other", "token": {"accessToken": "t-2", "tokenType": "Bearer"}, "extra": true}
    ]);
    let scene = Scene::new(&[(PLAIN, &plain.to_string())]);
    let store = scene.store();
    let found = store.credentials(MCP_SERVICE, "a b").unwrap().unwrap();
    assert_eq!((found.token.access_token.reveal(), found.server_name.as_str()), ("t-1", "a b"));
    let left: Value = serde_json::from_str(&fs::read_to_string(scene.path(PLAIN)).unwrap()).unwrap();
    assert_eq!(left, json!([plain[1].clone()]));
    assert_eq!(store.credentials(MCP_SERVICE, "a b").unwrap().unwrap(), found);
    assert!(store.credentials(MCP_SERVICE, "other").unwrap().is_some());
    assert!(!scene.path(PLAIN).exists());
    // Listing moves nothing.
    let scene = Scene::new(&[(PLAIN, &plain.to_string())]);
    let listed = scene.store().entries().entries;
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().all(|entry| entry.place == CredentialPlace::PlainFile(scene.path(PLAIN))));
    assert!(!scene.path(FILE).exists());
}

#[test]
fn a_keychain_that_works_is_used_and_the_copy_in_the_file_goes() {
    let scene = Scene::new(&[(FILE, NEWER)]);
    let store = scene.with_keychain(memory());
    assert_eq!(store.api_key().unwrap().unwrap().reveal(), "stored-key-1");
    assert_eq!(store.set_api_key(&Secret::new("newer"), 99).unwrap(), Backend::Keychain);
    assert_eq!(store.api_key().unwrap().unwrap().reveal(), "newer");
    assert_eq!(scene.key().unwrap(), None);
    let listed = store.entries().entries;
    let keys: Vec<&CredentialPlace> =
        listed.iter().filter(|entry| entry.service == API_KEY_SERVICE).map(|entry| &entry.place).collect();
    assert_eq!(keys, [&CredentialPlace::Keychain], "the probe's entry is gone, too");
    assert!(store.delete_api_key().removed);
    assert_eq!(store.api_key().unwrap(), None);
}

#[test]
fn of_two_copies_the_newer_one_counts() {
    for (in_keychain, in_file, expected) in [(5, 9, "file"), (9, 5, "keychain")] {
        let scene = Scene::new(&[]);
        let store = scene.with_keychain(memory());
        store.set_credentials(MCP_SERVICE, &token("s", "keychain", in_keychain)).unwrap();
        // Another session of the same user, without the keychain.
        scene.put_in_file(MCP_SERVICE, "s", &token("s", "file", in_file).to_json().to_string());
        let found = store.credentials(MCP_SERVICE, "s").unwrap().unwrap();
        assert_eq!(found.token.access_token.reveal(), expected);
        assert!(store.delete_credentials(MCP_SERVICE, "s").removed);
        assert_eq!(store.credentials(MCP_SERVICE, "s").unwrap(), None);
        assert_eq!(scene.store().credentials(MCP_SERVICE, "s").unwrap(), None);
    }
}

#[test]
fn a_keychain_that_hangs_costs_one_wait_and_then_none() {
    let scene = Scene::new(&[]);
    let (release, hang) = mpsc::channel::<()>();
    let opener: Opener = Box::new(move || {
        let _ = hang.recv();
        Err(KeychainError::Unsupported)
    });
    let patience = Duration::from_millis(50);
    let store = CredentialStore::with(scene.options(), Ok(TimedKeychain::new(opener, patience)));
    let timed_out = KeychainError::TimedOut(patience * 5);
    let in_file = Backend::File(FileReason::Keychain(timed_out.clone()));
    assert_eq!(store.set_api_key(&Secret::new("k"), 1).unwrap(), in_file);
    for _ in 0..100 {
        assert_eq!(store.look_in_keychain(API_KEY_SERVICE, "x"), Err(timed_out.clone()));
    }
    assert_eq!(store.api_key().unwrap().unwrap().reveal(), "k");
    drop(release);
}

#[test]
fn a_locked_keychain_is_reported_if_no_other_source_has_the_key() {
    let scene = Scene::new(&[]);
    let store = scene.with_keychain(Box::new(|| Ok(Box::new(Locked))));
    assert!(matches!(store.api_key(), Err(CredentialError::Keychain(KeychainError::Locked))));
    let locked = Backend::File(FileReason::Keychain(KeychainError::Locked));
    assert_eq!(store.set_api_key(&Secret::new("k"), 1).unwrap(), locked);
    assert_eq!(store.api_key().unwrap().unwrap().reveal(), "k");
}

#[test]
fn without_a_bus_the_file_is_chosen_without_a_question() {
    let env = Env::new([("XDG_RUNTIME_DIR".to_owned(), "/nonexistent".to_owned())], PathBuf::new());
    let scene = Scene::new(&[]);
    let options = StoreOptions::from_env(&env, scene.folder.path(), "h".into(), "u".into());
    if cfg!(target_os = "macos") {
        return;
    }
    assert_eq!(options.keychain, KeychainAddress::NoBus);
    let backend = CredentialStore::new(options).backend();
    assert_eq!(backend, Backend::File(FileReason::Keychain(KeychainError::NoSession)));
    let forced = Env::new([("GEMINI_FORCE_FILE_STORAGE".to_owned(), "true".to_owned())], PathBuf::new());
    let options = StoreOptions::from_env(&forced, scene.folder.path(), "h".into(), "u".into());
    assert_eq!(CredentialStore::new(options).backend(), Backend::File(FileReason::Forced));
}

#[test]
fn writers_at_the_same_time_lose_nothing() {
    let scene = Scene::new(&[]);
    std::thread::scope(|scope| {
        for writer in 0..6 {
            let store = scene.store();
            scope.spawn(move || {
                for round in 0..3 {
                    let name = format!("server-{writer}-{round}");
                    store.set_credentials(MCP_SERVICE, &token(&name, &name, 1)).unwrap();
                }
            });
        }
    });
    assert_eq!(scene.store().entries().entries.len(), 18);
}

#[test]
fn everything_goes_with_delete_all_and_secrets_of_extensions_stay() {
    let plain =
        json!([{"serverName": "x", "token": {"accessToken": "t", "tokenType": "Bearer"}}]).to_string();
    let scene = Scene::new(&[(SHARED, OLDER), (PLAIN, &plain), ("oauth_creds.json", "{}")]);
    let store = scene.store();
    store.set_credentials(A2A_SERVICE, &token("agent", "t", 1)).unwrap();
    store.set_secret("Gemini CLI Extensions x 1", "TOKEN", &Secret::new("s")).unwrap();
    let removed = store.delete_all().entries;
    assert!(removed.iter().any(CredentialEntry::is_google_login), "{removed:?}");
    assert_eq!(store.entries(), Listing::default());
    assert_eq!(store.api_key().unwrap(), None);
    assert!(!scene.path(PLAIN).exists() && !scene.path("oauth_creds.json").exists());
    let kept = store.secret("Gemini CLI Extensions x 1", "TOKEN").unwrap().unwrap();
    assert_eq!(kept.reveal(), "s");
}

mod files;
mod gemini_cli;
mod reach;
