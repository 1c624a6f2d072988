//! What other programs change outside while a command runs: secrets stay hidden, protected files protected, and sockets
//! out of reach.

#![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::Duration;

use pollux_sandbox::{Grants, Level, Sandbox, SandboxRequest};

use crate::scene::{Scene, request};
use crate::sessions::eventually;

/// Time for a change to be noticed, on a busy machine too.
const NOTICED: Duration = Duration::from_millis(900);

fn text(mut file: File) -> String {
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

/// A program that refreshes a token writes another file and renames it.
fn replace(scene: &Scene, path: &str, text: &str) {
    fs::write(scene.path("new"), text).unwrap();
    fs::rename(scene.path("new"), scene.path(path)).unwrap();
}

#[test]
fn a_secret_that_appears_or_is_replaced_while_a_command_runs_is_never_seen() {
    let Some(scene) = Scene::new(Level::Namespaces, true) else { return };
    let names = [".netrc", ".npmrc", ".config/gh/hosts.yml", ".cargo/credentials.toml", ".zsh_history"];
    let script =
        "ready=1; : > ready; while [ ! -e stop ]; do for f in \"$@\"; do cat ~/$f; done; done 2>/dev/null";
    let mut arguments = vec!["-c", script, "sh"];
    arguments.extend(names);
    let (mut held, _armed, said) = scene.start(OsStr::new("/bin/sh"), &arguments);
    eventually("the command reads", || scene.path("w/ready").exists());
    for round in 0..300 {
        for name in names {
            let folder = scene.path("home").join(name).parent().unwrap().to_owned();
            if folder.ends_with("gh") && round % 3 == 0 {
                let _ = fs::remove_dir_all(&folder);
            }
            fs::create_dir_all(folder).unwrap();
            replace(&scene, &format!("home/{name}"), "SECRET");
        }
    }
    std::thread::sleep(NOTICED);
    fs::write(scene.path("w/stop"), "").unwrap();
    held.wait().unwrap();
    assert_eq!(text(said), "");
    fs::create_dir(scene.path("home/.new")).unwrap();
    fs::write(scene.path("home/.new/x"), "SECRET").unwrap();
    // The next command sees what is new, except the secrets.
    let (_, said) =
        scene.shell("cat ~/.new/x; cat ~/.netrc ~/.npmrc ~/.zsh_history ~/.config/gh/hosts.yml 2>/dev/null");
    assert_eq!(said, "SECRET");
}

#[test]
fn a_home_shows_what_it_has_and_follows_changes_between_commands() {
    let Some(scene) = Scene::new(Level::Namespaces, true) else { return };
    fs::create_dir_all(scene.path("home/.config/tool")).unwrap();
    fs::write(scene.path("home/.config/tool/a"), "one").unwrap();
    fs::write(scene.path("home/.toolrc"), "first").unwrap();
    std::os::unix::fs::symlink("notes/plain", scene.path("home/link")).unwrap();
    let look = "cat ~/.toolrc ~/.config/tool/a ~/link ~/late ~/folder/x 2>/dev/null; ls ~ | tr '\\n' ' '";
    assert_eq!(scene.shell(look).1, "firstonereadablelink notes ");
    replace(&scene, "home/.toolrc", "second");
    replace(&scene, "home/late", "late");
    fs::create_dir(scene.path("home/folder")).unwrap();
    fs::write(scene.path("home/folder/x"), "x").unwrap();
    fs::write(scene.path("home/.config/tool/a"), "two").unwrap();
    assert_eq!(scene.shell(look).1, "secondtworeadablelatexfolder late link notes ");
    // A folder takes the place of a file, a file that of a folder, and something is removed.
    fs::remove_file(scene.path("home/late")).unwrap();
    fs::create_dir(scene.path("home/late")).unwrap();
    fs::remove_dir_all(scene.path("home/folder")).unwrap();
    fs::write(scene.path("home/folder"), "f").unwrap();
    fs::remove_file(scene.path("home/link")).unwrap();
    assert_eq!(scene.shell(look).1, "secondtwofolder late notes ");
    assert!(!scene.shell("touch ~/x").0.success() && !scene.shell("touch ~/.config/x").0.success());
    assert!(!scene.shell("echo x > ~/.toolrc").0.success() && !scene.shell("rm ~/.toolrc").0.success());
}

#[test]
fn a_protected_file_that_is_replaced_is_protected_again_while_the_command_runs() {
    let Some(scene) = Scene::new(Level::Namespaces, true) else { return };
    // The attempt that counts follows a harmless one that has failed.
    let script = ": > ready; while [ ! -e go ]; do sleep 0.01; done; \
                  n=0; while [ $n -lt 600 ] && (: >> .git/config) 2>/dev/null; do n=$((n + 1)); sleep 0.1; done; \
                  echo evil >> .git/config; echo evil > .envrc; echo $?";
    let (mut held, _armed, said) = scene.start(OsStr::new("/bin/sh"), &["-c", script]);
    eventually("the command waits", || scene.path("w/ready").exists());
    // `git config` does this.
    replace(&scene, "w/.git/config", "[core]\n\tbare = false\n");
    fs::write(scene.path("w/go"), "").unwrap();
    held.wait().unwrap();
    let said = text(said);
    assert!(said.contains("Read-only file system"), "{said}");
    assert_eq!(fs::read_to_string(scene.path("w/.git/config")).unwrap(), "[core]\n\tbare = false\n");
}

#[test]
fn sockets_of_other_programs_are_covered_also_if_they_appear_later() {
    let Some(scene) = Scene::new(Level::Namespaces, true) else { return };
    let attempt = |path: &str| {
        format!(
            "import socket as s; s.socket(s.AF_UNIX).connect(\"{}\"); print(1)",
            scene.path(path).display()
        )
    };
    let listen = |path: &str| UnixListener::bind(scene.path(path)).unwrap();
    let _first = listen("home/notes/a.sock");
    let (_, said) = scene.shell(&format!("python3 -c '{}'", attempt("home/notes/a.sock")));
    assert!(said.contains("Error") && !said.contains("1\n"), "{said}");
    let (late, again) = (attempt("home/notes/b.sock"), attempt("home/notes/a.sock"));
    // The attempts that count follow others that have failed. A listener takes more of those than are made here.
    let script = format!(
        "covered() {{ for n in $(seq 100); do python3 -c \"$1\" >/dev/null 2>&1 || return 0; sleep 0.5; done; }}; \
         : > ready; while [ ! -e go ]; do sleep 0.01; done; covered '{late}'; covered '{again}'; \
         python3 -c '{late}'; python3 -c '{again}'"
    );
    let (mut held, _armed, said) = scene.start(OsStr::new("/bin/sh"), &["-c", &script]);
    eventually("the command waits", || scene.path("w/ready").exists());
    let _second = listen("home/notes/b.sock");
    // A daemon that starts again.
    fs::remove_file(scene.path("home/notes/a.sock")).unwrap();
    let _again = listen("home/notes/a.sock");
    fs::write(scene.path("w/go"), "").unwrap();
    held.wait().unwrap();
    let said = text(said);
    assert_eq!(said.matches("Error").count(), 2, "{said}");
    // Those of commands themselves are reachable, wherever they may be.
    let own = "import socket as s; l = s.socket(s.AF_UNIX); l.bind(\"/tmp/x\"); l.listen(); s.socket(s.AF_UNIX).connect(\"/tmp/x\")";
    let (status, said) = scene.shell(&format!("python3 -c '{own}'"));
    assert!(status.success(), "{said}");
}

#[test]
fn what_commands_create_in_the_general_cache_is_theirs_alone() {
    let Some(scene) = Scene::new(Level::Namespaces, true) else { return };
    fs::create_dir_all(scene.path("home/.cache/pip")).unwrap();
    fs::create_dir_all(scene.path("home/.cache/unknown")).unwrap();
    fs::write(scene.path("home/.cache/p10k-instant-prompt-me.zsh"), "mine").unwrap();
    let sandbox = Sandbox::open(&request(scene.folder.path(), Level::Namespaces)).unwrap();
    let scene = Scene { sandbox, ..scene };
    let script = "echo x > ~/.cache/pip/x && mkdir -p ~/.cache/go-build/00 && echo y > ~/.cache/go-build/00/y || exit 1; \
                  echo evil > ~/.cache/p10k-instant-prompt-me.zsh; echo evil > ~/.cache/unknown/x; \
                  rm -r ~/.cache/unknown; mv ~/.cache ~/moved; true";
    let (status, said) = scene.shell(script);
    assert!(status.success(), "{said}");
    assert_eq!(fs::read_to_string(scene.path("home/.cache/p10k-instant-prompt-me.zsh")).unwrap(), "mine");
    assert!(scene.path("home/.cache/pip/x").exists() && !scene.path("home/.cache/go-build").exists());
    assert_eq!(fs::read_dir(scene.path("home/.cache/unknown")).unwrap().count(), 0);
    // The next command finds it again.
    assert_eq!(scene.shell("cat ~/.cache/go-build/00/y; cat ~/.cache/p10k*").1, "y\nmine");
}

/// The output of a command that still runs. A look through the same open file would move the command's place in it.
fn said_so_far(file: &File) -> String {
    fs::read_to_string(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap()
}

/// Reads the files in a loop while programs outside replace the originals. Everything that was read, once.
fn read_while_replaced(scene: &Scene, names: &[&str]) -> BTreeSet<String> {
    let script = "echo ready; while [ ! -e stop ]; do for f in \"$@\"; do cat ~/$f; done; done 2>/dev/null";
    let mut arguments = vec!["-c", script, "sh"];
    arguments.extend(names);
    let (mut held, _armed, said) = scene.start(OsStr::new("/bin/sh"), &arguments);
    eventually("the command reads", || said_so_far(&said).contains("ready"));
    for _ in 0..100 {
        names.iter().for_each(|name| replace(scene, &format!("home/{name}"), "SECRET\n"));
    }
    replace(scene, "home/.netrc", "SECRET\n");
    std::thread::sleep(NOTICED);
    let last = format!("copy {}\n", names.len() - 1);
    eventually("the command has read all files", || said_so_far(&said).contains(&last));
    fs::write(scene.path("w/stop"), "").unwrap();
    held.wait().unwrap();
    fs::remove_file(scene.path("w/stop")).unwrap();
    text(said).lines().map(str::to_owned).collect()
}

#[test]
fn copies_without_secrets_stand_in_for_settings_in_every_set_of_rights() {
    let Some(mut scene) = Scene::new(Level::Namespaces, true) else { return };
    // One in a home, one in a folder with other files, and one in a hidden folder.
    let names = [".npmrc", ".config/pip/pip.conf", ".docker/config.json"];
    let copies = scene.path("home/.gemini/tmp/own");
    let replaced = names.iter().enumerate();
    let replaced: Vec<(PathBuf, PathBuf)> = replaced
        .map(|(number, name)| (scene.path("home").join(name), copies.join(number.to_string())))
        .collect();
    let grants = Grants { replaced: replaced.clone(), ..Grants::default() };
    let usual = SandboxRequest { grants: grants.clone(), ..request(scene.folder.path(), Level::Namespaces) };
    scene.sandbox = Sandbox::open(&usual).unwrap();
    // Without a copy, the file stays hidden.
    assert_eq!(scene.shell("cat ~/.npmrc ~/.docker/config.json 2>/dev/null").1, "");
    // They are made while the first process of the session runs already.
    fs::create_dir_all(&copies).unwrap();
    for (number, (_, copy)) in replaced.iter().enumerate() {
        fs::write(copy, format!("copy {number}\n")).unwrap();
    }
    let read_only = SandboxRequest { grants: Grants { read_only: true, ..grants }, ..usual.clone() };
    let wider = SandboxRequest { allowed: vec![scene.path("other")], ..usual };
    let mode = scene.sandbox.for_mode(&read_only).unwrap();
    let rights = scene.sandbox.with_rights(&wider).unwrap();
    let mut sets = [mode, rights];
    for _ in 0..3 {
        let said = read_while_replaced(&scene, &names);
        assert_eq!(said, BTreeSet::from(["ready", "copy 0", "copy 1", "copy 2"].map(str::to_owned)));
        let writes =
            "echo evil > ~/.npmrc; rm ~/.npmrc; echo evil > ~/.docker/config.json; echo evil > ~/.docker/x";
        assert!(!scene.shell(&format!("({writes}) 2>/dev/null")).0.success());
        let others = "cat ~/.netrc 2>/dev/null; ls -A ~/.docker ~/.gemini/tmp/* 2>/dev/null | grep -v :";
        assert_eq!(scene.shell(others).1, "config.json\n");
        std::mem::swap(&mut scene.sandbox, &mut sets[0]);
        sets.rotate_left(1);
    }
    for (number, (_, copy)) in replaced.iter().enumerate() {
        assert_eq!(fs::read_to_string(copy).unwrap(), format!("copy {number}\n"));
    }
    // Another session made the copies again: the new ones are seen, in a frame and elsewhere.
    for number in 0..names.len() {
        replace(&scene, &format!("home/.gemini/tmp/own/{number}"), &format!("new {number}\n"));
    }
    let look = "cat ~/.npmrc ~/.config/pip/pip.conf ~/.docker/config.json";
    assert_eq!(scene.shell(look).1, "new 0\nnew 1\nnew 2\n");
    // Something that is removed outside disappears, too.
    fs::remove_file(scene.path("home/.npmrc")).unwrap();
    assert_eq!(scene.shell("cat ~/.npmrc 2>/dev/null; cat ~/.docker/config.json").1, "new 2\n");
}

#[test]
fn a_home_among_temporary_files_works_too() {
    let Some(scene) = Scene::new(Level::Namespaces, true) else { return };
    let folder = tempfile::TempDir::new_in("/tmp").unwrap();
    let base = fs::canonicalize(folder.path()).unwrap();
    for path in ["home/.ssh", "home/.gemini/tmp/own", "w"] {
        fs::create_dir_all(base.join(path)).unwrap();
    }
    fs::write(base.join("home/.ssh/id"), "SECRET").unwrap();
    fs::write(base.join("home/.gemini/tmp/own/log"), "mine").unwrap();
    let grants = Grants { visible: vec![base.join("home/.gemini/tmp/own")], ..Grants::default() };
    let request = SandboxRequest { grants, ..request(&base, Level::Namespaces) };
    let scene = Scene { sandbox: Sandbox::open(&request).unwrap(), ..scene };
    let script = format!("cd {} && touch w/x && cat home/.gemini/tmp/own/log home/.ssh/id", base.display());
    let (_, said) = scene.shell(&script);
    assert!(said.contains("mine") && !said.contains("SECRET"), "{said}");
}
