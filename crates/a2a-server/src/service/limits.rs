//! What an owner may use: tasks at a time, tokens and money in a day, space on the disk.
//!
//! Tokens and money are counted when a turn ends, and stored, so that they count with every server and after a restart.
//! A turn itself cannot use more than was left when its session was opened.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use pollux_domain::budget::{Spent, Unit};
use pollux_domain::time::{Clock as _, SystemClock, Timestamp};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::Service;
use crate::arrivals::ArrivalPlace;
use crate::error::{A2aError, ErrorKind};
use crate::store::usage::Used;
use crate::task::Task;
use crate::workspace;

/// Milliseconds of a day.
const DAY: i64 = 24 * 60 * 60 * 1000;
/// What was measured of a disk is believed for so long.
const MEASURED: Duration = Duration::from_secs(10);

/// What owners used with this server.
#[derive(Debug, Default)]
pub(super) struct Usage {
    days: RefCell<HashMap<String, (i64, Used)>>,
    /// Held while a count is stored, so that a newer one is not overwritten.
    writing: tokio::sync::Mutex<()>,
    /// The last day of which older counts were removed, by owner.
    tidied: RefCell<HashMap<String, i64>>,
    disks: RefCell<HashMap<String, (Instant, u64)>>,
}

/// The number of the present day.
fn today() -> i64 {
    SystemClock.now().millis().div_euclid(DAY)
}

/// The beginning of the next day, in milliseconds.
fn next_day(now: i64) -> i64 {
    (now.div_euclid(DAY) + 1) * DAY
}

impl Usage {
    fn of(&self, owner: &str, day: i64) -> Used {
        self.days
            .borrow()
            .get(owner)
            .filter(|(known, _)| *known == day)
            .map_or(Used::default(), |(_, used)| *used)
    }

    fn add(&self, owner: &str, day: i64, more: Used) {
        let mut days = self.days.borrow_mut();
        let (known, used) = days.entry(owner.to_owned()).or_insert((day, Used::default()));
        if *known != day {
            (*known, *used) = (day, Used::default());
        }
        *used = used.plus(more);
    }
}

impl Service {
    /// Counts what a turn used.
    pub(crate) fn count_spent(&self, task: &Task, spent: Spent) {
        self.metrics.count("tokens", spent.tokens);
        self.metrics.count("micro_usd", spent.usd.0);
        if !self.config.limits.is_daily() {
            return;
        }
        let (owner, day) = (task.read(|record| record.owner.clone()), today());
        self.usage.add(&owner, day, Used { tokens: spent.tokens, micro_usd: spent.usd.0 });
        let Some(service) = self.handle().filter(|_| self.store.is_shared) else { return };
        tokio::task::spawn_local(async move { service.store_used(&owner, day).await });
    }

    async fn store_used(&self, owner: &str, day: i64) {
        let _writing = self.usage.writing.lock().await;
        let stored = async {
            self.store.set_used(owner, day, self.usage.of(owner, day)).await?;
            let is_new = self.usage.tidied.borrow_mut().insert(owner.to_owned(), day) != Some(day);
            if is_new { self.store.forget_used(owner, day).await } else { Ok(()) }
        };
        if let Err(error) = stored.await {
            self.debug(&format!("usage of `{owner}` was not stored: {error}"));
        }
    }

    /// What an owner used today, with all servers.
    async fn used(&self, owner: &str) -> Result<Used, A2aError> {
        let day = today();
        let elsewhere = match self.store.is_shared {
            true => self.store.used_elsewhere(owner, day).await?,
            false => Used::default(),
        };
        Ok(self.usage.of(owner, day).plus(elsewhere))
    }

    /// Limits a turn to what its owner has left today.
    pub(crate) async fn limit_turn(&self, owner: &str, budget: &mut Value) -> Result<(), A2aError> {
        let limits = self.config.limits;
        if !limits.is_daily() {
            return Ok(());
        }
        let used = self.used(owner).await?;
        let left = [
            (Unit::Tokens, limits.tokens.map(|most| most.saturating_sub(used.tokens))),
            (Unit::Usd, limits.micro_usd.map(|most| most.saturating_sub(used.micro_usd))),
        ];
        for (unit, left) in left {
            let Some(left) = left else { continue };
            let place = format!("/turn/{}", unit.as_str());
            let own = budget.pointer(&place).and_then(Value::as_f64).and_then(|own| unit.amount(own));
            let least = unit.json(own.map_or(left, |own| own.min(left)));
            if !budget.is_object() {
                *budget = json!({});
            }
            if !budget.get("turn").is_some_and(Value::is_object) {
                budget["turn"] = json!({});
            }
            budget["turn"][unit.as_str()] = least;
        }
        Ok(())
    }

    /// A place for a message of an owner, which may begin a turn of `task`. It is kept until the turn has a session, so
    /// that messages that arrive together count.
    pub(super) async fn take_place(&self, owner: &str, task: Option<&str>) -> Result<ArrivalPlace, A2aError> {
        if self.draining.is_cancelled() {
            return Err(A2aError::new(ErrorKind::Unavailable, "the server is stopping"));
        }
        let place = self.arriving.take(owner);
        let most = self.config.limits.tasks;
        let here = self.at_work(owner, task) + place.count();
        let too_many = || {
            let text = format!("limit of {most} active tasks reached");
            Err(A2aError::new(ErrorKind::TooMany, text))
        };
        if here > most {
            return too_many();
        }
        if self.store.is_shared && here + self.at_work_elsewhere(owner, task).await? > most {
            return too_many();
        }
        self.check_day(owner).await?;
        self.check_disk(owner).await?;
        Ok(place)
    }

    /// How many tasks of an owner are at work here, without this one.
    fn at_work(&self, owner: &str, task: Option<&str>) -> usize {
        let tasks = self.tasks.borrow();
        let at_work = tasks.values().filter(|other| {
            other.session().is_some()
                && Some(other.id.as_str()) != task
                && other.read(|record| record.owner == owner && !record.state.is_over())
        });
        at_work.count()
    }

    async fn at_work_elsewhere(&self, owner: &str, task: Option<&str>) -> Result<usize, A2aError> {
        let working: HashSet<String> = self.store.working(owner).await?;
        let tasks = self.tasks.borrow();
        let is_here = |id: &str| tasks.get(id).is_some_and(|task| task.holding().is_some());
        Ok(working.iter().filter(|id| Some(id.as_str()) != task && !is_here(id)).count())
    }

    async fn check_day(&self, owner: &str) -> Result<(), A2aError> {
        let limits = self.config.limits;
        if !limits.is_daily() {
            return Ok(());
        }
        let used = self.used(owner).await?;
        let unit = if limits.tokens.is_some_and(|most| used.tokens >= most) {
            Unit::Tokens
        } else if limits.micro_usd.is_some_and(|most| used.micro_usd >= most) {
            Unit::Usd
        } else {
            return Ok(());
        };
        let Some(text) = self.day_limit(unit) else { return Ok(()) };
        let now = SystemClock.now().millis();
        let seconds = u32::try_from((next_day(now) - now) / 1000 + 1).unwrap_or(1);
        Err(A2aError::new(ErrorKind::TooMany, text).retry_after(seconds))
    }

    /// What a client reads when the limit of a day is reached, or does not suffice for the next request; `None` if there
    /// is none.
    pub(crate) fn day_limit(&self, unit: Unit) -> Option<String> {
        let limits = self.config.limits;
        let limit = match unit {
            Unit::Tokens => format!("{} tokens", limits.tokens?),
            Unit::Usd => format!("{} USD", limits.micro_usd? as f64 / 1e6),
            Unit::Requests | Unit::Minutes => return None,
        };
        let reset = Timestamp::from_millis(next_day(SystemClock.now().millis()));
        Some(format!("limit of {limit} per day reached; it resets at {}", reset.to_iso()))
    }

    async fn check_disk(&self, owner: &str) -> Result<(), A2aError> {
        let Some(most) = self.config.limits.disk else { return Ok(()) };
        let known = self.usage.disks.borrow().get(owner).copied();
        let size = match known {
            Some((then, size)) if then.elapsed() < MEASURED => size,
            _ => {
                let folder = self.config.workspace_root.join(owner);
                let size = spawn_blocking(move || workspace::size(&folder)).await.unwrap_or_default();
                self.usage.disks.borrow_mut().insert(owner.to_owned(), (Instant::now(), size));
                size
            }
        };
        if size < most {
            return Ok(());
        }
        let text = format!(
            "limit of {} MiB for workspaces reached; workspaces of tasks are deleted some time after their last turn",
            most >> 20
        );
        Err(A2aError::new(ErrorKind::TooMany, text).retry_after(60))
    }
}
