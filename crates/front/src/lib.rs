//! Conversations with people: the flow of prompts and turns, slash commands, and the interface of front ends.
//!
//! Use it to run a conversation ([`run`]) or to write another front end ([`front_end::FrontEnd`]). Plain lines are built in;
//! the screen is the crate `screen`, reached through [`screen_provider::ScreenProvider`]. Subcommands of the program are
//! reached through [`Subcommands`]. It does not assemble sessions (`host`) and draws nothing.

pub mod choice;
mod clipboard;
mod commands;
pub mod editors;
pub mod front_end;
pub mod input;
mod lines;
mod presentation;
mod running_turn;
pub mod screen_provider;
pub mod signals;
mod start;
pub mod stdio;
mod user_interface;

use std::ops::ControlFlow;
use std::time::Instant;

use pollux_config::env::Env;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::content::Part;
use pollux_domain::event::{Event, Op, OpResult, RefusalCode};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::id::SessionId;
use pollux_host::request::Request;
use pollux_host::{SandboxSlot, Turned, cannot_start};
use pollux_output::{Console, Stats};
use tokio_util::sync::CancellationToken;

use self::commands::{CommandOutcome, NewSession, Reopen, SignedIn, TypedLine};
use self::front_end::{Farewell, FrontEnd};
use self::input::{Input, Typed};
use self::running_turn::RunningTurn;
use self::screen_provider::ScreenProvider;
use self::signals::Signals;
use self::user_interface::UserInterface;

pub use self::commands::{Captured, SlashCommand, SlashSubcommand, Subcommands, reserved, slash_commands};
pub use self::presentation::{early_style, is_on, open_telemetry, path_display, stderr_colour, style};

/// Runs a conversation until the person leaves.
pub fn run(
    options: &Request,
    env: &Env,
    subcommands: &dyn Subcommands,
    screens: &dyn ScreenProvider,
) -> ExitKind {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Console::of_process(early_style(options, env)).fail(&cannot_start(&error)),
    };
    let exit = runtime.block_on(open_and_run(options, env, &Ports { subcommands, screens }));
    runtime.shutdown_background();
    exit
}

/// Runs a conversation with a front end of the caller's, on the current runtime, until it leaves.
pub async fn run_with(
    options: &Request,
    env: &Env,
    front_end: Box<dyn FrontEnd>,
    subcommands: &dyn Subcommands,
    screens: &dyn ScreenProvider,
) -> ExitKind {
    let ready = Signals::listen().map_err(|error| cannot_start(&error));
    let ready = ready.and_then(|signals| Ok((signals, pollux_host::load_settings(options, env)?)));
    let (signals, loaded) = match ready {
        Ok(ready) => ready,
        Err(failure) => return front_end.leave(false, Err(failure)),
    };
    let mut ui = UserInterface::new(front_end, signals);
    let ended = run_sessions(options, env, loaded, &mut ui, Ports { subcommands, screens }).await;
    ui.leave(ended)
}

/// What the program provides to a conversation.
#[derive(Clone, Copy)]
struct Ports<'a> {
    subcommands: &'a dyn Subcommands,
    screens: &'a dyn ScreenProvider,
}

async fn open_and_run(options: &Request, env: &Env, ports: &Ports<'_>) -> ExitKind {
    let loaded = match pollux_host::load_settings(options, env) {
        Ok(loaded) => loaded,
        Err(failure) => return Console::of_process(early_style(options, env)).fail(&failure),
    };
    let mut ui = match start::user_interface(options, env, &loaded, ports.screens) {
        Ok(ui) => ui,
        Err(error) => return Console::of_process(early_style(options, env)).fail(&cannot_start(&error)),
    };
    let ended = run_sessions(options, env, loaded, &mut ui, *ports).await;
    ui.leave(ended)
}

async fn run_sessions(
    options: &Request,
    env: &Env,
    loaded: pollux_host::Loaded,
    ui: &mut UserInterface,
    ports: Ports<'_>,
) -> Result<(), Failure> {
    let mut loaded = start::settled(options, env, loaded, ui).await?;
    options.remarks.iter().for_each(|line| ui.note(line));
    let mut options = options.clone();
    let mut first = options.prompt.clone();
    let mut kept = KeptState { ports, stats: Stats::default(), started: Instant::now(), session: None };
    loop {
        loaded.notes.iter().for_each(|line| ui.note(line));
        match open(&options, &mut loaded, &mut first, &mut kept, ui).await? {
            Opened::Left => return Ok(()),
            Opened::NoKey(failure) => {
                let signed_in = match ui.is_screen() {
                    true => commands::sign_in(&options, &loaded, Some(&failure), ui).await?,
                    false => None,
                };
                match signed_in {
                    Some(SignedIn::Model(model)) => commands::use_model(&mut options, &model),
                    Some(SignedIn::Key) => {}
                    None => return Err(failure),
                }
            }
            Opened::Again(changed) => options = *changed,
        }
        loaded = start::settled(&options, env, pollux_host::load_settings(&options, env)?, ui).await?;
    }
}

/// State that survives reopening a conversation.
struct KeptState<'a> {
    ports: Ports<'a>,
    stats: Stats,
    started: Instant,
    /// The session whose messages are already shown.
    session: Option<SessionId>,
}

/// The result of opening a conversation.
enum Opened {
    Left,
    /// No credentials for the model.
    NoKey(Failure),
    /// Reopen it with this request.
    Again(Box<Request>),
}

/// Opens a conversation and runs it to its end.
async fn open(
    options: &Request,
    loaded: &mut pollux_host::Loaded,
    first: &mut Option<String>,
    kept: &mut KeptState<'_>,
    ui: &mut UserInterface,
) -> Result<Opened, Failure> {
    let mut turn = match start::prepared(options, loaded, ui).await {
        Ok(turn) => turn,
        Err(failure) if failure.exit == ExitKind::Auth => return Ok(Opened::NoKey(failure)),
        Err(failure) => return Err(failure),
    };
    open_telemetry(&turn, true, ui.console());
    let ended = converse(&mut turn, first.take(), kept, ui).await;
    pollux_host::tidy_up(turn.loaded, &turn.session.id);
    Ok(match ended? {
        Some(again) => Opened::Again(Box::new(again)),
        None => Opened::Left,
    })
}

/// Runs a conversation until the person leaves; a request if it must be reopened.
async fn converse(
    turn: &mut pollux_host::Prepared<'_>,
    first: Option<String>,
    kept: &mut KeptState<'_>,
    ui: &mut UserInterface,
) -> Result<Option<Request>, Failure> {
    let mode = turn.permission.approval;
    ui.greet(turn, mode);
    if kept.session.as_ref() != Some(&turn.session.id)
        && let Some(most) = ui.history_limit()
    {
        let (said, above) = turn.session.said(most);
        ui.show_history(said, above);
    }
    kept.session = Some(turn.session.id.clone());
    let mut conversation = pollux_host::open_conversation(turn, None).await?;
    first.into_iter().for_each(|prompt| ui.queue_prompt(prompt));
    let (stats, started, ports) = (std::mem::take(&mut kept.stats), kept.started, kept.ports);
    let model = turn.credentials.model.clone();
    let Ports { subcommands, screens } = ports;
    let mut front = Front {
        turn,
        ui,
        subcommands,
        screens,
        mode,
        model,
        proposal: Vec::new(),
        stats,
        started,
        forget: false,
    };
    loop {
        front.begin(&mut conversation).await;
        front.show_session_facts(&mut conversation).await;
        let ended = front.prompt_loop(&mut conversation).await;
        let file = conversation.session_file.clone();
        let leaving = match &ended {
            Ok(Next::NewSession(_)) => Leaving::NewSession,
            Ok(Next::Reopen(_)) => Leaving::Reopen,
            Ok(Next::Nothing) | Err(_) => Leaving::End,
        };
        if leaving == Leaving::NewSession {
            front.ui.clear();
        }
        front.leave(conversation, leaving).await;
        let new = match ended? {
            Next::Nothing => return Ok(None),
            Next::Reopen(reopen) => {
                let stored = file.is_some_and(|file| file.exists());
                let options = reopen.options(front.turn, front.mode, &front.model, stored);
                front.ui.note(&reopen.note);
                kept.stats = front.stats;
                kept.session = Some(front.turn.session.id.clone());
                return Ok(Some(options));
            }
            Next::NewSession(new) => new,
        };
        front.turn.begin_anew();
        conversation = pollux_host::open_conversation(front.turn, Some(&new.turns)).await?;
        if front.mode != front.turn.permission.approval {
            let _ = conversation.ask(Op::SetMode(front.mode));
        }
        if front.model != front.turn.credentials.model {
            let _ = conversation.ask(Op::SetModel(front.model.clone()));
        }
        front.ui.note(&new.note);
        front.proposal = new.proposal;
    }
}

/// A running conversation, as the flow and the commands see it.
struct Front<'a, 'b> {
    turn: &'b mut pollux_host::Prepared<'a>,
    ui: &'b mut UserInterface,
    subcommands: &'b dyn Subcommands,
    screens: &'b dyn ScreenProvider,
    mode: ApprovalMode,
    /// The chosen model name or alias.
    model: String,
    /// Calls to propose before the first prompt.
    proposal: Vec<Part>,
    stats: Stats,
    started: Instant,
    /// Delete the session when it ends.
    forget: bool,
}

/// What follows when a session ends.
enum Next {
    Nothing,
    NewSession(NewSession),
    Reopen(Reopen),
}

/// Why a session is left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaving {
    End,
    /// Another session takes its place.
    NewSession,
    /// It is reopened.
    Reopen,
}

impl Front<'_, '_> {
    /// Shows the first events of a session, so that they stand above the first prompt.
    async fn begin(&mut self, conversation: &mut pollux_host::Conversation) {
        while let Some(event) = conversation.next().await {
            self.take(&event);
            if matches!(&*event, Event::SessionReady { .. }) {
                break;
            }
        }
        while let Some(event) = conversation.try_next() {
            self.take(&event);
        }
    }

    /// Ends a session and shows how to resume it.
    async fn leave(&mut self, conversation: pollux_host::Conversation, leaving: Leaving) {
        let deadline = self.ui.deadline_passed();
        tokio::select! {
            biased;
            () = self.close_session(conversation, leaving) => {}
            // The rest would not be seen, and the session is on disk.
            () = deadline => {}
        }
    }

    async fn close_session(&mut self, mut conversation: pollux_host::Conversation, leaving: Leaving) {
        conversation.end(leaving == Leaving::NewSession);
        let mut cancelled = false;
        loop {
            tokio::select! {
                biased;
                // Ctrl+C now means: do not wait for hooks.
                () = self.ui.cancel_requested(), if !cancelled && self.ui.ended_by.is_none() => {
                    cancelled = true;
                    let _ = conversation.ask(Op::Cancel);
                }
                event = conversation.next() => match event {
                    Some(event) => self.take(&event),
                    None => break,
                },
            }
        }
        let resumable = conversation.session_file.as_ref().is_some_and(|file| file.exists());
        if leaving == Leaving::End && (resumable || self.ui.is_screen()) {
            self.show_final_stats();
        }
        if !resumable || leaving == Leaving::Reopen {
            return;
        }
        if self.forget {
            self.forget_session();
        } else {
            let line = commands::resume_line(self.turn, &self.model);
            match leaving {
                Leaving::End => self.ui.farewell(Farewell::Note(line)),
                _ => self.ui.note(&line),
            }
        }
    }

    /// Reads prompts and runs turns until the session ends.
    async fn prompt_loop(&mut self, conversation: &mut pollux_host::Conversation) -> Result<Next, Failure> {
        if !self.proposal.is_empty() {
            let parts = std::mem::take(&mut self.proposal);
            if self.run_turn(Op::Propose { parts }, conversation).await?.is_break() {
                return Ok(Next::Nothing);
            }
        }
        while let Some(typed) = self.next_prompt(conversation).await {
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
    async fn carry_out(
        &mut self,
        typed: Typed,
        conversation: &mut pollux_host::Conversation,
    ) -> CommandOutcome {
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

    fn keep_session(&mut self) {
        self.ui.note("This client has one session per conversation; open the other session in the client.");
    }

    async fn next_prompt(&mut self, conversation: &mut pollux_host::Conversation) -> Option<Typed> {
        self.ui.refresh_offers(conversation, self.turn.loaded);
        self.ui.await_prompt();
        loop {
            tokio::select! {
                biased;
                input = self.ui.input() => match input {
                    Input::Said(typed) => return Some(typed.into()),
                    Input::Prompt(prompt) => return Some(*prompt),
                    Input::Ask(id, op) => {
                        self.before_asking(&op, &conversation.sandbox);
                        // A session that has ended is noticed by its events.
                        let _ = conversation.ask_as(id, op);
                    }
                    // It was meant for a turn that has just ended; the screen sends `Leave` to leave.
                    Input::Interrupt if self.ui.is_screen() => {}
                    Input::Interrupt | Input::Leave | Input::Gone => return None,
                    Input::Mode(mode) => self.change_mode(&mode.to_string(), conversation).await,
                    // A server may ask outside of turns; an approval that was settled meanwhile is refused.
                    Input::Decide { call, answer } => drop(conversation.ask(Op::Decide { call, answer })),
                },
                event = conversation.next() => {
                    let event = event?;
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

    async fn change_mode(&mut self, wanted: &str, conversation: &mut pollux_host::Conversation) {
        if let Some(op) = self.mode_change(wanted, &conversation.sandbox) {
            // The session reports whether it changed.
            let _ = conversation.ask(op);
        }
    }

    /// The operation that changes the mode, if it may be changed.
    fn mode_change(&mut self, wanted: &str, sandbox: &SandboxSlot) -> Option<Op> {
        if wanted.is_empty() {
            self.ui.note(&format!("Mode {}", self.mode));
            return None;
        }
        match wanted.parse::<ApprovalMode>() {
            Err(error) => self.ui.note(&error.to_string()),
            Ok(ApprovalMode::Yolo) if self.turn.loaded.groups.security.disable_yolo => {
                self.ui.note("Yolo mode is disabled by `security.disableYoloMode`.");
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
    fn before_asking(&mut self, op: &Op, sandbox: &SandboxSlot) {
        if matches!(op, Op::SetMode(ApprovalMode::Yolo)) {
            self.confine(sandbox, ApprovalMode::Yolo);
        }
    }

    /// Applies the sandbox of a mode that is entered later.
    fn confine(&mut self, slot: &SandboxSlot, mode: ApprovalMode) {
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

    /// A prompt with its custom command, skill and files expanded; `None` if that failed or was cancelled.
    async fn read_prompt(&mut self, typed: Typed, conversation: &pollux_host::Conversation) -> Option<Op> {
        let Typed { text: typed, parts: attached, .. } = typed;
        self.turn.log_prompt(&typed);
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
                passed_over.iter().for_each(|line| self.ui.note(line));
                Some(Op::Prompt { parts, typed })
            }
        }
    }

    /// Runs one turn.
    async fn run_turn(
        &mut self,
        op: Op,
        conversation: &mut pollux_host::Conversation,
    ) -> Result<ControlFlow<()>, Failure> {
        let sandbox = conversation.sandbox.clone();
        let mut running = RunningTurn::new(self, sandbox);
        let mut turned = conversation.turn(op, &mut running).await?;
        loop {
            let end = match turned {
                Turned::Leaving => return Ok(ControlFlow::Break(())),
                Turned::Ended(end) => end,
            };
            let Some(end) = end else { return Ok(ControlFlow::Continue(())) };
            let Some(op) = self.ask_about_limit(&end, conversation).await else {
                return Ok(ControlFlow::Continue(()));
            };
            let sandbox = conversation.sandbox.clone();
            let mut running = RunningTurn::new(self, sandbox);
            turned = conversation.turn(op, &mut running).await?;
        }
    }

    /// Another mode may have another sandbox.
    fn follow(&mut self, event: &Event, sandbox: &SandboxSlot) {
        if let Event::ModeChanged { mode, .. } = event {
            self.confine(sandbox, *mode);
        }
    }

    fn take(&mut self, event: &Event) {
        self.stats.fold(event);
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
