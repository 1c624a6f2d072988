//! Charges requests to a budget: what they may cost, what they did cost, and how to treat unknown prices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use pollux_domain::budget::{
    BudgetChange, BudgetStatus, Exceeded, Limits, Scope, SessionBudget, Spent, Unit,
};
use pollux_domain::model::{ModelClient, ModelError, ModelErrorKind, ModelInfo, Prices, RequestRole, Usage};
use pollux_domain::sync::Locked;
use tokio::sync::Notify;

use super::estimate::BYTES_PER_TOKEN;
use super::{Ask, Budget, BudgetError, Metered, Reservation};
use crate::catalogue::cost::cost;
use crate::catalogue::known;
use crate::full_name::full_name;

/// How to treat a model with an unknown price if there is a limit in USD.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum UnknownPrice {
    /// Counts its tokens and warns once that its cost is not counted.
    #[default]
    Warn,
    Refuse,
    /// Assumes this price.
    Assume(Prices),
}

/// Charges the requests of a session to its budget.
pub struct Meter {
    budget: Budget,
    unknown_price: UnknownPrice,
    /// The share of one sub-agent.
    subagent: Limits,
    models: Mutex<Models>,
    /// Woken when a reservation is settled.
    settled: Notify,
    /// The limit that refused a request of the running turn.
    refused: Mutex<Option<Exceeded>>,
}

/// What was learned about models.
#[derive(Default)]
struct Models {
    /// Bytes and tokens of the last request of each, and its prices.
    seen: BTreeMap<String, (u64, u64, Option<Prices>)>,
    /// Models without a price that the user was warned about.
    told: BTreeSet<String>,
}

impl Meter {
    pub fn new(budget: Budget, unknown_price: UnknownPrice) -> Self {
        Self {
            budget,
            unknown_price,
            subagent: Limits::default(),
            models: Mutex::default(),
            settled: Notify::new(),
            refused: Mutex::default(),
        }
    }

    /// Limits each run of a sub-agent.
    #[must_use]
    pub fn with_subagent_share(mut self, limits: Limits) -> Self {
        self.subagent = limits;
        self
    }

    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Wraps a client so that its requests are charged.
    pub fn client(self: &Arc<Self>, inner: Arc<dyn ModelClient>) -> Arc<dyn ModelClient> {
        Arc::new(Metered::new(inner, Arc::clone(self)))
    }

    /// Reserves what a request can cost. Waits if only running requests are in the way.
    pub(super) async fn reserve(
        self: &Arc<Self>,
        ask: Ask,
        role: RequestRole,
    ) -> Result<Reservation, ModelError> {
        loop {
            let settled = self.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            let reserved = if self.budget.has_file() {
                // Another process may hold the file for a while.
                let (meter, ask) = (Arc::clone(self), ask.clone());
                let reserving = tokio::task::spawn_blocking(move || meter.budget.reserve(&ask)).await;
                reserving.map_err(|_| broken())?
            } else {
                self.budget.reserve(&ask)
            };
            match reserved {
                Ok(reservation) => return Ok(reservation),
                Err(BudgetError::Exceeded { may_pass: true, .. }) => settled.await,
                Err(BudgetError::Exceeded { exceeded, .. }) => {
                    // Background work does not end the conversation.
                    if matches!(role, RequestRole::Main | RequestRole::Subagent) {
                        *self.refused.locked() = Some(exceeded.as_ref().clone());
                    }
                    return Err(ModelError::over_budget(*exceeded));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The error for a request that runs longer than the budget's time.
    pub(super) fn out_of_time(&self, role: RequestRole) -> Option<ModelError> {
        let exceeded = self.budget.reached().filter(|exceeded| exceeded.unit == Unit::Minutes)?;
        if matches!(role, RequestRole::Main | RequestRole::Subagent) {
            *self.refused.locked() = Some(exceeded.clone());
        }
        Some(ModelError::over_budget(exceeded))
    }

    /// Says once that a model's server writes more than requests allow.
    pub(super) fn tell_cut(&self, model: &str) {
        if self.models.locked().told.insert(format!("{model}: cut")) {
            self.budget.tell(format!(
                "The server of model `{model}` ignores the output limit; Pollux cuts replies to stay within the \
                 budget."
            ));
        }
    }

    /// Replaces a reservation with the actual cost.
    pub(super) fn settle(&self, reservation: Reservation, spent: Spent) {
        // If the file cannot be written, the reservation stays spent there.
        let _ = self.budget.settle(reservation, spent);
        self.settled.notify_waiters();
    }

    /// What a model costs.
    pub(super) fn prices(&self, info: &ModelInfo) -> Result<Option<Prices>, ModelError> {
        let name = format!("{}/{}", info.provider.as_str(), info.id);
        let prices = info.prices.clone().or_else(|| known::prices(&name));
        if prices.is_some() || !self.budget.limits_money() {
            return Ok(prices);
        }
        self.unknown(&info.id)
    }

    /// The price to assume for a model whose price is unknown.
    pub(super) fn unknown(&self, model: &str) -> Result<Option<Prices>, ModelError> {
        match &self.unknown_price {
            UnknownPrice::Assume(prices) => Ok(Some(prices.clone())),
            UnknownPrice::Refuse => {
                let message = format!(
                    "the price of model `{model}` is unknown, and `budget.unknownPrice` is `refuse`; \
                     set a price there or in `providers`"
                );
                Err(ModelError::new(ModelErrorKind::BudgetExceeded, None, message))
            }
            UnknownPrice::Warn => {
                if self.models.locked().told.insert(model.to_owned()) {
                    self.budget.tell(format!(
                        "The price of model `{model}` is unknown: its tokens are counted, but not its cost. \
                         Set `budget.unknownPrice` to a price or to `refuse`."
                    ));
                }
                Ok(None)
            }
        }
    }

    /// How many tokens a request of so many bytes has: as many as its model's last one suggests, and never fewer than
    /// usual.
    pub(super) fn tokens(&self, info: &ModelInfo, bytes: u64) -> u64 {
        let usual = bytes.div_ceil(BYTES_PER_TOKEN);
        let models = self.models.locked();
        let learnt = models.seen.get(&key(info)).and_then(|(last_bytes, last_tokens, _)| {
            let tokens = u128::from(bytes) * u128::from(*last_tokens);
            tokens.checked_div(u128::from(*last_bytes))
        });
        // The tokens that a provider's own tools add to a short request must not be scaled to a long one.
        let most = bytes.div_ceil(2);
        learnt
            .and_then(|tokens| u64::try_from(tokens).ok())
            .map_or(usual, |tokens| tokens.min(most).max(usual))
    }

    /// Learns from a request that was answered.
    pub(super) fn learn(&self, model: String, bytes: u64, tokens: u64, prices: Option<Prices>) {
        self.models.locked().seen.insert(model, (bytes, tokens, prices));
    }
}

/// The name under which a model is known outside its client.
pub(super) fn key(info: &ModelInfo) -> String {
    full_name(info.provider.as_str(), &info.id)
}

/// What a request cost.
pub(super) fn spent(usage: &Usage, prices: Option<&Prices>) -> Spent {
    let priced = prices.map(|prices| cost(usage, prices)).or(usage.cost_reported);
    let written = usage.written();
    Spent {
        usd: priced.unwrap_or_default(),
        tokens: usage.input.saturating_add(written).max(usage.total),
        requests: 1,
        millis: 0,
    }
}

fn broken() -> ModelError {
    ModelError::new(ModelErrorKind::BudgetExceeded, None, "the budget could not be read")
}

impl SessionBudget for Meter {
    fn begin_turn(&self) {
        *self.refused.locked() = None;
        self.budget.begin_turn();
    }

    fn end_turn(&self) {
        self.budget.end_turn();
    }

    fn is_limited(&self) -> bool {
        self.budget.is_limited()
    }

    fn status(&self) -> BudgetStatus {
        self.budget.status()
    }

    fn exceeded(&self) -> Option<Exceeded> {
        if !self.budget.is_limited() {
            return None;
        }
        self.refused.locked().clone().or_else(|| self.budget.reached())
    }

    fn change(&self, change: BudgetChange) -> Result<(), String> {
        self.budget.change(change)?;
        if change != BudgetChange::Show {
            *self.refused.locked() = None;
            self.settled.notify_waiters();
        }
        Ok(())
    }

    fn discard(&self, model: &str, usage: &Usage) {
        let seen = self.models.locked().seen.get(model).and_then(|(_, _, prices)| prices.clone());
        self.budget.waste(spent(usage, seen.or_else(|| known::prices(model)).as_ref()));
    }

    fn take_notices(&self) -> Vec<String> {
        self.budget.take_notices()
    }

    fn for_subagent(&self, client: &Arc<dyn ModelClient>) -> Arc<dyn ModelClient> {
        if self.subagent.is_empty() {
            return Arc::clone(client);
        }
        let share = Budget::new([(Scope::Subagent, self.subagent)]);
        // An unknown price is handled by the session's own meter below.
        let unknown = match &self.unknown_price {
            UnknownPrice::Assume(prices) => UnknownPrice::Assume(prices.clone()),
            UnknownPrice::Warn | UnknownPrice::Refuse => UnknownPrice::Warn,
        };
        Arc::new(Self::new(share, unknown)).client(Arc::clone(client))
    }
}
