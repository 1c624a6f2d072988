//! Tasks: begun, continued, cancelled, listed, and moved between servers.
//!
//! A server works on a task while it holds its lease. Everything else about a task is in the store, so that any server
//! answers for any task.

mod cleaning;
mod commands;
mod history;
mod holding;
mod limits;
mod messages;
mod pushing;
mod rest;

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::time::Duration;

use pollux_a2a::protocol::{TaskState, Update};
use pollux_config::env::Env;
use pollux_domain::time::{Clock as _, SystemClock, Timestamp};
use pollux_host::request::Request;
use pollux_net::jws::SigningKey;
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::access::{Access, Caller};
use crate::arrivals::Arrivals;
use crate::audit::Audit;
use crate::card::{self, CardFacts};
use crate::command::CommandCount;
use crate::error::{A2aError, ErrorKind};
use crate::metrics::Metrics;
use crate::narrator::Narrator;
use crate::open_streams::OpenStreams;
use crate::options::Config;
use crate::store::events::written;
use crate::store::lease::Observations;
use crate::store::{ListQuery, Listed, TaskStore, is_task_id};

use crate::task::Task;
use crate::webhooks::Webhooks;

pub(crate) use messages::Sent;

/// Where the keys are that the card is signed with.
pub(crate) const KEYS_PATH: &str = "/.well-known/jwks.json";

/// How long, and how many, tasks stay known that were given up here.
const RECENTLY: Duration = Duration::from_secs(10 * 60);
const MAX_RECENT: usize = 32;

/// What a server works with.
pub(crate) struct Service {
    pub(crate) config: Config,
    /// The options of every session.
    pub(crate) request: Request,
    pub(crate) env: Env,
    pub(crate) access: Access,
    pub(crate) store: TaskStore,
    pub(crate) audit: Audit,
    pub(crate) metrics: Metrics,
    pub(crate) scratch: TempDir,
    /// Fired when the server begins to stop, and when it has stopped.
    pub(crate) draining: CancellationToken,
    pub(crate) stopped: CancellationToken,
    /// The address of the server.
    url: String,
    pub(crate) streams: OpenStreams,
    /// Calls webhooks; none if clients cannot register any.
    webhooks: Option<Rc<Webhooks>>,
    /// Signs the card.
    signing_key: Option<SigningKey>,
    /// The card. A signature differs each time, and clients keep the card by its digest.
    shown_card: OnceCell<Value>,
    /// Where lines about problems go.
    pub(crate) log: Box<dyn Fn(&str)>,
    tasks: RefCell<HashMap<String, Rc<Task>>>,
    seen: Observations,
    /// What is on this machine of the tasks that it worked on.
    local: RefCell<HashMap<String, rest::LocalTask>>,
    /// Messages of owners that are being taken.
    arriving: Arrivals,
    usage: limits::Usage,
    itself: Weak<Self>,
}

/// What [`Service::new`] needs.
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) request: Request,
    pub(crate) env: Env,
    pub(crate) access: Access,
    pub(crate) store: TaskStore,
    pub(crate) audit: Audit,
    pub(crate) scratch: TempDir,
    pub(crate) webhooks: Option<Webhooks>,
    pub(crate) signing_key: Option<SigningKey>,
    pub(crate) url: String,
    pub(crate) log: Box<dyn Fn(&str)>,
}

impl Service {
    pub(crate) fn new(parts: Parts) -> Rc<Self> {
        Rc::new_cyclic(|itself| Self {
            config: parts.config,
            request: parts.request,
            env: parts.env,
            access: parts.access,
            store: parts.store,
            audit: parts.audit,
            metrics: Metrics::default(),
            scratch: parts.scratch,
            draining: CancellationToken::new(),
            stopped: CancellationToken::new(),
            url: parts.url,
            streams: OpenStreams::default(),
            webhooks: parts.webhooks.map(Rc::new),
            signing_key: parts.signing_key,
            shown_card: OnceCell::new(),
            log: parts.log,
            tasks: RefCell::default(),
            seen: Observations::default(),
            local: RefCell::default(),
            arriving: Arrivals::default(),
            usage: limits::Usage::default(),
            itself: Weak::clone(itself),
        })
    }

    /// Tells the operator something that is not a result.
    pub(crate) fn debug(&self, line: &str) {
        if self.request.debug {
            (self.log)(line);
        }
    }

    /// The task with this id, up to date; the same error for one that does not exist and for one of another owner.
    pub(crate) async fn find(&self, caller: &Caller, id: &str) -> Result<Rc<Task>, A2aError> {
        if !is_task_id(id) {
            return Err(A2aError::no_task(id));
        }
        let known = self.tasks.borrow().get(id).cloned();
        let owned = known.filter(|task| task.read(|record| record.owner == caller.owner));
        match owned {
            Some(task) if task.holding().is_some() => Ok(task),
            Some(task) => {
                self.refresh(&task).await?;
                Ok(task)
            }
            None => {
                let stored = self.store.load(id).await?;
                let stored = stored.filter(|stored| stored.record.owner == caller.owner);
                let stored = stored.ok_or_else(|| A2aError::no_task(id))?;
                let task = self.keep(Task::new(stored.record, Some(stored.version), stored.cursor));
                self.refresh(&task).await?;
                Ok(task)
            }
        }
    }

    /// Adds a task, unless another request has just done so.
    fn keep(&self, task: Rc<Task>) -> Rc<Task> {
        Rc::clone(self.tasks.borrow_mut().entry(task.id.clone()).or_insert(task))
    }

    /// All tasks that this process knows.
    pub(crate) fn known(&self) -> Vec<Rc<Task>> {
        self.tasks.borrow().values().cloned().collect()
    }

    /// Forgets tasks that nobody needs here; the store has them. The next message of those that were given up last likely
    /// comes here, too, and need not read their history again.
    pub(crate) fn tidy(&self) {
        let mut tasks = self.tasks.borrow_mut();
        let is_recent = |at: &Instant| at.elapsed() < RECENTLY;
        let given_up = |task: &Task| task.given_up.get().filter(is_recent);
        let mut recent: Vec<Instant> = tasks.values().filter_map(|task| given_up(task)).collect();
        recent.sort_unstable_by(|one, other| other.cmp(one));
        let oldest = recent.get(MAX_RECENT - 1).copied();
        tasks.retain(|_, task| {
            task.holding().is_some()
                || task.session().is_some()
                || task.is_watched()
                || Rc::strong_count(task) > 1
                || given_up(task).is_some_and(|at| oldest.is_none_or(|oldest| at >= oldest))
        });
    }

    /// Takes an update in and passes it on to streams and other servers.
    pub(crate) fn publish(&self, task: &Rc<Task>, update: Update) {
        self.prepare_update(task, update);
        task.announce();
    }

    /// The same without telling anyone here yet.
    fn prepare_update(&self, task: &Rc<Task>, update: Update) {
        let numbered = task.take(update);
        if let Some(holding) = task.holding().filter(|_| self.store.is_shared) {
            holding.waiting.borrow_mut().push(written(numbered.number, &numbered.update));
            holding.has_waiting.notify_one();
        }
    }

    /// A page of the caller's tasks.
    pub(crate) async fn list(
        &self,
        caller: &Caller,
        query: &ListQuery,
    ) -> Result<(Vec<Rc<Task>>, Listed), A2aError> {
        let listed = self.store.list(&caller.owner, query).await?;
        let mut tasks = Vec::new();
        for id in &listed.tasks {
            match self.find(caller, id).await {
                Ok(task) => tasks.push(task),
                // Its place in the index is newer or older than the task.
                Err(error) if error.kind == ErrorKind::TaskNotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok((tasks, listed))
    }

    /// Ends a task whose session failed, unless another session has followed it.
    pub(crate) async fn fail(&self, task: &Rc<Task>, session: &CommandCount, why: &str) {
        (self.log)(&format!("task {}: {why}", task.id));
        let gate = task.gate.lock().await;
        let is_current = task.session().is_some_and(|link| link.is_same(session));
        let is_lost = task.holding().is_none_or(|holding| holding.is_over());
        if !is_current || is_lost || task.read(|record| record.state.is_final()) {
            return;
        }
        // No message is taken from here on.
        task.change(|record| record.state = TaskState::Failed);
        drop(gate);
        let update = self.narrator(task).state(TaskState::Failed, Some(why), true);
        self.rest(task, update).await;
    }

    fn narrator(&self, task: &Task) -> Narrator {
        task.read(|record| Narrator::new(record.ids(), record.model.clone()))
    }

    /// The agent card.
    pub(crate) fn card(&self) -> Value {
        self.shown_card.get_or_init(|| self.new_card()).clone()
    }

    fn new_card(&self) -> Value {
        let card = card::card(&CardFacts {
            url: &self.url,
            has_tokens: self.access.has_tokens(),
            discovery_url: self.access.discovery_url().as_deref(),
            has_push: self.webhooks.is_some(),
        });
        match &self.signing_key {
            Some(key) => card::signed(card, key, &format!("{}{KEYS_PATH}", self.url)),
            None => card,
        }
    }

    /// The keys that the card is signed with.
    pub(crate) fn card_keys(&self) -> Option<Value> {
        self.signing_key.as_ref().map(SigningKey::public_keys)
    }

    /// Numbers about this server.
    pub(crate) fn measured(&self) -> String {
        let known = self.known();
        let sessions = known.iter().filter(|task| task.session().is_some()).count();
        let at_work = known.iter().filter(|task| task.read(|record| !record.state.is_over())).count();
        self.metrics.text(&[
            ("tasks_known", known.len()),
            ("tasks_at_work", at_work),
            ("sessions_open", sessions),
            ("streams_open", self.streams.count()),
        ])
    }

    /// Takes over tasks whose servers are gone.
    pub(crate) async fn sweep(self: &Rc<Self>) {
        let Ok(active) = self.store.active().await else { return };
        for id in active {
            let known = self.tasks.borrow().get(&id).cloned();
            if known.as_ref().is_some_and(|task| task.holding().is_some()) {
                continue;
            }
            let task = match known {
                Some(task) => task,
                None => match self.store.load(&id).await {
                    Ok(Some(stored)) => {
                        self.keep(Task::new(stored.record, Some(stored.version), stored.cursor))
                    }
                    _ => continue,
                },
            };
            self.try_recover(&task).await;
        }
    }

    /// A handle that outlives the request.
    fn handle(&self) -> Option<Rc<Self>> {
        self.itself.upgrade()
    }

    /// The present moment, for the order of messages.
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "scratch files need no care")]
mod tests;
