//! Runs every attack at every level, as the current user and again as another user.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use pollux_sandbox::{Holding, Level};

use crate::escapes::{self, ATTACKS, OPEN_AT_LANDLOCK};
use crate::scene::{LEVELS, SCRATCH, Scene, scratch, tell};

/// Another user, who has no other processes.
const OTHER: &str = "65533";

fn attack_everything(network: bool) {
    for scene in LEVELS.into_iter().filter_map(|level| Scene::new(level, network)) {
        let level = scene.sandbox.level();
        let rights = scene.sandbox.confinement().report();
        let before = scene.canary();
        let (program, home) = (scene.path("w/attack"), scene.path("home"));
        let outside = scene.outside.process.id().to_string();
        let port = scene.outside.tcp.local_addr().unwrap().port().to_string();
        let pollux = std::process::id().to_string();
        let mut wrong = Vec::new();
        for attack in ATTACKS.iter().filter(|attack| attack.needs_network != Some(!network)) {
            let arguments = [
                escapes::ARGUMENT,
                attack.name,
                home.to_str().unwrap(),
                &outside,
                &pollux,
                scene.outside.socket.to_str().unwrap(),
                &scene.outside.abstract_name,
                &port,
            ];
            let (status, said) = scene.run(program.as_os_str(), &arguments);
            let right = rights.iter().find(|right| right.name == attack.right);
            let Some(right) = right else { panic!("no right is called `{}`", attack.right) };
            let is_open = level == Level::Landlock && OPEN_AT_LANDLOCK.contains(&attack.name);
            assert!(!is_open || right.holding != Holding::Held, "the report is silent about {}", attack.name);
            match status.code() {
                Some(escapes::REFUSED) if !is_open => {}
                Some(escapes::REACHED) if is_open => {}
                _ => wrong.push(format!("{} {}: {status}: {said}", attack.number, attack.name)),
            }
        }
        assert!(wrong.is_empty(), "{level}, network {network}:\n{}", wrong.join("\n"));
        // The report leaves only the mode and times of files open, which an attack may have changed.
        if level != Level::Landlock {
            assert_eq!(scene.canary(), before, "{level}");
        }
        let Scene { mut outside, .. } = scene;
        assert!(outside.process.try_wait().unwrap().is_none(), "{level}: a process outside was ended");
        let state = std::fs::read_to_string(format!("/proc/{}/stat", outside.process.id())).unwrap();
        assert!(!state.contains(") T"), "{level}: a process outside was stopped");
        drop(outside.process.kill());
    }
}

#[test]
fn no_attack_reaches_more_than_the_report_says() {
    attack_everything(true);
}

#[test]
fn no_attack_reaches_more_without_the_network() {
    attack_everything(false);
}

#[test]
fn no_attack_of_another_user_reaches_more() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let Some(folder) = scratch() else { return };
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let status = Command::new("setpriv")
        .args(["--reuid", OTHER, "--regid", OTHER, "--clear-groups"])
        .arg(std::env::current_exe().unwrap())
        .args(["no_attack_reaches", "sessions::", "--test-threads=1"])
        .env(SCRATCH, folder.path())
        .env("HOME", folder.path())
        .env_remove("CARGO_TARGET_TMPDIR")
        .output();
    match status {
        Ok(output) => assert!(
            output.status.success(),
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => tell(&format!("not tested: setpriv: {error}")),
    }
}
