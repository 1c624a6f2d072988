//! Runs a front end that is a program at the other end of standard input and output.

use std::fs::File;
use std::io;

use pollux_config::env::Env;
use pollux_domain::exit::ExitKind;
use pollux_host::cannot_start;
use pollux_host::request::Request;
use pollux_output::Console;
use tokio::task::LocalSet;

use super::{Outbox, private_streams};
use crate::presentation::early_style;

/// Takes the streams and runs `body` to its end, in an event loop of one thread.
pub fn serve(options: &Request, env: &Env, body: impl AsyncFnOnce(File, Outbox) -> ExitKind) -> ExitKind {
    let fail = |error: &io::Error| Console::of_process(early_style(options, env)).fail(&cannot_start(error));
    let (input, output) = match private_streams() {
        Ok(streams) => streams,
        Err(error) => return fail(&error),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let outbox = Outbox::start(File::from(output));
    let exit = LocalSet::new().block_on(&runtime, body(File::from(input), outbox));
    // Whatever still blocks a thread has nothing left to say.
    runtime.shutdown_background();
    exit
}
