//! Sub-agents: found, agreed to, asked, and how the run learns what became of them.

use std::fs;

use pollux_test_support::mcp::server_entry;
use pollux_test_support::{Reply, TestHome, reply};
use serde_json::{Value, json};

use crate::scene::{MODEL, Scene, all_files, lines, of_type, parse, until};

const SCOUT: &str = "---\nname: scout\ndescription: looks around\ntools: [read_file, glob]\ntemperature: 0.3\n\
                     max_turns: 2\n---\nYou are a scout for ${query}\n";

fn with_scout() -> TestHome {
    TestHome::new().home_file(".gemini/agents/scout.md", SCOUT)
}

fn ask(agent: &str, prompt: &str) -> Reply {
    reply().call("invoke_agent", json!({"agent_name": agent, "prompt": prompt}))
}

fn done(result: &str) -> Reply {
    reply().call("complete_task", json!({"result": result}))
}

/// What the model was told about its first call in this request.
fn told(scene: &Scene, request: usize) -> String {
    let response = scene.server.request(request).function_responses()[0]["response"].clone();
    response["output"].as_str().or(response["error"].as_str()).unwrap_or_default().to_owned()
}

#[test]
fn an_agent_works_on_its_own_and_every_front_end_sees_it_work() {
    let replies = [
        ask("scout", "the keep"),
        reply().thought("**Looking** around").call("read_file", json!({"file_path": "map.txt"})),
        done("it stands"),
        reply().text("All is well."),
    ];
    let scene = Scene::with(with_scout().file("map.txt", "a keep\n"), replies);
    let (events, code) = scene.events(&["-p", "look"]);
    assert_eq!(code, Some(0));
    let activities = of_type(&events, "SUBAGENT_ACTIVITY");
    let kinds: Vec<&str> = activities.iter().map(|event| event["activity"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        ["THOUGHT_CHUNK", "TOOL_CALL_START", "TOOL_CALL_END", "TOOL_CALL_START", "TOOL_CALL_END"]
    );
    assert_eq!(activities[0]["data"], json!({"text": "Looking"}));
    assert_eq!(activities[1]["data"]["name"], "read_file");
    assert_eq!(of_type(&events, "TOOL_USE").len(), 1, "calls of the agent are not calls of the run");
    assert_eq!(of_type(&events, "TOOL_RESULT")[0]["result"], "it stands");
    let said: String =
        of_type(&events, "MESSAGE").iter().skip(1).filter_map(|m| m["content"].as_str()).collect();
    assert_eq!(said, "All is well.");
    let request = scene.server.request(1);
    assert_eq!(request.tool_names(), ["glob", "read_file", "complete_task"]);
    assert_eq!(request.body["generationConfig"]["temperature"], 0.3, "its temperature reaches the model");
    let system = request.body["systemInstruction"].to_string();
    assert!(system.contains("You are a scout for the keep"), "{system}");
    assert_eq!(told(&scene, 3), "Subagent 'scout' finished.\nTermination Reason: GOAL\nResult:\nit stands");
    let session = scene.session();
    let id = session["messages"][1]["toolCalls"][0]["agentId"].as_str().unwrap().to_owned();
    let own = scene.chats().join(session["sessionId"].as_str().unwrap()).join(format!("{id}.jsonl"));
    let record = fs::read_to_string(&own).unwrap();
    assert!(record.contains("\"kind\":\"subagent\"") && record.contains("it stands"), "{record}");
    let shown = scene.prepare(&["sessions", "show", session["sessionId"].as_str().unwrap()]).run();
    assert!(
        shown.stdout.contains(id.get(..8).unwrap()) || shown.stdout.contains("it stands"),
        "{}",
        shown.stdout
    );
}

#[test]
fn progress_is_on_stderr_and_upstreams_dialect_stays_as_it_is() {
    let replies = || {
        [ask("scout", "x"), reply().call("glob", json!({"pattern": "*"})), done("ok"), reply().text("done")]
    };
    let scene = Scene::with(with_scout(), replies());
    let run = scene.run(&["-p", "look"]);
    assert_eq!((run.stdout.as_str(), run.code), ("done\n", Some(0)));
    assert!(run.stderr.lines().any(|line| line.starts_with("scout: FindFiles")), "{}", run.stderr);
    scene.server.push(replies());
    let run = scene.run(&["-p", "look", "-o", "stream-json", "--output-dialect", "gemini-cli"]);
    let types: Vec<String> =
        lines(&run.stdout).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect();
    assert_eq!(types, ["init", "message", "tool_use", "tool_result", "message", "result"]);
    assert!(!run.stderr.contains("scout:"), "{}", run.stderr);
    scene.server.push(replies());
    let stats = parse(&scene.run(&["-p", "look", "-o", "json", "--output-dialect", "gemini-cli"]).stdout);
    let roles = &stats["stats"]["models"][MODEL]["roles"];
    assert_eq!(roles["subagent"]["totalRequests"], 2, "{roles}");
    assert_eq!(stats["stats"]["tools"]["totalCalls"], 3, "{}", stats["stats"]["tools"]);
}

#[test]
fn one_that_never_ends_leaves_its_findings_and_the_run_goes_on() {
    let look = |n: u32| {
        reply().text(&format!("Room {n} is empty. ")).call("glob", json!({"pattern": format!("{n}*")}))
    };
    let replies =
        [ask("scout", "x"), look(1), look(2), reply().text("I am not done."), reply().text("So be it.")];
    let scene = Scene::with(with_scout(), replies);
    let run = scene.run(&["-p", "look"]);
    assert_eq!((run.stdout.as_str(), run.code), ("So be it.\n", Some(0)), "{}", run.stderr);
    assert_eq!(scene.server.request(3).tool_names(), ["complete_task"], "one last turn");
    let told = told(&scene, 4);
    assert!(
        told.contains("Termination Reason: MAX_TURNS\nResult:\nAgent reached max turns limit (2)."),
        "{told}"
    );
    for found in ["Room 1 is empty.", "Room 2 is empty.", "I am not done."] {
        assert!(told.contains(found), "{told}");
    }
}

#[test]
fn one_out_of_time_hands_over_in_its_last_turn() {
    let home = TestHome::new()
        .home_file(".gemini/agents/slow.md", "---\nname: slow\ndescription: d\ntimeout_mins: 0.02\n---\nx\n");
    let scene =
        Scene::with(home, [ask("slow", "x"), Reply::never(), done("half of it"), reply().text("fine")]);
    let run = scene.run(&["-p", "look"]);
    assert_eq!((run.stdout.as_str(), run.code), ("fine\n", Some(0)), "{}", run.stderr);
    assert!(told(&scene, 3).ends_with("Termination Reason: GOAL\nResult:\nhalf of it"));
    assert!(run.stderr.contains("slow: failed: Agent timed out after"), "{}", run.stderr);
}

#[test]
fn a_signal_while_an_agent_works_ends_the_run_and_is_recorded() {
    let scene = Scene::with(with_scout(), [ask("scout", "x"), Reply::never()]);
    let running = scene.prompt(&["-p", "look", "-o", "stream-json"]).spawn();
    until("the agent asks", || scene.server.requests().len() == 2);
    running.signal("INT");
    let run = running.wait();
    assert_eq!(run.code, Some(130), "{}", run.stderr);
    let call = scene.session()["messages"][1]["toolCalls"][0].clone();
    assert_eq!(call["status"], "cancelled", "{call}");
}

#[test]
fn an_agent_of_the_project_is_absent_until_somebody_agrees_and_again_when_it_changes() {
    let home = TestHome::new().file(".gemini/agents/scout.md", SCOUT);
    let scene = Scene::with(home, [ask("scout", "x"), reply().text("a")]);
    scene.run(&["-p", "look"]);
    assert!(told(&scene, 1).starts_with("Subagent 'scout' not found."), "{}", told(&scene, 1));
    let agents = |args: &[&str]| scene.prepare(&[&["agents"], args].concat()).run();
    let listed = agents(&["list"]);
    assert!(listed.stdout.contains("scout [Needs agreement] [project]"), "{}", listed.stdout);
    let run = agents(&["acknowledge", "scout"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let file = scene.home.gemini_dir().join("acknowledgments/agents.json");
    let table: Value = parse(&fs::read_to_string(file).unwrap());
    let root = fs::canonicalize(scene.home.project()).unwrap();
    let hash = table[root.to_str().unwrap()]["scout"].as_str().unwrap();
    assert_eq!(hash.len(), 64);
    scene.server.push([ask("scout", "x"), done("here"), reply().text("b")]);
    scene.run(&["-p", "look"]);
    assert!(told(&scene, 4).ends_with("Result:\nhere"), "{}", told(&scene, 4));
    fs::write(scene.home.project().join(".gemini/agents/scout.md"), SCOUT.replace("scout for", "spy for"))
        .unwrap();
    assert!(agents(&["list"]).stdout.contains("scout [Needs agreement]"));
    let untrusted = Scene::untrusted(TestHome::new().file(".gemini/agents/scout.md", SCOUT), []);
    let run = untrusted.prepare(&["agents", "list"]).run();
    assert!(!run.stdout.contains("scout"), "{}", run.stdout);
    assert!(run.stderr.contains("not trusted"), "{}", run.stderr);
}

#[test]
fn a_person_is_asked_about_agents_of_the_project() {
    let home = TestHome::new().file(".gemini/agents/scout.md", SCOUT);
    let scene = Scene::with(home, [ask("scout", "x"), done("seen"), reply().text("ready")]);
    let mut terminal = scene.prepare(&["-m", MODEL, "-i", "look"]).on_terminal();
    terminal
        .expect("* scout: looks around")
        .expect("1. Yes")
        .expect("Answer")
        .say("1")
        .expect("ready")
        .expect("User: ");
    terminal.say("/agents").expect("scout [Enabled] [project]").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    assert!(told(&scene, 2).ends_with("Result:\nseen"));
}

#[test]
fn agents_are_listed_shown_and_switched() {
    let home = with_scout().home_file(".gemini/agents/bad.md", "---\nname: bad\ncolour: red\n---\n");
    let scene = Scene::with(home, [ask("generalist", "x"), reply().text("ok")]);
    let agents = |args: &[&str]| scene.prepare(&[&["agents"], args].concat()).run();
    let run = agents(&["list"]);
    assert!(
        run.stdout.starts_with("Local agents:\n\ncodebase_investigator [Enabled] [Built-in]\n"),
        "{}",
        run.stdout
    );
    assert!(
        run.stderr.contains("Failed to load agent from ") && run.stderr.contains("unknown field `colour`"),
        "{}",
        run.stderr
    );
    let run = agents(&["show", "scout"]);
    assert!(
        run.stdout.contains("Tools:       read_file, glob\n") && run.stdout.contains("You are a scout"),
        "{}",
        run.stdout
    );
    let json = parse(&agents(&["show", "cli-help", "--json"]).stdout);
    assert_eq!((&json["name"], &json["maxTurns"]), (&json!("cli_help"), &json!(10)));
    let run = agents(&["disable", "generalist"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let settings = parse(&fs::read_to_string(scene.home.gemini_dir().join("settings.json")).unwrap());
    assert_eq!(settings["agents"]["overrides"]["generalist"]["enabled"], false);
    assert_eq!(agents(&["disable", "generalist"]).stdout, "Agent \"generalist\" is already disabled.\n");
    scene.run(&["-p", "x"]);
    assert!(told(&scene, 1).starts_with("Subagent 'generalist' not found."));
    assert!(agents(&["enable", "generalist"]).stdout.contains("enabled in"));
    let run = agents(&["show", "scuot"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("did you mean `scout`?"), "{}", run.stderr);
    assert_eq!(scene.prepare(&["agents"]).run().code, Some(1));
}

#[test]
fn a_prompt_can_name_an_agent_and_an_agent_elsewhere_is_never_asked_unasked() {
    let home = with_scout().home_file(
        ".gemini/agents/far.md",
        "---\nkind: remote\nname: far\ndescription: elsewhere\nagent_card_url: http://127.0.0.1:9/card\n---\n",
    );
    let scene = Scene::with(home, [ask("far", "x"), reply().text("ok")]);
    scene.run(&["-p", "@scout look at this"]);
    let texts = scene.server.request(0).last_texts().join("|");
    assert!(
        texts.contains("@scout look at this") && texts.contains("selected the following agent(s): scout."),
        "{texts}"
    );
    assert!(told(&scene, 1).contains("requires user confirmation"), "{}", told(&scene, 1));
}

#[test]
fn with_agents_switched_off_there_is_no_tool_for_them() {
    let home = with_scout().settings(json!({"experimental": {"enableAgents": false}}));
    let scene = Scene::with(home, [reply().text("ok")]);
    scene.run(&["-p", "x"]);
    assert!(!scene.server.request(0).tool_names().contains(&"invoke_agent".to_owned()));
    let none: Vec<_> = all_files(&scene.home.gemini_dir())
        .into_iter()
        .filter(|path| path.ends_with("agents.json"))
        .collect();
    assert!(none.is_empty(), "{none:?}");
}

#[test]
fn hooks_on_calls_run_for_agents_too_and_hooks_on_prompts_do_not() {
    let keep =
        |event: &str| json!([{"hooks": [{"type": "command", "command": format!("cat >> {event}.txt")}]}]);
    let hooks = json!({"hooks": {"BeforeTool": keep("tools"), "BeforeAgent": keep("prompts"), "BeforeModel": keep("models")}});
    let replies = [
        ask("scout", "x"),
        reply().call("read_file", json!({"file_path": "map.txt"})),
        done("ok"),
        reply().text("done"),
    ];
    let scene = Scene::with(with_scout().settings(hooks).file("map.txt", "a keep\n"), replies);
    let run = scene.run(&["-p", "look"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let tools = scene.home.read("tools.txt");
    for name in ["invoke_agent", "read_file", "complete_task"] {
        assert!(tools.contains(&format!("\"tool_name\":\"{name}\"")), "{name} in {tools}");
    }
    assert_eq!(scene.home.read("prompts.txt").matches("\"hook_event_name\":\"BeforeAgent\"").count(), 1);
    assert_eq!(scene.home.read("models.txt").matches("\"hook_event_name\":\"BeforeModel\"").count(), 4);
}

/// An agent with an MCP server of its own.
fn with_server(home: TestHome, entry: &Value) -> TestHome {
    let text = format!(
        "---\nname: scout\ndescription: looks around\ntools: [glob]\nmcp_servers: {{\"db\": {entry}}}\n---\nx\n"
    );
    home.home_file(".gemini/agents/scout.md", &text)
}

#[test]
fn an_agent_brings_servers_that_nobody_else_sees() {
    let mut entry = server_entry("plain");
    entry["trust"] = json!(true);
    entry["env"]["SCOUTS_OWN"] = json!("$HUSH");
    entry["exclude_tools"] = json!(["fail"]);
    let replies = [
        ask("scout", "look"),
        reply().call("mcp_db_echo", json!({"text": "hi"})).call("mcp_db_env", json!({})),
        done("seen"),
        reply().text("fine"),
    ];
    let home = TestHome::new().settings(json!({"mcp": {"firstRequestWaitMs": 60_000}}));
    let scene = Scene::with(with_server(home, &entry), replies);
    let run = scene.prepare(&["-p", "x"]).env("HUSH", "tops3cret").run();
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "fine\n"), "{}", run.stderr);
    let names = |request: usize| scene.server.request(request).tool_names();
    let has = |request: usize, name: &str| names(request).contains(&name.to_owned());
    assert!(has(1, "mcp_db_echo") && has(1, "glob") && has(1, "complete_task"), "{:?}", names(1));
    assert!(!has(1, "mcp_db_fail") && !has(1, "read_file"), "{:?}", names(1));
    assert!(!has(0, "mcp_db_echo") && !has(3, "mcp_db_echo"), "the main agent has nothing of it");
    let answers = scene.server.request(2).function_responses();
    assert!(answers[0].to_string().contains("untrusted_context"), "{}", answers[0]);
    assert!(answers[1].to_string().contains("SCOUTS_OWN"), "{}", answers[1]);
    let context = scene.server.request(1).contents()[0].to_string();
    assert!(context.contains("instructions provided by the tool server 'db'"), "{context}");
    let shown = scene.run(&["agents", "show", "scout"]);
    assert!(shown.stdout.contains("MCP servers: db: "), "{}", shown.stdout);
}

#[test]
fn servers_of_agents_are_judged_like_others() {
    let evil = json!({"command": "sh", "args": ["-c", "touch started; cat"], "trust": true});
    let replies = || [ask("scout", "look"), done("seen"), reply().text("fine")];
    let untrusted = Scene::untrusted(with_server(TestHome::new(), &evil), replies());
    let taken = TestHome::new().settings(json!({"mcpServers": {"DB": server_entry("plain")}}));
    let taken = Scene::with(with_server(taken, &evil), replies());
    let excluded = TestHome::new().settings(json!({"mcp": {"excluded": ["db"]}}));
    let excluded = Scene::with(with_server(excluded, &evil), replies());
    for (scene, why) in [
        (untrusted, "this folder is not trusted"),
        (taken, "a configured server has the same name and takes precedence"),
        (excluded, "is blocked by mcp.excluded"),
    ] {
        let run = scene.run(&["-p", "x"]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let told =
            run.stderr.contains("MCP server 'db' of agent 'scout' is not used") && run.stderr.contains(why);
        assert!(told, "{}", run.stderr);
        assert!(!scene.home.project().join("started").exists());
    }
    // A server that nobody vouches for has no tools where nobody can be asked.
    let scene = Scene::with(with_server(TestHome::new(), &server_entry("plain")), replies());
    assert_eq!(scene.run(&["-p", "x"]).code, Some(0));
    assert!(!scene.server.request(1).tool_names().contains(&"mcp_db_echo".to_owned()));
}
