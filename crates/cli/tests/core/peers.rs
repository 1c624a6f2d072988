//! Processes of other users, and commands in a sandbox.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::scene::Scene;

/// One that every user can start.
const PYTHON: &str = "/usr/bin/python3";

/// Connects, and prints what it reads.
const STRANGER: &str = "
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
try:
    s.sendall(b'{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\",\"params\":{\"program\":\"1\",\"protocol\":[1,1],\"front\":{\"kind\":\"x\"}}}\\n')
    print('read', s.recv(1000))
except OSError as error:
    print('closed', error.errno)
";

#[test]
fn another_user_is_turned_away_even_where_the_folder_lets_them_in() {
    if !rustix::process::geteuid().is_root() || !Path::new(PYTHON).exists() {
        eprintln!("skipped: only root can act as another user, and does so with {PYTHON}");
        return;
    }
    let scene = Scene::new([]);
    let socket = scene.socket().unwrap();
    let mut folder = socket.parent();
    for _ in 0..4 {
        let path = folder.unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        folder = path.parent();
    }
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", PYTHON, "-c", STRANGER])
        .arg(&socket)
        .output();
    let Ok(output) = output else { return eprintln!("skipped: no setpriv") };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said == "read b''\n" || said.starts_with("closed"), "{said} {output:?}");
    assert!(scene.log().contains("refused a connection from uid 65534"), "{}", scene.log());
    // The owner still gets in.
    scene.peer("test");
}

#[test]
fn a_command_in_a_sandbox_cannot_use_the_core() {
    if !Path::new(PYTHON).exists() {
        return eprintln!("skipped: no {PYTHON}");
    }
    let scene = Scene::new([]);
    let socket = scene.socket().unwrap();
    let outside = Command::new(PYTHON).args(["-c", STRANGER]).arg(&socket).output().unwrap();
    assert!(String::from_utf8_lossy(&outside.stdout).contains("protocol"), "{outside:?}");
    for level in ["auto", "landlock"] {
        let path = socket.to_str().unwrap();
        let command = scene.prepare(&["sandbox", "run", "--", PYTHON, "-c", STRANGER, path]);
        let run = command.env("GEMINI_SANDBOX", level).run();
        assert!(!run.stdout.contains("protocol"), "{level}: {run:?}");
    }
}
