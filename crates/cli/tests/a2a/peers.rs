//! Programs that others wrote, if `scripts/python-peers.sh`, `scripts/a2a-peers.sh` and `scripts/object-stores.sh` have
//! installed them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pollux_test_support::{Reply, Run, reply};
use serde_json::json;

use crate::installed::installed;
use crate::server::{Stage, binary};

/// How long a client may take for all its steps.
const PATIENCE: Duration = Duration::from_secs(300);

/// Starts a server, and a client with its address and token after these arguments.
fn drive(replies: Vec<Reply>, program: &Path, first: &[&str], last: &[&str]) -> Run {
    let stage = Stage::new(replies);
    let server = stage.serve(&[]);
    let url = format!("http://localhost:{}", server.port);
    let token = server.token.clone().unwrap();
    let args = first.iter().copied().chain([url.as_str(), token.as_str()]).chain(last.iter().copied());
    let run = stage.home.command(program, args).limit(PATIENCE).run();
    assert_eq!(run.code, Some(0), "{last:?}: {}\n{}", run.stdout, run.stderr);
    run
}

fn peer(file: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers").join(file).display().to_string()
}

fn shell() -> Reply {
    reply().call("run_shell_command", json!({"command": "echo hello > hello.txt"}))
}

/// Runs the Python client; what it prints must be these lines.
fn python(version: &str, binding: &str, expected: &[&str]) {
    let Some(folder) = installed("a2a-client", "python-peers.sh") else { return };
    let replies = vec![
        reply().text("Hello"),
        reply().text("Hello again"),
        reply().text("Hello once more"),
        shell(),
        reply().text("done"),
        Reply::never(),
    ];
    let script = peer("a2a_client.py");
    let run = drive(replies, &folder.join("python/bin/python"), &[&script], &[version, binding]);
    let printed: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(printed, expected, "{version} {binding}");
}

/// What the Python client prints in 1.0, on every transport.
const PYTHON_ONE: [&str; 17] = [
    "card Gemini SDLC Agent",
    "stream task submitted, status working, status input_required: Hello",
    "send input_required: Hello again",
    "continued task, input_required",
    "get input_required ROLE_USER, ROLE_AGENT: Hello once more",
    "list 1 10 ''",
    "approval run_shell_command awaiting_approval",
    "approved input_required: done",
    "cancelled status canceled",
    "extended card Gemini SDLC Agent",
    "unknown task refused TaskNotFoundError",
    "unknown cancel refused TaskNotFoundError",
    "second cancel refused TaskNotCancelableError",
    "message to a task that is over refused UnsupportedOperationError",
    "subscription to it refused UnsupportedOperationError",
    "push refused PushNotificationNotSupportedError",
    "page of 101 refused InvalidParamsError",
];

/// The same in 0.3, which cannot list tasks.
const PYTHON_OLD: [&str; 15] = [
    "card Gemini SDLC Agent",
    "stream task submitted, status working, status input_required: Hello",
    "send input_required: Hello again",
    "continued status, input_required",
    "get input_required ROLE_USER, ROLE_AGENT: Hello once more",
    "approval run_shell_command awaiting_approval",
    "approved input_required: done",
    "cancelled status canceled",
    "extended card Gemini SDLC Agent",
    "unknown task refused TaskNotFoundError",
    "unknown cancel refused TaskNotFoundError",
    "second cancel refused TaskNotCancelableError",
    "message to a task that is over refused UnsupportedOperationError",
    "subscription to it refused UnsupportedOperationError",
    "push refused PushNotificationNotSupportedError",
];

#[test]
fn the_python_client_speaks_1_0_over_json_rpc() {
    python("1.0", "JSONRPC", &PYTHON_ONE);
}

#[test]
fn the_python_client_speaks_1_0_over_http() {
    python("1.0", "HTTP+JSON", &PYTHON_ONE);
}

#[test]
fn the_python_client_speaks_0_3_over_json_rpc() {
    python("0.3", "JSONRPC", &PYTHON_OLD);
}

#[test]
fn the_python_client_speaks_0_3_over_http() {
    python("0.3", "HTTP+JSON", &PYTHON_OLD);
}

/// Runs the JavaScript client of Gemini CLI's server; `errors` is how it names those of its transport.
fn javascript(transport: &str, errors: &str) {
    let Some(folder) = installed("a2a-peers", "a2a-peers.sh") else { return };
    let look = reply()
        .thought("**Looking** at the folder")
        .text("I look. ")
        .call("list_directory", json!({"dir_path": "."}));
    let replies = vec![look, reply().text("Nothing"), shell(), reply().text("done"), Reply::never()];
    let (script, folder) = (peer("a2a_client.mjs"), folder.display().to_string());
    let run = drive(replies, Path::new("node"), &[&script, &folder], &[transport]);
    let expected = [
        "card Gemini SDLC Agent",
        "stream task submitted, state-change working, thought working, text-content working, \
         state-change working, tool-call-update scheduled, tool-call-update executing, \
         tool-call-update success, state-change working, text-content working, \
         state-change input-required final",
        "get input-required agent: Nothing",
        "asked tool-call-update scheduled, tool-call-confirmation awaiting_approval, \
         state-change input-required final",
        "approved input-required: done",
        "not blocked true",
        "subscribed task true",
        "cancel true",
        "cancelled state-change canceled final",
        &format!("unknown task refused TaskNotFound{errors}"),
        &format!("second cancel refused TaskNotCancelable{errors}"),
        &format!("message to a task that is over refused UnsupportedOperation{errors}"),
    ];
    assert_eq!(run.stdout.lines().collect::<Vec<_>>(), expected, "{transport}");
}

#[test]
fn the_javascript_client_speaks_0_3_over_json_rpc() {
    javascript("JSONRPC", "JSONRPCError");
}

#[test]
fn the_javascript_client_speaks_0_3_over_http() {
    javascript("HTTP+JSON", "Error");
}

#[test]
fn a_task_goes_from_one_replica_of_the_local_deployment_to_the_other() {
    if installed("s3-server", "object-stores.sh").is_none() {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/run-local.sh");
    let run = Command::new(script).arg(binary()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{out}\n{err}");
    assert!(out.contains("the task went from one replica to the other"), "{out}");
}
