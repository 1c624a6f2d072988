//! OpenAI's Responses API: <https://developers.openai.com/api/reference/responses>.
//!
//! Nothing is kept on the server: every request holds the whole conversation, and reasoning goes back encrypted,
//! directly before what it led to.

mod annotations;
mod body;
pub(crate) mod decoder;
mod exchange;
mod input;
mod items;
mod seals;
mod values;

use std::sync::Arc;

use pollux_domain::BoxFuture;
use pollux_domain::hex;
use pollux_domain::model::{
    Dialect, GenerationSettings, ModelClient, ModelError, ModelInfo, ModelRequest, Origin, ReplyChunk,
    ReplyStream, RequestRole,
};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::catalogue::known::ModelOverride;
use crate::catalogue::live::LiveModels;
use crate::http::Failure;
use crate::shared::count::tokens;
use crate::shared::endpoint::{Endpoint, EndpointError};
use crate::shared::model_list;
use crate::shared::server::Server;
use crate::shared::settings;
use crate::shared::tool_names::ToolNames;
use exchange::ResponsesExchange;
use seals::Refused;

const MAX_TOOL_NAME: usize = 64;
const MAX_CALL_ID: usize = 64;
/// Reasoning of one organisation cannot be read by another.
const ACCOUNT_HEADERS: &[&str] = &["openai-organization", "openai-project"];

/// A client of the Responses API; cheap to clone.
#[derive(Clone)]
pub struct ResponsesClient {
    server: Arc<Server>,
    refused: Arc<Refused>,
    /// Tells accounts on the same server apart.
    account: Option<Arc<str>>,
}

impl ResponsesClient {
    /// Checks the address and the headers; nothing is sent.
    pub fn new(endpoint: Endpoint) -> Result<Self, EndpointError> {
        let account = account(&endpoint);
        let server = Arc::new(Server::new(endpoint, Dialect::RESPONSES, &[])?);
        Ok(Self { server, refused: Arc::default(), account })
    }

    fn info(&self, name: &str) -> ModelInfo {
        self.server.info(name)
    }

    /// What the server says of its models, which on this wire is little more than their names.
    pub async fn live_models(&self) -> Result<LiveModels, ModelError> {
        Ok(self.listed().await?.into_iter().collect())
    }

    async fn listed(&self) -> Result<Vec<(String, ModelOverride)>, ModelError> {
        let request = self.server.get("models");
        self.server.ask(&request, RequestRole::Tool, |value| model_list::read(&value)).await
    }

    /// Who answers for a name.
    fn origin(&self, name: &str) -> Origin {
        let mut origin = self.server.origin(&self.info(name).id);
        if let Some(account) = &self.account {
            origin.host = format!("{}#{account}", origin.host);
        }
        origin
    }
}

/// A short form of the account that the endpoint names.
fn account(endpoint: &Endpoint) -> Option<Arc<str>> {
    let mut hasher = Sha256::new();
    let mut any = false;
    for (name, value) in &endpoint.headers {
        if ACCOUNT_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            any = true;
            hasher.update(name.to_ascii_lowercase());
            hasher.update([0]);
            hasher.update(value.reveal());
            hasher.update([0]);
        }
    }
    any.then(|| hex::encode(&hasher.finalize()).chars().take(8).collect::<String>().into())
}

impl ModelClient for ResponsesClient {
    fn resolve(&self, name: &str) -> ModelInfo {
        self.info(name)
    }

    fn settings(&self, request: &ModelRequest) -> GenerationSettings {
        settings::neutral(request)
    }

    fn stream(&self, request: ModelRequest) -> Box<dyn ReplyStream> {
        let (role, origin) = (request.role, self.origin(&request.model));
        self.server.stream(ResponsesExchange::new(self.clone(), request), role, origin)
    }

    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ReplyChunk, ModelError>> {
        Box::pin(async move {
            let (role, origin) = (request.role, self.origin(&request.model));
            self.server.collect(ResponsesExchange::new(self.clone(), request), role, origin).await
        })
    }

    fn count_tokens(&self, request: ModelRequest) -> BoxFuture<'_, Result<u64, ModelError>> {
        Box::pin(async move {
            let names = ToolNames::new(&request.tools, MAX_TOOL_NAME);
            let origin = self.origin(&request.model);
            let sendable = exchange::with_plan(self, &request, &names, &origin, |plan| {
                self.server.post("responses/input_tokens", &body::count(&request, plan)?)
            })?;
            self.server.ask(&sendable, request.role, read_count).await
        })
    }

    fn list_models(&self) -> BoxFuture<'_, Result<Vec<ModelInfo>, ModelError>> {
        Box::pin(async {
            let listed = self.listed().await?;
            Ok(listed.iter().map(|(id, said)| said.over(self.info(id))).collect())
        })
    }
}

fn read_count(value: Value) -> Result<u64, Failure> {
    value
        .get("input_tokens")
        .and_then(tokens)
        .ok_or_else(|| Failure::malformed("the response has no token count"))
}
