//! The Agent Client Protocol: editors drive Pollux over standard input and output.
//!
//! Use [`run`] for `pollux acp`. A connection holds any number of sessions; each is a conversation of `front` with the
//! editor as its front end, so that prompts, commands, approvals and files behave as in a terminal. This crate translates
//! and keeps no state of its own beyond what the protocol needs.
//!
//! Start at `connection.rs` (how messages are taken) and `methods.rs` (which method does what), then `front_end.rs` (events as updates). Lines are read and
//! written by `front::rpc`.

mod asking;
mod client;
mod commands;
mod connection;
mod files;
mod front_end;
mod history;
mod methods;
mod options;
mod params;
mod prompt;
mod server;
mod servers;
mod session;
mod terminals;
mod tool_call;
mod updates;

use pollux_config::env::Env;
use pollux_domain::exit::ExitKind;
use pollux_front::Ports;
use pollux_front::early_style;
use pollux_front::rpc::messages;
use pollux_front::signals::Signals;
use pollux_front::stdio::serve;
use pollux_host::cannot_start;
use pollux_host::request::Request;
use pollux_output::Console;

use crate::client::Client;
use crate::server::{Program, Server};

/// Serves one client on standard input and output until it leaves.
pub fn run(options: &Request, env: &Env, ports: Ports<'static>) -> ExitKind {
    serve(options, env, async |input, outbox| {
        let incoming = messages(input);
        let client = Client::new(outbox);
        let program = Program { options: options.clone(), env: env.clone(), ports };
        match Signals::listen() {
            Ok(signals) => Server::new(program, client).serve(incoming, signals).await,
            Err(error) => Console::of_process(early_style(options, env)).fail(&cannot_start(&error)),
        }
    })
}
