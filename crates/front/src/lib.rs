//! Conversations with people: the flow of prompts and turns, slash commands, and the interface of front ends.
//!
//! Use it to run a conversation ([`run`]) or to write another front end ([`front_end::FrontEnd`]). Plain lines are built in;
//! the screen is the crate `screen`, reached through [`screen_provider::ScreenProvider`]. Subcommands of the program are
//! reached through [`Subcommands`]. It does not assemble sessions (`host`) and draws nothing.

pub mod choice;
mod clipboard;
mod commands;
pub mod front_end;
pub mod input;
mod lines;
mod presentation;
mod prompts;
pub mod remote;
pub mod rpc;
mod running_turn;
pub mod screen_provider;
pub mod signals;
mod start;
pub mod stdio;
mod steering;
mod user_interface;

use std::time::Instant;

use pollux_config::env::Env;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::content::Part;
use pollux_domain::event::{Event, FrontId, Op};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::id::SessionId;
use pollux_host::cannot_start;
use pollux_host::request::Request;
use pollux_output::{Console, Receipt, Stats};

use self::commands::{NewSession, Reopen, SignedIn};
use self::front_end::{Farewell, FrontEnd};
use self::remote::{RemoteSession, SessionProvider, attached};
use self::screen_provider::ScreenProvider;
use self::signals::Signals;
use self::user_interface::UserInterface;

pub use self::commands::{
    Captured, OfferedCommand, SlashCommand, SlashSubcommand, Subcommands, offered_commands, reserved,
    setting_has_effect, settings_without_effect, slash_commands,
};
pub use self::presentation::{early_style, is_on, open_telemetry, path_display, stderr_colour, style};
pub use pollux_host::external_editors as editors;

/// Runs a conversation until the person leaves.
pub fn run(
    options: &Request,
    env: &Env,
    subcommands: &dyn Subcommands,
    screens: &dyn ScreenProvider,
    sessions: &dyn SessionProvider,
) -> ExitKind {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Console::of_process(early_style(options, env)).fail(&cannot_start(&error)),
    };
    let exit = runtime.block_on(open_and_run(options, env, &Ports { subcommands, screens, sessions }));
    runtime.shutdown_background();
    exit
}

/// Runs a conversation with a front end of the caller's, on the current runtime, until it leaves.
pub async fn run_with(
    options: &Request,
    env: &Env,
    front_end: Box<dyn FrontEnd>,
    ports: Ports<'_>,
) -> ExitKind {
    let ready = Signals::listen().map_err(|error| cannot_start(&error));
    let ready = ready.and_then(|signals| Ok((signals, pollux_host::load_settings(options, env)?)));
    let (signals, loaded) = match ready {
        Ok(ready) => ready,
        Err(failure) => return front_end.leave(false, Err(failure)),
    };
    let mut ui = UserInterface::new(front_end, signals);
    let ended = run_sessions(options, env, loaded, &mut ui, ports).await;
    ui.leave(ended)
}

/// What the program provides to a conversation.
#[derive(Clone, Copy)]
pub struct Ports<'a> {
    pub subcommands: &'a dyn Subcommands,
    pub screens: &'a dyn ScreenProvider,
    pub sessions: &'a dyn SessionProvider,
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
    let mut kept = KeptState {
        ports,
        stats: Stats::default(),
        receipt: Receipt::default(),
        started: Instant::now(),
        session: None,
    };
    loop {
        loaded.notes.iter().for_each(|line| ui.note(line));
        match open(&options, env, &mut loaded, &mut first, &mut kept, ui).await? {
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
    receipt: Receipt,
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
    env: &Env,
    loaded: &mut pollux_host::Loaded,
    first: &mut Option<String>,
    kept: &mut KeptState<'_>,
    ui: &mut UserInterface,
) -> Result<Opened, Failure> {
    let remote = match kept.ports.sessions.open(options, loaded, env, &[]).await {
        Ok(remote) => remote,
        Err(failure) if failure.exit == ExitKind::Auth => return Ok(Opened::NoKey(failure)),
        Err(failure) => return Err(failure),
    };
    if let Some(remote) = remote {
        let mut turn = pollux_host::Prepared::attached(options, loaded, &remote.report);
        let ended = converse(&mut turn, env, first.take(), kept, ui, Some(remote)).await;
        return Ok(ended?.map_or(Opened::Left, |again| Opened::Again(Box::new(again))));
    }
    let mut turn = match start::prepared(options, loaded, ui).await {
        Ok(turn) => turn,
        Err(failure) if failure.exit == ExitKind::Auth => return Ok(Opened::NoKey(failure)),
        Err(failure) => return Err(failure),
    };
    if let Some(line) = open_telemetry(&turn, true, ui.console()) {
        ui.note(&line);
    }
    let ended = converse(&mut turn, env, first.take(), kept, ui, None).await;
    pollux_host::tidy_up(turn.loaded, &turn.session.id);
    Ok(match ended? {
        Some(again) => Opened::Again(Box::new(again)),
        None => Opened::Left,
    })
}

/// Runs a conversation until the person leaves; a request if it must be reopened.
async fn converse(
    turn: &mut pollux_host::Prepared<'_>,
    env: &Env,
    first: Option<String>,
    kept: &mut KeptState<'_>,
    ui: &mut UserInterface,
    remote: Option<RemoteSession>,
) -> Result<Option<Request>, Failure> {
    let mode = turn.permission.approval;
    ui.greet(turn, mode);
    let is_new = kept.session.as_ref() != Some(&turn.session.id);
    kept.session = Some(turn.session.id.clone());
    let joins = remote.as_ref().is_some_and(|remote| remote.busy);
    let mut conversation = match remote {
        Some(remote) => attached(turn, remote, is_new, ui)?,
        None => {
            if let (true, Some(most)) = (is_new, ui.history_limit()) {
                let (said, above) = turn.session.said(most);
                ui.show_history(said, above);
            }
            pollux_host::open_conversation(turn, None).await?
        }
    };
    let remote = conversation.is_remote().then(|| conversation.front_id().clone());
    first.into_iter().for_each(|prompt| ui.queue_prompt(prompt));
    let (stats, started, ports) = (std::mem::take(&mut kept.stats), kept.started, kept.ports);
    let receipt = std::mem::take(&mut kept.receipt);
    let model = turn.credentials.model.clone();
    let Ports { subcommands, screens, sessions } = ports;
    let uses_editor = is_on(&turn.loaded.settings, commands::EDITOR_ENABLED);
    let mut front = Front {
        turn,
        ui,
        remote,
        joins,
        subcommands,
        screens,
        mode,
        model,
        proposal: Vec::new(),
        logged: Vec::new(),
        stats,
        receipt,
        started,
        uses_editor,
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
                kept.receipt = front.receipt;
                kept.session = Some(front.turn.session.id.clone());
                return Ok(Some(options));
            }
            Next::NewSession(new) => new,
        };
        if front.remote.is_some() {
            conversation = front.open_new_session(sessions, env, &new.turns).await?;
            front.ui.note(&new.note);
            front.proposal = new.proposal;
            continue;
        }
        front.turn.begin_anew();
        conversation = pollux_host::open_conversation(front.turn, Some(&new.turns)).await?;
        front.show_turns(&new, &conversation);
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
    /// The name of this front end, if the session runs in another process.
    remote: Option<FrontId>,
    /// A turn was running when this front end attached.
    joins: bool,
    subcommands: &'b dyn Subcommands,
    screens: &'b dyn ScreenProvider,
    mode: ApprovalMode,
    /// The chosen model name or alias.
    model: String,
    /// Calls to propose before the first prompt.
    proposal: Vec<Part>,
    /// Prompts that wait and are logged.
    logged: Vec<String>,
    stats: Stats,
    receipt: Receipt,
    started: Instant,
    /// Connect to the editor.
    uses_editor: bool,
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
        if let Some(size) = self.ui.command_terminal() {
            // Without the right to it, commands run as they did before.
            let _ = conversation.ask(Op::SetTerminal(size));
        }
        // A program that drives the session is the editor, or knows it.
        if !self.ui.keeps_its_session() {
            if self.ui.is_screen() {
                conversation.approve_in_editor();
            }
            if self.uses_editor {
                conversation.connect_editor();
            }
        }
        // A session of another process has begun before.
        while !conversation.is_remote()
            && let Some(event) = conversation.next().await
        {
            self.take(&event);
            if matches!(&*event, Event::SessionReady { .. }) {
                break;
            }
        }
        while !self.joins
            && let Some(event) = conversation.try_next()
        {
            self.take(&event);
        }
    }

    /// Shows the conversation that a new session begins with.
    fn show_turns(&mut self, new: &NewSession, conversation: &pollux_host::Conversation) {
        let file = conversation.session_file.as_ref().filter(|_| !new.turns.is_empty());
        if let (Some(file), Some(most)) = (file, self.ui.history_limit()) {
            let (said, above) = pollux_host::sessions::said_in(file, most);
            self.ui.show_history(said, above);
        }
    }

    /// Ends a session and shows how to resume it.
    async fn leave(&mut self, conversation: pollux_host::Conversation, leaving: Leaving) {
        if leaving == Leaving::End {
            self.ui.ending();
        }
        if conversation.is_remote() && leaving != Leaving::Reopen {
            let id = &self.turn.session.id;
            let line = format!("Detached. To attach again: pollux attach {id}");
            return self.ui.farewell(Farewell::Note(line));
        }
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
}
