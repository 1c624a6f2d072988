//! The operations behind `pollux providers` and `pollux models`.
//!
//! [`provider_set`] reads settings and variables; listing opens no connection. Only [`ProviderSet::check`],
//! [`ProviderSet::try_key`], [`ProviderSet::test`] and [`ProviderSet::refresh`] ask servers.

mod ask;
mod edit;
mod models;
mod probe;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use pollux_config::env::Env;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_model::auth::{self, Auth, Origin, VertexPlace};
use pollux_model::gemini::address;
use pollux_model::providers::{
    KeyPlace, Provider, ProviderSettings, Providers, SettingsError, read_settings,
};
use pollux_net::google::find_credentials;

pub use ask::{KeyVerdict, Refreshed};
pub use edit::{NewProvider, StoredKey};
pub use models::{ModelRow, prices_as_of};
pub use probe::{Probe, ProbeResult};

use super::{GGUF, GOOGLE, account_entry, needs_key, own_env, stored_providers, unknown};
use crate::request::Request;
use crate::{Loaded, load_settings};

/// A provider and whether it can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderRow {
    pub id: String,
    /// The display name.
    pub name: String,
    /// The wire format.
    pub dialect: String,
    /// Scheme, host and port of its server.
    pub origin: Option<String>,
    /// Where its key comes from, never the key.
    pub key: Option<String>,
    pub local: bool,
    pub state: ProviderState,
    /// The problem, if any.
    pub problem: Option<String>,
    /// How many models its server lists, if it was asked.
    pub models: Option<usize>,
}

/// Whether a provider can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderState {
    /// It is configured; after a check, its server has answered.
    Ok,
    NoKey,
    /// It needs no key, so only a check can tell.
    NotChecked,
    Unreachable,
    KeyRejected,
    /// Its settings cannot be used, or its server answered with an error.
    Failed,
}

impl ProviderState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NoKey => "no key",
            Self::NotChecked => "not checked",
            Self::Unreachable => "unreachable",
            Self::KeyRejected => "key rejected",
            Self::Failed => "error",
        }
    }
}

/// The providers of this user.
pub struct ProviderSet {
    loaded: Loaded,
    /// Without what the project adds.
    env: Env,
    settings: BTreeMap<String, ProviderSettings>,
    errors: Vec<SettingsError>,
    /// Accounts of the credential store, read on first use.
    stored: OnceCell<BTreeSet<String>>,
}

/// For `pollux providers` and `pollux models`.
pub fn provider_set(options: &Request, env: &Env) -> Result<ProviderSet, Failure> {
    let loaded = load_settings(options, env)?;
    let (settings, errors) = read_settings(&loaded.groups.model.providers);
    Ok(ProviderSet { env: own_env(&loaded), settings, errors, stored: OnceCell::new(), loaded })
}

impl ProviderSet {
    /// Warnings about the settings, for stderr.
    pub fn notes(&self) -> Vec<String> {
        let errors = self.errors.iter().map(|error| format!("Warning: {error}"));
        self.loaded.notes.iter().cloned().chain(errors).collect()
    }

    fn providers(&self) -> Providers<'_> {
        Providers::new(&self.env, &self.settings)
    }

    fn find<'a>(&'a self, id: &'a str) -> Result<Provider<'a>, Failure> {
        let providers = self.providers();
        // Unlike one in the settings, a name on the command line is no fault of the configuration.
        providers.find(id).ok_or_else(|| Failure { exit: ExitKind::Failure, ..unknown(id, &providers) })
    }

    fn has_stored(&self, id: &str) -> bool {
        self.stored.get_or_init(|| stored_providers(&self.loaded)).contains(&account_entry(id))
    }

    /// Every provider, with what is known without a connection.
    pub fn rows(&self) -> Vec<ProviderRow> {
        self.providers().all().map(|provider| self.row(&provider)).collect()
    }

    fn row(&self, provider: &Provider<'_>) -> ProviderRow {
        if GOOGLE.contains(&provider.id) {
            return self.google_row(provider);
        }
        let mut row = blank(provider);
        // Its server is started with the file, so there is none to query before.
        if provider.id == GGUF {
            return row;
        }
        match self.providers().locate(provider) {
            Ok(location) => {
                row.origin = Some(location.base.origin().ascii_serialization());
                row.local |= location.is_own_server(provider);
                row.dialect = location.dialect.as_str().to_owned();
                row.key = self.key_source(provider);
                row.state = match &row.key {
                    Some(_) => ProviderState::Ok,
                    None if needs_key(provider) => ProviderState::NoKey,
                    None => ProviderState::NotChecked,
                };
                if row.key.is_some()
                    && let Err(error) = location.check_key(provider)
                {
                    (row.state, row.problem) = (ProviderState::Failed, Some(error.to_string()));
                }
            }
            // Without a key, a missing address does not matter.
            Err(_) if provider.settings().is_none() && self.key_source(provider).is_none() => {
                row.state = ProviderState::NoKey;
            }
            Err(error) => (row.state, row.problem) = (ProviderState::Failed, Some(error.to_string())),
        }
        row
    }

    /// Where the key of a provider comes from, in the order in which a run looks for it.
    fn key_source(&self, provider: &Provider<'_>) -> Option<String> {
        let found = self.providers().key_in_environment(provider, None).map(|found| found.source);
        if let Some(KeyPlace::Variable(name)) = found {
            return Some(name);
        }
        if self.has_stored(provider.id) {
            return Some("credential store".to_owned());
        }
        (!provider.key_command().is_empty()).then(|| "key command".to_owned())
    }

    fn google_row(&self, provider: &Provider<'_>) -> ProviderRow {
        let mut row = blank(provider);
        row.origin = self.base_of(provider.id);
        let (security, file) = (&self.loaded.groups.security, self.loaded.home.settings_file());
        let chosen = if provider.id == "vertex" {
            auth::choose_vertex(&self.env, security)
        } else {
            auth::choose(&self.env, security, || self.loaded.credential_store().api_key(), &file)
        };
        match chosen {
            // The user chose Vertex AI, not the Gemini API.
            Ok(auth) if provider.id == "gemini" && auth.vertex.is_some() => row.state = ProviderState::NoKey,
            Ok(auth) => {
                row.origin = Some(address(&auth));
                self.judge_google(&auth, &mut row);
            }
            Err(auth::AuthError::StoredKey(error)) => {
                (row.state, row.problem) = (ProviderState::Failed, Some(error.to_string()));
            }
            Err(_) => row.state = ProviderState::NoKey,
        }
        row
    }

    fn judge_google(&self, auth: &Auth, row: &mut ProviderRow) {
        row.state = ProviderState::Ok;
        row.key = match auth.origin {
            Origin::Variable(name) => Some(name.to_owned()),
            Origin::Stored => Some("credential store".to_owned()),
            Origin::Settings => Some("`api.key` in the settings".to_owned()),
            Origin::Nothing => None,
        };
        if let Some(VertexPlace::Project { .. }) = auth.vertex {
            match find_credentials(&self.env, self.loaded.home.user_home()) {
                Ok(found) => row.key = Some(format!("Google credentials from {}", found.place())),
                Err(error) => (row.state, row.problem) = (ProviderState::NoKey, Some(error.to_string())),
            }
        }
    }
}

fn blank(provider: &Provider<'_>) -> ProviderRow {
    ProviderRow {
        id: provider.id.to_owned(),
        name: provider.name().to_owned(),
        dialect: provider.usual_dialect().as_str().to_owned(),
        origin: None,
        key: None,
        local: provider.is_local(),
        state: ProviderState::NotChecked,
        problem: None,
        models: None,
    }
}
