//! What is sent to the model.

use std::fs;

use pollux_test_support::{Reply, TestHome, reply};
use serde_json::{Value, json};

use crate::scene::{MODEL, PNG, Scene, keys, of_type};

fn call_parts(content: &Value) -> Vec<Value> {
    let parts = content["parts"].as_array().unwrap().iter();
    parts.filter(|part| part.get("functionCall").is_some()).cloned().collect()
}

#[test]
fn one_prompt_is_one_request_in_the_documented_shape() {
    let scene = Scene::new([reply().text("Hello.")]);
    let run = scene.run(&["-p", "say hello"]);
    assert_eq!((run.stdout.as_str(), run.code), ("Hello.\n", Some(0)), "{}", run.stderr);
    assert_eq!(scene.server.requests().len(), 1);
    let request = scene.server.request(0);
    assert_eq!(request.method, "POST");
    assert_eq!(request.path, format!("/v1beta/models/{MODEL}:streamGenerateContent"));
    assert_eq!(request.query, "alt=sse");
    assert_eq!(request.header("x-goog-api-key"), Some("test-key"));
    assert!(request.header("content-type").unwrap().starts_with("application/json"));
    let contents = request.contents();
    assert_eq!(contents.len(), 1);
    let texts = request.last_texts();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].starts_with("<session_context>"), "{}", texts[0]);
    assert_eq!(texts[1], "say hello");
    assert!(request.body.get("toolConfig").is_none());
    assert!(!request.system_text().is_empty());
    let tools = request.body["tools"][0]["functionDeclarations"].as_array().unwrap();
    assert!(tools.iter().all(|tool| tool["parametersJsonSchema"]["type"] == "object"));
}

#[test]
fn declared_tools_have_the_documented_names_and_required_parameters() {
    let scene = Scene::new([reply().text("ok")]);
    scene.run(&["-p", "x", "--yolo"]);
    let expected: &[(&str, &[&str])] = &[
        ("read_file", &["file_path"]),
        ("write_file", &["file_path", "content"]),
        ("replace", &["file_path", "instruction", "old_string", "new_string"]),
        ("glob", &["pattern"]),
        ("grep_search", &["pattern"]),
        ("list_directory", &["dir_path"]),
        ("run_shell_command", &["command"]),
    ];
    let request = scene.server.request(0);
    let tools = request.body["tools"][0]["functionDeclarations"].as_array().unwrap();
    for (name, required) in expected {
        let tool = tools.iter().find(|tool| tool["name"] == *name).unwrap_or_else(|| panic!("{name}"));
        let schema = &tool["parametersJsonSchema"];
        let found: Vec<&str> =
            schema["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let mut sorted = (found.clone(), required.to_vec());
        sorted.0.sort_unstable();
        sorted.1.sort_unstable();
        assert_eq!(sorted.0, sorted.1, "{name}");
        assert!(found.iter().all(|key| schema["properties"].get(key).is_some()), "{name}");
    }
}

#[test]
fn ids_are_equal_on_both_sides_and_carry_the_prefix_only_in_events() {
    let scene = Scene::with(
        TestHome::new().file("a.txt", "alpha\n"),
        [
            reply()
                .call_with_id("c1", "read_file", json!({"file_path": "a.txt"}))
                .signature("sig-1")
                .call("glob", json!({"pattern": "*.txt"})),
            reply().text("Done."),
        ],
    );
    let (events, code) = scene.events(&["-p", "look"]);
    assert_eq!(code, Some(0));
    let ids: Vec<&str> =
        of_type(&events, "TOOL_USE").iter().map(|event| event["callId"].as_str().unwrap()).collect();
    assert_eq!(ids[0], "read_file__c1");
    assert!(ids[1].starts_with("glob__glob_"), "{ids:?}");
    let results: Vec<&Value> = of_type(&events, "TOOL_RESULT");
    assert!(results.iter().all(|event| event["status"] == "success"), "{results:?}");

    let contents = scene.server.request(1).contents();
    let roles: Vec<&str> = contents.iter().map(|turn| turn["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "model", "user"]);
    let calls = call_parts(&contents[1]);
    assert_eq!(calls[0]["functionCall"]["id"], "c1");
    assert_eq!(calls[0]["thoughtSignature"], "sig-1");
    assert!(calls[1].get("thoughtSignature").is_none(), "only the first call of a step is signed");
    let second = calls[1]["functionCall"]["id"].as_str().unwrap();
    assert!(second.starts_with("glob_"), "{second}");
    let answers = scene.server.request(1).function_responses();
    assert_eq!(answers[0]["id"], "c1");
    assert_eq!(answers[1]["id"], second);
    assert!(answers[0]["response"]["output"].as_str().unwrap().contains("alpha"));
    assert_eq!(keys(&answers[0]["response"]), ["output"]);
}

#[test]
fn thoughts_are_not_sent_back_and_an_unsigned_first_call_gets_the_synthetic_signature() {
    let scene = Scene::new([
        reply()
            .thought("**Plan** think about it")
            .text("Looking.")
            .call("list_directory", json!({"dir_path": "."}))
            .call("glob", json!({"pattern": "*"})),
        reply().thought("**More** thinking").text("Done."),
    ]);
    let run = scene.run(&["-p", "look"]);
    assert_eq!((run.stdout.as_str(), run.code), ("Looking.\nDone.\n", Some(0)), "{}", run.stderr);
    let model_turn = &scene.server.request(1).contents()[1];
    assert!(!model_turn.to_string().contains("think about it"), "{model_turn}");
    let calls = call_parts(model_turn);
    assert_eq!(calls[0]["thoughtSignature"], "skip_thought_signature_validator");
    assert!(calls[1].get("thoughtSignature").is_none());
}

#[test]
fn signatures_of_text_and_of_later_steps_are_echoed() {
    let scene = Scene::new([
        reply().text("First.").signature("t-1").call("glob", json!({"pattern": "a*"})).signature("s-1"),
        reply().call("glob", json!({"pattern": "b*"})).signature("s-2"),
        reply().text("Done."),
    ]);
    assert_eq!(scene.run(&["-p", "x"]).code, Some(0));
    let contents = scene.server.request(2).contents();
    assert_eq!(call_parts(&contents[1])[0]["thoughtSignature"], "s-1");
    assert_eq!(call_parts(&contents[3])[0]["thoughtSignature"], "s-2");
    assert!(contents[1].to_string().contains("t-1"), "{}", contents[1]);
}

#[test]
fn read_only_calls_of_one_step_are_answered_in_the_order_they_were_made() {
    let home = (0..6).fold(TestHome::new(), |home, n| home.file(&format!("f{n}.txt"), &format!("text {n}")));
    let calls = (0..6).fold(reply(), |reply, n| {
        reply.call_with_id(&format!("id{n}"), "read_file", json!({"file_path": format!("f{n}.txt")}))
    });
    let scene = Scene::with(home, [calls, reply().text("ok")]);
    scene.run(&["-p", "read all"]);
    let answers = scene.server.request(1).function_responses();
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer["id"], format!("id{n}"));
        assert!(answer["response"]["output"].as_str().unwrap().contains(&format!("text {n}")));
    }
    assert_eq!(answers.len(), 6);
}

#[test]
fn context_files_are_placed_where_they_belong() {
    let home = TestHome::new()
        .home_file(".gemini/GEMINI.md", "GLOBAL RULE\n")
        .file("GEMINI.md", "PROJECT RULE @./more.md\n")
        .file("more.md", "IMPORTED RULE @./GEMINI.md\n")
        .file("sub/GEMINI.md", "SUB RULE\n")
        .file("sub/a.txt", "alpha")
        .file("sub/b.txt", "beta");
    let read = |path: &str| reply().call("read_file", json!({"file_path": path}));
    let scene = Scene::with(home, [read("sub/a.txt"), read("sub/b.txt"), reply().text("ok")]);
    assert_eq!(scene.run(&["-p", "x"]).code, Some(0));
    let first = scene.server.request(0);
    assert!(first.system_text().contains("GLOBAL RULE"));
    assert!(!first.system_text().contains("PROJECT RULE"));
    let texts = first.last_texts();
    assert!(texts[0].contains("PROJECT RULE") && texts[0].contains("IMPORTED RULE"), "{}", texts[0]);
    assert!(!texts[0].contains("GLOBAL RULE"));
    let last = scene.server.request(2);
    let whole = last.body["contents"].to_string();
    assert_eq!(whole.matches("SUB RULE").count(), 1, "{whole}");
    let read_back = scene.server.request(1).function_responses()[0].to_string();
    assert!(read_back.contains("SUB RULE") && read_back.contains("alpha"), "{read_back}");
}

#[test]
fn further_names_of_context_files_are_read_beside_the_usual_one() {
    let home = TestHome::new()
        .settings(json!({"context": {"fileName": ["AGENTS.md", "NOTES.md"]}}))
        .file("AGENTS.md", "AGENT RULE")
        .file("NOTES.md", "NOTE RULE")
        .file("GEMINI.md", "GEMINI RULE");
    let scene = Scene::with(home, [reply().text("ok")]);
    scene.run(&["-p", "x"]);
    let text = scene.server.request(0).last_texts().remove(0);
    for rule in ["AGENT RULE", "NOTE RULE", "GEMINI RULE"] {
        assert!(text.contains(rule), "{rule} in {text}");
    }
}

#[test]
fn an_image_is_read_as_inline_data() {
    let scene =
        Scene::new([reply().call("read_file", json!({"file_path": "dot.png"})), reply().text("A dot.")]);
    fs::write(scene.home.project().join("dot.png"), PNG).unwrap();
    let run = scene.run(&["-p", "what is it"]);
    assert_eq!((run.stdout.as_str(), run.code), ("A dot.\n", Some(0)), "{}", run.stderr);
    let answer = scene.server.requests().last().unwrap().contents().pop().unwrap().to_string();
    assert!(answer.contains("\"inlineData\"") && answer.contains("image/png"), "{answer}");
}

#[test]
fn the_model_is_taken_from_flag_then_variable_then_settings() {
    let home = TestHome::new().settings(json!({"model": {"name": "from-settings"}}));
    let scene = Scene::with(home, [reply().text("1"), reply().text("2"), reply().text("3")]);
    scene.prepare(&["-p", "x", "-m", "first", "--model", "from-flag"]).env("GEMINI_MODEL", "from-env").run();
    scene.prepare(&["-p", "x"]).env("GEMINI_MODEL", "from-env").run();
    scene.prepare(&["-p", "x"]).run();
    let paths: Vec<String> = scene.server.requests().into_iter().map(|request| request.path).collect();
    for (path, name) in paths.iter().zip(["from-flag", "from-env", "from-settings"]) {
        assert_eq!(*path, format!("/v1beta/models/{name}:streamGenerateContent"));
    }
    assert_eq!(paths.len(), 3);
}

#[test]
fn without_a_model_no_request_is_made_beside_the_prompts_own() {
    let scene = Scene::new([reply().text("ok")]);
    let run = scene.prepare(&["-p", "x"]).run();
    assert_eq!((run.stdout.as_str(), run.code), ("ok\n", Some(0)), "{}", run.stderr);
    assert_eq!(scene.server.requests().len(), 1);
    assert!(!scene.server.request(0).path.contains("/auto:"), "{}", scene.server.request(0).path);
}

#[test]
fn settings_can_name_more_directories_than_the_flag() {
    let settings = json!({"context": {"includeDirectories": ["a", "b", "c", "d", "e", "f"]}});
    let home = ["a", "b", "c", "d", "e", "f"]
        .iter()
        .fold(TestHome::new().settings(settings), |home, name| home.file(&format!("{name}/note.txt"), name));
    let scene = Scene::with(home, [reply().text("ok")]);
    let run = scene.run(&["-p", "x"]);
    assert_eq!((run.stdout.as_str(), run.stderr.as_str(), run.code), ("ok\n", "", Some(0)));
}

#[test]
fn further_directories_join_the_workspace_and_the_sixth_is_refused() {
    let scene = Scene::new([
        reply().call("read_file", json!({"file_path": "../extra/note.txt"})),
        reply().text("ok"),
    ]);
    let extra = scene.home.project().parent().unwrap().join("extra");
    fs::create_dir(&extra).unwrap();
    fs::write(extra.join("note.txt"), "from beside").unwrap();
    let run = scene.run(&["-p", "x", "--include-directories", "../extra"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let answer = scene.server.request(1).function_responses()[0].to_string();
    assert!(answer.contains("from beside"), "{answer}");

    let six = scene.run(&["-p", "x", "--include-directories", "a,b,c", "--include-directories", "d,e,f"]);
    assert_eq!(six.code, Some(42));
    assert!(six.stderr.contains("`--include-directories` accepts at most 5 directories"), "{}", six.stderr);
    scene.server.push([reply().text("ok")]);
    let missing = scene.run(&["-p", "x", "--include-directories", "no-such-folder"]);
    assert_eq!((missing.stdout.as_str(), missing.code), ("ok\n", Some(0)));
    assert!(missing.stderr.contains("no-such-folder"), "{}", missing.stderr);
}

#[test]
fn files_outside_the_workspace_stay_closed_even_through_links() {
    let scene = Scene::new([
        reply()
            .call("read_file", json!({"file_path": "/etc/hostname"}))
            .call("read_file", json!({"file_path": "link.txt"}))
            .call("write_file", json!({"file_path": "out/evil.txt", "content": "x"})),
        reply().text("ok"),
    ]);
    let beside = scene.home.project().parent().unwrap().join("beside");
    fs::create_dir(&beside).unwrap();
    fs::write(beside.join("secret.txt"), "TOP-SECRET").unwrap();
    std::os::unix::fs::symlink(beside.join("secret.txt"), scene.home.project().join("link.txt")).unwrap();
    std::os::unix::fs::symlink(&beside, scene.home.project().join("out")).unwrap();
    assert_eq!(scene.run(&["-p", "x", "--yolo"]).code, Some(0));
    let answers = scene.server.request(1).function_responses();
    assert!(answers.iter().all(|answer| answer["response"].get("error").is_some()), "{answers:?}");
    assert!(!scene.server.request(1).body.to_string().contains("TOP-SECRET"));
    assert!(!beside.join("evil.txt").exists());
}

#[test]
fn a_large_output_is_cut_and_the_whole_of_it_can_be_read() {
    let scene = Scene::new([
        reply().call("run_shell_command", json!({"command": "seq 1 40000"})),
        reply().text("ok"),
    ]);
    assert_eq!(scene.run(&["-p", "x", "--yolo"]).code, Some(0));
    let answer =
        scene.server.request(1).function_responses()[0]["response"]["output"].as_str().unwrap().to_owned();
    assert!(answer.len() < 120_000, "{}", answer.len());
    let saved = crate::scene::all_files(&scene.home.gemini_dir()).into_iter().find(|path| {
        path.to_string_lossy().contains("tool-outputs")
            && fs::read_to_string(path).unwrap().contains("\n40000")
    });
    let saved = saved.expect("the whole output is saved");
    assert!(fs::read_to_string(&saved).unwrap().contains("\n20000\n"));
    assert!(answer.contains(&*saved.to_string_lossy()), "the model is told where: {answer:.400}");
}

#[test]
fn connections_are_reused_between_the_steps_of_a_turn() {
    let step = |pattern: &str| reply().call("glob", json!({"pattern": pattern}));
    let scene = Scene::new([step("a"), step("b"), step("c"), reply().text("ok")]);
    scene.run(&["-p", "x"]);
    let connections: Vec<usize> = scene.server.requests().iter().map(|request| request.connection).collect();
    // A connection that is still being put back may be missed once.
    assert!(connections.len() == 4 && connections[3] <= 1, "{connections:?}");
}

#[test]
fn a_base_url_with_only_a_key_is_api_key_auth() {
    let scene = Scene::new([reply().text("ok"), Reply::error(400, "INVALID_ARGUMENT", "unused")]);
    let run = scene.run(&["-p", "x"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(scene.server.request(0).header("user-agent").is_some());
}

#[test]
fn a_tool_of_older_conversations_is_answered_though_it_is_not_declared() {
    let home = TestHome::new().file("a.txt", "alpha\n").file("b.txt", "beta\n");
    let call = reply().call("read_many_files", json!({"include": ["*.txt"]}));
    let scene = Scene::with(home, [call, reply().text("ok")]);
    scene.run(&["-p", "x"]);
    assert!(!scene.server.request(0).tool_names().contains(&"read_many_files".to_owned()));
    let answer = scene.server.request(1).function_responses()[0]["response"]["output"].to_string();
    assert!(answer.contains("alpha") && answer.contains("beta"), "{answer}");
}

/// What the model is told of every tool, word by word. `UPDATE_DECLARATIONS=1` writes the file anew; read the
/// difference before it is kept.
#[test]
fn every_declaration_is_as_written_down() {
    let ask = json!({"questions": [{"question": "q", "header": "h", "type": "text"}]});
    // With the memory on, its tools join the others.
    let replies =
        [reply().call("ask_user", ask), reply().call("enter_plan_mode", json!({})), reply().text("planning")];
    let scene = Scene::with(crate::memory::remembering(), replies);
    let mut terminal = scene.prepare(&["-m", "gemini-2.5-pro", "-i", "go"]).on_terminal();
    terminal
        .expect("Answer: ")
        .say("a")
        .expect("enter plan mode")
        .expect("Answer")
        .say("1")
        .expect("planning");
    terminal.expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    let declared =
        |index: usize| scene.server.request(index).body["tools"][0]["functionDeclarations"].clone();
    let mut all: Vec<Value> = declared(0).as_array().unwrap().clone();
    for tool in declared(2).as_array().unwrap() {
        if !all.iter().any(|known| known["name"] == tool["name"]) {
            all.push(tool.clone());
        }
    }
    all.sort_by_key(|tool| tool["name"].as_str().unwrap_or_default().to_owned());
    let text = format!("{:#}\n", Value::from(all));
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/declarations.json");
    if std::env::var_os("UPDATE_DECLARATIONS").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(file).unwrap_or_default(), text);
}
