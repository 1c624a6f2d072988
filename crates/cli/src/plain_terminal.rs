//! A conversation on a terminal in plain lines: nothing is redrawn, everything can be read aloud.
//!
//! Answers are typed as numbers or words. A line that was typed before a question stands is never taken as
//! its answer.

mod commands;
mod keyboard;
mod question;
mod words;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::time::Instant;

use pollux_config::env::Env;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::content::Part;
use pollux_domain::event::{Event, NoticeCode, Op, Severity, TurnEnd};
use pollux_domain::exit::ExitKind;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use self::commands::{Anew, Line, Then};
pub(crate) use self::keyboard::Keyboard;
use crate::agents_command;
use crate::console::Console;
use crate::headless::Stats;
use crate::launch::Options;
use crate::report::Failure;
use crate::run::{VERSION, cannot_start, early_style, open_telemetry, prepare, style};
use crate::trust_command::{self, Person};
use crate::wire;

pub(crate) use self::commands::is_built_in;

/// Runs a conversation until the person leaves.
pub(crate) fn run(options: &Options, env: &Env) -> ExitKind {
    let loaded = match settled(options, env) {
        Ok(loaded) => loaded,
        Err(failure) => return Console::of_process(early_style(options, env)).fail(&failure),
    };
    let mut console = Console::of_process(style(&loaded.groups.output, options, env));
    options.remarks.iter().chain(&loaded.notes).for_each(|line| console.note(line));
    let mut turn = match prepare(options, &loaded, &mut console) {
        Ok(turn) => turn,
        Err(failure) => return console.fail(&failure),
    };
    open_telemetry(&turn, true, &mut console);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return console.fail(&cannot_start(&error)),
    };
    let ended = runtime.block_on(converse(&mut turn, options.prompt.clone(), &mut console));
    runtime.shutdown_background();
    wire::tidy_up(&loaded, &turn.session.id);
    match ended {
        Ok(()) => ExitKind::Success,
        Err(failure) => console.fail(&failure),
    }
}

/// The settings, once it is settled whether the folder is trusted. Nothing of it is used before.
fn settled(options: &Options, env: &Env) -> Result<wire::Loaded, Failure> {
    let loaded = wire::load_settings(options, env)?;
    let (mut input, mut screen) = (io::stdin().lock(), io::stdout());
    if !loaded.trust.is_open() {
        acknowledge(options, env, &loaded, &mut input, &mut screen)?;
        return Ok(loaded);
    }
    let mut person = Person { at_terminal: true, input: &mut input, screen: &mut screen };
    let trusted = trust_command::ask(&*wire::folder(None, options, env)?, &mut person)?;
    if !trusted {
        return Ok(loaded);
    }
    let loaded = wire::load_settings(options, env)?;
    acknowledge(options, env, &loaded, &mut input, &mut screen)?;
    Ok(loaded)
}

/// Agents that came with the project are used once somebody has agreed to them.
fn acknowledge(
    options: &Options,
    env: &Env,
    loaded: &wire::Loaded,
    input: &mut dyn io::BufRead,
    screen: &mut dyn Write,
) -> Result<(), Failure> {
    if !loaded.trust.uses_project() || !loaded.project.gemini_dir().join("agents").is_dir() {
        return Ok(());
    }
    agents_command::ask(&mut *wire::agent_set(options, env)?, input, screen)
}

async fn converse(
    turn: &mut wire::Turn<'_>,
    first: Option<String>,
    console: &mut Console,
) -> Result<(), Failure> {
    let interrupt = signal(SignalKind::interrupt()).map_err(|error| cannot_start(&error))?;
    let mut conversation = wire::open_conversation(turn, None).await?;
    let mode = turn.permission.approval;
    console.note(&format!("Pollux {VERSION}. Mode {mode}. /help explains; /quit ends."));
    let keyboard = Keyboard::open().map_err(|error| cannot_start(&error))?;
    let mut front = Front {
        turn,
        console,
        keyboard,
        interrupt,
        mode,
        ahead: first.into_iter().collect(),
        proposal: Vec::new(),
        stats: Stats::default(),
        started: Instant::now(),
    };
    loop {
        front.warn(&mut conversation);
        let ended = front.talk(&mut conversation).await;
        front.leave(conversation, matches!(ended, Ok(Some(_)))).await;
        let Some(anew) = ended? else { return Ok(()) };
        front.turn.begin_anew();
        conversation = wire::open_conversation(front.turn, Some(&anew.turns)).await?;
        if front.mode != front.turn.permission.approval {
            let _ = conversation.handle.ops.send(Op::SetMode(front.mode)).await;
        }
        front.console.note(&anew.note);
        front.proposal = anew.proposal;
    }
}

/// What the front end knows.
struct Front<'a, 'b> {
    turn: &'b mut wire::Turn<'a>,
    console: &'b mut Console,
    keyboard: Keyboard,
    interrupt: Signal,
    mode: ApprovalMode,
    /// Prompts that were typed before the model was done.
    ahead: VecDeque<String>,
    /// Calls to be proposed before anything else.
    proposal: Vec<Part>,
    stats: Stats,
    started: Instant,
}

impl Front<'_, '_> {
    /// Says what was noticed while the conversation was assembled.
    fn warn(&mut self, conversation: &mut wire::Conversation) {
        for message in std::mem::take(&mut conversation.warnings) {
            let (severity, code) = (Severity::Warning, NoticeCode::Workspace);
            let _ = self.console.take(&Event::Notice { severity, code, message });
        }
    }

    /// Ends a conversation and says how to come back to it. Another one takes its place if `cleared`.
    async fn leave(&mut self, mut conversation: wire::Conversation, cleared: bool) {
        conversation.beside().iter().for_each(|event| self.take(event));
        conversation.end(cleared).await;
        loop {
            tokio::select! {
                biased;
                // Whoever presses Ctrl+C now does not want to wait for hooks.
                _ = self.interrupt.recv() => {
                    let _ = conversation.handle.ops.send(Op::Cancel).await;
                }
                event = conversation.handle.events.recv() => match event {
                    Some(event) => self.take(&event),
                    None => break,
                },
            }
        }
        let resumable = conversation.session_file.as_ref().is_some_and(|file| file.exists());
        conversation.close().await.iter().for_each(|line| self.console.note(line));
        if resumable {
            let id = &self.turn.session.id;
            self.console.note(&format!("To continue this conversation: pollux --resume {id}"));
        }
    }

    /// Prompts and replies, until the person has enough of this session.
    async fn talk(&mut self, conversation: &mut wire::Conversation) -> Result<Option<Anew>, Failure> {
        if !self.proposal.is_empty() {
            let parts = std::mem::take(&mut self.proposal);
            if self.run_turn(Op::Propose { parts }, conversation).await?.is_break() {
                return Ok(None);
            }
        }
        while let Some(typed) = self.next_prompt(conversation).await {
            conversation.beside().iter().for_each(|event| self.take(event));
            let then = match commands::read(&typed) {
                Line::Empty => Then::GoOn,
                Line::Command(name, rest) => self.command(name, rest, conversation).await,
                Line::Shell(command) => {
                    self.shell(command, conversation).await;
                    Then::GoOn
                }
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
                Then::Quit => return Ok(None),
                Then::Anew(anew) => return Ok(Some(anew)),
                Then::Work(op) => {
                    if self.run_turn(op, conversation).await?.is_break() {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(None)
    }

    async fn next_prompt(&mut self, conversation: &mut wire::Conversation) -> Option<String> {
        if let Some(typed) = self.ahead.pop_front() {
            return Some(typed);
        }
        show("> ");
        loop {
            tokio::select! {
                biased;
                _ = self.interrupt.recv() => return None,
                line = self.keyboard.message() => return line,
                event = conversation.handle.events.recv() => {
                    let event = event?;
                    self.take(&event);
                    let said = matches!(&event, Event::HookRan(report) if report.message.is_some());
                    if said || matches!(event, Event::ModeChanged(_) | Event::Notice { .. }) {
                        show("> ");
                    }
                }
            }
        }
    }

    async fn change_mode(&mut self, wished: &str, conversation: &mut wire::Conversation) {
        if wished.is_empty() {
            self.console.note(&format!("Mode {}", self.mode));
            return;
        }
        match wished.parse::<ApprovalMode>() {
            Err(error) => self.console.note(&error.to_string()),
            Ok(ApprovalMode::Yolo) if self.turn.loaded.groups.security.disable_yolo => {
                self.console.note("Mode yolo is forbidden by `security.disableYoloMode`.");
            }
            Ok(mode) if mode == self.mode => self.console.note(&format!("Mode {mode}")),
            Ok(mode) => {
                // The session says whether it took it.
                let _ = conversation.handle.ops.send(Op::SetMode(mode)).await;
            }
        }
    }

    /// A prompt with what it names; `None` when nothing came of it.
    async fn read_prompt(&mut self, typed: String, conversation: &wire::Conversation) -> Option<Op> {
        self.turn.log_prompt(&typed);
        let cancel = CancellationToken::new();
        let command = match conversation.invocation(&typed, self.turn, self.mode).await {
            Some(Ok(invocation)) => Some(self.confirmed(invocation, conversation).await?),
            Some(Err(failure)) => {
                self.console.note(&failure.message());
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
            _ = self.interrupt.recv() => return None,
            expanded = expanding => expanded?,
        };
        match expanded {
            Err(failure) => {
                self.console.note(&failure.message());
                None
            }
            Ok((parts, passed_over)) => {
                passed_over.iter().for_each(|line| self.console.note(line));
                Some(Op::Prompt { parts, typed })
            }
        }
    }

    /// One turn to its end.
    async fn run_turn(
        &mut self,
        op: Op,
        conversation: &mut wire::Conversation,
    ) -> Result<ControlFlow<()>, Failure> {
        let gone = || Failure::new(ExitKind::Failure, "the session ended in the middle of a turn");
        conversation.handle.ops.send(op).await.map_err(|_| gone())?;
        loop {
            let event = tokio::select! {
                biased;
                _ = self.interrupt.recv() => {
                    let _ = conversation.handle.ops.send(Op::Cancel).await;
                    continue;
                }
                line = self.keyboard.message(), if !self.keyboard.is_closed() => {
                    self.ahead.extend(line);
                    continue;
                }
                event = conversation.handle.events.recv() => event.ok_or_else(gone)?,
            };
            self.take(&event);
            match event {
                Event::ApprovalWanted(request) => {
                    let answer = self.ask(&request).await;
                    let op = Op::Decide { call: request.call.clone(), answer };
                    conversation.handle.ops.send(op).await.map_err(|_| gone())?;
                }
                Event::TurnEnded(end) => {
                    self.over(&end);
                    return Ok(ControlFlow::Continue(()));
                }
                _ => {}
            }
            if self.console.is_broken() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }

    fn take(&mut self, event: &Event) {
        if let Event::HookRan(report) = event {
            self.console.export(event);
            if let Some(line) = words::hook(report) {
                self.console.note(&line);
            }
            return;
        }
        let _ = self.console.take(event);
        self.stats.fold(event);
        match event {
            Event::ModeChanged(mode) => {
                self.mode = *mode;
                self.console.note(&format!("Mode {mode}"));
            }
            Event::CallFinished(report) => self.console.note(&words::call(report)),
            Event::Compressed { tokens_before, tokens_after, status } => {
                self.console.note(&words::compressed(*tokens_before, *tokens_after, *status));
            }
            _ => {}
        }
    }

    fn over(&mut self, end: &TurnEnd) {
        show("\n");
        if let Some(line) = words::end(end) {
            self.console.note(&line);
        }
    }
}

/// Prints at once, without a line end.
fn show(text: &str) {
    let mut out = io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
