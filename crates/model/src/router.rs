//! One client over all providers of a run.
//!
//! A model's name decides which provider is asked. Clients are made when a model of theirs is asked for the first
//! time, so a provider that is never used costs nothing and its key is never looked up. Background
//! work (titles, summaries) stays with the provider that the conversation uses.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use pollux_domain::BoxFuture;
use pollux_domain::model::{
    Chooser, GenerationSettings, InfoSource, ModelClient, ModelError, ModelErrorKind, ModelInfo,
    ModelRequest, ProviderId, ReplyChunk, ReplyEvent, ReplyStream, RequestRole,
};
use pollux_domain::sync::Locked;

use crate::budget::Meter;
pub use crate::full_name::full_name;
use crate::providers::{ModelName, check_model_name};

/// The providers of a run, as the router needs them.
pub trait ProviderSource: Send + Sync {
    /// The provider and the model of a name.
    fn split(&self, name: &str, by: Chooser) -> ModelName;

    /// Makes a provider's client; the error says what the user can do.
    fn connect(&self, provider: &str) -> Result<Arc<dyn ModelClient>, ModelError>;

    /// The model of a provider to use where a name means another provider's.
    fn default_model(&self, provider: &str) -> Option<String>;

    /// The model for background work, as `provider/model`, for a conversation with this provider: `model.small`, or
    /// the provider's own small one.
    fn small_model(&self, provider: &str) -> Option<String>;
}

/// One client over several providers.
pub struct Router {
    source: Arc<dyn ProviderSource>,
    clients: Mutex<BTreeMap<String, Arc<dyn ModelClient>>>,
    /// The provider and model of the conversation: those selected or asked last on its behalf.
    current: Mutex<Current>,
    /// Pays for every request of every client.
    meter: Option<Arc<Meter>>,
}

#[derive(Clone)]
struct Current {
    provider: String,
    /// Unknown until a model is selected or asked.
    model: Option<String>,
}

/// Where a request goes.
struct Route {
    provider: String,
    model: String,
}

impl Route {
    fn check_name(&self) -> Result<(), ModelError> {
        // The name of a file is checked when it is opened.
        if self.provider == GGUF { Ok(()) } else { check_model_name(&self.model) }
    }
}

impl Router {
    /// Names without a provider go to `main`, until the conversation moves to another one.
    pub fn new(main: impl Into<String>, source: Arc<dyn ProviderSource>) -> Self {
        let current = Mutex::new(Current { provider: main.into(), model: None });
        Self { source, clients: Mutex::default(), current, meter: None }
    }

    /// Pays for every request. Clients are wrapped one by one, so that each attempt of a routing decision is paid at
    /// its own price.
    #[must_use]
    pub fn paid_by(mut self, meter: &Arc<Meter>) -> Self {
        let clients = std::mem::take(&mut *self.clients.locked());
        self.meter = Some(Arc::clone(meter));
        for (provider, client) in clients {
            self.keep(&provider, client);
        }
        self
    }

    /// Adds a client that exists already.
    #[must_use]
    pub fn with(self, provider: &str, client: Arc<dyn ModelClient>) -> Self {
        self.keep(provider, client);
        self
    }

    fn keep(&self, provider: &str, client: Arc<dyn ModelClient>) -> Arc<dyn ModelClient> {
        let client = match &self.meter {
            Some(meter) => meter.client(client),
            None => client,
        };
        self.clients.locked().insert(provider.to_owned(), Arc::clone(&client));
        client
    }

    fn route(&self, name: &str, role: RequestRole, by: Chooser) -> Route {
        let Current { provider: current, model: main } = self.current.locked().clone();
        let background = !matches!(role, RequestRole::Main | RequestRole::Subagent) || is_utility(name);
        let split = self.split(name, role, by, &current);
        if let Some(provider) = split.provider {
            return Route { provider, model: split.model };
        }
        let small = || self.source.small_model(&current).map(|name| self.source.split(&name, Chooser::User));
        if background && let Some(ModelName { provider: Some(provider), model }) = small() {
            return Route { provider, model };
        }
        let is_google = matches!(current.as_str(), "gemini" | "vertex");
        let model = match () {
            // No server but Google's knows these names.
            () if !is_google && is_utility(name) => main.or_else(|| self.source.default_model(&current)),
            () if !is_google && is_alias(name) => self.source.default_model(&current),
            () => None,
        };
        Route { provider: current, model: model.unwrap_or(split.model) }
    }

    /// Sub-agents, background work and hooks may use the provider of the conversation and those that the user named.
    fn split(&self, name: &str, role: RequestRole, by: Chooser, current: &str) -> ModelName {
        let by_user = self.source.split(name, Chooser::User);
        let is_own = by_user.provider.as_deref() == Some(current);
        match by {
            Chooser::User if role == RequestRole::Main || is_own => by_user,
            Chooser::Anyone | Chooser::Project if is_own => by_user,
            Chooser::User | Chooser::Anyone => self.source.split(name, Chooser::Anyone),
            Chooser::Project => self.source.split(name, Chooser::Project),
        }
    }

    /// Refuses a name that a hook chose and that leads to a provider that it may not choose.
    fn check_choice(&self, request: &ModelRequest) -> Result<(), ModelError> {
        if request.chosen_by == Chooser::User {
            return Ok(());
        }
        let current = self.current.locked().provider.clone();
        let meant = self.source.split(&request.model, Chooser::User).provider;
        let allowed = self.split(&request.model, request.role, request.chosen_by, &current).provider;
        let refused = match (meant, allowed) {
            // A program would read whatever file the name says.
            (_, Some(id)) if id == GGUF => Some(id),
            (None, None) if current == GGUF => Some(current),
            (meant, None) => meant,
            (_, Some(_)) => None,
        };
        match refused {
            None => Ok(()),
            Some(provider) => {
                let shown: String = request.model.chars().take(60).flat_map(char::escape_debug).collect();
                let message = format!(
                    "a hook chose the model `{shown}`, but hooks cannot move a conversation to `{provider}`; use \
                     `--model` or `/model` to choose it yourself"
                );
                Err(ModelError::new(ModelErrorKind::BadRequest, None, message))
            }
        }
    }

    fn client(&self, provider: &str) -> Result<Arc<dyn ModelClient>, ModelError> {
        if let Some(client) = self.clients.locked().get(provider) {
            return Ok(Arc::clone(client));
        }
        let client = self.source.connect(provider).map_err(|mut error| {
            error.details.provider.get_or_insert_with(|| ProviderId::new(provider));
            error
        })?;
        Ok(self.keep(provider, client))
    }

    /// What is known of the model at the end of a route.
    fn info(&self, route: Route) -> ModelInfo {
        let info = match self.client(&route.provider) {
            Ok(client) => client.resolve(&route.model),
            // The request itself reports why there is no client.
            Err(_) => {
                let dialect = pollux_domain::model::Dialect::new("");
                ModelInfo::unknown(&route.model, ProviderId::new(route.provider.as_str()), dialect)
            }
        };
        let default = || Some(full_name(&route.provider, &self.source.default_model(&route.provider)?));
        let small = self.source.small_model(&route.provider).or_else(default).or(info.small);
        ModelInfo { id: full_name(&route.provider, &info.id), small, ..info }
    }

    /// The client of a request, and the request as that client knows it.
    fn send(&self, mut request: ModelRequest) -> Result<(Arc<dyn ModelClient>, ModelRequest), ModelError> {
        self.check_choice(&request)?;
        let route = self.route(&request.model, request.role, request.chosen_by);
        route.check_name()?;
        let client = self.client(&route.provider)?;
        if request.role == RequestRole::Main {
            *self.current.locked() = Current { provider: route.provider, model: Some(route.model.clone()) };
        }
        request.model = route.model;
        Ok((client, request))
    }
}

/// The provider whose models are files.
pub const GGUF: &str = "gguf";

/// Names that Gemini CLI gives to models, which are no model of any other provider.
pub fn is_alias(name: &str) -> bool {
    matches!(name, "auto" | "pro" | "flash" | "flash-lite") || name.starts_with("auto-")
}

/// Names that background work asks for; they are settings of Gemini's catalogue and no model of any provider.
fn is_utility(name: &str) -> bool {
    ["chat-compression", "summarizer", "web-search", "web-fetch", "loop-detection"]
        .iter()
        .any(|known| name.starts_with(known))
}

impl ModelClient for Router {
    fn resolve(&self, name: &str) -> ModelInfo {
        self.info(self.route(name, RequestRole::Main, Chooser::User))
    }

    fn recipient(&self, request: &ModelRequest) -> ModelInfo {
        self.info(self.route(&request.model, request.role, request.chosen_by))
    }

    fn select(&self, name: &str) -> Result<(), ModelError> {
        let route = self.route(name, RequestRole::Main, Chooser::User);
        if let Some((unknown, _)) = name.split_once('/')
            && self.source.split(name, Chooser::User).provider.is_none()
            && matches!(self.resolve(name).source, InfoSource::Guess)
        {
            let shown = |text: &str| text.chars().take(60).flat_map(char::escape_debug).collect::<String>();
            let message = format!(
                "unknown provider `{}`; for a model of {} with this name, use `{}/{}`",
                shown(unknown),
                route.provider,
                route.provider,
                shown(name)
            );
            return Err(ModelError::new(ModelErrorKind::BadRequest, None, message));
        }
        *self.current.locked() = Current { provider: route.provider, model: Some(route.model) };
        Ok(())
    }

    fn check(&self, name: &str) -> Result<(), ModelError> {
        let route = self.route(name, RequestRole::Main, Chooser::User);
        route.check_name()?;
        self.client(&route.provider).map(drop)
    }

    fn settings(&self, request: &ModelRequest) -> GenerationSettings {
        let route = self.route(&request.model, request.role, request.chosen_by);
        match self.client(&route.provider) {
            Ok(client) => client.settings(&ModelRequest { model: route.model, ..request.clone() }),
            Err(_) => request.settings.clone(),
        }
    }

    fn stream(&self, request: ModelRequest) -> Box<dyn ReplyStream> {
        match self.send(request) {
            Ok((client, request)) => client.stream(request),
            Err(error) => Box::new(Refused(Some(error))),
        }
    }

    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ReplyChunk, ModelError>> {
        Box::pin(async move {
            let (client, request) = self.send(request)?;
            client.generate(request).await
        })
    }

    fn count_tokens(&self, request: ModelRequest) -> BoxFuture<'_, Result<u64, ModelError>> {
        Box::pin(async move {
            let (client, request) = self.send(request)?;
            client.count_tokens(request).await
        })
    }

    /// Those of the providers in use; one that does not answer is left out unless all of them fail.
    fn list_models(&self) -> BoxFuture<'_, Result<Vec<ModelInfo>, ModelError>> {
        Box::pin(async {
            let clients = self.clients.locked().clone();
            let mut models = Vec::new();
            let mut failed = None;
            for (provider, client) in clients {
                match client.list_models().await {
                    Ok(found) => models.extend(
                        found
                            .into_iter()
                            .map(|info| ModelInfo { id: full_name(&provider, &info.id), ..info }),
                    ),
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

/// A reply that never began.
struct Refused(Option<ModelError>);

impl ReplyStream for Refused {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<ReplyEvent, ModelError>>> {
        let error = self.0.take();
        Box::pin(async move { error.map(Err) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;
    use crate::scripted::{ScriptedClient, Strictness};
    use pollux_domain::content::{Content, Part};
    use serde_json::json;

    /// Providers that answer with their own name; `locked` has no key.
    struct Named;

    impl ProviderSource for Named {
        fn split(&self, name: &str, by: Chooser) -> ModelName {
            let known = match by {
                Chooser::User => ["gemini", "anthropic", "local", "locked"].as_slice(),
                Chooser::Anyone => &["gemini", "anthropic", "local"],
                Chooser::Project => &["local"],
            };
            match name.split_once('/') {
                Some((provider, model)) if known.contains(&provider) => {
                    ModelName { provider: Some(provider.into()), model: model.into() }
                }
                _ => ModelName { provider: None, model: name.into() },
            }
        }

        fn connect(&self, provider: &str) -> Result<Arc<dyn ModelClient>, ModelError> {
            if provider == "locked" {
                return Err(ModelError::new(ModelErrorKind::Auth, None, "no key for `locked`"));
            }
            Ok(scripted(provider))
        }

        fn default_model(&self, provider: &str) -> Option<String> {
            (provider == "anthropic").then(|| "claude".to_owned())
        }

        fn small_model(&self, provider: &str) -> Option<String> {
            (provider == "anthropic").then(|| "anthropic/haiku".to_owned())
        }
    }

    fn scripted(words: &str) -> Arc<dyn ModelClient> {
        let reply =
            json!({"candidates": [{"content": {"parts": [{"text": words}]}, "finishReason": "STOP"}]});
        let line = json!({"method": "generateContent", "response": reply}).to_string();
        let catalogue = Arc::new(Catalogue::built_in());
        Arc::new(ScriptedClient::from_text(&line, Strictness::NonStrict, catalogue).unwrap())
    }

    fn request(model: &str, role: RequestRole) -> ModelRequest {
        ModelRequest {
            model: model.into(),
            chosen_by: Default::default(),
            role,
            system: None,
            contents: vec![Arc::new(Content::user_text("hi"))],
            tools: Arc::from([]),
            settings: Default::default(),
            grounding: Default::default(),
        }
    }

    async fn answer(router: &Router, model: &str, role: RequestRole) -> Vec<Part> {
        router.generate(request(model, role)).await.unwrap().parts
    }

    #[tokio::test]
    async fn a_name_leads_to_its_provider_and_others_to_the_main_one() {
        let router = Router::new("gemini", Arc::new(Named));
        assert_eq!(answer(&router, "models/gemini-2.5-pro", RequestRole::Main).await, [Part::text("gemini")]);
        assert_eq!(
            answer(&router, "local/gemini-2.5-pro", RequestRole::Subagent).await,
            [Part::text("local")]
        );
        assert_eq!(router.resolve("local/gemini-2.5-pro").id, "local/gemini-2.5-pro");
        assert_eq!(router.resolve("gemini/pro").id, router.resolve("pro").id);
        assert_eq!(router.resolve("nosuch/pro").id, "nosuch/pro");
    }

    #[tokio::test]
    async fn work_beside_the_conversation_stays_with_its_provider() {
        let router = Router::new("gemini", Arc::new(Named));
        let utility = RequestRole::Compressor;
        assert_eq!(answer(&router, "chat-compression", utility).await, [Part::text("gemini")]);
        assert_eq!(answer(&router, "anthropic/claude", RequestRole::Main).await, [Part::text("anthropic")]);
        assert_eq!(
            answer(&Router::new("anthropic", Arc::new(Named)), "chat-compression", utility).await,
            [Part::text("anthropic")]
        );
        assert_eq!(router.route("chat-compression", utility, Chooser::User).model, "haiku");
    }

    #[tokio::test]
    async fn background_work_without_a_small_model_asks_the_main_one() {
        let router = Router::new("local", Arc::new(Named));
        router.select("local/qwen3").unwrap();
        let asked = |name: &str| {
            let route = router.route(name, RequestRole::Summarizer, Chooser::User);
            format!("{}/{}", route.provider, route.model)
        };
        assert_eq!(asked("summarizer-default"), "local/qwen3");
        assert_eq!(router.resolve("chat-compression-default").id, "local/qwen3");
        answer(&router, "coder", RequestRole::Main).await;
        assert_eq!(asked("web-fetch-fallback"), "local/coder");
    }

    #[tokio::test]
    async fn bare_names_belong_to_the_selected_provider() {
        let router = Router::new("anthropic", Arc::new(Named));
        answer(&router, "anthropic/claude", RequestRole::Main).await;
        router.select("local/qwen3").unwrap();
        assert_eq!(router.resolve("coder").id, "local/coder");
        let error = router.select("nosuch/zzz").unwrap_err();
        assert!(error.message.starts_with("unknown provider `nosuch`"), "{error:?}");
        assert_eq!(router.resolve("coder").id, "local/coder");
        assert_eq!(answer(&router, "coder", RequestRole::Main).await, [Part::text("local")]);
    }

    #[tokio::test]
    async fn a_hook_moves_a_conversation_only_to_providers_it_may_choose() {
        let asked = async |model: &str, by: Chooser| {
            let router = Router::new("gemini", Arc::new(Named));
            let request = ModelRequest { chosen_by: by, ..request(model, RequestRole::Main) };
            router.generate(request).await.map(|reply| reply.parts)
        };
        assert_eq!(asked("anthropic/x", Chooser::Anyone).await.unwrap(), [Part::text("anthropic")]);
        assert_eq!(asked("local/x", Chooser::Project).await.unwrap(), [Part::text("local")]);
        assert_eq!(asked("gemini/gemini-2.5-pro", Chooser::Project).await.unwrap(), [Part::text("gemini")]);
        for (model, by) in [("anthropic/x", Chooser::Project), ("locked/x", Chooser::Anyone)] {
            let error = asked(model, by).await.unwrap_err();
            assert!(error.message.starts_with(&format!("a hook chose the model `{model}`")), "{error:?}");
        }
    }

    #[test]
    fn aliases_of_gemini_mean_the_default_model_elsewhere() {
        let router = Router::new("anthropic", Arc::new(Named));
        assert_eq!(router.resolve("auto").id, "anthropic/claude");
        assert_eq!(router.resolve("claude-x").id, "anthropic/claude-x");
        assert_eq!(router.resolve("auto").small.as_deref(), Some("anthropic/haiku"));
    }

    #[tokio::test]
    async fn a_provider_that_cannot_be_used_says_so_with_the_request() {
        let router = Router::new("locked", Arc::new(Named));
        assert_eq!(router.resolve("x").id, "locked/x");
        assert!(router.check("locked/x").is_err() && router.check("gemini/pro").is_ok());
        let error = router.generate(request("x", RequestRole::Main)).await.unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (ModelErrorKind::Auth, "no key for `locked`"));
        let mut stream = router.stream(request("locked/x", RequestRole::Main));
        assert!(matches!(stream.next().await, Some(Err(_))));
        assert!(stream.next().await.is_none());
    }
}
