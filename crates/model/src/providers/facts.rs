//! Facts about a provider's models: the user's settings over the program's own tables.

use std::collections::BTreeMap;

use pollux_domain::model::{Dialect, MicroUsd, Prices};
use serde_json::Value;

use super::{ModelSettings, Price, Provider, ToolMode};
use crate::catalogue::known::{ModelOverride, Served};
use crate::shared::endpoint::ModelFacts;

/// What is known of the models of a provider on this wire.
pub fn model_facts(provider: &Provider<'_>, dialect: &Dialect) -> ModelFacts {
    let rows = provider.settings().map(|settings| &settings.models);
    let user =
        rows.into_iter().flatten().map(|(model, row)| (model.clone(), override_of(row, provider))).collect();
    let served = Served {
        provider: provider.provider_id(),
        dialect: dialect.clone(),
        local: provider.is_local(),
        everywhere: everywhere(provider),
        user,
        live: BTreeMap::new(),
    };
    served.into_facts()
}

/// What the settings say of all models of a provider.
fn everywhere(provider: &Provider<'_>) -> ModelOverride {
    let own = provider.settings();
    ModelOverride {
        tools: own.and_then(|own| own.tools).map(|mode| mode != ToolMode::None),
        compact: own.and_then(|own| own.compact),
        ..ModelOverride::default()
    }
}

/// A row of the settings, in the catalogue's form.
fn override_of(row: &ModelSettings, provider: &Provider<'_>) -> ModelOverride {
    ModelOverride {
        context: row.context,
        output: row.output,
        // Tools that are explained in the prompt are tools, too.
        tools: provider.tool_mode_of(row).map(|mode| mode != ToolMode::None),
        compact: row.compact,
        images: row.images,
        pdf: row.pdf,
        reasoning: row.reasoning.as_ref().map(|reasoning| *reasoning != Value::Bool(false)),
        prices: row.price.as_ref().map(prices),
        ..ModelOverride::default()
    }
}

fn prices(price: &Price) -> Prices {
    let input = usd(price.input);
    Prices {
        input,
        output: usd(price.output),
        cached: price.cache_read.map_or(MicroUsd(input.0 / 10), usd),
        cache_write: price.cache_write.map_or(MicroUsd(input.0 / 4 * 5), usd),
        above: None,
    }
}

/// USD as micro-USD; anything that cannot be a price counts as zero.
fn usd(amount: f64) -> MicroUsd {
    let micro = amount * 1_000_000.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
    let whole = if (0.0..1e15).contains(&micro) { micro.round() as u64 } else { 0 };
    MicroUsd(whole)
}
