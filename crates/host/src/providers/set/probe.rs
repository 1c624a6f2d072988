//! Tests what a provider's model can do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pollux_config::settings;
use pollux_domain::content::{Body, Content};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::model::{
    GenerationSettings, ModelClient, ModelError, ModelErrorKind, ModelRequest, OutputFormat, ReplyEvent,
    RequestRole, Setting, ToolChoice,
};
use pollux_domain::time::{Clock, SystemClock};
use pollux_domain::tool::{ToolKind, ToolSpec};
use pollux_model::router::ProviderSource as _;
use serde_json::{Value, json};

use super::super::{GGUF, GOOGLE, RunProviders};
use super::ask::{in_short, models_of, runtime};
use super::{ProviderSet, ProviderState};
use crate::settings::unwritten;

/// How long one reply may take; a local model may have to be loaded first.
const REPLY_LIMIT: Duration = Duration::from_secs(120);
const LIST_LIMIT: Duration = Duration::from_secs(10);
/// Enough for a word after some reasoning.
const MAX_OUTPUT: u64 = 2_048;
const TOOL: &str = "report_word";
const WORD: &str = "ready";

/// The results for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    pub provider: String,
    pub model: String,
    /// A streamed reply.
    pub stream: ProbeResult,
    /// A call of a tool that was asked for.
    pub tools: ProbeResult,
    /// A reply in JSON of a given schema.
    pub json: ProbeResult,
}

/// How one part of the test ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeResult {
    /// After so long.
    Works(Duration),
    /// The model or the server lacks it, and why.
    Lacks(String),
    /// Unknown, and why.
    Unknown(String),
}

impl ProbeResult {
    /// `None` if unknown.
    pub fn works(&self) -> Option<bool> {
        match self {
            Self::Works(_) => Some(true),
            Self::Lacks(_) => Some(false),
            Self::Unknown(_) => None,
        }
    }
}

impl ProviderSet {
    /// Asks a model for a streamed word, a tool call and JSON, and writes what works into the user settings.
    pub fn test(&self, id: &str, model: Option<&str>) -> Result<Probe, Failure> {
        let row = self.row(&self.find(id)?);
        if matches!(row.state, ProviderState::Failed) || self.lacks_key(&row.state) {
            return Err(self.unusable(&row));
        }
        let clients = self.clients(id)?;
        let refused = |error: ModelError| Failure::new(ExitKind::Auth, error.message);
        let client = wire_client(&clients, id).map_err(refused)?;
        let probe = runtime()?.block_on(async {
            let model = match model {
                Some(model) => model.strip_prefix(&format!("{id}/")).unwrap_or(model).to_owned(),
                None => self.first_model(&clients, id).await?,
            };
            Ok::<Probe, Failure>(probe(client, id, &model).await)
        })?;
        self.keep_probe(&probe)?;
        Ok(probe)
    }

    /// A key that only the command line names is not in the row.
    fn lacks_key(&self, state: &ProviderState) -> bool {
        *state == ProviderState::NoKey && self.loaded.api_key_env.is_none()
    }

    /// The provider's usual model, else the first one of the user or of the server.
    async fn first_model(&self, clients: &RunProviders, id: &str) -> Result<String, Failure> {
        let usual = self.find(id)?.default_model().map(str::to_owned);
        if let Some(model) = usual.or_else(|| clients.default_model(id)) {
            return Ok(model);
        }
        let listed = models_of(clients, id, LIST_LIMIT).await.map_err(|error| {
            Failure::new(ExitKind::Failure, error.message)
                .prefixed(&format!("could not list the models of `{id}`: "))
        })?;
        listed.into_keys().next().ok_or_else(|| {
            Failure::new(ExitKind::Input, format!("`{id}` lists no models")).hint("name one with `--model`")
        })
    }

    /// Stores what is certain; nothing if the provider did not answer at all.
    fn keep_probe(&self, probe: &Probe) -> Result<(), Failure> {
        if probe.stream.works() != Some(true) {
            return Ok(());
        }
        let mut found = json!({"stream": true, "at": SystemClock.now().to_iso()});
        for (key, result) in [("tools", &probe.tools), ("json", &probe.json)] {
            if let Some(works) = result.works() {
                found[key] = Value::Bool(works);
            }
        }
        let file = self.loaded.home.settings_file();
        let path = ["providers", &probe.provider, "probed", &probe.model];
        settings::set_path(&file, &path, &found).map(drop).map_err(|error| unwritten(&error))
    }
}

/// A client that uses the server's native tools: tools in the prompt would hide what the server lacks.
fn wire_client(clients: &RunProviders, id: &str) -> Result<Arc<dyn ModelClient>, ModelError> {
    if id == GGUF || GOOGLE.contains(&id) {
        return clients.connect(id);
    }
    let (endpoint, wire) = clients.endpoint(id)?;
    (wire.connect)(endpoint)
        .map_err(|error| ModelError::new(ModelErrorKind::BadRequest, None, error.to_string()))
}

async fn probe(client: Arc<dyn ModelClient>, id: &str, model: &str) -> Probe {
    let stream = timed(stream(&*client, model)).await;
    let (tools, json) = match &stream {
        ProbeResult::Works(_) => {
            (timed(call(&*client, model)).await, timed(structured(&*client, model)).await)
        }
        ProbeResult::Lacks(_) | ProbeResult::Unknown(_) => {
            let skipped = || ProbeResult::Unknown("not tested".to_owned());
            (skipped(), skipped())
        }
    };
    Probe { provider: id.to_owned(), model: model.to_owned(), stream, tools, json }
}

/// The result, with the time it took.
async fn timed(test: impl Future<Output = Result<(), ProbeResult>>) -> ProbeResult {
    let begun = Instant::now();
    match tokio::time::timeout(REPLY_LIMIT, test).await {
        Ok(Ok(())) => ProbeResult::Works(begun.elapsed()),
        Ok(Err(result)) => result,
        Err(_) => ProbeResult::Unknown(format!("no reply within {} s", REPLY_LIMIT.as_secs())),
    }
}

async fn stream(client: &dyn ModelClient, model: &str) -> Result<(), ProbeResult> {
    let prompt = format!("Answer with the single word \"{WORD}\".");
    let reply = reply(client, request(model, &prompt, GenerationSettings::default())).await?;
    match reply.text.trim() {
        "" => Err(ProbeResult::Lacks("the reply has no text".to_owned())),
        _ => Ok(()),
    }
}

async fn call(client: &dyn ModelClient, model: &str) -> Result<(), ProbeResult> {
    let settings = GenerationSettings {
        tool_choice: Setting::Set(ToolChoice::Only(TOOL.to_owned())),
        ..GenerationSettings::default()
    };
    let prompt = format!("Call the tool {TOOL} with the word \"{WORD}\".");
    let mut request = request(model, &prompt, settings);
    request.tools = Arc::from([Arc::new(ToolSpec {
        name: TOOL.to_owned(),
        display_name: TOOL.to_owned(),
        description: "Reports a word.".to_owned(),
        kind: ToolKind::Other,
        parameters: schema(),
        output_is_markdown: false,
        offloads_long_output: false,
    })]);
    let reply = reply(client, request).await?;
    match reply.calls {
        0 => Err(ProbeResult::Lacks("the model replied with text instead of calling the tool".to_owned())),
        _ => Ok(()),
    }
}

async fn structured(client: &dyn ModelClient, model: &str) -> Result<(), ProbeResult> {
    let output = OutputFormat::Json { name: Some("word".to_owned()), schema: Some(schema()), strict: true };
    let settings = GenerationSettings { output: Setting::Set(output), ..GenerationSettings::default() };
    let prompt = format!("Answer with a JSON object whose field `word` is \"{WORD}\".");
    let reply = reply(client, request(model, &prompt, settings)).await?;
    let value: Option<Value> = serde_json::from_str(reply.text.trim()).ok();
    match value.as_ref().and_then(|value| value.get("word")?.as_str()) {
        Some(_) => Ok(()),
        None => Err(ProbeResult::Lacks("the reply does not match the JSON schema".to_owned())),
    }
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {"word": {"type": "string", "description": "The word."}},
        "required": ["word"],
        "additionalProperties": false,
    })
}

fn request(model: &str, prompt: &str, mut settings: GenerationSettings) -> ModelRequest {
    settings.max_output = Setting::Set(MAX_OUTPUT);
    ModelRequest {
        model: model.to_owned(),
        chosen_by: Default::default(),
        role: RequestRole::Main,
        system: None,
        contents: vec![Arc::new(Content::user_text(prompt))],
        tools: Arc::from([]),
        settings,
        grounding: Default::default(),
    }
}

/// The parts of a reply that matter here.
#[derive(Default)]
struct Reply {
    text: String,
    calls: usize,
}

async fn reply(client: &dyn ModelClient, request: ModelRequest) -> Result<Reply, ProbeResult> {
    let mut stream = client.stream(request);
    let mut reply = Reply::default();
    while let Some(event) = stream.next().await {
        let event = event.map_err(|error| {
            // A server that refuses the request cannot do it; anything else may pass.
            match error.status {
                Some(400 | 404 | 422 | 501) => ProbeResult::Lacks(in_short(&error.message)),
                _ => ProbeResult::Unknown(in_short(&error.message)),
            }
        })?;
        let ReplyEvent::Chunk(chunk) = event else { continue };
        for part in chunk.parts {
            match part.body {
                Body::Text(text) => reply.text.push_str(&text),
                Body::Call(call) if call.name.ends_with(TOOL) => reply.calls += 1,
                _ => {}
            }
        }
    }
    Ok(reply)
}
