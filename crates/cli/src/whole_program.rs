//! The whole program in a container: starts the engine instead, and ends as the program inside does.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;

use pollux_config::env::Env;
use pollux_domain::exit::{ExitKind, Received};
use pollux_domain::failure::Failure;
use pollux_domain::terminal_text::plain;
use pollux_front::signals::Signals;
use pollux_host::cannot_start;
use pollux_host::whole_program::{Called, WholeCommand, whole_program};

use crate::launch::Launch;

/// The exit code of engines that could not start a container.
const NOT_STARTED: i32 = 125;

/// Runs a session in a container if the user wants that for the whole program. `None` otherwise.
pub(crate) fn run_inside(
    launch: &Launch,
    name: &str,
    arguments: &[OsString],
    env: &Env,
) -> Option<Result<ExitKind, Failure>> {
    let options = match launch {
        Launch::Headless(options) | Launch::Interactive(options) if !options.attach => options,
        Launch::Acp(options) | Launch::Stream(options, _) => options,
        _ => return None,
    };
    let at_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let called = Called { name, arguments, at_terminal };
    // A closed stderr cannot be reported.
    let mut say = |line: &str| drop(writeln!(io::stderr(), "{}", plain(line)));
    match whole_program(options, env, &called, &mut say) {
        Ok(None) => None,
        Ok(Some(command)) => Some(run(command)),
        Err(failure) => Some(Err(failure)),
    }
}

fn run(whole: WholeCommand) -> Result<ExitKind, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| cannot_start(&error))?.block_on(wait(whole))
}

/// Waits for the engine, and hands it the signals that only this process gets.
async fn wait(mut whole: WholeCommand) -> Result<ExitKind, Failure> {
    let mut signals = Signals::listen().map_err(|error| cannot_start(&error))?;
    let command = std::mem::replace(&mut whole.command, std::process::Command::new(""));
    let mut child = tokio::process::Command::from(command).spawn().map_err(|error| {
        Failure::new(ExitKind::Sandbox, "could not start the container engine").because(&error)
    })?;
    let status = loop {
        let received = tokio::select! {
            status = child.wait() => break status.map_err(|error| cannot_start(&error))?,
            received = signals.next() => received,
        };
        let signal = match received {
            // A terminal sends it to both.
            Received::Interrupt if io::stdin().is_terminal() => continue,
            Received::Interrupt => rustix::process::Signal::INT,
            Received::Terminate => rustix::process::Signal::TERM,
            Received::HangUp => rustix::process::Signal::HUP,
        };
        let id = child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
        if let Some(id) = id {
            let _ = rustix::process::kill_process(id, signal);
        }
    };
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(ExitKind::Success),
        (Some(NOT_STARTED), _) => {
            Err(Failure::new(ExitKind::Sandbox, "the container engine could not start the container"))
        }
        (Some(code), _) => Ok(ExitKind::Program(u8::try_from(code).unwrap_or(1))),
        (None, signal) => {
            Ok(ExitKind::Signal(signal.and_then(|signal| u8::try_from(signal).ok()).unwrap_or(9)))
        }
    }
}
