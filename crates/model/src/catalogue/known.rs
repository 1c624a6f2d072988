//! What is known of providers and their models without asking anybody, and what is assumed of all others.
//!
//! The table (`models.json`) is read when the first question comes. What the user's settings say of a model wins over
//! what its server says, that over the table, and the table over an assumption.

use std::collections::BTreeMap;
use std::sync::Arc;

use pollux_domain::model::{
    BuiltInProvider, Dialect, Effort, InfoSource, MicroUsd, ModelInfo, Prices, ProviderId, Usage,
};

use super::cost::cost;
use super::table::{ModelRow, ProviderRow, table};
use crate::shared::endpoint::ModelFacts;

/// The window of a model that nobody knows, on this machine and elsewhere.
const UNKNOWN_LOCAL_WINDOW: u64 = 32_768;
const UNKNOWN_WINDOW: u64 = 128_000;
const UNKNOWN_OUTPUT: u64 = 8_192;

/// Providers whose models are meant by a bare name, in this order.
const BARE_NAMES: &[&str] = &["gemini", "anthropic", "openai"];

/// Ends of a name that tell versions of one model apart.
const VERSION_WORDS: &[&str] = &["preview", "latest", "exp", "experimental", "beta"];

/// What someone says of a model; `None` where they say nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelOverride {
    pub context: Option<u64>,
    pub output: Option<u64>,
    pub tools: Option<bool>,
    pub tool_choice: Option<bool>,
    pub images: Option<bool>,
    pub pdf: Option<bool>,
    pub audio: Option<bool>,
    pub reasoning: Option<bool>,
    pub efforts: Option<Vec<Effort>>,
    pub structured: Option<bool>,
    pub sampling: Option<bool>,
    /// Whether it gets the compact profile.
    pub compact: Option<bool>,
    pub prices: Option<Prices>,
}

/// Who serves models, and what users and servers say of them.
#[derive(Debug, Clone)]
pub struct Served {
    pub provider: ProviderId,
    pub dialect: Dialect,
    /// The provider runs on this machine.
    pub local: bool,
    /// What the user says of all its models.
    pub everywhere: ModelOverride,
    /// The user's rows, by model.
    pub user: BTreeMap<String, ModelOverride>,
    /// The server's rows, by model.
    pub live: BTreeMap<String, ModelOverride>,
}

/// When the prices were read, as `2026-11-16`.
pub fn as_of() -> &'static str {
    &table().as_of
}

/// Every provider of the table.
pub fn providers() -> impl Iterator<Item = (&'static str, &'static ProviderRow)> {
    table().providers.iter().map(|(id, row)| (id.as_str(), row))
}

/// A provider of the table.
pub fn provider(id: &str) -> Option<&'static ProviderRow> {
    table().providers.get(id)
}

/// The models of a provider that the table has.
pub fn models(provider: &str) -> impl Iterator<Item = &'static str> {
    own_row(provider).into_iter().flat_map(|row| row.models.keys()).map(String::as_str)
}

/// The provider whose models this one serves, if it has none of its own.
pub fn model_source(provider_id: &str) -> Option<&'static str> {
    provider(provider_id)?.like.as_deref()
}

/// The provider and the model that a name means, if the table has them: `provider/model`, or a model alone.
pub fn find(name: &str) -> Option<(&'static str, &'static str)> {
    let named = name.split_once('/').and_then(|(id, model)| {
        let (id, _) = table().providers.get_key_value(id)?;
        Some((id.as_str(), row(id, model)?.0))
    });
    let bare = name.strip_prefix("models/").unwrap_or(name);
    named.or_else(|| BARE_NAMES.iter().find_map(|id| Some((*id, row(id, bare)?.0))))
}

/// What a model costs by the table; `None` if that is not known.
pub fn prices(name: &str) -> Option<Prices> {
    let (provider_id, model) = match find(name) {
        Some(found) => found,
        // Every model of a provider on this machine costs the same: nothing.
        None => (name.split_once('/')?.0, ""),
    };
    prices_of(provider_id, model)
}

/// What so many tokens of a model cost by the table. They may be those of many requests, so the prices are those of
/// prompts of the usual size.
pub fn list_price(name: &str, usage: &Usage) -> Option<MicroUsd> {
    prices(name).map(|prices| cost(usage, &Prices { above: None, ..prices }))
}

/// Whether sources disagree about what a model costs.
pub fn is_approximate(name: &str) -> bool {
    find(name).and_then(|(id, model)| row(id, model)).is_some_and(|(_, row)| row.approximate)
}

/// When a provider stops serving a model, as a date, if that is announced.
pub fn ends(name: &str) -> Option<&'static str> {
    let (id, model) = find(name)?;
    row(id, model)?.1.ends.as_deref()
}

impl Served {
    /// A built-in provider, without anybody's rows.
    pub fn by(id: &str) -> Option<Self> {
        let row = BuiltInProvider::find(id)?;
        Some(Self {
            provider: ProviderId::known(row.id),
            dialect: row.dialect.clone(),
            local: row.local,
            everywhere: ModelOverride::default(),
            user: BTreeMap::new(),
            live: BTreeMap::new(),
        })
    }

    /// What is known of a model.
    pub fn info(&self, model: &str) -> ModelInfo {
        let id = self.provider.as_str();
        let mut info = ModelInfo::unknown(model, self.provider.clone(), self.dialect.clone());
        info.context_window = if self.local { UNKNOWN_LOCAL_WINDOW } else { UNKNOWN_WINDOW };
        info.max_output = Some(UNKNOWN_OUTPUT);
        info.local = self.local;
        // Every local server here constrains a reply to a schema, whichever model it runs.
        info.caps.structured = self.local;
        if let Some((_, known)) = row(id, model) {
            if let Some(provider) = own_row(id) {
                provider.can.lay_over(&mut info.caps);
            }
            known.can.lay_over(&mut info.caps);
            info.context_window = known.context.unwrap_or(info.context_window);
            info.max_output = known.output.or(info.max_output);
            info.source = InfoSource::Catalogue;
        }
        info.prices = prices_of(id, model);
        info.small = provider(id).and_then(|row| row.small.clone());
        info.investigator = info.small.clone();
        if let Some(said) = self.live.get(model) {
            said.lay_over(&mut info, InfoSource::Server);
        }
        let source = info.source;
        self.everywhere.lay_over(&mut info, source);
        if let Some(said) = self.user.get(model) {
            said.lay_over(&mut info, InfoSource::User);
        }
        info
    }

    /// The same as a function, as clients want it.
    pub fn into_facts(self) -> ModelFacts {
        Arc::new(move |model| self.info(model))
    }
}

impl ModelOverride {
    /// A server's word over what was known; what the user said holds.
    pub(crate) fn over(&self, mut info: ModelInfo) -> ModelInfo {
        if info.source != InfoSource::User {
            self.lay_over(&mut info, InfoSource::Server);
        }
        info
    }

    fn lay_over(&self, info: &mut ModelInfo, source: InfoSource) {
        if *self == Self::default() {
            return;
        }
        info.context_window = self.context.unwrap_or(info.context_window);
        info.max_output = self.output.or(info.max_output);
        let caps = &mut info.caps;
        let pairs = [
            (&mut caps.tools, self.tools),
            (&mut caps.tool_choice, self.tool_choice),
            (&mut caps.images, self.images),
            (&mut caps.pdf, self.pdf),
            (&mut caps.audio, self.audio),
            (&mut caps.reasoning, self.reasoning),
            (&mut caps.structured, self.structured),
            (&mut caps.sampling, self.sampling),
        ];
        for (known, said) in pairs {
            *known = said.unwrap_or(*known);
        }
        if let Some(efforts) = &self.efforts {
            caps.efforts.clone_from(efforts);
        }
        info.compact = self.compact.or(info.compact);
        if self.prices.is_some() {
            info.prices.clone_from(&self.prices);
        }
        info.source = source;
    }
}

/// The row of a provider that lists its models.
fn own_row(id: &str) -> Option<&'static ProviderRow> {
    let row = provider(id)?;
    row.like.as_deref().map_or(Some(row), provider)
}

/// The row of a model and the name it stands under. Dates and words such as `preview` at the end are left out of the
/// comparison, because they do not change what a model is or costs.
fn row(provider: &str, model: &str) -> Option<(&'static str, &'static ModelRow)> {
    let models = &own_row(provider)?.models;
    let exact = models.get_key_value(model);
    let wanted = unversioned(model);
    let same = || models.iter().find(|(known, _)| unversioned(known) == wanted);
    exact.or_else(same).map(|(name, row)| (name.as_str(), row))
}

fn prices_of(provider: &str, model: &str) -> Option<Prices> {
    let own = own_row(provider)?;
    let listed = row(provider, model).and_then(|(_, row)| row.price.as_ref());
    listed.or(own.price.as_ref()).map(super::table::PriceRow::prices)
}

/// A name without what tells versions of one model apart: `-preview`, `-20251101`, `-2026-04-23`, `-09-2025`.
fn unversioned(name: &str) -> &str {
    let mut name = name;
    let mut after_year = false;
    while let Some((before, end)) = name.rsplit_once(['-', '@']) {
        let is_number = end.chars().all(|c| c.is_ascii_digit());
        // One or two digits alone are a version that matters, as in `opus-4-5`.
        let is_date = match end.len() {
            0 | 1 => false,
            2 => is_number && (after_year || ends_with_year(before)),
            _ => is_number,
        };
        if !(is_date || VERSION_WORDS.contains(&end)) {
            break;
        }
        after_year = is_year(end);
        name = before;
    }
    name
}

fn is_year(word: &str) -> bool {
    word.len() == 4 && word.starts_with("20") && word.chars().all(|c| c.is_ascii_digit())
}

/// Whether a name ends with a year, or with a year and a month.
fn ends_with_year(name: &str) -> bool {
    let mut words = name.rsplit('-');
    match (words.next(), words.next()) {
        (Some(last), _) if is_year(last) => true,
        (Some(last), Some(before)) => last.len() == 2 && last.parse::<u8>().is_ok() && is_year(before),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
