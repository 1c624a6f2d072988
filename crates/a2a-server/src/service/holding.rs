//! Taking tasks, keeping them, giving them up, and following those of other servers.

use std::rc::Rc;
use std::time::Duration;

use pollux_a2a::protocol::TaskState;
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Service;
use crate::command::Command;
use crate::error::{A2aError, ErrorKind};
use crate::store::events::{Batch, Cursor};
use crate::store::lease::{Holding, LeaseError, RENEWAL};
use crate::task::Task;
use crate::task::record::Record;
use crate::workspace;

/// Updates are collected for so long before they are written.
const BATCHING: Duration = Duration::from_millis(250);
/// How often a holder looks for messages that other servers took.
const INBOX: Duration = Duration::from_secs(1);
/// One renewal may take so long, and so long after a failed one the next follows.
const RENEWING: Duration = Duration::from_secs(10);
const RENEWING_AGAIN: Duration = Duration::from_secs(1);
/// How often a record is written again after a write of our own came in between.
const MAX_OWN: usize = 4;
/// Between two looks at a task of another server: at first, and at most.
const FIRST_LOOK: Duration = Duration::from_millis(250);
const MAX_LOOK: Duration = Duration::from_secs(2);

/// Whether this server has a task.
pub(super) enum Hold {
    Held(Rc<Holding>),
    /// Another server has it.
    Busy,
}

impl Service {
    /// Stores a new task that this server works on.
    pub(super) async fn create(self: &Rc<Self>, record: Record) -> Result<(Rc<Task>, Rc<Holding>), A2aError> {
        let task = self.keep(Task::new(record, None, Cursor::default()));
        let holding = match self.store.acquire(&task.id, &self.seen).await {
            Ok(holding) => Rc::new(holding),
            Err(error) => {
                self.forget(&task);
                return Err(match error {
                    LeaseError::Busy => {
                        A2aError::new(ErrorKind::Unavailable, "another server is processing this message")
                    }
                    LeaseError::Store(error) => error,
                });
            }
        };
        self.begin_renewing(&task, &holding);
        self.begin_holding(&task, &holding);
        let stored = async {
            self.mark(&task).await?;
            self.save_with(&task, &holding, |record| record.used = Some(holding.epoch)).await
        };
        match stored.await {
            Ok(()) => Ok((task, holding)),
            Err(error) => {
                self.abandon(&task, &holding);
                self.forget(&task);
                Err(error)
            }
        }
    }

    /// Removes a task from those that are known here; the next request reads it from the store.
    fn forget(&self, task: &Rc<Task>) {
        let mut tasks = self.tasks.borrow_mut();
        if tasks.get(&task.id).is_some_and(|known| Rc::ptr_eq(known, task)) {
            tasks.remove(&task.id);
        }
    }

    /// Takes a task, unless another server has it. The caller holds the gate.
    pub(super) async fn hold(self: &Rc<Self>, task: &Rc<Task>) -> Result<Hold, A2aError> {
        if let Some(holding) = task.holding().filter(|holding| !holding.is_over()) {
            return Ok(Hold::Held(holding));
        }
        let holding = match self.store.acquire(&task.id, &self.seen).await {
            Ok(holding) => Rc::new(holding),
            Err(LeaseError::Busy) => return Ok(Hold::Busy),
            Err(LeaseError::Store(error)) => return Err(error),
        };
        self.begin_renewing(task, &holding);
        match self.take_over(task, &holding).await {
            Ok(()) => Ok(Hold::Held(holding)),
            Err(error) => {
                self.abandon(task, &holding);
                Err(error)
            }
        }
    }

    async fn take_over(self: &Rc<Self>, task: &Rc<Task>, holding: &Rc<Holding>) -> Result<(), A2aError> {
        self.refresh(task).await?;
        if self.store.is_shared {
            self.fence(task, holding.epoch).await?;
        }
        holding.before.set(task.read(|record| record.used));
        self.begin_holding(task, holding);
        self.mark(task).await?;
        self.recover(task, holding).await
    }

    /// Gives a lease back with which nothing could be done.
    fn abandon(self: &Rc<Self>, task: &Rc<Task>, holding: &Rc<Holding>) {
        self.end_holding(task, holding);
        task.outdate();
        let (service, id, holding) = (Rc::clone(self), task.id.clone(), Rc::clone(holding));
        tokio::task::spawn_local(async move { service.store.release(&id, &holding).await });
    }

    fn begin_renewing(self: &Rc<Self>, task: &Rc<Task>, holding: &Rc<Holding>) {
        let (service, task, holding) = (Rc::clone(self), Rc::clone(task), Rc::clone(holding));
        tokio::task::spawn_local(async move { service.keep_lease(&task, &holding).await });
    }

    fn begin_holding(self: &Rc<Self>, task: &Rc<Task>, holding: &Rc<Holding>) {
        task.set_holding(Some(Rc::clone(holding)));
        task.set_cursor(holding.cursor());
        self.begin_pushing(task, holding);
        let (service, task, holding) = (Rc::clone(self), Rc::clone(task), Rc::clone(holding));
        tokio::task::spawn_local(async move { service.keep_in_step(&task, &holding).await });
    }

    fn end_holding(&self, task: &Task, holding: &Rc<Holding>) {
        holding.ended.cancel();
        holding.guard.close();
        if task.holding().is_some_and(|held| Rc::ptr_eq(&held, holding)) {
            task.set_holding(None);
        }
    }

    async fn mark(&self, task: &Task) -> Result<(), A2aError> {
        if self.store.is_shared { self.store.mark_active(&task.id, true).await } else { Ok(()) }
    }

    /// Ends what the holder before wrote, after reading all of it.
    async fn fence(&self, task: &Rc<Task>, epoch: u64) -> Result<(), A2aError> {
        while task.cursor().epoch > 0 && !self.store.fence(&task.id, task.cursor().next(), epoch).await? {
            let before = task.cursor();
            self.read_batches(task).await?;
            if task.cursor() == before {
                return Err(taken_over());
            }
        }
        Ok(())
    }

    /// A task that was in the middle of something lost its server. No call is repeated.
    async fn recover(self: &Rc<Self>, task: &Rc<Task>, holding: &Rc<Holding>) -> Result<(), A2aError> {
        // A task without any message was not in the middle of anything.
        let is_interrupted = task.read(|record| {
            (!record.state.is_over() && !record.history.is_empty()) || !record.pending.is_empty()
        });
        if !is_interrupted {
            return Ok(());
        }
        self.metrics.count("recovered", 1);
        holding.is_recovered.set(true);
        let text = "The server running this task stopped and interrupted the turn. The last tool call may have \
                    taken effect. Send a message to continue.";
        task.change(|record| record.pending.clear());
        let update = self.narrator(task).state(TaskState::InputRequired, Some(text), true);
        self.publish(task, update);
        self.save(task, holding).await
    }

    /// Renews the lease until it is given up or lost. Nothing else is waited for here: a lease that is renewed too late is
    /// taken by another server.
    async fn keep_lease(self: Rc<Self>, task: &Rc<Task>, holding: &Rc<Holding>) {
        let mut pause = RENEWAL;
        let is_shared = self.store.is_shared;
        loop {
            let renewed = async {
                sleep(pause).await;
                let sent = Instant::now();
                (sent, timeout(RENEWING, self.store.renew(&task.id, holding)).await)
            };
            tokio::select! {
                biased;
                () = holding.ended.cancelled() => return,
                () = holding.lost.cancelled() => break,
                (sent, renewed) = renewed, if is_shared => match renewed {
                    Ok(Ok(true)) => {
                        holding.guard.renewed(sent);
                        pause = RENEWAL;
                    }
                    Ok(Ok(false)) => holding.lost.cancel(),
                    Ok(Err(_)) | Err(_) => pause = RENEWING_AGAIN,
                },
            }
        }
        tokio::select! {
            biased;
            () = holding.ended.cancelled() => {}
            () = holding.lost.cancelled() => self.lose(task, holding),
        }
    }

    /// Writes updates and looks for messages while this server has the task.
    async fn keep_in_step(self: Rc<Self>, task: &Rc<Task>, holding: &Rc<Holding>) {
        let mut look = Instant::now() + INBOX;
        loop {
            tokio::select! {
                biased;
                () = holding.ended.cancelled() => return,
                () = holding.lost.cancelled() => return,
                // First, so that steady output does not keep messages waiting.
                () = sleep_until(look), if self.store.is_shared => {
                    // Messages are taken one after another, as those that arrive here.
                    if let Ok(_gate) = task.gate.try_lock()
                        && !holding.is_over()
                        && let Err(error) = self.read_inbox(task, holding).await
                    {
                        self.debug(&format!("task {}: {error}", task.id));
                    }
                    look = Instant::now() + INBOX;
                }
                () = holding.has_waiting.notified() => {
                    sleep(BATCHING).await;
                    if let Err(error) = self.flush(task, holding).await {
                        self.debug(&format!("task {}: {error}", task.id));
                        // They stay in the queue.
                        sleep(BATCHING).await;
                        holding.has_waiting.notify_one();
                    }
                }
            }
        }
    }

    /// Another server has the task: what happens here no longer counts.
    fn lose(&self, task: &Rc<Task>, holding: &Rc<Holding>) {
        self.metrics.count("leases_lost", 1);
        holding.guard.close();
        if task.holding().is_some_and(|held| Rc::ptr_eq(&held, holding)) {
            task.set_holding(None);
        }
        // Streams go on with what the other server writes; what was not written here is forgotten.
        task.outdate();
        self.forget(task);
        self.follow(task);
    }

    /// Writes the updates that wait.
    pub(super) async fn flush(&self, task: &Task, holding: &Holding) -> Result<(), A2aError> {
        if !self.store.is_shared {
            return Ok(());
        }
        let _writing = holding.writing.lock().await;
        // A batch whose write seemed to fail may be there: it stays as it was, and what came since is the next one.
        self.write_batch(task, holding, holding.attempted.get()).await?;
        let count = holding.waiting.borrow().len();
        self.write_batch(task, holding, count).await
    }

    /// Writes the first `count` updates that wait; the caller holds `writing`.
    async fn write_batch(&self, task: &Task, holding: &Holding, count: usize) -> Result<(), A2aError> {
        if holding.lost.is_cancelled() {
            return Err(taken_over());
        }
        if count == 0 {
            return Ok(());
        }
        let updates: Vec<Value> = holding.waiting.borrow().iter().take(count).cloned().collect();
        let at = holding.cursor().next();
        holding.attempted.set(count);
        if !self.store.append(&task.id, at, &updates).await? {
            holding.lost.cancel();
            return Err(taken_over());
        }
        holding.waiting.borrow_mut().drain(..count);
        holding.attempted.set(0);
        holding.batch.set(at.batch);
        task.set_cursor(at);
        Ok(())
    }

    /// Writes the record, its place in the index, and all updates before.
    pub(super) async fn save(&self, task: &Rc<Task>, holding: &Holding) -> Result<(), A2aError> {
        self.save_with(task, holding, |_| {}).await
    }

    /// The same with a change, which is made here only if it was stored: a request that failed can be repeated.
    pub(super) async fn save_with(
        &self,
        task: &Rc<Task>,
        holding: &Holding,
        change: impl Fn(&mut Record),
    ) -> Result<(), A2aError> {
        self.flush(task, holding).await?;
        // One after another, so that no write misses the change of the one before.
        let _saving = holding.saving.lock().await;
        if holding.is_over() {
            return Err(taken_over());
        }
        if let Err(error) = self.shorten_history(task, holding).await {
            // The record takes all of it.
            self.debug(&format!("task {}: {error}", task.id));
        }
        let mut record = task.read(Clone::clone);
        change(&mut record);
        let old = self.store.index(&mut record).await?;
        let stored = self.store_record(task, holding, &record).await;
        let (outdated, result) = match stored {
            Ok(()) => {
                task.change(|now| {
                    change(now);
                    now.indexed.clone_from(&record.indexed);
                });
                (old, Ok(()))
            }
            Err(error) => {
                let before = task.read(|record| record.indexed.clone());
                (record.indexed.take().filter(|name| before.as_ref() != Some(name)), Err(error))
            }
        };
        if let Some(name) = outdated
            && let Err(error) = self.store.unindex(&record.owner, &name).await
        {
            self.debug(&format!("task {}: {error}", task.id));
        }
        if result.is_ok() {
            self.remove_outdated_blocks(task, holding).await;
        }
        result
    }

    async fn store_record(
        &self,
        task: &Rc<Task>,
        holding: &Holding,
        record: &Record,
    ) -> Result<(), A2aError> {
        for _ in 0..MAX_OWN {
            // Updates after the last batch are in the record, so that nobody applies them twice.
            let error = match self.store.save(record, holding.cursor(), task.stored()).await {
                Ok(version) => {
                    task.set_stored(version);
                    return Ok(());
                }
                Err(error) => error,
            };
            match self.store.load(&task.id).await {
                Ok(Some(stored)) if Some(&stored.version) == task.stored().as_ref() => return Err(error),
                // A write of ours took effect although it seemed to fail, this one or one before.
                Ok(Some(stored)) if stored.cursor.epoch == holding.epoch => {
                    task.set_stored(stored.version);
                    if stored.record == *record {
                        return Ok(());
                    }
                }
                Ok(Some(_)) => {
                    holding.lost.cancel();
                    return Err(error);
                }
                Ok(None) | Err(_) => return Err(error),
            }
        }
        Err(A2aError::new(ErrorKind::Unavailable, "the task changes too often"))
    }

    /// Gives a task up that has nothing to do.
    pub(crate) async fn give_up_lease(&self, task: &Rc<Task>) {
        let _gate = task.gate.lock().await;
        if task.session().is_none() && !task.has_commands() {
            self.release(task).await;
        }
    }

    /// The same; the caller holds the gate.
    pub(super) async fn release(&self, task: &Rc<Task>) {
        let Some(holding) = task.holding().filter(|holding| !holding.is_over()) else { return };
        let is_pushing = self.is_pushing(task, &holding);
        if is_pushing && !self.draining.is_cancelled() {
            // Only the holder tells webhooks.
            holding.is_wanted_back.set(true);
            return;
        }
        let _ = self.flush(task, &holding).await;
        // While the lease is held: afterwards it would be the mark of the next holder. What webhooks do not know yet is
        // left to a server that finds the mark.
        if self.store.is_shared
            && !is_pushing
            && let Err(error) = self.store.mark_active(&task.id, false).await
        {
            self.debug(&format!("task {}: {error}", task.id));
        }
        if task.read(|record| record.owns_workspace) {
            // Its time begins now.
            workspace::touch_used(&self.config, &task.id);
        }
        self.end_holding(task, &holding);
        task.given_up.set(Some(Instant::now()));
        if let Err(error) = self.store.release(&task.id, &holding).await {
            self.debug(&format!("task {}: {error}", task.id));
        }
        if !self.store.is_shared {
            return;
        }
        let Some(service) = self.handle() else { return };
        let (id, epoch) = (task.id.clone(), holding.epoch);
        tokio::task::spawn_local(async move { service.store.prune(&id, epoch).await });
    }

    /// Reads what other servers wrote about a task that is not held here.
    pub(crate) async fn refresh(&self, task: &Rc<Task>) -> Result<(), A2aError> {
        if !task.is_outdated() {
            self.read_batches(task).await?;
        }
        let known = task.stored();
        let Some(stored) = self.store.load_newer(&task.id, known.as_ref()).await? else { return Ok(()) };
        if task.catch_up(stored, known.as_ref()) {
            self.read_batches(task).await?;
        }
        Ok(())
    }

    /// Applies the batches after those that are known.
    async fn read_batches(&self, task: &Rc<Task>) -> Result<(), A2aError> {
        while self.store.is_shared && task.holding().is_none() {
            let at = task.cursor().next();
            let batch = self.store.batch(&task.id, at).await?;
            if task.holding().is_some() {
                return Ok(());
            }
            match batch {
                // What a store makes up must not lead in a circle.
                Some(Batch::Next(epoch)) if epoch <= at.epoch => return Ok(()),
                Some(Batch::Updates(_)) if at == task.cursor() => return Ok(()),
                None => return Ok(()),
                Some(Batch::Next(epoch)) => task.set_cursor(Cursor { epoch, batch: 0 }),
                Some(Batch::Updates(updates)) => {
                    for (number, update) in updates {
                        if number == task.last().saturating_add(1) {
                            task.publish(update);
                        }
                    }
                    task.set_cursor(at);
                }
            }
        }
        Ok(())
    }

    /// Reads updates of a task that another server has, while someone waits for them.
    pub(crate) fn follow(&self, task: &Rc<Task>) {
        let Some(service) = self.handle() else { return };
        if !self.store.is_shared || task.holding().is_some() || task.is_followed.replace(true) {
            return;
        }
        let task = Rc::clone(task);
        tokio::task::spawn_local(async move {
            service.follow_to_end(&task).await;
            task.is_followed.set(false);
        });
    }

    /// Looks once whether the server of a task lives.
    pub(crate) fn follow_silent(&self, task: &Rc<Task>) {
        if task.read(|record| !record.state.is_over() || !record.pending.is_empty()) {
            self.follow(task);
        }
    }

    async fn follow_to_end(self: Rc<Self>, task: &Rc<Task>) {
        let mut pause = FIRST_LOOK;
        // The request that began this may not wait yet.
        let grace = Instant::now() + MAX_LOOK;
        while task.holding().is_none() && (task.is_watched() || Instant::now() < grace) {
            let before = task.last();
            let _ = self.refresh(task).await;
            pause = if task.last() > before { FIRST_LOOK } else { (pause * 2).min(MAX_LOOK) };
            let is_over = task.read(|record| record.state.is_over() && record.pending.is_empty());
            if !is_over {
                self.try_recover(task).await;
            }
            sleep(pause).await;
        }
    }

    /// Takes a task whose server has been silent for too long.
    pub(crate) async fn try_recover(self: &Rc<Self>, task: &Rc<Task>) {
        let Ok(_gate) = task.gate.try_lock() else { return };
        if task.holding().is_some() || self.draining.is_cancelled() {
            return;
        }
        let Ok(Hold::Held(holding)) = self.hold(task).await else { return };
        let _ = self.read_inbox(task, &holding).await;
        if self.config.resume_tasks
            && holding.is_recovered.get()
            && !task.has_commands()
            && task.read(|record| record.state == TaskState::InputRequired)
            && self.save_with(task, &holding, |record| record.used = Some(holding.epoch)).await.is_ok()
        {
            let text =
                "The previous turn was interrupted. Continue, and check first what has been done already.";
            let parts = vec![pollux_domain::content::Part::text(text)];
            task.tell(self, &holding, Command::Prompt { parts, typed: text.to_owned() });
        }
        if task.session().is_none() && !task.has_commands() {
            self.release(task).await;
        }
    }
}

fn taken_over() -> A2aError {
    A2aError::new(ErrorKind::Unavailable, "another server is running this task")
}
