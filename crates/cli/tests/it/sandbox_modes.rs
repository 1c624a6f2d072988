//! A change of the approval mode changes the rights of commands and nothing else of their sandbox.

use std::fs;

use pollux_test_support::{Screen, TestHome, reply};
use serde_json::json;

use crate::sandbox_rights::has_namespaces;
use crate::scene::{MODEL, Scene};

/// A session without a chosen sandbox whose model runs these commands, one in each turn.
fn session(home: TestHome, commands: &[&str]) -> (Scene, Screen) {
    for (turn, command) in commands.iter().enumerate() {
        fs::write(home.project().join(format!("{turn}.sh")), command).unwrap();
    }
    let turns = (0..commands.len()).flat_map(|turn| {
        let call = reply().call("run_shell_command", json!({"command": format!("bash {turn}.sh")}));
        [call, reply().text(&format!("Turn {turn} is over."))]
    });
    let scene = Scene::with(home, turns.collect::<Vec<_>>());
    let screen = scene.prepare(&["-m", MODEL, "--allowed-tools", "run_shell_command"]).on_screen(110, 40);
    screen.expect("Type your message");
    (scene, screen)
}

const FETCH: &str =
    r#"fetch() { python3 -c 'import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read())' "$1"; }"#;

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn temporary_files_servers_and_grants_survive_a_change_of_the_mode() {
    if !has_namespaces() {
        return;
    }
    let port = free_port();
    let home = TestHome::new();
    let other = home.home().join("other");
    fs::create_dir_all(&other).unwrap();
    let first = format!(
        "echo kept > /tmp/kept; touch {}/first || exit 1; setsid -f python3 -m http.server --bind 127.0.0.1 {port} \
         >/dev/null 2>&1 </dev/null; until (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.1; done",
        other.display()
    );
    let look = |name: &str| {
        format!(
            "{FETCH}; {{ cat /tmp/kept; fetch http://127.0.0.1:{port}/page.txt; echo $POLLUX_SANDBOX_NETWORK; }} > {name} 2>&1; \
             touch {}/{name}",
            other.display()
        )
    };
    let home = home.file("page.txt", "from inside");
    let (scene, screen) = session(home, &[&first, &look("in-yolo"), &look("again"), &look("in-yolo-again")]);
    screen
        .say("go")
        .expect("Allow it and run the command again?")
        .key("2")
        .key("Enter")
        .expect("Turn 0 is over.");
    let seen = |name: &str| fs::read_to_string(scene.home.project().join(name)).unwrap();
    for (turn, (mode, name, network)) in
        [("yolo", "in-yolo", "open"), ("default", "again", "proxy"), ("yolo", "in-yolo-again", "open")]
            .into_iter()
            .enumerate()
    {
        screen
            .say(&format!("/mode {mode}"))
            .say(&format!("next {turn}"))
            .expect(&format!("Turn {} is over.", turn + 1));
        screen.expect(if network == "open" { "namespaces, open network" } else { "namespaces, proxy" });
        let said = seen(name);
        assert!(
            said.contains("kept") && said.contains("from inside") && said.contains(network),
            "{mode}: {said}"
        );
        assert!(other.join(name).exists(), "the grant holds in {mode}: {}", screen.whole_text());
        screen.say("/sandbox").expect_anywhere("(session, by user)");
    }
}

#[test]
fn a_mode_without_network_has_no_way_to_the_proxy_of_another_one() {
    if !has_namespaces() {
        return;
    }
    // Commands of plan mode need a rule of their own.
    let home = TestHome::new().settings(json!({"tools": {"sandboxPackageDownloads": false}}));
    let policy = home.gemini_dir().join("policies");
    fs::create_dir_all(&policy).unwrap();
    fs::write(
        policy.join("own.toml"),
        "[[rule]]\ntoolName = \"run_shell_command\"\ndecision = \"allow\"\npriority = 900\nmodes = [\"plan\", \"default\"]\n",
    )
    .unwrap();
    let ask = "timeout 20 bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128; printf \"CONNECT a.example:443 HTTP/1.1\\r\\nHost: a.example:443\\r\\n\\r\\n\" >&3; head -n 1 <&3'";
    let first = format!("{ask} > /tmp/default; cp /tmp/default seen; echo kept >> /tmp/kept");
    let second =
        format!("{ask} > /tmp/plan; echo \"network $POLLUX_SANDBOX_NETWORK\" >> /tmp/plan; touch planned");
    let third = "cat /tmp/plan /tmp/kept > seen-later";
    let (scene, screen) = session(home, &[&first, &second, third]);
    screen
        .say("go")
        .expect("wants to connect to a.example:443")
        .key("5")
        .key("Enter")
        .expect("Turn 0 is over.");
    let read = |name: &str| fs::read_to_string(scene.home.project().join(name)).unwrap();
    assert!(read("seen").contains("HTTP/1.1 502"), "allowed, and without an address: {}", read("seen"));
    screen.say("/mode plan").expect("Plan mode").say("try it here").expect("Turn 1 is over.");
    assert!(!scene.home.project().join("planned").exists());
    screen.say("/mode default").expect_gone("Plan mode").say("once more").expect("Turn 2 is over.");
    assert_eq!(read("seen-later"), "network none\nkept\n", "{}", scene.session());
}

#[test]
fn a_port_of_this_machine_is_open_for_the_command_that_asked_and_not_for_earlier_ones() {
    use std::io::Write as _;
    if !has_namespaces() {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().flatten().for_each(|mut to| drop(to.write_all(b"hello"))));
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && head -c 5 <&3");
    let left = format!(
        "setsid -f bash -c 'while sleep 0.1; do ({connect}) >> leftover; echo . >> tried; done' >/dev/null 2>&1 </dev/null"
    );
    let asking = format!(
        "({connect}) > answer || {{ echo localhost:{port}: Connection refused; exit 1; }}; : > tried; \
         until [ $(wc -l < tried) -ge 3 ]; do sleep 0.1; done"
    );
    let (scene, screen) = session(TestHome::new(), &[&left, &asking]);
    screen.say("go").expect("Turn 0 is over.").say("now ask");
    screen.expect(&format!("port {port} of this machine")).key("1").key("Enter").expect("Turn 1 is over.");
    let read = |name: &str| fs::read_to_string(scene.home.project().join(name)).unwrap();
    assert_eq!((read("answer").as_str(), read("leftover").as_str()), ("hello", ""));
}

#[test]
fn an_open_network_publishes_some_servers_of_earlier_commands_and_says_how_many_it_left() {
    if !has_namespaces() {
        return;
    }
    let listen = "import socket, time; all = [socket.create_server((\"127.0.0.1\", 0)) for _ in range(20)]; \
                  open(\"listening\", \"w\"); time.sleep(60)";
    let left = format!(
        "setsid -f python3 -c '{listen}' >/dev/null 2>&1 </dev/null; until [ -e listening ]; do sleep 0.1; done"
    );
    let (_scene, screen) = session(TestHome::new(), &[&left, "true"]);
    screen.say("go").expect("Turn 0 is over.").say("/mode yolo").say("next").expect("Turn 1 is over.");
    screen.expect_anywhere("4 more ports of earlier commands are not opened");
}
