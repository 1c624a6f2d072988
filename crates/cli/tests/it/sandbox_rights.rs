//! The network and the rights of sandboxed commands: what is refused, asked about and granted.

use std::fs;
use std::path::Path;

use pollux_test_support::{Run, TestHome, executable, reply};
use serde_json::{Value, json};

use crate::scene::{MODEL, Scene, binary, lines, of_type, read_json, scripted};

const TOOL: [&str; 2] = ["--allowed-tools", "run_shell_command"];

/// This program as commands see it.
pub(crate) const OWN_PROGRAM: &str = "/run/pollux/pollux";

/// Speaks to the proxy inside the sandbox and prints the first line of the answer.
const ASK: &str = r#"ask() { timeout 20 bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128 || exit 9; printf "%b" "$1" >&3; head -n 1 <&3' - "$1"; }"#;

pub(crate) fn connect(target: &str) -> String {
    format!("{ASK}; ask 'CONNECT {target} HTTP/1.1\\r\\nHost: {target}\\r\\n\\r\\n'")
}

/// A headless run in which the model runs a script of the project.
pub(crate) fn headless(home: &TestHome, script: &str, flags: &[&str]) -> Run {
    headless_by(binary(), home, script, flags)
}

pub(crate) fn headless_by(program: &Path, home: &TestHome, script: &str, flags: &[&str]) -> Run {
    fs::write(home.project().join("script.sh"), script).unwrap();
    let call = json!({"functionCall": {"name": "run_shell_command", "args": {"command": "bash script.sh"}}});
    let replies = scripted(&[call]) + &scripted(&[json!({"text": "The run goes on."})]);
    fs::write(home.project().join("replies.jsonl"), replies).unwrap();
    let args =
        ["-m", MODEL, "--skip-trust", "--fake-responses", "replies.jsonl", "-p", "x", TOOL[0], TOOL[1]];
    home.command(program, args.into_iter().chain(flags.iter().copied())).run()
}

/// The `sandbox` field of the only call; `None` where no namespaces work.
pub(crate) fn confined(run: &Run) -> Option<Value> {
    if run.code == Some(44) || run.stderr.contains("Sandbox (Landlock)") {
        return None;
    }
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("The run goes on."), "{}", run.stdout);
    let events = lines(&run.stdout);
    let results = of_type(&events, "TOOL_RESULT");
    Some(results[0]["sandbox"].clone())
}

pub(crate) fn result(run: &Run) -> String {
    of_type(&lines(&run.stdout), "TOOL_RESULT")[0]["result"].as_str().unwrap_or_default().to_owned()
}

pub(crate) const STREAM: [&str; 3] = ["-s", "-o", "stream-json"];

#[test]
fn an_unknown_host_is_refused_and_listed_and_the_run_goes_on() {
    let home = TestHome::new();
    let script = connect("a.example:443");
    let run = headless(&home, &script, &[&STREAM[..], &["--sandbox-report", "report.json"]].concat());
    let Some(sandbox) = confined(&run) else { return };
    assert_eq!(result(&run).trim(), "HTTP/1.1 403 Forbidden");
    let denial = json!({"kind": "connect", "target": "a.example", "port": 443, "strength": "certain", "rule": "no rule"});
    assert_eq!(sandbox["denials"], json!([denial]));
    assert_eq!((&sandbox["mode"], &sandbox["network"]), (&json!("workspace"), &json!("proxy")));
    assert_eq!((&sandbox["requested"], &sandbox["rerun"]), (&json!([]), &json!(false)));
    let report = read_json(&home.project().join("report.json"));
    assert_eq!(report["allow"], json!(["host:a.example:443"]));
    assert_eq!(report["denials"][0]["command"], "bash script.sh");
    let upstream = headless(&home, &script, &[&STREAM[..], &["--output-dialect", "gemini-cli"]].concat());
    assert!(!upstream.stdout.contains("sandbox"), "{}", upstream.stdout);
}

#[test]
fn nothing_leaves_beside_the_proxy_and_the_proxy_refuses_what_it_must() {
    let direct = [
        ("tcp", "exec 3<>/dev/tcp/192.0.2.1/80"),
        ("tcp to an address that exists", "exec 3<>/dev/tcp/1.1.1.1/80"),
        ("udp", "exec 3>/dev/udp/192.0.2.1/53 && echo x >&3"),
        ("ipv6", "exec 3<>/dev/tcp/2001:db8::1/80"),
        ("mapped", "exec 3<>/dev/tcp/::ffff:192.0.2.1/80"),
        ("a name", "getent hosts a.example"),
    ];
    let mut script = String::from("ulimit -t 60\n");
    for (what, attempt) in direct {
        script += &format!("timeout 10 bash -c '{attempt}' 2>/dev/null && echo 'OPEN {what}'\n");
    }
    script += ASK;
    // Metadata, private addresses, odd spellings of them, and requests that two readers could read differently.
    let targets = [
        "169.254.169.254:80",
        "127.0.0.1:22",
        "10.0.0.1:443",
        "[::1]:443",
        "[::ffff:127.0.0.1]:443",
        "0x7f.1:443",
        "2130706433:443",
        "good@evil.example:443",
        "a.example:443:80",
        "localhost:443",
        "0.0.0.0:443",
        "metadata.google.internal:80",
        "pollux-canary.invalid:443",
    ];
    for target in targets {
        script += &format!(
            "\nask 'CONNECT {target} HTTP/1.1\\r\\nHost: {target}\\r\\n\\r\\n' > answer; \
            grep -q -e ' 403 ' -e ' 400 ' answer || echo 'OPEN {target}' \"$(cat answer)\""
        );
    }
    let heads = [
        r"GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n",
        r"GET http://a.example/ HTTP/1.1\nHost: a.example\n\n",
        r"POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
        r"CONNECT evil.example\x00.good.example:443 HTTP/1.1\r\n\r\n",
    ];
    for head in heads {
        script += &format!(
            "\nask '{head}' > answer; \
            grep -q -e ' 403 ' -e ' 400 ' answer || echo 'OPEN head' \"$(cat answer)\""
        );
    }
    script += "\necho end";
    let home = TestHome::new();
    let run = headless(&home, &script, &STREAM);
    if confined(&run).is_some() {
        assert_eq!(result(&run).trim(), "end", "{}", run.stdout);
    }
}

#[test]
fn rights_of_flags_hold_and_bad_ones_are_refused() {
    let home = TestHome::new();
    let (free, closed) = (home.home().join("free"), home.home().join("closed"));
    fs::create_dir_all(&free).unwrap();
    fs::create_dir_all(&closed).unwrap();
    fs::create_dir_all(home.home().join(".ssh")).unwrap();
    fs::write(home.home().join(".ssh/known"), "SECRET").unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "touch ~/free/made; touch ~/closed/made; cat ~/.ssh/known; exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached; {}",
        connect("a.example:22")
    );
    let write = format!("write:{}", free.display());
    let port = format!("port:{port}");
    let allow = ["--sandbox-allow", &write, "--sandbox-allow", &port, "--sandbox-allow", "read:~/.ssh"];
    let run = headless(&home, &script, &[&STREAM[..], &allow].concat());
    if confined(&run).is_some() {
        assert!(free.join("made").exists() && !closed.join("made").exists(), "{}", run.stdout);
        let said = result(&run);
        assert!(said.contains("SECRET") && said.contains("reached") && said.contains("403"), "{said}");
    }
    for value in ["bogus", "exec:/x", "write:", "port:0", "host:*", "write:/", "write:~", "write:/nowhere"] {
        let run = headless(&home, "true", &["-s", "--sandbox-allow", value]);
        assert_eq!(run.code, Some(42), "{value}: {}", run.stderr);
        assert!(run.stderr.contains("--sandbox-allow"), "{value}: {}", run.stderr);
    }
}

#[test]
fn a_project_cannot_open_the_network_or_the_files() {
    let open = json!({"tools": {"sandboxNetwork": "open", "sandboxProfile": "workspace-open", "sandboxPackageDownloads": true}});
    let home = TestHome::new().project_settings(open).file(
        ".gemini/sandbox.toml",
        "[network]\nallow = [\"a.example\"]\n[files]\nwrite = [\"/etc\"]\n[commands.bash]\nallow_network = true\n",
    );
    let run = headless(&home, &connect("a.example:443"), &STREAM);
    let Some(sandbox) = confined(&run) else { return };
    assert_eq!(sandbox["network"], "proxy");
    assert_eq!(result(&run).trim(), "HTTP/1.1 403 Forbidden");
}

#[test]
fn modes_come_from_settings_and_from_upstreams_names() {
    let network = |settings: Value, env: &[(&str, &str)]| {
        let home = TestHome::new().settings(settings);
        fs::write(home.project().join("replies.jsonl"), scripted(&[json!({"text": "hi"})])).unwrap();
        let args = ["-m", MODEL, "--skip-trust", "--fake-responses", "replies.jsonl", "-p", "x", "-s"];
        let command = home.command(binary(), args);
        let run = env.iter().fold(command, |run, (name, value)| run.env(name, value)).run();
        (run.code != Some(44) && !run.stderr.contains("Landlock")).then_some(run.stderr)
    };
    for (settings, env, expected) in [
        (json!({}), &[][..], "only to allowed hosts"),
        (json!({"tools": {"sandboxNetwork": "public"}}), &[], "only to public hosts"),
        (
            json!({"tools": {"sandboxNetwork": "none", "sandboxNetworkAccess": true}}),
            &[],
            "without network access",
        ),
        (json!({"tools": {"sandboxProfile": "read-only"}}), &[], "only to temporary files, without network"),
        (json!({}), &[("SEATBELT_PROFILE", "strict-proxied")], "only to allowed hosts"),
    ] {
        let Some(said) = network(settings, env) else { return };
        assert!(said.contains(expected), "{expected}: {said}");
    }
    for (settings, env) in [
        (json!({"tools": {"sandboxNetworkAccess": true}}), &[][..]),
        (json!({"tools": {"sandboxNetwork": "open", "sandboxNetworkAccess": false}}), &[]),
        (json!({}), &[("SEATBELT_PROFILE", "permissive-open")]),
    ] {
        let Some(said) = network(settings, env) else { return };
        assert!(said.contains("Sandbox (") && !said.contains("network"), "{said}");
    }
}

/// A session at the screen, in a sandbox, whose model runs one command.
pub(crate) fn at_the_screen(home: TestHome, command: &str) -> (Scene, pollux_test_support::Screen) {
    let call = reply().call("run_shell_command", json!({"command": command}));
    let scene = Scene::with(home, [call, reply().text("The turn goes on.")]);
    let screen = scene.prepare(&["-m", MODEL, "-s", TOOL[0], TOOL[1]]).on_screen(110, 40);
    screen.expect("Type your message");
    (scene, screen)
}

/// Whether questions can be tested on this machine.
pub(crate) fn has_namespaces() -> bool {
    let run = headless(&TestHome::new(), "true", &STREAM);
    confined(&run).is_some()
}

#[test]
fn a_person_is_asked_about_a_host_while_the_command_waits() {
    if !has_namespaces() {
        return;
    }
    let script = format!("run() {{ {}; }}; run > answer; run >> answer; true", connect("a.example:443"));
    let home = TestHome::new().file("c.sh", &script);
    let (scene, screen) = at_the_screen(home, "bash c.sh");
    screen.say("go").expect("bash wants to connect to a.example:443").expect("Allow it? The command waits.");
    screen.expect("Allow for this project").key("Down").key("Enter").expect("The turn goes on.");
    // Allowed, and then the name has no address: no refusal, and no second question.
    let answer = fs::read_to_string(scene.home.project().join("answer")).unwrap();
    assert!(!answer.contains("403") && answer.lines().count() == 2, "{answer}");
    screen.say("/sandbox").expect("host:a.example:443 (session, by user)").expect("Network: proxy");
    screen.say("/sandbox revoke host:a.example:443").expect("Revoked host:a.example:443");
}

#[test]
fn a_connection_counts_as_nobodys_while_a_daemon_runs_and_its_refusal_is_still_told() {
    let home = TestHome::new();
    for (script, is_known) in [
        (connect("a.example:443"), true),
        (format!("setsid -f sleep 30 >/dev/null 2>&1 </dev/null; {}", connect("b.example:443")), false),
    ] {
        let run = headless(&home, &script, &STREAM);
        let Some(sandbox) = confined(&run) else { return };
        let host = if is_known { "a.example" } else { "b.example" };
        assert_eq!(sandbox["denials"][0]["target"], host, "{sandbox}");
        let files = crate::scene::all_files(&home.gemini_dir());
        let log = files.iter().find(|path| path.ends_with("sandbox-network.jsonl")).unwrap();
        let log = fs::read_to_string(log).unwrap();
        let line = log.lines().find(|line| line.contains(host)).unwrap();
        assert_eq!(line.contains(r#""command""#), is_known, "{line}");
    }
}

/// As ssh does it: the server speaks first.
#[test]
fn a_helper_inside_connects_through_the_proxy_and_ssh_is_told_to_use_it() {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"SSH-2.0-test\r\n").unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        said
    });
    let home = TestHome::new();
    let connect = format!("echo hello | {OWN_PROGRAM} __connect 127.0.0.1 {port}; echo \"$GIT_SSH_COMMAND\"");
    let run = |flags: &[&str], script: &str| {
        let args = flags.iter().copied().chain(["sandbox", "run", "--", "sh", "-c"]).chain([script]);
        home.command(binary(), args.collect::<Vec<_>>()).run()
    };
    let refused = run(&[], &connect);
    if refused.code == Some(44) || !refused.stdout.contains("ProxyCommand=") {
        return;
    }
    assert!(refused.stderr.contains("the sandbox does not allow 127.0.0.1"), "{}", refused.stderr);
    let right = format!("host:127.0.0.1:{port}");
    let allowed = run(&["--sandbox-allow", &right], &connect);
    assert!(allowed.stdout.starts_with("SSH-2.0-test"), "{}{}", allowed.stdout, allowed.stderr);
    assert_eq!(server.join().unwrap(), "hello\n");
}

#[test]
fn a_session_starts_before_package_managers_are_asked_and_commands_reach_their_hosts() {
    if !has_namespaces() {
        return;
    }
    let script = format!("run() {{ {}; }}; run > answer", connect("npm.example:443"));
    let home =
        TestHome::new().settings(json!({"tools": {"sandboxPackageDownloads": true}})).file("c.sh", &script);
    let (bin, asked) = (home.home().join("bin"), home.home().join("asked"));
    executable(bin.join("npm"), "#!/bin/sh\n: > \"$HOME/asked\"\necho https://npm.example/\n");
    let path = std::env::var("PATH").unwrap();
    let home = home.env("PATH", &format!("{}:{path}", bin.display()));
    let (scene, screen) = at_the_screen(home, "bash c.sh");
    // The session is ready.
    screen.expect(", proxy");
    assert!(!asked.exists());
    screen.say("go").expect("The turn goes on.");
    assert!(asked.exists());
    // Allowed without a question, and then the name has no address.
    let answer = fs::read_to_string(scene.home.project().join("answer")).unwrap();
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
}

/// The program itself, without a word about the sandbox on its command line.
#[test]
fn plain_ssh_reaches_an_allowed_host_through_the_proxy_and_sees_no_keys() {
    use std::io::{Read as _, Write as _};
    if !has_namespaces() || !Path::new("/usr/bin/ssh").exists() || !Path::new("/etc/ssh/ssh_config").exists()
    {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"SSH-2.0-test\r\n").unwrap();
        let mut said = [0; 8];
        stream.read_exact(&mut said).unwrap();
        String::from_utf8_lossy(&said).into_owned()
    });
    let config = format!("Host box\n  HostName 127.0.0.1\n  Port {port}\n  ProxyCommand evil\n");
    let home = TestHome::new()
        .home_file(".ssh/config", &config)
        .home_file(".ssh/known_hosts", "box ssh-ed25519 AAAA\n")
        .home_file(".ssh/id_ed25519", "SECRET");
    let run = |flags: &[&str], script: &str| {
        let args = flags.iter().copied().chain(["sandbox", "run", "--", "sh", "-c"]).chain([script]);
        home.command(binary(), args.collect::<Vec<_>>()).run()
    };
    let seen = run(&[], "ssh -G box; cat ~/.ssh/known_hosts; cat ~/.ssh/id_ed25519 ~/.ssh/config");
    let proxy = format!("proxycommand {OWN_PROGRAM} __connect %h %p");
    for line in ["hostname 127.0.0.1", &format!("port {port}"), &proxy, "box ssh-ed25519 AAAA"] {
        assert!(seen.stdout.lines().any(|said| said == line), "{line}: {}{}", seen.stdout, seen.stderr);
    }
    assert!(!seen.stdout.contains("SECRET") && !seen.stdout.contains("evil"), "{}", seen.stdout);
    let refused = run(&[], "ssh -o BatchMode=yes box true");
    assert!(refused.stderr.contains("the sandbox does not allow 127.0.0.1"), "{}", refused.stderr);
    run(&["--sandbox-allow", &format!("host:127.0.0.1:{port}")], "ssh -o BatchMode=yes box true");
    assert_eq!(server.join().unwrap(), "SSH-2.0-");
    // With an open network, ssh connects itself.
    let open = home.command(binary(), ["sandbox", "run", "--", "ssh", "-G", "box"]);
    let open = open.env("SEATBELT_PROFILE", "permissive-open").run();
    assert!(
        !open.stdout.contains("proxycommand") && open.stdout.contains("hostname 127.0.0.1"),
        "{}",
        open.stdout
    );
}

#[test]
fn a_published_port_leads_to_the_server_of_a_command() {
    use std::io::{Read as _, Write as _};
    if !has_namespaces() {
        return;
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let script = format!(
        "setsid -f python3 -m http.server --bind 127.0.0.1 {port} >/dev/null 2>&1 </dev/null; \
         until (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.1; done"
    );
    let home = TestHome::new().file("serve.sh", &script).file("page.txt", "from inside");
    let (_scene, screen) = at_the_screen(home, "bash serve.sh");
    screen.say("go").expect("The turn goes on.");
    let fetch = || -> std::io::Result<String> {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port))?;
        stream.write_all(b"GET /page.txt HTTP/1.0\r\n\r\n")?;
        let mut said = String::new();
        stream.read_to_string(&mut said)?;
        Ok(said)
    };
    assert!(fetch().is_err(), "nothing is open before");
    screen.say("/sandbox publish x").expect("invalid port");
    screen.say(&format!("/sandbox publish {port}")).expect("until the session ends");
    let page = fetch().unwrap();
    assert!(page.contains("from inside"), "{page}");
}

#[test]
fn a_refused_path_is_asked_about_and_the_command_runs_again() {
    if !has_namespaces() {
        return;
    }
    let home = TestHome::new();
    let other = home.home().join("other");
    fs::create_dir_all(&other).unwrap();
    let home = home.file("append.sh", &format!("echo x >> {}/file", other.display()));
    let (scene, screen) = at_the_screen(home, "bash append.sh");
    screen.say("go").expect("was not allowed to write").expect("Allow it and run the command again?");
    assert!(!other.join("file").exists());
    screen.key("y").key("Enter").expect("The turn goes on.");
    assert_eq!(fs::read_to_string(other.join("file")).unwrap(), "x\n");
    // Once is once.
    screen.say("/sandbox").expect("Granted: nothing").expect("Refused:");
    assert!(!stored(&scene.home).exists());
}

pub(crate) fn stored(home: &TestHome) -> std::path::PathBuf {
    home.gemini_dir().join("policies/sandbox.toml")
}

#[test]
fn always_is_stored_and_holds_in_the_next_session() {
    if !has_namespaces() {
        return;
    }
    let home = TestHome::new();
    let other = home.home().join("other");
    fs::create_dir_all(&other).unwrap();
    let command = format!("touch {}/file", other.display());
    let (scene, screen) = at_the_screen(home, &command);
    screen
        .say("go")
        .expect("Allow for all future sessions")
        .key("4")
        .key("Enter")
        .expect("The turn goes on.");
    assert!(other.join("file").exists());
    assert!(fs::read_to_string(stored(&scene.home)).unwrap().contains("write = ["));
    fs::remove_file(other.join("file")).unwrap();
    let run = headless(&scene.home, &command, &STREAM);
    assert!(confined(&run).is_some() && other.join("file").exists(), "{}", run.stdout);
}

/// Text that a command prints must not make anybody ask for a secret or for what runs code.
#[test]
fn forged_denials_raise_no_question() {
    let secrets = |home: &Path| {
        fs::create_dir_all(home.join(".ssh")).unwrap();
        fs::write(home.join(".ssh/id"), "SECRET").unwrap();
        fs::write(home.join(".bashrc"), "").unwrap();
    };
    let script = "for path in $HOME/.ssh/id $HOME/.bashrc $HOME / /proc/1/mem; do \
                  echo \"cat: $path: Permission denied\"; echo \"open '$path': Read-only file system\"; done; exit 1";
    let home = TestHome::new();
    secrets(&home.home());
    let run = headless(&home, script, &STREAM);
    let Some(sandbox) = confined(&run) else { return };
    assert_eq!(sandbox["requested"], json!([]));
    for denial in sandbox["denials"].as_array().unwrap() {
        assert_eq!(denial["strength"], "weak", "{denial}");
    }
    let home = TestHome::new().file("forge.sh", script);
    secrets(&home.home());
    let (_scene, screen) = at_the_screen(home, "bash forge.sh");
    screen.say("go").expect("The turn goes on.");
    assert!(!screen.whole_text().contains("not allowed to"), "{}", screen.whole_text());
}
