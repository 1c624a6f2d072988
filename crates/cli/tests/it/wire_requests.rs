//! What is sent on every wire: its size, what of it repeats, what moves between wires, and what `prompt show` says of it.

use std::fs;

use pollux_test_support::wires::{FakeWire, KEY_VARIABLE, Said, Wire};
use pollux_test_support::{HttpAnswer, Run, TestHome, TestRun};
use serde_json::{Value, json};

use crate::scene::{all_files, binary, parse, until};

const CALLS: usize = 50;
/// Where a provider keeps what it has read; it moves to the end of every request.
const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

fn with_key(run: TestRun, server: &FakeWire) -> TestRun {
    let variables = server.wire().variables(&server.url(), "key-0123456789");
    variables.iter().fold(run, |run, (name, value)| run.env(name, value))
}

fn run(home: &TestHome, server: &FakeWire, args: &[&str]) -> Run {
    let args: Vec<&str> = ["-m", server.wire().model()].into_iter().chain(args.iter().copied()).collect();
    with_key(home.command(binary(), args), server).env("GEMINI_CLI_TRUST_WORKSPACE", "true").run()
}

/// The bytes at the start and at the end that two texts share.
fn repeated(before: &[u8], after: &[u8]) -> usize {
    let start = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let (before, after) = (&before[start..], &after[start..]);
    start + before.iter().rev().zip(after.iter().rev()).take_while(|(a, b)| a == b).count()
}

#[test]
fn in_a_chain_of_calls_every_request_repeats_the_one_before() {
    for wire in Wire::ALL {
        let calls =
            (0..CALLS).map(|n| Said::call("read_file", json!({"file_path": format!("file-{n}.txt")})));
        let server = FakeWire::start(wire, calls.chain([Said::text("done")]));
        let home = TestHome::new().settings(wire.settings(&server.url()));
        let home = (0..CALLS)
            .fold(home, |home, n| home.file(&format!("file-{n}.txt"), &format!("line of file {n}\n")));
        let run = run(&home, &server, &["-p", "read them all"]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), "done\n"), "{wire:?}: {}", run.stderr);
        server.assert_valid();
        let bodies: Vec<String> = server
            .requests()
            .iter()
            .map(|request| String::from_utf8(request.body.clone()).unwrap().replace(MARK, ""))
            .collect();
        assert_eq!(bodies.len(), CALLS + 1, "{wire:?}");
        for (index, pair) in bodies.windows(2).enumerate() {
            let share = repeated(pair[0].as_bytes(), pair[1].as_bytes()) as f64 / pair[0].len() as f64;
            assert!(share >= 0.98, "{wire:?} request {index}: {share}\n{}\n{}", pair[0], pair[1]);
        }
    }
}

#[test]
fn the_first_request_is_at_most_20_kb() {
    for wire in Wire::ALL {
        let server = FakeWire::start(wire, [Said::text("done")]);
        let home = TestHome::new().settings(wire.settings(&server.url()));
        let run = run(&home, &server, &["-p", "hi"]);
        assert_eq!(run.code, Some(0), "{wire:?}: {}", run.stderr);
        let size = server.requests()[0].body.len();
        assert!(size <= 20_000, "{wire:?}: {size} bytes");
    }
}

/// The system prompt of a request.
fn system(wire: Wire, body: &Value) -> String {
    let found = match wire {
        Wire::Gemini => &body["systemInstruction"]["parts"][0]["text"],
        Wire::Chat => &body["messages"][0]["content"],
        Wire::Responses => &body["instructions"],
        Wire::Messages => &body["system"][0]["text"],
    };
    found.as_str().unwrap_or_default().to_owned()
}

fn tool_names(wire: Wire, body: &Value) -> Vec<String> {
    let tools = match wire {
        Wire::Gemini => &body["tools"][0]["functionDeclarations"],
        Wire::Chat | Wire::Responses | Wire::Messages => &body["tools"],
    };
    let name =
        |tool: &Value| tool["function"]["name"].as_str().or_else(|| tool["name"].as_str()).map(str::to_owned);
    tools.as_array().into_iter().flatten().filter_map(name).collect()
}

#[test]
fn prompt_show_prints_what_is_sent() {
    for wire in Wire::ALL {
        for small in [false, true] {
            let server = FakeWire::start(wire, [Said::text("done")]);
            let mut settings = wire.settings(&server.url());
            if small && wire != Wire::Gemini {
                settings["providers"]["lab"]["models"]["test-model"]["context"] = json!(32_768);
            }
            let home = TestHome::new().settings(settings).file("GEMINI.md", "Use tabs.");
            let sent = run(&home, &server, &["-p", "hi"]);
            assert_eq!(sent.code, Some(0), "{wire:?}: {}", sent.stderr);
            let body = server.requests()[0].json();
            // Without a key, and with no server to ask.
            let show = |args: &[&str]| {
                let args: Vec<&str> = ["prompt", "show", "--model", wire.model()]
                    .into_iter()
                    .chain(args.iter().copied())
                    .collect();
                let run = home
                    .command(binary(), args)
                    .without_env("GEMINI_API_KEY")
                    .env("HTTPS_PROXY", "http://127.0.0.1:9");
                run.env("GEMINI_CLI_TRUST_WORKSPACE", "true").run()
            };
            let shown = show(&["--headless", "--json"]);
            assert_eq!(shown.code, Some(0), "{wire:?}: {}", shown.stderr);
            let document = parse(&shown.stdout);
            assert_eq!(document["systemPrompt"], Value::from(system(wire, &body)), "{wire:?}");
            let names: Vec<&str> = document["tools"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|tool| tool["name"].as_str())
                .collect();
            assert_eq!(names, tool_names(wire, &body), "{wire:?}");
            let profile = if small && wire != Wire::Gemini { "compact" } else { "default" };
            assert_eq!(document["profile"], profile, "{wire:?}");
            assert!(document["firstMessage"].as_str().unwrap().contains("Use tabs."), "{wire:?}: {document}");
            let text = show(&[]);
            assert!(
                text.stdout.contains("--- System prompt ---") && text.stdout.contains("read_file ("),
                "{}",
                text.stdout
            );
            assert_eq!(server.all_requests().len(), 1, "{wire:?}: showing asks nobody");
            assert!(
                all_files(&home.gemini_dir())
                    .iter()
                    .filter(|file| file.parent().unwrap().ends_with("chats"))
                    .count()
                    <= 1
            );
        }
    }
}

#[test]
fn small_models_get_a_short_prompt() {
    let show = |context: u64| {
        let mut settings = Wire::Chat.settings("http://127.0.0.1:9");
        settings["providers"]["lab"]["models"]["test-model"]["context"] = json!(context);
        let home = TestHome::new().settings(settings);
        let run = home.command(binary(), ["prompt", "show", "--model", "lab/test-model", "--json"]).run();
        parse(&run.stdout)["bytes"]["systemPrompt"].as_u64().unwrap()
    };
    let (small, large) = (show(32_768), show(128_000));
    assert!(small * 3 < large * 2, "{small} and {large} bytes");
}

/// Settings with both servers, and the model of each.
fn pair_settings(first: &FakeWire, second: &FakeWire) -> (Value, [String; 2]) {
    let mut providers = json!({});
    let mut models = [String::new(), String::new()];
    for (index, (id, server)) in [("first", first), ("second", second)].into_iter().enumerate() {
        let wire = server.wire();
        models[index] = wire.model().to_owned();
        if wire != Wire::Gemini {
            providers[id] = wire.settings(&server.url())["providers"]["lab"].clone();
            models[index] = format!("{id}/test-model");
        }
    }
    (json!({"providers": providers}), models)
}

/// The messages of the only session, which gemini-cli must be able to read.
fn transcript(home: &TestHome) -> Vec<Value> {
    let chats: Vec<_> = all_files(&home.gemini_dir())
        .into_iter()
        .filter(|path| {
            path.parent().unwrap().ends_with("chats") && path.extension().is_some_and(|ext| ext == "json")
        })
        .collect();
    assert_eq!(chats.len(), 1, "{chats:?}");
    let session: Value = serde_json::from_str(&fs::read_to_string(&chats[0]).unwrap()).unwrap();
    for key in ["sessionId", "projectHash", "startTime", "lastUpdated"] {
        assert!(session[key].is_string(), "{key}: {session:#}");
    }
    let messages = session["messages"].as_array().unwrap().clone();
    for message in &messages {
        let kind = message["type"].as_str().unwrap();
        assert!(["user", "gemini", "info", "error", "warning"].contains(&kind), "{message:#}");
        assert!(message["id"].is_string() && message["timestamp"].is_string(), "{message:#}");
        assert!(message["content"].is_string() || message["content"].is_array(), "{message:#}");
        for call in message["toolCalls"].as_array().into_iter().flatten() {
            assert!(
                call["id"].is_string() && call["name"].is_string() && call["args"].is_object(),
                "{call:#}"
            );
            assert!(call["status"].is_string() && call["timestamp"].is_string(), "{call:#}");
        }
        if let Some(tokens) = message.get("tokens").filter(|tokens| !tokens.is_null()) {
            for key in ["input", "output", "cached", "total"] {
                assert!(tokens[key].is_u64(), "{tokens:#}");
            }
        }
    }
    messages
}

#[test]
fn a_session_of_any_wire_goes_on_in_any_other() {
    for from in Wire::ALL {
        for to in Wire::ALL {
            let script = [
                Said::call("read_file", json!({"file_path": "a.txt"}))
                    .and("read_file", json!({"file_path": "b.txt"}))
                    .thinking("let me look", "c2VhbC1vZi10aGUtZmlyc3Q="),
                Said::text("the first said this"),
            ];
            let first = FakeWire::start(from, script);
            let second = FakeWire::start(to, [Said::text("the second said that")]);
            let (settings, models) = pair_settings(&first, &second);
            let home = TestHome::new()
                .settings(settings)
                .file("a.txt", "content of a")
                .file("b.txt", "content of b");
            let ask = |server: &FakeWire, args: &[&str]| {
                let run =
                    home.command(binary(), args.iter().copied()).env("GEMINI_CLI_TRUST_WORKSPACE", "true");
                with_key(run, server).env(KEY_VARIABLE, "key-0123456789").run()
            };
            let one = ask(&first, &["-m", &models[0], "-p", "read a and b"]);
            assert_eq!(one.code, Some(0), "{from:?} {}", one.stderr);
            let before = transcript(&home);
            let two = ask(&second, &["-m", &models[1], "--resume", "latest", "-p", "go on"]);
            assert_eq!(
                (two.code, two.stdout.as_str()),
                (Some(0), "the second said that\n"),
                "{from:?} {to:?} {}",
                two.stderr
            );
            first.assert_valid();
            second.assert_valid();
            let after = transcript(&home);
            assert_eq!(&after[..before.len()], &before[..], "{from:?} {to:?}");
            let sent = second.requests()[0].json().to_string();
            for text in ["read a and b", "content of a", "content of b", "the first said this", "go on"] {
                assert!(sent.contains(text), "{from:?} {to:?}: {text}\n{sent}");
            }
            let is_sealed = sent.contains("c2VhbC1vZi10aGUtZmlyc3Q=");
            assert!(!is_sealed || from == to, "{from:?} {to:?}: {sent}");
            assert!(!sent.contains("let me look") || from == to, "{from:?} {to:?}: {sent}");
            assert!(!sent.contains("\"pollux\""), "{from:?} {to:?}: {sent}");
        }
    }
}

#[test]
fn statistics_count_what_was_read_from_and_written_to_a_cache() {
    for wire in Wire::ALL {
        let server = FakeWire::start(wire, [Said::text("done")]);
        let home = TestHome::new().settings(wire.settings(&server.url()));
        let run = run(&home, &server, &["-p", "hi", "-o", "json"]);
        let document = parse(&run.stdout);
        let models = document["stats"]["models"].as_object().unwrap();
        let tokens = &models.values().next().unwrap()["tokens"];
        assert_eq!((&tokens["prompt"], &tokens["cached"]), (&json!(100), &json!(60)), "{wire:?}: {document}");
        let written = if matches!(wire, Wire::Responses | Wire::Messages) { json!(20) } else { Value::Null };
        assert_eq!(tokens["cacheWrite"], written, "{wire:?}: {document}");
    }
}

#[test]
fn a_hook_that_speaks_geminis_words_leaves_a_valid_request_on_every_wire() {
    let change = json!({"hookSpecificOutput": {"llm_request": {"config": {
        "temperature": 0.25, "topK": 3, "maxOutputTokens": 77, "safetySettings": [],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["read_file"]}},
    }}}});
    for wire in Wire::ALL {
        let server = FakeWire::start(wire, [Said::text("done")]);
        let mut settings = wire.settings(&server.url());
        settings["hooks"] =
            json!({"BeforeModel": [{"name": "change", "command": "cat > /dev/null; cat answer.json"}]});
        let home = TestHome::new().settings(settings).file("answer.json", &change.to_string());
        let run = run(&home, &server, &["-p", "hi"]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), "done\n"), "{wire:?}: {}", run.stderr);
        server.assert_valid();
        let body = server.requests()[0].json();
        let limit = match wire {
            Wire::Gemini => &body["generationConfig"]["maxOutputTokens"],
            Wire::Chat | Wire::Messages => &body["max_tokens"],
            Wire::Responses => &body["max_output_tokens"],
        };
        assert_eq!(limit, 77, "{wire:?}: {body:#}");
        let foreign = ["toolConfig", "safetySettings", "topK", "generationConfig"];
        let sent: Vec<&str> = foreign.into_iter().filter(|word| body.get(word).is_some()).collect();
        assert!(wire == Wire::Gemini || sent.is_empty(), "{wire:?}: {sent:?}");
    }
}

#[test]
fn a_signal_in_the_middle_of_a_calls_arguments_hangs_up_and_the_session_goes_on() {
    for wire in Wire::ALL {
        let call = wire.stream(&Said::call("read_file", json!({"file_path": "half-a-name.txt"})), 1);
        let cut = String::from_utf8_lossy(&call).find("a-name").unwrap();
        let answer = HttpAnswer::status(200).header("Content-Type", "text/event-stream").body(call);
        let server = FakeWire::start(wire, [Said::raw(answer.stall_after(cut)), Said::text("Going on.")]);
        let home = TestHome::new().settings(wire.settings(&server.url()));
        let args = ["-m", wire.model(), "-p", "read it"];
        let running =
            with_key(home.command(binary(), args), &server).env("GEMINI_CLI_TRUST_WORKSPACE", "true").spawn();
        until("the request arrived", || server.requests().len() == 1);
        running.signal("INT");
        let ended = running.wait();
        assert_eq!(ended.code, Some(130), "{wire:?}: {}", ended.stderr);
        until("the connection was closed", || server.hung_up() == 1);
        let next = run(&home, &server, &["--resume", "-p", "go on"]);
        assert_eq!((next.code, next.stdout.as_str()), (Some(0), "Going on.\n"), "{wire:?}: {}", next.stderr);
        server.assert_valid();
        assert!(!String::from_utf8_lossy(&server.requests()[1].body).contains("half-"), "{wire:?}");
    }
}
