//! A conversation with a person at a terminal.
//!
//! The flow is here: prompts, commands, turns. How it is shown and heard is the business of a [`Face`]: the screen, or
//! plain lines where a screen would be in the way.

mod choice;
mod clipboard;
mod commands;
mod desk;
mod face;
mod front_end;
mod input;
mod lines;
mod presentation;
mod screen;
pub mod signals;
mod start;

use std::ops::ControlFlow;
use std::pin::Pin;
use std::time::Instant;

use pollux_config::env::Env;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::content::Part;
use pollux_domain::event::{Event, Op};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::id::{CallId, SessionId};
use pollux_host::request::Request;
use pollux_host::{SandboxSlot, TurnFront, Turned, Wish, cannot_start};
use pollux_output::{Console, Stats};
use pollux_tui::transcript::Item;
use tokio_util::sync::CancellationToken;

use self::commands::{Anew, Line, Reopen, Then};
use self::face::Face;
use self::input::Input;

pub use self::commands::{Captured, Subcommands, reserved};
pub(crate) use self::commands::{Command, Subcommand, listing};
pub use self::presentation::{early_style, open_telemetry, stderr_colour, style};
pub(crate) use self::screen::{Clip, Desk};

/// Things that were said before and are shown when a session is gone on with.
const SHOWN: usize = 50;

/// Runs a conversation until the person leaves.
pub fn run(options: &Request, env: &Env, subcommands: &dyn Subcommands) -> ExitKind {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Console::of_process(early_style(options, env)).fail(&cannot_start(&error)),
    };
    let exit = runtime.block_on(attend(options, env, subcommands));
    runtime.shutdown_background();
    exit
}

async fn attend(options: &Request, env: &Env, subcommands: &dyn Subcommands) -> ExitKind {
    let loaded = match pollux_host::load_settings(options, env) {
        Ok(loaded) => loaded,
        Err(failure) => return Console::of_process(early_style(options, env)).fail(&failure),
    };
    let mut face = match start::face(options, env, &loaded) {
        Ok(face) => face,
        Err(error) => return Console::of_process(early_style(options, env)).fail(&cannot_start(&error)),
    };
    let ended = visit(options, env, loaded, &mut face, subcommands).await;
    face.leave(ended)
}

async fn visit(
    options: &Request,
    env: &Env,
    loaded: pollux_host::Loaded,
    face: &mut Face,
    subcommands: &dyn Subcommands,
) -> Result<(), Failure> {
    let mut loaded = start::settled(options, env, loaded, face).await?;
    options.remarks.iter().for_each(|line| face.note(line));
    let mut options = options.clone();
    let mut first = options.prompt.clone();
    let mut past = Past { subcommands, stats: Stats::default(), started: Instant::now(), session: None };
    loop {
        loaded.notes.iter().for_each(|line| face.note(line));
        match open(&options, &loaded, &mut first, &mut past, face).await? {
            Opened::Left => return Ok(()),
            Opened::NoKey(failure) => {
                if !face.is_screen() || !commands::sign_in(&options, &loaded, face).await? {
                    return Err(failure);
                }
            }
            Opened::Again(changed) => options = *changed,
        }
        loaded = start::settled(&options, env, pollux_host::load_settings(&options, env)?, face).await?;
    }
}

/// What is kept when a conversation is opened again.
struct Past<'a> {
    subcommands: &'a dyn Subcommands,
    stats: Stats,
    started: Instant,
    /// The session that is on the screen already.
    session: Option<SessionId>,
}

/// What came of opening a conversation.
enum Opened {
    Left,
    /// There is no way to the model.
    NoKey(Failure),
    /// It is to be opened again, with these options.
    Again(Box<Request>),
}

/// From the credentials to the last word.
async fn open(
    options: &Request,
    loaded: &pollux_host::Loaded,
    first: &mut Option<String>,
    past: &mut Past<'_>,
    face: &mut Face,
) -> Result<Opened, Failure> {
    let mut turn = match start::prepared(options, loaded, face).await {
        Ok(turn) => turn,
        Err(failure) if failure.exit == ExitKind::Auth => return Ok(Opened::NoKey(failure)),
        Err(failure) => return Err(failure),
    };
    open_telemetry(&turn, true, face.console());
    let ended = converse(&mut turn, first.take(), past, face).await;
    pollux_host::tidy_up(loaded, &turn.session.id);
    Ok(match ended? {
        Some(again) => Opened::Again(Box::new(again)),
        None => Opened::Left,
    })
}

/// Talks until the person leaves, or until it is to be opened again with other options.
async fn converse(
    turn: &mut pollux_host::Prepared<'_>,
    first: Option<String>,
    past: &mut Past<'_>,
    face: &mut Face,
) -> Result<Option<Request>, Failure> {
    let mode = turn.permission.approval;
    face.greet(turn, mode);
    if past.session.as_ref() != Some(&turn.session.id) {
        let (said, above) = turn.session.said(SHOWN);
        face.remember(said, above);
    }
    past.session = Some(turn.session.id.clone());
    let mut conversation = pollux_host::open_conversation(turn, None).await?;
    first.into_iter().for_each(|prompt| face.say_first(prompt));
    let (stats, started, subcommands) = (std::mem::take(&mut past.stats), past.started, past.subcommands);
    let model = turn.loaded.groups.model.name.clone();
    let mut front =
        Front { turn, face, subcommands, mode, model, proposal: Vec::new(), stats, started, forget: false };
    loop {
        front.begin(&mut conversation).await;
        front.settle_in(&mut conversation).await;
        let ended = front.talk(&mut conversation).await;
        let file = conversation.session_file.clone();
        let manner = match &ended {
            Ok(Next::Anew(_)) => Leaving::ForAnother,
            Ok(Next::Reopen(_)) => Leaving::ToComeBack,
            Ok(Next::Nothing) | Err(_) => Leaving::ForGood,
        };
        if manner == Leaving::ForAnother {
            front.face.clear();
        }
        front.leave(conversation, manner).await;
        let anew = match ended? {
            Next::Nothing => return Ok(None),
            Next::Reopen(reopen) => {
                let said = file.is_some_and(|file| file.exists());
                let mut options = reopen.options(front.turn, front.mode, said);
                if front.model != front.turn.loaded.groups.model.name {
                    options.overrides.retain(|(key, _)| key != "model.name");
                    options.overrides.push(("model.name".to_owned(), front.model.clone().into()));
                }
                front.face.note(&reopen.note);
                past.stats = front.stats;
                past.session = Some(front.turn.session.id.clone());
                return Ok(Some(options));
            }
            Next::Anew(anew) => anew,
        };
        front.turn.begin_anew();
        conversation = pollux_host::open_conversation(front.turn, Some(&anew.turns)).await?;
        if front.mode != front.turn.permission.approval {
            let _ = conversation.ask(Op::SetMode(front.mode));
        }
        if front.model != front.turn.loaded.groups.model.name {
            let _ = conversation.ask(Op::SetModel(front.model.clone()));
        }
        front.face.note(&anew.note);
        front.proposal = anew.proposal;
    }
}

/// What the front end knows.
struct Front<'a, 'b> {
    turn: &'b mut pollux_host::Prepared<'a>,
    face: &'b mut Face,
    subcommands: &'b dyn Subcommands,
    mode: ApprovalMode,
    /// The model that is asked, by the name that was chosen.
    model: String,
    /// Calls to be proposed before anything else.
    proposal: Vec<Part>,
    stats: Stats,
    started: Instant,
    /// The session is deleted when it ends.
    forget: bool,
}

/// What follows a conversation.
enum Next {
    Nothing,
    Anew(Anew),
    Reopen(Reopen),
}

/// How a conversation is left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaving {
    ForGood,
    /// Another one takes its place.
    ForAnother,
    /// It is opened again.
    ToComeBack,
}

impl Front<'_, '_> {
    /// Takes what a conversation says at its beginning, so that it stands above the first prompt.
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

    /// Ends a conversation and says how to come back to it.
    async fn leave(&mut self, conversation: pollux_host::Conversation, manner: Leaving) {
        let time_is_up = self.face.time_is_up();
        tokio::select! {
            biased;
            () = self.say_goodbye(conversation, manner) => {}
            // Nobody is there to see the rest, and what was said is on disk.
            () = time_is_up => {}
        }
    }

    async fn say_goodbye(&mut self, mut conversation: pollux_host::Conversation, manner: Leaving) {
        conversation.end(manner == Leaving::ForAnother);
        let mut hurries = false;
        loop {
            tokio::select! {
                biased;
                // Whoever presses Ctrl+C now does not want to wait for hooks.
                () = self.face.hurried(), if !hurries && self.face.ended_by.is_none() => {
                    hurries = true;
                    let _ = conversation.ask(Op::Cancel);
                }
                event = conversation.next() => match event {
                    Some(event) => self.take(&event),
                    None => break,
                },
            }
        }
        let resumable = conversation.session_file.as_ref().is_some_and(|file| file.exists());
        if manner == Leaving::ForGood && (resumable || self.face.is_screen()) {
            self.sum_up();
        }
        if !resumable || manner == Leaving::ToComeBack {
            return;
        }
        if self.forget {
            self.forget_session();
        } else {
            let line = format!("To resume this session: pollux --resume {}", self.turn.session.id);
            match manner {
                Leaving::ForGood => self.face.farewell(Item::info(line)),
                _ => self.face.note(&line),
            }
        }
    }

    /// Prompts and replies, until the person has enough of this session.
    async fn talk(&mut self, conversation: &mut pollux_host::Conversation) -> Result<Next, Failure> {
        if !self.proposal.is_empty() {
            let parts = std::mem::take(&mut self.proposal);
            if self.run_turn(Op::Propose { parts }, conversation).await?.is_break() {
                return Ok(Next::Nothing);
            }
        }
        while let Some(typed) = self.next_prompt(conversation).await {
            let then = match commands::read(&typed) {
                Line::Empty => Then::GoOn,
                Line::Command(command, rest) => (command.run)(self, rest, conversation).await,
                Line::Shell(command) => self.shell(command),
                Line::Unknown(word) if !self.knows(word, conversation) => {
                    self.no_such_command(word);
                    Then::GoOn
                }
                Line::Unknown(_) | Line::Prompt => match self.read_prompt(typed, conversation).await {
                    Some(op) => Then::Work(op),
                    None => Then::GoOn,
                },
            };
            match then {
                Then::GoOn => {}
                Then::Quit => return Ok(Next::Nothing),
                Then::Anew(anew) => return Ok(Next::Anew(anew)),
                Then::Reopen(reopen) => return Ok(Next::Reopen(reopen)),
                Then::Work(op) => {
                    if self.run_turn(op, conversation).await?.is_break() {
                        return Ok(Next::Nothing);
                    }
                }
            }
        }
        Ok(Next::Nothing)
    }

    async fn next_prompt(&mut self, conversation: &mut pollux_host::Conversation) -> Option<String> {
        self.face.ready();
        loop {
            tokio::select! {
                biased;
                input = self.face.input() => match input {
                    Input::Said(typed) => return Some(typed),
                    // It was meant for a turn that has just ended; the screen leaves by a word of its own.
                    Input::Interrupt if self.face.is_screen() => {}
                    Input::Interrupt | Input::Leave | Input::Gone => return None,
                    Input::Mode(mode) => self.change_mode(&mode.to_string(), conversation).await,
                    // Its question was settled meanwhile.
                    Input::Decide { .. } => {}
                },
                event = conversation.next() => {
                    let event = event?;
                    self.take(&event);
                    let said = matches!(&*event, Event::HookRan(report) if report.message.is_some());
                    if said || matches!(&*event, Event::ModeChanged { .. } | Event::Notice { .. }) {
                        self.face.ready();
                    }
                }
            }
        }
    }

    async fn change_mode(&mut self, wished: &str, conversation: &mut pollux_host::Conversation) {
        if let Some(op) = self.mode_wished(wished, &conversation.sandbox) {
            // The session says whether it took it.
            let _ = conversation.ask(op);
        }
    }

    /// What a wish for another mode asks of the session, if anything.
    fn mode_wished(&mut self, wished: &str, sandbox: &SandboxSlot) -> Option<Op> {
        if wished.is_empty() {
            self.face.note(&format!("Mode {}", self.mode));
            return None;
        }
        match wished.parse::<ApprovalMode>() {
            Err(error) => self.face.note(&error.to_string()),
            Ok(ApprovalMode::Yolo) if self.turn.loaded.groups.security.disable_yolo => {
                self.face.note("Mode yolo is forbidden by `security.disableYoloMode`.");
            }
            Ok(mode) if mode == self.mode => self.face.note(&format!("Mode {mode}")),
            Ok(mode) => {
                if mode == ApprovalMode::Yolo {
                    self.confine(sandbox);
                }
                return Some(Op::SetMode(mode));
            }
        }
        None
    }

    /// Puts the sandbox of `--yolo` in force, however that mode is entered. It stays until the session ends: what
    /// was started inside may go on, and nobody is less safe for it.
    fn confine(&mut self, slot: &SandboxSlot) {
        let loaded = self.turn.loaded;
        if self.turn.sandbox.borders.is_some() || !loaded.trust.uses_project() {
            return;
        }
        match pollux_host::check_sandbox(loaded, ApprovalMode::Yolo) {
            Ok(sandbox) => {
                sandbox.notes.iter().for_each(|line| self.face.note(line));
                slot.set(sandbox.borders.clone());
                self.turn.sandbox = sandbox;
                self.face.confined(self.turn, &self.model);
            }
            Err(failure) => self.face.complain(&failure.message()),
        }
    }

    /// A prompt with what it names; `None` when nothing came of it.
    async fn read_prompt(&mut self, typed: String, conversation: &pollux_host::Conversation) -> Option<Op> {
        self.turn.log_prompt(&typed);
        self.face.begin(&typed);
        let cancel = CancellationToken::new();
        let command = match conversation.invocation(&typed, self.turn, self.mode).await {
            Some(Ok(invocation)) => Some(self.confirmed(invocation, conversation).await?),
            Some(Err(failure)) => {
                self.face.complain(&failure.message());
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
            () = self.face.interrupted() => return None,
            expanded = expanding => expanded?,
        };
        match expanded {
            Err(failure) => {
                self.face.complain(&failure.message());
                None
            }
            Ok((parts, passed_over)) => {
                passed_over.iter().for_each(|line| self.face.note(line));
                Some(Op::Prompt { parts, typed })
            }
        }
    }

    /// One turn to its end.
    async fn run_turn(
        &mut self,
        op: Op,
        conversation: &mut pollux_host::Conversation,
    ) -> Result<ControlFlow<()>, Failure> {
        let sandbox = conversation.sandbox.clone();
        let mut at_turn = AtTurn { front: self, sandbox, shell: None };
        Ok(match conversation.turn(op, &mut at_turn).await? {
            Turned::Leaving => ControlFlow::Break(()),
            Turned::Ended(_) => ControlFlow::Continue(()),
        })
    }

    fn take(&mut self, event: &Event) {
        self.stats.fold(event);
        if let Event::ModeChanged { mode, .. } = event {
            self.mode = *mode;
        }
        self.face.event(event);
    }
}

/// The front end while a turn runs.
struct AtTurn<'x, 'a, 'b> {
    front: &'x mut Front<'a, 'b>,
    sandbox: SandboxSlot,
    shell: Option<Shell>,
}

/// A person's own command that runs.
struct Shell {
    call: CallId,
    /// Shows what it prints.
    print: Box<dyn Fn(&str) + Send + Sync>,
    /// It was asked to stop.
    stopped: bool,
}

impl AtTurn<'_, '_, '_> {
    async fn take(&mut self, event: &Event) -> Option<Wish> {
        self.front.take(event);
        match event {
            Event::ShellStarted { call, command, .. } => {
                let print = self.front.face.begin_shell(command);
                self.shell = Some(Shell { call: call.clone(), print, stopped: false });
            }
            Event::CallOutput { call, text } => {
                if let Some(shell) = self.shell.as_ref().filter(|shell| shell.call == *call) {
                    (shell.print)(text);
                }
            }
            Event::ShellEnded(report) => {
                self.shell = None;
                self.front.face.end_shell(report.ending.as_deref());
            }
            Event::ApprovalWanted(request) => {
                let answer = self.front.face.ask(request).await?;
                return Some(Wish::Ask(Op::Decide { call: request.call.clone(), answer }));
            }
            Event::TurnEnded(end) => self.front.face.over(end),
            _ => {}
        }
        self.front.face.is_broken().then_some(Wish::GiveUp)
    }

    async fn wanted(&mut self) -> Wish {
        // Whatever is typed while a command of the person's own runs waits for its end.
        if let Some(shell) = &mut self.shell {
            if shell.stopped {
                std::future::pending::<()>().await;
            }
            self.front.face.interrupted().await;
            shell.stopped = true;
            return Wish::Ask(Op::Cancel);
        }
        loop {
            match self.front.face.input().await {
                Input::Interrupt => return Wish::Ask(Op::Cancel),
                Input::Leave | Input::Gone => return Wish::Leave,
                Input::Decide { call, answer } => return Wish::Ask(Op::Decide { call, answer }),
                Input::Mode(mode) => {
                    if let Some(op) = self.front.mode_wished(&mode.to_string(), &self.sandbox) {
                        return Wish::Ask(op);
                    }
                }
                Input::Said(typed) => self.front.beside(typed),
            }
        }
    }
}

impl TurnFront for AtTurn<'_, '_, '_> {
    fn event<'a>(&'a mut self, event: &'a Event) -> Pin<Box<dyn Future<Output = Option<Wish>> + 'a>> {
        Box::pin(self.take(event))
    }

    fn wish(&mut self) -> Pin<Box<dyn Future<Output = Wish> + '_>> {
        Box::pin(self.wanted())
    }

    fn time_is_up(&self) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(self.front.face.time_is_up())
    }
}
