//! Which model a name means, how large its window is, and with which settings it is asked.
//!
//! The tables are data (`catalogue/aliases.json`), because they change with every release of upstream, and
//! a user's `modelConfigs` is laid over them. All of it happens on this machine; `auto` costs no request.
//! What models of all providers can do and cost is in [`known`], which reads its own table when it is asked.

pub mod cost;
pub mod known;
pub mod live;
mod settings;
mod table;

use std::collections::{BTreeMap, BTreeSet};

use pollux_domain::JsonObject;
use pollux_domain::model::{Dialect, InfoSource, ModelInfo, ProviderId};
use serde_json::Value;

use crate::gemini::capabilities;
use live::LiveModels;
use settings::{Alias, Override};

const BUILT_IN: &str = include_str!("catalogue/aliases.json");
const DEFAULT_WINDOW: u64 = 1_048_576;
/// Upstream's limit for a chain of aliases.
const MAX_DEPTH: usize = 100;
const CHAT_BASE: &str = "chat-base";

/// The tables.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    names: BTreeMap<String, String>,
    windows: BTreeMap<String, u64>,
    /// Windows that the server named and the user did not.
    live: BTreeMap<String, u64>,
    families: Vec<(String, String)>,
    aliases: BTreeMap<String, Alias>,
    overrides: Vec<Override>,
}

/// Why `modelConfigs` cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CatalogueError {
    #[error("`modelConfigs.{key}` must be {expected}")]
    Shape { key: String, expected: &'static str },
    #[error("the model alias `{alias}` extends `{parent}`, which does not exist")]
    UnknownParent { alias: String, parent: String },
    #[error("the model alias `{alias}` extends itself through `{through}`")]
    Cycle { alias: String, through: String },
    #[error("the model alias `{alias}` extends more than {MAX_DEPTH} others")]
    TooDeep { alias: String },
}

/// On whose behalf and when a model is asked; overrides look at it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Occasion<'a> {
    /// The agent's name; `None` for the main conversation.
    pub scope: Option<&'a str>,
    pub is_retry: bool,
}

/// A name that was looked up.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// The concrete name that is sent.
    pub id: String,
    /// Generation settings in the words of `generateContentConfig`.
    pub settings: JsonObject,
}

impl Catalogue {
    /// The built-in tables.
    pub fn built_in() -> Self {
        let mut tables = Self::default();
        // A test reads the tables, so a failure cannot reach a user.
        if let Ok(value) = serde_json::from_str(BUILT_IN) {
            let added = tables.add(&value);
            debug_assert!(added.is_ok());
        }
        tables
    }

    /// The built-in tables with a user's `modelConfigs` over them.
    pub fn with_settings(model_configs: &Value) -> Result<Self, CatalogueError> {
        let mut tables = Self::built_in();
        tables.add(model_configs)?;
        for alias in tables.aliases.keys() {
            tables.chain(alias)?;
        }
        Ok(tables)
    }

    /// The same with what the server said of its models. The user's `contextWindows` win.
    #[must_use]
    pub fn with_live(mut self, said: &LiveModels, model_configs: &Value) -> Self {
        let own = |name: &str| model_configs.get("contextWindows").is_some_and(|own| own.get(name).is_some());
        let windows = said.iter().filter_map(|(name, said)| Some((name.clone(), said.context?)));
        self.live = windows.filter(|(name, _)| !own(name)).collect();
        self
    }

    /// What the program must know of a model before it asks it.
    pub fn info(&self, name: &str) -> ModelInfo {
        let id = self.look_up(name, Occasion::default()).id;
        let bare = bare(&id);
        let live = self.live.get(bare).copied();
        let window = live.or_else(|| self.windows.get(bare).copied());
        ModelInfo {
            provider: ProviderId::GEMINI,
            dialect: Dialect::GEMINI,
            context_window: window.unwrap_or(DEFAULT_WINDOW),
            max_output: None,
            caps: capabilities::of(bare),
            local: false,
            compact: None,
            prices: None,
            small: capabilities::small(bare),
            investigator: capabilities::investigator(bare),
            implementer: capabilities::implementer(name, bare),
            source: match (live, window) {
                (Some(_), _) => InfoSource::Server,
                (None, Some(_)) => InfoSource::Catalogue,
                (None, None) => InfoSource::Guess,
            },
            id,
        }
    }

    /// The names that a person would choose from, each with the model that it stands for. Those that choose by
    /// themselves come first.
    pub fn choices(&self) -> Vec<(String, String)> {
        let built_in = Self::built_in();
        let own = self
            .aliases
            .iter()
            .filter(|(name, alias)| alias.model.is_some() && !built_in.aliases.contains_key(*name));
        let mut names: BTreeSet<String> = own.map(|(name, _)| name.clone()).collect();
        names.extend(self.names.keys().cloned());
        names.extend(self.names.keys().map(|name| self.concrete(name)));
        names.extend(self.windows.keys().cloned());
        let mut choices: Vec<(String, String)> =
            names.into_iter().map(|name| (name.clone(), self.info(&name).id)).collect();
        choices.sort_by_key(|(name, _)| !name.starts_with("auto"));
        choices
    }

    /// The concrete model and the settings for a name. The settings are those of the alias that was asked
    /// for, whatever concrete model it leads to.
    pub fn look_up(&self, name: &str, occasion: Occasion<'_>) -> Resolved {
        let concrete = self.concrete(name);
        let start = [name, concrete.as_str()].into_iter().find(|name| self.aliases.contains_key(*name));
        let start = start.unwrap_or_else(|| self.family(&concrete));
        let chain = self.chain(start).unwrap_or_default();
        let mut settings = JsonObject::new();
        let mut model = None;
        for alias in chain.iter().rev().filter_map(|name| self.aliases.get(*name)) {
            merge(&mut settings, &alias.settings);
            model = alias.model.as_deref().or(model);
        }
        let first = model.map_or_else(|| concrete.clone(), |model| self.concrete(model));
        let mut id = first.clone();
        for change in self.matching(&chain, name, &first, occasion) {
            merge(&mut settings, &change.settings);
            if let Some(model) = &change.model {
                id = self.concrete(model);
            }
        }
        Resolved { id, settings }
    }

    /// Follows names until one stands for itself.
    fn concrete(&self, name: &str) -> String {
        let mut name = name;
        for _ in 0..MAX_DEPTH {
            match self.names.get(name) {
                Some(next) if next != name => name = next,
                _ => break,
            }
        }
        name.to_owned()
    }

    fn family(&self, id: &str) -> &str {
        let known = self.families.iter().find(|(prefix, _)| bare(id).starts_with(prefix.as_str()));
        known.map_or(CHAT_BASE, |(_, alias)| alias)
    }

    /// An alias and what it extends, the root last.
    fn chain<'a>(&'a self, start: &'a str) -> Result<Vec<&'a str>, CatalogueError> {
        let mut chain = vec![start];
        let mut current = start;
        while let Some(parent) = self.aliases.get(current).and_then(|alias| alias.extends.as_deref()) {
            if !self.aliases.contains_key(parent) {
                return Err(CatalogueError::UnknownParent { alias: current.into(), parent: parent.into() });
            }
            if chain.contains(&parent) {
                return Err(CatalogueError::Cycle { alias: start.into(), through: parent.into() });
            }
            if chain.len() >= MAX_DEPTH {
                return Err(CatalogueError::TooDeep { alias: start.into() });
            }
            chain.push(parent);
            current = parent;
        }
        Ok(chain)
    }

    /// The overrides that apply, the weakest first: those for the chain's root, then nearer ones, then the
    /// ones with more conditions, then later ones.
    fn matching<'a>(
        &'a self,
        chain: &[&str],
        name: &str,
        id: &str,
        occasion: Occasion<'_>,
    ) -> Vec<&'a Override> {
        let level = |model: &str| {
            if model == id || model == name {
                return Some(chain.len());
            }
            chain.iter().rev().position(|alias| *alias == model)
        };
        let mut found: Vec<(usize, usize, &Override)> = self
            .overrides
            .iter()
            .filter(|change| change.fits(occasion))
            .filter_map(|change| {
                let level = change.model_matched.as_deref().map_or(Some(0), level)?;
                Some((level, change.conditions, change))
            })
            .collect();
        // A stable sort keeps the order of the settings among equals.
        found.sort_by_key(|(level, conditions, _)| (*level, *conditions));
        found.into_iter().map(|(_, _, change)| change).collect()
    }
}

/// `models/x` and `x` are the same model.
fn bare(id: &str) -> &str {
    id.strip_prefix("models/").unwrap_or(id)
}

/// Lays settings over others: objects join, everything else is replaced.
pub(crate) fn merge(below: &mut JsonObject, over: &JsonObject) {
    for (key, value) in over {
        match (below.get_mut(key), value) {
            (Some(Value::Object(inner)), Value::Object(value)) => merge(inner, value),
            _ => {
                below.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests;
