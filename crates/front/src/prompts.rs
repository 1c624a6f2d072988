//! The flow of a session: awaits prompts, runs commands and turns, shows events.

use std::ops::ControlFlow;
use std::sync::Arc;

use pollux_domain::approval::{ApprovalMode, Outcome};
use pollux_domain::event::{Event, FrontId, Op, OpResult, RefusalCode, RequestId};
use pollux_domain::failure::Failure;
use pollux_host::{SandboxSlot, Turned};
use tokio_util::sync::CancellationToken;

use crate::commands::{self, CommandOutcome, TypedLine};
use crate::input::{Input, ToolCall, Typed};
use crate::running_turn::RunningTurn;
use crate::{Front, Next};

/// What comes while a prompt is awaited.
pub(crate) enum Awaited {
    Prompt(Typed),
    /// The first event of a turn that another front end began, or of a prompt that waited.
    Turn(Arc<Event>),
}

/// Whether an event is the first of a turn or a command.
fn begins_turn(event: &Event) -> bool {
    matches!(
        event,
        Event::PromptAccepted { .. }
            | Event::StepBegan { .. }
            | Event::ShellStarted { .. }
            | Event::Compressing { .. }
    )
}

impl Front<'_, '_> {
    /// Reads prompts and runs turns until the session ends.
    pub(crate) async fn prompt_loop(
        &mut self,
        conversation: &mut pollux_host::Conversation,
    ) -> Result<Next, Failure> {
        if !self.proposal.is_empty() {
            let parts = std::mem::take(&mut self.proposal);
            if self.run_turn(Op::Propose { parts }, conversation).await?.is_break() {
                return Ok(Next::Nothing);
            }
        }
        if std::mem::take(&mut self.joins) {
            self.ui.joins_turn();
            if self.join_turn(None, conversation).await?.is_break() {
                return Ok(Next::Nothing);
            }
        }
        while let Some(next) = self.next_prompt(conversation).await {
            let typed = match next {
                Awaited::Prompt(typed) => typed,
                Awaited::Turn(event) => {
                    if self.join_turn(Some(&event), conversation).await?.is_break() {
                        return Ok(Next::Nothing);
                    }
                    continue;
                }
            };
            match self.carry_out(typed, conversation).await {
                CommandOutcome::Continue => {}
                CommandOutcome::NewSession(_) if self.ui.keeps_its_session() => self.keep_session(),
                CommandOutcome::Reopen(reopen) if reopen.session.is_some() && self.ui.keeps_its_session() => {
                    self.keep_session();
                }
                CommandOutcome::Quit => return Ok(Next::Nothing),
                CommandOutcome::NewSession(new) => return Ok(Next::NewSession(new)),
                CommandOutcome::Reopen(reopen) => return Ok(Next::Reopen(reopen)),
                CommandOutcome::Turn(op) => {
                    if self.run_turn(op, conversation).await?.is_break() {
                        return Ok(Next::Nothing);
                    }
                }
            }
        }
        Ok(Next::Nothing)
    }

    /// Does what was typed: a command, or the turn of a prompt.
    pub(crate) async fn carry_out(
        &mut self,
        typed: Typed,
        conversation: &mut pollux_host::Conversation,
    ) -> CommandOutcome {
        if let Some(ToolCall { name, args }) = typed.call {
            return CommandOutcome::Turn(Op::RunTool { name, args });
        }
        let line = match commands::read(&typed.text) {
            TypedLine::Shell(_) if !typed.may_be_shell => TypedLine::Prompt,
            TypedLine::Empty if !typed.parts.is_empty() => TypedLine::Prompt,
            TypedLine::Command(..) | TypedLine::Unknown(_) if !typed.may_be_command => TypedLine::Prompt,
            line => line,
        };
        match line {
            TypedLine::Empty => CommandOutcome::Continue,
            TypedLine::Command(command, _) if command.needs_terminal() && self.ui.keeps_its_session() => {
                self.ui.note(&format!("{} needs a terminal.", command.name()));
                CommandOutcome::Continue
            }
            TypedLine::Command(command, rest)
                if conversation.is_remote() && command.needs_own_process(rest) =>
            {
                let id = &self.turn.session.id;
                self.ui.note(&format!(
                    "{} is not available in the core. To use it, run `pollux core stop`, then `pollux --resume {id}`.",
                    command.name()
                ));
                CommandOutcome::Continue
            }
            TypedLine::Command(command, rest) => (command.run)(self, rest, conversation).await,
            TypedLine::Shell(command) => self.shell(command),
            TypedLine::Unknown(word) if !self.knows(word, conversation) => {
                self.no_such_command(word);
                CommandOutcome::Continue
            }
            TypedLine::Unknown(_) | TypedLine::Prompt => match self.read_prompt(typed, conversation).await {
                Some(op) => CommandOutcome::Turn(op),
                None => CommandOutcome::Continue,
            },
        }
    }

    pub(crate) fn keep_session(&mut self) {
        self.ui.note("This client uses one session per conversation. Open the other session in the client.");
    }

    pub(crate) async fn next_prompt(
        &mut self,
        conversation: &mut pollux_host::Conversation,
    ) -> Option<Awaited> {
        self.ui.refresh_offers(conversation, self.turn.loaded);
        self.ui.await_prompt();
        loop {
            tokio::select! {
                biased;
                input = self.ui.input() => match input {
                    Input::Said(typed) => return Some(Awaited::Prompt(typed.into())),
                    Input::Prompt(prompt) => return Some(Awaited::Prompt(*prompt)),
                    Input::Detach if self.may_detach() => return None,
                    Input::Detach => {}
                    // The turn has ended; the screen keeps it and sends it as a prompt.
                    Input::Steer(..) => {}
                    Input::Queue(id, prompt) => {
                        self.acknowledge(id, OpResult::Accepted);
                        return Some(Awaited::Prompt(*prompt));
                    }
                    Input::Ask(id, op) => {
                        self.before_asking(&op, &conversation.sandbox);
                        if let Err(refusal) = conversation.ask_as(id.clone(), op) {
                            self.acknowledge(id, OpResult::Refused(refusal));
                        }
                    }
                    // It was meant for a turn that has just ended; the screen sends `Leave` to leave.
                    Input::Interrupt if self.ui.is_screen() => {}
                    Input::Interrupt if !self.ui.interrupt_leaves() => {}
                    Input::Interrupt | Input::Leave | Input::Gone => return None,
                    Input::Mode(mode) => self.change_mode(&mode.to_string(), conversation).await,
                    // A server may ask outside of turns; an approval that was settled meanwhile is refused.
                    Input::Decide { call, answer } => drop(conversation.ask(Op::Decide { call, answer })),
                },
                event = conversation.next() => {
                    let event = event?;
                    if begins_turn(&event) {
                        return Some(Awaited::Turn(event));
                    }
                    self.take(&event);
                    self.follow(&event, &conversation.sandbox);
                    let said = matches!(&*event, Event::HookRan(report) if report.message.is_some());
                    if said || matches!(&*event, Event::ModeChanged { .. } | Event::Notice { .. }) {
                        self.ui.await_prompt();
                    }
                }
            }
        }
    }

    pub(crate) async fn change_mode(&mut self, wanted: &str, conversation: &mut pollux_host::Conversation) {
        if let Some(op) = self.mode_change(wanted, &conversation.sandbox) {
            // The session reports whether it changed.
            let _ = conversation.ask(op);
        }
    }

    /// The operation that changes the mode, if it may be changed.
    pub(crate) fn mode_change(&mut self, wanted: &str, sandbox: &SandboxSlot) -> Option<Op> {
        if wanted.is_empty() {
            let hint = "change it with /mode default|auto_edit|plan|yolo";
            self.ui.note(&format!("Mode {} ({hint})", self.mode));
            return None;
        }
        match wanted.parse::<ApprovalMode>() {
            Err(error) => self.ui.error(&error.to_string()),
            Ok(ApprovalMode::Yolo) if self.turn.loaded.groups.security.disable_yolo => {
                self.ui.error("YOLO mode is disabled by `security.disableYoloMode`.");
            }
            Ok(mode) if mode == self.mode => self.ui.note(&format!("Mode {mode}")),
            Ok(mode) => {
                if mode == ApprovalMode::Yolo {
                    self.confine(sandbox, mode);
                }
                return Some(Op::SetMode(mode));
            }
        }
        None
    }

    /// What an operation of the front end needs before it reaches the session.
    pub(crate) fn before_asking(&mut self, op: &Op, sandbox: &SandboxSlot) {
        if matches!(op, Op::SetMode(ApprovalMode::Yolo)) {
            self.confine(sandbox, ApprovalMode::Yolo);
        }
    }

    /// Applies the sandbox of a mode that is entered later.
    pub(crate) fn confine(&mut self, slot: &SandboxSlot, mode: ApprovalMode) {
        // The process of the session does it.
        if self.remote.is_some() {
            return;
        }
        match self.turn.sandbox.follow_mode(self.turn.loaded, mode) {
            Ok(true) => {
                self.turn.sandbox.notes.iter().for_each(|line| self.ui.note(line));
                slot.set(self.turn.sandbox.rights.clone());
                self.ui.sandbox_changed(self.turn, &self.model);
            }
            Ok(false) => {}
            Err(failure) => self.ui.error(&failure.message()),
        }
    }

    /// Logs a prompt that is sent, unless it was logged when it was queued.
    pub(crate) fn log_sent(&mut self, typed: &str) {
        if let Some(place) = self.logged.iter().position(|logged| logged == typed) {
            self.logged.remove(place);
        } else if !self.ui.has_logged(typed) {
            self.log_prompt(typed);
        }
    }

    /// Logs a prompt. One that waits for a turn is logged before it is sent: until then, no other file contains it.
    pub(crate) fn log_prompt(&mut self, typed: &str) {
        if let Some(problem) = self.turn.log_prompt(typed) {
            self.ui.error(&problem);
        }
    }

    /// A prompt with its custom command, skill and files expanded; `None` if that failed or was cancelled.
    pub(crate) async fn read_prompt(
        &mut self,
        typed: Typed,
        conversation: &pollux_host::Conversation,
    ) -> Option<Op> {
        let Typed { text: typed, parts: attached, .. } = typed;
        self.log_sent(&typed);
        self.ui.turn_started(&typed);
        let cancel = CancellationToken::new();
        let command = match conversation.invocation(&typed, self.turn, self.mode).await {
            Some(Ok(invocation)) => Some(self.confirmed(invocation, conversation).await?),
            Some(Err(failure)) => {
                self.ui.error(&failure.message());
                return None;
            }
            None => None,
        };
        let expanding = async {
            match command {
                Some(invocation) => conversation.carry_out(invocation, self.turn, &cancel).await,
                None => conversation.expand(&typed, self.turn.loaded, &cancel).await,
            }
        };
        let expanded = tokio::select! {
            biased;
            () = self.ui.interrupted() => return None,
            expanded = expanding => expanded?,
        };
        match expanded {
            Err(failure) => {
                self.ui.error(&failure.message());
                None
            }
            Ok((mut parts, passed_over)) => {
                parts.extend(attached);
                passed_over.iter().for_each(|line| self.ui.not_read(line));
                Some(Op::Prompt { parts, typed })
            }
        }
    }

    /// Runs one turn.
    pub(crate) async fn run_turn(
        &mut self,
        op: Op,
        conversation: &mut pollux_host::Conversation,
    ) -> Result<ControlFlow<()>, Failure> {
        let mut turned = match self.follow_turn(op, conversation).await {
            // The session goes on; only this prompt was refused.
            Err(failure) if conversation.is_remote() => {
                self.ui.error(&failure.message());
                return Ok(ControlFlow::Continue(()));
            }
            turned => turned?,
        };
        loop {
            let end = match turned {
                Turned::Leaving => return Ok(ControlFlow::Break(())),
                Turned::Ended(end) => end,
            };
            let Some(end) = end else { return Ok(ControlFlow::Continue(())) };
            let Some(op) = self.ask_about_limit(&end, conversation).await else {
                self.offer_fix(&end).await;
                return Ok(ControlFlow::Continue(()));
            };
            turned = self.follow_turn(op, conversation).await?;
        }
    }

    async fn follow_turn(
        &mut self,
        op: Op,
        conversation: &mut pollux_host::Conversation,
    ) -> Result<Turned, Failure> {
        let sandbox = conversation.sandbox.clone();
        let services = Arc::clone(&conversation.services);
        let mut running = RunningTurn::new(self, sandbox, services);
        let turned = conversation.turn(op, &mut running).await;
        running.end();
        turned
    }

    /// Another mode may have another sandbox.
    pub(crate) fn follow(&mut self, event: &Event, sandbox: &SandboxSlot) {
        if let Event::ModeChanged { mode, .. } = event {
            self.confine(sandbox, *mode);
        }
    }

    /// Tells the front end what came of an operation that did not reach the session.
    pub(crate) fn acknowledge(&mut self, id: RequestId, result: OpResult) {
        self.take(&Event::Acknowledged { id, by: FrontId::local(), result });
    }

    pub(crate) fn take(&mut self, event: &Event) {
        self.stats.fold(event);
        self.receipt.fold(event);
        if let Some(own) = &self.remote {
            match event {
                Event::PromptAccepted { typed, by, .. } if by != own => {
                    let (by, typed) = (by.to_string(), typed.clone());
                    self.ui.note(&format!("Prompt of {by}:"));
                    self.ui.turn_started(&typed);
                }
                Event::ApprovalSettled { outcome, by: Some(by), .. } if by != own => {
                    let done = if *outcome == Outcome::Refuse { "Refused" } else { "Approved" };
                    self.ui.note(&format!("{done} by {by}."));
                }
                _ => {}
            }
        }
        match event {
            Event::ModeChanged { mode, .. } => self.mode = *mode,
            Event::ModelChanged(model) => self.model.clone_from(model),
            // What was asked while a turn runs.
            Event::Acknowledged { result: OpResult::Budget(status), .. } => {
                self.ui.note(&commands::budget_page(status));
            }
            Event::Acknowledged { result: OpResult::Refused(refusal), .. }
                if refusal.code == RefusalCode::Failed =>
            {
                self.ui.error(&refusal.message);
            }
            _ => {}
        }
        self.ui.event(event);
    }
}
