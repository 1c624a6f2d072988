//! llama.cpp's own server with a small real model, over three wires, if `scripts/local-model.sh` has installed them.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pollux_config::groups::Secret;
use pollux_domain::content::Content;
use pollux_domain::model::{
    Dialect, GenerationSettings, ModelClient, ModelErrorKind, ModelInfo, ModelRequest, OutputFormat,
    ProviderId, ReplyStream, Setting,
};
use pollux_model::chat::ChatClient;
use pollux_model::messages::MessagesClient;
use pollux_model::prompt_tools::LocalProbe as _;
use pollux_model::responses::ResponsesClient;
use pollux_model::shared::endpoint::{Endpoint, EndpointTraits};
use pollux_net::client::{ClientOptions, client as http};
use pollux_test_support::Listening;
use serde_json::{Value, json};

use super::fixture::{Told, drain_within};

const KEY: &str = "only-for-this-test";
const WINDOW: u64 = 1024;

/// A running server.
struct RealServer(Listening);

impl RealServer {
    /// Starts it; `None`, and a line that says so, where it is not installed.
    fn start() -> Option<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/local-model");
        if !folder.join("installed").exists() {
            say("skipped: scripts/local-model.sh has not installed the local model");
            return None;
        }
        let model: PathBuf = folder.join("SmolLM2-135M-Instruct.Q4_1.gguf");
        // It listens before the model is loaded.
        Some(Self(Listening::start(Duration::from_secs(120), |port| {
            let mut command = Command::new(folder.join("bin/llama-server"));
            command.arg("-m").arg(&model).args(["--host", "127.0.0.1", "--jinja", "--api-key", KEY]);
            // More threads than free cores wait for each other.
            command.args(["--port", &port.to_string(), "-c", &WINDOW.to_string(), "-t", "1"]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command
        })))
    }

    fn endpoint(&self, path: &str, key: &str) -> Endpoint {
        let facts = |name: &str| ModelInfo::unknown(name, ProviderId::known("llamacpp"), Dialect::CHAT);
        let http = http(&ClientOptions::new("test")).unwrap();
        let base = format!("http://127.0.0.1:{}{path}", self.0.port());
        let mut endpoint = Endpoint::new(ProviderId::known("llamacpp"), base, http, Arc::new(facts));
        endpoint.traits = EndpointTraits { local: true, ..EndpointTraits::default() };
        endpoint.timing.first_byte = Duration::from_secs(120);
        endpoint.bearer(Secret::new(key))
    }
}

/// Reads a reply of a slow model on a busy machine.
async fn drained(stream: Box<dyn ReplyStream>) -> Told {
    drain_within(stream, Duration::from_secs(150)).await
}

fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn request(text: &str, max_output: u64) -> ModelRequest {
    let mut settings = GenerationSettings { max_output: Setting::Set(max_output), ..Default::default() };
    // The likeliest words, so that every run is answered alike.
    settings.sampling.temperature = Setting::Set(0.into());
    ModelRequest {
        model: "smollm2".into(),
        system: Some("You answer in one short sentence.".into()),
        settings,
        ..super::fixture::request(vec![Content::user_text(text)])
    }
}

async fn asked(wire: &str, client: &dyn ModelClient, text: &str) -> Told {
    let began = Instant::now();
    let told = drained(client.stream(request(text, 12))).await;
    let usage = told.chunks.iter().rev().find_map(|chunk| chunk.usage);
    say(&format!("{wire}: {:?} in {:.1} s, {usage:?}", told.text(), began.elapsed().as_secs_f64()));
    told
}

#[tokio::test]
async fn three_wires_of_a_real_server_stream_count_and_overflow() {
    let Some(server) = RealServer::start() else { return };
    let chat = ChatClient::new(server.endpoint("/v1", KEY)).unwrap();
    let responses = ResponsesClient::new(server.endpoint("/v1", KEY)).unwrap();
    let messages = MessagesClient::new(server.endpoint("", KEY), Default::default()).unwrap();
    // The first request comes while the model is loaded; it is waited for and answered.
    let first = asked("chat", &chat, "What is the capital of France?").await;
    say(&format!("loading: {} waits", first.waits.len()));
    assert_eq!(first.error, None);
    assert!(first.waits.iter().all(|wait| wait.cause.contains("oad")), "{:?}", first.waits);
    let wires: [(&str, &dyn ModelClient); 3] =
        [("chat", &chat), ("responses", &responses), ("messages", &messages)];
    for (wire, client) in wires {
        let mut cached = Vec::new();
        for _ in 0..2 {
            let told = asked(wire, client, "What is the capital of France?").await;
            assert_eq!(told.error, None, "{wire}");
            assert!(!told.text().trim().is_empty(), "{wire}");
            assert!(told.chunks.iter().any(|chunk| chunk.finish.is_some()), "{wire}");
            let usage = told.chunks.iter().rev().find_map(|chunk| chunk.usage).unwrap();
            // Responses accepts no limit below 16.
            assert!(usage.input > 10 && (1..=16).contains(&usage.output), "{wire}: {usage:?}");
            assert!(!usage.estimated, "{wire}");
            cached.push(usage.cached);
        }
        assert!(cached[1] > 0, "{wire}: the second request reads nothing from the cache");
        let told = drained(client.stream(request(&"word ".repeat(2_000), 12))).await;
        let error = told.error.unwrap_or_else(|| panic!("{wire}: no overflow"));
        let ModelErrorKind::ContextOverflow { asked, limit } = error.kind else {
            panic!("{wire}: {error:?}")
        };
        assert!(
            asked.is_none_or(|asked| asked > WINDOW) && limit.is_none_or(|limit| limit == WINDOW),
            "{wire}: {error:?}"
        );
        say(&format!("{wire}: overflow {asked:?} of {limit:?}: {}", error.message));
    }
    knows_its_template_and_keeps_to_a_schema(&chat).await;
    let stranger = ChatClient::new(server.endpoint("/v1", "wrong")).unwrap();
    let told = drained(stranger.stream(request("hi", 4))).await;
    assert_eq!(told.error.map(|error| error.kind), Some(ModelErrorKind::Auth));
}

async fn knows_its_template_and_keeps_to_a_schema(chat: &ChatClient) {
    let facts = chat.local_facts("smollm2").await.unwrap().unwrap();
    assert_eq!((facts.context_window, facts.tools), (Some(WINDOW), Some(false)));
    // Every answer to this schema is short, with all the white space that the server's grammar lets a model add.
    let schema = json!({"type": "object", "required": ["city"], "additionalProperties": false,
        "properties": {"city": {"enum": ["Lima", "Oslo"]}}});
    let mut request = request("Name a city.", 300);
    request.settings.output =
        Setting::Set(OutputFormat::Json { name: Some("city".into()), schema: Some(schema), strict: true });
    let told = drained(chat.stream(request)).await;
    let value: Value =
        serde_json::from_str(&told.text()).unwrap_or_else(|error| panic!("{error}: {}", told.text()));
    say(&format!("schema: {value}"));
    assert!(value["city"] == "Lima" || value["city"] == "Oslo", "{value}");
}
