//! The models of all providers that are known without contacting a server.

use std::collections::BTreeSet;

use pollux_domain::failure::Failure;
use pollux_domain::model::{Dialect, ModelInfo};
use pollux_model::catalogue::known::{self, ModelOverride, Served};
use pollux_model::catalogue::live::LiveModels;
use pollux_model::gemini::GOOGLE_ADDRESS;
use pollux_model::providers::{Provider, served};

use super::super::{GOOGLE, live_file};
use super::{ProviderSet, ProviderState};

pub use known::as_of as prices_as_of;

/// A model and what is known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRow {
    /// The name for `--model`.
    pub name: String,
    pub info: ModelInfo,
    /// Sources disagree about its price.
    pub approximate: bool,
    /// The date on which the provider stops serving it.
    pub ends: Option<String>,
}

impl ProviderSet {
    /// The models of one provider or of all: the user's, those that servers listed, and the catalogue's.
    pub fn models(&self, only: Option<&str>) -> Result<Vec<ModelRow>, Failure> {
        let providers = match only {
            Some(id) => vec![self.find(id)?],
            None => self.providers().all().filter(|provider| self.is_listed(provider)).collect(),
        };
        Ok(providers.iter().flat_map(|provider| self.models_of(provider)).collect())
    }

    /// A provider that offers another one's models is listed only if it is used.
    fn is_listed(&self, provider: &Provider<'_>) -> bool {
        known::model_source(provider.id).is_none() || self.row(provider).state == ProviderState::Ok
    }

    fn models_of(&self, provider: &Provider<'_>) -> Vec<ModelRow> {
        let served = self.served(provider);
        let listed = known::models(provider.id).map(str::to_owned);
        let names: BTreeSet<String> =
            listed.chain(served.user.keys().cloned()).chain(served.live.keys().cloned()).collect();
        names.into_iter().map(|name| row(provider.id, &name, served.info(&name))).collect()
    }

    fn served(&self, provider: &Provider<'_>) -> Served {
        let live = self.live_models(provider.id);
        if !GOOGLE.contains(&provider.id) {
            let location = self.providers().locate(provider);
            let dialect = location.map_or_else(|_| provider.usual_dialect(), |location| location.dialect);
            return served(provider, &dialect, live);
        }
        let mut served = served(provider, &Dialect::GEMINI, live);
        let windows =
            self.loaded.groups.model.configs.get("contextWindows").and_then(|value| value.as_object());
        for (name, window) in windows.into_iter().flatten() {
            let own = ModelOverride { context: window.as_u64(), ..ModelOverride::default() };
            served.user.entry(name.clone()).or_insert(own);
        }
        served
    }

    fn live_models(&self, id: &str) -> LiveModels {
        let said = self.base_of(id).and_then(|base| live_file(&self.loaded).read(id, &base));
        said.map(|said| said.models).unwrap_or_default()
    }

    /// The address whose answers count for a provider.
    pub(super) fn base_of(&self, id: &str) -> Option<String> {
        match id {
            "vertex" => None,
            "gemini" => {
                let own = self.env.non_empty("GOOGLE_GEMINI_BASE_URL");
                Some(own.unwrap_or(GOOGLE_ADDRESS).trim().trim_end_matches('/').to_owned())
            }
            _ => {
                let provider = self.providers().find(id)?;
                let location = self.providers().locate(&provider).ok()?;
                Some(location.base.to_string())
            }
        }
    }
}

fn row(provider: &str, model: &str, info: ModelInfo) -> ModelRow {
    let full = format!("{provider}/{model}");
    ModelRow {
        approximate: known::is_approximate(&full),
        ends: known::ends(&full).map(str::to_owned),
        name: if provider == "gemini" { model.to_owned() } else { full },
        info,
    }
}
