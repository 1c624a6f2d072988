//! OpenAI's Chat Completions, which nearly every server speaks: <https://platform.openai.com/docs/api-reference/chat>.
//!
//! [`ChatClient`] is a client of one [`Endpoint`](crate::shared::endpoint::Endpoint). What servers do differently is a
//! table in `quirks`; what they refuse is learnt from their errors and kept as long as the client lives.

mod calls;
mod exchange;
mod local;
mod media;
mod messages;
pub(crate) mod quirks;
mod reasoning;
pub(crate) mod reply;
mod request;
mod usage;

use std::sync::Arc;

use pollux_domain::BoxFuture;
use pollux_domain::model::{
    Dialect, GenerationSettings, ModelClient, ModelError, ModelInfo, ModelRequest, ReplyChunk, ReplyStream,
    RequestRole,
};
use serde_json::{Value, json};

use crate::budget::uncounted;
use crate::catalogue::live::LiveModels;
use crate::prompt_tools::{LocalFacts, LocalProbe};
use crate::shared::endpoint::{Endpoint, EndpointError};
use crate::shared::model_list;
use crate::shared::server::Server;
use crate::shared::settings;
use crate::shared::tool_names::ToolNames;
use exchange::{ChatExchange, Memory};
use quirks::{Quirks, ServerFacts};
use request::{MAX_NAME, Plan};

/// A local server is asked about no more models than this.
const MAX_DETAILED: usize = 64;

/// A client of one server.
pub struct ChatClient {
    server: Arc<Server>,
    memory: Arc<Memory>,
}

impl ChatClient {
    /// Checks the address and the headers; nothing is sent.
    pub fn new(endpoint: Endpoint) -> Result<Self, EndpointError> {
        let server = Server::new(endpoint, Dialect::CHAT, &[])?;
        let quirks = Quirks::of(server.provider().as_str(), server.host(), server.port(), "");
        let server = server.with_headers(quirks.headers);
        Ok(Self { server: Arc::new(server), memory: Arc::default() })
    }

    /// What the server says of its models, and what a local one adds for each of them.
    pub async fn live_models(&self) -> Result<LiveModels, ModelError> {
        let request = self.server.get("models");
        let list = self.server.ask(&request, RequestRole::Tool, |value| model_list::read(&value)).await?;
        let mut models: LiveModels = list.into_iter().collect();
        // A list without details is better than none.
        let _ = self.add_local_facts(&mut models).await;
        Ok(models)
    }

    async fn add_local_facts(&self, models: &mut LiveModels) -> Result<(), ModelError> {
        let said = models.iter_mut().take(MAX_DETAILED);
        match self.quirks("").facts {
            ServerFacts::None => {}
            ServerFacts::LlamaCpp => {
                let facts = local::llama_cpp(&self.get_at_root("props").await?);
                said.for_each(|(_, said)| facts.add_to(said));
            }
            ServerFacts::LmStudio => {
                let list = self.get_at_root("api/v0/models").await?;
                said.for_each(|(name, said)| local::lm_studio(name, &list).add_to(said));
            }
            ServerFacts::Ollama => {
                let running = self.get_at_root("api/ps").await.unwrap_or_default();
                for (name, said) in said {
                    let show = self.ollama_show(name).await?;
                    local::ollama(name, &show, &running).add_to(said);
                }
            }
        }
        Ok(())
    }

    async fn ollama_show(&self, model: &str) -> Result<Value, ModelError> {
        let request = self.server.post("api/show", &[("model", json!(model))].into())?;
        let request = self.server.at_root(request, "api/show");
        uncounted(self.server.ask_once(&request)).await
    }

    async fn get_at_root(&self, path: &str) -> Result<Value, ModelError> {
        let request = self.server.at_root(self.server.get(path), path);
        uncounted(self.server.ask_once(&request)).await
    }

    fn quirks(&self, model: &str) -> Quirks {
        Quirks::of(self.server.provider().as_str(), self.server.host(), self.server.port(), model)
    }

    fn exchange(&self, request: ModelRequest) -> ChatExchange {
        let info = self.server.info(&request.model);
        let quirks = self.quirks(&info.id);
        let plan = Plan {
            settings: settings::neutral(&request),
            names: ToolNames::new(&request.tools, MAX_NAME),
            strict_tools: self.server.traits().strict_tools,
            request,
            info,
            quirks,
        };
        ChatExchange::new(Arc::clone(&self.server), plan, Arc::clone(&self.memory))
    }
}

impl LocalProbe for ChatClient {
    fn local_facts<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<Option<LocalFacts>, ModelError>> {
        Box::pin(async move {
            Ok(Some(match self.quirks(model).facts {
                ServerFacts::None => return Ok(None),
                ServerFacts::LlamaCpp => local::llama_cpp(&self.get_at_root("props").await?),
                ServerFacts::LmStudio => local::lm_studio(model, &self.get_at_root("api/v0/models").await?),
                ServerFacts::Ollama => {
                    let show = self.ollama_show(model).await?;
                    // An older server may not tell what it runs.
                    let running = self.get_at_root("api/ps").await.unwrap_or_default();
                    local::ollama(model, &show, &running)
                }
            }))
        })
    }
}

impl ModelClient for ChatClient {
    fn resolve(&self, name: &str) -> ModelInfo {
        self.server.info(name)
    }

    fn settings(&self, request: &ModelRequest) -> GenerationSettings {
        settings::neutral(request)
    }

    fn stream(&self, request: ModelRequest) -> Box<dyn ReplyStream> {
        let role = request.role;
        let exchange = self.exchange(request);
        let origin = self.server.origin(exchange.model());
        self.server.stream(exchange, role, origin)
    }

    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ReplyChunk, ModelError>> {
        let role = request.role;
        let exchange = self.exchange(request);
        let origin = self.server.origin(exchange.model());
        Box::pin(self.server.collect(exchange, role, origin))
    }

    /// An estimate: this dialect cannot be asked.
    fn count_tokens(&self, request: ModelRequest) -> BoxFuture<'_, Result<u64, ModelError>> {
        let count = self.exchange(request).estimate();
        Box::pin(std::future::ready(Ok(count)))
    }

    fn list_models(&self) -> BoxFuture<'_, Result<Vec<ModelInfo>, ModelError>> {
        Box::pin(async {
            let request = self.server.get("models");
            let list = self.server.ask(&request, RequestRole::Tool, |value| model_list::read(&value)).await?;
            Ok(list.iter().map(|(id, said)| said.over(self.server.info(id))).collect())
        })
    }
}
