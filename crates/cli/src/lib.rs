//! The program: command line, headless runs, signals and `demo`.
//!
//! Owns: what a command line means, which streams a run prints to, exit codes.
//! Does not own: assembling sessions (`host`), conversations with people (`front`), subcommands (`admin`), formats (`output`).
//! Start at [`main`], then `launch::plan` (what is asked) and `run::dispatch` (doing it).

mod core_commands;
mod demo;
mod input;
mod launch;
mod reference;
mod report;
mod run;
mod signals;
mod whole_program;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Write};
use std::panic::{self, PanicHookInfo};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use launch::Terminal;
use pollux_config::env::{Env, name::HOME};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::terminal_text::plain;

pub use pollux_host::{OnlyThread, run_holder_if_asked};

/// Every command and flag, for the reference in the documents and for checks.
pub fn command_line() -> clap::Command {
    pollux_admin::command_line::built(launch::tree)
}

/// Runs the program. `args` come without the `name` under which it was called.
pub fn main(alone: OnlyThread, name: Option<&OsStr>, args: impl Iterator<Item = OsString>) -> ExitCode {
    panic::set_hook(Box::new(report_panic));
    pollux_host::close_descriptors_on_exec();
    let is_gemini = name.is_some_and(|name| Path::new(name).file_stem() == Some(OsStr::new("gemini")));
    let folder = std::env::current_dir();
    let has_folder = folder.is_ok();
    let env = process_env(folder.unwrap_or_else(|_| "/".into()));
    let env = if is_gemini { env.called_as_gemini() } else { env };
    pollux_host::hide_credentials(alone, &pollux_host::provider_keys(&env));
    let args: Vec<OsString> = args.collect();
    let name = if is_gemini { "gemini" } else { "pollux" };
    let exit = panic::catch_unwind(|| started(args, name, has_folder, &env)).unwrap_or(1);
    // The output is complete: nobody has to wait for a collector.
    pollux_host::end_on_signals();
    for line in pollux_output::telemetry::flush() {
        // A closed stderr cannot be reported.
        let _ = writeln!(io::stderr(), "{}", plain(&line));
    }
    ExitCode::from(exit)
}

fn started(args: Vec<OsString>, name: &str, has_folder: bool, env: &Env) -> u8 {
    let facts = Terminal { stdin_tty: io::stdin().is_terminal(), stdout_tty: io::stdout().is_terminal() };
    let exit = match launch::plan(args.iter().cloned(), &facts, env) {
        // The root must never stand in for a project that is gone.
        Ok(launch) if !has_folder && launch.needs_folder() => {
            let failure = Failure::new(ExitKind::Failure, "the working directory no longer exists")
                .hint("change to another directory, then try again");
            let _ = failure.print(&mut io::stderr(), pollux_front::stderr_colour(env));
            failure.exit
        }
        Ok(launch) => match whole_program::run_inside(&launch, name, &args, env) {
            None => run::dispatch(&launch, env),
            Some(Ok(exit)) => exit,
            Some(Err(failure)) => {
                let _ = failure.print(&mut io::stderr(), pollux_front::stderr_colour(env));
                failure.exit
            }
        },
        Err(error) => {
            let colour = pollux_front::stderr_colour(env);
            let _ = report::print_usage(&error, &args, env, &mut io::stderr(), colour);
            error.exit()
        }
    };
    exit.code()
}

/// The one place that reads the process's environment. Names and values that are no text cannot be used
/// to settings, so they are taken as far as they can be read. Without a usable `HOME`, as under cron and systemd,
/// the password database names it.
fn process_env(folder: PathBuf) -> Env {
    let readable = |text: OsString| text.to_string_lossy().into_owned();
    let vars = std::env::vars_os().map(|(name, value)| (readable(name), readable(value)));
    let mut vars: BTreeMap<String, String> = vars.collect();
    let uid = pollux_host::account::uid();
    if !vars.get(HOME).is_some_and(|home| Path::new(home).is_absolute()) {
        vars.remove(HOME);
        let home = pollux_host::account::home(uid).map(|home| home.to_string_lossy().into_owned());
        vars.extend(home.map(|home| (HOME.to_owned(), home)));
    }
    Env::new(vars, folder).with_uid(uid)
}

/// A panic is a bug of ours: say so briefly, and how to report it.
fn report_panic(info: &PanicHookInfo<'_>) {
    let said = info.payload();
    let what = said
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| said.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    let place = info.location().map(|place| format!(" ({}:{})", place.file(), place.line()));
    let _ = writeln!(
        io::stderr(),
        "Pollux {} crashed: {}{}\n\nhint: please report this message, and what you did before, in the project's issue tracker",
        pollux_host::VERSION,
        plain(what),
        place.unwrap_or_default(),
    );
}
