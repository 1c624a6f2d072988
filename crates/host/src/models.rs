//! Which models there are to choose from, and the client that speaks to the chosen one.

use std::sync::Arc;

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::model::{MicroUsd, ModelClient, ProviderId, Usage};
use pollux_model::catalogue::{Catalogue, known};
use pollux_model::recording::RecordingClient;
use pollux_model::registry::{self, Router, Setup};
use pollux_model::scripted::{ScriptedClient, Strictness};
use pollux_net::client::{self, ClientOptions};

use super::{Loaded, Prepared, auth};
use crate::VERSION;
use crate::request::ReplyOrder;

/// Names of models with what each stands for; those that choose by themselves come first.
pub fn models(loaded: &Loaded) -> Vec<(String, String)> {
    let catalogue = Catalogue::with_settings(&loaded.groups.model.configs);
    catalogue.unwrap_or_else(|_| Catalogue::built_in()).choices()
}

/// What so many tokens of a model cost by the list; `None` for a model that is not on it.
pub fn list_price(model: &str, usage: &Usage) -> Option<MicroUsd> {
    known::list_price(model, usage)
}

/// When the list prices were read.
pub fn prices_as_of() -> &'static str {
    known::as_of()
}

/// The client of a run: a provider, or replies from a file; recorded where that was asked for.
pub fn client(turn: &Prepared<'_>) -> Result<Arc<dyn ModelClient>, Failure> {
    let loaded = turn.loaded;
    let failed = |error: &(dyn std::error::Error + 'static)| Failure::from_error(ExitKind::Failure, error);
    let catalogue = Catalogue::with_settings(&loaded.groups.model.configs)
        .map_err(|error| Failure::from_error(ExitKind::Config, &error))?;
    let catalogue = Arc::new(catalogue);
    let base: Arc<dyn ModelClient> = match &turn.request.script.replies {
        Some(replies) => {
            let strictness = match replies.order {
                ReplyOrder::Strict => Strictness::Strict,
                ReplyOrder::FirstFitting => Strictness::NonStrict,
            };
            let file = loaded.env.cwd().join(&replies.file);
            Arc::new(ScriptedClient::from_file(&file, strictness, catalogue).map_err(|error| failed(&error))?)
        }
        None => Arc::new(provider(turn, catalogue)?),
    };
    match &turn.request.script.record {
        None => Ok(base),
        Some(path) => {
            let path = loaded.env.cwd().join(path);
            Ok(Arc::new(RecordingClient::wrap(base, &path).map_err(|error| failed(&error))?))
        }
    }
}

fn provider(turn: &Prepared<'_>, catalogue: Arc<Catalogue>) -> Result<Router, Failure> {
    let loaded = turn.loaded;
    let http = client::client(&ClientOptions::from_env(&loaded.env, format!("pollux/{VERSION}")))
        .map_err(|error| Failure::from_error(ExitKind::Config, &error))?;
    let tokens = auth::google_tokens(&turn.credentials, &http);
    let setup = Setup {
        http,
        catalogue,
        env: &loaded.env,
        general: &loaded.groups.general,
        version: VERSION,
        model: &loaded.groups.model.name,
        google: (turn.credentials.auth.clone(), tokens),
    };
    registry::connect(&ProviderId::GEMINI, &setup)
        .map_err(|error| Failure::from_error(ExitKind::Config, &error))
}
