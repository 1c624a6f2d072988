//! The models to choose from, and the client for the chosen one.

use std::sync::Arc;

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::model::{MicroUsd, ModelClient, ProviderId, Usage};
use pollux_model::budget::Meter;
use pollux_model::catalogue::{Catalogue, known};
use pollux_model::gemini::{self, GeminiSetup};
use pollux_model::recording::RecordingClient;
use pollux_model::router::Router;
use pollux_model::scripted::{ScriptedClient, Strictness};
use pollux_net::client::{self, ClientOptions};

use super::{Loaded, Prepared, auth};
use crate::VERSION;
use crate::providers::{RunProviders, live_file};
use crate::request::ReplyOrder;

/// Model names with descriptions; automatic ones come first.
pub fn models(loaded: &Loaded) -> Vec<(String, String)> {
    let catalogue = Catalogue::with_settings(&loaded.groups.model.configs);
    catalogue.unwrap_or_else(|_| Catalogue::built_in()).choices()
}

/// List price of a model's tokens; `None` for a model that is not on it.
pub fn list_price(model: &str, usage: &Usage) -> Option<MicroUsd> {
    known::list_price(model, usage)
}

/// When the list prices were read.
pub fn prices_as_of() -> &'static str {
    known::as_of()
}

/// The model client of a run: a provider or scripted replies, recorded if requested. Every request is paid by the
/// meter.
pub(crate) fn client(turn: &Prepared<'_>, meter: &Arc<Meter>) -> Result<Arc<dyn ModelClient>, Failure> {
    let loaded = turn.loaded;
    let failed = |error: &(dyn std::error::Error + 'static)| Failure::from_error(ExitKind::Failure, error);
    let configs = &loaded.groups.model.configs;
    let catalogue =
        Catalogue::with_settings(configs).map_err(|error| Failure::from_error(ExitKind::Config, &error))?;
    let live = turn.credentials.auth.as_ref().filter(|auth| auth.vertex.is_none());
    let live =
        live.and_then(|auth| live_file(loaded).read(ProviderId::GEMINI.as_str(), &gemini::address(auth)));
    let catalogue = match live {
        Some(said) => catalogue.with_live(&said.models, configs),
        None => catalogue,
    };
    let catalogue = Arc::new(catalogue);
    let base: Arc<dyn ModelClient> = match &turn.request.script.replies {
        Some(replies) => {
            let strictness = match replies.order {
                ReplyOrder::Strict => Strictness::Strict,
                ReplyOrder::FirstFitting => Strictness::NonStrict,
            };
            let file = loaded.env.cwd().join(&replies.file);
            let scripted =
                ScriptedClient::from_file(&file, strictness, catalogue).map_err(|error| failed(&error))?;
            meter.client(Arc::new(scripted))
        }
        None => Arc::new(provider(turn, catalogue)?.paid_by(meter)),
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
    let source = RunProviders::new(loaded, &turn.credentials.provider, http.clone(), Arc::clone(&catalogue));
    let router = Router::new(turn.credentials.provider.as_str(), Arc::new(source));
    // Background work may come before the first prompt. A name that means nothing fails with the first request.
    let _ = router.select(&turn.credentials.model);
    let Some(auth) = turn.credentials.auth.clone() else { return Ok(router) };
    let setup = GeminiSetup {
        http,
        catalogue,
        env: &loaded.env,
        general: &loaded.groups.general,
        version: VERSION,
        model: &loaded.groups.model.name,
        auth,
        tokens,
    };
    let google = gemini::connect(setup).map_err(|error| Failure::from_error(ExitKind::Config, &error))?;
    let google: Arc<dyn ModelClient> = Arc::new(google);
    let router = if turn.credentials.vertex { router.with("vertex", Arc::clone(&google)) } else { router };
    Ok(router.with(ProviderId::GEMINI.as_str(), google))
}
