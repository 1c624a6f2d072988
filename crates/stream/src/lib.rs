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
mod claude;
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
mod voice;
mod wire;

use std::fs::File;
use std::io::{self, BufReader};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use pollux_config::env::Env;
use pollux_config::groups::OutputFormat;
use pollux_domain::exit::ExitKind;
use pollux_front::signals::Signals;
use pollux_front::stdio::{InputLine, Outbox, read_line, serve};
use pollux_front::{Ports, early_style, run_with, style};
use pollux_host::cannot_start;
use pollux_host::request::{ClientTools, Request};
use pollux_output::{Console, Style};
use tokio::sync::mpsc;

use crate::front_end::Host;
use crate::host_tools::{HostTools, PendingCall};
use crate::incoming::{Content, Unusable};
use crate::own::Own;
use crate::peer::Peer;
use crate::wire::Wire;

pub use claude::{ClaudeOptions, claude_mode, claude_refusal};
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
    /// The host speaks the protocol of Claude Code's SDKs.
    pub claude: Option<ClaudeOptions>,
}

/// Serves the program that started this one until it has nothing more to say.
pub fn run(options: &Request, stream: &StreamOptions, env: &Env, ports: Ports<'static>) -> ExitKind {
    let style = style_of(options, env);
    serve(options, env, async |input, outbox| {
        let fail =
            |error: &io::Error| Console::of_process(early_style(options, env)).fail(&cannot_start(error));
        let (sender, lines) = mpsc::channel(READ_AHEAD);
        std::thread::spawn(move || read_lines(input, &sender));
        let signals = match (Signals::listen(), Signals::listen()) {
            (Ok(one), Ok(two)) => (one, two),
            (Err(error), _) | (_, Err(error)) => return fail(&error),
        };
        let wire = Wire::new(outbox.clone(), style.dialect, Arc::clone(&style.clock));
        let link = Link { lines, signals: signals.0 };
        let start = Start { options, env, style, wire, ports };
        let exit = match &stream.claude {
            Some(claude) => claude::run(start, claude, link).await,
            None => own_dialect(start, stream, link).await,
        };
        finish_writing(&outbox, signals.1).await;
        exit
    })
}

/// What comes from the host and from the system.
struct Link {
    lines: mpsc::Receiver<InputLine>,
    signals: Signals,
}

/// What a conversation starts with.
struct Start<'a> {
    options: &'a Request,
    env: &'a Env,
    style: Style,
    wire: Wire,
    ports: Ports<'static>,
}

/// A conversation in the program's own dialects.
async fn own_dialect(start: Start<'_>, stream: &StreamOptions, link: Link) -> ExitKind {
    let Start { options, env, style, wire, ports } = start;
    let console = Console::new(style, Box::new(wire.writer()), Box::new(io::stderr()));
    let outbox = wire.outbox().clone();
    let (tools, calls) = HostTools::new(options.attach);
    let (sender, input) = mpsc::unbounded_channel();
    let own = Box::new(Own::new(wire, stream.includes_partial));
    let peer = Peer::new(own, Arc::clone(&tools), sender, stream.approval_timeout);
    let mut options = options.clone();
    options.client_tools = Some(ClientTools(tools));
    if let Some(first) = options.prompt.take() {
        // Nothing is queued yet.
        let _ = peer.submit(own::prompt(Content::Text(first)), None, None);
    }
    let host = Host::new(Rc::clone(&peer), input, console);
    let take = |peer: &Rc<Peer>, line: Option<InputLine>| match line {
        Some(InputLine::Whole(line)) => own::take(peer, &line),
        Some(InputLine::TooLong) => peer.refuse(&Unusable {
            code: "INPUT_TOO_LONG",
            message: format!("the line exceeds {} MiB", MAX_LINE / 1024 / 1024),
            id: None,
        }),
        None => peer.input_ended(),
    };
    tokio::task::spawn_local(attend(peer, link, calls, outbox, take));
    run_with(&options, env, Box::new(host), ports).await
}

/// The style of the run's output, as the settings say. Settings that cannot be read fail when the session is opened.
fn style_of(options: &Request, env: &Env) -> Style {
    let loaded = pollux_host::load_settings(options, env);
    let style = loaded
        .map_or_else(|_| early_style(options, env), |loaded| style(&loaded.groups.output, options, env));
    Style { format: OutputFormat::StreamJson, ..style }
}

/// Reads until the host closes its end or the program ends.
fn read_lines(input: File, sender: &mpsc::Sender<InputLine>) {
    let mut input = BufReader::new(input);
    // An error is the same as the end: nothing more will come.
    while let Ok(Some(line)) = read_line(&mut input, MAX_LINE) {
        if sender.blocking_send(line).is_err() {
            return;
        }
    }
}

/// Takes what the host sends and what happens to it, also while the conversation is busy. `take` gets every line, and
/// none at the end of input.
async fn attend(
    peer: Rc<Peer>,
    mut link: Link,
    mut calls: mpsc::UnboundedReceiver<PendingCall>,
    outbox: Outbox,
    take: impl Fn(&Rc<Peer>, Option<InputLine>),
) {
    let mut has_input = true;
    loop {
        tokio::select! {
            biased;
            received = link.signals.next() => peer.signalled(received),
            () = outbox.client_gone() => peer.gone(),
            Some(call) = calls.recv() => peer.host_call(call),
            line = link.lines.recv(), if has_input => {
                has_input = line.is_some();
                take(&peer, line);
            }
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
