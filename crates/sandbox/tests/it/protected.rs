//! Files that other programs act on: what commands do to them is undone, also if the program is killed.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::AsFd as _;

use pollux_sandbox::holder::Start;
use pollux_sandbox::{Level, Sandbox, SandboxRequest, TripAction, Tripped};

use crate::scene::{LEVELS, Scene, request, tell};
use crate::sessions::eventually;
use crate::soak;

fn scenes() -> impl Iterator<Item = Scene> {
    LEVELS.into_iter().filter_map(|level| Scene::new(level, true))
}

fn names(tripped: &[Tripped]) -> Vec<(String, &'static str)> {
    let mut names: Vec<_> = tripped
        .iter()
        .map(|one| (one.path.file_name().unwrap().to_string_lossy().into_owned(), one.action.as_str()))
        .collect();
    names.sort();
    names
}

#[test]
fn changes_are_undone_and_told_with_what_was_done() {
    let Some(scene) = Scene::new(Level::Landlock, true) else { return };
    let (status, said) = scene
        .shell("echo x >> .git/config; rm .git/hooks/pre-push; echo {} > .gemini/mine.json; echo x > .envrc");
    assert!(status.success(), "{said}");
    let tripped = scene.sandbox.take_tripped();
    let expected =
        [(".envrc", "renamed"), ("config", "restored"), ("mine.json", "renamed"), ("pre-push", "restored")];
    assert_eq!(names(&tripped), expected.map(|(name, action)| (name.to_owned(), action)));
    let config = tripped.iter().find(|one| one.path.ends_with("config")).unwrap();
    let TripAction::Restored(Some(kept)) = &config.action else { panic!("{config:?}") };
    assert_eq!(fs::read_to_string(kept).unwrap(), "[core]\nx\n", "nothing is lost");
    assert_eq!(fs::read_to_string(scene.path("w/.git/config")).unwrap(), "[core]\n");
    assert_eq!(fs::read_to_string(scene.path("w/.git/hooks/pre-push")).unwrap(), "mine");
    assert!(pollux_sandbox::notice(&tripped).unwrap().contains("restored it and kept the changed version"));
    assert!(scene.sandbox.take_tripped().is_empty());
}

#[test]
fn a_repository_that_a_command_creates_is_usable_and_protected_from_then_on() {
    for scene in scenes() {
        let level = scene.sandbox.level();
        let run = |script: &str| {
            let (status, said) = scene.shell(&format!(
                "export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory \
                 GIT_CONFIG_VALUE_0='*'; {script}"
            ));
            assert!(status.success(), "{level}: {script}: {said}");
            scene.sandbox.take_tripped()
        };
        if !scene.shell("git --version").0.success() {
            return tell("not tested: no git");
        }
        assert_eq!(
            run("git init -q sub && git -C sub commit -q --allow-empty -m x --author 'a <a@b.c>' || true"),
            []
        );
        let tripped = run("git -C sub config core.fsmonitor ./evil; echo evil > sub/.git/hooks/pre-commit");
        assert_eq!(
            names(&tripped),
            [("config".to_owned(), "restored"), ("pre-commit".to_owned(), "renamed")],
            "{level}"
        );
        assert!(
            !fs::read_to_string(scene.path("w/sub/.git/config")).unwrap().contains("fsmonitor"),
            "{level}"
        );
        assert_eq!(run("mv sub moved && git -C moved status --short"), [], "{level}");
        let tripped = run("echo evil > moved/.git/hooks/pre-commit");
        assert_eq!(names(&tripped), [("pre-commit".to_owned(), "renamed")], "{level}");
        assert_eq!(run("rm -r moved"), [], "{level}");
        assert!(!scene.path("w/moved").exists(), "{level}: it stays removed");
        assert_eq!(run("true"), [], "{level}");
    }
}

#[test]
fn a_busy_command_does_not_delay_the_restoration() {
    let Some(scene) = Scene::new(Level::Landlock, true) else { return };
    let script = "echo evil >> .git/config; while [ ! -e stop ]; do : > a; rm a; done";
    let (mut held, _armed, _output) = scene.start("/bin/sh".as_ref(), &["-c", script]);
    let config = || fs::read_to_string(scene.path("w/.git/config")).unwrap_or_default();
    eventually("it is changed and restored", || {
        scene.path("w/.git/config.sandbox-blocked-1").exists() && config() == "[core]\n"
    });
    fs::create_dir(scene.path("w/stop")).unwrap();
    held.wait().unwrap();
}

#[test]
fn the_user_can_allow_a_protected_file() {
    for level in LEVELS {
        let Some(scene) = Scene::new(level, true) else { continue };
        let allowed = vec![scene.path("w/.git/hooks"), scene.path("w/.envrc")];
        let request = SandboxRequest { allowed, ..request(scene.folder.path(), level) };
        let scene = Scene { sandbox: Sandbox::open(&request).unwrap(), ..scene };
        let (status, said) = scene.shell("echo x > .git/hooks/pre-commit && echo x > .envrc && ! echo x >> .gemini/settings.json || [ $SANDBOX = landlock ]");
        assert!(status.success(), "{level}: {said}");
        let tripped = scene.sandbox.take_tripped();
        assert!(tripped.iter().all(|one| one.path.ends_with("settings.json")), "{level}: {tripped:?}");
        assert!(scene.path("w/.git/hooks/pre-commit").exists() && scene.path("w/.envrc").exists(), "{level}");
        assert_eq!(fs::read_to_string(scene.path("w/.gemini/settings.json")).unwrap(), "{}", "{level}");
    }
}

#[test]
fn a_right_to_write_a_protected_file_ends_with_its_command_while_others_run_on() {
    // Only these share the process that watches with another set of rights.
    let Some(scene) = Scene::new(Level::Namespaces, true) else { return };
    let script = "echo early > .envrc; while [ ! -e go ]; do sleep 0.05; done; echo evil > .envrc; : > done; sleep 600";
    let other = scene.start(OsStr::new("/bin/sh"), &["-c", script]);
    let envrc = || fs::read_to_string(scene.path("w/.envrc")).unwrap_or_default();
    eventually("the first attempt is undone", || scene.path("w/.envrc.sandbox-blocked-1").exists());
    let allowed = vec![scene.path("w/.envrc")];
    let request = SandboxRequest { allowed, ..request(scene.folder.path(), Level::Namespaces) };
    let second = scene.sandbox.with_rights(&request).unwrap();
    let null = fs::File::options().read(true).write(true).open("/dev/null").unwrap();
    let start = Start {
        program: OsStr::new("/bin/sh"),
        arguments: ["-c", "echo mine > .envrc; sleep 0.5"].map(OsStr::new).to_vec(),
        directory: &scene.path("w"),
        environment: &[],
        streams: [null.as_fd(), null.as_fd(), null.as_fd()],
    };
    let (mut held, armed) = second.start(&start).unwrap();
    assert!(held.wait().unwrap().success());
    drop(armed);
    assert_eq!(envrc(), "mine\n");
    fs::create_dir(scene.path("w/go")).unwrap();
    eventually("the other command did it", || scene.path("w/done").exists());
    eventually("it is undone", || envrc() == "mine\n");
    drop(other);
}

#[test]
fn changes_are_undone_if_the_program_is_killed() {
    for level in LEVELS {
        let Some(scene) = Scene::new(level, true) else { continue };
        let before = scene.active();
        let script = "echo x > .envrc; echo evil > .git/hooks/pre-commit; echo x >> .git/config; mkdir -p sub/.git/hooks; \
                      echo x > sub/.git/hooks/pre-push; chmod 500 $(mktemp -d); : > done; sleep 600";
        fs::create_dir_all(scene.path("tmp")).unwrap();
        let mut child = soak::spawn(level, scene.folder.path(), script);
        eventually("the command did it", || scene.path("w/done").exists());
        child.kill().unwrap();
        child.wait().unwrap();
        let is_clean =
            || scene.active() == before && fs::read_dir(scene.path("tmp")).unwrap().next().is_none();
        eventually(&format!("{level}: everything is as before\n{before}\n"), is_clean);
        let is_over = || soak::processes_in(scene.folder.path()).is_empty();
        eventually(&format!("{level}: no process is left"), is_over);
    }
}

#[test]
fn nothing_is_created_in_the_workspace_while_a_command_runs() {
    for scene in scenes() {
        let listing = "find . | sort";
        let own = || {
            let output =
                std::process::Command::new("sh").args(["-c", listing]).current_dir(scene.path("w")).output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        let before = own();
        let (status, inside) = scene.shell(listing);
        assert!(status.success());
        assert_eq!(inside, before, "{}", scene.sandbox.level());
        drop(scene.sandbox);
        assert_eq!(own_listing(&scene.folder, listing), before);
    }
}

fn own_listing(folder: &tempfile::TempDir, listing: &str) -> String {
    let output =
        std::process::Command::new("sh").args(["-c", listing]).current_dir(folder.path().join("w")).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

/// A repository that runs programs, as a script.
fn evil(path: &str) -> String {
    format!(
        "mkdir -p {path}/hooks {path}/objects {path}/refs; echo 'ref: refs/heads/main' > {path}/HEAD; \
         printf '[core]\\n\\tfsmonitor = evil\\n' > {path}/config; echo evil > {path}/hooks/pre-commit; "
    )
}

#[test]
fn a_repository_behind_a_pointer_is_found_again_wherever_it_is() {
    for scene in scenes() {
        let level = scene.sandbox.level();
        let path = "node_modules/evil";
        let point = format!("{} mkdir -p sub; echo 'gitdir: ../{path}' > sub/.git", evil(path));
        for script in
            [point, format!("rm -rf {path}; {}", evil(path)), format!("mv {path} away; {}", evil(path))]
        {
            let (status, said) = scene.shell(&script);
            assert!(status.success(), "{level}: {said}");
            let tripped = names(&scene.sandbox.take_tripped());
            let is_told = |name: &str, action: &'static str| tripped.contains(&(name.to_owned(), action));
            assert!(
                is_told("pre-commit", "renamed") && is_told("config", "disarmed"),
                "{level}: {tripped:?}"
            );
            assert!(!scene.path("w/node_modules/evil/hooks/pre-commit").exists(), "{level}");
        }
        assert!(scene.path("w/sub/.git").exists(), "{level}");
    }
}

#[test]
fn a_new_repository_that_changes_all_the_time_is_not_remembered_with_its_hooks() {
    for scene in scenes() {
        let level = scene.sandbox.level();
        let script = format!(
            "{} (while :; do echo evil > new/.git/hooks/pre-commit; echo '[alias]' > new/.git/config; rm -f new/.git/hooks/pre-commit; \
             printf '[core]\\n\\tfsmonitor = evil\\n' > new/.git/config; done) & sleep 0.6; kill $!; wait; {}",
            evil("new/.git"),
            evil("new/.git")
        );
        for _ in 0..3 {
            scene.shell(&script);
            let _ = scene.sandbox.take_tripped();
            assert!(!scene.path("w/new/.git/hooks/pre-commit").exists(), "{level}");
            let config = fs::read_to_string(scene.path("w/new/.git/config")).unwrap_or_default();
            let is_active = |line: &str| line.trim_start().starts_with("fsmonitor");
            assert!(!config.lines().any(is_active), "{level}: {config}");
        }
    }
}

#[test]
fn examples_of_hooks_use_up_nothing() {
    for scene in scenes() {
        let level = scene.sandbox.level();
        let many = "mkdir -p big/.git/hooks; head -c 200000 /dev/zero > big/.git/hooks/a.sample; \
                    for i in $(seq 600); do ln big/.git/hooks/a.sample big/.git/hooks/$i.sample; done; ";
        let quiet = "mkdir -p r/.git/hooks r/.git/objects r/.git/refs; echo x > r/.git/HEAD; printf '[core]\\n' > r/.git/config";
        assert!(scene.shell(&format!("{many} {quiet}")).0.success());
        let _ = scene.sandbox.take_tripped();
        assert!(scene.shell(&evil("r/.git")).0.success());
        let tripped = names(&scene.sandbox.take_tripped());
        let expected = [("config", "restored"), ("pre-commit", "renamed")];
        assert_eq!(tripped, expected.map(|(name, action)| (name.to_owned(), action)), "{level}");
        assert_eq!(fs::read_to_string(scene.path("w/r/.git/config")).unwrap(), "[core]\n", "{level}");
    }
}
