//! What the tests share.

use std::sync::Arc;
use std::time::Duration;

use pollux_config::groups::Secret;
use pollux_domain::content::Content;
use pollux_domain::model::{
    ModelClient, ModelError, ModelRequest, ReplyChunk, ReplyEvent, ReplyStream, RequestRole, Wait,
};
use pollux_domain::tool::{ToolKind, ToolSpec};
use pollux_model::auth::{Auth, AuthKind, Origin};
use pollux_model::catalogue::Catalogue;
use pollux_model::gemini::{GeminiClient, GeminiOptions};
use pollux_net::client::{ClientOptions, client};
use pollux_test_support::FakeGemini;
use serde_json::json;

pub(crate) const KEY: &str = "secret-key-0123456789";

/// Options for the server: a real key, almost no delays.
pub(crate) fn options(server: &FakeGemini) -> GeminiOptions {
    options_at(server.url())
}

/// The same for any address.
pub(crate) fn options_at(url: String) -> GeminiOptions {
    let auth = Auth {
        kind: AuthKind::ApiKey,
        key: Secret::new(KEY),
        origin: Origin::Variable("GEMINI_API_KEY"),
        base_url: Some(url),
        bearer: false,
        vertex: None,
    };
    let http = client(&ClientOptions::new("unused")).unwrap();
    let mut options = GeminiOptions::new(http, auth, Arc::new(Catalogue::built_in()));
    options.backoff.scale = 0.0001;
    options.max_attempts = 4;
    options.random = || 0.0;
    options
}

pub(crate) fn gemini(server: &FakeGemini) -> GeminiClient {
    GeminiClient::new(options(server)).unwrap()
}

pub(crate) fn request(contents: Vec<Content>) -> ModelRequest {
    let tool = ToolSpec {
        name: "read_file".into(),
        display_name: "ReadFile".into(),
        description: "Reads a file.".into(),
        kind: ToolKind::Read,
        parameters: json!({"type": "object"}),
        output_is_markdown: false,
        offloads_long_output: false,
    };
    ModelRequest {
        model: "gemini-2.5-pro".into(),
        chosen_by: Default::default(),
        role: RequestRole::Main,
        system: Some("Be kind.".into()),
        contents: contents.into_iter().map(Arc::new).collect(),
        tools: Arc::new([Arc::new(tool)]),
        settings: Default::default(),
        grounding: Default::default(),
    }
}

pub(crate) fn prompt(text: &str) -> ModelRequest {
    request(vec![Content::user_text(text)])
}

/// Everything a stream told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) chunks: Vec<ReplyChunk>,
    pub(crate) waits: Vec<Wait>,
    pub(crate) error: Option<ModelError>,
}

impl Told {
    pub(crate) fn text(&self) -> String {
        self.chunks.iter().flat_map(|chunk| &chunk.parts).filter_map(|part| part.spoken_text()).collect()
    }

    pub(crate) fn error(&self) -> &ModelError {
        self.error.as_ref().expect("an error")
    }
}

/// Reads a stream to its end; the limit only keeps a broken test from hanging.
pub(crate) async fn drain(stream: Box<dyn ReplyStream>) -> Told {
    drain_within(stream, Duration::from_secs(30)).await
}

/// The same with other patience.
pub(crate) async fn drain_within(mut stream: Box<dyn ReplyStream>, patience: Duration) -> Told {
    let reading = async {
        let mut told = Told::default();
        while let Some(event) = stream.next().await {
            match event {
                Ok(ReplyEvent::Chunk(chunk)) => told.chunks.push(chunk),
                Ok(ReplyEvent::Waiting(wait)) => told.waits.push(wait),
                Ok(ReplyEvent::CallProgress { .. } | ReplyEvent::Alive) => {}
                Err(error) => told.error = Some(error),
            }
        }
        told
    };
    tokio::time::timeout(patience, reading).await.expect("the stream ends")
}

pub(crate) async fn ask(server: &FakeGemini, text: &str) -> Told {
    drain(gemini(server).stream(prompt(text))).await
}
