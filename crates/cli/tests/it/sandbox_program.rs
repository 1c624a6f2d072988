//! Commands need this program for ssh and published ports, wherever it is installed.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use pollux_test_support::{Run, TestHome};
use serde_json::json;

use crate::sandbox_rights::{OWN_PROGRAM, STREAM, confined, headless_by, result};
use crate::scene::binary;

const LEVELS: [&str; 2] = ["namespaces", "bwrap"];

/// Installs the program in another folder.
fn install_at(folder: &Path) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    let program = folder.join("pollux");
    fs::hard_link(binary(), &program).or_else(|_| fs::copy(binary(), &program).map(drop)).unwrap();
    program
}

/// Runs a line in the sandbox of a level; `None` if it does not work here.
fn run(home: &TestHome, (program, level): (&Path, &str), flags: &[&str], line: &str) -> Option<Run> {
    let args = flags.iter().copied().chain(["sandbox", "run", "--", "sh", "-c", line]);
    let run = home.command(program, args).env("GEMINI_SANDBOX", level).run();
    (run.code != Some(44)).then_some(run)
}

fn home(profile: &str) -> TestHome {
    TestHome::new().settings(json!({"tools": {"sandboxProfile": profile}}))
}

#[test]
fn ssh_reaches_the_proxy_wherever_pollux_is_installed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"SSH-2.0-test\r\n").and_then(|()| stream.read(&mut [0; 8]));
        }
    });
    let temporary = tempfile::tempdir_in("/tmp").unwrap();
    fs::write(temporary.path().join("other"), "OTHER").unwrap();
    let (usual, strict) = (home("workspace"), home("strict"));
    // Covered by the commands' own `/tmp`, among keys, and in a home that is not shown.
    let places = [
        (&usual, temporary.path().join("x y")),
        (&usual, usual.home().join(".config/gh")),
        (&strict, strict.home().join("programs")),
    ];
    let line = format!(
        "echo \"$GIT_SSH_COMMAND\" | grep -q ProxyCommand=.*{OWN_PROGRAM} || echo no way; \
         echo hello | {OWN_PROGRAM} __connect 127.0.0.1 {port}"
    );
    let look = format!(
        "ls -A {0}; cat {0}/other; ls -A /run/pollux; (: >> {OWN_PROGRAM}) && echo CHANGED; \
         for way in 'rm -f' 'mv -t /tmp' 'chmod 0'; do $way {OWN_PROGRAM} && echo CHANGED; done; true",
        temporary.path().display()
    );
    let right = format!("host:127.0.0.1:{port}");
    for ((home, place), level) in places.iter().flat_map(|place| LEVELS.map(|level| (place, level))) {
        let program = install_at(place);
        let program = (program.as_path(), level);
        if let Some(refused) = run(home, program, &[], &line) {
            let said = format!("{program:?}: {}{}", refused.stdout, refused.stderr);
            assert!(refused.stderr.contains("the sandbox does not allow 127.0.0.1"), "{said}");
            assert_eq!(refused.stdout, "", "{said}");
            let allowed = run(home, program, &["--sandbox-allow", &right], &line).unwrap();
            let said = format!("{program:?}: {}{}", allowed.stdout, allowed.stderr);
            assert!(allowed.stdout.starts_with("SSH-2.0-test"), "{said}");
            // Nothing else of its folder is there, and it cannot be changed.
            let seen = run(home, program, &[], &look).unwrap();
            assert_eq!(seen.stdout, "pollux\n", "{program:?}: {}", seen.stderr);
        }
        fs::remove_file(program.0).unwrap();
        assert_eq!(fs::read_dir(place).unwrap().count(), 0, "something is left in {}", place.display());
    }
}

/// A file that replaces the program after the start and before the first command.
#[test]
fn a_file_that_replaced_the_program_is_not_shown() {
    let replacements =
        ["cp SECRET PROGRAM.new && mv PROGRAM.new PROGRAM", "ln -sf SECRET PROGRAM", "ln -f SECRET PROGRAM"];
    let temporary = tempfile::tempdir_in("/tmp").unwrap();
    for (number, level) in (0..replacements.len()).flat_map(|number| LEVELS.map(|level| (number, level))) {
        let place = temporary.path().join(format!("{number}-{level}"));
        let program = install_at(&place);
        let secret = place.join("secret");
        fs::write(&secret, "#!/bin/sh\necho SECRET\n").unwrap();
        let script = format!("cat {OWN_PROGRAM} | head -c 30; {OWN_PROGRAM} __connect 1; echo end");
        let home = TestHome::new().env("GEMINI_SANDBOX", level);
        // After this run, the first command opens the sandbox.
        let known = headless_by(&program, &home, "true", &STREAM);
        if confined(&known).is_none() {
            continue;
        }
        let replace = replacements[number]
            .replace("SECRET", &secret.display().to_string())
            .replace("PROGRAM", &program.display().to_string());
        let hook = json!([{"hooks": [{"type": "command", "command": replace}]}]);
        let home = home.settings(json!({"hooks": {"BeforeTool": hook}}));
        let run = headless_by(&program, &home, &script, &STREAM);
        assert!(fs::read_to_string(&program).unwrap().contains("SECRET"), "{level}: {}", run.stderr);
        let said = result(&run);
        assert!(!said.contains("SECRET") && !run.stdout.contains("SECRET\\n"), "{level}: {said}");
        let expected = if level == "namespaces" { "end" } else { "the Pollux executable has been replaced" };
        assert!(run.stdout.contains(expected), "{level}: {}", run.stdout);
    }
}
