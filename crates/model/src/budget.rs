//! What may be spent, and what has been.
//!
//! Before a request leaves, the most it can cost is reserved in every scope that has a limit; afterwards the true cost
//! takes the reservation's place. Callers that run in parallel draw from the same counters, so that together they
//! cannot spend more than the limits allow, but for errors of the input's estimate. Day and project are counted in a
//! file that all processes share. A reservation there counts as spent from the beginning, so that a process that dies
//! leaves it spent. [`Metered`] puts all of it around any client.
//! Not here: reading limits from settings, and what a session does when a limit is reached.

mod counter_file;
mod metered;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};

use pollux_domain::model::{MicroUsd, ModelError, ModelErrorKind, Prices};
use pollux_domain::sync::Locked;

use crate::catalogue::cost::{affordable_output, worst_cost};
pub use counter_file::{CounterFile, CounterFileError};
pub use metered::{Metered, UnknownPrice};

/// A reply is not cut below this many tokens; the request is refused instead.
pub const MIN_OUTPUT: u64 = 1024;
/// People are told when so much of a limit is spent.
const NOTICE_PERCENT: u64 = 80;

/// What a limit is counted over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    Turn,
    Session,
    /// A day, of all sessions.
    Day,
    /// A project, of all sessions and days.
    Project,
}

impl Scope {
    /// The word in settings and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Session => "session",
            Self::Day => "day",
            Self::Project => "project",
        }
    }
}

/// What may be spent; `None` where there is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    pub usd: Option<MicroUsd>,
    pub tokens: Option<u64>,
    pub requests: Option<u64>,
}

/// What was spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    pub usd: MicroUsd,
    pub tokens: u64,
    pub requests: u64,
}

impl Spent {
    fn plus(self, other: Self) -> Self {
        Self {
            usd: MicroUsd(self.usd.0.saturating_add(other.usd.0)),
            tokens: self.tokens.saturating_add(other.tokens),
            requests: self.requests.saturating_add(other.requests),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            usd: MicroUsd(self.usd.0.saturating_sub(other.usd.0)),
            tokens: self.tokens.saturating_sub(other.tokens),
            requests: self.requests.saturating_sub(other.requests),
        }
    }
}

/// A request that wants to leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// How many tokens it has, as far as that can be told.
    pub input: u64,
    /// How many tokens its reply may have.
    pub max_output: u64,
    /// `None` if nobody knows what it costs; then only tokens and requests are limited.
    pub prices: Option<Prices>,
}

/// A limit that a request would break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exceeded {
    pub scope: Scope,
    pub limits: Limits,
    pub spent: Spent,
}

/// Why a request may not leave.
#[derive(Debug, thiserror::Error)]
pub enum BudgetError {
    #[error("{0}")]
    Exceeded(Exceeded),
    /// Nothing is sent that could not be counted.
    #[error(transparent)]
    File(#[from] CounterFileError),
}

/// Most of a limit is spent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub scope: Scope,
    pub limits: Limits,
    pub spent: Spent,
}

/// Told once for each scope.
pub type OnNotice = Arc<dyn Fn(&Notice) + Send + Sync>;

/// What may be spent in every scope, and what has been. Shared by all callers of a session.
pub struct Budget {
    limits: BTreeMap<Scope, Limits>,
    state: Mutex<State>,
    file: Option<CounterFile>,
    on_notice: Option<OnNotice>,
}

#[derive(Default)]
struct State {
    /// Reservations included.
    spent: BTreeMap<Scope, Spent>,
    told: BTreeSet<Scope>,
}

/// Money and tokens that are set aside for one request. Dropping it leaves them spent.
#[derive(Debug)]
#[must_use = "what is not settled stays spent"]
pub struct Reservation {
    held: Spent,
    /// How many tokens the reply may have now.
    pub max_output: u64,
    /// The day it was made on; it is settled there.
    day: String,
}

impl Budget {
    /// A budget whose day and project are not shared with other processes.
    pub fn new(limits: impl IntoIterator<Item = (Scope, Limits)>) -> Self {
        Self {
            limits: limits.into_iter().collect(),
            state: Mutex::new(State::default()),
            file: None,
            on_notice: None,
        }
    }

    /// Counts day and project in a file.
    #[must_use]
    pub fn with_file(mut self, file: CounterFile) -> Self {
        self.file = Some(file);
        self
    }

    /// Tells when most of a limit is spent.
    #[must_use]
    pub fn with_notices(mut self, on_notice: OnNotice) -> Self {
        self.on_notice = Some(on_notice);
        self
    }

    /// What an earlier part of the session spent.
    #[must_use]
    pub fn resumed(self, spent: Spent) -> Self {
        self.state.locked().spent.insert(Scope::Session, spent);
        self
    }

    /// A new turn begins.
    pub fn begin_turn(&self) {
        let mut state = self.state.locked();
        state.spent.remove(&Scope::Turn);
        state.told.remove(&Scope::Turn);
    }

    /// What was spent so far, reservations included.
    pub fn spent(&self, scope: Scope) -> Spent {
        self.state.locked().spent.get(&scope).copied().unwrap_or_default()
    }

    /// Whether anything is limited by money.
    pub fn limits_money(&self) -> bool {
        self.limits.values().any(|limits| limits.usd.is_some())
    }

    /// Sets aside the most that a request can cost. A reply that would be too dear is made shorter, down to
    /// [`MIN_OUTPUT`] tokens.
    pub fn reserve(&self, ask: &Ask) -> Result<Reservation, BudgetError> {
        let mut state = self.state.locked();
        // Held until the reservation is written, so that two processes do not spend the same money.
        let mut shared = self.file.as_ref().map(CounterFile::open).transpose()?;
        if let Some(shared) = &shared {
            state.spent.insert(Scope::Day, shared.day());
            state.spent.insert(Scope::Project, shared.project());
        }
        let mut max_output = ask.max_output;
        for (scope, limits) in &self.limits {
            let spent = state.spent.get(scope).copied().unwrap_or_default();
            let exceeded = || BudgetError::Exceeded(Exceeded { scope: *scope, limits: *limits, spent });
            max_output = fitting(ask, max_output, limits, spent).ok_or_else(exceeded)?;
        }
        let price = |prices: &Prices| worst_cost(ask.input, max_output, prices);
        let held = Spent {
            usd: ask.prices.as_ref().map(price).unwrap_or_default(),
            tokens: ask.input.saturating_add(max_output),
            requests: 1,
        };
        let day = shared.as_ref().map(|shared| shared.today().to_owned()).unwrap_or_default();
        if let Some(shared) = &mut shared {
            shared.change(&day, Spent::default(), held)?;
        }
        Self::change(&mut state, Spent::default(), held);
        Ok(Reservation { held, max_output, day })
    }

    /// Puts what a request truly cost in the place of its reservation.
    pub fn settle(&self, reservation: Reservation, actual: Spent) -> Result<(), BudgetError> {
        let notices = {
            let mut state = self.state.locked();
            Self::change(&mut state, reservation.held, actual);
            if let Some(file) = &self.file {
                let mut shared = file.open()?;
                shared.change(&reservation.day, reservation.held, actual)?;
                state.spent.insert(Scope::Day, shared.day());
                state.spent.insert(Scope::Project, shared.project());
            }
            self.due_notices(&mut state)
        };
        // Without the lock, because the listener may ask what was spent.
        if let Some(on_notice) = &self.on_notice {
            notices.iter().for_each(|notice| on_notice(notice));
        }
        Ok(())
    }

    fn change(state: &mut State, before: Spent, after: Spent) {
        for scope in [Scope::Turn, Scope::Session, Scope::Day, Scope::Project] {
            let spent = state.spent.entry(scope).or_default();
            *spent = spent.minus(before).plus(after);
        }
    }

    fn due_notices(&self, state: &mut State) -> Vec<Notice> {
        let mut notices = Vec::new();
        for (scope, limits) in &self.limits {
            let spent = state.spent.get(scope).copied().unwrap_or_default();
            if nearly_spent(limits, spent) && state.told.insert(*scope) {
                notices.push(Notice { scope: *scope, limits: *limits, spent });
            }
        }
        notices
    }
}

/// How long the reply of a request may be within a limit; `None` if even the shortest one would be too much.
fn fitting(ask: &Ask, max_output: u64, limits: &Limits, spent: Spent) -> Option<u64> {
    let rest = |limit: u64, spent: u64| limit.saturating_sub(spent);
    if limits.requests.is_some_and(|limit| rest(limit, spent.requests) == 0) {
        return None;
    }
    let mut output = max_output;
    if let Some(limit) = limits.tokens {
        output = output.min(rest(limit, spent.tokens).checked_sub(ask.input)?);
    }
    if let (Some(limit), Some(prices)) = (limits.usd, &ask.prices) {
        let money = MicroUsd(rest(limit.0, spent.usd.0));
        if worst_cost(ask.input, 0, prices) > money {
            return None;
        }
        output = output.min(affordable_output(ask.input, money, prices));
    }
    // A request that wants less than the shortest reply is not made longer.
    (output >= MIN_OUTPUT.min(max_output)).then_some(output)
}

fn nearly_spent(limits: &Limits, spent: Spent) -> bool {
    let nearly = |limit: Option<u64>, spent: u64| {
        limit.is_some_and(|limit| u128::from(spent) * 100 >= u128::from(limit) * u128::from(NOTICE_PERCENT))
    };
    nearly(limits.usd.map(|limit| limit.0), spent.usd.0)
        || nearly(limits.tokens, spent.tokens)
        || nearly(limits.requests, spent.requests)
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scope, limits, spent } = self;
        write!(f, "Budget reached: {} ", scope.as_str())?;
        match limits {
            Limits { usd: Some(limit), .. } => write!(f, "{} of {} USD", usd(spent.usd), usd(*limit))?,
            Limits { tokens: Some(limit), .. } => {
                write!(f, "{} of {} tokens", short(spent.tokens), short(*limit))?;
            }
            Limits { requests, .. } => {
                write!(f, "{} of {} requests", spent.requests, requests.unwrap_or_default())?;
            }
        }
        write!(f, " ({} tokens, {} requests). Nothing was lost.", short(spent.tokens), spent.requests)
    }
}

impl From<BudgetError> for ModelError {
    fn from(error: BudgetError) -> Self {
        let mut refused = Self::new(ModelErrorKind::BudgetExceeded, None, error.to_string());
        refused.details.code = match &error {
            BudgetError::Exceeded(exceeded) => Some(exceeded.scope.as_str().to_owned()),
            BudgetError::File(_) => None,
        };
        refused
    }
}

/// Dollars and cents, never less than was spent.
fn usd(amount: MicroUsd) -> String {
    let cents = amount.0.div_ceil(10_000);
    format!("{}.{:02}", cents / 100, cents % 100)
}

/// `412 k`
fn short(count: u64) -> String {
    if count < 10_000 { count.to_string() } else { format!("{} k", count / 1000) }
}

#[cfg(test)]
mod tests;
