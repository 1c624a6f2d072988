//! Sub-agents: how each of them ends, what the one who asked learns, and what stays shared.

#![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_agent::{AgentPort, OwnServers, StartedServers};
use pollux_domain::BoxFuture;
use pollux_domain::approval::{ApprovalAnswer, ApprovalMode, Person};
use pollux_domain::event::{ActivityKind, CallOutcome, Event, Op, TurnEnd};
use pollux_domain::model::{Dialect, ModelError, ModelErrorKind, RequestRole};
use pollux_domain::remote_agent::{RemoteAgent, RemoteError};
use pollux_domain::tool::{Display, Effect, RunFailure, Tool, ToolKind, ToolOutcome, ToolSource};
use pollux_extend::agents::{Registry, Sources};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::scene::{Line, Options, Scene, breaks, calls, echo, says, tool};

const SCOUT: &str = "---\nname: scout\ndescription: looks around\nmax_turns: 3\ntimeout_mins: 5\ntemperature: 0.3\n\
                     ---\nYou are a scout. Task: ${query}\n";

/// Agents from files with these texts.
fn agents(options: &mut Options, files: &[&str]) {
    let folder = options.dir.path().join("agents");
    std::fs::create_dir_all(&folder).unwrap();
    for (n, text) in files.iter().enumerate() {
        std::fs::write(folder.join(format!("{n}.md")), text).unwrap();
    }
    let registry = Registry::load(&Sources { user: folder, ..Sources::default() });
    assert_eq!(registry.problems(), &[] as &[String]);
    options.agents = Some(AgentPort {
        registry: Arc::new(registry),
        remote: BTreeMap::new(),
        servers: BTreeMap::new(),
        about: BTreeMap::new(),
        version: "1.2.3".into(),
        project_hash: "abc".into(),
    });
}

fn scene(files: &[&str], lines: Vec<Line>) -> Scene {
    let mut options = Options { lines, ..Options::default() };
    agents(&mut options, files);
    Scene::with(options)
}

fn ask(agent: &str, prompt: &str) -> (&'static str, Value) {
    ("invoke_agent", json!({"agent_name": agent, "prompt": prompt}))
}

fn done(result: &str) -> Line {
    calls(&[("complete_task", json!({"result": result}))])
}

fn look(n: u64) -> Line {
    calls(&[("echo", json!({"n": n}))])
}

impl Scene {
    /// What the parent was told, in the request behind the given number of others.
    fn told(&self, request: usize) -> String {
        let answers = self.answers(request);
        let answer = answers.first().expect("no answer");
        answer["output"].as_str().or(answer["error"].as_str()).unwrap().to_owned()
    }

    fn activities(&self) -> Vec<(&'static str, String)> {
        self.events
            .iter()
            .filter_map(|event| match event {
                Event::Activity(activity) => Some((activity.what.as_str(), activity.what.data().to_string())),
                _ => None,
            })
            .collect()
    }

    fn subagent_files(&self) -> Vec<PathBuf> {
        let folder = self.dir.path().join("chats/11111111-2222-3333-4444-555555555555");
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
        files
    }
}

#[tokio::test]
async fn an_agent_reaches_its_goal_and_reports_to_the_caller() {
    let lines = vec![
        calls(&[ask("scout", "find the door")]),
        look(1),
        done("the door is in main.rs"),
        says("It is in main.rs."),
    ];
    let mut scene = scene(&[SCOUT], lines);
    assert!(matches!(scene.prompt("where is the door?").await, TurnEnd::Finished(Some(_))));
    assert_eq!(scene.shown(), "It is in main.rs.", "what an agent says is not shown");
    assert_eq!(
        scene.told(3),
        "Subagent 'scout' finished.\nTermination Reason: GOAL\nResult:\nthe door is in main.rs"
    );
    {
        let requests = scene.model.requests.lock().unwrap();
        let names = |n: usize| requests[n].tools.iter().map(|spec| spec.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(0), ["echo", "invoke_agent"].map(String::from));
        assert_eq!(names(1), ["echo", "complete_task"].map(String::from), "no agents, and the end last");
        assert_eq!((requests[0].role, requests[1].role), (RequestRole::Main, RequestRole::Subagent));
        assert_eq!(requests[1].settings.words_of(&Dialect::GEMINI).unwrap()["temperature"], 0.3);
        let system = requests[1].system.as_deref().unwrap();
        assert!(system.starts_with("You are a scout. Task: find the door"), "{system}");
        assert!(system.contains("`complete_task`"));
        let main = requests[0].system.as_deref().unwrap();
        assert!(main.contains("- `scout`: looks around") && main.contains("- `codebase_investigator`:"));
        assert_eq!(requests[1].contents.last().unwrap().text(), "find the door");
    }
    let files = scene.subagent_files();
    let [file] = files.as_slice() else { panic!("{files:?}") };
    let record = std::fs::read_to_string(file).unwrap();
    assert!(record.contains("\"kind\":\"subagent\"") && record.contains("find the door"), "{record}");
    assert!(record.contains("\"summary\":\"the door is in main.rs\""), "{record}");
    let calls = scene.recorded();
    let call = &calls["messages"][1]["toolCalls"][0];
    assert_eq!(call["agentId"], json!(file.file_stem().unwrap().to_string_lossy()));
    assert_eq!(call["resultDisplay"]["terminateReason"], "GOAL");
    let kinds: Vec<&str> = scene.activities().iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, ["TOOL_CALL_START", "TOOL_CALL_END", "TOOL_CALL_START", "TOOL_CALL_END"]);
}

#[tokio::test]
async fn words_without_the_last_call_lead_to_a_last_turn() {
    let lines = vec![calls(&[ask("scout", "look")]), says("I found it."), done("found"), says("ok")];
    let mut scene = scene(&[SCOUT], lines);
    assert!(matches!(scene.prompt("go").await, TurnEnd::Finished(_)));
    assert!(scene.told(3).ends_with("Termination Reason: GOAL\nResult:\nfound"));
    let requests = scene.model.requests.lock().unwrap();
    assert!(requests[2].contents.last().unwrap().text().contains("one last turn"));
    let names: Vec<&str> = requests[2].tools.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["complete_task"]);
}

#[tokio::test]
async fn one_that_never_completes_ends_at_its_turns_with_what_it_found() {
    let mut said = calls(&[("echo", json!({"n": 1}))]);
    said.insert(0, says("The cellar is empty.").remove(0));
    let lines = vec![
        calls(&[ask("scout", "look")]),
        said,
        look(2),
        look(3),
        says("I would like to go on."),
        says("Then not."),
    ];
    let mut scene = scene(&[SCOUT], lines);
    assert!(matches!(scene.prompt("go").await, TurnEnd::Finished(_)), "the parent goes on");
    assert_eq!(scene.request_count(), 6, "three turns, the last one, and the parent's two");
    let told = scene.told(5);
    assert!(
        told.starts_with("Subagent 'scout' finished.\nTermination Reason: MAX_TURNS\nResult:\nAgent reached max turns limit (3)."),
        "{told}"
    );
    assert!(
        told.contains("Partial findings:\nThe cellar is empty.") && told.contains("I would like to go on."),
        "{told}"
    );
}

#[tokio::test(start_paused = true)]
async fn one_that_is_silent_ends_at_its_time_and_its_last_turn_too() {
    let mut options = Options { lines: vec![calls(&[ask("scout", "look")])], ..Options::default() };
    agents(&mut options, &[SCOUT]);
    let mut scene = Scene::with(options);
    let began = tokio::time::Instant::now();
    scene.send("go").await;
    let report = scene.until(|event| matches!(event, Event::CallFinished(_))).await;
    let Event::CallFinished(report) = report else { panic!() };
    let lasted = began.elapsed();
    assert!(lasted >= Duration::from_secs(360) && lasted < Duration::from_secs(361), "{lasted:?}");
    let failure = RunFailure::Agent { agent: "scout".into(), reason: "TIMEOUT".into() };
    assert_eq!(report.outcome.run_failure(), Some(&failure));
    assert_eq!(
        report.answer,
        "Subagent 'scout' finished.\nTermination Reason: TIMEOUT\nResult:\nAgent timed out after 5 minutes."
    );
    scene.until(|event| matches!(event, Event::RequestSent(sent) if sent.role == RequestRole::Main)).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_goes_round_in_circles_is_stopped_with_what_it_found() {
    let text = SCOUT.replace("max_turns: 3", "max_turns: 50");
    let mut first = look(1);
    first.insert(0, says("The tower is locked.").remove(0));
    let mut lines = vec![calls(&[ask("scout", "look")]), first];
    lines.extend((0..6).map(|_| look(1)));
    let mut scene = scene(&[&text], lines);
    scene.send("go").await;
    let Event::CallFinished(report) = scene.until(|event| matches!(event, Event::CallFinished(_))).await
    else {
        panic!()
    };
    assert!(report.answer.contains("Termination Reason: ERROR\nResult:\nLoop detected"), "{}", report.answer);
    assert!(report.answer.contains("Partial findings:\nThe tower is locked."), "{}", report.answer);
    assert!(scene.request_count() < 10, "{}", scene.request_count());
    let about_the_turn = |event: &Event| matches!(event, Event::Notice { .. } | Event::TurnEnded(_));
    assert!(!scene.events.iter().any(about_the_turn), "the turn of the parent is no loop");
    scene.until(|event| matches!(event, Event::RequestSent(sent) if sent.role == RequestRole::Main)).await;
}

#[tokio::test]
async fn an_invalid_result_is_sent_back_and_the_same_one_twice_ends_the_work() {
    let text = "---\nname: scout\ndescription: d\noutput: {name: report, schema: {type: object, required: [where], \
                properties: {where: {type: string}}}}\n---\nx\n";
    let wrong = || calls(&[("complete_task", json!({"report": {"place": "attic"}}))]);
    let lines = vec![
        calls(&[ask("scout", "one")]),
        wrong(),
        calls(&[("complete_task", json!({"report": "{\"where\": \"cellar\"}"}))]),
        calls(&[ask("scout", "two")]),
        calls(&[("complete_task", json!({}))]),
        wrong(),
        wrong(),
        says("ok"),
    ];
    let mut scene = scene(&[text], lines);
    assert!(matches!(scene.prompt("go").await, TurnEnd::Finished(_)));
    assert_eq!(scene.told(2), "Output validation failed: params/report must have required property 'where'");
    assert!(scene.told(3).ends_with("Termination Reason: GOAL\nResult:\n{\n  \"where\": \"cellar\"\n}"));
    assert_eq!(scene.told(5), "Missing required argument 'report' for completion.");
    let told = scene.told(7);
    assert!(
        told.contains("Termination Reason: ERROR\n") && told.contains("invalid result 3 times"),
        "{told}"
    );
    assert!(told.contains("attic"), "what it handed over is not lost: {told}");
    assert_eq!(scene.request_count(), 8, "nothing is asked a fourth time");
}

#[tokio::test]
async fn a_result_that_may_not_be_submitted_is_not_called_invalid() {
    for (rule, why) in [
        (
            "argsPattern = \"attic\"\ndenyMessage = \"Not the attic.\"",
            "Tool execution denied by policy. Not the attic.",
        ),
        (
            "",
            "Tool \"complete_task\" is not available: settings, a policy rule or the approval mode exclude it.",
        ),
    ] {
        let lines = vec![calls(&[ask("scout", "look")]), done("the attic"), done("the attic"), says("ok")];
        let mut options = Options { lines, ..Options::default() };
        let policy = options.dir.path().join("policy.toml");
        let rule =
            format!("[[rule]]\ntoolName = \"complete_task\"\ndecision = \"deny\"\npriority = 999\n{rule}\n");
        std::fs::write(&policy, rule).unwrap();
        options.policy = Some(policy);
        agents(&mut options, &[SCOUT]);
        let mut scene = Scene::with(options);
        assert!(matches!(scene.prompt("go").await, TurnEnd::Finished(_)));
        assert_eq!(
            scene.told(3),
            format!(
                "Subagent 'scout' finished.\nTermination Reason: ERROR\nResult:\nThe agent could not submit its \
                 result; `complete_task` was refused: {why}\n\nPartial findings:\nSubmitted, but not \
                 allowed:\nthe attic"
            )
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_the_time_limit_ends_is_not_blamed_on_the_user() {
    let wait = tool("wait", ToolKind::Read, Effect::Read(vec![]), |_, context| {
        Box::pin(async move {
            context.cancel.cancelled().await;
            ToolOutcome::Cancelled { partial: None }
        })
    });
    let lines = vec![calls(&[ask("scout", "look")]), calls(&[("wait", json!({}))]), done("late"), says("ok")];
    let mut options = Options { lines, tools: vec![wait], ..Options::default() };
    agents(&mut options, &[&SCOUT.replace("timeout_mins: 5", "timeout_mins: 1")]);
    let mut scene = Scene::with(options);
    scene.prompt("go").await;
    assert_eq!(
        scene.all_answers(2)[0]["error"],
        "[Operation Cancelled] The agent's time limit was reached; the user did not cancel tool execution."
    );
    let reported =
        |(kind, data): &(&str, String)| *kind == "ERROR" && data.contains("timed out after 1 minute.");
    assert!(scene.activities().iter().any(reported), "{:?}", scene.activities());
    assert!(scene.told(3).ends_with("Termination Reason: GOAL\nResult:\nlate"), "{}", scene.told(3));
}

#[tokio::test]
async fn examples_of_its_prompt_are_not_what_it_found() {
    let text = SCOUT.replace(
        "max_turns: 3",
        "max_turns: 1\ninitial_messages: [{role: user, text: Where is the key?}, {role: model, text: Under the mat.}]",
    );
    let error = || ModelError::new(ModelErrorKind::QuotaExhausted, Some(429), "no more today");
    let mut said = look(1);
    said.insert(0, says("The cellar is empty.").remove(0));
    let lines = vec![
        calls(&[ask("scout", "one")]),
        breaks(vec![], error()),
        calls(&[ask("scout", "two")]),
        said,
        breaks(vec![], error()),
        says("ok"),
    ];
    let mut scene = scene(&[&text], lines);
    scene.prompt("go").await;
    assert_eq!(scene.told(2), "Subagent 'scout' failed. Error: no more today");
    assert!(
        scene.told(5).ends_with("limit (1).\n\nPartial findings:\nThe cellar is empty."),
        "{}",
        scene.told(5)
    );
}

#[tokio::test]
async fn an_agent_whose_only_input_is_a_number_or_a_list_can_be_called() {
    let count = "---\nname: count\ndescription: d\ninputs: {n: {type: integer, required: true}}\n---\nCount to ${n}.\n";
    let names = "---\nname: names\ndescription: d\ninputs: {all: {type: 'string[]'}}\n---\nGreet ${all}.\n";
    let lines = vec![
        calls(&[ask("count", "7")]),
        done("counted"),
        calls(&[ask("names", "Ada")]),
        done("greeted"),
        calls(&[ask("count", "seven")]),
        says("ok"),
    ];
    let mut scene = scene(&[count, names], lines);
    scene.prompt("go").await;
    assert!(scene.told(2).ends_with("Result:\ncounted"), "{}", scene.told(2));
    assert!(scene.told(4).ends_with("Result:\ngreeted"), "{}", scene.told(4));
    let told = scene.told(5);
    assert!(
        told.contains("the prompt does not match the agent's inputs (params/n must be integer)"),
        "{told}"
    );
    let requests = scene.model.requests.lock().unwrap();
    assert!(requests[1].system.as_deref().unwrap().starts_with("Count to 7."));
    assert!(requests[3].system.as_deref().unwrap().starts_with("Greet [\"Ada\"]."));
}

#[tokio::test]
async fn a_cancel_reaches_the_agent_and_its_call_ends_as_cancelled() {
    let lines = vec![calls(&[ask("scout", "look")]), {
        let mut line = says("Half of it.");
        line.truncate(1);
        line.push(calls(&[("wait", json!({}))]).remove(0));
        line
    }];
    let waiting = tool("wait", ToolKind::Read, Effect::Read(vec![]), |_, context| {
        Box::pin(async move {
            context.cancel.cancelled().await;
            ToolOutcome::Cancelled { partial: None }
        })
    });
    let mut options = Options { lines, tools: vec![waiting], ..Options::default() };
    agents(&mut options, &[SCOUT]);
    let mut scene = Scene::with(options);
    scene.send("go").await;
    scene
        .until(|event| matches!(event, Event::Activity(a) if matches!(&a.what, ActivityKind::CallStarted { name, .. } if name == "wait")))
        .await;
    scene.handle.ops.send(Op::Cancel).await.unwrap();
    assert!(matches!(scene.end().await, TurnEnd::Cancelled));
    let report = scene.events.iter().find_map(|event| match event {
        Event::CallFinished(report) => Some(report),
        _ => None,
    });
    assert_eq!(report.unwrap().outcome, CallOutcome::Cancelled);
    assert!(report.unwrap().answer.contains("Half of it."), "its findings stay in the conversation");
    assert_eq!(scene.request_count(), 2, "no last turn for what was cancelled");
    // The conversation goes on.
    scene.send("again").await;
    scene.until(|event| matches!(event, Event::RequestSent(_))).await;
}

#[tokio::test]
async fn a_tool_that_was_not_granted_is_answered_and_the_agent_continues() {
    let text = SCOUT.replace("max_turns", "tools: [read_file]\nmax_turns");
    let lines = vec![
        calls(&[ask("scout", "look")]),
        look(1),
        calls(&[ask("scout", "nest")]),
        done("all I could"),
        says("ok"),
    ];
    let mut scene = scene(&[&text], lines);
    scene.prompt("go").await;
    assert_eq!(scene.told(2), "Unauthorized tool call: 'echo' is not available to this agent.");
    assert_eq!(scene.told(3), "Unauthorized tool call: 'invoke_agent' is not available to this agent.");
    assert!(scene.told(4).ends_with("Result:\nall I could"));
    let warned = scene.events.iter().any(
        |event| matches!(event, Event::Notice { message, .. } if message == "scout: unknown tools: read_file"),
    );
    assert!(warned, "a name that fits nothing is said");
}

#[tokio::test]
async fn several_in_one_reply_work_at_the_same_time() {
    let meeting = Arc::new(tokio::sync::Barrier::new(2));
    let meet = tool("meet", ToolKind::Edit, Effect::None, move |_, _| {
        let meeting = Arc::clone(&meeting);
        Box::pin(async move {
            meeting.wait().await;
            ToolOutcome::text("met", Display::Nothing)
        })
    });
    let lines = vec![
        calls(&[ask("scout", "left"), ask("scout", "right")]),
        calls(&[("meet", json!({}))]),
        calls(&[("meet", json!({}))]),
        done("one"),
        done("other"),
        says("both"),
    ];
    let mut options = Options { lines, tools: vec![meet], ..Options::default() };
    agents(&mut options, &[SCOUT]);
    let mut scene = Scene::with(options);
    let turn = tokio::time::timeout(Duration::from_secs(60), scene.prompt("go")).await;
    assert!(matches!(turn.expect("they wait for each other"), TurnEnd::Finished(_)));
    assert_eq!(scene.answers(5).len(), 2);
    assert_eq!(scene.subagent_files().len(), 2);
}

#[tokio::test]
async fn a_rule_for_one_agent_applies_only_to_that_agent() {
    let mut options = Options {
        lines: vec![look(1), calls(&[ask("scout", "look")]), look(2), done("could not"), says("ok")],
        ..Options::default()
    };
    let policy = options.dir.path().join("policy.toml");
    std::fs::write(
        &policy,
        "[[rule]]\ntoolName = \"echo\"\nsubagent = \"scout\"\ndecision = \"deny\"\npriority = 999\n\
         denyMessage = \"Not for scouts.\"\n",
    )
    .unwrap();
    options.policy = Some(policy);
    options.approval = ApprovalMode::Default;
    options.interactive = true;
    agents(&mut options, &[SCOUT]);
    let mut scene = Scene::with(options);
    scene.send("go").await;
    let Event::ApprovalWanted(request) = scene.until(|event| matches!(event, Event::ApprovalWanted(_))).await
    else {
        panic!()
    };
    scene
        .handle
        .ops
        .send(Op::Decide { call: request.call.clone(), answer: ApprovalAnswer::Once })
        .await
        .unwrap();
    scene.end().await;
    assert_eq!(scene.told(1), "echo {\"n\":1}", "the main agent may");
    assert!(scene.told(3).contains("a policy rule or the approval mode exclude it"), "{}", scene.told(3));
}

#[tokio::test(start_paused = true)]
async fn time_does_not_run_while_a_person_is_asked() {
    let mut options = Options {
        lines: vec![calls(&[ask("scout", "look")]), look(1), done("allowed"), says("ok")],
        approval: ApprovalMode::Default,
        interactive: true,
        ..Options::default()
    };
    agents(&mut options, &[SCOUT]);
    let mut scene = Scene::with(options);
    scene.send("go").await;
    let Event::ApprovalWanted(request) = scene.until(|event| matches!(event, Event::ApprovalWanted(_))).await
    else {
        panic!()
    };
    assert_eq!(request.display_name, "ECHO (for scout)");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    scene
        .handle
        .ops
        .send(Op::Decide { call: request.call.clone(), answer: ApprovalAnswer::Once })
        .await
        .unwrap();
    scene.end().await;
    assert!(scene.told(3).ends_with("Result:\nallowed"), "{}", scene.told(3));
}

#[tokio::test]
async fn a_person_who_stops_an_agent_stops_the_turn() {
    let mut options = Options {
        lines: vec![calls(&[ask("scout", "look")]), look(1)],
        approval: ApprovalMode::Default,
        interactive: true,
        ..Options::default()
    };
    agents(&mut options, &[SCOUT]);
    let mut scene = Scene::with(options);
    scene.send("go").await;
    let Event::ApprovalWanted(request) = scene.until(|event| matches!(event, Event::ApprovalWanted(_))).await
    else {
        panic!()
    };
    scene
        .handle
        .ops
        .send(Op::Decide { call: request.call.clone(), answer: ApprovalAnswer::Cancel })
        .await
        .unwrap();
    assert!(matches!(scene.end().await, TurnEnd::Cancelled));
    assert_eq!(scene.request_count(), 2);
}

#[tokio::test]
async fn a_failing_model_is_reported_and_the_parent_continues() {
    let error = ModelError::new(ModelErrorKind::QuotaExhausted, Some(429), "no more today");
    let lines = vec![calls(&[ask("scout", "look")]), breaks(vec![], error), says("ok")];
    let mut scene = scene(&[SCOUT], lines);
    assert!(matches!(scene.prompt("go").await, TurnEnd::Finished(_)));
    assert_eq!(scene.told(2), "Subagent 'scout' failed. Error: no more today");
}

#[tokio::test]
async fn what_older_conversations_call_is_understood() {
    let lines = vec![
        calls(&[("delegate_to_agent", json!({"agent_name": "codebase-investigator", "objective": "why"}))]),
        calls(&[(
            "complete_task",
            json!({"report": {"SummaryOfFindings": "s", "ExplorationTrace": [], "RelevantLocations": []}}),
        )]),
        calls(&[("scout", json!({"query": "look"}))]),
        done("seen"),
        calls(&[ask("nobody", "x")]),
        says("ok"),
    ];
    let mut scene = scene(&[SCOUT], lines);
    scene.prompt("go").await;
    assert!(
        scene.told(2).starts_with("Subagent 'codebase_investigator' finished.\nTermination Reason: GOAL")
    );
    assert!(scene.told(4).ends_with("Result:\nseen"), "{}", scene.told(4));
    assert!(scene.told(5).starts_with("Subagent 'nobody' not found."));
    let requests = scene.model.requests.lock().unwrap();
    assert!(requests[1].contents.last().unwrap().text().contains("why"));
    assert_eq!(requests[3].contents.last().unwrap().text(), "look");
}

#[tokio::test]
async fn a_text_with_an_input_that_is_missing_is_an_error() {
    let text = "---\nname: scout\ndescription: d\n---\nGo to ${place}.\n";
    let mut scene = scene(&[text], vec![calls(&[ask("scout", "x")]), says("ok")]);
    scene.prompt("go").await;
    let told = scene.told(1);
    assert!(told.starts_with("Subagent 'scout' failed. Error: unknown input `${place}`"), "{told}");
}

/// Servers that note when they are started and ended.
#[derive(Default)]
struct Noted(Arc<Mutex<Vec<String>>>);

impl OwnServers for Noted {
    fn start<'a>(
        &'a self,
        person: Option<Arc<dyn Person>>,
        _cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, StartedServers> {
        self.0.lock().unwrap().push(format!("started, person: {}", person.is_some()));
        let notes = Arc::clone(&self.0);
        let end = async move { notes.lock().unwrap().push("ended".to_owned()) };
        let tools = Some(Arc::new(Offer) as Arc<dyn ToolSource>);
        Box::pin(async {
            StartedServers { tools, problems: vec!["one is dead".to_owned()], end: Box::pin(end) }
        })
    }
}

struct Offer;

impl ToolSource for Offer {
    fn version(&self) -> u64 {
        1
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        vec![tool("rows", ToolKind::Read, Effect::Read(vec![]), |_, _| {
            Box::pin(async { ToolOutcome::text("3 rows".to_owned(), Display::Nothing) })
        })]
    }

    fn context(&self) -> Option<String> {
        Some("about rows".to_owned())
    }

    fn settled<'a>(&'a self, _cancel: &'a CancellationToken) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}

#[tokio::test]
async fn servers_of_an_agent_live_as_long_as_its_work() {
    let lines = vec![
        calls(&[ask("scout", "x")]),
        calls(&[("rows", json!({}))]),
        says("I forgot to hand over"),
        done("late"),
        says("ok"),
    ];
    let mut options = Options { lines, ..Options::default() };
    agents(&mut options, &["---\nname: scout\ndescription: d\nmcp_servers: {db: {command: db}}\n---\nx\n"]);
    let noted = Noted::default();
    let notes = Arc::clone(&noted.0);
    options.agents.as_mut().unwrap().servers.insert("scout".into(), Arc::new(noted));
    let mut scene = Scene::with(options);
    scene.prompt("go").await;
    assert_eq!(*notes.lock().unwrap(), ["started, person: false", "ended"]);
    let requests = scene.model.requests.lock().unwrap();
    let names = |n: usize| requests[n].tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
    assert!(names(1).contains(&"rows".to_owned()), "{:?}", names(1));
    assert!(requests[1].contents[0].text().contains("about rows"));
    assert_eq!(names(3), ["complete_task"], "the last turn is for the result alone");
    assert!(!names(4).contains(&"rows".to_owned()));
}

struct Elsewhere;

impl RemoteAgent for Elsewhere {
    fn about(&self) -> BoxFuture<'_, Result<String, RemoteError>> {
        Box::pin(async { Ok(String::new()) })
    }

    fn call<'a>(
        &'a self,
        message: &'a str,
        live: &'a (dyn Fn(&str) + Send + Sync),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, RemoteError>> {
        Box::pin(async move {
            live("thinking");
            match message {
                "fail" => Err(RemoteError::Failed("status 500".into())),
                "hang" => {
                    cancel.cancelled().await;
                    Err(RemoteError::Cancelled)
                }
                other => Ok(format!("heard {other}")),
            }
        })
    }
}

#[tokio::test]
async fn an_agent_elsewhere_is_asked_through_its_port() {
    let text = "---\nkind: remote\nname: far\nagent_card_url: https://far.test/card\n---\n";
    let lines =
        vec![calls(&[ask("far", "hello")]), calls(&[ask("far", "fail")]), calls(&[ask("far", "hang")])];
    let mut options = Options { lines, tools: vec![echo()] as Vec<Arc<dyn Tool>>, ..Options::default() };
    agents(&mut options, &[text]);
    let port = options.agents.as_mut().unwrap();
    port.remote.insert("far".into(), Arc::new(Elsewhere));
    let mut scene = Scene::with(options);
    scene.send("go").await;
    scene.until(|event| matches!(event, Event::CallRequested(asked) if asked.args["prompt"] == "hang")).await;
    assert_eq!(scene.told(1), "<untrusted_context>\nheard hello\n</untrusted_context>");
    assert_eq!(scene.told(2), "Subagent 'far' failed. Error: status 500");
    scene.handle.ops.send(Op::Cancel).await.unwrap();
    assert!(matches!(scene.end().await, TurnEnd::Cancelled));
}
