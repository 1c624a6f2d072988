//! A turn under way: shows its events and passes on the person's input.

use std::pin::Pin;

use pollux_domain::event::{Event, Op};
use pollux_domain::id::CallId;
use pollux_host::{SandboxSlot, TurnFront, TurnRequest};

use crate::Front;
use crate::input::Input;

/// A running turn: shows its events and passes on the person's input.
pub(super) struct RunningTurn<'x, 'a, 'b> {
    front: &'x mut Front<'a, 'b>,
    sandbox: SandboxSlot,
    shell: Option<Shell>,
}

/// A `!` command that runs.
struct Shell {
    call: CallId,
    /// Shows its output.
    print: Box<dyn Fn(&str) + Send + Sync>,
    /// Cancellation was requested.
    stopped: bool,
}

impl<'x, 'a, 'b> RunningTurn<'x, 'a, 'b> {
    pub(super) fn new(front: &'x mut Front<'a, 'b>, sandbox: SandboxSlot) -> Self {
        Self { front, sandbox, shell: None }
    }

    async fn take(&mut self, event: &Event) -> Option<TurnRequest> {
        self.front.take(event);
        self.front.follow(event, &self.sandbox);
        match event {
            Event::ShellStarted { call, command, .. } => {
                let print = self.front.ui.shell_started(command);
                self.shell = Some(Shell { call: call.clone(), print, stopped: false });
            }
            Event::CallOutput { call, text } => {
                if let Some(shell) = self.shell.as_ref().filter(|shell| shell.call == *call) {
                    (shell.print)(text);
                }
            }
            Event::ShellEnded(report) => {
                self.shell = None;
                self.front.ui.shell_ended(report.ending.as_deref());
            }
            Event::ApprovalWanted(request) => {
                let answer = self.front.ui.ask_approval(request).await?;
                return Some(TurnRequest::Ask(Op::Decide { call: request.call.clone(), answer }));
            }
            Event::TurnEnded(end) => self.front.ui.turn_ended(end),
            _ => {}
        }
        self.front.ui.is_broken().then_some(TurnRequest::GiveUp)
    }

    async fn wanted(&mut self) -> TurnRequest {
        // Input typed while a `!` command runs waits for its end.
        if let Some(shell) = &mut self.shell {
            if shell.stopped {
                std::future::pending::<()>().await;
            }
            self.front.ui.interrupted().await;
            shell.stopped = true;
            return TurnRequest::Ask(Op::Cancel);
        }
        loop {
            match self.front.ui.input().await {
                Input::Interrupt => return TurnRequest::Ask(Op::Cancel),
                Input::Leave | Input::Gone => return TurnRequest::Leave,
                Input::Decide { call, answer } => return TurnRequest::Ask(Op::Decide { call, answer }),
                Input::Mode(mode) => {
                    if let Some(op) = self.front.mode_change(&mode.to_string(), &self.sandbox) {
                        return TurnRequest::Ask(op);
                    }
                }
                Input::Ask(id, op) => {
                    self.front.before_asking(&op, &self.sandbox);
                    return TurnRequest::AskAs(id, op);
                }
                Input::Said(typed) => {
                    if let Some(op) = self.front.during_turn(typed) {
                        return TurnRequest::Ask(op);
                    }
                }
                // Only a front end that waits for the end of a turn sends these.
                prompt @ Input::Prompt(_) => self.front.ui.defer(prompt),
            }
        }
    }
}

impl TurnFront for RunningTurn<'_, '_, '_> {
    fn event<'a>(&'a mut self, event: &'a Event) -> Pin<Box<dyn Future<Output = Option<TurnRequest>> + 'a>> {
        Box::pin(self.take(event))
    }

    fn wish(&mut self) -> Pin<Box<dyn Future<Output = TurnRequest> + '_>> {
        Box::pin(self.wanted())
    }

    fn time_is_up(&self) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(self.front.ui.deadline_passed())
    }
}
