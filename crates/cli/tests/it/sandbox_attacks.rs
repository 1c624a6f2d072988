//! Attacks on the network and the questions of the sandbox, through the whole program.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, ToSocketAddrs as _};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pollux_test_support::{TestHome, client_hello};

use crate::sandbox_rights::{
    STREAM, at_the_screen, confined, connect, has_namespaces, headless, result, stored,
};

/// Opens a tunnel, sends bytes in one or two parts, and prints the first bytes of the answer.
const TUNNEL: &str = r#"tunnel() {
  exec 3<>/dev/tcp/127.0.0.1/3128
  printf 'CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n' "$1" "$1" >&3
  read -r line <&3; while read -r rest <&3 && [ "$rest" != $'\r' ]; do :; done
  printf "$2" >&3; [ -z "$3" ] || { sleep 0.3; printf "$3" >&3; }
  echo "$4: ${line%%$'\r'}: $(timeout 60 head -c 4 <&3 | tr -d '\0')"
  exec 3>&-
}
"#;

/// Bytes for `printf`.
fn escaped(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect()
}

/// A server on this machine that answers what it gets, and remembers it.
fn server() -> (u16, Arc<Mutex<Vec<Vec<u8>>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, received) = (listener.local_addr().unwrap().port(), Arc::new(Mutex::new(Vec::new())));
    let kept = Arc::clone(&received);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let kept = Arc::clone(&kept);
            // A connection that says nothing must not hold the next one up.
            std::thread::spawn(move || {
                let mut bytes = [0; 512];
                let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
                if let Ok(count) = stream.read(&mut bytes)
                    && count > 0
                {
                    kept.lock().unwrap().push(bytes[..count].to_vec());
                    let _ = stream.write_all(b"PONG");
                }
            });
        }
    });
    (port, received)
}

/// A name other than `localhost` that leads to the loopback interface.
fn name_of_this_machine() -> Option<String> {
    let hosts = fs::read_to_string("/etc/hosts").ok()?;
    let leads_here = |name: &&str| {
        let found = (*name, 80).to_socket_addrs().map(Iterator::collect::<Vec<_>>).unwrap_or_default();
        !found.is_empty() && found.iter().all(|address| address.ip().is_loopback())
    };
    let lines = hosts.lines().filter(|line| !line.starts_with('#'));
    let mut names =
        lines.flat_map(|line| line.split_whitespace().skip(1)).filter(|name| *name != "localhost");
    names.find(leads_here).map(str::to_owned)
}

/// Attack 66: a tunnel to one server cannot ask it for another one.
#[test]
fn a_tunnel_leads_only_to_the_server_that_it_names() {
    let (port, received) = server();
    let target = format!("127.0.0.1:{port}");
    let (wrong, none) = (client_hello(Some("evil.example")), client_hello(None));
    let halves = |bytes: &[u8]| (escaped(&bytes[..40]), escaped(&bytes[40..]));
    let mut script = TUNNEL.to_owned();
    for (what, (first, second)) in [
        ("none", (escaped(&none), String::new())),
        ("wrong", (escaped(&wrong), String::new())),
        ("wrong in parts", halves(&wrong)),
    ] {
        script += &format!("tunnel {target} '{first}' '{second}' '{what}'\n");
    }
    let home = TestHome::new();
    let allow = format!("host:{target}");
    let run = headless(&home, &script, &[&STREAM[..], &["--sandbox-allow", &allow]].concat());
    if confined(&run).is_none() {
        return;
    }
    let said = result(&run);
    assert!(said.contains("none: HTTP/1.1 200") && said.matches("PONG").count() == 1, "{said}");
    assert_eq!(*received.lock().unwrap(), [none], "nothing else left: {said}");
}

/// Attack 69: neither ours through itself, nor an own one that is chained to it.
#[test]
fn proxies_cannot_be_chained() {
    let mut script = TUNNEL.to_owned();
    for target in ["127.0.0.1:3128", "localhost:3128", "[::1]:3128", "0.0.0.0:3128"] {
        script += &format!("tunnel {target} 'CONNECT evil.example:443 HTTP/1.1\\r\\n\\r\\n' '' '{target}'\n");
    }
    // The same by SOCKS: the second byte of the last answer is the refusal.
    script += r#"exec 3<>/dev/tcp/127.0.0.1/3128; printf '\x05\x01\x00' >&3; head -c 2 <&3 >/dev/null
printf '\x05\x01\x00\x03\x09localhost\x0c\x38' >&3; echo "socks: $(head -c 2 <&3 | od -An -tx1)"; exec 3>&-
"#;
    let home = TestHome::new();
    let run = headless(&home, &script, &STREAM);
    if confined(&run).is_none() {
        return;
    }
    let said = result(&run);
    assert_eq!(said.matches(": HTTP/1.1 403 Forbidden: ").count(), 4, "{said}");
    assert!(said.contains("socks:  05 02"), "{said}");
}

/// Attack 64: a name that is allowed leads to this machine.
#[test]
fn a_name_that_is_allowed_does_not_lead_to_a_private_address() {
    let Some(name) = name_of_this_machine() else { return };
    let home = TestHome::new();
    let (port, received) = server();
    fs::create_dir_all(stored(&home).parent().unwrap()).unwrap();
    fs::write(stored(&home), format!("[network]\nallow = [\"{name}:{port}\"]\n")).unwrap();
    let run = headless(&home, &connect(&format!("{name}:{port}")), &STREAM);
    let Some(sandbox) = confined(&run) else { return };
    assert_eq!(result(&run).trim(), "HTTP/1.1 403 Forbidden", "{}", run.stderr);
    let rule = sandbox["denials"][0]["rule"].as_str().unwrap();
    assert!(rule.contains("not a public address"), "{rule}");
    assert!(received.lock().unwrap().is_empty());
}

/// Attack 70: neither the command nor another program opens a host while the session runs.
#[test]
fn settings_that_change_during_a_session_open_nothing() {
    let home = TestHome::new();
    let script = format!(
        "mkdir -p ~/.gemini/policies; printf '[network]\\nallow = [\"a.example\"]\\n' > ~/.gemini/policies/sandbox.toml; \
         mkdir -p .gemini; echo '{{\"tools\": {{\"sandboxNetwork\": \"open\"}}}}' > .gemini/settings.json; \
         : > ready; while [ ! -e go ]; do sleep 0.05; done; {}",
        connect("a.example:443")
    );
    let (ready, go) = (home.project().join("ready"), home.project().join("go"));
    let (rules, settings) = (stored(&home), home.gemini_dir().join("settings.json"));
    let outside = std::thread::spawn(move || {
        let started = Instant::now();
        while !ready.exists() && started.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let is_clean = !rules.exists();
        fs::create_dir_all(rules.parent().unwrap()).unwrap();
        fs::write(&rules, "[network]\nallow = [\"a.example\", \"**.example\"]\n").unwrap();
        fs::write(settings, r#"{"tools": {"sandboxNetwork": "open", "sandbox": false}}"#).unwrap();
        fs::write(go, "").unwrap();
        is_clean
    });
    let run = headless(&home, &script, &STREAM);
    fs::write(home.project().join("ready"), "").unwrap();
    let is_clean = outside.join().unwrap();
    if confined(&run).is_some() {
        assert!(is_clean, "the command wrote the rules");
        assert!(result(&run).contains("HTTP/1.1 403 Forbidden"), "{}", result(&run));
    }
}

/// Attack 97: what is too broad is not taken from the user's file either.
#[test]
fn broad_rights_are_not_taken_from_a_file() {
    let home = TestHome::new();
    fs::create_dir_all(stored(&home).parent().unwrap()).unwrap();
    let user = home.home().display().to_string();
    fs::create_dir_all(home.home().join(".ssh")).unwrap();
    fs::write(home.home().join(".ssh/id"), "SECRET").unwrap();
    let text = format!(
        "[files]\nwrite = [\"/\", \"{user}\", \"{user}/..\", \"/proc\"]\nread = [\"/\", \"{user}\"]\nsocket = [\"/run\"]\n"
    );
    fs::write(stored(&home), text).unwrap();
    let script = format!("touch ~/made /made; cat ~/.ssh/id; {}", connect("a.example:443"));
    let run = headless(&home, &script, &STREAM);
    if confined(&run).is_some() {
        assert!(!home.home().join("made").exists() && !result(&run).contains("SECRET"), "{}", run.stdout);
    }
    // Neither is a rule for every host.
    fs::write(stored(&home), "[network]\nallow = [\"*\"]\n").unwrap();
    let run = headless(&home, &script, &STREAM);
    assert!(run.code != Some(0) || result(&run).contains("403"), "{}", run.stdout);
}

/// Attack 97: a daemon's socket can be granted, but not permanently.
#[test]
fn a_socket_of_a_daemon_is_never_allowed_for_all_sessions() {
    if !has_namespaces() {
        return;
    }
    let home = TestHome::new();
    let socket = home.home().join(".docker/docker.sock");
    fs::create_dir_all(socket.parent().unwrap()).unwrap();
    let Ok(_daemon) = UnixListener::bind(&socket) else { return };
    let home = home.file("use.sh", "echo \"dial unix $1: connect: no such file or directory\" >&2; exit 1");
    let (_scene, screen) = at_the_screen(home, &format!("bash use.sh {}", socket.display()));
    screen.say("go").expect("was not allowed to connect to the socket").expect("can act outside the sandbox");
    assert!(!screen.whole_text().contains("all future sessions"), "{}", screen.whole_text());
    screen.key("Esc").expect("The turn goes on.");
}

/// Names with invisible characters and line breaks are shown as what they are.
#[test]
fn a_name_in_a_question_hides_nothing() {
    if !has_namespaces() {
        return;
    }
    let home = TestHome::new();
    let odd = home.home().join("safe\u{200b}cod\u{2028}x");
    fs::create_dir_all(&odd).unwrap();
    let home = home.file("write.sh", "for folder in ~/safe*; do echo x > \"$folder/file\"; done");
    let (_scene, screen) = at_the_screen(home, "bash write.sh");
    screen.say("go").expect("was not allowed to write").expect("safe<U+200B>cod<U+2028>x");
    screen.key("Esc").expect("The turn goes on.");
}

/// A new name deep in a folder of all programs leads to a question about the program's own folder.
#[test]
fn a_missing_folder_is_asked_about_and_not_the_one_around_it() {
    if !has_namespaces() {
        return;
    }
    let home = TestHome::new();
    fs::create_dir_all(home.home().join(".config/other")).unwrap();
    let made = home.home().join(".config/tool/deep/file");
    let home = home.file("write.sh", "mkdir -p ~/.config/tool/deep && echo x > ~/.config/tool/deep/file");
    let (_scene, screen) = at_the_screen(home, "bash write.sh");
    screen.say("go").expect("was not allowed to write").expect("/.config/tool");
    assert!(!made.exists());
    screen.key("y").key("Enter").expect("The turn goes on.");
    assert_eq!(fs::read_to_string(made).unwrap(), "x\n");
}
