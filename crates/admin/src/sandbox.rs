//! `pollux sandbox`: shows which sandbox works and what it blocks, and runs a command in it.

mod arguments;
mod check;
mod page;

use std::ffi::OsStr;
use std::sync::Arc;

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};
use pollux_host::{Loaded, load_settings, open_rights, sandbox_request, sandbox_unavailable as unavailable};
use pollux_rights::SessionRights;
use pollux_sandbox::{Level, Sandbox, SandboxRequest};
use tokio_util::sync::CancellationToken;

pub use arguments::{SandboxArgs, SandboxCommand};

use crate::context::Context;

/// Runs the command.
pub fn run(command: &SandboxCommand, context: &mut Context<'_>) -> Result<(), Failure> {
    let loaded = load_settings(context.request, context.env)?;
    context.note(&loaded.notes);
    let request = sandbox_request(&loaded)?;
    match command {
        SandboxCommand::Status { json } => status(&request, &loaded, *json, context),
        SandboxCommand::Check => {
            let sandbox = open(&request)?;
            sandbox.enter().map_err(|error| unavailable(&error))?;
            let results = check::run(&sandbox, &loaded)?;
            print_result(context.out, &page::checked(sandbox.level(), &results))?;
            if results.iter().any(|result| result.outcome == check::Outcome::Broken) {
                return Err(Failure::new(ExitKind::Sandbox, "the sandbox did not block an escape attempt"));
            }
            Ok(())
        }
        SandboxCommand::Explain { target, json } => {
            let (rights, notes) = open_rights(&loaded)?;
            context.note(&notes);
            let explained = rights.explain(target, loaded.env.cwd()).map_err(|error| {
                Failure::new(ExitKind::Input, format!("could not explain `{target}`: {error}"))
                    .hint("use a path, HOST[:PORT], or KIND:TARGET as in `--sandbox-allow`")
            })?;
            let level = rights.level();
            let text = if *json {
                format!("{:#}\n", page::explained_json(level, &explained))
            } else {
                page::explained(level, &explained)
            };
            print_result(context.out, &text)
        }
        SandboxCommand::Run { command } => {
            let (rights, notes) = open_rights(&loaded)?;
            context.note(&notes);
            let (done, notice) = run_one(&Arc::new(rights), command, &loaded);
            context.warn(&notice.into_iter().collect::<Vec<_>>());
            done
        }
    }
}

fn open(request: &SandboxRequest) -> Result<Sandbox, Failure> {
    Sandbox::open(request).map_err(|error| unavailable(&error))
}

fn status(
    request: &SandboxRequest,
    loaded: &Loaded,
    json: bool,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let is_container = matches!(request.level, Some(Level::Container(_)));
    let all = SandboxRequest { level: request.level.filter(|_| is_container), ..request.clone() };
    let tried = Sandbox::probe(&all).map_err(|error| Failure::from_error(ExitKind::Sandbox, &error))?;
    let is_chosen = |level| request.level.is_none_or(|only| only == level);
    let used = tried.iter().find(|(level, result)| is_chosen(*level) && result.is_ok());
    let used = used.and_then(|(_, result)| result.as_ref().ok());
    let is_requested = match loaded.groups.tools.sandbox.enabled {
        Some(enabled) => enabled,
        None => loaded.groups.security.tool_sandboxing || used.is_some_and(|used| used.level.is_default()),
    };
    let text = if json {
        format!("{:#}\n", page::status_json(&tried, used, is_requested))
    } else {
        page::status(&tried, used, is_requested)
    };
    print_result(context.out, &text)?;
    if request.container.as_ref().is_some_and(|container| !container.flags.is_empty()) {
        context.warn(&["SANDBOX_FLAGS can lift any of these restrictions.".to_owned()]);
    }
    if used.is_none() {
        return Err(Failure::new(ExitKind::Sandbox, "no sandbox is available"));
    }
    Ok(())
}

/// Runs a command with the streams of this program. Returns a notice about protected files, too.
fn run_one(
    rights: &Arc<SessionRights>,
    command: &[String],
    loaded: &Loaded,
) -> (Result<(), Failure>, Option<String>) {
    let Some((program, arguments)) = command.split_first() else { return (Ok(()), None) };
    let line = command.join(" ");
    let mut run = rights.begin("sandbox-run", &line, loaded.env.cwd(), &CancellationToken::new());
    let sandbox = run.sandbox();
    if let Err(error) = sandbox.enter() {
        return (Err(unavailable(&error)), None);
    }
    let variables = run.variables();
    // What was refused is found in the messages of the command.
    let streams = if rights.has_report() { Streams::Copied } else { Streams::Inherited };
    let ended = in_sandbox(&sandbox, program, arguments, loaded, (streams, &variables));
    if let Ok((status, said)) = &ended {
        run.note_denials(said, !status.success());
    }
    let notice = sandbox.take_notice();
    // Writes the report.
    drop(run.finish());
    let done =
        ended.map_err(|error| not_started(program, &error)).and_then(|(status, _)| match exit_code(status) {
            0 => Ok(()),
            code => Err(Failure::new(ExitKind::Program(code), format!("`{program}`: {status}"))),
        });
    (done, notice)
}

/// A program that could not be started, with the exit code of a shell.
fn not_started(program: &str, error: &std::io::Error) -> Failure {
    let (code, why) = match error.kind() {
        std::io::ErrorKind::NotFound => (127, "command not found".to_owned()),
        std::io::ErrorKind::PermissionDenied => (126, "permission denied".to_owned()),
        _ => return Failure::new(ExitKind::Failure, format!("could not run `{program}`")).because(error),
    };
    Failure::new(ExitKind::NotStarted(code), format!("could not run `{program}`: {why}"))
}

/// The code that a shell would report.
fn exit_code(status: std::process::ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status.code().or_else(|| status.signal().map(|number| 128 + number)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

/// What a command reads from and writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Streams {
    Inherited,
    /// The same, and messages are kept.
    Copied,
    None,
}

/// Messages that are kept.
const MAX_SAID: usize = 64 << 10;

/// Copies messages to the program's own until their end. Returns the last of them.
fn copy_messages(mut from: impl std::io::Read) -> String {
    use std::io::Write as _;
    let mut said: Vec<u8> = Vec::new();
    let mut buffer = vec![0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let new = buffer.get(..count).unwrap_or_default();
        let _ = std::io::stderr().write_all(new);
        said.extend_from_slice(new);
        if said.len() > 2 * MAX_SAID {
            said.drain(..said.len() - MAX_SAID);
        }
    }
    String::from_utf8_lossy(&said).into_owned()
}

#[cfg(target_os = "linux")]
fn in_sandbox(
    sandbox: &Sandbox,
    program: &str,
    arguments: &[String],
    loaded: &Loaded,
    (streams, variables): (Streams, &[(String, String)]),
) -> std::io::Result<(std::process::ExitStatus, String)> {
    use std::os::fd::AsFd as _;
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    let (input, output, errors) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let pipe = (streams == Streams::Copied).then(std::io::pipe).transpose()?;
    let (reader, writer) = pipe.unzip();
    let streams = match streams {
        Streams::Inherited | Streams::Copied => {
            let errors = writer.as_ref().map_or_else(|| errors.as_fd(), |writer| writer.as_fd());
            [input.as_fd(), output.as_fd(), errors]
        }
        Streams::None => [null.as_fd(); 3],
    };
    let environment = loaded.sandboxed_env(variables);
    let start = pollux_sandbox::holder::Start {
        program: OsStr::new(program),
        arguments: arguments.iter().map(OsStr::new).collect(),
        directory: loaded.env.cwd(),
        environment: &environment,
        streams,
    };
    let (mut held, _watch) = sandbox.start(&start)?;
    drop(writer);
    let copying = reader.map(|reader| std::thread::spawn(move || copy_messages(reader)));
    let status = held.wait()?;
    // A process that it left behind may hold the pipe open.
    let is_over = |copying: &std::thread::JoinHandle<String>| {
        let deadline = std::time::Instant::now() + std::time::Duration::from_millis(500);
        while !copying.is_finished() && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        copying.is_finished()
    };
    let said = copying.filter(is_over).and_then(|copying| copying.join().ok());
    Ok((status, said.unwrap_or_default()))
}

#[cfg(not(target_os = "linux"))]
fn in_sandbox(
    sandbox: &Sandbox,
    program: &str,
    arguments: &[String],
    loaded: &Loaded,
    (streams, variables): (Streams, &[(String, String)]),
) -> std::io::Result<(std::process::ExitStatus, String)> {
    let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    let environment = loaded.sandboxed_env(variables);
    let mut command = sandbox.command(OsStr::new(program), &arguments, loaded.env.cwd(), &environment);
    if streams == Streams::None {
        let null = std::process::Stdio::null;
        command.stdin(null()).stdout(null()).stderr(null());
    }
    Ok((command.status()?, String::new()))
}

#[cfg(test)]
mod tests;
