//! A conversation on a terminal in plain lines: nothing is redrawn, everything can be read aloud.
//!
//! Answers are typed as numbers or words. A line that was typed before a question stands is never taken as
//! its answer.

mod keyboard;
mod question;
mod words;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::ops::ControlFlow;

use pollux_config::env::Env;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::event::{Event, NoticeCode, Op, Severity, TurnEnd};
use pollux_domain::exit::ExitKind;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use self::keyboard::Keyboard;
use crate::console::Console;
use crate::launch::Options;
use crate::report::Failure;
use crate::run::{VERSION, cannot_start, early_style, open_telemetry, prepare, style};
use crate::trust_command::{self, Person};
use crate::wire;

const HELP: &str = "\
/help            this list
/mode            show the approval mode; /mode default|auto_edit|plan|yolo changes it
/quit            end the conversation
Everything else goes to the model; @path brings a file along, and a \\ at the end of a line continues it.
Ctrl+C stops the model; at an empty prompt it ends the conversation.
";

/// Runs a conversation until the person leaves.
pub(crate) fn run(options: &Options, env: &Env) -> ExitKind {
    let loaded = match settled(options, env) {
        Ok(loaded) => loaded,
        Err(failure) => return Console::of_process(early_style(options, env)).fail(&failure),
    };
    let mut console = Console::of_process(style(&loaded.groups.output, options, env));
    options.remarks.iter().chain(&loaded.notes).for_each(|line| console.note(line));
    let turn = match prepare(options, &loaded, &mut console) {
        Ok(turn) => turn,
        Err(failure) => return console.fail(&failure),
    };
    open_telemetry(&turn, true, &mut console);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return console.fail(&cannot_start(&error)),
    };
    let ended = runtime.block_on(converse(&turn, options.prompt.clone(), &mut console));
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitKind::Success,
        Err(failure) => console.fail(&failure),
    }
}

/// The settings, once it is settled whether the folder is trusted. Nothing of it is used before.
fn settled(options: &Options, env: &Env) -> Result<wire::Loaded, Failure> {
    let loaded = wire::load_settings(options, env)?;
    if !loaded.trust.is_open() {
        return Ok(loaded);
    }
    let (mut input, mut screen) = (io::stdin().lock(), io::stdout());
    let mut person = Person { at_terminal: true, input: &mut input, screen: &mut screen };
    let trusted = trust_command::ask(&*wire::folder(None, options, env)?, &mut person)?;
    if trusted { wire::load_settings(options, env) } else { Ok(loaded) }
}

async fn converse(
    turn: &wire::Turn<'_>,
    first: Option<String>,
    console: &mut Console,
) -> Result<(), Failure> {
    let interrupt = signal(SignalKind::interrupt()).map_err(|error| cannot_start(&error))?;
    let mut conversation = wire::open_conversation(turn).await?;
    let mode = turn.permission.approval;
    console.note(&format!("Pollux {VERSION}. Mode {mode}. /help explains; /quit ends."));
    for message in std::mem::take(&mut conversation.warnings) {
        let (severity, code) = (Severity::Warning, NoticeCode::Workspace);
        let _ = console.take(&Event::Notice { severity, code, message });
    }
    let keyboard = Keyboard::open().map_err(|error| cannot_start(&error))?;
    let mut front = Front { turn, console, keyboard, interrupt, mode, ahead: first.into_iter().collect() };
    let result = front.talk(&mut conversation).await;
    let resumable = conversation.session_file.is_some() && front.spoke();
    conversation.close().await;
    if resumable {
        let id = &turn.session.id;
        front.console.note(&format!("To continue this conversation: pollux --resume {id}"));
    }
    result
}

/// What the front end knows.
struct Front<'a, 'b> {
    turn: &'a wire::Turn<'a>,
    console: &'b mut Console,
    keyboard: Keyboard,
    interrupt: Signal,
    mode: ApprovalMode,
    /// Prompts that were typed before the model was done.
    ahead: VecDeque<String>,
}

impl Front<'_, '_> {
    fn spoke(&self) -> bool {
        self.console.saw_prompt()
    }

    /// Prompts and replies, until the person has enough.
    async fn talk(&mut self, conversation: &mut wire::Conversation) -> Result<(), Failure> {
        while let Some(typed) = self.next_prompt(conversation).await {
            match typed.trim() {
                "" => continue,
                "/quit" | "/exit" => return Ok(()),
                "/help" | "/?" => self.console.note(HELP.trim_end()),
                command if command == "/mode" || command.starts_with("/mode ") => {
                    self.change_mode(command, conversation).await;
                }
                command if command.starts_with('/') && !command.contains(char::is_whitespace) => {
                    self.console.note(&format!("There is no command `{command}`; /help lists them."));
                }
                _ => {
                    if self.prompt(typed, conversation).await?.is_break() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
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
                    if matches!(event, Event::ModeChanged(_) | Event::Notice { .. }) {
                        show("> ");
                    }
                }
            }
        }
    }

    async fn change_mode(&mut self, command: &str, conversation: &mut wire::Conversation) {
        let wished = command.trim_start_matches("/mode").trim();
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

    /// One prompt to its end.
    async fn prompt(
        &mut self,
        typed: String,
        conversation: &mut wire::Conversation,
    ) -> Result<ControlFlow<()>, Failure> {
        let cancel = CancellationToken::new();
        let expanded = tokio::select! {
            biased;
            _ = self.interrupt.recv() => None,
            expanded = conversation.expand(&typed, self.turn.loaded, &cancel) => expanded,
        };
        let (parts, passed_over) = match expanded {
            None => return Ok(ControlFlow::Continue(())),
            Some(Err(failure)) => {
                self.console.note(&failure.message());
                return Ok(ControlFlow::Continue(()));
            }
            Some(Ok(expanded)) => expanded,
        };
        passed_over.iter().for_each(|line| self.console.note(line));
        let gone = || Failure::new(ExitKind::Failure, "the session ended in the middle of a turn");
        conversation.handle.ops.send(Op::Prompt { parts, typed }).await.map_err(|_| gone())?;
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
        let _ = self.console.take(event);
        match event {
            Event::ModeChanged(mode) => {
                self.mode = *mode;
                self.console.note(&format!("Mode {mode}"));
            }
            Event::CallFinished(report) => self.console.note(&words::call(report)),
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
