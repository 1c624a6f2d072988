//! The sandbox around the tools' commands. What it holds back is tested where it is made, in `exec`.

use std::fs;
use std::path::Path;

use pollux_test_support::{Run, TestHome, executable};
use serde_json::json;

use crate::scene::{MODEL, binary, scripted, until};

/// A home in which the model runs a command and then says what became of it.
fn home(command: &str) -> TestHome {
    let call = json!({"functionCall": {"name": "run_shell_command", "args": {"command": command}}});
    let script = scripted(&[call]) + &scripted(&[json!({"text": "The run goes on."})]);
    TestHome::new().file("script.jsonl", &script)
}

fn prompt<'a>(home: &TestHome, flags: &[&'a str], env: &[(&str, &str)]) -> Run {
    let args: [&'a str; 7] = ["-m", MODEL, "--skip-trust", "--fake-responses", "script.jsonl", "-p", "x"];
    let all = args.into_iter().chain(flags.iter().copied());
    let run = env.iter().fold(home.command(binary(), all), |run, (name, value)| run.env(name, value));
    run.run()
}

/// Whether any sandbox works here; the program says so.
fn has_sandbox(run: &Run) -> bool {
    assert!(run.stderr.contains("Sandbox (") || run.stderr.contains("No sandbox:"), "{}", run.stderr);
    run.stderr.contains("Sandbox (")
}

#[test]
fn yolo_runs_commands_in_a_sandbox_if_one_is_available() {
    let home = home("touch made; touch $HOME/outside");
    let run = prompt(&home, &["-y", "-o", "stream-json"], &[]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("The run goes on."), "{}", run.stdout);
    assert!(home.project().join("made").exists(), "{}", run.stdout);
    assert_eq!(home.home().join("outside").exists(), !has_sandbox(&run));
    if has_sandbox(&run) {
        let session = session(&home);
        assert!(session.contains("tools.sandboxAllowedPaths"), "the model is told why: {session}");
        for name in [".gemini", ".envrc", ".vscode"] {
            assert!(!home.project().join(name).exists(), "{name} was left behind");
        }
    }
}

fn session(home: &TestHome) -> String {
    let files = crate::scene::all_files(&home.gemini_dir());
    let is_session = |path: &&std::path::PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("session-"))
    };
    std::fs::read_to_string(files.iter().find(is_session).unwrap()).unwrap()
}

#[test]
fn a_home_that_does_not_exist_yet_is_no_obstacle() {
    let home = home("touch made");
    let missing = home.home().join("not/yet").display().to_string();
    let run = prompt(&home, &["-y"], &[("HOME", &missing)]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(home.project().join("made").exists(), "{}", run.stderr);
}

#[test]
fn the_sandbox_can_be_disabled_in_three_ways() {
    let command = "touch $HOME/outside";
    let setting = home(command).settings(json!({"tools": {"sandbox": false}}));
    let inside = home(command);
    for (home, flags, env) in [
        (home(command), &["-y", "--sandbox=false"][..], &[][..]),
        (home(command), &["-y"], &[("GEMINI_SANDBOX", "false")]),
        (setting, &["-y"], &[]),
        (inside, &["-y"], &[("SANDBOX", "container")]),
    ] {
        let run = prompt(&home, flags, env);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert!(!run.stderr.contains("andbox"), "{}", run.stderr);
        assert!(home.home().join("outside").exists());
    }
}

#[test]
fn every_mode_uses_a_sandbox_that_everyday_commands_do_not_notice() {
    // A place outside in the command itself would be a reason to ask.
    let command = "sh write.sh";
    let home = |command| home(command).file("write.sh", "touch $HOME/outside");
    let tool = ["--allowed-tools", "run_shell_command"];
    let status = home(command).command(binary(), ["sandbox", "status"]).run();
    let by_default =
        status.stdout.starts_with("Sandbox: namespaces") || status.stdout.starts_with("Sandbox: bubblewrap");
    for mode in ["default", "auto_edit"] {
        let quiet = home(command);
        let run = prompt(&quiet, &[tool[0], tool[1], "--approval-mode", mode, "-o", "stream-json"], &[]);
        assert!(!run.stderr.contains("andbox"), "{}", run.stderr);
        assert_eq!(quiet.home().join("outside").exists(), !by_default, "{mode}: {}", run.stdout);
        assert_eq!(run.stdout.contains(r#""network_mode":"proxy""#), by_default, "{}", run.stdout);
    }
    for off in [&["--sandbox=false"][..], &[]] {
        let settings = if off.is_empty() { json!({"tools": {"sandbox": false}}) } else { json!({}) };
        let free = home(command).settings(settings);
        prompt(&free, &[&tool[..], off].concat(), &[]);
        assert!(free.home().join("outside").exists());
    }
    let named = home(command).settings(json!({"tools": {"sandbox": "auto"}}));
    prompt(&named, &tool, &[]);
    assert_eq!(named.home().join("outside").exists(), !by_default);
    let every = home(command).settings(json!({"security": {"toolSandboxing": true}}));
    let run = prompt(&every, &tool, &[]);
    if run.code == Some(44) {
        return;
    }
    assert!(run.stderr.contains("without network access"), "{}", run.stderr);
    assert!(!every.home().join("outside").exists());
    let asked = home(command);
    let run = prompt(&asked, &["-s", tool[0], tool[1]], &[]);
    assert!(has_sandbox(&run) && !run.stderr.contains("without network"), "{}", run.stderr);
    assert!(!asked.home().join("outside").exists());
}

#[test]
fn a_folder_that_cannot_be_sandboxed_is_used_without_a_word_by_default() {
    let home = home("sh write.sh").file("write.sh", "touch $HOME/outside");
    for name in ["script.jsonl", "write.sh"] {
        std::fs::copy(home.project().join(name), home.home().join(name)).unwrap();
    }
    let args = ["-m", MODEL, "--skip-trust", "--fake-responses", "script.jsonl", "-p", "x"];
    let all = args.into_iter().chain(["--allowed-tools", "run_shell_command"]);
    let run = home.command(binary(), all).in_dir(&home.home()).run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(!run.stderr.contains("andbox") && home.home().join("outside").exists(), "{}", run.stderr);
}

#[test]
fn the_rule_that_decides_about_a_path_or_a_host_is_explained() {
    let home = TestHome::new().settings(json!({"tools": {"sandboxProfile": "workspace"}}));
    let explain = |target: &str| home.command(binary(), ["sandbox", "explain", target]).run();
    let first = explain(".");
    if first.code == Some(44) {
        return;
    }
    assert!(
        first.stdout.contains("read and write") && first.stdout.contains("rule: writable"),
        "{}",
        first.stdout
    );
    for (target, expected) in [
        ("~/.ssh/id", "no access"),
        ("~/.bashrc", "to allow: --sandbox-allow write:"),
        (".git/hooks", "read and write"),
        (".gemini/settings.json", "rule: protected"),
        ("/", "rule: only the workspace"),
    ] {
        let run = explain(target);
        assert!(run.stdout.contains(expected), "{target}: {}{}", run.stdout, run.stderr);
    }
    assert!(!explain("/").stdout.contains("to allow"), "never offered");
    let run = explain("a.example");
    if !run.stdout.contains("(Landlock)") {
        assert!(
            run.stdout.contains("a.example:443") && run.stdout.contains("no rule matches it"),
            "{}",
            run.stdout
        );
        assert!(explain("port:5432").stdout.contains("to allow: --sandbox-allow port:5432"));
    }
    let wrong = explain("good@evil");
    assert_eq!(wrong.code, Some(42), "{}", wrong.stderr);
    let json = home.command(binary(), ["sandbox", "explain", "--json", "."]).run();
    assert!(json.stdout.contains(r#""verdict": "read and write""#), "{}", json.stdout);
}

#[test]
fn a_sandbox_that_was_asked_for_and_cannot_be_had_is_exit_44() {
    for (value, reason) in [
        ("docker", "no container image is set"),
        ("lxc", "unsupported sandbox type `lxc`"),
        ("bogus", "unknown sandbox type `bogus`"),
        ("sandbox-exec", "Seatbelt: "),
    ] {
        if value == "sandbox-exec" && cfg!(target_os = "macos") {
            continue;
        }
        let run = prompt(&home("true"), &[], &[("GEMINI_SANDBOX", value)]);
        assert_eq!(run.code, Some(44), "{value}: {}", run.stderr);
        assert!(run.stderr.contains(reason), "{value}: {}", run.stderr);
    }
    let run = prompt(&home("true"), &[], &[("GEMINI_SANDBOX", "bwrap"), ("PATH", "/nowhere")]);
    assert_eq!(run.code, Some(44), "{}", run.stderr);
    if cfg!(target_os = "linux") {
        assert!(run.stderr.contains("bubblewrap: `bwrap` not found in `PATH`"), "{}", run.stderr);
    }
}

/// The settings name the sandbox to use and do not ask for one.
#[test]
fn yolo_mode_uses_another_sandbox_if_the_named_one_cannot_be_used() {
    let plain = prompt(&home("true"), &["-y"], &[]);
    for kind in ["podman", "docker"] {
        let named = home("true").settings(json!({"tools": {"sandbox": {"type": kind}}}));
        let run = prompt(&named, &["-y"], &[]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert_eq!(has_sandbox(&run), has_sandbox(&plain), "{}", run.stderr);
        if has_sandbox(&run) {
            let line = "The sandbox of `tools.sandbox` is not available, so another one is used (";
            assert!(run.stderr.contains(line) && !run.stderr.contains("No sandbox"), "{}", run.stderr);
        }
        let enabled = home("true").settings(json!({"tools": {"sandbox": {"type": kind, "enabled": true}}}));
        assert_eq!(prompt(&enabled, &["-y"], &[]).code, Some(44), "{kind}");
    }
}

#[test]
fn a_home_directory_cannot_be_sandboxed() {
    let home = home("true");
    std::fs::copy(home.project().join("script.jsonl"), home.home().join("script.jsonl")).unwrap();
    let run = |flags: &[&str], folder: &Path| {
        let args = ["-m", MODEL, "--skip-trust", "--fake-responses", "script.jsonl", "-p", "x"];
        home.command(binary(), args.iter().chain(flags).copied()).in_dir(folder).run()
    };
    let asked = run(&["--sandbox"], &home.home());
    assert_eq!(asked.code, Some(44), "{}", asked.stderr);
    assert!(asked.stderr.contains("contains the home directory"), "{}", asked.stderr);
    let implied = run(&["-y"], &home.home());
    assert_eq!(implied.code, Some(0), "{}", implied.stderr);
    assert!(implied.stderr.contains("No sandbox: commands run directly"), "{}", implied.stderr);
}

/// The names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_sandbox_leaves_nothing_in_the_project_even_after_a_crash() {
    let home = home("touch begun; while [ ! -e go ]; do sleep 0.05; done; ls -A > seen");
    let args = ["-m", MODEL, "--skip-trust", "--fake-responses", "script.jsonl", "-p", "x", "-y"];
    let first = home.command(binary(), args).spawn();
    let begun = || home.project().join("begun").exists();
    until("the command runs", begun);
    assert_eq!(names(&home.project()), ["begun", "script.jsonl"]);
    // A second run at the same time, which ends before the first.
    std::fs::remove_file(home.project().join("begun")).unwrap();
    let second = home.command(binary(), args).spawn();
    until("the second command runs", begun);
    second.kill();
    assert_eq!(names(&home.project()), ["begun", "script.jsonl"]);
    std::fs::write(home.project().join("go"), "").unwrap();
    let run = first.wait();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(names(&home.project()), ["begun", "go", "script.jsonl", "seen"]);
    assert!(!home.read("seen").contains(".envrc"), "{}", home.read("seen"));
}

#[test]
fn a_protected_name_that_a_command_creates_is_renamed_and_reported() {
    let home = home("echo 'echo owned' > .envrc; ls -A");
    let run = prompt(&home, &["-y"], &[]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    if has_sandbox(&run) {
        assert_eq!(names(&home.project()), [".envrc.sandbox-blocked-1", "script.jsonl"]);
        assert!(session(&home).contains(".envrc.sandbox-blocked-1"), "{}", session(&home));
    }
}

/// The project is below a folder that the sandbox replaces. Updating a running command's view must create nothing in the
/// project.
#[test]
fn nothing_but_a_command_creates_protected_names() {
    let home = home("for i in $(seq 1500); do echo owned > .envrc; done");
    let run = prompt(&home, &["-y"], &[]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let project = home.project();
    let found = names(&project).into_iter().filter(|name| name.starts_with(".envrc"));
    for name in found {
        assert_eq!(fs::read_to_string(project.join(&name)).unwrap(), "owned\n", "{name}");
    }
}

/// Needs a release build to say something of the program; run it with `--ignored`.
#[test]
#[ignore = "measures memory"]
#[cfg(target_os = "linux")]
fn a_command_that_prints_a_gigabyte_costs_little_memory() {
    let peak = |amount: &str| -> u64 {
        // The command is a child of the program, and looks after the output is through.
        let status = "sed -n 's/^VmHWM: *//p' /proc/$PPID/status > peak";
        let print = format!("yes 0123456789abcdef0123456789abcde | head -c {amount}");
        let script =
            scripted(&[call(&print)]) + &scripted(&[call(status)]) + &scripted(&[json!({"text": "x"})]);
        let home = TestHome::new().file("script.jsonl", &script);
        let run = prompt(&home, &["-y", "--sandbox=false"], &[]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        home.read("peak").split_whitespace().next().unwrap().parse().unwrap()
    };
    let (little, much) = (peak("1"), peak("1G"));
    assert!(much - little < 32 << 10, "{little} kB and {much} kB");
}

fn call(command: &str) -> serde_json::Value {
    json!({"functionCall": {"name": "run_shell_command", "args": {"command": command}}})
}

/// A project that wants to open a container, and a user who names another image.
#[test]
fn a_project_cannot_choose_or_open_a_container() {
    let settings = json!({"tools": {"sandbox": {"enabled": true, "command": "docker", "image": "evil"}}});
    let env = "SANDBOX_FLAGS=--privileged\nSANDBOX_MOUNTS=/:/host:rw\nGEMINI_SANDBOX=docker\n\
               GEMINI_SANDBOX_IMAGE=evil\nDOCKER_HOST=tcp://192.0.2.1:2375\n";
    let hostile = home("true")
        .file(".gemini/settings.json", &settings.to_string())
        .file(".env", env)
        .file(".gemini/sandbox.Dockerfile", "FROM evil\n");
    let run = prompt(&hostile, &[], &[]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(!run.stderr.contains("docker:") && !run.stderr.contains("evil"), "{}", run.stderr);
    // The user's own wish for a container uses nothing of it but, in a trusted folder, the Dockerfile.
    let own = [("GEMINI_SANDBOX", "podman"), ("GEMINI_SANDBOX_IMAGE", "own"), ("PATH", "/nowhere")];
    let run = prompt(&hostile, &[], &own);
    assert_eq!(run.code, Some(44), "{}", run.stderr);
    assert!(run.stderr.contains("`podman` not found in `PATH`"), "{}", run.stderr);
    // A project's wish for some sandbox does not replace the one that the user names.
    let user = json!({"tools": {"sandbox": {"command": "podman", "image": "own"}}});
    let wish = home("true")
        .file(".gemini/settings.json", &json!({"tools": {"sandbox": true}}).to_string())
        .settings(user);
    let run = prompt(&wish, &[], &[("PATH", "/nowhere")]);
    assert_eq!(run.code, Some(44), "{}", run.stderr);
    assert!(run.stderr.contains("`podman` not found in `PATH`"), "{}", run.stderr);
}

#[test]
fn a_dockerfile_of_an_untrusted_folder_is_not_built() {
    let home = home("true").file(".gemini/sandbox.Dockerfile", "FROM evil\n");
    let args = ["-m", MODEL, "--fake-responses", "script.jsonl", "-p", "x"];
    let run = home.command(binary(), args).env("GEMINI_SANDBOX", "podman").run();
    assert_eq!(run.code, Some(44), "{}", run.stderr);
    assert!(run.stderr.contains("no container image is set"), "{}", run.stderr);
}

/// A folder for programs that counts as the system's, with an engine that notes how it is called.
fn recorded_engine(log: &std::path::Path) -> Option<tempfile::TempDir> {
    use std::os::unix::fs::PermissionsExt as _;
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let folder = tempfile::Builder::new().prefix("pollux-test-engine-").tempdir_in("/usr/local").unwrap();
    let text = format!(
        "#!/bin/sh\ncase \"$1\" in image) echo '[]';; run) printf '%s\\n' \"$@\" > '{0}'; \
         echo \"key $GEMINI_API_KEY\"; \
         for word in \"$@\"; do case \"$word\" in --env-file=*) grep API_KEY \"${{word#*=}}\";; esac; done; cat; [ -e '{0}.fails' ] && exit 125; exit 7;; esac\n",
        log.display()
    );
    executable(folder.path().join("docker"), &text);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    Some(folder)
}

#[test]
fn the_whole_program_runs_in_a_container_if_the_user_says_so() {
    let home = TestHome::new().file("script.jsonl", &scripted(&[json!({"text": "Outside."})]));
    let log = home.home().join("called");
    let Some(engine) = recorded_engine(&log) else { return };
    let path = format!("{}:/usr/bin:/bin", engine.path().display());
    let settings = json!({"tools": {"sandbox": {"command": "docker", "image": "i:1", "enabled": true, "scope": "process"}}});
    let home = home.home_file(".gemini/settings.json", &settings.to_string());
    let run = |args: &[&str], variables: &[(&str, &str)]| {
        let _ = fs::remove_file(&log);
        let args = ["-m", MODEL, "--skip-trust", "--fake-responses", "script.jsonl", "-p", "x y"]
            .iter()
            .copied()
            .chain(args.iter().copied());
        let mut command = home.command(binary(), args.collect::<Vec<_>>()).env("PATH", &path);
        for (name, value) in variables {
            command = command.env(name, value);
        }
        let run = command.stdin("piped").run();
        (run, fs::read_to_string(&log).unwrap_or_default())
    };
    let (inside, called) = run(&["-o", "json"], &[("GEMINI_API_KEY", "KEY-1"), ("OTHER_API_KEY", "KEY-2")]);
    assert_eq!(
        (inside.code, inside.stdout.as_str()),
        (Some(7), "key \nGEMINI_API_KEY=KEY-1\npiped"),
        "{}",
        inside.stderr
    );
    let words: Vec<&str> = called.lines().collect();
    assert!(words.ends_with(&["script.jsonl", "-p", "x y", "-o", "json"]), "{called}");
    let project = fs::canonicalize(home.project()).unwrap();
    assert!(words.contains(&format!("--workdir={}", project.display()).as_str()), "{called}");
    assert!(!called.contains("KEY-") && !called.contains("OTHER_"), "{called}");
    assert!(
        words.iter().any(|word| word.contains("target=/cache/home/.gemini/settings.json,readonly")),
        "{called}"
    );
    // The user's own file of variables counts.
    fs::write(home.gemini_dir().join(".env"), "GOOGLE_API_KEY=KEY-3\n").unwrap();
    let (inside, _) = run(&[], &[]);
    assert!(inside.stdout.contains("GOOGLE_API_KEY=KEY-3"), "{}", inside.stdout);
    fs::remove_file(home.gemini_dir().join(".env")).unwrap();
    // Not where the user wants a proxy, which only commands can have, and not inside.
    let network = json!({"tools": {"sandboxNetwork": "proxy", "sandbox": settings["tools"]["sandbox"]}});
    for (variable, value, code) in [("GEMINI_SANDBOX_SCOPE", "nonsense", 44), ("GEMINI_SANDBOX", "false", 0)]
    {
        let (other, called) = run(&[], &[(variable, value)]);
        assert_eq!((other.code, called.as_str()), (Some(code), ""), "{variable}: {}", other.stderr);
    }
    let (inside, called) = run(&[], &[("SANDBOX", "i-1-0")]);
    assert_eq!((inside.code, called.as_str()), (Some(0), ""), "{}", inside.stderr);
    fs::write(format!("{}.fails", log.display()), "").unwrap();
    let (failed, _) = run(&[], &[]);
    assert_eq!(failed.code, Some(44), "{}", failed.stderr);
    fs::write(home.gemini_dir().join("settings.json"), network.to_string()).unwrap();
    let (proxied, called) = run(&[], &[]);
    assert_eq!((proxied.code, called.as_str()), (Some(44), ""), "{}", proxied.stderr);
    assert!(proxied.stderr.contains("the sandbox scope `process` has no proxy"), "{}", proxied.stderr);
}
