//! Questions about rights, as a person meets them: the real path, the program that was refused, and what is needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use pollux_test_support::{Screen, TestHome, executable, reply};
use serde_json::{Value, json};

use crate::sandbox_rights::{STREAM, confined, has_namespaces, headless, result};
use crate::scene::{MODEL, Scene};

/// A folder outside of the home and of the folders for temporary files, which commands cannot write.
struct Outside(PathBuf);

impl Outside {
    fn new() -> Option<Self> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = ["/opt", "/srv", "/var/lib"].map(Path::new).into_iter().find_map(|place| {
            let folder = place.join(format!("pollux-test-{}-{number}", std::process::id()));
            fs::create_dir(&folder).ok().map(|()| folder)
        });
        folder.map(Self)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn git(folder: &Path, arguments: &[&str]) {
    let mut git = pollux_test_support::git(folder);
    let status = git.args(["-c", "init.defaultBranch=main"]).args(arguments).status().unwrap();
    assert!(status.success(), "{arguments:?}");
}

/// A session whose model runs one command that needs no approval.
fn session(home: TestHome, command: &str) -> (Scene, Screen) {
    let home = home.settings(json!({"tools": {"sandboxNetwork": "proxy"}}));
    let call = reply().call("run_shell_command", json!({"command": command}));
    let scene = Scene::with(home, [call, reply().text("The turn goes on.")]);
    let screen = scene.prepare(&["-m", MODEL, "-s", "--approval-mode", "yolo"]).on_screen(80, 24);
    screen.expect("Type your message");
    (scene, screen)
}

/// The denials and the proposed flags of a headless run.
fn refused(home: &TestHome, command: &str) -> Option<(Value, Value)> {
    let run = headless(home, command, &[&STREAM[..], &["--sandbox-report", "report.json"]].concat());
    let sandbox = confined(&run)?;
    let report = crate::scene::read_json(&home.project().join("report.json"));
    Some((sandbox["denials"].clone(), report["allow"].clone()))
}

#[test]
fn a_push_to_a_repository_outside_is_asked_about_with_its_path() {
    let (true, Some(outside)) = (has_namespaces(), Outside::new()) else { return };
    let home = TestHome::new();
    git(&home.project(), &["init", "-q"]);
    git(&home.project(), &["commit", "-q", "--allow-empty", "-m", "x"]);
    git(&outside.0, &["init", "-q", "--bare", "far.git"]);
    git(&home.project(), &["remote", "add", "far", &outside.path("far.git")]);
    let (_scene, screen) = session(home, "git push far HEAD:main");
    screen.say("go").expect("git was not allowed to write").expect("far.git");
    screen.key("Enter").expect("The turn goes on.");
    assert!(outside.0.join("far.git/refs/heads/main").exists(), "{}", screen.whole_text());
}

#[test]
fn compound_commands_are_asked_about_and_the_refused_program_is_named() {
    let (true, Some(outside)) = (has_namespaces(), Outside::new()) else { return };
    let made = outside.path("made");
    for (command, program) in [
        (format!("mkdir -p x && cd x && touch {made}"), "touch"),
        (format!("touch {made}; echo done"), "touch"),
        (format!("echo x | tee {made} | cat"), "tee"),
        (format!("cd x; FOO=1 cp ../a.txt {made} || true"), "cp"),
        (format!("for i in 1; do mkdir -p {made}; done; true"), "mkdir"),
    ] {
        let home = TestHome::new().file("a.txt", "a").file("x/b.txt", "b");
        let (_scene, screen) = session(home, &command);
        screen.say("go").expect(&format!("{program} was not allowed to write"));
        screen.key("Enter").expect("The turn goes on.");
        assert!(Path::new(&made).exists(), "{command}: {}", screen.whole_text());
        let _ = fs::remove_file(&made);
        let _ = fs::remove_dir(&made);
    }
}

#[test]
fn text_about_another_path_is_not_believed_if_the_command_succeeded() {
    let Some(outside) = Outside::new() else { return };
    let home = TestHome::new().file("log", &format!("tar: {}: Read-only file system\n", outside.path("x")));
    if let Some((denials, _)) = refused(&home, "cat log") {
        assert_eq!(denials, json!([]));
    }
}

#[test]
fn a_file_that_is_removed_or_replaced_needs_its_folder() {
    let (true, Some(outside)) = (has_namespaces(), Outside::new()) else { return };
    let file = outside.path("f");
    for command in [format!("rm {file}"), format!("mv a.txt {file}"), format!("sed -i s/x/y/ {file}")] {
        fs::write(&file, "x").unwrap();
        let home = TestHome::new().file("a.txt", "a");
        let allow = format!("write:{file}");
        let call = reply().call("run_shell_command", json!({"command": command}));
        let scene = Scene::with(home, [call, reply().text("The turn goes on.")]);
        // Also if the file itself was granted before.
        let flags = ["-m", MODEL, "-s", "--approval-mode", "yolo", "--sandbox-allow", &allow];
        let screen = scene.prepare(&flags).on_screen(80, 24);
        screen
            .expect("Type your message")
            .say("go")
            .expect("was not allowed to write")
            .key("Enter")
            .expect("The turn goes on.");
        assert_ne!(fs::read_to_string(&file).unwrap_or_default(), "x", "{command}: {}", screen.whole_text());
    }
}

#[test]
fn a_server_of_this_machine_is_asked_about() {
    use std::io::{Read as _, Write as _};
    if !has_namespaces() {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1000]);
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nfrom outside");
        }
    });
    let fetch = format!(
        "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://localhost:{port}\").read())'"
    );
    let home = TestHome::new().file(
        "fetch.sh",
        &format!("{fetch} > answer 2>&1 || {{ echo localhost:{port}: Connection refused; exit 1; }}"),
    );
    let (scene, screen) = session(home, "bash fetch.sh");
    screen
        .say("go")
        .expect(&format!("port {port} of this machine"))
        .key("2")
        .key("Enter")
        .expect("The turn goes on.");
    let answer = fs::read_to_string(scene.home.project().join("answer")).unwrap();
    assert!(answer.contains("from outside"), "{answer}");
    screen.say("/sandbox").expect(&format!("port:{port} (session, by user)"));
    screen.say(&format!("/sandbox revoke port:{port}")).expect("Revoked");
    // Headless, the flag is named.
    let home = TestHome::new();
    let (denials, allow) =
        refused(&home, &format!("{fetch} 2>&1 || {{ echo localhost:{port}: Connection refused; exit 1; }}"))
            .unwrap();
    assert_eq!(
        (&denials[0]["kind"], &denials[0]["target"], &denials[0]["port"]),
        (&json!("connect"), &json!("localhost"), &json!(port))
    );
    assert_eq!(allow, json!([format!("port:{port}")]));
    // The model and the user are told how to allow it.
    let script = format!("{fetch} 2>&1 || {{ echo localhost:{port}: Connection refused; exit 1; }}");
    let run = headless(&TestHome::new(), &script, &STREAM);
    let hint = format!("--sandbox-allow port:{port}");
    assert!(run.stdout.contains(&format!("`{hint}` leads to this machine's")), "{}", run.stdout);
    assert!(result(&run).contains(&hint), "{}", run.stdout);
}

#[test]
fn a_commit_has_the_users_identity_and_runs_the_repositorys_hooks() {
    if !has_namespaces() {
        return;
    }
    let home = TestHome::new();
    let config = "[user]\n\tname = Ada\n\temail = ada@example.org\n[commit]\n\tgpgSign = true\n[credential]\n\thelper = store\n\
                  [http \"https://x.example\"]\n\textraHeader = SECRET\n[includeIf \"gitdir:**/project/\"]\n\tpath = work\n";
    fs::write(home.home().join(".gitconfig"), config).unwrap();
    fs::write(home.home().join("work"), "[user]\n\temail = ada@work.example\n").unwrap();
    git(&home.project(), &["init", "-q"]);
    let hook = home.project().join(".git/hooks/pre-commit");
    executable(hook, "#!/bin/sh\ntest -e forbidden && exit 1\necho hook >> ran\n");
    let script = "echo x > a; git add a; git commit -qm one && git log -1 --format='%an <%ae>' && cat ran; cat \"$GIT_CONFIG_GLOBAL\"; \
                  touch forbidden; git add forbidden; git commit -qm two || echo stopped; git -c user.name=Local log -1 --format=%s; \
                  git config --get credential.helper; cat ~/.gitconfig";
    let run = headless(&home, script, &STREAM);
    if confined(&run).is_some() {
        let said = result(&run);
        assert!(
            said.contains("Ada <ada@work.example>") && said.contains("hook\n") && said.contains("stopped"),
            "{said}"
        );
        assert!(!said.contains("SECRET") && !said.contains("store"), "{said}");
    }
}

#[test]
fn settings_of_package_managers_are_seen_without_tokens() {
    let home = TestHome::new();
    let (npmrc, pip) = (home.home().join(".npmrc"), home.home().join(".config/pip/pip.conf"));
    fs::write(&npmrc, "registry=https://npm.corp.example/\n//npm.corp.example/:_authToken=SECRET\n").unwrap();
    fs::create_dir_all(pip.parent().unwrap()).unwrap();
    fs::write(&pip, "[global]\nindex-url = https://u:SECRET@pypi.corp.example/simple\n").unwrap();
    let run = headless(&home, "cat ~/.npmrc ~/.config/pip/pip.conf; echo x > ~/.npmrc", &STREAM);
    if confined(&run).is_some() {
        let said = result(&run);
        assert!(
            said.contains("https://npm.corp.example/") && said.contains("https://pypi.corp.example/simple"),
            "{said}"
        );
        assert!(!said.contains("SECRET"), "{said}");
        assert!(fs::read_to_string(&npmrc).unwrap().contains("SECRET"), "the original is as it was");
    }
}

#[test]
fn a_program_that_is_missing_and_one_that_cannot_run_have_the_codes_of_a_shell() {
    let home = TestHome::new().file("plain.txt", "x");
    for (program, code, why) in
        [("nosuch", 127, "command not found"), ("./plain.txt", 126, "permission denied")]
    {
        let run = home.command(crate::scene::binary(), ["sandbox", "run", "--", program]).run();
        if run.code == Some(44) {
            return;
        }
        assert_eq!(run.code, Some(code), "{}", run.stderr);
        assert!(run.stderr.contains(why) && run.stderr.contains(program), "{}", run.stderr);
    }
    let report = ["--sandbox-report", "r.json", "sandbox", "run", "--", "touch", "/usr/pollux-test"];
    let run = home.command(crate::scene::binary(), report).run();
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("Read-only file system"), "{}", run.stderr);
    let report = crate::scene::read_json(&home.project().join("r.json"));
    assert_eq!(report["denials"][0]["target"], "/usr/pollux-test", "{report}");
}

#[test]
fn the_person_sees_which_protected_file_was_renamed() {
    if !has_namespaces() {
        return;
    }
    let (_scene, screen) = session(TestHome::new(), "echo x > .envrc; echo made");
    screen.say("go").expect("The turn goes on.").expect_anywhere(".envrc.sandbox-blocked-1");
}

#[test]
fn caches_that_do_not_exist_are_kept_with_temporary_files() {
    let home = TestHome::new();
    let run = headless(
        &home,
        "mkdir -p $npm_config_cache $XDG_CACHE_HOME $GOPATH && touch $npm_config_cache/x && echo made",
        &STREAM,
    );
    if confined(&run).is_some() {
        assert!(result(&run).contains("made"), "{}", result(&run));
        assert!(!home.home().join(".npm").exists() && !home.home().join(".cache").exists());
    }
}

/// Whether a program is there, apart from shims, which need a home of their own.
fn has(program: &str) -> bool {
    ["/usr/local/bin", "/usr/bin"].iter().any(|folder| Path::new(folder).join(program).exists())
}

#[test]
fn programs_that_miss_their_keys_are_asked_about_by_the_place_of_the_keys() {
    if !has_namespaces() {
        return;
    }
    for (program, command, keys, question) in [
        ("kubectl", "kubectl get pods", ".kube/config", "kubectl was not allowed to read"),
        ("aws", "aws s3 ls", ".aws/credentials", "aws was not allowed to read"),
        ("gcloud", "gcloud projects list", ".config/gcloud/active_config", "gcloud was not allowed to write"),
        ("gh", "gh pr create", ".config/gh/hosts.yml", "gh was not allowed to read"),
    ] {
        if has(program) {
            let home = TestHome::new();
            let keys = home.home().join(keys);
            fs::create_dir_all(keys.parent().unwrap()).unwrap();
            fs::write(&keys, "").unwrap();
            let (_scene, screen) = session(home, command);
            screen.say("go").expect(question).expect("Allow it and run the command again?");
            assert!(!screen.whole_text().contains("all future sessions"), "{}", screen.whole_text());
            screen.key("Esc").expect("The turn goes on.");
        }
    }
}

#[test]
fn a_file_of_the_project_with_the_name_of_a_program_does_not_ask_for_its_keys() {
    if !has_namespaces() {
        return;
    }
    let home = TestHome::new();
    executable(home.project().join("aws"), "echo 'Unable to locate credentials'; exit 1");
    fs::create_dir_all(home.home().join(".aws")).unwrap();
    let (_scene, screen) = session(home, "./aws s3 ls");
    screen.say("go").expect("The turn goes on.");
    assert!(!screen.whole_text().contains("not allowed to"), "{}", screen.whole_text());
}

#[test]
fn the_ssh_agent_is_asked_about_if_a_server_refuses_the_connection_without_it() {
    let (true, Some(outside)) = (has_namespaces(), Outside::new()) else { return };
    let socket = outside.0.join("agent");
    let _agent = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let home = TestHome::new().settings(json!({"tools": {"sandboxNetwork": "proxy"}}));
    let home = home.file("refuse.sh", "echo 'git@x.example: Permission denied (publickey).' >&2; exit 255");
    git(&home.project(), &["init", "-q"]);
    let command = "git -c core.sshCommand='sh refuse.sh' ls-remote ssh://git@x.example/y";
    let call =
        reply().call("run_shell_command", json!({"command": format!("unset GIT_SSH_COMMAND; {command}")}));
    let scene = Scene::with(home, [call, reply().text("The turn goes on.")]);
    let run = scene.prepare(&["-m", MODEL, "-s", "--approval-mode", "yolo"]);
    let screen = run.env("SSH_AUTH_SOCK", socket.to_str().unwrap()).on_screen(100, 30);
    screen.expect("Type your message").say("go").expect("git was not allowed to connect to the socket");
    screen.key("Esc").expect("The turn goes on.");
}
