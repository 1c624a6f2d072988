//! A turn under way: shows its events and passes on the person's input.

use std::pin::Pin;
use std::sync::Arc;

use pollux_domain::event::{Event, FrontId, Op, OpResult, RefusalCode};
use pollux_domain::id::CallId;
use pollux_host::{SandboxSlot, Services, TurnFront, TurnRequest};

use crate::Front;
use crate::input::Input;
use crate::steering::Steering;

/// A running turn: shows its events and passes on the person's input.
pub(super) struct RunningTurn<'x, 'a, 'b> {
    front: &'x mut Front<'a, 'b>,
    sandbox: SandboxSlot,
    shell: Option<Shell>,
    services: Arc<Services>,
    steering: Steering<'a>,
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
    pub(super) fn new(front: &'x mut Front<'a, 'b>, sandbox: SandboxSlot, services: Arc<Services>) -> Self {
        let steering = Steering::new(Arc::clone(&services), front.turn.loaded);
        Self { front, sandbox, shell: None, services, steering }
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
            // What the turn does not get is sent as a prompt, and logged then.
            Event::Steered { typed, by, .. } if self.front.remote.as_ref().is_none_or(|own| own == by) => {
                self.front.turn.log_prompt(typed);
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
            if let Some((id, op)) = self.front.ui.input_to_command().await {
                return TurnRequest::AskAs(id, op);
            }
            shell.stopped = true;
            return TurnRequest::Ask(Op::Cancel);
        }
        loop {
            let input = tokio::select! {
                biased;
                input = self.front.ui.input() => input,
                steer = self.steering.next() => match steer {
                    (id, Ok((op, passed_over))) => {
                        passed_over.iter().for_each(|line| self.front.ui.note(line));
                        return TurnRequest::AskAs(id, op);
                    }
                    (id, Err(failure)) => {
                        let result = OpResult::refused(RefusalCode::Failed, failure.message());
                        self.front.take(&Event::Acknowledged { id, by: FrontId::local(), result });
                        continue;
                    }
                },
            };
            match input {
                Input::Interrupt => return TurnRequest::Ask(Op::Cancel),
                Input::Leave | Input::Gone => return TurnRequest::Leave,
                Input::Detach => {
                    if self.front.may_detach() {
                        return TurnRequest::Leave;
                    }
                }
                Input::Decide { call, answer } => return TurnRequest::Ask(Op::Decide { call, answer }),
                Input::Mode(mode) => {
                    if let Some(op) = self.front.mode_change(&mode.to_string(), &self.sandbox) {
                        return TurnRequest::Ask(op);
                    }
                }
                Input::Steer(id, typed) => self.steering.add(id, typed),
                // It did not reach the session yet.
                Input::Ask(_, Op::Withdraw { prompt }) if self.steering.withdraw(&prompt) => {}
                Input::Ask(id, op) => {
                    self.front.before_asking(&op, &self.sandbox);
                    return TurnRequest::AskAs(id, op);
                }
                Input::Said(typed) if typed.trim() == "/tasks" => {
                    let tasks = self.services.tasks();
                    self.front.note_tasks(&tasks);
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
