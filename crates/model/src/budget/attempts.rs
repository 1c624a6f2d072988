//! The attempts of one request: retries are sent too, so each is counted and may be refused.
//!
//! A client retries on its own, far below the meter that wraps it. The meter therefore leaves a gate in the task,
//! which the connection passes before every attempt.

use std::sync::{Arc, Mutex};

use pollux_domain::budget::Spent;
use pollux_domain::model::{ModelError, ModelErrorKind, Prices};
use pollux_domain::sync::Locked;

use super::meter::Meter;
use super::{Ask, BudgetError};

/// An event of a stream holds at least one token, and has no more bytes than this around it.
const WIRE_BYTES_PER_TOKEN: u64 = 1_000;
/// What some servers repeat at the end of a reply.
const WIRE_OVERHEAD: u64 = 1 << 20;

tokio::task_local! {
    static GATE: Arc<Gate>;
    static UNCOUNTED: ();
}

/// Counts the attempts of one request.
pub(super) struct Gate {
    meter: Arc<Meter>,
    input: u64,
    prices: Option<Prices>,
    /// How many tokens the reply may have, if that is limited.
    cap: Option<u64>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    attempts: u64,
    /// The server began to answer the last attempt, so it is billed.
    answered: bool,
    /// How many bytes came on the wire.
    received: u64,
}

impl Gate {
    pub(super) fn new(meter: &Arc<Meter>, input: u64, prices: Option<Prices>, cap: Option<u64>) -> Arc<Self> {
        Arc::new(Self { meter: Arc::clone(meter), input, prices, cap, seen: Mutex::default() })
    }

    /// Runs with this gate in place.
    pub(super) async fn watch<F: Future>(self: &Arc<Self>, work: F) -> F::Output {
        GATE.scope(Arc::clone(self), work).await
    }

    /// Whether the server began to answer the last attempt.
    pub(super) fn answered(&self) -> bool {
        self.seen.locked().answered
    }

    /// The first attempt has its reservation; every other one needs its own. The cost of the previous attempt is
    /// settled as far as it is known.
    fn pass(&self) -> Result<(), BudgetError> {
        let billed = {
            let mut seen = self.seen.locked();
            seen.attempts += 1;
            if seen.attempts == 1 {
                return Ok(());
            }
            std::mem::take(&mut seen.answered)
        };
        let ask =
            Ask { input: if billed { self.input } else { 0 }, max_output: 0, prices: self.prices.clone() };
        let budget = self.meter.budget();
        let reservation = budget.reserve(&ask)?;
        let spent = reservation.held;
        budget.settle(reservation, spent)?;
        budget.waste(Spent { millis: 0, ..spent });
        Ok(())
    }
}

/// Another attempt is about to be sent; an error if the budget does not allow it.
pub(crate) fn before_attempt() -> Result<(), ModelError> {
    if UNCOUNTED.try_with(|()| ()).is_ok() {
        return Ok(());
    }
    match GATE.try_with(|gate| gate.pass()) {
        Ok(passed) => passed.map_err(ModelError::from),
        // Not metered.
        Err(_) => Ok(()),
    }
}

/// The server begins to answer.
pub(crate) fn attempt_answered() {
    if UNCOUNTED.try_with(|()| ()).is_ok() {
        return;
    }
    let _ = GATE.try_with(|gate| gate.seen.locked().answered = true);
}

/// Asks a server about itself, which no model answers and nobody bills.
pub(crate) async fn uncounted<F: Future>(work: F) -> F::Output {
    UNCOUNTED.scope((), work).await
}

/// Counts what a server sends on the wire; an error if no reply of the allowed length can be as long.
pub(crate) fn received(bytes: usize) -> Result<(), ModelError> {
    let over = GATE.try_with(|gate| {
        let mut seen = gate.seen.locked();
        seen.received = seen.received.saturating_add(bytes as u64);
        gate.cap.is_some_and(|cap| seen.received > cap.saturating_mul(WIRE_BYTES_PER_TOKEN) + WIRE_OVERHEAD)
    });
    match over {
        Ok(true) => {
            let message = "the server sent far more than the request allowed; the budget would be exceeded";
            Err(ModelError::new(ModelErrorKind::BudgetExceeded, None, message))
        }
        Ok(false) | Err(_) => Ok(()),
    }
}

/// How many tokens the reply to the request under way may have, if the budget limits that.
pub(crate) fn output_cap() -> Option<u64> {
    GATE.try_with(|gate| gate.cap).ok().flatten()
}
