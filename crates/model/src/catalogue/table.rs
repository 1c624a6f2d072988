//! The table of models and providers: data, read when someone asks for it.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use pollux_domain::model::{Capabilities, Effort, MicroUsd, Prices};
use serde::Deserialize;
use serde_json::Number;

const TABLE: &str = include_str!("models.json");

/// The whole table.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Table {
    /// When its prices were read.
    pub(super) as_of: String,
    pub(super) providers: BTreeMap<String, ProviderRow>,
}

/// The models of a provider. Its address, keys and dialect are in [`BUILT_IN_PROVIDERS`](pollux_domain::model::BUILT_IN_PROVIDERS).
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderRow {
    /// The model to begin with.
    pub default: Option<String>,
    /// The model for small tasks.
    pub small: Option<String>,
    /// It serves the models of this other provider.
    pub(super) like: Option<String>,
    /// What its models cost where their rows do not say it.
    pub(super) price: Option<PriceRow>,
    /// What its models can do where their rows do not say otherwise.
    #[serde(default)]
    pub(super) can: CapsRow,
    #[serde(default)]
    pub(super) models: BTreeMap<String, ModelRow>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ModelRow {
    pub(super) context: Option<u64>,
    pub(super) output: Option<u64>,
    pub(super) price: Option<PriceRow>,
    /// Sources disagree about its price.
    #[serde(default)]
    pub(super) approximate: bool,
    /// When the provider stops serving it.
    pub(super) ends: Option<String>,
    #[serde(default)]
    pub(super) can: CapsRow,
}

/// US dollars for a million tokens.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PriceRow {
    input: Number,
    output: Number,
    cache_read: Option<Number>,
    cache_write: Option<Number>,
    /// Other prices for longer prompts.
    above: Option<Box<Tier>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Tier {
    tokens: u64,
    input: Number,
    output: Number,
    cache_read: Option<Number>,
    cache_write: Option<Number>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CapsRow {
    tools: Option<bool>,
    parallel: Option<bool>,
    tool_choice: Option<bool>,
    images: Option<bool>,
    pdf: Option<bool>,
    audio: Option<bool>,
    media_in_results: Option<bool>,
    reasoning: Option<bool>,
    efforts: Option<Vec<String>>,
    structured: Option<bool>,
    sampling: Option<bool>,
    mid_system: Option<bool>,
    sealed_prefix: Option<bool>,
}

/// The table, read once.
pub(super) fn table() -> &'static Table {
    static READ: OnceLock<Table> = OnceLock::new();
    // A test reads the table, so a failure cannot reach a user.
    READ.get_or_init(|| serde_json::from_str(TABLE).unwrap_or_default())
}

impl CapsRow {
    /// Lays what this row says over other capabilities.
    pub(super) fn lay_over(&self, caps: &mut Capabilities) {
        let pairs = [
            (&mut caps.tools, self.tools),
            (&mut caps.parallel, self.parallel),
            (&mut caps.tool_choice, self.tool_choice),
            (&mut caps.images, self.images),
            (&mut caps.pdf, self.pdf),
            (&mut caps.audio, self.audio),
            (&mut caps.media_in_results, self.media_in_results),
            (&mut caps.reasoning, self.reasoning),
            (&mut caps.structured, self.structured),
            (&mut caps.sampling, self.sampling),
            (&mut caps.mid_system, self.mid_system),
            (&mut caps.sealed_prefix, self.sealed_prefix),
        ];
        for (known, said) in pairs {
            *known = said.unwrap_or(*known);
        }
        if let Some(efforts) = &self.efforts {
            caps.efforts = efforts.iter().filter_map(|word| Effort::parse(word)).collect();
        }
    }
}

impl PriceRow {
    pub(super) fn prices(&self) -> Prices {
        let above = self.above.as_deref().map(|tier| {
            let prices =
                prices(&tier.input, &tier.output, tier.cache_read.as_ref(), tier.cache_write.as_ref());
            (tier.tokens, Box::new(prices))
        });
        let base = prices(&self.input, &self.output, self.cache_read.as_ref(), self.cache_write.as_ref());
        Prices { above, ..base }
    }
}

fn prices(input: &Number, output: &Number, read: Option<&Number>, write: Option<&Number>) -> Prices {
    let input = micro(input);
    // What providers usually take where nothing else is known.
    let cached = read.map_or(input / 10, micro);
    let cache_write = write.map_or(input / 4 * 5, micro);
    let money = |amount: u64| MicroUsd(amount);
    Prices {
        input: money(input),
        output: money(micro(output)),
        cached: money(cached),
        cache_write: money(cache_write),
        above: None,
    }
}

/// Millionths of a dollar, without the errors of floating point.
fn micro(dollars: &Number) -> u64 {
    super::cost::micro_usd(&dollars.to_string()).map_or(0, |amount| amount.0)
}
