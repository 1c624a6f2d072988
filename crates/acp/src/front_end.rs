//! The editor as a front end of a conversation: events become updates, questions become requests.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use pollux_domain::approval::ApprovalMode;
use pollux_domain::event::{
    CallStatus, Compressed, CompressionStatus, Event, RequestEnded, Severity, TurnEnd,
};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::model::{RequestRole, Wait};
use pollux_domain::panel::Panel;
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::{one_line, plain};
use pollux_domain::time::{Clock, SystemClock};
use pollux_domain::tool::{Display, Todo, TodoStatus};
use pollux_front::choice::{Choice, Chosen, ListEvent};
use pollux_front::front_end::{Farewell, FrontEnd, Pending};
use pollux_front::input::Input;
use pollux_front::stdio::{Driver as _, Inbox};
use pollux_host::model_list::known_models;
use pollux_host::{Conversation, HistoryItem, Loaded, Prepared};
use pollux_output::{Console, Style};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::session::{Facts, Session};
use crate::{asking, commands, history, options, tool_call};

/// A shorter wait is not worth a message where the client has no notices.
const LONG_WAIT: Duration = Duration::from_secs(10);

/// The editor of one session.
pub(crate) struct Editor {
    session: Rc<Session>,
    inbox: Inbox,
    console: Console,
    /// The id of the message that the model writes.
    message: String,
    /// The list that is shown next.
    presented: Option<Choice>,
}

impl Editor {
    pub(crate) fn new(session: Rc<Session>, input: mpsc::UnboundedReceiver<Input>, style: Style) -> Self {
        Self {
            session,
            inbox: Inbox::new(input),
            console: Console::new(style, Box::new(io::sink()), Box::new(io::stderr())),
            message: String::new(),
            presented: None,
        }
    }

    fn send(&self, update: Value) {
        self.session.updates.send(update);
    }

    /// Tells something next to the conversation. A client without notices gets only what matters, as text.
    fn notice(&self, severity: Severity, text: &str, matters: bool) {
        let text = redacted(&plain(text)).into_owned();
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        if self.session.updates.client.can().notices {
            let severity = match severity {
                Severity::Info => "info",
                Severity::Warning => "warning",
                Severity::Error => "error",
            };
            let (title, rest) = text.split_once('\n').unwrap_or((text, ""));
            let mut notice = json!({"sessionUpdate": "notice", "severity": severity, "title": title});
            if let (false, Some(fields)) = (rest.is_empty(), notice.as_object_mut()) {
                fields.insert("description".to_owned(), json!(rest));
            }
            self.send(notice);
        } else if matters {
            self.session.updates.say(&format!("[{text}]"));
        }
    }

    fn request_ended(&self, ended: &RequestEnded) {
        self.session.count(ended.model_version.as_deref().unwrap_or(&ended.model), ended.usage);
        if ended.role == RequestRole::Main && ended.window > 0 {
            self.send(json!({
                "sessionUpdate": "usage_update",
                "used": ended.context_tokens,
                "size": ended.window,
            }));
        }
    }

    fn waiting(&self, wait: &Wait) {
        let seconds = wait.delay.as_secs_f64();
        let text = format!(
            "{}; attempt {} of {}, next try in {seconds:.0} s",
            one_line(&wait.cause),
            wait.attempt,
            wait.max_attempts
        );
        self.notice(Severity::Warning, &text, wait.delay > LONG_WAIT);
    }

    fn compressed(&self, done: &Compressed) {
        if !self.session.updates.client.can().compaction || done.id.is_empty() {
            return;
        }
        let status = match done.status {
            CompressionStatus::Compressed | CompressionStatus::Truncated => "completed",
            CompressionStatus::Inflated | CompressionStatus::Nothing => "cancelled",
            CompressionStatus::Failed | CompressionStatus::EmptySummary => "failed",
        };
        let summary = done.summary.as_ref().map(|text| json!([{"type": "text", "text": text}]));
        self.send(json!({
            "sessionUpdate": "compaction_update",
            "compactionId": done.id,
            "status": status,
            "summary": summary,
        }));
    }

    fn plan(&self, todos: &[Todo]) {
        let status = |status: TodoStatus| match status {
            TodoStatus::Completed => "completed",
            TodoStatus::InProgress => "in_progress",
            TodoStatus::Pending | TodoStatus::Blocked | TodoStatus::Cancelled => "pending",
        };
        let entries: Vec<Value> = todos
            .iter()
            .filter(|todo| todo.status != TodoStatus::Cancelled)
            .map(|todo| json!({"content": todo.text, "priority": "medium", "status": status(todo.status)}))
            .collect();
        self.send(json!({"sessionUpdate": "plan", "entries": entries}));
    }

    fn change_facts(&self, change: impl FnOnce(&mut Facts)) -> Facts {
        let mut state = self.session.state.borrow_mut();
        change(&mut state.facts);
        state.facts.clone()
    }

    /// Events about tool calls.
    fn call_event(&self, event: &Event) {
        let updates = &self.session.updates;
        match event {
            Event::CallRequested(request) => self.send(tool_call::requested(request)),
            Event::CallStarted { call } => self.send(tool_call::started(call.as_str())),
            Event::CallOutput { call, text } => match self.session.terminals.content(call) {
                Some(terminal) => self.send(tool_call::in_terminal(call.as_str(), &terminal)),
                None => updates.live(call, text),
            },
            Event::Activity(activity) => {
                if let Some(line) = activity.line() {
                    updates.live(&activity.call, &format!("{line}\n"));
                }
            }
            Event::CallFinished(report) => {
                updates.end_live(&report.call);
                let terminal = self.session.terminals.content(&report.call);
                self.session.terminals.forget(&report.call);
                self.send(tool_call::finished(report, terminal));
                if let Display::Todos(todos) = &report.display
                    && report.outcome.status() == CallStatus::Success
                {
                    self.plan(todos);
                }
            }
            Event::ApprovalWanted(request) => {
                updates.flush();
                asking::ask(&self.session, request);
            }
            Event::ApprovalSettled { call, .. } => asking::settled(&self.session, call),
            _ => {}
        }
    }

    /// Events about the state of the session.
    fn state_event(&self, event: &Event) {
        match event {
            Event::Acknowledged { id, result, .. } => {
                let asked = self.session.state.borrow_mut().asked.remove(id);
                if let Some(asked) = asked {
                    let _ = asked.send(result.clone());
                }
            }
            Event::ModeChanged { mode, .. } => {
                let facts = self.change_facts(|facts| facts.mode = *mode);
                self.send(options::mode_update(&facts));
                self.send(options::options_update(&facts));
            }
            Event::ModelChanged(model) => {
                let facts = self.change_facts(|facts| facts.model.clone_from(model));
                self.send(options::options_update(&facts));
            }
            Event::ModelFallback(fallback) => {
                let text = format!("Using {} instead of {}: {}", fallback.to, fallback.from, fallback.reason);
                self.notice(Severity::Warning, &text, true);
            }
            Event::Titled(title) => self.send(json!({
                "sessionUpdate": "session_info_update",
                "title": one_line(title),
                "updatedAt": SystemClock.now().to_iso(),
            })),
            Event::QueueChanged(waiting) => self.session.queue_changed(waiting),
            Event::Compressing { id } if self.session.updates.client.can().compaction => self.send(json!({
                "sessionUpdate": "compaction_update",
                "compactionId": id,
                "status": "in_progress",
            })),
            Event::Compressed(done) => self.compressed(done),
            Event::RequestEnded(ended) => self.request_ended(ended),
            Event::Waiting(wait) => self.waiting(wait),
            Event::Notice { severity, message, .. } => {
                self.notice(*severity, message, *severity == Severity::Error);
            }
            Event::HookRan(report) => {
                if let Some(message) = report.message.as_deref().filter(|_| !report.suppressed) {
                    self.notice(Severity::Info, message, false);
                }
            }
            _ => {}
        }
    }

    /// The session can take prompts.
    fn opened(&self) {
        let opened = self.session.state.borrow_mut().opened.take();
        if let Some(opened) = opened {
            self.replay();
            let _ = opened.send(Ok(()));
        }
    }

    /// Sends the earlier messages of a loaded session.
    fn replay(&self) {
        let items = std::mem::take(&mut self.session.state.borrow_mut().history);
        history::updates(&items).for_each(|update| self.session.updates.send_at_once(update));
    }
}

impl FrontEnd for Editor {
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
        self.session.updates.name_session(turn.session.id.as_str());
        // Another session follows only under another id of the same connection.
        let _ = self.session.files.session.set(turn.session.id.as_str().to_owned());
        let _ = self.session.terminals.session.set(turn.session.id.as_str().to_owned());
        let loaded = turn.loaded;
        let facts = Facts {
            mode,
            granted: mode,
            model: turn.credentials.model.clone(),
            models: known_models(loaded),
            yolo_is_forbidden: loaded.groups.security.disable_yolo,
            is_trusted: loaded.trust.uses_project(),
        };
        let is_opening = {
            let mut state = self.session.state.borrow_mut();
            state.facts = facts.clone();
            // That of a session elsewhere is there already.
            if state.opened.is_some() && state.replay && state.history.is_empty() {
                state.history = turn.session.recorded();
            }
            state.opened.is_some()
        };
        if !is_opening {
            self.send(options::mode_update(&facts));
            self.send(options::options_update(&facts));
        } else if !facts.is_trusted {
            let text = "This folder is not trusted: its settings, servers, hooks and commands are not used.";
            self.notice(Severity::Warning, text, false);
        }
    }

    fn event(&mut self, event: &Event) {
        self.console.export(event);
        match event {
            Event::PromptAccepted { typed, message, .. } if self.session.joins() => {
                let message = message.as_deref().unwrap_or_default();
                self.session.updates.text("user_message_chunk", message, typed);
            }
            Event::StepBegan { message } => {
                self.session.joins();
                self.message.clone_from(message);
            }
            Event::Text(text) => self.session.updates.text("agent_message_chunk", &self.message, text),
            Event::Thought(thought) => {
                let text = match thought.subject.is_empty() {
                    true => thought.description.clone(),
                    false => format!("**{}**\n{}", thought.subject, thought.description),
                };
                self.session.updates.text("agent_thought_chunk", &self.message, &text);
            }
            Event::AttemptDiscarded(discarded) => {
                self.message = format!("{}-{}", self.message, discarded.attempt + 1);
                if discarded.text_was_shown {
                    let text = format!("The reply above is replaced: {}", one_line(&discarded.reason));
                    self.notice(Severity::Warning, &text, true);
                }
            }
            Event::TurnEnded(_) => self.send(json!({
                "sessionUpdate": "session_info_update",
                "updatedAt": SystemClock.now().to_iso(),
            })),
            _ => {
                self.call_event(event);
                self.state_event(event);
            }
        }
    }

    fn note(&mut self, text: &str) {
        if self.session.is_busy() {
            self.session.updates.say(&redacted(&plain(text)));
        } else {
            self.notice(Severity::Info, text, false);
        }
    }

    fn error(&mut self, text: &str) {
        if self.session.is_busy() {
            self.session.updates.say(&redacted(&plain(text)));
        } else {
            self.notice(Severity::Error, text, true);
        }
    }

    fn panel(&mut self, panel: Panel) {
        self.note(&panel.words().join("\n"));
    }

    fn farewell(&mut self, _farewell: Farewell) {}

    fn show_history(&mut self, _said: Vec<HistoryItem>) {}

    fn terminal_sequence(&mut self, _sequence: &str) {}

    fn turn_ended(&mut self, end: &TurnEnd) {
        let mut state = self.session.state.borrow_mut();
        state.is_joined = false;
        if let Some(prompt) = state.prompt.as_mut().filter(|prompt| prompt.is_taken) {
            prompt.end = Some(end.clone());
        }
    }

    fn await_prompt(&mut self) {
        self.inbox.await_prompt();
        self.opened();
        self.session.settle(false);
    }

    fn joins_turn(&mut self) {
        self.opened();
    }

    fn refresh_offers(&mut self, conversation: &Conversation, loaded: &Loaded) {
        let found = commands::available(conversation, loaded);
        let mut state = self.session.state.borrow_mut();
        if state.commands == found {
            return;
        }
        state.commands.clone_from(&found);
        drop(state);
        self.send(commands::update(&found));
    }

    fn sandbox_changed(&mut self, _turn: &Prepared<'_>, _model: &str) {}

    fn shell_started(&mut self, _command: &str) -> Box<dyn Fn(&str) + Send + Sync> {
        Box::new(|_| {})
    }

    fn input(&mut self) -> Pending<'_, Input> {
        let session = Rc::clone(&self.session);
        Box::pin(async move {
            loop {
                let input = self.inbox.next(&*session).await;
                // A prompt that was cancelled while it waited is not carried out.
                if !matches!(input, Input::Prompt(_)) || !session.drop_if_cancelled() {
                    return input;
                }
            }
        })
    }

    fn queue_prompt(&mut self, prompt: String) {
        self.inbox.queue_prompt(prompt);
    }

    fn defer(&mut self, input: Input) {
        if matches!(input, Input::Prompt(_)) {
            self.session.is_deferred();
        }
        self.inbox.defer(input);
    }

    fn ask_line<'a>(&'a mut self, question: &'a str, secret: bool) -> Pending<'a, Option<String>> {
        Box::pin(async move {
            // The protocol forbids secrets in forms.
            if secret { None } else { asking::ask_line(&self.session, question).await }
        })
    }

    fn confirm<'a>(&'a mut self, question: &'a str) -> Pending<'a, bool> {
        Box::pin(asking::confirm(&self.session, question))
    }

    fn choose(&mut self, choice: Choice) -> Pending<'_, Option<Chosen>> {
        Box::pin(async move {
            let key = asking::choose(&self.session, &choice).await?;
            Some(Chosen { key, action: None })
        })
    }

    fn present(&mut self, choice: Choice) {
        self.presented = Some(choice);
    }

    fn list_event(&mut self) -> Pending<'_, Option<ListEvent>> {
        Box::pin(async move {
            let choice = self.presented.take()?;
            let key = asking::choose(&self.session, &choice).await?;
            Some(ListEvent::Chosen(Chosen { key, action: None }))
        })
    }

    fn is_broken(&self) -> bool {
        self.session.updates.client.is_gone()
    }

    fn leave(self: Box<Self>, _signalled: bool, ended: Result<(), Failure>) -> ExitKind {
        let opened = self.session.state.borrow_mut().opened.take();
        let exit = ended.as_ref().map_or_else(|failure| failure.exit, |()| ExitKind::Success);
        match (opened, ended) {
            (Some(opened), ended) => drop(opened.send(ended)),
            (None, Err(failure)) => self.notice(Severity::Error, &failure.message(), true),
            (None, Ok(())) => {}
        }
        self.session.settle(true);
        self.session.state.borrow_mut().asked.clear();
        exit
    }
}
