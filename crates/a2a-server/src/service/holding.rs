//! Taking tasks, keeping them, giving them up, and following those of other servers.

use std::rc::Rc;
use std::time::Duration;

use pollux_a2a::protocol::TaskState;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Service;
use crate::command::Command;
use crate::error::{A2aError, ErrorKind};
use crate::guard::Calls;
use crate::store::events::{Batch, Cursor};
use crate::store::lease::{Holding, LeaseError, RENEWAL};
use crate::task::Task;
use crate::task::record::Record;

/// Updates are collected for so long before they are written.
const BATCHING: Duration = Duration::from_millis(250);
/// How often a holder looks for messages that other servers took.
const INBOX: Duration = Duration::from_secs(1);
/// Without a renewal for so long no call may start: another server may be about to take the task.
const DOUBT: Duration = Duration::from_secs(12);
/// One renewal may take so long.
const RENEWING: Duration = Duration::from_secs(10);
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
            Err(LeaseError::Busy) => {
                self.tasks.borrow_mut().remove(&task.id);
                return Err(A2aError::new(
                    ErrorKind::Unavailable,
                    "another server is processing this message",
                ));
            }
            Err(LeaseError::Store(error)) => {
                self.tasks.borrow_mut().remove(&task.id);
                return Err(error);
            }
        };
        self.begin_holding(&task, &holding);
        self.mark(&task).await?;
        self.save(&task, &holding).await?;
        Ok((task, holding))
    }

    /// Takes a task, unless another server has it. The caller holds the gate.
    pub(super) async fn hold(self: &Rc<Self>, task: &Rc<Task>) -> Result<Hold, A2aError> {
        if let Some(holding) = task.holding().filter(|holding| !holding.lost.is_cancelled()) {
            return Ok(Hold::Held(holding));
        }
        let holding = match self.store.acquire(&task.id, &self.seen).await {
            Ok(holding) => Rc::new(holding),
            Err(LeaseError::Busy) => return Ok(Hold::Busy),
            Err(LeaseError::Store(error)) => return Err(error),
        };
        self.refresh(task).await?;
        if self.store.is_shared {
            self.fence(task, holding.epoch).await?;
        }
        self.begin_holding(task, &holding);
        self.mark(task).await?;
        self.recover(task, &holding).await?;
        Ok(Hold::Held(holding))
    }

    fn begin_holding(self: &Rc<Self>, task: &Rc<Task>, holding: &Rc<Holding>) {
        task.set_holding(Some(Rc::clone(holding)));
        task.set_cursor(holding.cursor());
        let (service, task, holding) = (Rc::clone(self), Rc::clone(task), Rc::clone(holding));
        tokio::task::spawn_local(async move { service.keep_lease(&task, &holding).await });
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
                return Err(A2aError::new(ErrorKind::Unavailable, "another server is running this task"));
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
        let text = "The server running this task stopped and interrupted the turn. The last tool call may have \
                    taken effect. Send a message to continue.";
        task.change(|record| record.pending.clear());
        let update = self.narrator(task).state(TaskState::InputRequired, Some(text), true);
        self.publish(task, update);
        self.save(task, holding).await
    }

    /// Renews the lease and writes updates until it is given up or lost.
    async fn keep_lease(self: Rc<Self>, task: &Rc<Task>, holding: &Rc<Holding>) {
        let mut renewal = Instant::now() + RENEWAL;
        let mut look = Instant::now() + INBOX;
        loop {
            let is_shared = self.store.is_shared;
            tokio::select! {
                biased;
                () = holding.ended.cancelled() => return,
                () = holding.lost.cancelled() => break,
                () = sleep_until(renewal), if is_shared => {
                    renewal = Instant::now() + RENEWAL;
                    self.renew(task, holding).await;
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
                () = sleep_until(look), if is_shared => {
                    // Messages are taken one after another, as those that arrive here.
                    if let Ok(_gate) = task.gate.try_lock()
                        && let Err(error) = self.read_inbox(task, holding).await
                    {
                        self.debug(&format!("task {}: {error}", task.id));
                    }
                    look = Instant::now() + INBOX;
                }
            }
        }
        self.lose(task, holding);
    }

    async fn renew(&self, task: &Task, holding: &Holding) {
        match timeout(RENEWING, self.store.renew(&task.id, holding)).await {
            Ok(Ok(true)) => {
                holding.renewed.set(Instant::now());
                holding.guard.set(Calls::May);
            }
            Ok(Ok(false)) => holding.lost.cancel(),
            Ok(Err(_)) | Err(_) if holding.renewed.get().elapsed() > DOUBT => holding.guard.set(Calls::Wait),
            Ok(Err(_)) | Err(_) => {}
        }
    }

    /// Another server has the task: what happens here no longer counts.
    fn lose(&self, task: &Rc<Task>, holding: &Rc<Holding>) {
        self.metrics.count("leases_lost", 1);
        holding.guard.set(Calls::Never);
        holding.lost.cancel();
        if task.holding().is_some_and(|held| Rc::ptr_eq(&held, holding)) {
            task.set_holding(None);
        }
        // Streams go on with what the other server writes; what was not written here is forgotten.
        self.tasks.borrow_mut().remove(&task.id);
        self.follow(task);
    }

    /// Writes the updates that wait.
    pub(super) async fn flush(&self, task: &Task, holding: &Holding) -> Result<(), A2aError> {
        if !self.store.is_shared || holding.lost.is_cancelled() {
            return Ok(());
        }
        let _writing = holding.writing.lock().await;
        let updates = holding.waiting.borrow().clone();
        if updates.is_empty() {
            return Ok(());
        }
        let at = holding.cursor().next();
        if !self.store.append(&task.id, at, &updates).await? {
            holding.lost.cancel();
            return Err(A2aError::new(ErrorKind::Unavailable, "another server is running this task"));
        }
        holding.waiting.borrow_mut().drain(..updates.len());
        holding.batch.set(at.batch);
        task.set_cursor(at);
        Ok(())
    }

    /// Writes the record, its place in the index, and all updates before.
    pub(super) async fn save(&self, task: &Rc<Task>, holding: &Holding) -> Result<(), A2aError> {
        self.flush(task, holding).await?;
        let mut record = task.read(Clone::clone);
        self.store.index(&mut record).await?;
        task.change(|now| now.indexed.clone_from(&record.indexed));
        // Updates after the last batch are in the record, so that nobody applies them twice.
        match self.store.save(&record, holding.cursor(), task.stored()).await {
            Ok(version) => {
                task.set_stored(version);
                Ok(())
            }
            Err(error) => {
                if self.is_overwritten(task).await {
                    holding.lost.cancel();
                }
                Err(error)
            }
        }
    }

    /// Whether the stored record is not the one that this server wrote last.
    async fn is_overwritten(&self, task: &Task) -> bool {
        let owner = task.read(|record| record.owner.clone());
        match self.store.load(&task.id, &owner).await {
            Ok(Some(stored)) if Some(&stored.version) != task.stored().as_ref() => {
                let is_ours = task
                    .read(|record| record.last >= stored.record.last && record.seen == stored.record.seen);
                if is_ours {
                    task.set_stored(stored.version);
                }
                !is_ours
            }
            _ => false,
        }
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
        let Some(holding) = task.holding() else { return };
        if holding.lost.is_cancelled() {
            return;
        }
        let _ = self.flush(task, &holding).await;
        holding.ended.cancel();
        task.set_holding(None);
        if let Err(error) = self.store.release(&task.id, &holding).await {
            self.debug(&format!("task {}: {error}", task.id));
        }
        if !self.store.is_shared {
            return;
        }
        let Some(service) = self.handle() else { return };
        let (id, epoch) = (task.id.clone(), holding.epoch);
        tokio::task::spawn_local(async move {
            let _ = service.store.mark_active(&id, false).await;
            let _ = service.store.prune(&id, epoch).await;
        });
    }

    /// Reads what other servers wrote about a task that is not held here.
    pub(crate) async fn refresh(&self, task: &Rc<Task>) -> Result<(), A2aError> {
        self.read_batches(task).await?;
        let (owner, known) = (task.read(|record| record.owner.clone()), task.stored());
        let Some(stored) = self.store.load(&task.id, &owner).await? else { return Ok(()) };
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
                None => return Ok(()),
                Some(Batch::Next(epoch)) => task.set_cursor(Cursor { epoch, batch: 0 }),
                Some(Batch::Updates(updates)) => {
                    for (number, update) in updates {
                        if number == task.last() + 1 {
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
            && !task.has_commands()
            && task.read(|record| record.state == TaskState::InputRequired)
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
