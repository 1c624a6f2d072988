//! Anthropic's Messages API: <https://platform.claude.com/docs/en/api/messages>, and servers that speak it.
//!
//! A conversation is only ever appended to on this wire, because newer models bind their reasoning to everything
//! before it and because the server's cache works by prefix. What of a reply must go back goes back as it came
//! (`turns`); seals that the server once refused are left out from then on.

mod body;
mod capabilities;
mod exchange;
mod headers;
mod models;
pub(crate) mod reply;
mod settings;
mod stream;
mod turns;
mod usage;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use pollux_config::groups::Secret;
use pollux_domain::BoxFuture;
use pollux_domain::model::{
    Dialect, GenerationSettings, ModelClient, ModelError, ModelInfo, ModelRequest, ProviderId, ReplyChunk,
    ReplyStream, RequestRole,
};
use pollux_domain::sync::Locked as _;
use reqwest::{Request, Url};
use serde_json::Value;

use crate::catalogue::known::ModelOverride;
use crate::catalogue::live::LiveModels;
use crate::http::Failure;
use crate::shared::body::RequestBody;
use crate::shared::endpoint::{Credential, Endpoint, EndpointError, Key, ModelFacts};
use crate::shared::fault;
use crate::shared::server::Server;
use crate::shared::settings::neutral;
use body::{Plan, Target};
use stream::MessagesStream;

/// Anthropic's own server.
pub const ANTHROPIC: &str = "https://api.anthropic.com";
/// The key of an uninterpreted part under which a block of this wire is kept.
const BLOCK: &str = "anthropicBlock";
/// How often a turn that the server paused is continued.
const MAX_PAUSES: u32 = 5;

/// How long the server keeps what is marked for its cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CacheTtl {
    /// Nothing is marked.
    Off,
    /// Five minutes.
    #[default]
    Short,
    /// An hour for tools and instructions, five minutes for the conversation.
    Long,
}

/// What is particular to this wire.
#[derive(Debug, Clone, Default)]
pub struct MessagesOptions {
    /// `anthropic-version`; the newest one for Anthropic's own server and the first one for others, unless set.
    pub api_version: Option<String>,
    /// `anthropic-beta`.
    pub betas: Vec<String>,
    pub cache: CacheTtl,
    /// Tells users of one key apart, if set; a hash and not a name.
    pub user_id: Option<String>,
}

/// What is known of Claude models by their names alone.
pub fn claude_facts(provider: ProviderId) -> ModelFacts {
    Arc::new(move |name| capabilities::info(name, provider.clone()))
}

/// A key as Anthropic's API wants it: in `x-api-key`.
pub fn api_key(key: Secret) -> Credential {
    Credential { header: "x-api-key".to_owned(), prefix: String::new(), key: Key::Fixed(key) }
}

/// Whether an address is that of Anthropic's own server.
pub fn is_first_party(base_url: &str) -> bool {
    Url::parse(base_url.trim()).is_ok_and(|url| url.host_str() == Some("api.anthropic.com"))
}

/// A client of one server; cheap to clone.
#[derive(Clone)]
pub struct MessagesClient {
    shared: Arc<Shared>,
}

struct Shared {
    server: Server,
    options: MessagesOptions,
    learnt: Mutex<Learnt>,
}

/// What the server refused, so that it is not sent again.
#[derive(Debug, Default)]
struct Learnt {
    /// Marks of seals.
    seals: HashSet<u64>,
    /// Fields of the body, by model.
    fields: BTreeMap<String, HashSet<String>>,
}

impl MessagesClient {
    /// Checks the address, which may end in `/v1`, and the headers; nothing is sent.
    pub fn new(mut endpoint: Endpoint, options: MessagesOptions) -> Result<Self, EndpointError> {
        let address = endpoint.base_url.trim().trim_end_matches('/');
        endpoint.base_url =
            if address.ends_with("/v1") { address.to_owned() } else { format!("{address}/v1") };
        let own = headers::own(&options, endpoint.traits.first_party);
        let server = Server::new(endpoint, Dialect::MESSAGES, &own)?;
        Ok(Self { shared: Arc::new(Shared { server, options, learnt: Mutex::default() }) })
    }

    fn server(&self) -> &Server {
        &self.shared.server
    }

    /// Writes a body with what is known of the server and the model by now.
    fn write<T>(&self, model: &str, continues: bool, write: impl FnOnce(&Target<'_>) -> T) -> T {
        let info = self.server().info(model);
        let origin = self.server().origin(&info.id);
        let learnt = self.shared.learnt.locked();
        let none = HashSet::new();
        write(&Target {
            origin: &origin,
            info: &info,
            first_party: self.server().traits().first_party,
            cache: self.shared.options.cache,
            user_id: self.shared.options.user_id.as_deref(),
            void: &learnt.seals,
            unknown: learnt.fields.get(&info.id).unwrap_or(&none),
            continues,
            declarations: self.server().declarations(),
        })
    }

    fn plan(&self, request: &ModelRequest, continues: bool) -> Plan {
        self.write(&request.model, continues, |target| target.stream(request))
    }

    /// What the server says of its models.
    pub async fn live_models(&self) -> Result<LiveModels, ModelError> {
        Ok(self.listed().await?.into_iter().collect())
    }

    /// The same in the server's order.
    async fn listed(&self) -> Result<Vec<(String, ModelOverride)>, ModelError> {
        let mut listed = Vec::new();
        let mut after: Option<String> = None;
        // A server that never stops telling of more pages must not keep us here.
        for _ in 0..models::MAX_PAGES {
            let mut sendable = self.server().get("models");
            models::ask_for_page(sendable.url_mut(), after.as_deref());
            let page = self.server().ask(&sendable, RequestRole::Tool, models::read_page).await?;
            listed.extend(page.models.iter().filter_map(models::said));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(listed)
    }

    /// A request whose header names what is in beta of its body.
    fn post(&self, path: &str, body: &RequestBody) -> Result<Request, ModelError> {
        let betas = headers::betas(&self.shared.options.betas, body);
        let mut request = self.server().post(path, body)?;
        headers::add_betas(request.headers_mut(), betas);
        Ok(request)
    }
}

impl ModelClient for MessagesClient {
    fn resolve(&self, name: &str) -> ModelInfo {
        self.server().info(name)
    }

    fn settings(&self, request: &ModelRequest) -> GenerationSettings {
        neutral(request)
    }

    fn stream(&self, request: ModelRequest) -> Box<dyn ReplyStream> {
        Box::new(MessagesStream::new(self.clone(), request))
    }

    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ReplyChunk, ModelError>> {
        Box::pin(stream::whole(self.clone(), request))
    }

    fn count_tokens(&self, request: ModelRequest) -> BoxFuture<'_, Result<u64, ModelError>> {
        Box::pin(async move {
            let body = self.write(&request.model, false, |target| target.count(&request));
            let sendable = self.post("messages/count_tokens", &body)?;
            self.server().ask(&sendable, request.role, read_count).await
        })
    }

    fn list_models(&self) -> BoxFuture<'_, Result<Vec<ModelInfo>, ModelError>> {
        Box::pin(async move {
            let listed = self.listed().await?;
            Ok(listed.iter().map(|(id, said)| said.over(self.server().info(id))).collect())
        })
    }
}

/// Reads the answer to `count_tokens`.
fn read_count(value: Value) -> Result<u64, Failure> {
    if let Some(failure) = fault::in_reply(&value, false) {
        return Err(failure);
    }
    let count = value.get("input_tokens").map(usage::number);
    count.ok_or_else(|| Failure::malformed("the response has no token count"))
}
