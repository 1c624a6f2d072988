//! What needs neither a model nor a home.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::{Command, Stdio};

struct Run {
    out: String,
    err: String,
    code: Option<i32>,
}

fn command(binary: &str) -> Command {
    let home = std::env::temp_dir().join("pollux-no-such-home");
    let mut command = Command::new(binary);
    command.env_clear().env("HOME", &home).env("GEMINI_CLI_HOME", &home).stdin(Stdio::null());
    command
}

fn run_with(mut command: Command) -> Run {
    let output = command.output().unwrap();
    Run {
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code(),
    }
}

fn pollux(args: &[&str]) -> Run {
    let mut command = command(env!("CARGO_BIN_EXE_pollux"));
    command.args(args);
    run_with(command)
}

#[test]
fn both_names_print_the_version_and_nothing_else() {
    for binary in [env!("CARGO_BIN_EXE_pollux"), env!("CARGO_BIN_EXE_gemini")] {
        for flag in ["--version", "-v"] {
            let mut command = command(binary);
            command.arg(flag);
            let run = run_with(command);
            assert_eq!(run.out, concat!(env!("CARGO_PKG_VERSION"), "\n"));
            assert_eq!((run.err.as_str(), run.code), ("", Some(0)));
        }
    }
}

#[test]
fn called_as_gemini_the_output_is_gemini_clis() {
    let home = pollux_test_support::TestHome::new();
    let args = ["-p", "x", "-o", "json"];
    let failed = |binary: &str| home.command(Path::new(binary), args).without_env("GEMINI_API_KEY").run();
    let run = failed(env!("CARGO_BIN_EXE_gemini"));
    assert_eq!((run.stdout.as_str(), run.code), ("", Some(41)), "{}", run.stderr);
    let object: serde_json::Value =
        serde_json::from_str(run.stderr.get(run.stderr.find('{').unwrap()..).unwrap()).unwrap();
    assert_eq!(object["error"]["code"], 41);
    assert!(object["session_id"].as_str().is_some_and(|id| !id.is_empty()), "{object}");
    let run = failed(env!("CARGO_BIN_EXE_pollux"));
    assert!(run.stdout.contains("\"AUTH_ERROR\""), "{}", run.stdout);
}

#[test]
fn help_goes_to_stdout_and_mistakes_to_stderr() {
    let help = pollux(&["--help"]);
    assert!(help.out.starts_with("A coding agent for the terminal\n") && help.err.is_empty());
    assert_eq!(help.code, Some(0));
    let mistake = pollux(&["--nope"]);
    assert_eq!(mistake.out, "");
    assert_eq!(mistake.err, "Unknown argument: nope\n\nhint: run `pollux --help`\n");
    assert_eq!(mistake.code, Some(1));
}

#[test]
fn an_interactive_prompt_needs_a_terminal() {
    let run = pollux(&["-i", "hello"]);
    assert_eq!(
        run.err,
        "Error: The --prompt-interactive flag cannot be used when input is piped from stdin.\n"
    );
    assert_eq!((run.out.as_str(), run.code), ("", Some(42)));
}

#[test]
fn an_argument_that_is_no_text_is_refused_without_a_panic() {
    let mut command = command(env!("CARGO_BIN_EXE_pollux"));
    command.arg("-p").arg(OsString::from_vec(vec![0xff, b'x']));
    let run = run_with(command);
    assert!(run.err.starts_with("argument 2 is not valid UTF-8"), "{}", run.err);
    assert_eq!(run.code, Some(1));
}

#[test]
fn a_command_of_a_later_version_is_no_prompt() {
    let run = pollux(&["gemma", "list"]);
    assert!(run.err.starts_with("the command `gemma` is not available in this version\n"), "{}", run.err);
    assert_eq!((run.out.as_str(), run.code), ("", Some(1)));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = command(env!("CARGO_BIN_EXE_pollux"));
    let output = command.arg("--help").stdout(writer).output().unwrap();
    assert_eq!((output.stderr.as_slice(), output.status.code()), (&b""[..], Some(0)));
}

#[test]
fn extensions_are_listed_as_none() {
    let run = pollux(&["--list-extensions"]);
    assert_eq!((run.out.as_str(), run.code), ("No extensions installed.\n", Some(0)));
}

#[test]
fn standard_input_may_be_closed() {
    let mut command = command("sh");
    command.arg("-c").arg("exec \"$0\" --list-extensions <&-").arg(env!("CARGO_BIN_EXE_pollux"));
    assert_eq!(run_with(command).code, Some(0));
}
