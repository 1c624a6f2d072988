//! What such a host asks for.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use pollux_domain::JsonObject;
use pollux_domain::approval::{ApprovalAnswer, ApprovalMode, ApprovalRequest, Subject};
use pollux_domain::event::{ConversationView, Op, OpResult};
use pollux_domain::id::CallId;
use pollux_front::input::Typed;
use pollux_front::stdio::InputLine;
use pollux_host::Services;
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use super::control::{Asked, Control, HostRequest, Message};
use super::permission::{Decided, decided};
use super::words::mode_named;
use super::{ClaudeOptions, note, prompt};
use crate::incoming::Unusable;
use crate::outgoing::CommandInfo;
use crate::peer::{Facts, Peer};

/// How long the first turn waits for the servers inside of the host.
const SERVER_WAIT: Duration = Duration::from_secs(30);
/// Prompts that may come before the session takes any.
const MAX_EARLY: usize = 16;
/// Stands for a request of ours in the place of the host's id.
const FIRST_LOOK: &str = "";

/// The host's requests, and what they need to be answered.
pub(crate) struct Requests {
    pub(crate) control: Arc<Control>,
    pub(crate) options: ClaudeOptions,
    pub(crate) state: RefCell<ClaudeState>,
    peer: RefCell<Weak<Peer>>,
}

#[derive(Default)]
pub(crate) struct ClaudeState {
    /// The request that waits for the session.
    pub(crate) initialize: Option<String>,
    is_ready: bool,
    /// Prompts that came before the session was ready, and `None` for the end of input.
    early: Vec<Option<Typed>>,
    pub(crate) mode: ApprovalMode,
    /// Calls that need approval are refused without asking the host.
    pub(crate) never_asks: bool,
    /// The model that the session began with.
    model: String,
    pub(crate) commands: Vec<CommandInfo>,
    pub(crate) tools: Vec<String>,
    pub(crate) services: Option<Arc<Services>>,
    /// Arguments that the host put in the place of a call's, until they are decided on.
    edited: HashMap<CallId, JsonObject>,
    /// Open questions about calls.
    decisions: HashMap<CallId, (String, AbortHandle)>,
    /// What operations were asked for, by the host's id.
    asked: HashMap<String, Wanted>,
}

/// What an operation was for.
#[derive(Clone, Copy)]
enum Wanted {
    Mode { never_asks: bool },
    Model,
    ContextUsage,
}

impl ClaudeState {
    /// The servers of the session and what they offer.
    pub(crate) fn reports(&self) -> Vec<Value> {
        let servers = self.services.as_ref().and_then(|services| services.servers.as_ref());
        let reports = servers.map(|servers| servers.reports()).unwrap_or_default();
        let described = reports.iter().map(|report| {
            let tools: Vec<Value> = report
                .tools
                .iter()
                .map(|tool| json!({"name": tool.declared, "description": tool.description}))
                .collect();
            let status =
                match (report.status.is_connected(), report.status.is_disconnected(), &report.sign_in) {
                    (true, ..) => "connected",
                    (_, true, Some(_)) => "needs-auth",
                    (_, true, None) => "failed",
                    _ => "pending",
                };
            let mut server = json!({"name": report.name, "status": status, "tools": tools});
            if let Some(fields) = server.as_object_mut() {
                // The server's own name and its version.
                let told = report.version.as_deref().unwrap_or_default();
                let (name, version) = told.rsplit_once(' ').unwrap_or((told, ""));
                let info = report.version.as_ref().map(|_| json!({"name": name, "version": version}));
                fields.extend(info.map(|info| ("serverInfo".to_owned(), info)));
                let problem = report.problem.as_deref().map(Value::from);
                fields.extend(problem.map(|problem| ("error".to_owned(), problem)));
            }
            server
        });
        described.collect()
    }
}

impl Requests {
    pub(crate) fn new(control: Arc<Control>, options: ClaudeOptions, initialize: Option<String>) -> Rc<Self> {
        let state = ClaudeState { initialize, never_asks: options.never_asks, ..ClaudeState::default() };
        Rc::new(Self { control, options, state: state.into(), peer: RefCell::default() })
    }

    /// Whom answers are passed to.
    pub(crate) fn introduce(&self, peer: &Rc<Peer>) {
        *self.peer.borrow_mut() = Rc::downgrade(peer);
    }

    /// Takes a line; `None` at the end of input.
    pub(crate) fn take(&self, peer: &Rc<Peer>, line: Option<InputLine>) {
        let Some(line) = line else {
            // Refused as open questions first, so that the turn ends.
            let mut state = self.state.borrow_mut();
            match !state.is_ready && !state.early.is_empty() {
                true => state.early.push(None),
                false => {
                    drop(state);
                    peer.input_ended();
                }
            }
            return self.control.input_ended();
        };
        if let Some(message) = self.control.read(line) {
            self.obey(peer, message);
        }
    }

    pub(crate) fn obey(&self, peer: &Rc<Peer>, message: Message) {
        match message {
            Message::User(fields) => {
                let content = fields.get("message").and_then(|message| message.get("content"));
                self.prompt(peer, content.unwrap_or(&Value::Null));
            }
            Message::Request(request) => self.request(peer, request),
        }
    }

    /// A prompt of the host. One that cannot be used has a result like every other.
    pub(crate) fn prompt(&self, peer: &Rc<Peer>, content: &Value) {
        let typed = match prompt::prompt(content) {
            Ok(typed) => typed,
            Err(why) => return peer.refuse(&Unusable::invalid(why)),
        };
        let mut state = self.state.borrow_mut();
        if !state.is_ready && state.early.len() < MAX_EARLY {
            return state.early.push(Some(typed));
        }
        let is_ready = state.is_ready;
        drop(state);
        let submitted = match is_ready {
            true => peer.submit(typed, None, None),
            false => Err(Unusable::invalid("too many queued messages")),
        };
        if let Err(unusable) = submitted {
            peer.refuse(&unusable);
        }
    }

    fn request(&self, peer: &Rc<Peer>, request: HostRequest) {
        let HostRequest { id, subtype, fields } = request;
        let text = |key: &str| fields.get(key).and_then(Value::as_str);
        match subtype.as_str() {
            "interrupt" => {
                peer.interrupt();
                self.control.answer(&id, &json!({}));
            }
            "set_permission_mode" => match text("mode").and_then(mode_named) {
                Some((mode, never_asks)) => self.set_mode(peer, &id, mode, never_asks),
                None => self.control.refuse(&id, "unknown permission mode"),
            },
            "set_model" => {
                let first = self.state.borrow().model.clone();
                let model = text("model").filter(|model| *model != "default").map_or(first, str::to_owned);
                self.ask(peer, &id, Wanted::Model, Op::SetModel(model));
            }
            "get_context_usage" => self.ask(peer, &id, Wanted::ContextUsage, Op::Describe),
            "mcp_status" => {
                let reports = self.state.borrow().reports();
                self.control.answer(&id, &json!({"mcpServers": reports}));
            }
            "initialize" => self.control.refuse(&id, "the session is already initialized"),
            other => {
                let other: String = other.chars().take(100).collect();
                self.control.refuse(&id, &format!("unsupported request `{other}`"));
            }
        }
    }

    fn ask(&self, peer: &Peer, id: &str, wanted: Wanted, op: Op) {
        self.state.borrow_mut().asked.insert(id.to_owned(), wanted);
        peer.ask(op, Some(id.to_owned()));
    }

    fn set_mode(&self, peer: &Peer, id: &str, mode: ApprovalMode, never_asks: bool) {
        self.state.borrow_mut().asked.insert(id.to_owned(), Wanted::Mode { never_asks });
        if let Err(unusable) = peer.set_mode(mode, Some(id.to_owned())) {
            self.state.borrow_mut().asked.remove(id);
            self.control.refuse(id, &unusable.message);
        }
    }

    /// The session takes prompts as soon as the servers inside of the host are known.
    pub(crate) fn ready(&self, facts: &Facts, commands: Vec<CommandInfo>) {
        let mut state = self.state.borrow_mut();
        state.mode = facts.mode;
        state.model.clone_from(&facts.model);
        state.commands = commands;
        let servers = state.services.as_ref().and_then(|services| services.servers.clone());
        drop(state);
        let (peer, names) = (self.peer.borrow().clone(), self.options.servers.clone());
        tokio::task::spawn_local(async move {
            for name in servers.iter().flat_map(|_| &names) {
                if let Some(servers) = &servers {
                    servers.settle_one(name, SERVER_WAIT).await;
                }
            }
            if let Some(peer) = peer.upgrade() {
                peer.ask(Op::Describe, Some(FIRST_LOOK.to_owned()));
            }
        });
    }

    /// The result of an operation.
    pub(crate) fn acknowledged(&self, id: &str, result: &OpResult) {
        if id == FIRST_LOOK {
            return self.initialized(result);
        }
        let Some(wanted) = self.state.borrow_mut().asked.remove(id) else { return };
        if let Some(refusal) = result.refusal() {
            return self.control.refuse(id, &refusal.message);
        }
        let answer = match (wanted, result) {
            (Wanted::Mode { never_asks }, _) => {
                self.state.borrow_mut().never_asks = never_asks;
                json!({})
            }
            (Wanted::ContextUsage, OpResult::Conversation(view)) => context_usage(view),
            (Wanted::Model | Wanted::ContextUsage, _) => json!({}),
        };
        self.control.answer(id, &answer);
    }

    fn initialized(&self, result: &OpResult) {
        let mut state = self.state.borrow_mut();
        if let OpResult::Conversation(view) = result {
            state.tools = view.tools.iter().map(|tool| tool.name.clone()).collect();
        }
        state.is_ready = true;
        let Some(id) = state.initialize.take() else { return };
        let commands: Vec<Value> = state
            .commands
            .iter()
            .map(|command| {
                json!({"name": command.name, "description": command.description, "argumentHint": ""})
            })
            .collect();
        let model = json!({"value": state.model, "displayName": state.model, "description": ""});
        drop(state);
        self.control.answer(
            &id,
            &json!({
                "commands": commands,
                "models": [model],
                "agents": [],
                "output_style": "default",
                "available_output_styles": ["default"],
                "account": {},
                "pid": std::process::id(),
                "hooks_applied": true,
                "hook_on_failure_supported": true,
            }),
        );
    }

    /// The prompts that waited, once the session is ready; `None` is the end of input.
    pub(crate) fn released(&self) -> Vec<Option<Typed>> {
        let mut state = self.state.borrow_mut();
        if state.is_ready { std::mem::take(&mut state.early) } else { Vec::new() }
    }

    /// Passes the host's decision on when it comes.
    pub(crate) fn await_decision(self: &Rc<Self>, request: &Arc<ApprovalRequest>, asked: Asked) {
        let (requests, peer) = (Rc::clone(self), self.peer.borrow().clone());
        let (request, call, id) = (Arc::clone(request), request.call.clone(), asked.id.clone());
        let task = tokio::task::spawn_local(async move {
            let answer = asked.answer().await;
            let Some(peer) = peer.upgrade() else { return };
            let Decided { answer, mode, notes } = decided(&request, answer);
            if let ApprovalAnswer::Edited(args) = &answer {
                requests.state.borrow_mut().edited.insert(request.call.clone(), args.clone());
            }
            notes.iter().for_each(|line| note(line));
            if let Some((mode, never_asks)) = mode.as_deref().and_then(mode_named) {
                match peer.set_mode(mode, None) {
                    Ok(_) => requests.state.borrow_mut().never_asks = never_asks,
                    Err(unusable) => note(&unusable.message),
                }
            }
            // Settled elsewhere: nothing to decide any more.
            let _ = peer.decide(request.call.as_str(), answer);
        });
        self.state.borrow_mut().decisions.insert(call, (id, task.abort_handle()));
    }

    /// Whether the host itself chose these arguments, so that it need not be asked about them.
    pub(crate) fn is_decided(&self, request: &ApprovalRequest) -> bool {
        let chosen = self.state.borrow_mut().edited.remove(&request.call);
        let is_about_call = !matches!(request.subject, Subject::Questions(_) | Subject::Sandbox(_));
        is_about_call && chosen.is_some_and(|chosen| chosen == request.args)
    }

    /// A call no longer waits: the question about it is withdrawn. Whether there was one.
    pub(crate) fn settled(&self, call: &CallId) -> bool {
        let decision = self.state.borrow_mut().decisions.remove(call);
        let Some((id, task)) = decision else { return false };
        self.control.withdraw(&id);
        task.abort();
        true
    }
}

fn context_usage(view: &ConversationView) -> Value {
    let percentage = if view.window == 0 { 0.0 } else { view.tokens as f64 * 100.0 / view.window as f64 };
    let tools: Vec<Value> = view.tools.iter().map(|tool| json!({"name": tool.name})).collect();
    json!({
        "categories": [{"name": "Messages", "tokens": view.tokens, "color": ""}],
        "totalTokens": view.tokens,
        "maxTokens": view.window,
        "rawMaxTokens": view.window,
        "percentage": percentage,
        "model": view.model,
        "isAutoCompactEnabled": true,
        "memoryFiles": [],
        "mcpTools": [],
        "agents": [],
        "gridRows": [],
        "systemTools": tools,
    })
}
