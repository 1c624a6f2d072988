//! What the tests of this dialect share.

use std::sync::Arc;
use std::time::Duration;

use pollux_config::groups::Secret;
use pollux_domain::content::{Content, FunctionCall, FunctionResponse, Part};
use pollux_domain::model::{
    Capabilities, Dialect, Effort, InfoSource, ModelClient, ModelInfo, ModelRequest, ProviderId, ReplyChunk,
};
use pollux_model::chat::ChatClient;
use pollux_model::shared::endpoint::Endpoint;
use pollux_net::client::{ClientOptions, client as http};
use pollux_test_support::chat::{ChatReply, FakeChat};
use serde_json::{Value, json};

use super::super::fixture::{KEY, Told, drain, prompt, request};

/// A server of a provider, with almost no delays and everything a model can do.
pub(crate) fn endpoint(server: &FakeChat, provider: &'static str) -> Endpoint {
    let facts = move |name: &str| ModelInfo {
        caps: Capabilities {
            tools: true,
            tool_choice: true,
            images: true,
            pdf: true,
            audio: true,
            sampling: true,
            structured: true,
            efforts: vec![Effort::Low, Effort::Medium, Effort::High],
            ..Capabilities::default()
        },
        source: InfoSource::Catalogue,
        ..ModelInfo::unknown(name, ProviderId::known(provider), Dialect::CHAT)
    };
    let http = http(&ClientOptions::new("unused")).unwrap();
    let mut endpoint = Endpoint::new(ProviderId::known(provider), server.url(), http, Arc::new(facts));
    endpoint = endpoint.bearer(Secret::new(KEY));
    endpoint.timing.backoff.scale = 0.0001;
    endpoint.timing.max_attempts = 4;
    endpoint.timing.random = || 0.0;
    endpoint
}

pub(crate) fn client(server: &FakeChat) -> ChatClient {
    client_of(server, "lab")
}

pub(crate) fn client_of(server: &FakeChat, provider: &'static str) -> ChatClient {
    ChatClient::new(endpoint(server, provider)).unwrap()
}

/// A client that gives up on a silent server soon.
pub(crate) fn impatient(server: &FakeChat) -> ChatClient {
    let mut endpoint = endpoint(server, "lab");
    endpoint.timing.stall = Duration::from_secs(10);
    ChatClient::new(endpoint).unwrap()
}

/// Everything that one reply tells.
pub(crate) async fn told(reply: ChatReply) -> Told {
    let server = FakeChat::start([reply]);
    drain(impatient(&server).stream(prompt("hi"))).await
}

/// The reply as one chunk.
pub(crate) async fn whole(reply: ChatReply) -> ReplyChunk {
    let told = told(reply).await;
    assert_eq!(told.error, None);
    let mut whole = ReplyChunk::default();
    for chunk in told.chunks {
        whole.parts.extend(chunk.parts);
        whole.usage = chunk.usage.or(whole.usage);
        whole.finish = chunk.finish.or(whole.finish);
    }
    whole
}

pub(crate) fn calls(chunk: &ReplyChunk) -> Vec<&FunctionCall> {
    chunk.parts.iter().filter_map(Part::as_call).collect()
}

/// Name and arguments of each call.
pub(crate) fn called(chunk: &ReplyChunk) -> Vec<(String, Value)> {
    calls(chunk).into_iter().map(|call| (call.name.clone(), Value::Object(call.args.clone()))).collect()
}

/// The first request with these turns.
pub(crate) async fn sent(provider: &'static str, request: ModelRequest) -> Value {
    let server = FakeChat::start([ChatReply::said("ok")]);
    let told = drain(client_of(&server, provider).stream(request)).await;
    assert_eq!(told.error, None);
    server.body(0)
}

pub(crate) fn with_model(model: &str, contents: Vec<Content>) -> ModelRequest {
    ModelRequest { model: model.into(), ..request(contents) }
}

pub(crate) fn call(id: Option<&str>, name: &str, args: Value) -> Part {
    let Value::Object(args) = args else { panic!("arguments are an object") };
    Part::call(FunctionCall::new(id.map(str::to_owned), name, args))
}

pub(crate) fn answer(id: Option<&str>, name: &str, text: &str, media: Vec<Part>) -> Part {
    let Value::Object(fields) = json!({"output": text}) else { panic!("an object") };
    let id = id.map(str::to_owned);
    Part::response(FunctionResponse { id, name: name.into(), response: fields.into(), parts: media })
}
