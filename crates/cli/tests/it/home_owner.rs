//! Whose home the program uses when the environment names none, and what it refuses to use.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};

use pollux_test_support::{TestHome, reply};
use serde_json::json;

use crate::scene::{Scene, binary};

const SOMEBODY: u32 = 12_345;

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

/// A home in a shared folder with a hook that leaves a trace.
fn planted(folder: &Path) {
    let hook = format!("touch '{}'", folder.join("hook-ran").display());
    let settings = json!({"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": hook}]}]}});
    fs::create_dir_all(folder.join(".gemini")).unwrap();
    fs::write(folder.join(".gemini/settings.json"), settings.to_string()).unwrap();
}

/// Runs the program with nothing but these variables.
fn bare(folder: &Path, args: &[&str], vars: &[(&str, &str)], uid: Option<u32>) -> Option<Output> {
    let mut command = Command::new(binary());
    command
        .args(args)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("GEMINI_API_KEY", "x")
        .current_dir(folder);
    command.envs(vars.iter().copied());
    if let Some(uid) = uid {
        command.uid(uid).gid(uid);
    }
    // A binary that another user may not reach cannot be run.
    command.output().ok()
}

#[test]
fn without_home_a_shared_folder_is_not_the_home() {
    let shared = tempfile::tempdir().unwrap();
    planted(shared.path());
    let tmp = shared.path().to_str().unwrap();
    for home in [None, Some(""), Some("."), Some("relative")] {
        let mut vars = vec![("TMPDIR", tmp), ("TEMP", tmp), ("TMP", tmp)];
        vars.extend(home.map(|home| ("HOME", home)));
        let output =
            bare(shared.path(), &["config", "get", "hooks", "--skip-trust", "--origin"], &vars, None);
        let Some(output) = output else {
            println!("skipped: the program could not be started");
            return;
        };
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("hook-ran"), "{home:?}: {said}");
    }
}

#[test]
fn a_user_without_an_entry_and_without_home_is_told_what_to_set() {
    if !is_root() {
        println!("skipped: only root can run as a user that does not exist");
        return;
    }
    let shared = tempfile::tempdir().unwrap();
    fs::set_permissions(shared.path(), fs::Permissions::from_mode(0o777)).unwrap();
    planted(shared.path());
    let tmp = shared.path().to_str().unwrap();
    for args in [
        &["--skip-trust", "-p", "hi"][..],
        &["config", "show"],
        &["--list-sessions"],
        &["sessions", "list"],
        &["trust", "show"],
    ] {
        let Some(output) = bare(shared.path(), args, &[("TMPDIR", tmp)], Some(4_242_424)) else {
            println!("skipped: the program could not be started");
            return;
        };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.code() == Some(126) || said.contains("Permission denied") {
            println!("skipped: {said}");
            return;
        }
        assert_eq!(output.status.code(), Some(52), "{args:?}: {said}");
        assert!(said.contains("HOME") && said.contains("GEMINI_CLI_HOME"), "{said}");
    }
    assert!(!shared.path().join("hook-ran").exists());
    assert_eq!(fs::read_dir(shared.path()).unwrap().count(), 1, "nothing was created");
}

#[test]
fn what_belongs_to_somebody_else_is_refused() {
    if !is_root() {
        println!("skipped: only root can give files away");
        return;
    }
    for name in [
        ".gemini",
        ".gemini/settings.json",
        ".gemini/hooks",
        ".gemini/policies/x.toml",
        ".gemini/.env",
        ".env",
    ] {
        let home = TestHome::new()
            .settings(json!({}))
            .home_file(".gemini/hooks/x.sh", "")
            .home_file(".gemini/policies/x.toml", "")
            .home_file(".gemini/.env", "A=1\n")
            .home_file(".env", "B=1\n");
        let path = home.home().join(name);
        chown(&path, Some(SOMEBODY), None).unwrap();
        let scene = Scene::with(home, []);
        for args in [&["-p", "hi"][..], &["config", "show"], &["--list-sessions"], &["auth", "status"]] {
            let run = scene.prepare(args).run();
            assert_eq!(run.code, Some(52), "{name} {args:?}: {}", run.stderr);
            let wanted = format!("`{}` belongs to another user (uid {SOMEBODY})", path.display());
            assert!(run.stderr.contains(&wanted), "{name}: {}", run.stderr);
        }
        assert!(scene.server.requests().is_empty());
    }
    // A link that somebody else put there, to a file of one's own.
    let home = TestHome::new().home_file("own.json", "{}");
    fs::create_dir_all(home.gemini_dir()).unwrap();
    let link = home.gemini_dir().join("settings.json");
    std::os::unix::fs::symlink(home.home().join("own.json"), &link).unwrap();
    lchown(&link, Some(SOMEBODY), None).unwrap();
    assert_eq!(home.command(binary(), ["config", "show"]).run().code, Some(52));
}

#[test]
fn rights_that_are_too_wide_are_taken_back_before_anything_is_read() {
    let home = TestHome::new().settings(json!({})).home_file(".gemini/.env", "A=1\n");
    let scene = Scene::with(home, [reply().text("ok"), reply().text("ok")]);
    let login = scene.home.command(binary(), ["auth", "login", "--api-key-stdin"]);
    assert_eq!(login.stdin("AIzaSyD-0123456789abcdefghijklmnopqrstu").run().code, Some(0));
    let file = |name: &str| scene.home.gemini_dir().join(name);
    let set = |name: &str, mode| fs::set_permissions(file(name), fs::Permissions::from_mode(mode)).unwrap();
    for (name, mode) in
        [("gemini-credentials.json", 0o644), (".env", 0o640), ("settings.json", 0o666), ("", 0o777)]
    {
        set(name, mode);
    }
    let run = scene.run(&["-p", "x"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let mode = |name: &str| fs::metadata(file(name)).unwrap().mode() & 0o777;
    assert_eq!((mode("gemini-credentials.json"), mode(".env")), (0o600, 0o600));
    assert_eq!((mode("settings.json") & 0o002, mode("") & 0o002), (0, 0));
    assert_eq!(run.stderr.matches("was writable by every user").count(), 2, "{}", run.stderr);
    let again = scene.run(&["-p", "x"]);
    assert!(!again.stderr.contains("writable"), "{}", again.stderr);
}
