//! Local providers and models without tools of their own: the real binary against a scripted server.

use std::time::{Duration, Instant};

use pollux_test_support::chat::{ChatReply, FakeChat};
use pollux_test_support::{Run, TestHome};
use serde_json::{Value, json};

use crate::scene::{binary, lines, of_type};

/// A trusted project with a file, and no credentials at all.
fn home() -> TestHome {
    TestHome::new().file("notes.txt", "remember the milk").env("GEMINI_CLI_TRUST_WORKSPACE", "true")
}

/// A run with a provider of the user's own, or a built-in one, at a scripted server.
fn run(home: TestHome, provider: &str, settings: Value, server: &FakeChat, args: &[&str]) -> Run {
    let mut all = json!({"providers": {}});
    all["providers"][provider] = settings;
    all["providers"][provider]["baseUrl"] = json!(server.url());
    run_with(home.settings(all), provider, args)
}

fn run_with(home: TestHome, provider: &str, args: &[&str]) -> Run {
    let model = format!("{provider}/m");
    let args: Vec<&str> = ["-m", &model, "-p", "hi"].into_iter().chain(args.iter().copied()).collect();
    home.command(binary(), args).without_env("GEMINI_API_KEY").run()
}

fn pieces(pieces: &[&str]) -> ChatReply {
    pieces.iter().fold(ChatReply::stream().role(), |reply, piece| reply.text(piece)).finish("stop").done()
}

fn tool_names(body: &Value) -> Vec<String> {
    let tools = body["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_fenced_call_split_across_chunks_runs_once_and_is_not_shown() {
    let call = [
        "I look",
        " around.\n`",
        "``tool_",
        "call\n{\"name\": \"list_dir",
        "ectory\", \"arguments\": {\"dir_path\": \".\"}}\n`",
        "``\n",
    ];
    let server = FakeChat::start([pieces(&call), ChatReply::said("One file.")]);
    let run = run(home(), "lab", json!({"tools": "prompt"}), &server, &["-o", "stream-json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let events = lines(&run.stdout);
    assert_eq!(of_type(&events, "TOOL_USE").len(), 1);
    let shown: String = of_type(&events, "MESSAGE").iter().map(|event| event.to_string()).collect();
    assert!(shown.contains("around") && shown.contains("One file."), "{shown}");
    assert!(!shown.contains("```") && !shown.contains("tool_call"), "{shown}");
    let second = server.messages(1);
    let result = second.last().unwrap()["content"].as_str().unwrap();
    assert!(
        result.starts_with("<tool_result name=\"list_directory\"") && result.contains("notes.txt"),
        "{result}"
    );
    assert_eq!(server.body(0).get("tools"), None);
}

#[test]
fn a_tool_that_was_not_offered_is_not_called() {
    let call = |name: &str, args: &str| {
        ChatReply::stream().role().call(0, "c1", name, args).finish("tool_calls").done()
    };
    for (own, name, args) in [
        (json!({"tools": "none"}), "read_file", r#"{"file_path":"secret.txt"}"#),
        (json!({"tools": "none"}), "run_shell_command", r#"{"command":"touch ran.txt"}"#),
        (json!({"models": {"m": {"compact": true}}}), "save_memory", r#"{"fact":"made up"}"#),
    ] {
        let server = FakeChat::start([call(name, args), ChatReply::said("done")]);
        let home = home().file("secret.txt", "canary-words");
        let (project, gemini) = (home.project(), home.gemini_dir());
        let run = run(home, "lab", own, &server, &["--yolo", "--sandbox=false"]);
        assert_eq!(run.code, Some(0), "{name}: {}", run.stderr);
        assert!(!project.join("ran.txt").exists() && !gemini.join("GEMINI.md").exists(), "{name}");
        let answer = server.body(1).to_string();
        assert!(answer.contains("is not available to this model"), "{name}: {answer}");
        assert!(!answer.contains("canary-words"), "{name}");
    }
}

#[test]
fn three_invalid_calls_in_a_row_end_the_turn_with_advice() {
    let wrong = [
        "read_file\", \"arguments\": {}",
        "fly\", \"arguments\": {}",
        "read_file\", \"arguments\": {\"file_path\": 3}",
    ];
    let server = FakeChat::start(
        wrong.map(|call| pieces(&[&format!("<tool_call>{{\"name\": \"{call}}}</tool_call>")])),
    );
    let run = run(home(), "lab", json!({"tools": "prompt"}), &server, &[]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("three invalid tool calls in a row"), "{}", run.stdout);
    assert_eq!(server.requests().len(), 3);
    let told = |index: usize| server.messages(index).last().unwrap()["content"].as_str().unwrap().to_owned();
    assert!(told(1).contains("`file_path` is missing") && told(1).contains("the schema is"), "{}", told(1));
    assert!(told(2).contains("unknown tool `fly`") && told(2).contains("read_file"), "{}", told(2));
}

#[test]
fn ollama_gets_no_tool_choice_and_a_forced_call_is_requested_in_the_prompt() {
    let show = ChatReply::json(200, &json!({"model_info": {}, "capabilities": ["tools"]}));
    let running = ChatReply::json(200, &json!({"models": []}));
    let server = FakeChat::start([show, running, ChatReply::said("no")]);
    let answer = json!({"hookSpecificOutput": {"hookEventName": "BeforeToolSelection",
        "toolConfig": {"mode": "ANY", "allowedFunctionNames": ["read_file"]}}});
    let hook = json!({"hooks": [{"type": "command", "command": format!("echo '{answer}'")}]});
    let settings =
        json!({"hooks": {"BeforeToolSelection": [hook]}, "providers": {"ollama": {"baseUrl": server.url()}}});
    let run = run_with(home().settings(settings), "ollama", &[]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let body = server.body(2);
    assert_eq!(body.get("tool_choice"), None);
    assert!(tool_names(&body).contains(&"read_file".to_owned()));
    let last = server.messages(2).last().unwrap().to_string();
    assert!(last.contains("read_file"), "{last}");
}

#[test]
fn a_run_waits_for_a_server_that_loads_its_model_with_one_notice() {
    let loading = || {
        let error = json!({"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}});
        ChatReply::json(503, &error)
    };
    let props = json!({"default_generation_settings": {"n_ctx": 8192},
        "chat_template_caps": {"supports_tools": true, "supports_tool_calls": true}});
    let server =
        FakeChat::start([loading(), ChatReply::json(200, &props), loading(), ChatReply::said("ready")]);
    let run = run(home(), "llamacpp", json!({}), &server, &[]);
    assert_eq!((run.stdout.as_str(), run.code), ("ready\n", Some(0)), "{}", run.stderr);
    assert!(run.stderr.contains("The server is loading the model; waiting up to 120 s."), "{}", run.stderr);
}

#[test]
fn a_small_ollama_window_is_reported_once_with_the_fix() {
    let show =
        ChatReply::json(200, &json!({"model_info": {"q.context_length": 40960}, "capabilities": ["tools"]}));
    let running = ChatReply::json(200, &json!({"models": [{"name": "m:latest", "context_length": 4096}]}));
    let call = ChatReply::stream().role().call(0, "1", "list_directory", "{\"dir_path\": \".\"}");
    let server = FakeChat::start([show, running, call.finish("tool_calls").done(), ChatReply::said("done")]);
    let run = run(home(), "ollama", json!({}), &server, &[]);
    assert_eq!((run.stdout.as_str(), run.code), ("done\n", Some(0)), "{}", run.stderr);
    assert_eq!(run.stderr.matches("OLLAMA_CONTEXT_LENGTH=64000 ollama serve").count(), 1, "{}", run.stderr);
}

#[test]
fn a_local_server_that_is_not_running_is_named_with_its_start_command_at_once() {
    let began = Instant::now();
    let settings = json!({"providers": {"llamacpp": {"baseUrl": "http://127.0.0.1:9/v1"}}});
    let run = run_with(home().settings(settings), "llamacpp", &[]);
    assert_ne!(run.code, Some(0));
    assert!(run.stderr.contains("llama-server -m MODEL.gguf --jinja"), "{}", run.stderr);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn a_local_model_gets_few_tools_with_short_descriptions() {
    let props = json!({"default_generation_settings": {"n_ctx": 8192},
        "chat_template_caps": {"supports_tools": true, "supports_tool_calls": true}});
    let server = FakeChat::start([ChatReply::json(200, &props), ChatReply::said("ok")]);
    let local = run(home(), "llamacpp", json!({}), &server, &["--approval-mode", "yolo", "--sandbox=false"]);
    assert_eq!(local.code, Some(0), "{}", local.stderr);
    let body = server.body(1);
    let mut names = tool_names(&body);
    names.sort();
    assert_eq!(
        names,
        ["grep_search", "list_directory", "read_file", "replace", "run_shell_command", "write_file"]
    );
    for tool in body["tools"].as_array().unwrap() {
        let description = tool["function"]["description"].as_str().unwrap();
        assert!(description.chars().count() <= 200, "{description}");
    }
    let local_bytes = body.to_string().len();
    let server = FakeChat::start([ChatReply::said("ok"), ChatReply::said("ok")]);
    let args = ["--approval-mode", "yolo", "--sandbox=false"];
    run(home(), "lab", json!({}), &server, &args);
    assert!(tool_names(&server.body(0)).len() > names.len());
    assert!(server.body(0).to_string().len() > local_bytes + 4_000);
    run(home(), "lab", json!({"models": {"m": {"context": 16_000}}}), &server, &args);
    assert_eq!(tool_names(&server.body(1)).len(), names.len());
}

#[test]
fn a_model_without_tools_is_announced_and_gets_none() {
    let server = FakeChat::start([ChatReply::said("hello")]);
    let run = run(home(), "lab", json!({"tools": "none"}), &server, &[]);
    assert_eq!((run.stdout.as_str(), run.code), ("hello\n", Some(0)), "{}", run.stderr);
    assert!(run.stderr.contains("lab/m cannot call tools."), "{}", run.stderr);
    assert_eq!(server.body(0).get("tools"), None);
}

#[test]
fn a_file_is_served_by_the_users_command_and_never_by_the_projects() {
    let model = "GGUF\u{3}\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let trap = json!({"local": {"serverCommand": ["/bin/sh", "-c", "touch trap"]}, "model": {"name": "gguf/m.gguf"}});
    let project = home().file("m.gguf", model).project_settings(trap);
    let run = project.command(binary(), ["-m", "gguf/m.gguf", "-p", "hi"]).env("PATH", "/nowhere").run();
    assert!(run.stderr.contains("`llama-server` not found in `PATH`"), "{}", run.stderr);
    assert!(!project.project().join("trap").exists());
    let run = project.command(binary(), ["-p", "hi"]).without_env("GEMINI_API_KEY").run();
    assert_eq!(run.code, Some(41), "a project chooses no file either: {}", run.stderr);
    assert!(!project.project().join("trap").exists());

    let script = "echo out of memory >&2; exit 7";
    let own =
        home().file("m.gguf", model).settings(json!({"local": {"serverCommand": ["/bin/sh", "-c", script]}}));
    let run = own.command(binary(), ["-m", "gguf/m.gguf", "-p", "hi"]).run();
    assert!(run.stderr.contains("exit code 7") && run.stderr.contains("out of memory"), "{}", run.stderr);
    let run = own.command(binary(), ["models", "serve", "m.gguf"]).run();
    assert!(run.stderr.contains("exit code 7") && run.code == Some(1), "{}", run.stderr);
    let run = own.command(binary(), ["-m", "gguf/missing.gguf", "-p", "hi"]).run();
    assert!(run.stderr.contains("could not read") && run.stderr.contains("missing.gguf"), "{}", run.stderr);
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_ends_with_the_program_even_when_that_is_killed() {
    let home = home();
    let folder = home.project().display().to_string();
    let script =
        format!("cd {folder}; echo $$ > pid; env | grep -c LLAMA_API_KEY > key; while :; do sleep 1; done");
    let home = home
        .file("m.gguf", "GGUF\u{3}\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0")
        .settings(json!({"local": {"serverCommand": ["/bin/sh", "-c", script]}}));
    let project = home.project();
    let running = home.command(binary(), ["-m", "gguf/m.gguf", "-p", "hi"]).spawn();
    let began = Instant::now();
    let within = || assert!(began.elapsed() < Duration::from_secs(60), "too late");
    let read = |name: &str| std::fs::read_to_string(project.join(name)).unwrap_or_default().trim().to_owned();
    while read("pid").is_empty() || read("key").is_empty() {
        within();
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(read("key"), "1");
    let arguments = std::fs::read_to_string(format!("/proc/{}/cmdline", read("pid"))).unwrap();
    assert!(arguments.contains("127.0.0.1") && !arguments.contains("--api-key"), "{arguments}");
    running.kill();
    let stat = format!("/proc/{}/stat", read("pid"));
    while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z")) {
        within();
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_session_from_a_file_does_not_choose_a_model_file_of_the_project() {
    let session = json!({
        "sessionId": "11111111-2222-3333-4444-555555555555", "projectHash": "x",
        "startTime": "2026-01-01T00:00:00.000Z", "lastUpdated": "2026-01-01T00:00:00.000Z",
        "messages": [{
            "id": "a", "timestamp": "2026-01-01T00:00:00.000Z", "type": "user", "content": "hi",
            "pollux": {"model": {"provider": "gguf", "name": "gguf/m.gguf", "local": true}},
        }],
    });
    let home = home().file("m.gguf", "GGUF").file("theirs.json", &session.to_string());
    let run = home.command(binary(), ["--session-file", "theirs.json", "-p", "go on"]).run();
    assert_eq!(run.code, Some(42), "{}", run.stderr);
    assert!(
        run.stderr.contains("cannot continue with gguf/m.gguf: the file is in the project"),
        "{}",
        run.stderr
    );
}
