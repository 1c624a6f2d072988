//! A signal ends the run in order.

use std::path::Path;

use pollux_test_support::{FakeHttp, HttpAnswer, Reply, TestHome, reply};
use serde_json::json;

use crate::scene::{Scene, binary, lines, parse, until};

const SIGNALS: &[(&str, i32)] = &[("INT", 130), ("TERM", 143), ("HUP", 129)];

#[test]
fn a_signal_while_the_model_is_silent_ends_the_stream_with_a_result() {
    for (signal, code) in SIGNALS {
        let scene = Scene::new([reply().text("Begun").text("more").stall_after(1)]);
        let running = scene.prompt(&["-p", "x", "-o", "stream-json"]).spawn();
        running.wait_for_stdout("Begun");
        running.signal(signal);
        let run = running.wait();
        assert_eq!(run.code, Some(*code), "{signal}: {}", run.stderr);
        let result = lines(&run.stdout).pop().unwrap();
        assert_eq!((&result["type"], &result["success"]), (&json!("RESULT"), &json!(false)));
        assert_eq!(result["error"]["type"], "CANCELLED");
        let session = scene.session();
        assert_eq!(session["messages"][0]["content"], "x");
        let last = session["messages"].as_array().unwrap().last().unwrap();
        assert_eq!((&last["type"], &last["content"]), (&json!("info"), &json!("Request cancelled.")));
    }
}

#[test]
fn a_signal_before_the_first_byte_of_the_reply_is_answered_in_upstreams_dialect_too() {
    let scene = Scene::new([Reply::never(), Reply::never()]);
    let stream = scene.prompt(&["-p", "x", "-o", "stream-json", "--output-dialect", "gemini-cli"]).spawn();
    until("the request arrived", || scene.server.requests().len() == 1);
    stream.signal("INT");
    let run = stream.wait();
    assert_eq!(run.code, Some(130), "{}", run.stderr);
    let result = lines(&run.stdout).pop().unwrap();
    assert_eq!((&result["type"], &result["status"]), (&json!("result"), &json!("error")));
    assert_eq!(result["error"]["type"], "FatalCancellationError");

    let json = scene.prompt(&["-p", "x", "-o", "json"]).spawn();
    until("the request arrived", || scene.server.requests().len() == 2);
    json.signal("TERM");
    let run = json.wait();
    assert_eq!(run.code, Some(143));
    assert_eq!(parse(&run.stdout)["error"]["type"], "CANCELLED");
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_while_the_prompt_is_read_ends_the_output() {
    for (signal, code) in SIGNALS {
        for dialect in ["pollux", "gemini-cli"] {
            let scene = Scene::new([]);
            let script = "mkfifo in; exec 3<>in; printf part >&3; echo $$ > pid.txt; exec \"$0\" \"$@\" < in";
            let args = ["-p", "x", "--skip-trust", "-o", "stream-json", "--output-dialect", dialect];
            let args = ["-c", script, binary().to_str().unwrap()].into_iter().chain(args);
            let running = scene.home.command(Path::new("/bin/sh"), args).against(&scene.server).spawn();
            until("signals are handled", || {
                let pid = std::fs::read_to_string(scene.home.project().join("pid.txt")).unwrap_or_default();
                let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim()));
                let status = status.unwrap_or_default();
                let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
                let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
                // SIGXFSZ is the last one that the program listens to.
                mask.is_some_and(|mask| mask & (1 << 24) != 0)
            });
            running.signal(signal);
            let run = running.wait();
            assert_eq!(run.code, Some(*code), "{signal}: {}", run.stderr);
            let result = lines(&run.stdout).pop().unwrap();
            let kind = if dialect == "pollux" { "CANCELLED" } else { "FatalCancellationError" };
            assert_eq!(result["error"]["type"], kind, "{signal}: {}", run.stdout);
            assert_eq!(scene.server.requests().len(), 0);
        }
    }
}

#[test]
fn a_signal_ends_a_running_command_and_the_call_is_recorded_as_cancelled() {
    let command = "echo $$ > pid.txt; exec sleep 60";
    let scene = Scene::new([reply().call("run_shell_command", json!({"command": command}))]);
    // A sandbox would number processes in its own way.
    let running = scene.prompt(&["-p", "x", "--yolo", "--sandbox=false"]).spawn();
    let pid_file = scene.home.project().join("pid.txt");
    until("the command runs", || std::fs::read_to_string(&pid_file).is_ok_and(|text| text.ends_with('\n')));
    running.signal("TERM");
    let run = running.wait();
    assert_eq!(run.code, Some(143), "{}", run.stderr);
    let pid = scene.home.read("pid.txt");
    let alive = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        stat.split(") ").nth(1).is_some_and(|rest| !rest.starts_with('Z'))
    };
    until("the command is gone", || !alive());
    let session = scene.session();
    let status = session["messages"][1]["toolCalls"][0]["status"].as_str().map(str::trim);
    assert_eq!(status, Some("cancelled"), "{session:#}");

    // What follows is accepted by the model: the call is answered once.
    scene.server.push([reply().text("Going on.")]);
    let next = scene.run(&["--resume", "-p", "go on"]);
    assert_eq!((next.stdout.as_str(), next.code), ("Going on.\n", Some(0)), "{}", next.stderr);
    assert!(scene.server.request(1).body.to_string().contains("sleep 60"));
}

#[test]
fn a_signal_while_waiting_for_the_next_try_is_not_waited_out() {
    let limited = Reply::error(429, "RESOURCE_EXHAUSTED", "slow down").header("Retry-After", "50");
    let scene = Scene::new([limited]);
    let running = scene.prompt(&["-p", "x", "-o", "stream-json"]).spawn();
    running.wait_for_stdout("RATE_LIMIT");
    running.signal("INT");
    assert_eq!(running.wait().code, Some(130));
}

#[test]
fn commands_heed_signals_that_the_program_ignores() {
    let command = "sh -c 'kill -INT $$; kill -QUIT $$; kill -HUP $$; echo deaf'; echo heard";
    for sandbox in ["--sandbox=false", "--sandbox=true"] {
        let calls = reply().call("run_shell_command", json!({"command": command}));
        let scene = Scene::new([calls, reply().text("done")]);
        let script = "trap '' INT QUIT HUP; exec \"$0\" \"$@\"";
        let args = ["-c", script, binary().to_str().unwrap(), "-p", "x", "--yolo", "--skip-trust", sandbox];
        let run = scene.home.command(Path::new("/bin/sh"), args).against(&scene.server).run();
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let result = scene.session()["messages"][1]["toolCalls"][0]["result"].to_string();
        assert!(result.contains("heard") && !result.contains("deaf"), "{sandbox}: {result}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_ends_the_wait_for_a_silent_collector() {
    let silent = FakeHttp::start(|_| HttpAnswer::status(200).body("xx").stall_after(1));
    for (name, number) in [("INT", 2), ("TERM", 15)] {
        let telemetry = json!({"enabled": true, "otlpEndpoint": silent.url(), "otlpProtocol": "http"});
        let home = TestHome::new().settings(json!({"telemetry": telemetry}));
        let scene = Scene::with(home, [reply().text("ok")]);
        let script = "echo $$ > pid.txt; exec \"$0\" \"$@\"";
        let args = ["-c", script, binary().to_str().unwrap(), "-p", "x", "--skip-trust"];
        let running = scene
            .home
            .command(Path::new("/bin/sh"), args)
            .against(&scene.server)
            .env("OTEL_EXPORTER_OTLP_TIMEOUT", "29000")
            .env("OTEL_BSP_EXPORT_TIMEOUT", "29000")
            .spawn();
        running.wait_for_stdout("ok\n");
        let status = format!("/proc/{}/status", scene.home.read("pid.txt").trim());
        let is_caught = || {
            let status = std::fs::read_to_string(&status).unwrap_or_default();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or_default();
            u64::from_str_radix(caught.trim(), 16).is_ok_and(|caught| caught & (1 << (number - 1)) != 0)
        };
        until("the program no longer handles signals", || !is_caught());
        running.signal(name);
        assert_eq!(running.wait().code, None, "{name} ended it");
    }
}
