//! Attacks that need something to happen outside, and folders with unusual names.

#![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pollux_sandbox::{Level, Sandbox, SandboxRequest};

use crate::scene::{LEVELS, Scene, request, scratch};

/// A folder that may be written is replaced by a link to one that may not, again and again.
#[test]
fn a_folder_that_becomes_a_link_leads_nowhere() {
    for level in LEVELS {
        let Some(scene) = Scene::new(level, true) else { continue };
        let (extra, notes) = (scene.path("extra"), scene.path("home/notes"));
        fs::create_dir(&extra).unwrap();
        let request = SandboxRequest { allowed: vec![extra.clone()], ..request(scene.folder.path(), level) };
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let _ = fs::remove_dir_all(&extra);
                    let _ = symlink(&notes, &extra);
                    std::thread::yield_now();
                    let _ = fs::remove_file(&extra);
                    let _ = fs::create_dir(&extra);
                    std::thread::yield_now();
                }
            });
            let started = Instant::now();
            while started.elapsed() < Duration::from_millis(700) {
                // The link may be resolved when the sandbox is opened; then it names what is allowed.
                let resolved = fs::canonicalize(&extra);
                let Ok(sandbox) = Sandbox::open(&request) else { continue };
                if resolved.is_ok_and(|real| real == notes) {
                    continue;
                }
                drop(sandbox);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let _ = fs::remove_file(&extra);
        let _ = fs::remove_dir_all(&extra);
        fs::create_dir(&extra).unwrap();
        let scene = Scene { sandbox: Sandbox::open(&request).unwrap(), ..scene };
        assert!(scene.shell("touch ../extra/x").0.success(), "{level}");
        fs::rename(&extra, scene.path("away")).unwrap();
        symlink(&notes, &extra).unwrap();
        assert!(!scene.shell("echo evil > ../extra/plain").0.success(), "{level}");
        assert_eq!(fs::read_to_string(scene.path("home/notes/plain")).unwrap(), "readable", "{level}");
    }
}

#[test]
fn unusual_names_of_folders_change_nothing() {
    for mut scene in LEVELS.into_iter().filter_map(|level| Scene::new(level, true)) {
        let level = scene.sandbox.level();
        for name in ["a:b,c d", "a\"b'c\\", "a\nb$(x)", "-\u{e4}\u{301}"] {
            let Some(folder) = scratch() else { return };
            let base = folder.path().join(name);
            for path in ["w/.git/hooks", "home/.ssh", "home/.gemini"] {
                fs::create_dir_all(base.join(path)).unwrap();
            }
            fs::write(base.join("w/.git/HEAD"), "x").unwrap();
            fs::write(base.join("home/.ssh/id"), "SECRET").unwrap();
            scene.sandbox = Sandbox::open(&request(&base, level)).unwrap();
            let script = "cd \"$1\" && touch w/x && ! touch home/x 2>/dev/null && ! cat home/.ssh/id 2>/dev/null \
                          && { [ $SANDBOX = landlock ] || ! touch w/.git/hooks/x 2>/dev/null; }";
            let (status, said) = scene.run("/bin/sh".as_ref(), &["-c", script, "sh", base.to_str().unwrap()]);
            assert!(status.success() && !said.contains("SECRET"), "{level}: {name:?}: {said}");
            assert!(base.join("w/x").exists() && !base.join("home/x").exists());
        }
    }
}

#[test]
fn shared_memory_has_a_limit() {
    let Some(scene) = Scene::new(Level::Namespaces, true) else { return };
    let (status, said) = scene.shell("df -k --output=size /dev/shm | tail -1");
    assert!(status.success() && said.trim().parse::<u64>().unwrap() <= 1 << 20, "{said}");
}
