//! Limits on spending, and what was spent.
//!
//! Before a request is sent, the most it can cost is reserved in every scope that has a limit; afterwards the actual
//! cost replaces the reservation. Callers that run in parallel draw from the same counters, so that together they
//! cannot exceed the limits, apart from errors in the estimated input. Day and project are counted in a file that all
//! processes share, and what a limited session reserves is kept there: if a process is killed, it stays spent.
//! [`Meter`] wraps any client with all of this. Not here: reading limits from settings, and what a session does when
//! a limit is reached.

mod attempts;
mod counter_file;
mod embedding;
mod estimate;
mod meter;
mod metered;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use pollux_domain::budget::{BudgetChange, BudgetStatus, Exceeded, Limits, Scope, ScopeStatus, Spent, Unit};
use pollux_domain::model::{MicroUsd, ModelError, ModelErrorKind, Prices};
use pollux_domain::sync::Locked;

use crate::catalogue::cost::{affordable_output, worst_cost};
pub(crate) use attempts::{attempt_refused, before_attempt, output_cap, received, uncounted};
use counter_file::OpenFile;
pub use counter_file::{CounterFile, CounterFileError};
pub use embedding::MeteredEmbedder;
pub use meter::{Meter, UnknownPrice};
pub use metered::Metered;

/// A reply is not shortened below this many tokens; the request is refused instead.
pub const MIN_OUTPUT: u64 = 1024;
/// The user is warned when this share of a limit is spent.
const NOTICE_PERCENT: u64 = 80;

/// A request to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Its tokens, estimated if necessary.
    pub input: u64,
    /// How many tokens its reply may have.
    pub max_output: u64,
    /// `None` if the price is unknown; then only tokens and requests are limited.
    pub prices: Option<Prices>,
}

/// Why a request must not be sent.
#[derive(Debug, thiserror::Error)]
pub enum BudgetError {
    #[error("{exceeded}")]
    Exceeded {
        exceeded: Box<Exceeded>,
        /// It would fit if the reservations of running requests were released.
        may_pass: bool,
    },
    /// Requests that cannot be counted are not sent.
    #[error("could not track the budget: {0}")]
    File(#[from] CounterFileError),
}

/// Limits and spending in every scope. Shared by all callers of a session.
pub struct Budget {
    state: Mutex<State>,
    /// Limits in system settings, which cannot be raised.
    fixed: BTreeMap<Scope, Limits>,
    file: Option<CounterFile>,
    /// Whether day and project are counted there, and not only what the session reserves.
    counts_days: bool,
    session: Option<String>,
}

#[derive(Default)]
struct State {
    limits: BTreeMap<Scope, Limits>,
    /// Reservations included.
    spent: BTreeMap<Scope, Spent>,
    /// Reserved for running requests.
    held: Spent,
    wasted: Spent,
    /// Scopes whose warning was given.
    told: BTreeSet<Scope>,
    notices: Vec<String>,
    /// The day of the file when it was last read.
    today: String,
    /// Until when the time of the running turn was counted.
    counted_until: Option<Instant>,
    /// Time not yet written to the file.
    unfiled_millis: u64,
}

/// Money and tokens reserved for one request. If dropped, they stay spent.
#[derive(Debug)]
#[must_use = "what is not settled stays spent"]
pub struct Reservation {
    held: Spent,
    /// How many tokens the reply may have now.
    pub max_output: u64,
    /// The day it was made, on which it is settled.
    day: String,
}

impl Budget {
    /// A budget whose day and project are not shared with other processes.
    pub fn new(limits: impl IntoIterator<Item = (Scope, Limits)>) -> Self {
        let limits = limits.into_iter().filter(|(_, limits)| !limits.is_empty()).collect();
        Self {
            state: Mutex::new(State { limits, ..State::default() }),
            fixed: BTreeMap::new(),
            file: None,
            counts_days: false,
            session: None,
        }
    }

    /// Counts day and project in a file if they are limited, and keeps there what the session reserves, so that it
    /// stays spent if the process is killed.
    #[must_use]
    pub fn with_file(mut self, file: CounterFile) -> Self {
        let scopes: Vec<Scope> = self.state.locked().limits.keys().copied().collect();
        self.counts_days = scopes.iter().any(|scope| scope.outlives_sessions());
        self.file = Some(file).filter(|_| self.counts_days || scopes.contains(&Scope::Session));
        self
    }

    /// Limits that cannot be raised.
    #[must_use]
    pub fn with_fixed(mut self, limits: impl IntoIterator<Item = (Scope, Limits)>) -> Self {
        self.fixed = limits.into_iter().collect();
        self
    }

    /// The session to name in the advice on how to resume, and in the file.
    #[must_use]
    pub fn of_session(mut self, id: impl Into<String>) -> Self {
        self.session = Some(id.into());
        self
    }

    /// Spending of an earlier part of the session. A killed process may have reserved more than the session's record
    /// tells. Spending only grows, so whichever is more is right.
    pub fn resume(&self, spent: Spent) {
        let killed = |file: &CounterFile| {
            let session = self.session.as_deref()?;
            file.open().ok().map(|shared| shared.session(session))
        };
        let killed = self.file.as_ref().and_then(killed).unwrap_or_default();
        self.state.locked().spent.insert(Scope::Session, spent.max(killed));
    }

    /// A new turn begins.
    pub fn begin_turn(&self) {
        let mut state = self.state.locked();
        state.spent.remove(&Scope::Turn);
        state.told.remove(&Scope::Turn);
        state.counted_until = Some(Instant::now());
    }

    /// The turn is over.
    pub fn end_turn(&self) {
        let mut state = self.state.locked();
        state.count_time();
        state.counted_until = None;
        let timed = |(scope, limits): (&Scope, &Limits)| scope.outlives_sessions() && limits.millis.is_some();
        if state.limits.iter().any(timed)
            && let Some(file) = &self.file
            && let Ok(mut shared) = file.open()
        {
            let time = Spent { millis: state.unfiled_millis, ..Spent::default() };
            let day = shared.today().to_owned();
            shared.change(&day, Spent::default(), time);
            if shared.write().is_ok() {
                state.unfiled_millis = 0;
            }
        }
    }

    /// What was spent so far, reservations included.
    pub fn spent(&self, scope: Scope) -> Spent {
        self.state.locked().spent_in(scope)
    }

    /// Whether anything is limited.
    pub fn is_limited(&self) -> bool {
        !self.state.locked().limits.is_empty()
    }

    /// Whether anything is limited by money.
    pub fn limits_money(&self) -> bool {
        self.state.locked().limits.values().any(|limits| limits.usd.is_some())
    }

    /// Whether anything limits how long replies may be.
    fn limits_output(&self) -> bool {
        self.state.locked().limits.values().any(|limits| limits.usd.is_some() || limits.tokens.is_some())
    }

    /// How long the turn may still run, if that is limited.
    fn time_left(&self) -> Option<Duration> {
        let mut state = self.state.locked();
        if state.limits.values().all(|limits| limits.millis.is_none()) {
            return None;
        }
        state.count_time();
        let left = |(scope, limits): (&Scope, &Limits)| {
            limits.millis.map(|limit| limit.saturating_sub(state.spent_in(*scope).millis))
        };
        state.limits.iter().filter_map(left).min().map(Duration::from_millis)
    }

    /// Whether requests are counted in a file, whose lock another process may hold.
    fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// All limits and what was spent, without reservations.
    pub fn status(&self) -> BudgetStatus {
        let mut state = self.state.locked();
        state.count_time();
        let scopes = state.limits.iter().map(|(scope, limits)| ScopeStatus {
            scope: *scope,
            limits: *limits,
            spent: state.settled(*scope),
            fixed: self.fixed.get(scope).is_some_and(|fixed| !fixed.is_empty()),
        });
        BudgetStatus {
            scopes: scopes.collect(),
            session: state.settled(Scope::Session),
            wasted: state.wasted,
        }
    }

    /// A limit that is used up.
    pub fn reached(&self) -> Option<Exceeded> {
        let mut state = self.state.locked();
        state.count_time();
        state.limits.iter().find_map(|(scope, limits)| {
            let spent = state.settled(*scope);
            let unit = limits.reached(&spent)?;
            Some(self.exceeded(*scope, unit, limits, spent, None))
        })
    }

    fn exceeded(
        &self,
        scope: Scope,
        unit: Unit,
        limits: &Limits,
        spent: Spent,
        needed: Option<u64>,
    ) -> Exceeded {
        let limit = limits.get(unit).unwrap_or_default();
        let fixed =
            self.fixed.get(&scope).and_then(|fixed| fixed.get(unit)).is_some_and(|most| limit >= most);
        Exceeded { scope, unit, limit, spent, needed, fixed, session: self.session.clone() }
    }

    /// Changes the limits of the session; the error says why not.
    pub fn change(&self, change: BudgetChange) -> Result<(), String> {
        let mut state = self.state.locked();
        let fixed = |scope: Scope| self.fixed.get(&scope).copied().unwrap_or_default();
        match change {
            BudgetChange::Show => return Ok(()),
            BudgetChange::Raise { unit, by } => {
                let limits = state.limits.get_mut(&Scope::Session);
                let Some((limits, limit)) = limits.and_then(|own| own.get(unit).map(|limit| (own, limit)))
                else {
                    return Err(format!("the session has no `{}` limit", unit.as_str()));
                };
                let most = fixed(Scope::Session).get(unit).unwrap_or(u64::MAX);
                if limit >= most {
                    return Err("the limit is set in system settings".to_owned());
                }
                limits.set(unit, Some(limit.saturating_add(by).min(most)));
            }
            BudgetChange::Off => {
                for scope in [Scope::Turn, Scope::Session] {
                    match fixed(scope) {
                        none if none.is_empty() => drop(state.limits.remove(&scope)),
                        fixed => drop(state.limits.insert(scope, fixed)),
                    }
                }
            }
        }
        state.told.clear();
        Ok(())
    }

    /// Counts spending as wasted.
    pub fn waste(&self, spent: Spent) {
        let mut state = self.state.locked();
        state.wasted = state.wasted.plus(spent);
    }

    /// A notice for the user.
    fn tell(&self, line: String) {
        self.state.locked().notices.push(line);
    }

    /// Notices that the user has not seen yet.
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut self.state.locked().notices)
    }

    /// Reserves the most that a request can cost. A reply that would cost too much is shortened, down to
    /// [`MIN_OUTPUT`] tokens.
    pub fn reserve(&self, ask: &Ask) -> Result<Reservation, BudgetError> {
        let mut state = self.state.locked();
        state.count_time();
        // Held until the reservation is written, so that two processes do not spend the same money.
        let mut shared = self.open_file()?;
        if let Some(shared) = shared.as_ref().filter(|_| self.counts_days) {
            if state.today != shared.today() {
                state.told.remove(&Scope::Day);
                state.today = shared.today().to_owned();
            }
            let unfiled = Spent { millis: state.unfiled_millis, ..Spent::default() };
            state.spent.insert(Scope::Day, shared.day().plus(unfiled));
            state.spent.insert(Scope::Project, shared.project().plus(unfiled));
        }
        let mut max_output = ask.max_output;
        for (scope, limits) in &state.limits {
            let spent = state.spent_in(*scope);
            max_output = fitting(ask, max_output, limits, spent).map_err(|unit| BudgetError::Exceeded {
                exceeded: Box::new(self.exceeded(*scope, unit, limits, spent, ask.least(unit))),
                may_pass: fitting(ask, ask.max_output, limits, state.settled(*scope)).is_ok(),
            })?;
        }
        let price = |prices: &Prices| worst_cost(ask.input, max_output, prices);
        let held = Spent {
            usd: ask.prices.as_ref().map(price).unwrap_or_default(),
            tokens: ask.input.saturating_add(max_output),
            requests: 1,
            millis: 0,
        };
        let day = shared.as_ref().map(|shared| shared.today().to_owned()).unwrap_or_default();
        if let Some(shared) = &mut shared {
            let time = Spent { millis: state.unfiled_millis, ..Spent::default() };
            let spent = state.spent_in(Scope::Session).plus(held);
            self.file_change(shared, &day, Spent::default(), held.plus(time), Some(spent))?;
            state.unfiled_millis = 0;
        }
        state.held = state.held.plus(held);
        state.change(Spent::default(), held);
        Ok(Reservation { held, max_output, day })
    }

    /// Replaces a reservation with the actual cost of the request.
    pub fn settle(&self, reservation: Reservation, actual: Spent) -> Result<(), BudgetError> {
        let mut state = self.state.locked();
        state.held = state.held.minus(reservation.held);
        state.change(reservation.held, actual);
        let is_running = state.held != Spent::default();
        let of_session = is_running.then(|| state.spent_in(Scope::Session));
        let filed = self.open_file().and_then(|shared| {
            let Some(mut shared) = shared else { return Ok(()) };
            self.file_change(&mut shared, &reservation.day, reservation.held, actual, of_session)?;
            if self.counts_days {
                state.spent.insert(Scope::Day, shared.day());
                state.spent.insert(Scope::Project, shared.project());
            }
            Ok(())
        });
        state.note_nearly_spent();
        Ok(filed?)
    }

    /// The locked file. Where only the session is limited, it is no reason not to send: without it, spending is
    /// counted as long as the process lives.
    fn open_file(&self) -> Result<Option<OpenFile<'_>>, CounterFileError> {
        match self.file.as_ref().map(CounterFile::open) {
            Some(Err(_)) if !self.counts_days => Ok(None),
            opened => opened.transpose(),
        }
    }

    fn file_change(
        &self,
        shared: &mut OpenFile<'_>,
        day: &str,
        before: Spent,
        after: Spent,
        of_session: Option<Spent>,
    ) -> Result<(), CounterFileError> {
        if self.counts_days {
            shared.change(day, before, after);
        }
        if let Some(session) = &self.session {
            shared.note_session(session, of_session);
        }
        shared.write().or_else(|error| if self.counts_days { Err(error) } else { Ok(()) })
    }
}

impl State {
    fn spent_in(&self, scope: Scope) -> Spent {
        self.spent.get(&scope).copied().unwrap_or_default()
    }

    /// Without reservations.
    fn settled(&self, scope: Scope) -> Spent {
        self.spent_in(scope).minus(self.held)
    }

    fn change(&mut self, before: Spent, after: Spent) {
        for scope in Scope::SHARED.into_iter().chain([Scope::Subagent]) {
            let spent = self.spent.entry(scope).or_default();
            *spent = spent.minus(before).plus(after);
        }
    }

    /// Counts the time of the running turn.
    fn count_time(&mut self) {
        let Some(since) = self.counted_until else { return };
        let millis = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.counted_until = Some(Instant::now());
        self.unfiled_millis = self.unfiled_millis.saturating_add(millis);
        self.change(Spent::default(), Spent { millis, ..Spent::default() });
    }

    fn note_nearly_spent(&mut self) {
        let mut due = Vec::new();
        for (scope, limits) in &self.limits {
            let spent = self.settled(*scope);
            if let Some((unit, limit)) = nearly_spent(limits, &spent)
                && !self.told.contains(scope)
            {
                due.push((*scope, BudgetStatus::warning(*scope, unit, limit, &spent)));
            }
        }
        for (scope, line) in due {
            self.told.insert(scope);
            self.notices.push(line);
        }
    }
}

impl Ask {
    /// What the request takes with the shortest reply.
    fn least(&self, unit: Unit) -> Option<u64> {
        let output = MIN_OUTPUT.min(self.max_output);
        match unit {
            Unit::Usd => self.prices.as_ref().map(|prices| worst_cost(self.input, output, prices).0),
            Unit::Tokens => Some(self.input.saturating_add(output)),
            Unit::Requests => Some(1),
            Unit::Minutes => None,
        }
    }
}

/// How long the reply of a request may be within a limit; or the exhausted unit, if even the shortest reply does not
/// fit.
fn fitting(ask: &Ask, max_output: u64, limits: &Limits, spent: Spent) -> Result<u64, Unit> {
    let rest = |limit: u64, spent: u64| limit.saturating_sub(spent);
    for unit in [Unit::Requests, Unit::Minutes] {
        if limits.get(unit).is_some_and(|limit| rest(limit, spent.get(unit)) == 0) {
            return Err(unit);
        }
    }
    // A request for less than the shortest reply is not extended.
    let shortest = MIN_OUTPUT.min(max_output);
    let mut output = max_output;
    if let Some(limit) = limits.tokens {
        let left = rest(limit, spent.tokens).checked_sub(ask.input).ok_or(Unit::Tokens)?;
        output = output.min(left);
        if output < shortest {
            return Err(Unit::Tokens);
        }
    }
    if let (Some(limit), Some(prices)) = (limits.usd, &ask.prices) {
        let money = MicroUsd(rest(limit.0, spent.usd.0));
        if worst_cost(ask.input, 0, prices) > money {
            return Err(Unit::Usd);
        }
        output = output.min(affordable_output(ask.input, money, prices));
    }
    if output >= shortest { Ok(output) } else { Err(Unit::Usd) }
}

/// The first limit that is mostly spent.
fn nearly_spent(limits: &Limits, spent: &Spent) -> Option<(Unit, u64)> {
    Unit::ALL.into_iter().find_map(|unit| {
        let limit = limits.get(unit)?;
        let share = u128::from(spent.get(unit)) * 100;
        let nearly = spent.get(unit) > 0 && share >= u128::from(limit) * u128::from(NOTICE_PERCENT);
        nearly.then_some((unit, limit))
    })
}

impl From<BudgetError> for ModelError {
    fn from(error: BudgetError) -> Self {
        match error {
            BudgetError::Exceeded { exceeded, .. } => Self::over_budget(*exceeded),
            BudgetError::File(_) => Self::new(ModelErrorKind::BudgetExceeded, None, error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
