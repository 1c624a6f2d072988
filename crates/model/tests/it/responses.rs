//! The client of the Responses API against a scripted server that checks every request.

mod chunking;
mod failures;
mod replies;
mod requests;

use std::sync::Arc;

use pollux_config::groups::Secret;
use pollux_domain::content::{Body, Content, FunctionCall};
use pollux_domain::model::{
    Capabilities, Dialect, Effort, FinishReason, ModelClient, ModelInfo, ModelRequest, ProviderId,
};
use pollux_model::responses::ResponsesClient;
use pollux_model::shared::endpoint::Endpoint;
use pollux_net::client::{ClientOptions, client as http_client};
use pollux_test_support::FakeResponses;
use serde_json::Value;

pub(crate) use super::fixture::Told;
use super::fixture::{self, drain};

pub(crate) const MODEL: &str = "gpt-5.6-sol";

/// A reasoning model that sees pictures.
pub(crate) fn info(name: &str) -> ModelInfo {
    let caps = Capabilities {
        tools: true,
        parallel: true,
        tool_choice: true,
        images: true,
        pdf: true,
        reasoning: true,
        efforts: vec![Effort::Low, Effort::Medium, Effort::High],
        structured: true,
        ..Capabilities::default()
    };
    ModelInfo { caps, ..ModelInfo::unknown(name, ProviderId::new("openai"), Dialect::RESPONSES) }
}

/// The way to the server: a real key, almost no delays.
pub(crate) fn options(server: &FakeResponses) -> Endpoint {
    let http = http_client(&ClientOptions::new("unused")).unwrap();
    let mut endpoint = Endpoint::new(ProviderId::new("openai"), server.url(), http, Arc::new(info))
        .bearer(Secret::new("sk-secret-0123456789"));
    endpoint.timing.backoff.scale = 0.0001;
    endpoint.timing.max_attempts = 4;
    endpoint.timing.random = || 0.0;
    endpoint
}

pub(crate) fn client(server: &FakeResponses) -> ResponsesClient {
    ResponsesClient::new(options(server)).unwrap()
}

pub(crate) fn request(contents: Vec<Content>) -> ModelRequest {
    ModelRequest { model: MODEL.into(), ..fixture::request(contents) }
}

pub(crate) fn prompt(text: &str) -> ModelRequest {
    request(vec![Content::user_text(text)])
}

pub(crate) async fn ask(server: &FakeResponses) -> Told {
    drain(client(server).stream(prompt("hi"))).await
}

pub(crate) fn calls(told: &Told) -> Vec<&FunctionCall> {
    told.chunks.iter().flat_map(|chunk| &chunk.parts).filter_map(|part| part.as_call()).collect()
}

pub(crate) fn finish(told: &Told) -> FinishReason {
    let ends: Vec<_> = told.chunks.iter().filter_map(|chunk| chunk.finish.clone()).collect();
    assert_eq!(ends.len(), 1, "a reply ends once: {told:?}");
    ends[0].reason.clone()
}

/// The items that must go back.
pub(crate) fn seals(told: &Told) -> Vec<Value> {
    let parts = told.chunks.iter().flat_map(|chunk| &chunk.parts);
    let sealed = parts.filter_map(|part| match &part.body {
        Body::Reasoning { seal: Some(seal), .. } => Some(seal.data.clone()),
        _ => None,
    });
    sealed.collect()
}
