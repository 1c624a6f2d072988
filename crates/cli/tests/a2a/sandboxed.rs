//! Commands of tasks in their sandbox, as they run unless the operator says otherwise.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use pollux_test_support::{TestHome, reply};
use serde_json::Value;

use crate::server::{Server, Stage, automatic, binary, said, shell};

/// Whether this machine has the sandbox; says so if not.
fn has_sandbox(home: &TestHome, level: &str) -> bool {
    let run = home.command(binary(), ["sandbox", "run", "--", "true"]).env("GEMINI_SANDBOX", level).run();
    let works = run.code == Some(0);
    if !works {
        #[expect(clippy::print_stderr, reason = "people should know what was not tested")]
        let () = eprintln!("skipped: no sandbox `{level}` here: {}", run.stderr);
    }
    works
}

/// Gives a task whose calls need no approval.
fn run(server: &Server) -> Value {
    server.rpc("message/send", automatic("go"))["result"].clone()
}

/// The result of the last call, as the model read it.
fn told(stage: &Stage) -> String {
    let request = stage.model.requests().pop().unwrap();
    request.body["contents"].as_array().unwrap().last().unwrap().to_string()
}

fn serve(stage: &Stage, level: &str, flags: &[&str]) -> Server {
    let args = ["-m", "test-model", "a2a", "serve"].into_iter().chain(flags.iter().copied());
    stage.start(stage.home.command(binary(), args).env("GEMINI_SANDBOX", level)).unwrap()
}

#[test]
fn a_server_without_options_runs_commands_in_a_sandbox() {
    let stage = Stage::new([shell("echo made > made.txt; cat made.txt"), reply().text("done")]);
    if !has_sandbox(&stage.home, "true") {
        return;
    }
    let server = stage.start(stage.home.command(binary(), ["-m", "test-model", "a2a", "serve"])).unwrap();
    let task = run(&server);
    assert_eq!(said(&task), "done", "{task}");
    assert!(told(&stage).contains("made"), "{}", told(&stage));
    let root = stage.home.home().join(".gemini/tmp/a2a-workspaces/local");
    let made = root.join(task["id"].as_str().unwrap()).join("made.txt");
    assert_eq!(fs::read_to_string(made).unwrap(), "made\n");
}

#[test]
fn commands_of_one_task_see_neither_other_tasks_nor_tokens_nor_the_store() {
    for level in ["true", "landlock"] {
        for is_default in [true, false] {
            let home = TestHome::new();
            if !has_sandbox(&home, level) {
                continue;
            }
            let folder = if is_default { ".gemini/tmp/a2a-workspaces" } else { "workspaces" };
            let place = |path: &str| home.home().join(path).display().to_string();
            let (tokens, store) = (place("tokens"), place("store"));
            let secrets = place(&format!("{folder}/*/*/secret.txt"));
            let look =
                format!("echo of-ben > secret.txt; cat {secrets} {tokens} {store}/tasks/*/lease; true");
            let replies = [
                shell("echo of-anna > secret.txt"),
                reply().text("written"),
                shell(&look),
                reply().text("looked"),
            ];
            let stage = Stage::in_home(home, replies);
            let (anna, ben) = ("a".repeat(40), "b".repeat(40));
            write_tokens(&tokens, &format!("anna {anna}\nben {ben}\n"));
            let store = format!("file:{store}");
            let mut flags = vec!["--token-file", &tokens, "--store", &store];
            if !is_default {
                flags.extend(["--workspace-root", stage.root.to_str().unwrap()]);
            }
            let mut server = serve(&stage, level, &flags);
            server.token = Some(anna.clone());
            assert_eq!(said(&run(&server)), "written");
            server.token = Some(ben);
            let task = run(&server);
            assert_eq!(said(&task), "looked", "{task}");
            let told = told(&stage);
            assert!(told.contains("of-ben"), "{level}, default root {is_default}: its own file: {told}");
            for secret in ["of-anna", &anna, "replica-"] {
                assert!(!told.contains(secret), "{level}, default root {is_default}: {secret} in {told}");
            }
        }
    }
}

fn write_tokens(file: &str, text: &str) {
    fs::write(file, text).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
}
