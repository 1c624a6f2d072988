//! Provider configuration: which providers exist, where each one is reached and with which key.
//!
//! Use [`Providers::new`] to join the built-in table, the user's `providers` setting and the environment, then
//! [`Providers::locate`] for one provider and [`Providers::split`] for a model name. Nothing here sends a request
//! or asks a person. What a project may not set is withheld before the settings get here (`config`).

mod address;
mod choice;
mod endpoint;
mod facts;
mod key;
mod names;
mod settings;

pub use address::{AddressSource, Location, LocationError};
pub use choice::{DefaultChoice, DefaultReason};
pub use endpoint::EndpointParts;
pub use facts::{model_facts, served};
pub use key::{FoundKey, KeyPlace};
pub use names::ModelName;
pub(crate) use names::check_model_name;
pub use settings::{
    ModelSettings, Price, ProviderSettings, SettingsError, ToolMode, is_provider_id, read_settings,
};

use std::collections::BTreeMap;

use pollux_config::env::Env;
use pollux_domain::model::{BUILT_IN_PROVIDERS, BuiltInProvider, Dialect, ProviderId};

use crate::catalogue::known;

/// All providers that a run can use.
#[derive(Debug, Clone, Copy)]
pub struct Providers<'a> {
    env: &'a Env,
    settings: &'a BTreeMap<String, ProviderSettings>,
}

/// A provider as the table and the settings describe it.
#[derive(Debug, Clone, Copy)]
pub struct Provider<'a> {
    pub id: &'a str,
    built_in: Option<&'static BuiltInProvider>,
    settings: Option<&'a ProviderSettings>,
}

impl<'a> Providers<'a> {
    pub fn new(env: &'a Env, settings: &'a BTreeMap<String, ProviderSettings>) -> Self {
        Self { env, settings }
    }

    /// The built-in providers in the order of the table, then the user's own by name.
    pub fn all(&self) -> impl Iterator<Item = Provider<'a>> {
        let providers = *self;
        let own = providers.settings.keys().filter(|id| BuiltInProvider::find(id).is_none());
        BUILT_IN_PROVIDERS
            .iter()
            .map(|row| row.id)
            .chain(own.map(String::as_str))
            .filter_map(move |id| providers.find(id))
    }

    /// A provider by its id.
    pub fn find<'b>(&self, id: &'b str) -> Option<Provider<'b>>
    where
        'a: 'b,
    {
        let built_in = BuiltInProvider::find(id);
        let settings = self.settings.get(id);
        (built_in.is_some() || settings.is_some()).then_some(Provider { id, built_in, settings })
    }

    /// The environment that addresses and keys are read from.
    pub fn env(&self) -> &'a Env {
        self.env
    }
}

impl Provider<'_> {
    pub fn provider_id(&self) -> ProviderId {
        self.built_in.map_or_else(|| ProviderId::new(self.id), |row| ProviderId::known(row.id))
    }

    /// The name that people know it by.
    pub fn name(&self) -> &str {
        let own = self.settings.and_then(|settings| settings.name.as_deref());
        own.or(self.built_in.map(|row| row.name)).unwrap_or(self.id)
    }

    /// What the user's settings say of it.
    pub fn settings(&self) -> Option<&ProviderSettings> {
        self.settings
    }

    pub fn is_built_in(&self) -> bool {
        self.built_in.is_some()
    }

    /// Whether it runs on the user's own machine or network, so that no key is needed and no money is spent.
    pub fn is_local(&self) -> bool {
        self.built_in.is_some_and(|row| row.local)
    }

    /// How tools are offered to the model of a row of the settings: the row's own word before the provider's.
    fn tool_mode_of(&self, row: &ModelSettings) -> Option<ToolMode> {
        row.tools.or_else(|| self.settings.and_then(|settings| settings.tools))
    }

    /// The command that starts its server, for local ones.
    pub fn start_command(&self) -> Option<&'static str> {
        self.built_in.and_then(|row| row.start)
    }

    /// The model to start with when the user names none.
    pub fn default_model(&self) -> Option<&'static str> {
        known::provider(self.built_in?.id)?.default.as_deref()
    }

    /// The model for titles and summaries when the user names none.
    pub fn small_model(&self) -> Option<&'static str> {
        known::provider(self.built_in?.id)?.small.as_deref()
    }

    /// The variables that hold its key, in the order in which they are read.
    pub fn key_variables(&self) -> Vec<String> {
        let own = self.settings.and_then(|settings| settings.env_key.clone());
        let named = format!("POLLUX_{}_API_KEY", variable_part(self.id));
        let built_in = self.built_in.map_or(&[][..], |row| row.keys);
        own.into_iter().chain([named]).chain(built_in.iter().map(|name| (*name).to_owned())).collect()
    }

    /// The program that prints its key.
    pub fn key_command(&self) -> &[String] {
        self.settings.map_or(&[], |settings| &settings.key_command)
    }

    /// The variable to tell people about when there is no key.
    pub fn main_key_variable(&self) -> String {
        let own = self.settings.and_then(|settings| settings.env_key.clone());
        let built_in = || self.built_in.and_then(|row| row.keys.first()).map(|name| (*name).to_owned());
        own.or_else(built_in).unwrap_or_else(|| format!("POLLUX_{}_API_KEY", variable_part(self.id)))
    }

    /// The wire language at its usual address.
    pub fn usual_dialect(&self) -> Dialect {
        self.dialect(None)
    }

    /// The wire language at this address. OpenAI's own host speaks Responses; other hosts under its id speak Chat.
    fn dialect(&self, host: Option<&str>) -> Dialect {
        if let Some(dialect) = self.settings.and_then(|settings| settings.dialect.clone()) {
            return dialect;
        }
        match self.built_in {
            Some(row) if row.dialect == Dialect::RESPONSES && host.is_some_and(|host| host != row.host()) => {
                Dialect::CHAT
            }
            Some(row) => row.dialect.clone(),
            None => Dialect::CHAT,
        }
    }
}

/// The part of a variable's name that stands for a provider: `my-lab` → `MY_LAB`.
fn variable_part(id: &str) -> String {
    id.chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' })
        .collect()
}

#[cfg(test)]
mod tests;
