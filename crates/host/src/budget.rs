//! The budget of a session: limits from settings and flags, and its spending so far.

use std::sync::Arc;

use pollux_config::budget::{BudgetSettings, PriceOfUnknown};
use pollux_config::settings::Layer;
use pollux_domain::budget::{Limits, Scope, Spent, Unit};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::model::{Dialect, Usage};
use pollux_domain::time::SystemClock;
use pollux_model::budget::{Budget, CounterFile, Meter, UnknownPrice};
use pollux_model::catalogue::cost::cost;
use pollux_model::catalogue::live::LiveModels;
use pollux_model::providers::{Providers, model_facts, read_settings};
use pollux_session::Spending;

use super::{Loaded, Prepared};
use crate::models::list_price;
use crate::providers::own_env;

/// The meter that charges every request of the session. Lines for the user are added to `warnings`.
pub(crate) fn meter(turn: &Prepared<'_>, warnings: &mut Vec<String>) -> Result<Arc<Meter>, Failure> {
    let loaded = turn.loaded;
    let settings = read(&loaded.groups.model.budget)?;
    let fixed = read(&loaded.settings.system_budget)?.limits;
    let mut limits = settings.limits;
    for (scope, most) in &fixed {
        lower(loaded, *scope, limits.entry(*scope).or_default(), most, warnings);
    }
    let share = limits.remove(&Scope::Subagent).unwrap_or_default();
    let file = CounterFile::new(loaded.home.budget_file(), loaded.project.hash(), Arc::new(SystemClock));
    let session = turn.session.id.to_string();
    let budget = Budget::new(limits).with_fixed(fixed).of_session(session).with_file(file);
    let unknown = match settings.unknown_price {
        PriceOfUnknown::Warn => UnknownPrice::Warn,
        PriceOfUnknown::Refuse => UnknownPrice::Refuse,
        PriceOfUnknown::Price(prices) => UnknownPrice::Assume(prices),
    };
    Ok(Arc::new(Meter::new(budget, unknown).with_subagent_share(share)))
}

fn read(budget: &serde_json::Value) -> Result<BudgetSettings, Failure> {
    BudgetSettings::read(budget).map_err(|error| Failure::from_error(ExitKind::Config, &error))
}

/// Lowers limits to those of the system's settings.
fn lower(loaded: &Loaded, scope: Scope, limits: &mut Limits, most: &Limits, warnings: &mut Vec<String>) {
    for unit in Unit::ALL {
        let Some(most) = most.get(unit) else { continue };
        let asked = limits.get(unit);
        limits.set(unit, Some(asked.map_or(most, |limit| limit.min(most))));
        let key = format!("budget.{}.{}", scope.as_str(), unit.as_str());
        if asked.is_some_and(|limit| limit > most) && loaded.settings.origin(&key).layer == Layer::Arguments {
            warnings.push(format!("`{key}` stays at {}: it is limited by system settings.", unit.json(most)));
        }
    }
}

/// What a resumed session has spent. Replies from before it had a budget are counted at today's prices, the user's own
/// first.
pub(crate) fn spent(loaded: &Loaded, spending: &Spending) -> Spent {
    let (own, _) = read_settings(&loaded.groups.model.providers);
    let env = own_env(loaded);
    let providers = Providers::new(&env, &own);
    let users_price = |model: &str| {
        let split = providers.split(model, |_| false);
        let id = split.provider?;
        let provider = providers.find(&id)?;
        model_facts(&provider, &Dialect::CHAT, LiveModels::new())(&split.model).prices
    };
    let assumed = read(&loaded.groups.model.budget).ok().and_then(|settings| match settings.unknown_price {
        PriceOfUnknown::Price(prices) => Some(prices),
        PriceOfUnknown::Warn | PriceOfUnknown::Refuse => None,
    });
    let price = |model: &str, usage: &Usage| match users_price(model) {
        Some(prices) => Some(cost(usage, &prices)),
        None => list_price(model, usage)
            .or_else(|| assumed.as_ref().map(|prices| cost(usage, prices)))
            .or(usage.cost_reported),
    };
    let replies = spending.since.iter().map(|(model, usage)| Spent {
        usd: price(model, usage).unwrap_or_default(),
        tokens: usage.input.saturating_add(usage.written()).max(usage.total),
        requests: 1,
        millis: 0,
    });
    replies.fold(spending.recorded, Spent::plus)
}
