//! Queries servers: whether they respond, and which models they have.

use std::time::Duration;

use futures_util::future::join_all;
use pollux_config::groups::Secret;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::model::{ModelError, ModelErrorKind};
use pollux_domain::terminal_text::one_line;
use pollux_domain::text::shortened;
use pollux_domain::time::{Clock, SystemClock};
use pollux_model::catalogue::Catalogue;
use pollux_model::catalogue::live::{LiveModels, LiveProvider};
use pollux_net::client::{self, ClientOptions};

use super::super::{GGUF, GOOGLE, RunProviders, live_file};
use super::{ProviderRow, ProviderSet, ProviderState, blank};
use crate::{VERSION, cannot_start};

/// A server that has not answered by then counts as unreachable.
const CHECK_LIMIT: Duration = Duration::from_secs(5);
/// Lists of models may take longer, and a local server is asked for each model.
const LIST_LIMIT: Duration = Duration::from_secs(30);

/// Maximum characters of a server's message.
const MAX_MESSAGE: usize = 300;

/// What a provider's server says of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyVerdict {
    Accepted,
    /// In the server's words.
    Rejected(String),
    /// Why nobody could tell.
    Unchecked(String),
}

/// The result of querying one provider for its models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refreshed {
    pub provider: String,
    /// The number of models, or why they could not be listed.
    pub models: Result<usize, String>,
}

impl ProviderSet {
    /// Asks the server of every provider that can be asked, all at once.
    pub fn check(&self, rows: &mut [ProviderRow]) -> Result<(), Failure> {
        let clients = self.clients("")?;
        let asked = rows.iter_mut().filter(|row| can_ask(row)).map(|row| async {
            let found = models_of(&clients, &row.id, CHECK_LIMIT).await;
            judge(row, found);
        });
        runtime()?.block_on(join_all(asked));
        Ok(())
    }

    /// Asks a provider's server for its models with a key, which is not stored.
    pub async fn try_key(&self, id: &str, key: &Secret) -> Result<KeyVerdict, Failure> {
        let clients = self.clients("")?.with_key(id, key);
        let mut row = blank(&self.find(id)?);
        judge(&mut row, models_of(&clients, id, CHECK_LIMIT).await);
        let problem = row.problem.unwrap_or_default();
        Ok(match row.state {
            ProviderState::Ok => KeyVerdict::Accepted,
            ProviderState::KeyRejected => KeyVerdict::Rejected(problem),
            _ => KeyVerdict::Unchecked(problem),
        })
    }

    /// Asks one provider, or every one that can be used, for its models and keeps the answers.
    pub fn refresh(&self, only: Option<&str>) -> Result<Vec<Refreshed>, Failure> {
        let rows = match only {
            Some(id) => vec![self.row(&self.find(id)?)],
            None => self.rows(),
        };
        if let (Some(_), [row]) = (only, &rows[..])
            && !can_ask(row)
        {
            return Err(self.unusable(row));
        }
        let clients = &self.clients(only.unwrap_or_default())?;
        let asked = rows
            .iter()
            .filter(|row| can_ask(row))
            .map(|row| async move { (row, models_of(clients, &row.id, LIST_LIMIT).await) });
        let mut refreshed = Vec::new();
        for (row, found) in runtime()?.block_on(join_all(asked)) {
            let models = match found {
                // A local server that is not running is a failure only if it was named.
                Err(_) if only.is_none() && row.key.is_none() => continue,
                Err(error) => Err(in_short(&error.message)),
                Ok(models) => self.keep(&row.id, models),
            };
            refreshed.push(Refreshed { provider: row.id.clone(), models });
        }
        Ok(refreshed)
    }

    fn keep(&self, id: &str, models: LiveModels) -> Result<usize, String> {
        let count = models.len();
        let said = LiveProvider { asked: SystemClock.now().to_iso(), models };
        match self.base_of(id) {
            Some(base) => {
                let kept = live_file(&self.loaded).record(id, &base, &said);
                kept.map(|()| count).map_err(|error| error.to_string())
            }
            None => Ok(count),
        }
    }

    /// Why a provider cannot be queried.
    pub(super) fn unusable(&self, row: &ProviderRow) -> Failure {
        if let Some(problem) = &row.problem {
            return Failure::new(ExitKind::Config, problem.clone());
        }
        if row.id == GGUF {
            return Failure::new(ExitKind::Input, "`gguf` models are files and cannot be listed")
                .hint("name a file, as in `pollux -m gguf//path/model.gguf`");
        }
        let variable = self.find(&row.id).map(|provider| provider.main_key_variable()).unwrap_or_default();
        let hint = match row.id.as_str() {
            "gemini" => "set GEMINI_API_KEY or run `pollux auth login`".to_owned(),
            "vertex" => "set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, or GOOGLE_API_KEY".to_owned(),
            id => format!("set {variable} or run `pollux providers login {id}`"),
        };
        Failure::new(ExitKind::Auth, format!("no API key for {}", row.name)).hint(hint)
    }

    /// Clients that try once. `start` is the provider that `--api-key-env` is for.
    pub(super) fn clients(&self, start: &str) -> Result<RunProviders, Failure> {
        let failed = |error: &(dyn std::error::Error + 'static)| Failure::from_error(ExitKind::Config, error);
        let http = client::client(&ClientOptions::from_env(&self.loaded.env, format!("pollux/{VERSION}")))
            .map_err(|error| failed(&error))?;
        let catalogue =
            Catalogue::with_settings(&self.loaded.groups.model.configs).map_err(|error| failed(&error))?;
        let mut clients = RunProviders::new(&self.loaded, start, http, catalogue.into());
        clients.general.max_attempts = 1;
        Ok(clients)
    }
}

pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| cannot_start(&error))
}

fn can_ask(row: &ProviderRow) -> bool {
    row.origin.is_some() && matches!(row.state, ProviderState::Ok | ProviderState::NotChecked)
}

/// The models of a provider, within a time limit. Vertex AI has no list; a token shows that it can be used.
pub(super) async fn models_of(
    clients: &RunProviders,
    id: &str,
    limit: Duration,
) -> Result<LiveModels, ModelError> {
    let asked = async {
        if id == "vertex" {
            let (_, tokens) = clients.google(id)?;
            if let Some(tokens) = tokens {
                let failed = |error| ModelError::new(ModelErrorKind::Auth, None, format!("{error}"));
                tokens.token().await.map_err(failed)?;
            }
            return Ok(LiveModels::new());
        }
        if GOOGLE.contains(&id) {
            return clients.connect_google(id)?.live_models().await;
        }
        let (mut endpoint, wire) = clients.endpoint(id)?;
        endpoint.timing.max_attempts = 1;
        (wire.models)(endpoint).await
    };
    let late = || {
        let text = format!("no response within {} s", limit.as_secs());
        ModelError::new(ModelErrorKind::Network, None, text)
    };
    tokio::time::timeout(limit, asked).await.unwrap_or_else(|_| Err(late()))
}

/// A server's message, on one line.
pub(super) fn in_short(message: &str) -> String {
    shortened(&one_line(message), MAX_MESSAGE)
}

fn judge(row: &mut ProviderRow, found: Result<LiveModels, ModelError>) {
    match found {
        Ok(models) => {
            row.state = ProviderState::Ok;
            row.models = (row.id != "vertex").then_some(models.len());
        }
        Err(error) => {
            row.state = match (&error.kind, error.status) {
                (ModelErrorKind::Auth, Some(_)) => ProviderState::KeyRejected,
                (ModelErrorKind::Network | ModelErrorKind::Cut | ModelErrorKind::Loading, _) => {
                    ProviderState::Unreachable
                }
                _ => ProviderState::Failed,
            };
            let advice = error.details.advice.filter(|_| error.kind == ModelErrorKind::Network);
            let advice = advice.map(|advice| format!("; {advice}")).unwrap_or_default();
            row.problem = Some(in_short(&format!("{}{advice}", error.message)));
        }
    }
}
