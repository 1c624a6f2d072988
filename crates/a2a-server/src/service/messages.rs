//! Messages of clients, wherever they arrive, are carried out once.

use std::rc::Rc;
use std::time::Duration;

use pollux_a2a::protocol::{Dialect, Message, TaskState, Update, Version};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};
use uuid::Uuid;

use super::Service;
use super::holding::Hold;
use crate::access::{Caller, short_digest};
use crate::command::Command;
use crate::error::{A2aError, ErrorKind};
use crate::incoming::{self, Asked};
use crate::push::PushConfig;
use crate::store::lease::Holding;
use crate::store::push::PushedUpdate;
use crate::store::{InboxMessage, waiting_message};
use crate::task::Task;
use crate::task::record::{AgentSettings, Record};
use crate::workspace;

/// How long a cancellation may take here, and at another server.
const CANCELLING: Duration = Duration::from_secs(10);
/// Between two looks whether the holder of a task has acted on a message.
const DELIVERING: Duration = Duration::from_secs(1);
/// The inbox name of a cancellation.
const CANCEL: &str = "cancel";

/// A message that was taken.
pub(crate) struct Sent {
    pub(crate) task: Rc<Task>,
    /// The last update before it.
    pub(crate) from: u64,
    /// It was taken before.
    pub(crate) is_duplicate: bool,
    /// It was acted on before.
    pub(crate) is_seen: bool,
    pub(crate) is_new: bool,
    /// What the record remembers it by once it is acted on.
    pub(crate) digest: String,
}

impl Service {
    /// Takes a message: it begins a task, or continues one.
    pub(crate) async fn send(
        self: &Rc<Self>,
        caller: &Caller,
        params: &Value,
        version: Version,
    ) -> Result<Sent, A2aError> {
        let message = incoming::message(params)?;
        let digest = short_digest(&message.id);
        let Some(id) = message.ids.task.clone() else {
            return self.begin(caller, message, params, &digest, version).await;
        };
        let task = self.find(caller, &id).await?;
        let context = task.read(|record| record.context.clone());
        if message.ids.context.as_ref().is_some_and(|given| *given != context) {
            return Err(A2aError::params("`contextId` does not match the task"));
        }
        let webhook = self.webhook_of_message(params, &task.id, version)?;
        self.continue_task(caller, task, message, &digest, webhook).await
    }

    async fn begin(
        self: &Rc<Self>,
        caller: &Caller,
        message: Message,
        params: &Value,
        digest: &str,
        version: Version,
    ) -> Result<Sent, A2aError> {
        let _place = self.take_place(&caller.owner, None).await?;
        let settings = incoming::settings(&message, params);
        let mut id = Uuid::new_v4().to_string();
        // Refused before anything is stored.
        self.webhook_of_message(params, &id, version)?;
        if let Some(earlier) = self.store.claim_first(&caller.owner, digest, &id).await? {
            match self.find(caller, &earlier).await {
                Ok(task) => {
                    let from = task.last();
                    let digest = digest.to_owned();
                    return Ok(Sent { task, from, is_duplicate: true, is_seen: true, is_new: true, digest });
                }
                // The server that took it did not get as far as storing the task.
                Err(error) if error.kind == ErrorKind::TaskNotFound => id = earlier,
                Err(error) => return Err(error),
            }
        }
        let context = message.ids.context.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
        let owner = &caller.owner;
        let workspace = match workspace::open(&self.config, owner, &id, settings.workspace_path.as_deref()) {
            Ok(workspace) => workspace,
            Err(error) => {
                self.store.unclaim_first(&caller.owner, digest).await?;
                return Err(error);
            }
        };
        let mut record = Record::new(&id, &context, &caller.owner);
        record.settings = settings;
        record.workspace = workspace.path;
        record.owns_workspace = workspace.is_own;
        record.history.see(digest);
        let asked = incoming::asked(&message, &[])?;
        // Stored with the task: a server that takes it over must see that something was begun.
        let message = Message { ids: record.ids(), ..message };
        record.history.append(&message);
        if let Some(webhook) = self.webhook_of_message(params, &id, version)? {
            self.store_webhook(&id, &webhook, PushedUpdate { number: 0, state: None }).await?;
        }
        let (task, holding) = self.create(record).await?;
        self.metrics.count("tasks", 1);
        let from = task.last();
        let view = task.read(|record| record.view(None, true));
        self.publish(&task, Update::Task(view));
        self.carry_out(&task, &holding, asked);
        let digest = digest.to_owned();
        Ok(Sent { task, from, is_duplicate: false, is_seen: false, is_new: true, digest })
    }

    /// A task that waits for its first message.
    pub(crate) async fn create_empty(
        self: &Rc<Self>,
        caller: &Caller,
        context: Option<String>,
        settings: AgentSettings,
    ) -> Result<Rc<Task>, A2aError> {
        let _place = self.take_place(&caller.owner, None).await?;
        let id = Uuid::new_v4().to_string();
        let context = context.unwrap_or_else(|| Uuid::new_v4().to_string());
        let workspace =
            workspace::open(&self.config, &caller.owner, &id, settings.workspace_path.as_deref())?;
        let mut record = Record::new(&id, &context, &caller.owner);
        // It waits, although upstream calls it submitted until then.
        record.state = TaskState::Submitted;
        record.settings = settings;
        record.workspace = workspace.path;
        record.owns_workspace = workspace.is_own;
        let (task, _) = self.create(record).await?;
        self.metrics.count("tasks", 1);
        let gate = task.gate.lock().await;
        self.release(&task).await;
        drop(gate);
        Ok(task)
    }

    async fn continue_task(
        self: &Rc<Self>,
        caller: &Caller,
        task: Rc<Task>,
        message: Message,
        digest: &str,
        webhook: Option<PushConfig>,
    ) -> Result<Sent, A2aError> {
        let gate = task.gate.lock().await;
        let from = task.last();
        let sent = |task: Rc<Task>, is_duplicate, is_seen| {
            Ok(Sent { task, from, is_duplicate, is_seen, is_new: false, digest: digest.to_owned() })
        };
        if self.has_seen(&task, digest).await? {
            drop(gate);
            return sent(task, true, true);
        }
        let (state, pending) = task.read(|record| (record.state, record.pending.clone()));
        if state.is_final() {
            let word = state.word(Dialect::Tagged);
            return Err(A2aError::new(
                ErrorKind::Unsupported,
                format!("the task is {word} and accepts no messages"),
            ));
        }
        let _place = self.take_place(&caller.owner, Some(&task.id)).await?;
        let asked = incoming::asked(&message, &pending)?;
        if let Some(webhook) = webhook {
            let now = PushedUpdate { number: from, state: Some(state) };
            self.store_webhook(&task.id, &webhook, now).await?;
        }
        let written = waiting_message(&message.to_json(Dialect::Tagged), self.now().millis());
        // A message that waits already was not carried out by then: its server failed, or has not seen it yet.
        let is_first = self.store.claim(&task.id, digest, &written).await?;
        let delivered = async {
            match self.hold(&task).await? {
                // Another server had the task, and may have carried it out.
                Hold::Held(_) if self.has_seen(&task, digest).await? => Ok((true, true)),
                Hold::Held(holding) => {
                    self.accept(&task, &holding, message, digest, asked).await?;
                    Ok((false, false))
                }
                // Its holder finds the message in the inbox, unless it is just giving the task up.
                Hold::Busy => {
                    self.follow(&task);
                    self.deliver_later(&task);
                    Ok((!is_first, false))
                }
            }
        };
        let delivered = delivered.await;
        drop(gate);
        // After an error the message stays in the inbox: another server may have told its client that it is there.
        let (is_duplicate, is_seen) = match delivered {
            Ok(delivered) => delivered,
            Err(error) => {
                self.give_up_soon(&task);
                return Err(error);
            }
        };
        if is_duplicate {
            self.remove_seen(&task, digest);
            self.give_up_soon(&task);
        }
        sent(task, is_duplicate, is_seen)
    }

    /// Sees to it that messages in the inbox are acted on when the holder gives the task up without looking again.
    fn deliver_later(self: &Rc<Self>, task: &Rc<Task>) {
        task.has_mail.set(true);
        if task.is_delivering.replace(true) {
            return;
        }
        let (service, task) = (Rc::clone(self), Rc::clone(task));
        tokio::task::spawn_local(async move {
            service.deliver(&task).await;
            task.is_delivering.set(false);
        });
    }

    /// Ends when the inbox is empty.
    async fn deliver(self: &Rc<Self>, task: &Rc<Task>) {
        loop {
            tokio::select! {
                () = self.draining.cancelled() => return,
                () = sleep(DELIVERING) => {}
            }
            task.has_mail.set(false);
            match self.store.inbox(&task.id).await {
                Ok(waiting) if waiting.is_empty() && !task.has_mail.get() => return,
                Ok(_) => {}
                Err(_) => continue,
            }
            let Ok(gate) = task.gate.try_lock() else { continue };
            let Ok(Hold::Held(holding)) = self.hold(task).await else { continue };
            let _ = self.read_inbox(task, &holding).await;
            drop(gate);
            self.give_up_lease(task).await;
        }
    }

    /// Gives a task up that was taken for nothing.
    pub(super) fn give_up_soon(self: &Rc<Self>, task: &Rc<Task>) {
        let (service, task) = (Rc::clone(self), Rc::clone(task));
        tokio::task::spawn_local(async move { service.give_up_lease(&task).await });
    }

    /// Records that a message was taken, durably, and then acts on it. After an error nothing has changed.
    async fn accept(
        self: &Rc<Self>,
        task: &Rc<Task>,
        holding: &Rc<Holding>,
        message: Message,
        digest: &str,
        asked: Asked,
    ) -> Result<(), A2aError> {
        let message = Message { ids: task.read(Record::ids), ..message };
        let change = |record: &mut Record| {
            record.history.see(digest);
            record.history.append(&message);
            // Its session may have ended it meanwhile.
            if !record.state.is_final() {
                record.state = TaskState::Working;
                record.said = None;
            }
            record.used = Some(holding.epoch);
        };
        self.save_with(task, holding, change).await?;
        if !task.read(|record| record.state.is_final()) {
            self.carry_out(task, holding, asked);
        }
        self.remove_seen(task, digest);
        Ok(())
    }

    /// Removes a message from the inbox that the stored record has seen; otherwise it would be carried out again once the
    /// record has forgotten it.
    fn remove_seen(self: &Rc<Self>, task: &Rc<Task>, digest: &str) {
        if !task.read(|record| record.history.has_seen(digest)) {
            return;
        }
        let (service, id, digest) = (Rc::clone(self), task.id.clone(), digest.to_owned());
        tokio::task::spawn_local(async move { service.store.remove_message(&id, &digest).await });
    }

    fn carry_out(self: &Rc<Self>, task: &Rc<Task>, holding: &Rc<Holding>, asked: Asked) {
        match asked {
            Asked::Prompt { parts, typed } => {
                self.metrics.count("turns", 1);
                task.tell(self, holding, Command::Prompt { parts, typed });
            }
            Asked::Decisions(decisions) => {
                for decision in decisions {
                    task.tell(self, holding, Command::Decide(decision));
                }
            }
        }
    }

    /// Acts on messages that other servers took.
    pub(super) async fn read_inbox(
        self: &Rc<Self>,
        task: &Rc<Task>,
        holding: &Rc<Holding>,
    ) -> Result<(), A2aError> {
        for InboxMessage { digest, content } in self.store.inbox(&task.id).await? {
            if digest == CANCEL {
                self.cancel_held(task, holding).await;
                self.store.remove_message(&task.id, &digest).await?;
                continue;
            }
            if self.has_seen(task, &digest).await? {
                self.store.remove_message(&task.id, &digest).await?;
                continue;
            }
            let message = Message::read(content.get("message").unwrap_or(&Value::Null));
            let (pending, is_final) = task.read(|record| (record.pending.clone(), record.state.is_final()));
            match incoming::asked(&message, &pending) {
                Ok(asked) if !is_final => self.accept(task, holding, message, &digest, asked).await?,
                // It came after the end, or answers a question that is no longer open.
                _ => {
                    self.save_with(task, holding, |record| record.history.see(&digest)).await?;
                    self.store.remove_message(&task.id, &digest).await?;
                }
            }
        }
        Ok(())
    }

    /// Cancels a task, wherever it runs.
    pub(crate) async fn cancel(self: &Rc<Self>, caller: &Caller, id: &str) -> Result<Rc<Task>, A2aError> {
        let task = self.find(caller, id).await?;
        let gate = task.gate.lock().await;
        let state = task.read(|record| record.state);
        if state.is_final() {
            let text = format!("Task not cancelable: {} (state {})", task.id, state.word(Dialect::Tagged));
            return Err(A2aError::new(ErrorKind::NotCancelable, text));
        }
        let mut news = task.watch();
        match self.hold(&task).await? {
            Hold::Held(holding) => self.cancel_held(&task, &holding).await,
            Hold::Busy => {
                let content = json!({"at": self.now().millis(), "by": Uuid::new_v4().to_string()});
                self.store.claim(&task.id, CANCEL, &content).await?;
                self.follow(&task);
                self.deliver_later(&task);
            }
        }
        drop(gate);
        let end = Instant::now() + CANCELLING;
        while !task.read(|record| record.state.is_final()) {
            if !matches!(timeout_at(end, news.changed()).await, Ok(Ok(()))) {
                break;
            }
        }
        Ok(task)
    }

    async fn cancel_held(self: &Rc<Self>, task: &Rc<Task>, holding: &Rc<Holding>) {
        if task.session().is_some() || task.has_commands() {
            task.tell(self, holding, Command::Cancel);
            return;
        }
        let update = self.narrator(task).state(TaskState::Canceled, None, true);
        self.rest(task, update).await;
        // The gate is held here.
        self.release(task).await;
    }
}
