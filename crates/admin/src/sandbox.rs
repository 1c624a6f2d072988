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
            rights.sandbox().enter().map_err(|error| unavailable(&error))?;
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
    let run = rights.begin("sandbox-run", &line, loaded.env.cwd(), &CancellationToken::new());
    let failed = |error: &std::io::Error| {
        Failure::new(ExitKind::Failure, format!("could not run `{program}`")).because(error)
    };
    let sandbox = run.sandbox();
    let variables = run.variables();
    let status = in_sandbox(&sandbox, program, arguments, loaded, (Streams::Inherited, &variables));
    let notice = sandbox.take_notice();
    // Writes the report.
    drop(run.finish());
    let done = status.map_err(|error| failed(&error)).and_then(|status| match exit_code(status) {
        0 => Ok(()),
        code => Err(Failure::new(ExitKind::Program(code), format!("`{program}`: {status}"))),
    });
    (done, notice)
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
    None,
}

#[cfg(target_os = "linux")]
fn in_sandbox(
    sandbox: &Sandbox,
    program: &str,
    arguments: &[String],
    loaded: &Loaded,
    (streams, variables): (Streams, &[(String, String)]),
) -> std::io::Result<std::process::ExitStatus> {
    use std::os::fd::AsFd as _;
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    let (input, output, errors) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let streams = match streams {
        Streams::Inherited => [input.as_fd(), output.as_fd(), errors.as_fd()],
        Streams::None => [null.as_fd(); 3],
    };
    let mut environment = loaded.command_env();
    environment.extend(variables.iter().cloned());
    let start = pollux_sandbox::holder::Start {
        program: OsStr::new(program),
        arguments: arguments.iter().map(OsStr::new).collect(),
        directory: loaded.env.cwd(),
        environment: &environment,
        streams,
    };
    let (mut held, _watch) = sandbox.start(&start)?;
    held.wait()
}

#[cfg(not(target_os = "linux"))]
fn in_sandbox(
    sandbox: &Sandbox,
    program: &str,
    arguments: &[String],
    loaded: &Loaded,
    (streams, variables): (Streams, &[(String, String)]),
) -> std::io::Result<std::process::ExitStatus> {
    let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    let mut environment = loaded.command_env();
    environment.extend(variables.iter().cloned());
    let mut command = sandbox.command(OsStr::new(program), &arguments, loaded.env.cwd(), &environment);
    if streams == Streams::None {
        let null = std::process::Stdio::null;
        command.stdin(null()).stdout(null()).stderr(null());
    }
    command.status()
}

#[cfg(test)]
mod tests;
