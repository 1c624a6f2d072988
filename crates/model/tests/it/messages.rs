//! The Messages client against a server that checks what it is sent.

mod failures;
mod replies;
mod requests;
mod turns;

use std::sync::Arc;

use pollux_config::groups::Secret;
use pollux_domain::content::{Content, FunctionResponse, Part};
use pollux_domain::model::{ModelClient, ModelRequest, ProviderId, ReplyChunk};
use pollux_model::messages::{MessagesClient, MessagesOptions, api_key, claude_facts};
use pollux_model::shared::endpoint::Endpoint;
use pollux_net::client::{ClientOptions, client as http_client};
use pollux_test_support::FakeMessages;
use serde_json::{Value, json};

use super::fixture::{KEY, Told, drain, request};

/// A model whose reasoning is bound to what comes before it.
pub(crate) const SEALED: &str = "claude-opus-5-5";

/// The server with a key and almost no delays.
pub(crate) fn endpoint(server: &FakeMessages) -> Endpoint {
    let http = http_client(&ClientOptions::new("unused")).unwrap();
    let provider = ProviderId::known("anthropic");
    let mut endpoint = Endpoint::new(provider.clone(), server.url(), http, claude_facts(provider));
    endpoint.credential = Some(api_key(Secret::new(KEY)));
    endpoint.timing.backoff.scale = 0.0001;
    endpoint.timing.max_attempts = 4;
    endpoint.timing.random = || 0.0;
    endpoint
}

pub(crate) fn client(server: &FakeMessages) -> MessagesClient {
    MessagesClient::new(endpoint(server), MessagesOptions::default()).unwrap()
}

/// A client that takes the server for Anthropic's own.
pub(crate) fn first_party(server: &FakeMessages) -> MessagesClient {
    let mut endpoint = endpoint(server);
    endpoint.traits.first_party = true;
    MessagesClient::new(endpoint, MessagesOptions::default()).unwrap()
}

pub(crate) fn asking(model: &str, contents: Vec<Content>) -> ModelRequest {
    ModelRequest { model: model.into(), ..request(contents) }
}

pub(crate) async fn ask(client: &MessagesClient, request: ModelRequest) -> Told {
    drain(client.stream(request)).await
}

/// The model's turn as the agent keeps it: adjacent texts are one.
pub(crate) fn turn(told: &Told) -> Content {
    let mut parts: Vec<Part> = Vec::new();
    for part in told.chunks.iter().flat_map(|chunk| &chunk.parts) {
        match (parts.last_mut().map(|last| &mut last.body), &part.body) {
            (Some(pollux_domain::content::Body::Text(text)), pollux_domain::content::Body::Text(more)) => {
                text.push_str(more);
            }
            _ => parts.push(part.clone()),
        }
    }
    let origin = told.chunks.iter().rev().find_map(|chunk: &ReplyChunk| chunk.origin.clone());
    Content { origin, ..Content::model(parts) }
}

/// The answer to a call.
pub(crate) fn answer(id: &str, name: &str, response: Value) -> Part {
    Part::response(FunctionResponse {
        id: Some(id.into()),
        name: name.into(),
        response: response.as_object().unwrap().clone().into(),
        parts: Vec::new(),
    })
}

/// Turns to send: shared as in a session.
pub(crate) fn shared(contents: &[Content]) -> Vec<Arc<Content>> {
    contents.iter().cloned().map(Arc::new).collect()
}

pub(crate) fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Blocks without the marks for the cache.
pub(crate) fn unmarked(mut blocks: Vec<Value>) -> Vec<Value> {
    for block in &mut blocks {
        if let Some(fields) = block.as_object_mut() {
            fields.shift_remove("cache_control");
        }
    }
    blocks
}
