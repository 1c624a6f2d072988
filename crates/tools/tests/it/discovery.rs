use std::sync::Arc;

use pollux_domain::tool::{Effect, Tool, ToolErrorKind, ToolOutcome};
use pollux_test_support::executable;
use pollux_tools::{Discovered, DiscoveryError, DiscoverySetup, discover};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, text_of};

/// A project whose `tool.sh` lists two tools and runs them.
fn setup(bench: &Bench) -> DiscoverySetup {
    let script = r#"#!/bin/sh
if [ "$1" = list ]; then
  echo '[{"function_declarations":[{"name":"echo","description":"Says it again.",'
  echo '"parametersJsonSchema":{"type":"object","properties":{"text":{"type":"string"}}}}]},'
  echo '{"name":"fail"},{"name":"bad name"},{"name":"echo"}]'
elif [ "$1" = echo ]; then
  cat
elif [ "$1" = fail ]; then
  printf partly; printf oops >&2; exit 7
fi
"#;
    executable(bench.path("my tool.sh"), script);
    DiscoverySetup {
        discovery_command: "'./my tool.sh' list".to_owned(),
        call_command: Some("./my tool.sh".to_owned()),
        directory: bench.path(""),
        child_env: bench.setup.child_env.clone(),
        background: Arc::clone(&bench.setup.background),
        sandbox: Default::default(),
    }
}

async fn found(setup: &DiscoverySetup) -> Result<Discovered, DiscoveryError> {
    discover(setup, &CancellationToken::new()).await
}

fn named<'a>(found: &'a Discovered, name: &str) -> &'a Arc<dyn Tool> {
    found.tools.iter().find(|tool| tool.spec().name == name).unwrap()
}

#[tokio::test]
async fn listed_tools_are_run_with_their_arguments_on_stdin() {
    let bench = Bench::new();
    let found = found(&setup(&bench)).await.unwrap();
    let names: Vec<&str> = found.tools.iter().map(|tool| tool.spec().name.as_str()).collect();
    assert_eq!(names, ["discovered_tool_echo", "discovered_tool_fail"]);
    assert_eq!(found.ignored.len(), 2, "{:?}", found.ignored);
    let echo = named(&found, "discovered_tool_echo");
    assert!(echo.spec().description.starts_with("Says it again."));
    let args = json!({"text": "ä \"q\"", "wait_for_previous": true});
    let call = echo.prepare(args.as_object().unwrap()).unwrap();
    assert_eq!(call.describe(), r#"{"text":"ä \"q\""}"#);
    let Effect::Execute { command, .. } = call.effect() else { panic!() };
    assert_eq!(command, "'./my tool.sh' echo");
    let ToolOutcome::Done(output) = bench.run(call).await else { panic!() };
    assert_eq!(text_of(&output.parts), r#"{"text":"ä \"q\""}"#);
}

#[tokio::test]
async fn a_failing_tool_is_reported_with_all_its_output() {
    let bench = Bench::new();
    let found = found(&setup(&bench)).await.unwrap();
    let call = named(&found, "discovered_tool_fail").prepare(json!({}).as_object().unwrap()).unwrap();
    let ToolOutcome::Failed(failure) = bench.run(call).await else { panic!() };
    assert_eq!(failure.kind, ToolErrorKind::DiscoveredToolExecutionError);
    assert_eq!(failure.message, "Stdout: partly\nStderr: oops\nError: (none)\nExit Code: 7\nSignal: (none)");
}

#[tokio::test]
async fn tools_without_a_call_command_say_so_when_called() {
    let bench = Bench::new();
    let found = found(&DiscoverySetup { call_command: None, ..setup(&bench) }).await.unwrap();
    let call = named(&found, "discovered_tool_echo").prepare(json!({}).as_object().unwrap()).unwrap();
    let ToolOutcome::Failed(failure) = bench.run(call).await else { panic!() };
    assert!(failure.message.contains("`tools.callCommand` is not set"), "{}", failure.message);
}

#[tokio::test]
async fn a_failed_discovery_reports_its_cause() {
    let bench = Bench::new();
    let error = async |command: &str| {
        let setup = DiscoverySetup { discovery_command: command.to_owned(), ..setup(&bench) };
        match found(&setup).await {
            Err(error) => error.to_string(),
            Ok(found) => panic!("found {}", found.tools.len()),
        }
    };
    assert_eq!(error("sh -c 'exit 4'").await, "Tool discovery command failed with exit code 4");
    assert_eq!(
        error("sh -c 'echo why >&2; exit 4'").await,
        "Tool discovery command failed with exit code 4: why"
    );
    assert_eq!(error(" ").await, "Tool discovery command is empty or contains only whitespace.");
    assert_eq!(error("echo {}").await, "Tool discovery command did not return a JSON array of tools.");
    assert!(error("echo no").await.contains("did not print JSON"));
    assert!(error("/nonexistent/program").await.contains("could not start"));
    assert!(error("sh 'open").await.contains("a quote is not closed"));
    assert!(error("yes").await.contains("printed more than"));
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    assert!(matches!(discover(&setup(&bench), &cancelled).await, Err(DiscoveryError::Cancelled)));
}
