//! The key in a real Secret Service: GNOME Keyring on a session bus of its own.
//!
//! `scripts/install-test-services.sh` installs what is needed; without it the tests say so and pass.

use std::io::Write;
use std::path::Path;

use pollux_test_support::{Run, TestHome, reply};
use serde_json::json;

use crate::scene::{MODEL, Scene, binary, parse};

const KEY: &str = "AIzaSyD-0123456789abcdefghijklmnopqrstu";
const NEEDED: &[&str] = &["dbus-run-session", "gnome-keyring-daemon", "secret-tool"];

/// What stands between the parts of a script's output.
const CUT: &str = "=====\n";

fn missing() -> Option<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has = |name: &str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    NEEDED.iter().copied().find(|name| !has(name))
}

/// Runs a script in a session with an unlocked keyring, the program being `$POLLUX`.
fn in_session(scene: &Scene, script: &str) -> Option<Run> {
    if let Some(name) = missing() {
        let said = "is not installed (scripts/install-test-services.sh does it)";
        let _ = writeln!(std::io::stderr(), "skipped: `{name}` {said}");
        return None;
    }
    let script = format!(
        "set -e\nprintf test | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1\ncut() {{ printf '{}'; }}\n{script}",
        CUT.escape_default()
    );
    let run = scene
        .home
        .command(Path::new("dbus-run-session"), ["--", "sh", "-c", &script])
        .against(&scene.server)
        .without_env("GEMINI_API_KEY")
        .env("POLLUX", binary().to_str().unwrap())
        .env("KEY", KEY)
        .env("XDG_RUNTIME_DIR", scene.home.home().to_str().unwrap())
        .run();
    assert_eq!(run.code, Some(0), "{}\n{}", run.stdout, run.stderr);
    Some(run)
}

fn scene() -> Scene {
    let select = json!({"security": {"auth": {"selectedType": "gemini-api-key"}}});
    Scene::with(TestHome::new().settings(select), [reply().text("ok")])
}

#[test]
fn a_real_secret_service_keeps_the_key_where_libsecret_finds_it() {
    let scene = scene();
    let script = format!(
        "printf %s \"$KEY\" | \"$POLLUX\" auth login --api-key-stdin; cut\n\
         secret-tool lookup xdg:schema org.freedesktop.Secret.Generic service gemini-cli-api-key account default-api-key; echo; cut\n\
         \"$POLLUX\" auth status --json; cut\n\
         \"$POLLUX\" -m {MODEL} -p x; cut\n\
         secret-tool search --all service gemini-cli-api-key 2>&1 | grep label; cut\n\
         \"$POLLUX\" auth logout; cut\n\
         secret-tool search --all service gemini-cli-api-key 2>/dev/null || true"
    );
    let Some(run) = in_session(&scene, &script) else { return };
    let parts: Vec<&str> = run.stdout.split(CUT).collect();
    assert_eq!(parts[0], "API key stored in the keychain.\n");
    let entry = parse(parts[1]);
    assert_eq!(entry["token"], json!({"accessToken": KEY, "tokenType": "ApiKey"}));
    assert_eq!(entry["serverName"], "default-api-key");
    let status = parse(parts[2]);
    assert_eq!(
        (&status["storage"]["backend"], &status["source"]),
        (&json!("keychain"), &json!("the stored key"))
    );
    assert_eq!(parts[3], "ok\n");
    assert_eq!(scene.server.request(0).header("x-goog-api-key"), Some(KEY));
    assert_eq!(parts[4], "label = gemini-cli-api-key/default-api-key\n", "the probe left nothing");
    assert_eq!(parts[5], "The stored key was removed.\n");
    assert_eq!(parts[6], "");
    assert!(!scene.home.gemini_dir().join("gemini-credentials.json").exists());
}

#[test]
fn a_key_that_another_program_put_there_is_used() {
    let scene = scene();
    let entry = json!({"serverName": "default-api-key", "updatedAt": 1,
                       "token": {"accessToken": KEY, "tokenType": "ApiKey"}});
    let script = format!(
        "printf %s '{entry}' | secret-tool store --label=gemini-cli-api-key/default-api-key service gemini-cli-api-key account default-api-key\n\
         \"$POLLUX\" -m {MODEL} -p x"
    );
    let Some(run) = in_session(&scene, &script) else { return };
    assert_eq!(run.stdout, "ok\n");
    assert_eq!(scene.server.request(0).header("x-goog-api-key"), Some(KEY));
}

#[test]
fn a_sign_in_at_a_server_is_found_where_gemini_cli_keeps_it() {
    let scene = scene();
    let entry = json!({"serverName": "my server", "updatedAt": 1, "mcpServerUrl": "https://mcp.example/mcp",
                       "token": {"accessToken": "from-gemini-access", "tokenType": "Bearer"}});
    // keytar's attributes; the account is the name as gemini-cli cleans it.
    let script = format!(
        "printf %s '{entry}' | secret-tool store --label=gemini-cli-oauth/my_server service gemini-cli-oauth account my_server\n\
         \"$POLLUX\" auth list; cut\n\
         \"$POLLUX\" auth logout --all >/dev/null; cut\n\
         secret-tool search --all service gemini-cli-oauth 2>/dev/null || true"
    );
    let Some(run) = in_session(&scene, &script) else { return };
    let parts: Vec<&str> = run.stdout.split(CUT).collect();
    assert!(parts[0].contains("my_server") && parts[0].contains("keychain"), "{}", parts[0]);
    assert!(!parts[0].contains("from-gemini-access"));
    assert_eq!(parts[2], "", "both programs are signed out");
}

#[test]
fn a_bus_without_a_keychain_leads_to_the_file() {
    let scene = Scene::new([]);
    let bus = scene.home.home().join("no-bus");
    let run = scene
        .home
        .command(binary(), ["auth", "status", "--json"])
        .env("DBUS_SESSION_BUS_ADDRESS", &format!("unix:path={}", bus.display()))
        .run();
    let status = parse(&run.stdout);
    assert_eq!(status["storage"]["backend"], "encrypted_file");
    let reason = status["storage"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("no keychain is available"), "{reason}");
}

/// A bus that takes connections and never says anything.
fn silent_bus(scene: &Scene) -> (std::os::unix::net::UnixListener, String) {
    let path = scene.home.home().join("silent-bus");
    let bus = std::os::unix::net::UnixListener::bind(&path).unwrap();
    (bus, format!("unix:path={}", path.display()))
}

#[test]
fn a_logout_says_when_a_keychain_could_not_be_asked() {
    let scene = Scene::new([]);
    let (_bus, silent) = silent_bus(&scene);
    let gone = format!("unix:path={}", scene.home.home().join("no-bus").display());
    let logout = |address: Option<&str>, all: bool| {
        let run = scene
            .home
            .command(binary(), if all { &["auth", "logout", "--all"][..] } else { &["auth", "logout"] });
        let run = run.without_env("GEMINI_API_KEY").limit(std::time::Duration::from_secs(30));
        let run = match address {
            Some(address) => run.env("DBUS_SESSION_BUS_ADDRESS", address),
            None => run,
        };
        run.run()
    };
    // Nothing was ever stored, and there is no keychain: that is an answer.
    for all in [false, true] {
        let run = logout(None, all);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert!(run.stdout.contains("was stored"), "{}", run.stdout);
        assert_eq!(logout(Some(&gone), all).code, Some(0));
    }
    // One that hangs may hold anything.
    for all in [false, true] {
        let run = logout(Some(&silent), all);
        assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{}", run.stderr);
        assert!(
            run.stderr.contains("could not reach the keychain") && run.stderr.contains("did not respond")
        );
    }
    // An earlier session in this home stored a key in a keychain that this one has not got.
    let known = scene.home.gemini_dir().join("keychain_entries.json");
    std::fs::create_dir_all(scene.home.gemini_dir()).unwrap();
    std::fs::write(&known, r#"{"gemini-cli-api-key": ["default-api-key"]}"#).unwrap();
    for (address, all) in
        [(None, false), (None, true), (Some(gone.as_str()), false), (Some(gone.as_str()), true)]
    {
        let run = logout(address, all);
        assert_eq!(run.code, Some(1), "{}", run.stdout);
        assert!(run.stderr.contains("could not reach the keychain"), "{}", run.stderr);
        assert!(!run.stdout.contains("No key was stored"), "{}", run.stdout);
    }
    let listed = scene.home.command(binary(), ["auth", "list"]).run();
    assert!(listed.stderr.contains("entries in the keychain are not listed"), "{}", listed.stderr);
}
