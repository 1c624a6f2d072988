//! Webhooks: registering them, and telling them about every new state of their task.
//!
//! The server that holds a task tells them, one state after another, while the turn goes on. It keeps the lease until
//! they know the last state, or were tried three times. What they were told is stored, so that the next server tells
//! them what this one could not.

use std::rc::Rc;
use std::time::Duration;

use pollux_a2a::protocol::{Dialect, Update, Version};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Service;
use crate::access::Caller;
use crate::error::{A2aError, ErrorKind};
use crate::manner::CallManner;
use crate::push::{PushConfig, PushTarget, given_with_message};
use crate::store::lease::Holding;
use crate::store::push::PushedUpdate;
use crate::task::Task;
use crate::webhooks::Webhooks;

/// Webhooks that a task may have.
const MAX_WEBHOOKS: usize = 10;
/// Messages of the history that a webhook of 0.3 gets with the task.
const HISTORY: usize = 20;
/// Between two attempts to read the webhooks from a store that does not answer.
const PAUSE: Duration = Duration::from_secs(2);

impl Service {
    fn webhooks(&self) -> Result<&Rc<Webhooks>, A2aError> {
        self.webhooks.as_ref().ok_or_else(no_push)
    }

    /// Registers a webhook, or replaces the one of the same name.
    pub(crate) async fn set_webhook(
        &self,
        caller: &Caller,
        params: &Value,
        dialect: Dialect,
    ) -> Result<Value, A2aError> {
        let webhooks = self.webhooks()?;
        let target = PushTarget::read(params)?;
        let task = self.find(caller, &target.task).await?;
        let config = PushConfig::of_request(params, &target, dialect.version())?;
        webhooks.check(&config.url)?;
        let now = task.read(|record| PushedUpdate { number: record.last, state: Some(record.state) });
        self.store_webhook(&task.id, &config, now).await?;
        Ok(config.to_json(&task.id, dialect))
    }

    /// Stores a webhook, which is told everything after `now`.
    pub(super) async fn store_webhook(
        &self,
        task: &str,
        config: &PushConfig,
        now: PushedUpdate,
    ) -> Result<(), A2aError> {
        let known = self.store.webhook_ids(task).await?;
        if !known.contains(&config.id) && known.len() >= MAX_WEBHOOKS {
            let text = format!("limit of {MAX_WEBHOOKS} push notification configurations per task reached");
            return Err(A2aError::new(ErrorKind::TooMany, text));
        }
        self.store.begin_pushed(task, now).await?;
        let sealed = self.webhooks()?.seal(config, task);
        let sealed =
            sealed.ok_or_else(|| A2aError::new(ErrorKind::Internal, "could not encrypt the webhook"))?;
        self.store.put_webhook(task, &config.id, &sealed).await
    }

    /// The webhook that a message registers, checked.
    pub(super) fn webhook_of_message(
        &self,
        params: &Value,
        task: &str,
        version: Version,
    ) -> Result<Option<PushConfig>, A2aError> {
        if given_with_message(params).is_none() {
            return Ok(None);
        }
        let webhooks = self.webhooks()?;
        let config = PushConfig::of_message(params, task, version)?;
        config.as_ref().map_or(Ok(()), |config| webhooks.check(&config.url))?;
        Ok(config)
    }

    /// One webhook; without a name the first one.
    pub(crate) async fn get_webhook(
        &self,
        caller: &Caller,
        params: &Value,
        dialect: Dialect,
    ) -> Result<Value, A2aError> {
        let webhooks = Rc::clone(self.webhooks()?);
        let target = PushTarget::read(params)?;
        let task = self.find(caller, &target.task).await?;
        let id = match target.config {
            Some(id) => Some(id),
            None => self.store.webhook_ids(&task.id).await?.into_iter().next(),
        };
        let sealed = match &id {
            Some(id) => self.store.webhook(&task.id, id).await?,
            None => None,
        };
        let config = sealed.and_then(|sealed| webhooks.open(&sealed, &task.id));
        let config = config.ok_or_else(|| {
            A2aError::new(
                ErrorKind::TaskNotFound,
                format!("Push notification configuration not found: {}", task.id),
            )
        })?;
        Ok(config.to_json(&task.id, dialect))
    }

    pub(crate) async fn list_webhooks(
        &self,
        caller: &Caller,
        params: &Value,
        dialect: Dialect,
    ) -> Result<Value, A2aError> {
        let webhooks = Rc::clone(self.webhooks()?);
        let target = PushTarget::read(params)?;
        let task = self.find(caller, &target.task).await?;
        let configs = self.configs(&webhooks, &task.id).await?;
        let shown: Vec<Value> = configs.iter().map(|config| config.to_json(&task.id, dialect)).collect();
        Ok(match dialect {
            Dialect::Tagged => Value::Array(shown),
            Dialect::OldBuffers | Dialect::One => json!({"configs": shown, "nextPageToken": ""}),
        })
    }

    pub(crate) async fn delete_webhook(
        &self,
        caller: &Caller,
        params: &Value,
        dialect: Dialect,
    ) -> Result<Value, A2aError> {
        self.webhooks()?;
        let target = PushTarget::read(params)?;
        let task = self.find(caller, &target.task).await?;
        let id = target.config.ok_or_else(|| A2aError::params("the id of the configuration is missing"))?;
        self.store.remove_webhook(&task.id, &id).await?;
        Ok(if dialect == Dialect::Tagged { Value::Null } else { json!({}) })
    }

    /// The webhooks of a task that this server can read.
    async fn configs(&self, webhooks: &Webhooks, task: &str) -> Result<Vec<PushConfig>, A2aError> {
        let mut configs = Vec::new();
        for id in self.store.webhook_ids(task).await?.into_iter().take(MAX_WEBHOOKS) {
            let Some(sealed) = self.store.webhook(task, &id).await? else { continue };
            match webhooks.open(&sealed, task) {
                Some(config) => configs.push(config),
                None => (self.log)(&format!(
                    "task {task}: a webhook was stored with another key; all servers need the same `a2a.cluster.secret`"
                )),
            }
        }
        Ok(configs)
    }

    /// Whether webhooks may have to be told something that happened here.
    pub(crate) fn is_pushing(&self, task: &Task, holding: &Holding) -> bool {
        self.webhooks.is_some() && holding.pushed.get() != Some(task.last())
    }

    /// Tells webhooks about new states while this server has the task.
    pub(super) fn begin_pushing(self: &Rc<Self>, task: &Rc<Task>, holding: &Rc<Holding>) {
        let Some(webhooks) = self.webhooks.clone() else { return };
        // A task without updates is new, and its first state is told, too.
        let start = task.read(|record| PushedUpdate {
            number: record.last,
            state: (record.last > 0).then_some(record.state),
        });
        let (service, task, holding) = (Rc::clone(self), Rc::clone(task), Rc::clone(holding));
        tokio::task::spawn_local(async move {
            let pushing = service.keep_pushing(&webhooks, &task, &holding, start);
            tokio::select! {
                biased;
                () = holding.ended.cancelled() => {}
                () = holding.lost.cancelled() => {}
                () = pushing => {}
            }
        });
    }

    async fn keep_pushing(
        self: &Rc<Self>,
        webhooks: &Rc<Webhooks>,
        task: &Rc<Task>,
        holding: &Holding,
        start: PushedUpdate,
    ) {
        let mut news = task.watch();
        let mut told = self.resumed(task, start).await;
        loop {
            news.borrow_and_update();
            let (due, seen) = due(task, told);
            for (next, update) in due {
                if self.notify(webhooks, task, holding, &update).await
                    && let Err(error) = self.store.set_pushed(&task.id, next).await
                {
                    self.debug(&format!("task {}: {error}", task.id));
                }
                told = next;
            }
            told.number = seen;
            holding.pushed.set(Some(seen));
            if task.last() != seen {
                continue;
            }
            if holding.is_wanted_back.take() {
                self.give_up_soon(task);
            }
            if news.changed().await.is_err() {
                return;
            }
        }
    }

    /// Where to go on: after what an earlier holder told.
    async fn resumed(&self, task: &Task, start: PushedUpdate) -> PushedUpdate {
        loop {
            match self.store.pushed(&task.id).await {
                Ok(Some(told)) if told.number <= start.number && told.state != start.state => return told,
                Ok(_) => return start,
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// Tells all webhooks of a task; false if there are none.
    async fn notify(
        &self,
        webhooks: &Rc<Webhooks>,
        task: &Rc<Task>,
        holding: &Holding,
        update: &Update,
    ) -> bool {
        let configs = loop {
            match self.configs(webhooks, &task.id).await {
                // While that is in doubt, another server may be about to tell them.
                Ok(configs) if holding.guard.is_open() || configs.is_empty() => break configs,
                _ => sleep(PAUSE).await,
            }
        };
        let is_any = !configs.is_empty();
        if is_any && let Err(error) = self.read_history(task, Some(HISTORY)).await {
            self.debug(&format!("task {}: {error}", task.id));
        }
        let mut calls = JoinSet::new();
        for config in configs {
            let (webhooks, body) = (Rc::clone(webhooks), body(task, update, config.version));
            calls.spawn_local(async move { webhooks.call(&config, &body).await });
        }
        while let Some(called) = calls.join_next().await {
            match called {
                Ok(Ok(())) => self.metrics.count("webhook_calls", 1),
                Ok(Err(why)) => {
                    self.metrics.count("webhook_failures", 1);
                    self.debug(&format!("task {}: a webhook could not be called: {why}", task.id));
                }
                Err(_) => {}
            }
        }
        is_any
    }
}

/// The states after this one, each with its number, and the number of the last update.
fn due(task: &Task, told: PushedUpdate) -> (Vec<(PushedUpdate, Update)>, u64) {
    let last = task.last();
    let Some(updates) = task.after(told.number) else {
        // Too much happened, or another server told it: the present state counts.
        let view = task.read(|record| record.view(Some(HISTORY), false));
        let next = PushedUpdate { number: last, state: Some(view.status.state) };
        let due = if next.state == told.state { Vec::new() } else { vec![(next, Update::Task(view))] };
        return (due, last);
    };
    let (mut due, mut state) = (Vec::new(), told.state);
    for numbered in updates {
        let now = numbered.update.state();
        if now.is_some() && now != state {
            state = now;
            due.push((PushedUpdate { number: numbered.number, state }, (*numbered.update).clone()));
        }
    }
    (due, last)
}

/// What a webhook is sent: the task in 0.3, an event of a stream in 1.0.
fn body(task: &Task, update: &Update, version: Version) -> Value {
    match version {
        Version::One => CallManner { dialect: Dialect::One, with_metadata: false }.update(update),
        Version::Old => {
            let mut view = task.read(|record| record.view(Some(HISTORY), false));
            match update {
                // The task may have gone on meanwhile.
                Update::Status(update) => view.status = update.status.clone(),
                Update::Task(told) => view.status = told.status.clone(),
                Update::Artifact(_) | Update::Message(_) => {}
            }
            view.to_json(Dialect::Tagged)
        }
    }
}

fn no_push() -> A2aError {
    A2aError::new(ErrorKind::NoPush, "Push Notification is not supported")
}
