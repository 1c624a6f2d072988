//! The host as a front end of a conversation: events become lines, its messages become input.

use std::rc::Rc;

use pollux_domain::approval::{self, ApprovalMode, Question, QuestionForm};
use pollux_domain::event::{Event, TurnEnd};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::panel::Panel;
use pollux_domain::terminal_text::one_line;
use pollux_front::choice::{Choice, Chosen, ListEvent};
use pollux_front::front_end::{Farewell, FrontEnd, Pending};
use pollux_front::input::Input;
use pollux_front::stdio::{Driver as _, Inbox};
use pollux_front::{OfferedCommand, offered_commands};
use pollux_host::{Conversation, HistoryItem, Loaded, Prepared};
use pollux_output::Console;
use tokio::sync::mpsc;

use crate::outgoing::CommandInfo;
use crate::peer::{Facts, Peer};

/// The host of one conversation.
pub(crate) struct Host {
    peer: Rc<Peer>,
    inbox: Inbox,
    /// Writes the events that every run has.
    console: Console,
    /// The commands, once they are known and not told yet.
    commands: Option<Vec<CommandInfo>>,
    /// The session was opened, or opened again, and the host does not know yet.
    is_new: bool,
    /// The list that is shown next.
    presented: Option<Choice>,
}

impl Host {
    pub(crate) fn new(peer: Rc<Peer>, input: mpsc::UnboundedReceiver<Input>, console: Console) -> Self {
        Self { peer, inbox: Inbox::new(input), console, commands: None, is_new: false, presented: None }
    }

    /// Ends what was carried out; every message and command ends exactly once.
    fn settle(&mut self, is_leaving: bool) {
        let Some(current) = self.peer.finished(is_leaving) else { return };
        let mut outcome = current.outcome();
        if is_leaving && current.end.is_none() && current.failure.is_none() {
            outcome = Ok(TurnEnd::Cancelled);
        }
        if matches!(outcome, Ok(TurnEnd::Cancelled)) {
            self.peer.voice.borrow().cancelled(current.id);
        }
        self.peer.voice.borrow_mut().ended(&outcome);
        let exit = match outcome {
            Ok(end) => self.console.end_turn(&end),
            Err(why) => self.console.fail_turn(&Failure::new(ExitKind::Failure, why)),
        };
        self.peer.note_exit(exit);
        if self.peer.is_idle() {
            self.peer.voice.borrow_mut().idle();
        }
    }

    async fn ask(&self, question: Question) -> Option<String> {
        let receiver = self.peer.question(&question)?;
        receiver.await.ok()?.into_iter().next()
    }

    async fn pick(&self, choice: &Choice) -> Option<Chosen> {
        // The host did not ask for it and cannot know it: the careful answer holds.
        if choice.options.unrequested {
            return None;
        }
        let label = |row: &pollux_front::choice::ChoiceRow| one_line(&row.columns.join("  "));
        let options = choice
            .rows
            .iter()
            .map(|row| approval::Choice { label: row.key.clone(), description: label(row) })
            .collect();
        let about: Vec<&str> = choice.about.iter().chain(&choice.foot).map(String::as_str).collect();
        let question = Question {
            header: one_line(&choice.title),
            text: about.join("\n"),
            form: QuestionForm::Choice { options, several: false },
        };
        let reply = self.ask(question).await?;
        let row = choice.rows.iter().find(|row| row.key == reply || label(row) == reply)?;
        Some(Chosen { key: row.key.clone(), action: None })
    }

    /// The session can take prompts.
    fn ready(&mut self) {
        if std::mem::take(&mut self.is_new) {
            let facts = self.peer.state.borrow().facts.clone();
            let commands = self.commands.take().unwrap_or_default();
            self.peer.voice.borrow_mut().ready(&facts, commands);
        }
    }
}

impl FrontEnd for Host {
    fn keeps_its_session(&self) -> bool {
        true
    }

    fn history_limit(&self) -> Option<usize> {
        None
    }

    fn console(&mut self) -> &mut Console {
        &mut self.console
    }

    fn greet(&mut self, turn: &Prepared<'_>, mode: ApprovalMode) {
        let loaded = turn.loaded;
        self.console.set_conditions(mode, turn.sandbox.in_force(&loaded.env).to_json());
        let is_trusted = loaded.trust.uses_project();
        if !is_trusted {
            let line = "This folder is not trusted: its settings, servers, hooks and commands are not used.";
            self.console.note(line);
        }
        self.peer.state.borrow_mut().facts = Facts {
            session: turn.session.id.as_str().to_owned(),
            mode,
            granted: mode,
            model: turn.credentials.model.clone(),
            yolo_is_off: loaded.groups.security.disable_yolo,
            is_trusted,
        };
        self.is_new = true;
    }

    fn event(&mut self, event: &Event) {
        let _ = self.console.take(event);
        match event {
            Event::ApprovalWanted(request) => self.peer.approval_wanted(request),
            Event::ApprovalSettled { call, .. } => self.peer.approval_settled(call),
            Event::ModeChanged { mode, .. } => self.peer.state.borrow_mut().facts.mode = *mode,
            Event::ModelChanged(model) => {
                self.peer.state.borrow_mut().facts.model.clone_from(model);
            }
            Event::Acknowledged { id, result, .. } => {
                let Some(id) = self.peer.acknowledged(id) else { return };
                self.peer.voice.borrow_mut().acknowledged(id, result);
                self.peer.release();
            }
            Event::CallFinished(report) if self.peer.runs_call() => self.peer.voice.borrow().called(report),
            _ => {}
        }
        self.peer.voice.borrow_mut().event(event);
    }

    fn note(&mut self, text: &str) {
        if self.peer.is_busy() {
            self.peer.voice.borrow().said(text);
        } else {
            self.console.note(text);
        }
    }

    fn not_read(&mut self, text: &str) {
        let mut id = None;
        self.peer.with_current(|current| id.clone_from(&current.id));
        self.peer.voice.borrow().not_read(text, id);
    }

    fn error(&mut self, text: &str) {
        if self.peer.is_busy() {
            self.peer.with_current(|current| current.failure = Some(text.to_owned()));
        } else {
            self.console.note(text);
        }
    }

    fn panel(&mut self, panel: Panel) {
        self.note(&panel.words().join("\n"));
    }

    fn farewell(&mut self, _farewell: Farewell) {}

    fn show_history(&mut self, _said: Vec<HistoryItem>) {}

    fn terminal_sequence(&mut self, _sequence: &str) {}

    fn turn_ended(&mut self, end: &TurnEnd) {
        self.peer.with_current(|current| current.end = Some(end.clone()));
    }

    fn await_prompt(&mut self) {
        self.inbox.await_prompt();
        self.ready();
        self.settle(false);
        self.peer.go_on();
    }

    fn joins_turn(&mut self) {
        self.ready();
    }

    fn refresh_offers(&mut self, conversation: &Conversation, loaded: &Loaded) {
        if self.is_new {
            let offered = offered_commands(conversation, loaded).into_iter();
            let info =
                |command: OfferedCommand| CommandInfo { name: command.name, description: command.about };
            self.commands = Some(offered.map(info).collect());
            self.peer.voice.borrow_mut().opened(conversation);
        }
    }

    fn sandbox_changed(&mut self, _turn: &Prepared<'_>, _model: &str) {}

    fn shell_started(&mut self, _command: &str) -> Box<dyn Fn(&str) + Send + Sync> {
        Box::new(|_| {})
    }

    fn input(&mut self) -> Pending<'_, Input> {
        let peer = Rc::clone(&self.peer);
        Box::pin(async move { self.inbox.next(&*peer).await })
    }

    fn queue_prompt(&mut self, prompt: String) {
        self.inbox.queue_prompt(prompt);
    }

    fn defer(&mut self, input: Input) {
        self.inbox.defer(input);
    }

    fn ask_line<'a>(&'a mut self, question: &'a str, secret: bool) -> Pending<'a, Option<String>> {
        Box::pin(async move {
            if secret {
                return None;
            }
            let form = QuestionForm::Text { placeholder: String::new() };
            self.ask(Question { header: String::new(), text: question.to_owned(), form }).await
        })
    }

    fn confirm<'a>(&'a mut self, question: &'a str) -> Pending<'a, bool> {
        Box::pin(async move {
            let form = QuestionForm::YesNo;
            let question = Question { header: String::new(), text: question.to_owned(), form };
            let reply = self.ask(question).await.unwrap_or_default();
            ["y", "yes"].contains(&reply.to_ascii_lowercase().as_str())
        })
    }

    fn choose(&mut self, choice: Choice) -> Pending<'_, Option<Chosen>> {
        Box::pin(async move { self.pick(&choice).await })
    }

    fn present(&mut self, choice: Choice) {
        self.presented = Some(choice);
    }

    fn list_event(&mut self) -> Pending<'_, Option<ListEvent>> {
        Box::pin(async move {
            let choice = self.presented.take()?;
            Some(ListEvent::Chosen(self.pick(&choice).await?))
        })
    }

    fn is_broken(&self) -> bool {
        self.console.is_broken()
    }

    fn leave(mut self: Box<Self>, _signalled: bool, ended: Result<(), Failure>) -> ExitKind {
        match ended {
            Ok(()) => {
                self.settle(true);
                self.peer.exit()
            }
            Err(failure) => {
                self.peer.voice.borrow_mut().failed(&failure);
                self.console.fail(&failure)
            }
        }
    }
}
