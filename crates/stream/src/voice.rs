//! What is told to the host, in the words of a dialect.

use std::sync::Arc;

use pollux_domain::approval::{ApprovalAnswer, ApprovalRequest, Question};
use pollux_domain::event::{CallReport, Event, OpResult, TurnEnd};
use pollux_domain::failure::Failure;
use pollux_front::input::Typed;
use pollux_host::Conversation;

use crate::host_tools::PendingCall;
use crate::incoming::Unusable;
use crate::outgoing::CommandInfo;
use crate::peer::Facts;

/// Writes to the host. Events that every run has are written by `output`, unless the dialect replaces them.
pub(crate) trait Voice {
    /// A conversation was opened; its first events follow.
    fn opened(&mut self, _conversation: &Conversation) {}

    /// The session takes prompts.
    fn ready(&mut self, facts: &Facts, commands: Vec<CommandInfo>);

    fn event(&mut self, event: &Event);

    /// The output of a command.
    fn said(&self, text: &str);

    /// A file of the prompt with this id was not read; the turn continues without it.
    fn not_read(&self, text: &str, _id: Option<String>) {
        self.said(text);
    }

    /// A message of the host that cannot be used.
    fn problem(&self, unusable: &Unusable);

    /// Asks the host about a call, or answers at once.
    fn approval(&mut self, request: &Arc<ApprovalRequest>) -> Option<ApprovalAnswer>;

    /// Whether commands can ask the host.
    fn has_questions(&self) -> bool {
        true
    }

    /// A question of a command.
    fn question(&self, id: &str, question: &Question);

    /// A message waits for the running turn.
    fn queued(&self, id: Option<String>, position: usize);

    /// The turn was cancelled.
    fn cancelled(&self, id: Option<String>);

    /// What was carried out has ended, or why it could not begin.
    fn ended(&mut self, _outcome: &Result<TurnEnd, String>) {}

    /// Nothing runs and nothing waits.
    fn idle(&mut self) {}

    /// The session could not be opened, or failed.
    fn failed(&mut self, _failure: &Failure) {}

    /// A call of a host tool.
    fn host_call(&self, call: &PendingCall);

    /// A tool that the host called itself has ended.
    fn called(&self, _report: &CallReport) {}

    /// The next description is to have the declarations of the tools.
    fn declare_tools(&mut self) {}

    /// The result of an operation of the host.
    fn acknowledged(&mut self, id: Option<String>, result: &OpResult);

    /// Prompts that came before the session could take any, once it can; `None` is the end of input.
    fn released(&mut self) -> Vec<Option<Typed>> {
        Vec::new()
    }
}
