//! Facts about a provider's models: the user's settings over the program's own tables.

use std::sync::Arc;

use pollux_domain::model::{Dialect, InfoSource, MicroUsd, ModelInfo, Prices};
use serde_json::Value;

use super::{ModelSettings, Price, Provider};
use crate::messages::claude_facts;
use crate::shared::endpoint::ModelFacts;

/// Window assumed for an unknown model on the user's own machine, where memory is short.
const LOCAL_WINDOW: u64 = 32_768;

/// What is known of the models of a provider on this wire.
pub fn model_facts(provider: &Provider<'_>, dialect: &Dialect) -> ModelFacts {
    let id = provider.provider_id();
    let local = provider.is_local();
    let rows = provider.settings().map(|settings| settings.models.clone()).unwrap_or_default();
    let claude = (*dialect == Dialect::MESSAGES).then(|| claude_facts(id.clone()));
    let dialect = dialect.clone();
    Arc::new(move |name| {
        let mut info = match &claude {
            Some(facts) => facts(name),
            None => ModelInfo::unknown(name, id.clone(), dialect.clone()),
        };
        if local && info.source == InfoSource::Guess {
            info.context_window = LOCAL_WINDOW;
            info.prices = Some(free());
        }
        if let Some(row) = rows.get(name) {
            apply(row, &mut info);
        }
        info
    })
}

/// Lays a row of the settings over what is known.
fn apply(row: &ModelSettings, info: &mut ModelInfo) {
    info.source = InfoSource::User;
    if let Some(window) = row.context {
        info.context_window = window;
    }
    info.max_output = row.output.or(info.max_output);
    let caps = &mut info.caps;
    caps.tools = row.tools.unwrap_or(caps.tools);
    caps.images = row.images.unwrap_or(caps.images);
    caps.pdf = row.pdf.unwrap_or(caps.pdf);
    match &row.reasoning {
        Some(Value::Bool(reasoning)) => caps.reasoning = *reasoning,
        Some(_) => caps.reasoning = true,
        None => {}
    }
    if let Some(price) = &row.price {
        info.prices = Some(prices(price));
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

fn free() -> Prices {
    let nothing = MicroUsd(0);
    Prices { input: nothing, output: nothing, cached: nothing, cache_write: nothing, above: None }
}

/// USD as micro-USD; what is not a price counts as none.
fn usd(amount: f64) -> MicroUsd {
    let micro = amount * 1_000_000.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
    let whole = if (0.0..1e15).contains(&micro) { micro.round() as u64 } else { 0 };
    MicroUsd(whole)
}
