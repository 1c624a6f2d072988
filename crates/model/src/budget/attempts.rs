//! The attempts of one request: retries are sent too, so each is counted and may be refused.
//!
//! A client retries on its own, far below the meter that wraps it. The meter therefore leaves a gate in the task,
//! which the connection passes before every attempt. An attempt counts from then on, because it may be billed even if no
//! answer comes; only one that the server refused, or that did not reach it, is free.

use std::sync::{Arc, Mutex};

use pollux_domain::budget::Spent;
use pollux_domain::model::{ModelError, ModelErrorKind, ModelRequest, Prices};
use pollux_domain::sync::Locked;

use super::estimate::{BYTES_PER_TOKEN, request_bytes};
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
    /// The estimate of the input.
    input: u64,
    /// The request, to estimate its size if that becomes necessary.
    kept: Option<Box<ModelRequest>>,
    prices: Option<Prices>,
    /// How many tokens the reply may have, if that is limited.
    cap: Option<u64>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    attempts: u64,
    /// The last attempt was sent and not refused, so it may be billed.
    counts: bool,
    /// How many bytes came on the wire.
    received: u64,
}

impl Gate {
    /// `kept` replaces the estimate `input`, for requests whose size was not needed yet.
    pub(super) fn new(
        meter: &Arc<Meter>,
        input: u64,
        kept: Option<Box<ModelRequest>>,
        prices: Option<Prices>,
        cap: Option<u64>,
    ) -> Arc<Self> {
        Arc::new(Self { meter: Arc::clone(meter), input, kept, prices, cap, seen: Mutex::default() })
    }

    /// Runs with this gate in place.
    pub(super) async fn watch<F: Future>(self: &Arc<Self>, work: F) -> F::Output {
        GATE.scope(Arc::clone(self), work).await
    }

    /// Whether the last attempt may be billed.
    pub(super) fn counts(&self) -> bool {
        self.seen.locked().counts
    }

    /// About how many tokens the request has.
    pub(super) fn input(&self) -> u64 {
        self.kept.as_ref().map_or(self.input, |request| request_bytes(request).div_ceil(BYTES_PER_TOKEN))
    }

    /// The first attempt has its reservation; every other one needs its own. The cost of the previous attempt is
    /// settled as far as it is known.
    fn pass(&self) -> Result<(), BudgetError> {
        let billed = {
            let mut seen = self.seen.locked();
            seen.attempts += 1;
            let billed = std::mem::replace(&mut seen.counts, true);
            if seen.attempts == 1 {
                return Ok(());
            }
            billed
        };
        let input = if billed { self.input() } else { 0 };
        let ask = Ask { input, max_output: 0, prices: self.prices.clone() };
        let budget = self.meter.budget();
        let reserved = budget.reserve(&ask);
        if reserved.is_err() {
            // This attempt is not sent; the one before it is settled with the request.
            self.seen.locked().counts = billed;
        }
        let reservation = reserved?;
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

/// The server refused the attempt or was not reached, so nobody bills it.
pub(crate) fn attempt_refused() {
    if UNCOUNTED.try_with(|()| ()).is_ok() {
        return;
    }
    let _ = GATE.try_with(|gate| gate.seen.locked().counts = false);
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
