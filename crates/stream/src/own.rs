//! The program's own messages, in both dialects of the output.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use pollux_domain::approval::{ApprovalAnswer, ApprovalMode, ApprovalRequest, Question};
use pollux_domain::content::{Blob, Body};
use pollux_domain::event::{CallReport, CompressionStatus, ConversationView, Event, Op, OpResult};
use pollux_domain::id::CallId;
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::plain;
use pollux_domain::tool::ToolSpec;
use pollux_front::input::{ToolCall, Typed, mention};

use crate::approvals;
use crate::host_tools::{HostAnswer, PendingCall};
use crate::incoming::{self, Approve, Call, Content, ContentPart, Incoming, Set, ToolResult, Unusable};
use crate::outgoing::{
    Approval, ApprovalSettled, CallOutput, CallResult, CallStarted, Cancelled, CommandInfo, Compressed,
    Description, Error, HostCall, Message, Mode, Model, Outgoing, PromptInfo, Queued, Ready, Rewound,
    ToolInfo, Why,
};
use crate::peer::{Facts, Peer};
use crate::voice::Voice;
use crate::wire::Wire;

/// The version of the protocol.
pub(crate) const PROTOCOL: u64 = 1;
/// Live output is left out while the host has this much to read.
const MAX_WAITING: usize = 1024 * 1024;

/// Writes the program's own messages.
pub(crate) struct Own {
    wire: Wire,
    /// Whether starts and live output of calls are sent.
    includes_partial: bool,
    /// Bytes of live output that were left out, by call.
    skipped: HashMap<CallId, u64>,
    mode: ApprovalMode,
    /// The next description has the declarations of the tools.
    declares: bool,
}

impl Own {
    pub(crate) fn new(wire: Wire, includes_partial: bool) -> Self {
        Self {
            wire,
            includes_partial,
            skipped: HashMap::new(),
            mode: ApprovalMode::default(),
            declares: false,
        }
    }

    fn output(&mut self, call: &CallId, text: &str) {
        if self.wire.outbox().waiting() > MAX_WAITING {
            *self.skipped.entry(call.clone()).or_default() += text.len() as u64;
            return;
        }
        self.wire.send(&Outgoing::CallOutput(CallOutput {
            call_id: call.as_str().to_owned(),
            text: plain(text).into_owned(),
            skipped: self.skipped.remove(call),
        }));
    }

    /// The answer to `describe`.
    fn description(&mut self, view: &ConversationView) {
        let prompts = view.prompts.iter();
        self.wire.send(&Outgoing::Description(Description {
            model: view.model.clone(),
            resolved_model: view.resolved_model.clone(),
            mode: self.mode.to_string(),
            tokens: view.tokens,
            window: view.window,
            prompts: prompts
                .map(|prompt| PromptInfo { id: prompt.message.clone(), text: prompt.text.clone() })
                .collect(),
            tools: view.tools.iter().map(|tool| tool.name.clone()).collect(),
            declarations: std::mem::take(&mut self.declares)
                .then(|| view.tools.iter().map(tool_info).collect()),
        }));
    }
}

impl Voice for Own {
    fn ready(&mut self, facts: &Facts, commands: Vec<CommandInfo>) {
        self.mode = facts.mode;
        self.wire.send(&Outgoing::Ready(Ready {
            protocol: PROTOCOL,
            session_id: facts.session.clone(),
            mode: facts.mode.to_string(),
            model: facts.model.clone(),
            commands,
        }));
    }

    fn event(&mut self, event: &Event) {
        let message = match event {
            Event::ApprovalSettled { call, outcome, by } => Outgoing::ApprovalSettled(ApprovalSettled {
                call_id: call.as_str().to_owned(),
                outcome: outcome.as_str().to_owned(),
                by: by.as_ref().map(ToString::to_string),
            }),
            Event::CallStarted { call } if self.includes_partial => {
                Outgoing::CallStarted(CallStarted { call_id: call.as_str().to_owned() })
            }
            Event::CallOutput { call, text } if self.includes_partial => return self.output(call, text),
            Event::CallFinished(report) => {
                self.skipped.remove(&report.call);
                return;
            }
            Event::ModeChanged { mode, by } => {
                self.mode = *mode;
                Outgoing::Mode(Mode { mode: mode.to_string(), by: by.as_ref().map(ToString::to_string) })
            }
            Event::ModelChanged(model) => Outgoing::Model(Model { model: model.clone() }),
            Event::Rewound { to } => Outgoing::Rewound(Rewound { to: to.clone() }),
            Event::Compressed(done) => Outgoing::Compressed(Compressed {
                success: matches!(done.status, CompressionStatus::Compressed | CompressionStatus::Truncated),
                tokens_before: done.tokens_before,
                tokens_after: done.tokens_after,
            }),
            _ => return,
        };
        self.wire.send(&message);
    }

    fn said(&self, text: &str) {
        self.wire.send(&Outgoing::Message(Message {
            role: "system".to_owned(),
            content: redacted(&plain(text)).into_owned(),
            delta: false,
        }));
    }

    fn not_read(&self, text: &str, id: Option<String>) {
        self.problem(&Unusable { code: "FILE_NOT_READ", message: text.to_owned(), id });
    }

    fn problem(&self, unusable: &Unusable) {
        self.wire.send(&Outgoing::Error(Error {
            message: redacted(&plain(&unusable.message)).into_owned(),
            code: unusable.code.to_owned(),
            id: unusable.id.clone(),
        }));
    }

    fn approval(&mut self, request: &Arc<ApprovalRequest>) -> Option<ApprovalAnswer> {
        self.wire.send(&Outgoing::Approval(approvals::message(request)));
        None
    }

    fn question(&self, id: &str, question: &Question) {
        self.wire.send(&Outgoing::Approval(Approval {
            call_id: id.to_owned(),
            tool_name: "command".to_owned(),
            subject: approvals::no_subject("questions"),
            why: Why { reason: "The command asks.".to_owned(), rule: None, parts: None },
            offers: Vec::new(),
            destroys: None,
            questions: Some(vec![approvals::question(question)]),
        }));
    }

    fn queued(&self, id: Option<String>, position: usize) {
        self.wire.send(&Outgoing::Queued(Queued { id, position: position as u64 }));
    }

    fn cancelled(&self, id: Option<String>) {
        self.wire.send(&Outgoing::Cancelled(Cancelled { id }));
    }

    fn host_call(&self, call: &PendingCall) {
        self.wire.send(&Outgoing::HostCall(HostCall {
            call_id: call.call.clone(),
            name: call.name.clone(),
            args: call.args.clone(),
        }));
    }

    fn declare_tools(&mut self) {
        self.declares = true;
    }

    fn called(&self, report: &CallReport) {
        self.wire.send(&Outgoing::CallResult(CallResult {
            call_id: report.call.as_str().to_owned(),
            status: report.outcome.status().as_str().to_owned(),
            output: report.answer.clone(),
        }));
    }

    fn acknowledged(&mut self, id: Option<String>, result: &OpResult) {
        match result {
            OpResult::Refused(refusal) => {
                let code = refusal.code.as_str();
                self.problem(&Unusable { code, message: refusal.message.clone(), id });
            }
            OpResult::Conversation(view) => self.description(view),
            // Their events tell the rest.
            OpResult::Accepted
            | OpResult::Model { .. }
            | OpResult::Rewound { .. }
            | OpResult::Budget(_)
            | OpResult::Explained(_) => {}
        }
    }
}

fn tool_info(tool: &Arc<ToolSpec>) -> ToolInfo {
    ToolInfo {
        name: tool.name.clone(),
        title: tool.display_name.clone(),
        description: tool.description.clone(),
        parameters: tool.parameters.clone(),
        kind: tool.kind.as_str().to_owned(),
    }
}

/// Takes a line of the host.
pub(crate) fn take(peer: &Rc<Peer>, line: &[u8]) {
    if line.iter().all(u8::is_ascii_whitespace) {
        return;
    }
    if let Err(unusable) = incoming::read(line).and_then(|message| obey(peer, message)) {
        peer.refuse(&unusable);
    }
}

fn obey(peer: &Rc<Peer>, message: Incoming) -> Result<(), Unusable> {
    match message {
        Incoming::Message(message) => {
            let typed = prompt(message.content);
            if typed.text.trim().is_empty() && typed.parts.is_empty() {
                return Err(Unusable { id: message.id, ..Unusable::invalid("`content` is empty") });
            }
            peer.submit(typed, message.id, message.when)
        }
        Incoming::Approve(approve) => decide(peer, approve),
        Incoming::Interrupt(_) => {
            peer.interrupt();
            Ok(())
        }
        Incoming::Set(set) => change(peer, set),
        Incoming::Command(command) => {
            let name = command.name.trim_start_matches('/');
            if name.is_empty() || name.contains(char::is_whitespace) {
                let unusable = Unusable::invalid("`name` must be the name of one command");
                return Err(Unusable { id: command.id, ..unusable });
            }
            let text = format!("/{name} {}", command.args.unwrap_or_default());
            peer.submit(slash_command(text.trim_end()), command.id, None)
        }
        Incoming::Compress(compress) => peer.submit(slash_command("/compress"), compress.id, None),
        Incoming::Rewind(rewind) if !peer.is_idle() => {
            let message = "a turn is running".to_owned();
            Err(Unusable { code: "BUSY", message, id: rewind.id })
        }
        Incoming::Rewind(rewind) => {
            peer.ask(Op::Rewind { to: rewind.to }, rewind.id);
            Ok(())
        }
        Incoming::Describe(describe) => {
            if describe.declarations == Some(true) {
                peer.voice.borrow_mut().declare_tools();
            }
            peer.ask(Op::Describe, describe.id);
            Ok(())
        }
        Incoming::Call(Call { name, args, id }) => {
            let call = Some(ToolCall { name, args: args.unwrap_or_default() });
            peer.submit(Typed { call, ..Typed::default() }, id, None)
        }
        Incoming::Init(init) => {
            let tools = init.tools.unwrap_or_default();
            peer.tools.declare(tools)
        }
        Incoming::ToolResult(ToolResult { call_id, output, is_error }) => {
            let text = match output {
                serde_json::Value::String(text) => text,
                other => other.to_string(),
            };
            let failed = is_error == Some(true);
            let answer = if failed { HostAnswer::Failed(text) } else { HostAnswer::Done(text) };
            peer.tool_result(&call_id, answer)
        }
        Incoming::End(_) => {
            peer.input_ended();
            Ok(())
        }
    }
}

fn decide(peer: &Peer, approve: Approve) -> Result<(), Unusable> {
    let call = approve.call_id.clone();
    peer.decide(&call, approvals::answer(approve)?)
}

fn change(peer: &Peer, set: Set) -> Result<(), Unusable> {
    let Set { mode, model, id } = set;
    if model.as_ref().is_some_and(|model| model.trim().is_empty()) {
        return Err(Unusable { id, ..Unusable::invalid("`model` is empty") });
    }
    if let Some(mode) = mode {
        let mode = mode.parse::<ApprovalMode>().map_err(|error| {
            let unusable = Unusable::invalid(error.to_string());
            Unusable { id: id.clone(), ..unusable }
        })?;
        peer.set_mode(mode, id.clone())?;
    }
    if let Some(model) = model {
        peer.ask(Op::SetModel(model), id);
    }
    Ok(())
}

/// A prompt. Built-in commands are not run by their slash: `command` does that.
pub(crate) fn prompt(content: Content) -> Typed {
    let mut typed = Typed::default();
    let parts = match content {
        Content::Text(text) => {
            typed.text = text;
            return typed;
        }
        Content::Parts(parts) => parts,
    };
    for part in parts {
        match part {
            ContentPart::Text { text } => typed.text.push_str(&text),
            ContentPart::File { path } => {
                if typed.text.ends_with(|last: char| !last.is_whitespace()) {
                    typed.text.push(' ');
                }
                typed.text.push_str(&mention(&path, None));
                typed.text.push(' ');
            }
            ContentPart::Image { mime_type, data } => {
                typed.parts.push(Body::InlineData(Blob { mime_type, data_base64: data }).into());
            }
        }
    }
    typed
}

pub(crate) fn slash_command(text: &str) -> Typed {
    Typed { text: text.to_owned(), may_be_command: true, ..Typed::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_become_text_mentions_and_images() {
        let typed = prompt(Content::Parts(vec![
            ContentPart::Text { text: "compare".to_owned() },
            ContentPart::File { path: "a b.rs".to_owned() },
            ContentPart::File { path: "c.rs".to_owned() },
            ContentPart::Image { mime_type: "image/png".to_owned(), data: "AAAA".to_owned() },
        ]));
        assert_eq!(typed.text, "compare @\"a b.rs\" @\"c.rs\" ");
        assert_eq!(typed.parts.len(), 1);
        assert!(!typed.may_be_command && !typed.may_be_shell);
    }
}
