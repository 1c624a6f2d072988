//! Runs every attack at every level, as the current user and again as another user.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use pollux_sandbox::{Holding, Level, TripAction, Tripped};

use crate::escapes::{self, Outcome};
use crate::escapes_files::NOT_HERE;
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
        let (mut wrong, active) = (Vec::new(), scene.active());
        for attack in escapes::all().filter(|attack| attack.needs_network != Some(!network)) {
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
            let tripped = scene.sandbox.take_tripped();
            let right = rights.iter().find(|right| right.name == attack.right);
            let Some(right) = right else { panic!("no right is called `{}`", attack.right) };
            let expected = if level == Level::Landlock { attack.landlock } else { attack.namespaces };
            let is_said =
                matches!(expected, Outcome::Refused | Outcome::Told) || right.holding != Holding::Held;
            assert!(is_said, "the report is silent about {}", attack.name);
            let is_told = |tripped: &Tripped| matches!(tripped.action, TripAction::Reported(_));
            let is_failed = |tripped: &Tripped| tripped.action == TripAction::Failed;
            let is_right = match (status.code(), expected) {
                (Some(escapes::REFUSED), Outcome::Refused) => tripped.is_empty(),
                (Some(escapes::REACHED), Outcome::Open) => tripped.is_empty(),
                (Some(escapes::REACHED), Outcome::Told) => !tripped.is_empty() && tripped.iter().all(is_told),
                // It may be undone before it is complete.
                (Some(escapes::REACHED | escapes::REFUSED), Outcome::Undone) => {
                    !tripped.is_empty() && !tripped.iter().any(is_failed) && scene.active() == active
                }
                _ => false,
            };
            if !is_right {
                wrong.push(format!("{} {}: {status}: {said} {tripped:?}", attack.number, attack.name));
            }
        }
        assert!(wrong.is_empty(), "{level}, network {network}:\n{}", wrong.join("\n"));
        // The report leaves only the mode and times of files open, which an attack may have changed.
        if level != Level::Landlock {
            assert_eq!(scene.canary(), before, "{level}");
        }
        assert_eq!(scene.active(), active, "{level}");
        let Scene { mut outside, .. } = scene;
        assert!(outside.process.try_wait().unwrap().is_none(), "{level}: a process outside was ended");
        let state = std::fs::read_to_string(format!("/proc/{}/stat", outside.process.id())).unwrap();
        assert!(!state.contains(") T"), "{level}: a process outside was stopped");
        drop(outside.process.kill());
    }
}

#[test]
fn every_number_of_the_list_is_tried_or_has_a_reason() {
    for number in 1..=99 {
        let is_tried = escapes::all().any(|attack| attack.number == number);
        let is_excused = NOT_HERE.iter().any(|(other, _)| *other == number);
        assert!(is_tried != is_excused, "{number}: tried {is_tried}, excused {is_excused}");
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
        .args(["no_attack_reaches", "sessions::", "protected::", "--test-threads=2"])
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
