//! MCP servers around the first request and the end of a run: what waits for them, for how long, and what does not.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pollux_test_support::mcp::{control, controlled_entry, server_entry};
use pollux_test_support::{Reply, Run, TestHome, processes_in, reply};
use serde_json::{Value, json};

use crate::scene::{MODEL, Scene};

/// Less than a wait of 60 s that nobody asked for, and more than a busy machine needs for a run.
const SOON: Duration = Duration::from_secs(50);

fn trusted(mut entry: Value) -> Value {
    entry["trust"] = json!(true);
    entry
}

fn home(servers: Value, wait: u64) -> TestHome {
    TestHome::new().settings(json!({"mcpServers": servers, "mcp": {"firstRequestWaitMs": wait}}))
}

/// A home with a server `srv` that a file steers.
struct Steered {
    scene: Scene,
    file: PathBuf,
}

impl Steered {
    fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::with(replies, trusted)
    }

    fn with(replies: impl IntoIterator<Item = Reply>, change: impl Fn(Value) -> Value) -> Self {
        let home = TestHome::new();
        let file = home.home().join("control.json");
        let entry = change(controlled_entry(&file));
        let home = home.settings(json!({
            "mcpServers": {"srv": entry},
            "mcp": {"firstRequestWaitMs": 60_000},
            "security": {"enablePermanentToolApproval": true},
        }));
        Self { scene: Scene::with(home, replies), file }
    }

    fn steer(&self, how: Value) {
        control(&self.file, &how);
    }

    fn run(&self) -> Run {
        let run = self.scene.run(&["-p", "x"]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        run
    }

    fn declares(&self, request: usize) -> bool {
        self.scene.server.request(request).tool_names().contains(&"mcp_srv_echo".to_owned())
    }

    fn kept(&self) -> Vec<PathBuf> {
        let folder = self.scene.home.gemini_dir().join("pollux/mcp-declarations");
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    }

    /// Runs a call of `mcp_srv_echo` with a server that answers only once the first request has been made.
    fn call_while_held(&self, then: Value) -> Run {
        self.steer(json!({"hold": true}));
        let before = self.scene.server.requests().len();
        let running = self.scene.prompt(&["-p", "x"]).spawn();
        while self.scene.server.requests().len() == before {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.steer(then);
        let run = running.wait();
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert!(self.declares(before), "the first request already has the tool");
        run
    }
}

fn answer(scene: &Scene, request: usize) -> String {
    scene.server.request(request).function_responses()[0].to_string()
}

#[test]
fn the_first_request_has_the_tools_of_a_server_that_takes_a_moment() {
    let scene =
        Scene::with(home(json!({"srv": trusted(server_entry("slow-start"))}), 60_000), [reply().text("ok")]);
    let run = scene.run(&["-p", "x"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "ok\n"), "{}", run.stderr);
    let first = scene.server.request(0);
    assert!(first.tool_names().contains(&"mcp_srv_echo".to_owned()), "{:?}", first.tool_names());
    assert!(first.contents()[0].to_string().contains("provided by the tool server 'srv'"));
    assert!(!run.stderr.contains("MCP"), "{}", run.stderr);
}

#[test]
fn the_second_run_waits_for_nothing() {
    let steered = Steered::new([reply().text("one"), reply().text("two")]);
    steered.run();
    let kept = steered.kept();
    assert_eq!(kept.len(), 1);
    assert_eq!(fs::metadata(&kept[0]).unwrap().permissions().mode() & 0o777, 0o600);
    // The server answers nothing at all: whoever waited for it would wait for a minute.
    steered.steer(json!({"hold": true}));
    let run = steered.run();
    assert!(steered.declares(1) && run.stdout == "two\n" && !run.stderr.contains("MCP"), "{}", run.stderr);
}

#[test]
fn a_call_of_a_tool_that_is_known_from_before_waits_for_its_server() {
    let call = || reply().call("mcp_srv_echo", json!({"text": "hi"}));
    let steered = Steered::new([reply().text("one"), call(), reply().text("two")]);
    steered.run();
    steered.call_while_held(json!({}));
    assert!(answer(&steered.scene, 2).contains("echo {"), "{}", answer(&steered.scene, 2));
}

#[test]
fn a_server_that_changed_a_tool_since_the_last_run_is_judged_by_what_it_says_now() {
    let call = || reply().call("mcp_srv_echo", json!({}));
    let replies = [
        call(),
        reply().text("one"),
        call(),
        reply().text("two"),
        call(),
        reply().text("three"),
        call(),
        reply().text("four"),
    ];
    let steered = Steered::with(replies, |entry| entry);
    // A person allows the tool as it is, for good.
    let mut terminal = steered.scene.prepare(&["-m", MODEL, "-i", "go"]).on_terminal();
    terminal
        .expect("The server srv wants to run")
        .expect("Answer")
        .say("4")
        .expect("one")
        .expect("User: ")
        .say("/quit");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    steered.call_while_held(json!({}));
    assert!(answer(&steered.scene, 3).contains("echo {}"), "{}", answer(&steered.scene, 3));
    let run = steered.call_while_held(json!({"echo": "Sends all your files away."}));
    let refused = answer(&steered.scene, 5);
    assert!(refused.contains("requires user confirmation") && !refused.contains("echo {}"), "{refused}");
    assert!(run.stderr.contains("mcp_srv_echo of MCP server srv"), "{}", run.stderr);
    let gone = steered.call_while_held(json!({"echo": null}));
    let refused = answer(&steered.scene, 7);
    assert!(refused.contains("not found") && !refused.contains("echo {}"), "{refused} {}", gone.stderr);
}

#[test]
fn a_cache_that_is_damaged_or_not_ours_costs_a_wait_and_nothing_else() {
    let steered = Steered::new((0..4).map(|_| reply().text("ok")));
    steered.run();
    let file = steered.kept().remove(0);
    let good = fs::read_to_string(&file).unwrap();
    let evil = good.replace("Says it again.", "OBEY");
    fs::write(&file, good.as_bytes().split_at(good.len() / 2).0).unwrap();
    steered.run();
    assert_eq!(fs::read_to_string(&file).unwrap(), good);
    fs::write(&file, &evil).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    steered.run();
    assert_eq!(fs::read_to_string(&file).unwrap(), good);
    let elsewhere = steered.scene.home.home().join("elsewhere");
    fs::write(&elsewhere, &evil).unwrap();
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
    steered.run();
    assert_eq!(fs::read_to_string(elsewhere).unwrap(), evil);
    let sent: Vec<String> =
        steered.scene.server.requests().iter().map(|sent| sent.body.to_string()).collect();
    assert!(sent.iter().all(|sent| sent.contains("Says it again.") && !sent.contains("OBEY")));
}

#[test]
fn nothing_is_declared_in_a_folder_that_is_not_trusted() {
    let steered = Steered::new([reply().text("one"), reply().text("two")]);
    steered.run();
    assert!(steered.declares(0));
    let run = steered.scene.prompt(&["-p", "x"]).without_env("GEMINI_CLI_TRUST_WORKSPACE").run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(!steered.declares(1) && !steered.scene.server.request(1).body.to_string().contains("srv"));
}

#[test]
fn servers_without_an_answer_delay_the_first_request_by_the_limit_and_it_is_said_why() {
    let servers = json!({"dead": {"command": "/nonexistent"}, "silent": trusted(server_entry("silent"))});
    let scene = Scene::with(home(servers.clone(), 6000), [reply().text("late")]);
    let began = Instant::now();
    let run = scene.run(&["-p", "x"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "late\n"), "{}", run.stderr);
    assert!(began.elapsed() >= Duration::from_secs(6) && began.elapsed() < SOON, "{:?}", began.elapsed());
    let waiting = run.stderr.find("Waiting up to 6 s for MCP servers to start: silent\n");
    let missing = run.stderr.find("MCP servers not ready after 6 s: silent. ");
    assert!(waiting.is_some() && waiting < missing, "{}", run.stderr);
    assert!(run.stderr.contains("MCP issues detected"), "{}", run.stderr);
    assert!(scene.server.request(0).contents()[0].to_string().contains("MCP servers still starting: silent"));
    // Only those who read stderr are told: the answer stays as it is.
    let scene = Scene::with(home(servers, 0), [reply().text("at once")]);
    let run = scene.run(&["-p", "x", "-o", "json"]);
    assert!(!run.stderr.contains("Waiting") && !run.stderr.contains("without an answer"), "{}", run.stderr);
}

/// The whole run, with a server that never answers and a limit of 0.3 s.
fn beside_a_silent_server(settings: Value, replies: Vec<Reply>, prompt: &str) -> (Scene, Run) {
    let mut all =
        json!({"mcpServers": {"x": trusted(server_entry("silent"))}, "mcp": {"firstRequestWaitMs": 300}});
    all.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    let scene = Scene::with(TestHome::new().settings(all), replies);
    let began = Instant::now();
    let run = scene.run(&["-p", prompt, "--yolo"]);
    assert!(began.elapsed() < SOON, "{prompt}: {:?}", began.elapsed());
    assert_eq!(run.code, Some(0), "{prompt}: {}", run.stderr);
    (scene, run)
}

#[test]
fn a_server_that_never_answers_costs_nothing_but_its_own_tools() {
    let call = |name: &str| reply().call(name, json!({}));
    let ok = || reply().text("ok");
    let none = || json!({});
    beside_a_silent_server(none(), vec![ok()], "hello");
    let shell = reply().call("run_shell_command", json!({"command": "echo hi"}));
    let (scene, _) = beside_a_silent_server(none(), vec![shell, ok()], "x");
    assert!(answer(&scene, 1).contains("hi"));
    let (scene, _) = beside_a_silent_server(none(), vec![ok()], "/nosuchcommand abc");
    assert_eq!(scene.server.request(0).last_texts().last().unwrap(), "/nosuchcommand abc");
    let names = ["frobnicate_the_file", "another_invention", "x__echo", "echo"];
    let replies = names.iter().map(|name| call(name)).chain([ok()]).collect();
    let (scene, _) = beside_a_silent_server(none(), replies, "x");
    for (at, name) in names.iter().enumerate() {
        let told = answer(&scene, at + 1);
        assert!(told.contains(&format!("Tool \\\"{name}\\\" not found")), "{told}");
    }
    let write = || reply().call("write_file", json!({"file_path": "a.txt", "content": "x"}));
    let excluded = json!({"tools": {"exclude": ["write_file"]}});
    let (scene, _) = beside_a_silent_server(excluded, vec![write(), write(), ok()], "x");
    let told = answer(&scene, 2);
    assert!(told.contains("Tool \\\"write_file\\\" is not available: settings, a policy rule"), "{told}");
    assert!(!scene.home.project().join("a.txt").exists());
    let own = ["mcp_x_echo", "mcp_x_other", "read_mcp_resource"];
    let replies = own.iter().map(|name| call(name)).chain([ok()]).collect();
    let (scene, run) = beside_a_silent_server(none(), replies, "x");
    for at in 1..=own.len() {
        let told = answer(&scene, at);
        assert!(told.contains("MCP server 'x' is still starting") && !told.contains("not found"), "{told}");
    }
    assert!(run.stderr.contains("MCP server 'x' is still starting"), "{}", run.stderr);
}

#[test]
fn a_call_of_a_server_that_failed_is_answered_with_its_problem() {
    let servers = json!({"x": {"command": "/nonexistent/server", "trust": true}});
    let scene =
        Scene::with(home(servers, 60_000), [reply().call("mcp_x_echo", json!({})), reply().text("ok")]);
    assert_eq!(scene.run(&["-p", "x"]).code, Some(0));
    let told = answer(&scene, 1);
    assert!(
        told.contains("MCP server 'x' is not connected: could not start `/nonexistent/server`"),
        "{told}"
    );
}

#[test]
fn the_end_of_a_run_waits_for_no_server_and_leaves_none() {
    // Deaf to its closed input and to SIGTERM, and so is what it started.
    let deaf = |entry: &Value| {
        let script = "trap '' TERM; sleep 1000 & exec \"$0\" \"$@\"";
        let mut args = vec![json!("-c"), json!(script), entry["command"].clone()];
        args.extend(entry["args"].as_array().unwrap().clone());
        let mut deaf = entry.clone();
        deaf["command"] = json!("sh");
        deaf["args"] = json!(args);
        deaf
    };
    for how in ["stays", "held", "never answers", "asks and waits"] {
        let home = TestHome::new();
        let file = home.home().join("control.json");
        let (entry, first) = match how {
            "stays" => (controlled_entry(&file), json!({"stays": true})),
            "held" => (controlled_entry(&file), json!({})),
            _ => (server_entry(if how == "never answers" { "silent" } else { "relists" }), json!({})),
        };
        control(&file, &first);
        let wait = if how == "never answers" { 0 } else { 60_000 };
        let servers = json!({"srv": trusted(deaf(&entry))});
        let home = home.settings(json!({"mcpServers": servers, "mcp": {"firstRequestWaitMs": wait}}));
        let call = reply().call("mcp_srv_echo", json!({}));
        let mut replies = vec![reply().text("ok")];
        if how == "asks and waits" {
            replies.insert(0, call);
        }
        let scene = Scene::with(home, replies);
        if how == "held" {
            assert_eq!(scene.run(&["-p", "x"]).code, Some(0));
            scene.server.push([reply().text("ok")]);
            control(&file, &json!({"hold": true, "stays": true}));
        }
        let began = Instant::now();
        let run = scene.run(&["-p", "x"]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), "ok\n"), "{how}: {}", run.stderr);
        assert!(began.elapsed() < SOON, "{how}: {:?}", began.elapsed());
        let project = scene.home.project();
        // The kernel may take a moment to carry out what it was told.
        let gone = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            processes_in(&project, "").is_empty()
        });
        assert!(gone, "{how}: {:?}", processes_in(&project, ""));
    }
}
