//! `pollux web`: the link, and the page in a real browser if `scripts/chromium.sh` has installed one.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use pollux_test_support::{Reply, Run, TestHome, executable, reply};
use serde_json::{Value, json};

use crate::scene::{PATIENCE, Peer, Scene, quiet, until};

const CART: &str =
    "def total(items):\n    sum = 0\n    for item in items:\n        sum += item.price\n    return sum\n";

/// One that every user can start.
const PYTHON: &str = "/usr/bin/python3";

/// A link to the page.
fn link(scene: &Scene, args: &[&str]) -> String {
    let args: Vec<&str> = ["web", "--no-open"].into_iter().chain(args.iter().copied()).collect();
    let run = scene.run(&args);
    assert_eq!(run.code, Some(0), "{run:?}");
    run.stdout.trim().to_owned()
}

fn scene(replies: impl IntoIterator<Item = Reply>) -> Scene {
    Scene::with(TestHome::new().settings(quiet()).file("cart.py", CART), replies, &[])
}

/// Uses the page as a scenario of `peers/web_page.py` says; `None`, and a line that says so, where no browser is installed.
fn browse(scene: &Scene, scenario: &str, args: &[&str]) -> Option<Run> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (library, chromium) =
        (root.join("../../target/playwright"), root.join("../../target/chromium/chromium"));
    if !library.join("installed").exists() || !chromium.exists() {
        let _ = writeln!(std::io::stderr(), "skipped: scripts/chromium.sh has not installed a browser");
        return None;
    }
    let script = root.join("tests/peers/web_page.py");
    let mut words: Vec<String> = vec![script.display().to_string(), chromium.display().to_string()];
    words.extend([link(scene, args), scenario.to_owned()]);
    // `POLLUX_PICTURES=docs/src/pictures` draws those of the book.
    words.extend(
        std::env::var_os("POLLUX_PICTURES")
            .map(|folder| root.join("../..").join(folder).display().to_string()),
    );
    let run = scene.home.command(&library.join("python/bin/python"), words).limit(3 * PATIENCE).run();
    assert!(
        run.code == Some(0) && run.stdout.ends_with("done\n"),
        "{scenario}: {}\n{}",
        run.stdout,
        run.stderr
    );
    for wrong in ["script error:", "policy:", "elsewhere:"] {
        assert!(!run.stdout.contains(wrong), "{scenario}: {}", run.stdout);
    }
    Some(run)
}

fn assert_lines(run: &Run, lines: &[&str]) {
    for line in lines {
        assert!(run.stdout.lines().any(|found| found == *line), "no `{line}` in:\n{}", run.stdout);
    }
}

fn open(scene: &Scene) -> (Peer, String) {
    let mut peer = scene.peer("test");
    let session = peer.open(scene.opening());
    (peer, session)
}

#[test]
fn a_link_starts_the_core_and_is_not_in_its_log() {
    let scene = Scene::cold(TestHome::new().settings(quiet()), []);
    let run = scene.run(&["web", "--no-open"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stderr.contains("The link works once and expires in 60 seconds."), "{run:?}");
    let (address, code) = run.stdout.trim().split_once("/#c=").unwrap();
    let host = address.strip_prefix("http://").unwrap();
    assert!(host.starts_with("127.0.0.1:"), "{host}");
    let another = link(&scene, &[]);
    assert!(another.starts_with(address) && !another.contains(code), "one server, another code");
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("<title>Pollux</title>"), "{page}");
    let log = scene.log();
    assert!(log.contains("made a link for a browser") && !log.contains(code), "{log}");
    assert_eq!(scene.run(&["core", "stop"]).code, Some(0));
    assert!(TcpStream::connect(host).is_err(), "the page ends with the core");
}

#[test]
fn a_core_stays_while_a_page_is_open() {
    let mut scene = Scene::with(TestHome::new().settings(quiet()), [], &["--idle-exit", "4"]);
    let peer = scene.peer("test");
    let (address, code) =
        link(&scene, &[]).split_once("/#c=").map(|(a, c)| (a.to_owned(), c.to_owned())).unwrap();
    let host = address.strip_prefix("http://").unwrap();
    let send = |text: String| {
        let mut stream = TcpStream::connect(host).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    };
    let body = json!({"code": code}).to_string();
    let mut login = String::new();
    send(format!(
        "POST /api/login HTTP/1.1\r\nHost: {host}\r\nOrigin: {address}\r\nX-Pollux: 1\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ))
    .read_to_string(&mut login)
    .unwrap();
    let cookie = login.lines().find_map(|line| line.strip_prefix("set-cookie: ")?.split(';').next()).unwrap();
    let answer: Value = serde_json::from_str(login.rsplit("\r\n").next().unwrap()).unwrap();
    let key = answer["key"].as_str().unwrap();
    let mut events = send(format!(
        "GET /api/events HTTP/1.1\r\nHost: {host}\r\nOrigin: {address}\r\nCookie: {cookie}\r\nX-Pollux-Key: {key}\r\n\r\n"
    ));
    let mut first = [0; 4096];
    let read = events.read(&mut first).unwrap();
    assert!(String::from_utf8_lossy(&first[..read]).contains("200 OK"));
    drop(peer);
    std::thread::sleep(std::time::Duration::from_secs(5));
    assert!(scene.socket().is_some(), "it stays for a page");
    drop(events);
    assert_eq!(scene.wait_core().code, Some(0));
}

#[test]
fn another_address_cannot_be_asked_for() {
    let scene = Scene::cold(TestHome::new().settings(quiet()), []);
    let run = scene.run(&["web", "--host", "0.0.0.0"]);
    assert!(run.code == Some(1) && run.stderr.contains("Unknown argument: host"), "{run:?}");
    assert!(scene.socket().is_none());
}

#[test]
fn the_link_is_opened_where_there_is_a_screen() {
    let opener = "#!/bin/sh\necho \"$1 ${GEMINI_API_KEY:-no key}\" > \"$HOME/opened.tmp\"; mv \"$HOME/opened.tmp\" \"$HOME/opened\"\n";
    let home = TestHome::new().settings(quiet());
    executable(home.home().join("bin/xdg-open"), opener);
    let path = format!("{}:/usr/bin:/bin", home.home().join("bin").display());
    let scene = Scene::with(home, [], &[]);
    let (opened, run) = (scene.home.home().join("opened"), |display: &str| {
        scene.prepare(&["web"]).env("PATH", &path).env("DISPLAY", display).without_env("SSH_CONNECTION").run()
    });
    assert_eq!(run("").code, Some(0));
    assert!(!opened.exists(), "no browser without a screen");
    let run = run(":0");
    assert_eq!(run.code, Some(0), "{run:?}");
    let expected = format!("{} no key\n", run.stdout.trim());
    until("the browser is started", || opened.exists());
    assert_eq!(std::fs::read_to_string(opened).unwrap(), expected);
}

/// Exchanges the code of a link, and prints what comes of it.
const EXCHANGE: &str = "
import http.client, json, sys
origin, code = sys.argv[1].split('/#c=')
connection = http.client.HTTPConnection(origin.split('//')[1], timeout=20)
headers = {'Origin': origin, 'X-Pollux': '1', 'Content-Type': 'application/json'}
connection.request('POST', '/api/login', json.dumps({'code': code}), headers)
print('status', connection.getresponse().status)
";

#[test]
fn a_link_is_useless_to_sandboxed_commands_and_other_users() {
    if !Path::new(PYTHON).exists() {
        return eprintln!("skipped: no {PYTHON}");
    }
    let settings = json!({"general": {"sessionSummaries": false}, "tools": {"sandboxNetwork": "open"}});
    let scene = Scene::with(TestHome::new().settings(settings), [], &[]);
    let exchange = |command: &mut Command| {
        let output = command.args([PYTHON, "-c", EXCHANGE, &link(&scene, &[])]).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert_eq!(exchange(&mut Command::new("env")).unwrap(), "status 200\n");
    for level in ["auto", "landlock"] {
        let url = link(&scene, &[]);
        let command = scene.prepare(&["sandbox", "run", "--", PYTHON, "-c", EXCHANGE, &url]);
        let run = command.env("GEMINI_SANDBOX", level).run();
        assert!(!run.stdout.contains("status 200"), "{level}: {run:?}");
    }
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can act as another user");
    }
    let stranger =
        exchange(Command::new("setpriv").args(["--reuid=65534", "--regid=65534", "--clear-groups"]));
    let Ok(stranger) = stranger else { return eprintln!("skipped: no setpriv") };
    assert_eq!(stranger, "status 403\n");
}

#[test]
fn a_browser_prompts_answers_stops_and_shows_the_same_in_two_tabs() {
    let edit = json!({
        "file_path": "cart.py",
        "old_string": "    sum = 0\n    for item in items:\n        sum += item.price\n    return sum",
        "new_string": "    return sum(item.price * item.quantity for item in items)",
        "instruction": "count quantities",
    });
    let scene = scene([
        reply().text("I'll read the cart first.").call("read_file", json!({"file_path": "cart.py"})),
        reply()
            .text("The loop shadows `sum` and ignores quantities. **One edit** fixes both.")
            .call("replace", edit),
        reply()
            .call("run_shell_command", json!({"command": "rm -r build", "description": "Remove the build"})),
        reply().text("I kept it.\n\n- `build`"),
        Reply::never(),
    ]);
    let (_peer, session) = open(&scene);
    let Some(run) = browse(&scene, "use", &[]) else { return };
    assert_lines(&run, &["address /#s", "title (1) Pollux: waiting for you"]);
    assert!(scene.home.read("cart.py").contains("item.quantity"));
    let refused = scene.server.request(3).body.to_string();
    assert!(refused.contains("keep it"), "{refused}");
    until("the page to be gone", || scene.ps()[0]["fronts"] == json!(["test"]));
    assert_eq!(scene.ps()[0]["session"], session.as_str());
}

#[test]
fn the_models_questions_are_answered_in_a_browser() {
    let ask = json!({"questions": [
        {"header": "Colour", "question": "Which colour?", "type": "choice", "options": [
            {"label": "red", "description": "warm"}, {"label": "blue", "description": "<i>cold</i>"}]},
        {"header": "Reason", "question": "Why?", "type": "text", "placeholder": "because"},
    ]});
    let scene = scene([reply().call("ask_user", ask), reply().text("thanks")]);
    let (_peer, _) = open(&scene);
    if browse(&scene, "questions", &[]).is_none() {
        return;
    }
    let sent = scene.server.request(1).body.to_string();
    assert!(sent.contains(r#"{\"answers\":{\"0\":\"blue\",\"1\":\"the sky\"}}"#), "{sent}");
}

#[test]
fn a_browser_is_used_with_keys_on_a_narrow_screen() {
    let scene = scene([
        reply().call("write_file", json!({"file_path": "a.txt", "content": "new\n"})),
        reply().text("finished"),
    ]);
    let (_peer, _) = open(&scene);
    let Some(run) = browse(&scene, "keyboard", &[]) else { return };
    let alert = "alert Waiting for your answer: Edit a.txt";
    assert_lines(&run, &["too wide False", "focus prompt", alert, "unnamed 0"]);
    assert_eq!(scene.home.read("a.txt"), "new\n");
}

#[test]
fn a_browser_that_may_only_watch_has_nothing_to_press() {
    let scene = scene([reply().call("write_file", json!({"file_path": "a.txt", "content": "new\n"}))]);
    let (mut peer, session) = open(&scene);
    peer.prompt(&session, "go");
    peer.event("ApprovalWanted");
    let Some(run) = browse(&scene, "watch", &["--watch"]) else { return };
    assert_lines(&run, &["buttons 0 forms 0", "status 403"]);
}

#[test]
fn hostile_texts_stay_texts_in_a_browser() {
    let answer = format!(
        "<script>window.hacked = 1</script> <img src=x onerror=\"window.hacked = 2\">\n\n[a link](javascript:alert(1)) \
         \u{1b}[31mred\u{1b}[0m **<b>x</b>** `<i>`\n\nthe end\n\n{}",
        (0..200_000).map(|number| number.to_string()).collect::<String>()
    );
    let scene = scene([reply().text(&answer), reply().text("yes")]);
    let (_peer, _) = open(&scene);
    let Some(run) = browse(&scene, "hostile", &[]) else { return };
    assert_lines(&run, &["ran None links 0"]);
    assert!(!run.stdout.contains("shown False"), "{}", run.stdout);
}

#[test]
fn pages_of_other_origins_reach_nothing_in_a_browser() {
    let scene = scene([reply().text("yours")]);
    let (_peer, _) = open(&scene);
    let Some(run) = browse(&scene, "elsewhere", &[]) else { return };
    let tried = "tried blocked blocked blocked blocked blocked blocked";
    assert_lines(&run, &[tried, "form 403", "framed True", "prompts 1"]);
    assert_eq!(scene.server.requests().len(), 1);
}
