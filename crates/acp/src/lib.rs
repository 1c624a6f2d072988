//! The Agent Client Protocol: editors drive Pollux over standard input and output.
//!
//! Use [`run`] for `pollux acp`. A connection holds any number of sessions; each is a conversation of `front` with the
//! editor as its front end, so that prompts, commands, approvals and files behave as in a terminal. This crate translates
//! and keeps no state of its own beyond what the protocol needs.
//!
//! Start at `server.rs` (which method does what), then `front_end.rs` (events as updates). Lines are read in `wire.rs`
//! and written by `front::stdio`.

mod asking;
mod client;
mod commands;
mod error;
mod front_end;
mod history;
mod methods;
mod options;
mod params;
mod prompt;
mod server;
mod session;
mod tool_call;
mod updates;
mod wire;

use std::fs::File;
use std::io::{self, BufReader};

use pollux_config::env::Env;
use pollux_domain::exit::ExitKind;
use pollux_front::Subcommands;
use pollux_front::early_style;
use pollux_front::screen_provider::ScreenProvider;
use pollux_front::signals::Signals;
use pollux_front::stdio::{Outbox, private_streams};
use pollux_host::cannot_start;
use pollux_host::request::Request;
use pollux_output::Console;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use crate::client::Client;
use crate::server::{Program, Server};
use crate::wire::{MAX_LINE, read_messages};

/// Messages that are read ahead. Each may be large, so there are few.
const READ_AHEAD: usize = 4;

/// Serves one client on standard input and output until it leaves.
pub fn run(
    options: &Request,
    env: &Env,
    subcommands: &'static dyn Subcommands,
    screens: &'static dyn ScreenProvider,
) -> ExitKind {
    let fail = |error: &io::Error| Console::of_process(early_style(options, env)).fail(&cannot_start(error));
    let (input, output) = match private_streams() {
        Ok(streams) => streams,
        Err(error) => return fail(&error),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let (sender, incoming) = mpsc::channel(READ_AHEAD);
    std::thread::spawn(move || {
        // The end of input and an error are the same: the client is gone, and the channel closes.
        let _ = read_messages(BufReader::new(File::from(input)), MAX_LINE, |message| {
            sender.blocking_send(message).is_ok()
        });
    });
    let client = Client::new(Outbox::start(File::from(output)));
    let program = Program { options: options.clone(), env: env.clone(), subcommands, screens };
    let exit = LocalSet::new().block_on(&runtime, async {
        match Signals::listen() {
            Ok(signals) => Server::new(program, client).serve(incoming, signals).await,
            Err(error) => fail(&error),
        }
    });
    runtime.shutdown_background();
    exit
}
