//! The dialect of Claude Code's SDKs, so that `claude-agent-sdk` drives a session with `cli_path` set to this program.
//!
//! A thin adapter: the conversation, its queue and its approvals are those of every host. The host first sends
//! `initialize`, which may register hooks; the session is opened then. Names of tools are ours. Which flags are read is
//! decided by the command line; [`ClaudeOptions`] is what is left of them.
//!
//! Start at `requests.rs` (what the host asks), then `voice.rs` (what it is told).

mod control;
mod limits;
mod partial;
mod permission;
mod prompt;
mod requests;
mod result;
mod servers;
mod transcript;
mod voice;
mod words;

use std::io::{self, Write as _};
use std::rc::Rc;
use std::sync::Arc;

use pollux_domain::exit::ExitKind;
use pollux_domain::model::MicroUsd;
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::plain;
use pollux_front::run_with;
use pollux_front::stdio::InputLine;
use pollux_host::request::{CallbackPort, client_hooks};
use pollux_output::Console;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::front_end::Host;
use crate::host_tools::HostTools;
use crate::peer::Peer;
use crate::{Link, Start, attend};

use self::control::{Control, HostFunctions, HostRequest, Message};
use self::requests::Requests;
use self::voice::ClaudeVoice;

pub use words::mode_named as claude_mode;

/// The line that tells such a host why there is no session.
pub fn claude_refusal(why: &str) -> String {
    let mut refusal =
        result::result(&Err(why.to_owned()), &result::TurnCounts::default(), MicroUsd::default());
    if let Some(fields) = refusal.as_object_mut() {
        fields.insert("session_id".to_owned(), "".into());
    }
    format!("{refusal}\n")
}

/// What the flags of such a host ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaudeOptions {
    /// Whether calls that need approval are put to the host; they are refused otherwise.
    pub asks: bool,
    /// They are refused whatever else is said.
    pub never_asks: bool,
    /// Whether pieces of messages are sent.
    pub includes_partial: bool,
    /// Whether runs of hooks are sent.
    pub includes_hooks: bool,
    /// Whether the host's prompts are sent back.
    pub replays_prompts: bool,
    /// Whether the host wants to know when the session is idle.
    pub reports_state: bool,
    /// MCP servers inside of the host.
    pub servers: Vec<String>,
}

/// Serves the host until it has nothing more to say.
pub(crate) async fn run(start: Start<'_>, claude: &ClaudeOptions, mut link: Link) -> ExitKind {
    let control = Control::new(start.wire.clone());
    let first = match first_message(&control, &mut link).await {
        Ok(Some(first)) => first,
        Ok(None) if start.options.prompt.is_some() => First::default(),
        // The host had nothing to ask.
        Ok(None) => return ExitKind::Success,
        Err(exit) => return exit,
    };
    let Start { options, env, style, wire, ports } = start;
    let mut options = options.clone();
    options.client_hooks = first.hooks;
    options.without_questions = !claude.asks || claude.never_asks;
    for name in &claude.servers {
        options.client_links.push((name.clone(), servers::link(&control, name)));
        options.client_servers.push((name.clone(), json!({"type": "sdk"})));
    }
    let prompt = options.prompt.take();
    let console = Console::new(style, Box::new(io::sink()), Box::new(io::stderr()));
    let outbox = wire.outbox().clone();
    let (tools, calls) = HostTools::new(options.attach);
    let (sender, input) = mpsc::unbounded_channel();
    let requests = Requests::new(Arc::clone(&control), claude.clone(), first.initialize);
    let voice = Box::new(ClaudeVoice::new(Rc::clone(&requests)));
    let peer = Peer::new(voice, tools, sender, None);
    requests.introduce(&peer);
    prompt.into_iter().for_each(|prompt| requests.prompt(&peer, &Value::from(prompt)));
    if let Some(message) = first.message {
        requests.obey(&peer, message);
    }
    let host = Host::new(Rc::clone(&peer), input, console);
    let take = move |peer: &Rc<Peer>, line: Option<InputLine>| requests.take(peer, line);
    tokio::task::spawn_local(attend(peer, link, calls, outbox, take));
    run_with(&options, env, Box::new(host), ports).await
}

/// What the host said before the session was opened.
#[derive(Default)]
struct First {
    /// The request that waits for the session.
    initialize: Option<String>,
    hooks: Option<pollux_host::request::Callbacks>,
    /// A prompt that came instead.
    message: Option<Message>,
}

/// Reads up to `initialize` or a prompt; `None` at the end of input.
async fn first_message(control: &Arc<Control>, link: &mut Link) -> Result<Option<First>, ExitKind> {
    loop {
        let line = tokio::select! {
            biased;
            received = link.signals.next() => return Err(received.exit()),
            line = link.lines.recv() => line,
        };
        let Some(line) = line else { return Ok(None) };
        let request = match control.read(line) {
            Some(Message::Request(request)) => request,
            Some(message @ Message::User(_)) => {
                return Ok(Some(First { message: Some(message), ..First::default() }));
            }
            None => continue,
        };
        if let Some(first) = initialize(control, request) {
            return Ok(Some(first));
        }
    }
}

fn initialize(control: &Arc<Control>, request: HostRequest) -> Option<First> {
    let HostRequest { id, subtype, fields } = request;
    if subtype != "initialize" {
        control.refuse(&id, "the session is not initialized");
        return None;
    }
    for (key, what) in [("agents", "sub-agents of the host"), ("skills", "skills of the host")] {
        if fields.get(key).is_some_and(|given| !given.is_null()) {
            note(&format!("{what} are not used"));
        }
    }
    let mut first = First { initialize: Some(id.clone()), ..First::default() };
    let hooks = match fields.get("hooks") {
        None | Some(Value::Null) => return Some(first),
        Some(Value::Object(hooks)) => hooks,
        Some(_) => {
            control.refuse(&id, "`hooks` must be an object");
            return None;
        }
    };
    let port: Arc<dyn CallbackPort> = Arc::new(HostFunctions(Arc::clone(control)));
    match client_hooks(&port, hooks) {
        Ok((hooks, notes)) => {
            notes.iter().for_each(|line| note(line));
            first.hooks = Some(hooks);
            Some(first)
        }
        Err(why) => {
            control.refuse(&id, &why);
            None
        }
    }
}

/// A line for people: the protocol has no message for it.
fn note(line: &str) {
    // A closed stderr cannot be reported.
    let _ = writeln!(io::stderr(), "{}", redacted(&plain(line)));
}
