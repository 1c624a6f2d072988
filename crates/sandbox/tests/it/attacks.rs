//! Runs every attack at every level, as the current user and again as another user.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pollux_sandbox::{Holding, Level, TripAction, Tripped};

use crate::escapes::{self, Attack, Outcome};
use crate::escapes_files::NOT_HERE;
use crate::scene::{LEVELS, SCRATCH, Scene, scratch, tell};

/// Another user, who has no other processes.
const OTHER: &str = "65533";
/// Set where the test runs in a table of processes of its own.
const OWN_PROCESSES: &str = "POLLUX_TEST_OWN_PROCESSES";
/// Starts the test there. Its numbers are higher than those that commands have in their own tables.
const AMONG_OWN: &str = "echo 20000 > /proc/sys/kernel/ns_last_pid || exit 77; \"$@\"; exit $?";
const NO_NUMBERS: i32 = 77;
/// The last version of Landlock without a scope for signals and abstract sockets.
const WITHOUT_SCOPES: i64 = 5;

fn has_own_processes() -> bool {
    let parent = rustix::process::getppid().map(|id| id.as_raw_nonzero().get());
    std::env::var_os(OWN_PROCESSES).is_some() && parent == Some(1)
}

/// Whether an attack can be tried here.
fn is_tried(attack: &Attack, network: bool) -> bool {
    // With own processes, only those are of interest that signals and sockets are about.
    let is_meant = match has_own_processes() {
        true => [escapes::PROCESSES, escapes::SOCKETS].contains(&attack.right),
        false => attack.name != escapes::SIGNAL_EVERYONE,
    };
    is_meant && attack.needs_network != Some(!network)
}

/// Runs an attack inside. Returns its exit code and what it said.
fn try_attack(scene: &Scene, attack: &Attack) -> (Option<i32>, String) {
    let (program, home) = (scene.path("w/attack"), scene.path("home"));
    let outside = scene.outside.process.id().to_string();
    let port = scene.outside.tcp.local_addr().unwrap().port().to_string();
    let pollux = std::process::id().to_string();
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
    match scene.try_run(program.as_os_str(), &arguments) {
        Ok((status, said)) => (status.code(), said),
        Err(error) => (None, error.to_string()),
    }
}

fn attack_everything(network: bool) {
    for scene in LEVELS.into_iter().filter_map(|level| Scene::new(level, network)) {
        let level = scene.sandbox.level();
        let rights = scene.sandbox.confinement().report();
        let before = scene.canary();
        let (mut wrong, active) = (Vec::new(), scene.active());
        for attack in escapes::all().filter(|attack| is_tried(attack, network)) {
            let (code, said) = try_attack(&scene, attack);
            let tripped = scene.sandbox.take_tripped();
            let right = rights.iter().find(|right| right.name == attack.right);
            let Some(right) = right else { panic!("no right is called `{}`", attack.right) };
            let expected = if level == Level::Landlock { attack.landlock } else { attack.namespaces };
            let is_said =
                matches!(expected, Outcome::Refused | Outcome::Told) || right.holding != Holding::Held;
            assert!(is_said, "the report is silent about {}", attack.name);
            let is_told = |tripped: &Tripped| matches!(tripped.action, TripAction::Reported(_));
            let is_failed = |tripped: &Tripped| tripped.action == TripAction::Failed;
            let is_right = match (code, expected) {
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
                wrong.push(format!("{} {}: {code:?}: {said} {tripped:?}", attack.number, attack.name));
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
fn sockets_that_come_and_go_uncover_no_other() {
    let Some(place) = scratch() else { return };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let (folder, is_over) = (place.path(), &is_over);
            threads.spawn(move || {
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let path = folder.join(format!("{thread}-{number}"));
                    let listener = UnixListener::bind(&path);
                    std::thread::sleep(Duration::from_millis(3));
                    drop((listener, std::fs::remove_file(path)));
                }
            });
        }
        let attack = escapes::all().find(|attack| attack.name == "socket-in-a-home").unwrap();
        let tried: Vec<_> = LEVELS
            .into_iter()
            .filter(|level| *level != Level::Landlock)
            .flat_map(|level| [level; 4])
            .filter_map(|level| Some((level, try_attack(&Scene::new(level, true)?, attack))))
            .collect();
        is_over.store(true, Ordering::Relaxed);
        for (level, (code, said)) in tried {
            assert_eq!(code, Some(escapes::REFUSED), "{level}: {said}");
        }
    });
}

#[test]
fn no_attack_reaches_more_without_the_network() {
    attack_everything(false);
}

/// With an older kernel, exactly what the report calls open in addition is open in addition.
fn attack_an_older_kernel(network: bool) {
    for level in LEVELS {
        pollux_sandbox::pretend_landlock(None);
        let Some(new) = Scene::new(level, network) else { continue };
        let held = new.sandbox.confinement().report();
        drop(new);
        pollux_sandbox::pretend_landlock(Some(WITHOUT_SCOPES));
        let said = Scene::new(level, network).unwrap().sandbox.confinement().report();
        let mut opened: Vec<&str> =
            said.iter().zip(&held).filter(|(now, then)| now != then).map(|(now, _)| now.name).collect();
        let mut reached: Vec<&str> = Vec::new();
        for attack in escapes::all().filter(|attack| is_tried(attack, network)) {
            let expected = if level == Level::Landlock { attack.landlock } else { attack.namespaces };
            if expected != Outcome::Refused {
                continue;
            }
            // One that succeeds may end the processes of its scene.
            let mut scene = Scene::new(level, network).unwrap();
            let (code, said) = try_attack(&scene, attack);
            match code {
                Some(escapes::REACHED) => reached.push(attack.right),
                // It ended itself together with the process outside.
                None if scene.outside.has_ended() => reached.push(attack.right),
                Some(escapes::REFUSED) => {}
                other => panic!("{level}, {}: {other:?}: {said}", attack.name),
            }
        }
        for names in [&mut opened, &mut reached] {
            names.sort_unstable();
            names.dedup();
        }
        tell(&format!("{level}, network {network}: open without scopes: {reached:?}"));
        assert_eq!(reached, opened, "{level}, network {network}");
    }
    pollux_sandbox::pretend_landlock(None);
}

/// An attack that succeeds reaches this process too. What it starts is ended as usual.
#[expect(unsafe_code, reason = "the standard library has no signal handlers")]
fn survive_signals() {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGTERM, nothing as extern "C" fn(i32) as libc::sighandler_t) };
}

/// Runs with a table of processes of its own, in which the attacks can reach everything.
#[test]
fn inside_no_attack_gets_out() {
    if !has_own_processes() {
        return;
    }
    survive_signals();
    let network = std::env::var_os(OWN_PROCESSES).is_some_and(|word| word == "network");
    attack_everything(network);
    attack_an_older_kernel(network);
}

#[test]
fn no_attack_on_processes_and_sockets_reaches_more() {
    among_own_processes("network");
}

#[test]
fn no_attack_on_processes_and_sockets_reaches_more_without_the_network() {
    among_own_processes("none");
}

fn among_own_processes(network: &str) {
    if has_own_processes() {
        return;
    }
    let own_user: &[&str] =
        if rustix::process::geteuid().is_root() { &[] } else { &["--user", "--map-current-user"] };
    let output = Command::new("unshare")
        .args(own_user)
        .args(["--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", AMONG_OWN, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["inside_no_attack_gets_out", "--nocapture", "--test-threads=1"])
        .env(OWN_PROCESSES, network)
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return tell(&format!("not tested: unshare: {error}")),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    if err.starts_with("unshare: ") || output.status.code() == Some(NO_NUMBERS) {
        return tell(&format!("not tested: {err}"));
    }
    assert!(output.status.success() && out.contains("1 passed"), "{out}{err}");
    tell(&err);
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
