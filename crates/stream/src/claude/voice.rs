//! What such a host is told.

use std::rc::Rc;
use std::sync::Arc;

use pollux_domain::approval::{ApprovalAnswer, ApprovalRequest, Question};
use pollux_domain::event::{Event, HookReport, OpResult, Severity, TurnEnd};
use pollux_domain::failure::Failure;
use pollux_domain::id::SessionId;
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::plain;
use pollux_front::input::Typed;
use pollux_host::{Conversation, VERSION};
use serde_json::{Value, json};

use super::permission;
use super::requests::Requests;
use super::result::{TurnCounts, result};
use super::transcript::Transcript;
use super::words::mode_word;
use crate::host_tools::PendingCall;
use crate::incoming::Unusable;
use crate::outgoing::CommandInfo;
use crate::peer::Facts;
use crate::voice::Voice;

/// Nobody can be asked about a call.
const NOT_ASKED: &str = "The call needs approval, but no one can be asked for it.";

/// Writes the messages of the dialect.
pub(crate) struct ClaudeVoice {
    requests: Rc<Requests>,
    transcript: Transcript,
    session: String,
    directory: String,
}

impl ClaudeVoice {
    pub(crate) fn new(requests: Rc<Requests>) -> Self {
        let mut transcript = Transcript::default();
        transcript.partial.is_wanted = requests.options.includes_partial;
        Self { requests, transcript, session: String::new(), directory: String::new() }
    }

    /// Sends a message with what all messages have.
    fn send(&self, mut message: Value) {
        if let Some(fields) = message.as_object_mut() {
            fields.insert("session_id".to_owned(), self.session.as_str().into());
            fields.insert("uuid".to_owned(), SessionId::random().as_str().into());
        }
        self.requests.control.send(message);
    }

    fn state(&self, state: &str) {
        if self.requests.options.reports_state {
            self.send(json!({
                "type": "system", "subtype": "session_state_changed", "state": state, "sdk_host_only": true,
            }));
        }
    }

    /// The conditions of a turn.
    fn begin(&mut self, typed: &str) {
        self.transcript.begin();
        self.state("running");
        let state = self.requests.state.borrow();
        let servers: Vec<Value> = state
            .reports()
            .iter()
            .map(|server| json!({"name": server["name"], "status": server["status"]}))
            .collect();
        let commands: Vec<&str> = state.commands.iter().map(|command| command.name.as_str()).collect();
        self.send(json!({
            "type": "system",
            "subtype": "init",
            "cwd": self.directory,
            "model": self.transcript.model,
            "permissionMode": mode_word(state.mode, state.never_asks),
            "tools": state.tools,
            "mcp_servers": servers,
            "slash_commands": commands,
            "agents": [],
            "skills": [],
            "plugins": [],
            "output_style": "default",
            "apiKeySource": "none",
            "claude_code_version": VERSION,
        }));
        drop(state);
        if self.requests.options.replays_prompts {
            self.send(json!({
                "type": "user",
                "parent_tool_use_id": null,
                "isReplay": true,
                "message": {"role": "user", "content": typed},
            }));
        }
    }

    fn hook(&self, report: &HookReport) {
        let text = |text: &str| redacted(text).into_owned();
        self.send(json!({
            "type": "system",
            "subtype": "hook_response",
            "hook_name": text(&report.hook),
            "hook_event": report.event,
            "stdout": text(&report.stdout),
            "stderr": text(&report.stderr),
            "exit_code": report.exit_code,
        }));
    }

    fn notice(&self, severity: Severity, message: &str) {
        let severity = match severity {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        let message = redacted(&plain(message)).into_owned();
        self.send(json!({"type": "system", "subtype": "notice", "severity": severity, "message": message}));
    }
}

impl Voice for ClaudeVoice {
    fn opened(&mut self, conversation: &Conversation) {
        self.requests.state.borrow_mut().services = Some(Arc::clone(&conversation.services));
    }

    fn ready(&mut self, facts: &Facts, commands: Vec<CommandInfo>) {
        self.session.clone_from(&facts.session);
        self.transcript.model.clone_from(&facts.model);
        self.requests.ready(facts, commands);
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::SessionReady { session, roots, .. } => {
                session.as_str().clone_into(&mut self.session);
                self.directory = roots.first().map(|root| root.display().to_string()).unwrap_or_default();
            }
            Event::PromptAccepted { typed, .. } => self.begin(typed),
            Event::ModelChanged(model) => self.transcript.model.clone_from(model),
            Event::ModeChanged { mode, .. } => {
                let mut state = self.requests.state.borrow_mut();
                state.mode = *mode;
                let word = mode_word(*mode, state.never_asks);
                drop(state);
                self.send(json!({
                    "type": "system", "subtype": "status", "status": null, "permissionMode": word,
                }));
            }
            Event::ApprovalSettled { call, .. } if self.requests.settled(call) => self.state("running"),
            Event::Budget(status) => self.transcript.cost = status.session.usd,
            Event::HookRan(report) if self.requests.options.includes_hooks => self.hook(report),
            Event::Notice { severity, message, .. } => self.notice(*severity, message),
            _ => {}
        }
        for message in self.transcript.event(event) {
            self.send(message);
        }
    }

    fn said(&self, text: &str) {
        self.notice(Severity::Info, text);
    }

    /// A prompt that cannot be used has a result like every other.
    fn problem(&self, unusable: &Unusable) {
        let nothing = TurnCounts::default();
        self.send(result(&Err(unusable.message.clone()), &nothing, self.transcript.cost));
    }

    fn approval(&mut self, request: &Arc<ApprovalRequest>) -> Option<ApprovalAnswer> {
        let is_asked = self.requests.options.asks && !self.requests.state.borrow().never_asks;
        if !is_asked {
            return Some(ApprovalAnswer::Refuse(NOT_ASKED.to_owned()));
        }
        if self.requests.is_decided(request) {
            return Some(ApprovalAnswer::Once);
        }
        match self.requests.control.ask(permission::question(request)) {
            Ok(asked) => {
                self.state("requires_action");
                self.requests.await_decision(request, asked);
                None
            }
            // The end of input is dealt with like that of an open question.
            Err(why) if why == super::control::GONE => None,
            Err(why) => {
                Some(ApprovalAnswer::Refuse(format!("The call cannot be shown for approval: {why}.")))
            }
        }
    }

    fn has_questions(&self) -> bool {
        false
    }

    fn question(&self, _id: &str, _question: &Question) {}

    fn queued(&self, _id: Option<String>, _position: usize) {}

    fn cancelled(&self, _id: Option<String>) {}

    fn ended(&mut self, outcome: &Result<TurnEnd, String>) {
        self.send(result(outcome, &self.transcript.counts, self.transcript.cost));
        self.transcript.begin();
    }

    fn idle(&mut self) {
        self.state("idle");
    }

    fn failed(&mut self, failure: &Failure) {
        let message = failure.message();
        let initialize = self.requests.state.borrow_mut().initialize.take();
        self.send(result(&Err(message.clone()), &self.transcript.counts, self.transcript.cost));
        if let Some(id) = initialize {
            self.requests.control.refuse(&id, &message);
        }
    }

    fn host_call(&self, _call: &PendingCall) {}

    fn acknowledged(&mut self, id: Option<String>, result: &OpResult) {
        if let Some(id) = id {
            self.requests.acknowledged(&id, result);
        }
    }

    fn released(&mut self) -> Vec<Option<Typed>> {
        self.requests.released()
    }
}
