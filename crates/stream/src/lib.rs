//! `stream-json` in both directions: a program drives a session over standard input and output.
//!
//! Use [`run`] for `--input-format stream-json`. The host, which started Pollux, sends a JSON object on each line: prompts,
//! answers to approvals, interrupts, results of its own tools. It reads the events of every run and some more. The
//! conversation is that of `front`, with the host as its front end; this crate translates. [`schema`] and [`reference`]
//! describe the messages.
//!
//! Start at `own.rs` (which message does what), then `front_end.rs` (events as lines). The messages are defined in
//! `incoming.rs` and `outgoing.rs`.

mod approvals;
mod front_end;
mod host_tools;
mod incoming;
mod outgoing;
mod own;
mod peer;
mod schema;
mod shape;
#[cfg(test)]
mod tests;
mod wire;

use std::fs::File;
use std::io::{self, BufReader};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use pollux_config::env::Env;
use pollux_config::groups::OutputFormat;
use pollux_domain::exit::ExitKind;
use pollux_front::screen_provider::ScreenProvider;
use pollux_front::signals::Signals;
use pollux_front::stdio::{Line, Outbox, private_streams, read_line};
use pollux_front::{Subcommands, early_style, run_with, style};
use pollux_host::cannot_start;
use pollux_host::request::{ClientTools, Request};
use pollux_output::{Console, Style};
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use crate::front_end::Host;
use crate::host_tools::{HostTools, PendingCall};
use crate::incoming::{Content, Unusable};
use crate::own::Own;
use crate::peer::Peer;
use crate::wire::Wire;

pub use schema::{reference, schema};

/// The longest line that is read.
const MAX_LINE: usize = 16 * 1024 * 1024;
/// Lines that are read ahead. Each may be large, so there are few.
const READ_AHEAD: usize = 4;
/// How often a host that reads slowly is waited for at the end.
const FLUSHING: Duration = Duration::from_millis(100);

/// How a connection behaves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamOptions {
    /// Whether starts and live output of calls are sent.
    pub includes_partial: bool,
    /// How long an approval may take; it is refused then.
    pub approval_timeout: Option<Duration>,
}

/// Serves the program that started this one until it has nothing more to say.
pub fn run(
    options: &Request,
    stream: &StreamOptions,
    env: &Env,
    subcommands: &'static dyn Subcommands,
    screens: &'static dyn ScreenProvider,
) -> ExitKind {
    let fail = |error: &io::Error| Console::of_process(early_style(options, env)).fail(&cannot_start(error));
    let style = style_of(options, env);
    let (input, output) = match private_streams() {
        Ok(streams) => streams,
        Err(error) => return fail(&error),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let (sender, lines) = mpsc::channel(READ_AHEAD);
    std::thread::spawn(move || read_lines(File::from(input), &sender));
    let outbox = Outbox::start(File::from(output));
    let wire = Wire::new(outbox.clone(), style.dialect, Arc::clone(&style.clock));
    let console = Console::new(style, Box::new(wire.writer()), Box::new(io::stderr()));
    let (tools, calls) = HostTools::new();
    let (sender, input) = mpsc::unbounded_channel();
    let own = Own::new(wire, stream.includes_partial);
    let peer = Peer::new(own, Arc::clone(&tools), sender, stream.approval_timeout);
    let mut options = options.clone();
    options.client_tools = Some(ClientTools(tools));
    if let Some(first) = options.prompt.take() {
        // Nothing is queued yet.
        let _ = peer.submit(own::prompt(Content::Text(first)), None, None);
    }
    let host = Host::new(Rc::clone(&peer), input, console);
    let exit = LocalSet::new().block_on(&runtime, async {
        let signals = match (Signals::listen(), Signals::listen()) {
            (Ok(one), Ok(two)) => (one, two),
            (Err(error), _) | (_, Err(error)) => return fail(&error),
        };
        tokio::task::spawn_local(attend(Rc::clone(&peer), lines, calls, outbox.clone(), signals.0));
        let exit = run_with(&options, env, Box::new(host), subcommands, screens).await;
        finish_writing(&outbox, signals.1).await;
        exit
    });
    runtime.shutdown_background();
    exit
}

/// The style of the run's output, as the settings say. Settings that cannot be read fail when the session is opened.
fn style_of(options: &Request, env: &Env) -> Style {
    let loaded = pollux_host::load_settings(options, env);
    let style = loaded
        .map_or_else(|_| early_style(options, env), |loaded| style(&loaded.groups.output, options, env));
    Style { format: OutputFormat::StreamJson, ..style }
}

/// Reads until the host closes its end or the program ends.
fn read_lines(input: File, sender: &mpsc::Sender<Line>) {
    let mut input = BufReader::new(input);
    // An error is the same as the end: nothing more will come.
    while let Ok(Some(line)) = read_line(&mut input, MAX_LINE) {
        if sender.blocking_send(line).is_err() {
            return;
        }
    }
}

/// Takes what the host sends and what happens to it, also while the conversation is busy.
async fn attend(
    peer: Rc<Peer>,
    mut lines: mpsc::Receiver<Line>,
    mut calls: mpsc::UnboundedReceiver<PendingCall>,
    outbox: Outbox,
    mut signals: Signals,
) {
    let mut has_input = true;
    loop {
        tokio::select! {
            biased;
            received = signals.next() => peer.signalled(received),
            () = outbox.client_gone() => peer.gone(),
            Some(call) = calls.recv() => peer.host_call(call),
            line = lines.recv(), if has_input => match line {
                Some(Line::Whole(line)) => own::take(&peer, &line),
                Some(Line::TooLong) => peer.refuse(&Unusable {
                    code: "INPUT_TOO_LONG",
                    message: format!("the line exceeds {} MiB", MAX_LINE / 1024 / 1024),
                    id: None,
                }),
                None => {
                    has_input = false;
                    peer.input_ended();
                }
            },
        }
    }
}

/// Waits until the host has read everything, or a signal ends the wait.
async fn finish_writing(outbox: &Outbox, mut signals: Signals) {
    while !outbox.flush(FLUSHING) {
        tokio::select! {
            biased;
            _ = signals.next() => return,
            () = tokio::time::sleep(Duration::from_millis(1)) => {}
        }
    }
}
