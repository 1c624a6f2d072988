//! A turn under way: shows its events and passes on the person's input.

use std::pin::Pin;
use std::sync::Arc;

use pollux_domain::event::{Event, Op, OpResult, RefusalCode};
use pollux_domain::id::CallId;
use pollux_host::{SandboxSlot, Services, TurnFront, TurnRequest};

use crate::Front;
use crate::commands::{self, TypedLine};
use crate::input::{Input, Typed};
use crate::steering::{Destination, Steering};

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

    /// The turn has ended: a prompt that did not reach the queue of the session is the next one, and is answered then.
    pub(super) fn end(self) {
        for (id, typed) in self.steering.into_prompts() {
            self.front.logged.push(typed.text.clone());
            self.front.ui.defer(Input::Queue(id, Box::new(typed)));
        }
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
            // What the turn does not get is sent as a prompt.
            Event::Steered { typed, by, .. } if self.front.remote.as_ref().is_none_or(|own| own == by) => {
                self.front.log_sent(typed);
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
                        self.front.acknowledge(id, OpResult::refused(RefusalCode::Failed, failure.message()));
                        continue;
                    }
                },
            };
            match input {
                Input::Interrupt => return TurnRequest::Ask(Op::Cancel),
                Input::Leave | Input::Gone => {
                    self.front.ui.ending();
                    return TurnRequest::Leave;
                }
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
                Input::Steer(id, typed) => self.steering.add(id, typed.into(), Destination::Turn),
                Input::Queue(id, typed) if is_prompt(&typed) => {
                    self.front.log_prompt(&typed.text);
                    self.steering.add(id, *typed, Destination::Queue);
                }
                Input::Queue(id, _) => {
                    let why = "only prompts can be queued, not commands";
                    self.front.acknowledge(id, OpResult::refused(RefusalCode::Unsupported, why));
                }
                // It did not reach the session yet.
                Input::Ask(id, Op::Withdraw { prompt }) if self.steering.withdraw(&prompt) => {
                    self.front.acknowledge(id, OpResult::Accepted);
                }
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

/// Whether a text goes to the model as it is; a tool call or a command does not.
fn is_prompt(typed: &Typed) -> bool {
    let is_text = match commands::read(&typed.text) {
        TypedLine::Empty => !typed.parts.is_empty(),
        TypedLine::Shell(_) => !typed.may_be_shell,
        TypedLine::Command(..) | TypedLine::Unknown(_) => !typed.may_be_command,
        TypedLine::Prompt => true,
    };
    typed.call.is_none() && is_text
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
