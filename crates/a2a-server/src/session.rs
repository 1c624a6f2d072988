//! The session of a task: an agent of its own, driven by messages, whose events become updates.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use pollux_a2a::protocol::{TaskState, Update};
use pollux_domain::JsonObject;
use pollux_domain::approval::{ApprovalAnswer, ApprovalRequest, Outcome};
use pollux_domain::budget::{Scope, Spent};
use pollux_domain::event::{Event, Op, OpResult, Refusal, RequestId, TurnEnd};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_host::request::{Request, Resumed, SessionChoice};
use pollux_host::{Conversation, load_settings, open_conversation, prepare};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::command::{Command, CommandCount, SessionLink};
use crate::incoming::Decision;
use crate::narrator::Narrator;
use crate::service::Service;
use crate::store::lease::Holding;
use crate::task::Task;

/// How long a session without work stays open.
const IDLE: Duration = Duration::from_secs(60);
/// How long a session may take to end.
const ENDING: Duration = Duration::from_secs(10);

impl Task {
    /// Hands a command to the session, which is started if there is none.
    pub(crate) fn tell(self: &Rc<Self>, service: &Rc<Service>, holding: &Rc<Holding>, command: Command) {
        let link = self.session().unwrap_or_else(|| start(service, self, holding));
        // A session that has just ended leaves its commands to the next one.
        if let Err(command) = link.send(command) {
            let _ = start(service, self, holding).send(command);
        }
    }
}

/// Starts the session of a task that this server holds.
fn start(service: &Rc<Service>, task: &Rc<Task>, holding: &Rc<Holding>) -> SessionLink {
    let (link, inbox) = SessionLink::new();
    let before = task.ending();
    task.set_session(link.clone());
    // The link itself stays with the task: a session whose senders are gone would end.
    let (waiting, over) = (link.waiting(), link.over.clone());
    let (service, task, holding) = (Rc::clone(service), Rc::clone(task), Rc::clone(holding));
    tokio::task::spawn_local(async move {
        if let Some(before) = before {
            before.cancelled().await;
        }
        // A panic ends this session only.
        let driven = {
            let (service, task, holding) = (Rc::clone(&service), Rc::clone(&task), Rc::clone(&holding));
            let inbox = SessionInbox { commands: inbox, waiting: waiting.clone() };
            tokio::task::spawn_local(async move {
                // Fired also by a panic.
                let _over = over.drop_guard();
                drive(&service, &task, &holding, inbox).await
            })
        };
        match driven.await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => service.fail(&task, &waiting, &failure.message()).await,
            Err(_) => service.fail(&task, &waiting, "The session crashed.").await,
        }
        task.end_session(&waiting);
        service.give_up_lease(&task).await;
    });
    link
}

/// What a session reads its commands from.
struct SessionInbox {
    commands: mpsc::UnboundedReceiver<Command>,
    waiting: CommandCount,
}

/// One session from its start to its end.
struct Driver<'a> {
    service: &'a Rc<Service>,
    task: &'a Rc<Task>,
    holding: &'a Rc<Holding>,
    narrator: Narrator,
    /// Prompts that were handed over and whose turns have not ended.
    prompts: Vec<RequestId>,
    /// The last question, and the arguments that the client changed its call to.
    asked: Option<Arc<ApprovalRequest>>,
    edited: Option<JsonObject>,
    /// What the turn has used, if that is counted.
    spent: Option<Spent>,
    /// Nothing is left to do here.
    is_done: bool,
    /// Why the turn is being stopped.
    stopping: Option<Command>,
}

async fn drive(
    service: &Rc<Service>,
    task: &Rc<Task>,
    holding: &Rc<Holding>,
    mut inbox: SessionInbox,
) -> Result<(), Failure> {
    if holding.is_over() {
        return Ok(());
    }
    let (workspace, file) = service
        .restore(task, holding)
        .await
        .map_err(|error| Failure::new(ExitKind::Failure, error.message))?;
    let mut options: Request = service.request.clone();
    options.prompt = None;
    options.session = choice(file, task, service.store.is_shared);
    options.client_hooks = holding.guard.callbacks();
    let env = service.env.in_folder(workspace);
    let mut loaded = load_settings(&options, &env)?;
    let owner = task.read(|record| record.owner.clone());
    service
        .limit_turn(&owner, &mut loaded.groups.model.budget)
        .await
        .map_err(|error| Failure::new(ExitKind::Failure, error.message))?;
    let mut notes = Vec::new();
    let prepared = prepare(&options, &mut loaded, &mut |line| notes.push(line.to_owned()))?;
    notes.iter().for_each(|line| service.debug(&format!("task {}: {line}", task.id)));
    let session = prepared.session.id.as_str().to_owned();
    let model = prepared.credentials.model.clone();
    let mut conversation = open_conversation(&prepared, None).await?;
    service.replace_session_file(task, holding, conversation.session_file.clone());
    task.change(|record| {
        record.session = Some(session);
        record.model.clone_from(&model);
    });
    let narrator = Narrator::new(task.read(|record| record.ids()), model);
    let mut driver = Driver {
        service,
        task,
        holding,
        narrator,
        prompts: Vec::new(),
        asked: None,
        edited: None,
        spent: None,
        is_done: false,
        stopping: None,
    };
    driver.run(&mut conversation, &mut inbox).await;
    inbox.commands.close();
    let mut left = Vec::new();
    while let Ok(command) = inbox.commands.try_recv() {
        left.push(command);
    }
    // From here on messages start another session, which waits for this one.
    task.end_session(&inbox.waiting);
    // Those that arrived while this one ended come first. Nobody waits for them where the task is elsewhere or over.
    if !holding.is_over() && !task.read(|record| record.state.is_final()) {
        left.into_iter().for_each(|command| task.tell(service, holding, command));
    }
    close(conversation).await;
    Ok(())
}

/// The session to open: a new one, or the one of earlier turns. Another server may have it and died before it could store
/// it; then the task goes on with a new one.
fn choice(file: Option<PathBuf>, task: &Task, or_new: bool) -> SessionChoice {
    if let Some(file) = file {
        return SessionChoice::Import(file);
    }
    match task.read(|record| record.session.clone()) {
        Some(which) => SessionChoice::Resume(Resumed { which, all_projects: false, fork: false, or_new }),
        None => SessionChoice::New,
    }
}

async fn close(mut conversation: Conversation) {
    conversation.end(false);
    let ended = async { while conversation.next().await.is_some() {} };
    let _ = tokio::time::timeout(ENDING, ended).await;
}

impl Driver<'_> {
    async fn run(&mut self, conversation: &mut Conversation, inbox: &mut SessionInbox) {
        while !self.is_done {
            tokio::select! {
                biased;
                // Another server has the task: nothing that happens here counts any more.
                () = self.holding.lost.cancelled() => {
                    let _ = conversation.ask(Op::Cancel);
                    return;
                }
                event = conversation.next() => match event {
                    Some(event) => self.take(&event, conversation).await,
                    None => return,
                },
                command = inbox.commands.recv() => match command {
                    Some(command) => {
                        inbox.waiting.taken();
                        self.obey(command, conversation).await;
                    }
                    None => return,
                },
                () = sleep(IDLE), if self.prompts.is_empty() => return,
            }
        }
    }

    async fn obey(&mut self, command: Command, conversation: &Conversation) {
        match command {
            Command::Prompt { parts, typed } => match conversation.ask(Op::Prompt { parts, typed }) {
                Ok(id) => self.prompts.push(id),
                Err(refusal) => self.refused(&refusal).await,
            },
            Command::Decide(Decision { call, answer }) => {
                let working = self.narrator.state(TaskState::Working, None, false);
                if let ApprovalAnswer::Edited(args) = &answer {
                    self.edited = Some(args.clone());
                }
                // Answered twice, or settled meanwhile.
                if conversation.ask(Op::Decide { call, answer }).is_ok() {
                    self.service.publish(self.task, working);
                }
            }
            stop @ (Command::Cancel | Command::Drain) => {
                if !self.prompts.is_empty() {
                    let _ = conversation.ask(Op::Cancel);
                    self.stopping = Some(stop);
                } else if matches!(stop, Command::Cancel) {
                    let update = self.narrator.state(TaskState::Canceled, None, true);
                    self.rest(update).await;
                }
            }
        }
    }

    /// Whether an approval is about arguments that the client has just given itself.
    fn is_answered(&mut self, event: &Event) -> bool {
        let Event::ApprovalWanted(request) = event else { return false };
        let (first, edited) = (self.asked.replace(Arc::clone(request)), self.edited.take());
        first.zip(edited).is_some_and(|(first, args)| request.is_settled_by(&first, &args))
    }

    async fn take(&mut self, event: &Event, conversation: &Conversation) {
        if let (true, Event::ApprovalWanted(request)) = (self.is_answered(event), event) {
            let answer = ApprovalAnswer::Once;
            let _ = conversation.ask(Op::Decide { call: request.call.clone(), answer });
            return;
        }
        for update in self.narrator.updates(event) {
            self.service.publish(self.task, update);
        }
        match event {
            Event::ApprovalWanted(request) => {
                let once = request.offers.iter().any(|offer| offer.outcome == Outcome::Once);
                if once && self.task.read(|record| record.settings.auto_execute) {
                    let answer = ApprovalAnswer::Once;
                    let _ = conversation.ask(Op::Decide { call: request.call.clone(), answer });
                    return;
                }
                let update = self.narrator.state(TaskState::InputRequired, None, true);
                self.rest(update).await;
            }
            Event::ModelChanged(_) | Event::SessionReady { .. } => {
                let model = self.narrator.model().to_owned();
                self.task.change(|record| record.model = model);
            }
            Event::Acknowledged { id, result: OpResult::Refused(refusal), .. }
                if self.prompts.contains(id) =>
            {
                self.prompts.retain(|prompt| prompt != id);
                self.refused(refusal).await;
            }
            Event::Budget(status) => {
                let turn = status.scopes.iter().find(|status| status.scope == Scope::Turn);
                self.spent = turn.map(|turn| turn.spent);
            }
            Event::TurnEnded(end) => self.ended(end).await,
            _ => {}
        }
    }

    async fn ended(&mut self, end: &TurnEnd) {
        if !self.prompts.is_empty() {
            self.prompts.remove(0);
        }
        let counted = Spent { tokens: self.narrator.usage().total, ..Spent::default() };
        self.service.count_spent(self.task, self.spent.take().unwrap_or(counted));
        let single = self.task.read(|record| record.settings.single_turn);
        let update = match self.stopping.take() {
            Some(Command::Cancel) => self.narrator.state(TaskState::Canceled, None, true),
            Some(_) => {
                let text = "The server was stopped. Send a message to continue.";
                self.narrator.state(TaskState::InputRequired, Some(text), true)
            }
            None => {
                let update = self.narrator.ended(end, single);
                match (self.day_limit(end), update.state()) {
                    (Some(text), Some(state)) => self.narrator.state(state, Some(&text), true),
                    _ => update,
                }
            }
        };
        // The next prompt waits already, unless the task is over.
        if !self.prompts.is_empty() && !update.state().is_some_and(TaskState::is_final) {
            self.service.publish(self.task, self.narrator.state(TaskState::Working, None, false));
            return;
        }
        self.rest(update).await;
    }

    /// The limit of the owner's day that ended a turn. Its turns are limited to what is left.
    fn day_limit(&self, end: &TurnEnd) -> Option<String> {
        let TurnEnd::Failed(error) = end else { return None };
        let exceeded = error.details.exceeded.as_ref().filter(|exceeded| exceeded.scope == Scope::Turn)?;
        self.service.day_limit(exceeded.unit)
    }

    async fn refused(&mut self, refusal: &Refusal) {
        if self.prompts.is_empty() {
            let update = self.narrator.state(TaskState::InputRequired, Some(&refusal.message), true);
            self.rest(update).await;
        }
    }

    /// The task waits: everything is stored before its client reads that it does.
    async fn rest(&mut self, update: Update) {
        let is_final = update.state().is_some_and(TaskState::is_final);
        self.service.rest(self.task, update).await;
        // Other servers should be able to go on; where there are none, the next message finds the session open.
        self.is_done = is_final || self.service.store.is_shared && self.prompts.is_empty();
    }
}
