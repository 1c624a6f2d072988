//! The providers that the program knows, and one client over all that are set up.
//!
//! A provider is a module with a [`ProviderSpec`] and a row in [`PROVIDERS`]. [`Router`] finds the provider of a
//! model by its name: `provider/model`, or a name alone for the main provider.

use std::collections::BTreeMap;
use std::sync::Arc;

use pollux_config::env::Env;
use pollux_config::groups::General;
use pollux_domain::BoxFuture;
use pollux_domain::model::{
    Dialect, GenerationSettings, ModelClient, ModelError, ModelInfo, ModelRequest, ProviderId, ReplyChunk,
    ReplyStream,
};
use pollux_net::google::GoogleTokens;

use crate::auth::Auth;
use crate::catalogue::Catalogue;
use crate::gemini::{self, GeminiSetupError};

/// Every provider, one row each.
pub const PROVIDERS: &[ProviderSpec] = &[gemini::PROVIDER];

/// What is known of a provider before it is asked for anything.
pub struct ProviderSpec {
    pub id: ProviderId,
    /// The wire language it speaks.
    pub dialect: Dialect,
    /// Where its credentials and its address come from; the first that is there is taken.
    pub needs: &'static [Need],
    /// Makes its client. Nothing is sent.
    pub connect: fn(&Setup<'_>) -> Result<Arc<dyn ModelClient>, SetupError>,
}

/// Something that a provider reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A variable of the environment.
    Variable(&'static str),
    /// A key of the settings.
    Setting(&'static str),
}

/// What clients are made from.
pub struct Setup<'a> {
    pub http: reqwest::Client,
    pub catalogue: Arc<Catalogue>,
    pub env: &'a Env,
    pub general: &'a General,
    /// The program's version.
    pub version: &'a str,
    /// The model that the program starts with.
    pub model: &'a str,
    /// The Google account or key of the run.
    pub google: (Auth, Option<GoogleTokens>),
}

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error(transparent)]
    Gemini(#[from] GeminiSetupError),
    #[error("unknown provider `{0}`")]
    Unknown(String),
}

/// A client for one provider, behind the router that others can join.
pub fn connect(main: &ProviderId, setup: &Setup<'_>) -> Result<Router, SetupError> {
    let spec = PROVIDERS.iter().find(|spec| spec.id == *main);
    let spec = spec.ok_or_else(|| SetupError::Unknown(main.as_str().to_owned()))?;
    Ok(Router::new(main.clone(), (spec.connect)(setup)?))
}

/// One client over several providers.
pub struct Router {
    main: Arc<dyn ModelClient>,
    clients: BTreeMap<ProviderId, Arc<dyn ModelClient>>,
}

impl Router {
    /// Names without a provider go to this one.
    pub fn new(id: ProviderId, main: Arc<dyn ModelClient>) -> Self {
        Self { clients: BTreeMap::from([(id, Arc::clone(&main))]), main }
    }

    /// Adds a provider; a second one of the same name takes the first one's place.
    #[must_use]
    pub fn with(mut self, id: ProviderId, client: Arc<dyn ModelClient>) -> Self {
        self.clients.insert(id, client);
        self
    }

    /// The client of a model, and the model's name there.
    fn route<'a>(&self, name: &'a str) -> (&Arc<dyn ModelClient>, &'a str) {
        let named = name.split_once('/').and_then(|(provider, model)| {
            let client = self.clients.get(&ProviderId::new(provider))?;
            Some((client, model))
        });
        named.unwrap_or((&self.main, name))
    }

    /// The client of a request, and the request as that client knows it.
    fn send(&self, mut request: ModelRequest) -> (&Arc<dyn ModelClient>, ModelRequest) {
        let (client, name) = self.route(&request.model);
        if name.len() != request.model.len() {
            request.model = name.to_owned();
        }
        (client, request)
    }
}

impl ModelClient for Router {
    fn resolve(&self, name: &str) -> ModelInfo {
        let (client, name) = self.route(name);
        client.resolve(name)
    }

    fn settings(&self, request: &ModelRequest) -> GenerationSettings {
        let (client, name) = self.route(&request.model);
        if name.len() == request.model.len() {
            return client.settings(request);
        }
        client.settings(&ModelRequest { model: name.to_owned(), ..request.clone() })
    }

    fn stream(&self, request: ModelRequest) -> Box<dyn ReplyStream> {
        let (client, request) = self.send(request);
        client.stream(request)
    }

    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ReplyChunk, ModelError>> {
        let (client, request) = self.send(request);
        client.generate(request)
    }

    fn count_tokens(&self, request: ModelRequest) -> BoxFuture<'_, Result<u64, ModelError>> {
        let (client, request) = self.send(request);
        client.count_tokens(request)
    }

    /// Those of every provider; one that does not answer is left out unless all of them fail.
    fn list_models(&self) -> BoxFuture<'_, Result<Vec<ModelInfo>, ModelError>> {
        Box::pin(async {
            let mut models = Vec::new();
            let mut failed = None;
            for client in self.clients.values() {
                match client.list_models().await {
                    Ok(found) => models.extend(found),
                    Err(error) => failed = Some(error),
                }
            }
            match failed {
                Some(error) if models.is_empty() => Err(error),
                Some(_) | None => Ok(models),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{ScriptedClient, Strictness};
    use pollux_domain::content::{Content, Part};
    use pollux_domain::model::RequestRole;
    use serde_json::json;

    fn scripted(words: &str) -> Arc<dyn ModelClient> {
        let reply =
            json!({"candidates": [{"content": {"parts": [{"text": words}]}, "finishReason": "STOP"}]});
        let line = json!({"method": "generateContent", "response": reply}).to_string();
        let catalogue = Arc::new(Catalogue::built_in());
        Arc::new(ScriptedClient::from_text(&line, Strictness::Strict, catalogue).unwrap())
    }

    fn request(model: &str) -> ModelRequest {
        ModelRequest {
            model: model.into(),
            role: RequestRole::Main,
            system: None,
            contents: vec![Arc::new(Content::user_text("hi"))],
            tools: Arc::from([]),
            settings: Default::default(),
            grounding: Default::default(),
        }
    }

    #[tokio::test]
    async fn a_name_leads_to_its_provider_and_others_to_the_main_one() {
        let router = Router::new(ProviderId::GEMINI, scripted("main"))
            .with(ProviderId::new("local"), scripted("local"));
        let local = router.generate(request("local/gemini-2.5-pro")).await.unwrap();
        assert_eq!(local.parts, [Part::text("local")]);
        let main = router.generate(request("models/gemini-2.5-pro")).await.unwrap();
        assert_eq!(main.parts, [Part::text("main")]);
        assert_eq!(router.resolve("local/gemini-2.5-pro").id, "gemini-2.5-pro");
        assert_eq!(router.resolve("gemini/pro").id, router.resolve("pro").id);
        assert_eq!(router.resolve("nosuch/pro").id, "nosuch/pro");
        let settings = router.settings(&request("local/classifier"));
        assert_eq!(settings, router.settings(&request("classifier")));
    }

    #[test]
    fn every_provider_has_its_own_name() {
        let mut ids: Vec<&str> = PROVIDERS.iter().map(|spec| spec.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), PROVIDERS.len());
    }
}
