//! Inputs and effects of hooks.

use pollux_hooks::{
    AfterAgent, AfterModel, AfterTool, BeforeAgent, BeforeModel, BeforeToolSelection, CallVerdict,
    CompressTrigger, EndReason, Event, LlmRequest, LlmResponse, Notification, PermissionDetails, PreCompress,
    SessionEnd, SessionStart, StartSource, ToolMode, Verdict, sample_input,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::scene::{World, call};

fn prints(event: &str, output: &Value) -> Value {
    json!({ event: [{"command": format!("cat >/dev/null; echo '{output}'")}] })
}

#[tokio::test]
async fn the_input_has_the_documented_form() {
    let world = World::new(&json!({"BeforeTool": [{"command": "cat > seen.json"}]}));
    // Events may be fired from any thread.
    fn moves<T: Send>(future: T) -> T {
        future
    }
    moves(world.fire(call())).await;
    let seen: Value = serde_json::from_str(&world.read("seen.json")).unwrap();
    let cwd = world.scene.cwd.display().to_string();
    assert_eq!(
        seen,
        json!({"session_id": "s1", "transcript_path": "/t/session.json", "cwd": cwd, "hook_event_name": "BeforeTool",
            "timestamp": "2026-01-27T12:00:00.000Z", "tool_name": "glob", "tool_input": {"pattern": "*"}})
    );
}

#[tokio::test]
async fn the_environment_has_the_documented_variables_and_no_secrets() {
    let hooks = json!({"BeforeTool": [
        {"command": "env -0 > env; pwd > pwd; echo $GEMINI_PROJECT_DIR > $CLAUDE_PROJECT_DIR/dir", "env": {"MODE": "strict"}},
    ]});
    let secrets = [("MY_API_KEY", "canary"), ("GITHUB_TOKEN", "canary"), ("PLAIN", "kept")];
    let world = World::with_env(&hooks, &secrets);
    let fired = world.fire(call()).await;
    assert_eq!(fired.warnings, Vec::<String>::new());
    let env = world.read("env");
    let cwd = world.scene.cwd.display().to_string();
    for line in [
        format!("GEMINI_PROJECT_DIR={cwd}"),
        format!("GEMINI_CWD={cwd}"),
        format!("CLAUDE_PROJECT_DIR={cwd}"),
        "GEMINI_SESSION_ID=s1".to_owned(),
        "GEMINI_PLANS_DIR=/plans".to_owned(),
        "MODE=strict".to_owned(),
        "PLAIN=kept".to_owned(),
    ] {
        assert!(env.split('\0').any(|known| known == line), "{line}");
    }
    assert!(!env.contains("canary"));
    assert_eq!((world.read("pwd").trim(), world.read("dir").trim()), (cwd.as_str(), cwd.as_str()));
}

#[tokio::test]
async fn no_descriptor_is_inherited() {
    // As a parent leaves one open.
    let left_open = std::fs::File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&left_open, rustix::io::FdFlags::empty()).unwrap();
    let world = World::new(&json!({"BeforeTool": [{"command": "ls /proc/$$/fd > fds"}]}));
    world.fire(call()).await;
    let fds = world.read("fds");
    let own: Vec<&str> = fds.lines().filter(|fd| !matches!(*fd, "0" | "1" | "2" | "255")).collect();
    assert_eq!(own, Vec::<&str>::new());
    drop(left_open);
}

#[tokio::test]
async fn every_event_has_its_effect() {
    let world = World::new(&prints(
        "SessionStart",
        &json!({"hookSpecificOutput": {"additionalContext": "c"}, "systemMessage": "m"}),
    ));
    let fired = world.fire(SessionStart { source: StartSource::Startup }).await;
    assert_eq!((fired.outcome.context.as_deref(), fired.system_message.as_deref()), (Some("c"), Some("m")));

    let world = World::new(&prints("SessionEnd", &json!({"systemMessage": "bye", "suppressOutput": true})));
    let fired = world.fire(SessionEnd { reason: EndReason::Exit }).await;
    assert!(fired.suppress_output && fired.system_message.as_deref() == Some("bye"));

    let world = World::new(&prints("BeforeAgent", &json!({"continue": false, "stopReason": "late"})));
    let fired = world.fire(BeforeAgent { prompt: "p".into() }).await;
    assert_eq!(fired.outcome.verdict, Verdict::Stop { reason: "late".into() });

    let output =
        json!({"decision": "block", "reason": "again", "hookSpecificOutput": {"clearContext": true}});
    let world = World::new(&prints("AfterAgent", &output));
    let done = AfterAgent { prompt: "p".into(), prompt_response: "r".into(), stop_hook_active: false };
    let outcome = world.fire(done).await.outcome;
    assert_eq!((outcome.verdict, outcome.clear_context), (Verdict::Block { reason: "again".into() }, true));

    let llm_request = LlmRequest { model: "m".into(), ..LlmRequest::default() };
    let output =
        json!({"hookSpecificOutput": {"llm_request": {"model": "n"}, "llm_response": {"text": "t"}}});
    let world = World::new(&prints("BeforeModel", &output));
    let outcome = world.fire(BeforeModel { llm_request: llm_request.clone() }).await.outcome;
    assert_eq!(outcome.request.unwrap().model.as_deref(), Some("n"));
    assert_eq!(outcome.response.unwrap().to_chunk().parts.len(), 1);

    let world = World::new(&prints("AfterModel", &output));
    let after = AfterModel { llm_request: llm_request.clone(), llm_response: LlmResponse::default() };
    assert!(world.fire(after).await.outcome.response.is_some());

    let output =
        json!({"hookSpecificOutput": {"toolConfig": {"mode": "ANY", "allowedFunctionNames": ["glob"]}}});
    let world = World::new(&prints("BeforeToolSelection", &output));
    let outcome = world.fire(BeforeToolSelection { llm_request }).await.outcome;
    assert_eq!(outcome.tool_config.unwrap().mode, ToolMode::Any);

    let tail = json!({"hookSpecificOutput": {"tailToolCallRequest": {"name": "ls", "args": {}}, "additionalContext": "c"}});
    let world = World::new(&prints("AfterTool", &tail));
    let outcome = world.fire(AfterTool { call: call(), ..AfterTool::default() }).await.outcome;
    assert_eq!((outcome.tail_call.unwrap().name.as_str(), outcome.context.as_deref()), ("ls", Some("c")));

    let world = World::new(&json!({"PreCompress": [{"matcher": "manual", "command": "echo hi"}]}));
    assert_eq!(
        world.fire(PreCompress { trigger: CompressTrigger::Manual }).await.system_message.as_deref(),
        Some("hi")
    );
    assert!(world.fire(PreCompress { trigger: CompressTrigger::Auto }).await.runs.is_empty());

    let world = World::new(&json!({"Notification": [{"command": "cat > n.json"}]}));
    let details = PermissionDetails::Exec { command: "x".into(), root_command: "x".into() };
    world.fire(Notification::tool_permission("T", details)).await;
    assert!(world.read("n.json").contains("\"message\":\"Tool T requires execution\""));
}

#[tokio::test]
async fn nothing_runs_for_events_without_hooks() {
    let world = World::new(&json!({"BeforeTool": [{"matcher": "write_file", "command": "touch ran"}]}));
    assert!(!world.hooks.listens_to(Event::AfterModel) && world.hooks.listens_to(Event::BeforeTool));
    assert!(world.fire(call()).await.runs.is_empty());
    assert!(world.fire(BeforeAgent { prompt: String::new() }).await.runs.is_empty());
    assert!(!world.scene.cwd.join("ran").exists());
}

#[tokio::test]
async fn parallel_hooks_are_joined_and_sequential_ones_chain_their_output() {
    // Each waits for a file of the other, so they only finish in parallel.
    let side_by_side = |mine: &str, other: &str| json!({"command": format!("touch {mine}; until [ -e {other} ]; do sleep 0.01; done; echo {mine}"), "timeout": 30000});
    let world = World::new(&json!({"BeforeTool": [side_by_side("a", "b"), side_by_side("b", "a")]}));
    assert_eq!(world.fire(call()).await.system_message.as_deref(), Some("a\nb"));

    let world = World::new(&json!({"BeforeAgent": [
        {"sequential": true, "command": "echo '{\"hookSpecificOutput\":{\"additionalContext\":\"one\"}}'"},
        {"command": "cat > second.json; exit 2"},
        {"command": "cat > third.json"},
    ]}));
    let fired = world.fire(BeforeAgent { prompt: "p".into() }).await;
    assert!(world.read("second.json").contains("\"prompt\":\"p\\n\\none\""));
    assert!(world.read("third.json").contains("\"prompt\":\"p\\n\\none\""));
    assert_eq!(fired.outcome.verdict, Verdict::Block { reason: "No reason provided".into() });
    assert_eq!(fired.outcome.context.as_deref(), Some("one"));
}

#[tokio::test]
async fn the_strictest_of_several_answers_wins() {
    let says = |word: &str| json!({"name": word, "command": format!("echo '{{\"decision\":\"{word}\",\"reason\":\"{word}\"}}'")});
    let world =
        World::new(&json!({"BeforeTool": [says("allow"), says("deny"), says("ask"), says("approve")]}));
    assert_eq!(world.fire(call()).await.outcome.verdict, CallVerdict::Block { reason: "deny".into() });
    let world = World::new(&json!({"BeforeTool": [says("ask"), says("allow")]}));
    assert_eq!(world.fire(call()).await.outcome.verdict, CallVerdict::Ask { message: Some("ask".into()) });
}

#[tokio::test]
async fn changed_arguments_are_judged_again_by_earlier_hooks() {
    let rewrite = "echo '{\"hookSpecificOutput\":{\"tool_input\":{\"pattern\":\"/etc/*\"}}}'";
    let guard = "grep -q /etc && { echo no >&2; exit 2; }; exit 0";
    for sequential in [false, true] {
        let world = World::new(&json!({"BeforeTool": [
            {"name": "guard", "command": guard, "sequential": sequential}, {"name": "rewrite", "command": rewrite}]}));
        let fired = world.fire(call()).await;
        assert_eq!(fired.outcome.verdict, CallVerdict::Block { reason: "no".into() }, "{sequential}");
        let again: Vec<(&str, bool)> = fired.runs.iter().map(|run| (run.hook.title(), run.again)).collect();
        assert_eq!(again, [("guard", false), ("rewrite", false), ("guard", true)]);
    }
    let world = World::new(&json!({"BeforeTool": [{"command": rewrite}]}));
    let fired = world.fire(call()).await;
    assert_eq!(fired.outcome.tool_input.unwrap()["pattern"], "/etc/*");
    assert_eq!(fired.runs.len(), 1);
}

#[tokio::test]
async fn a_sample_of_every_event_can_be_tried() {
    for event in Event::ALL {
        let world = World::new(&json!({ event.name(): [{"command": "cat > in.json"}] }));
        let combined =
            world.hooks.run(event, sample_input(event), &world.scene, &CancellationToken::new()).await;
        assert_eq!(combined.runs.len(), 1, "{event}");
        let seen: Value = serde_json::from_str(&world.read("in.json")).unwrap();
        assert_eq!(seen["hook_event_name"], event.name());
    }
}
